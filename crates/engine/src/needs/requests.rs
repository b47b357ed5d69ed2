//! Requests: what a pod is charged for.

/// Amounts of resources. Plain ones have their own place; the others are sorted by name, without
/// repeats.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Amounts {
    /// Thousandths of a CPU.
    pub cpu_millis: i64,
    /// Bytes of memory.
    pub memory_bytes: i64,
    /// Bytes of local storage.
    pub storage_bytes: i64,
    /// Extended resources, huge pages and attachable volumes.
    pub scalars: Vec<(Box<str>, i64)>,
}

impl Amounts {
    /// Whether nothing is asked for. A scalar that is named counts, even with the amount 0.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let plain = [self.cpu_millis, self.memory_bytes, self.storage_bytes];
        plain == [0; 3] && self.scalars.is_empty()
    }

    /// The amount of a scalar resource.
    #[must_use]
    pub fn scalar(&self, name: &str) -> i64 {
        let place = self.scalars.binary_search_by(|(own, _)| (**own).cmp(name));
        place.map_or(0, |place| self.scalars[place].1)
    }
}

/// What a pod requests of its node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Requests {
    /// What it is charged for.
    pub charged: Amounts,
    /// CPU for scoring, where a container that requests none counts as a tenth of one.
    pub cpu_millis_scored: i64,
    /// Memory for scoring, where a container that requests none counts as 200 MiB.
    pub memory_bytes_scored: i64,
}
