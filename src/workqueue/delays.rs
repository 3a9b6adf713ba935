use std::collections::{BTreeMap, HashMap};
use std::hash::Hash;
use std::time::Instant;

use crate::shrink;

/// Items that wait for their time, each once and at its earliest deadline.
///
/// A sorted map rather than a binary heap: a deadline that is replaced by an earlier one leaves, so that the memory
/// is that of the items which wait.
pub(super) struct Delays<T> {
    /// By deadline, then by order of arrival.
    order: BTreeMap<(Instant, u64), T>,
    waits: HashMap<T, Wait>,
    next_number: u64,
}

#[derive(Clone, Copy)]
struct Wait {
    place: (Instant, u64),
    charged: bool,
}

impl<T> Default for Delays<T> {
    fn default() -> Self {
        Self { order: BTreeMap::new(), waits: HashMap::new(), next_number: 0 }
    }
}

impl<T: Clone + Eq + Hash> Delays<T> {
    /// Lets `item` wait until `at`, or until the earlier deadline that it has; returns which. `charged` says that the
    /// rate limiter was asked for this wait.
    pub(super) fn insert(&mut self, item: T, at: Instant, charged: bool) -> Instant {
        let place = (at, self.next_number);
        self.next_number += 1;
        if let Some(wait) = self.waits.get_mut(&item) {
            wait.charged |= charged;
            if wait.place.0 <= at {
                return wait.place.0;
            }
            self.order.remove(&wait.place);
            wait.place = place;
        } else {
            self.waits.insert(item.clone(), Wait { place, charged });
        }
        self.order.insert(place, item);
        at
    }

    /// The deadline for which the rate limiter was asked, if `item` waits for one.
    pub(super) fn charged(&self, item: &T) -> Option<Instant> {
        self.waits.get(item).filter(|wait| wait.charged).map(|wait| wait.place.0)
    }

    /// Lets the rate limiter be asked again for `item`. Its deadline stays.
    pub(super) fn uncharge(&mut self, item: &T) {
        if !self.is_empty() {
            if let Some(wait) = self.waits.get_mut(item) {
                wait.charged = false;
            }
        }
    }

    pub(super) fn is_empty(&self) -> bool {
        self.order.is_empty()
    }

    /// The earliest deadline.
    pub(super) fn first(&self) -> Option<Instant> {
        self.order.first_key_value().map(|((at, _), _)| *at)
    }

    #[cfg(test)]
    pub(super) fn capacity(&self) -> usize {
        self.waits.capacity()
    }

    /// Takes the next item whose time has come.
    pub(super) fn pop_due(&mut self, now: Instant) -> Option<T> {
        let entry = self.order.first_entry().filter(|entry| entry.key().0 <= now)?;
        let item = entry.remove();
        self.waits.remove(&item);
        if let Some(capacity) = shrink::target(self.waits.len(), self.waits.capacity()) {
            self.waits.shrink_to(capacity);
        }
        Some(item)
    }
}
