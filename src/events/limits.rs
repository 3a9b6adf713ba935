use std::collections::HashMap;
use std::time::{Duration, Instant};

use crate::object::Text;
use crate::types::Event;
use crate::workqueue::{BucketRateLimiter, RateLimit};

/// So many events of one object may come at once …
const BURST: u32 = 25;
/// … and then one in this time: `defaultSpamBurst` and `defaultSpamQPS` of client-go's `tools/record`.
const EVERY: Duration = Duration::from_secs(5 * 60);
/// So many objects are remembered, as in client-go.
const MOST: usize = 4096;

/// How many new events of one object and type may come.
#[derive(Debug, Default)]
pub(super) struct Limits(HashMap<Source, (BucketRateLimiter, Instant)>);

/// `getSpamKey` of client-go: a recorder is one source.
#[derive(Debug, PartialEq, Eq, Hash)]
struct Source {
    type_: Text,
    api_version: Text,
    kind: Text,
    namespace: Text,
    name: String,
    uid: String,
}

impl Limits {
    /// Whether this one may; counts it if so.
    pub(super) fn pass(&mut self, event: &Event, now: Instant) -> bool {
        let regarding = &event.regarding;
        let source = Source {
            type_: event.type_.clone(),
            api_version: regarding.api_version.clone(),
            kind: regarding.kind.clone(),
            namespace: regarding.namespace.clone(),
            name: regarding.name.clone(),
            uid: regarding.uid.clone(),
        };
        if self.0.len() >= MOST && !self.0.contains_key(&source) {
            self.make_room(now);
        }
        let (bucket, last) =
            self.0.entry(source).or_insert_with(|| (BucketRateLimiter::new(EVERY, BURST), now));
        // A token that would come later is not taken: nobody waits for it.
        let mut taken = bucket.clone();
        let pass = taken.when(&(), now).is_zero();
        if pass {
            (*bucket, *last) = (taken, now);
        }
        pass
    }

    /// Forgets those that are full again; if there are none, the one that is nearest to it.
    fn make_room(&mut self, now: Instant) {
        self.0.retain(|_, (_, last)| now < *last + EVERY * BURST);
        if self.0.len() >= MOST {
            let oldest = self.0.values().map(|(_, last)| *last).min();
            self.0.retain(|_, (_, last)| Some(*last) > oldest);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::clock::Clock;
    use crate::types::ObjectReference;

    #[test]
    fn no_more_objects_are_remembered_than_there_is_room_for() {
        let (mut limits, mut now) = (Limits::default(), Clock::system().now());
        let of = |name: usize| Event {
            regarding: ObjectReference { name: name.to_string(), ..ObjectReference::default() },
            ..Event::default()
        };
        for object in 0..MOST * 2 {
            now += Duration::from_secs(1);
            assert!(limits.pass(&of(object), now));
            assert!(limits.0.len() <= MOST);
        }
        let last = of(MOST * 2 - 1);
        assert_eq!((0..30).filter(|_| limits.pass(&last, now)).count(), 24, "one was taken before");
    }
}
