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

/// Which resource is meant: its name, read once.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Named<'a> {
    /// CPU.
    Cpu,
    /// Memory.
    Memory,
    /// Local storage.
    Storage,
    /// Any other.
    Scalar(&'a str),
}

impl<'a> From<&'a str> for Named<'a> {
    fn from(name: &'a str) -> Self {
        match name {
            "cpu" => Self::Cpu,
            "memory" => Self::Memory,
            "ephemeral-storage" => Self::Storage,
            name => Self::Scalar(name),
        }
    }
}

impl Amounts {
    /// Nothing.
    pub const NOTHING: Self =
        Self { cpu_millis: 0, memory_bytes: 0, storage_bytes: 0, scalars: Vec::new() };

    /// Takes so much away, as far as there is as much.
    pub fn reduce(&mut self, less: &Self) {
        let left = |own: i64, less: i64| own.saturating_sub(less).max(0);
        self.cpu_millis = left(self.cpu_millis, less.cpu_millis);
        self.memory_bytes = left(self.memory_bytes, less.memory_bytes);
        self.storage_bytes = left(self.storage_bytes, less.storage_bytes);
        self.scalars.retain_mut(|(name, own)| {
            *own = left(*own, less.scalar(name));
            *own != 0
        });
    }

    /// Whether nothing is asked for. A scalar that is named counts, even with the amount 0.
    #[must_use]
    pub fn is_nothing(&self) -> bool {
        let plain = [self.cpu_millis, self.memory_bytes, self.storage_bytes];
        plain == [0; 3] && self.scalars.is_empty()
    }

    /// The amount of a resource.
    #[must_use]
    pub fn of(&self, resource: &str) -> i64 {
        self.named(resource.into())
    }

    /// The same, where the name was read already.
    #[must_use]
    pub fn named(&self, resource: Named<'_>) -> i64 {
        match resource {
            Named::Cpu => self.cpu_millis,
            Named::Memory => self.memory_bytes,
            Named::Storage => self.storage_bytes,
            Named::Scalar(name) => self.scalar(name),
        }
    }

    /// Resources of which there is more than nothing.
    pub fn names(&self) -> impl Iterator<Item = &str> {
        let plain = ["cpu", "memory", "ephemeral-storage"];
        let scalars = self.scalars.iter().map(|(name, _)| &**name);
        plain.into_iter().chain(scalars).filter(|name| self.of(name) > 0)
    }

    /// Adds other amounts, or takes them away. What becomes nothing is not named any longer.
    pub fn add(&mut self, other: &Self, sign: i64) {
        let sum = |own: &mut i64, more: i64| *own = own.saturating_add(more.saturating_mul(sign));
        sum(&mut self.cpu_millis, other.cpu_millis);
        sum(&mut self.memory_bytes, other.memory_bytes);
        sum(&mut self.storage_bytes, other.storage_bytes);
        for (name, more) in &other.scalars {
            match self.scalars.binary_search_by(|(own, _)| own.cmp(name)) {
                Ok(place) => {
                    sum(&mut self.scalars[place].1, *more);
                    if self.scalars[place].1 == 0 {
                        self.scalars.remove(place);
                    }
                }
                Err(place) => self.scalars.insert(place, (name.clone(), more.saturating_mul(sign))),
            }
        }
    }

    /// With this much of a resource.
    pub fn put(&mut self, resource: &str, amount: i64) {
        match resource {
            "cpu" => self.cpu_millis = amount,
            "memory" => self.memory_bytes = amount,
            "ephemeral-storage" => self.storage_bytes = amount,
            name => match self.scalars.binary_search_by(|(own, _)| (**own).cmp(name)) {
                Ok(place) => self.scalars[place].1 = amount,
                Err(place) => self.scalars.insert(place, (name.into(), amount)),
            },
        }
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
