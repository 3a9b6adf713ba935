use std::time::Duration;

/// How often what came lay below each of some bounds.
#[derive(Clone, Debug, PartialEq)]
pub struct Histogram {
    bounds: &'static [f64],
    /// Those of each bound that lay below no earlier one; last, those above all.
    counts: Vec<u64>,
    sum: f64,
}

impl Histogram {
    /// With these bounds, which must rise; of times in seconds. What is above the last is counted, too.
    #[must_use]
    pub fn new(bounds: &'static [f64]) -> Self {
        Self { bounds, counts: vec![0; bounds.len() + 1], sum: 0.0 }
    }

    /// Counts a value; of times in seconds.
    pub fn observe(&mut self, value: f64) {
        let place = self.bounds.partition_point(|bound| *bound < value);
        self.counts[place] += 1;
        self.sum += value;
    }

    /// How many values came.
    #[must_use]
    pub fn count(&self) -> u64 {
        self.counts.iter().sum()
    }

    /// Their sum; of times in seconds.
    #[must_use]
    pub fn sum(&self) -> f64 {
        self.sum
    }

    /// Each bound, and how many values were not above it; the last is infinity.
    pub fn buckets(&self) -> impl Iterator<Item = (f64, u64)> {
        let bounds = self.bounds.iter().copied().chain([f64::INFINITY]);
        bounds.zip(self.counts.iter().scan(0, |below, count| {
            *below += count;
            Some(*below)
        }))
    }

    pub(super) fn observe_time(&mut self, time: Duration) {
        self.observe(time.as_secs_f64());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_on_a_bound_is_not_above_it() {
        let mut histogram = Histogram::new(&[1.0, 2.0]);
        [0.5, 1.0, 1.5, 2.5, 2.0].into_iter().for_each(|value| histogram.observe(value));
        assert_eq!(histogram.buckets().collect::<Vec<_>>(), [(1.0, 2), (2.0, 4), (f64::INFINITY, 5)]);
        assert_eq!((histogram.count(), histogram.sum()), (5, 7.5));
    }
}
