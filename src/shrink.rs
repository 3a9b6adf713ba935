//! When a collection that a burst has filled gives its memory back.

/// So many places are kept at least.
const LEAST: usize = 64;

/// The capacity to shrink to, for a collection of `len` items with room for `capacity`, if it is time: once an eighth
/// is used. As that leaves room for as many again, no item moves more often than a few times for each that came or
/// went.
pub(crate) fn target(len: usize, capacity: usize) -> Option<usize> {
    (capacity > 2 * LEAST && len < capacity / 8).then_some(LEAST.max(len * 2))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_goes_up_and_down_moves_few_items() {
        let (mut items, mut moved, mut steps) = (Vec::new(), 0, 0);
        for round in 0..200 {
            let high = if round % 2 == 0 { 100_000 } else { 3000 };
            while items.len() < high {
                let before = items.capacity();
                items.push(steps);
                moved += if items.capacity() == before { 0 } else { items.len() };
                steps += 1;
            }
            while items.pop().is_some() {
                steps += 1;
                if let Some(capacity) = target(items.len(), items.capacity()) {
                    items.shrink_to(capacity);
                    moved += items.len();
                }
            }
            assert!(items.capacity() <= 2 * LEAST);
        }
        assert!(moved < 2 * steps, "{moved} moves in {steps} steps");
    }
}
