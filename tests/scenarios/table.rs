/// A table of scenarios: `NAME: BACKOFF, WHAT HAPPENS;`, each a test in each list mode, played by the `play` in scope.
macro_rules! scenarios {
    ($($(#[$meta:meta])* $name:ident: $within:expr, $act:expr;)*) => {$(
        mod $name {
            #[allow(unused_imports)]
            use super::*;

            scenarios!(@ $(#[$meta])* paged, listwatch::ListMode::Paged(2), $within, $act);
            scenarios!(@ $(#[$meta])* watch_list, listwatch::ListMode::WatchList, $within, $act);
            scenarios!(@ $(#[$meta])* cached, listwatch::ListMode::Cached, $within, $act);
        }
    )*};
    (@ $(#[$meta:meta])* $mode:ident, $value:expr, $within:expr, $act:expr) => {
        #[test]
        $(#[$meta])*
        fn $mode() {
            play($value, $within, $act);
        }
    };
}
