//! What can be told from resource versions alone.

use std::cmp::Ordering;

/// Whether a watch can go on from this version: not from none, nor from `0`, which is any.
pub(super) fn is_position(version: &str) -> bool {
    !matches!(version, "" | "0")
}

/// Whether a version is of an earlier state than another. Versions are decimal numbers of any length
/// (KEP-5504, comparable resource versions); of others nothing is known.
pub(super) fn is_behind(version: &str, other: &str) -> bool {
    let is_number = |text: &str| {
        !text.is_empty() && !text.starts_with('0') && text.bytes().all(|byte| byte.is_ascii_digit())
    };
    is_number(version)
        && is_number(other)
        && version.len().cmp(&other.len()).then_with(|| version.cmp(other)) == Ordering::Less
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_compared_as_numbers_of_any_length() {
        for (earlier, later) in
            [("9", "10"), ("99", "100"), ("12", "13"), ("1", "99999999999999999999999999")]
        {
            assert!(is_behind(earlier, later) && !is_behind(later, earlier), "{earlier} {later}");
        }
        for (one, other) in
            [("7", "7"), ("", "5"), ("0", "5"), ("5", "0"), ("a4", "a5"), ("05", "6"), ("-1", "2")]
        {
            assert!(!is_behind(one, other) && !is_behind(other, one), "{one} {other}");
        }
    }
}
