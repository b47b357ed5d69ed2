//! What a pod wants of CPUs and NUMA nodes.

use crate::cpus::{Binding, Exclusive};
use crate::fact::NumaPolicy;

/// What a pod wants of CPUs and NUMA nodes, besides how many CPUs.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct CpuNeeds {
    /// Whether it is of a class that gets CPUs of its own.
    pub is_sensitive: bool,
    /// How they must lie to each other.
    pub required: Option<Wish>,
    /// How they would best lie to each other.
    pub preferred: Option<Wish>,
    /// What they do not share, if that can be.
    pub exclusive: Exclusive,
    /// How what it gets must lie on NUMA nodes.
    pub numa: Option<NumaPolicy>,
    /// Whether it keeps away from NUMA nodes that are used the other way.
    pub is_apart: Option<bool>,
    /// What it says that cannot be read, in words: then no node takes it.
    pub malformed: Option<Box<str>>,
}

/// How CPUs are to lie to each other.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Wish {
    /// As the profile says.
    Default,
    /// So.
    So(Binding),
}

impl Wish {
    /// How, where the profile says this.
    #[must_use]
    pub fn or(self, default: Option<Binding>) -> Option<Binding> {
        match self {
            Self::Default => default,
            Self::So(binding) => Some(binding),
        }
    }
}

impl CpuNeeds {
    /// Whether it must be so, and how the CPUs of such a pod lie to each other, where it is one that
    /// gets CPUs of its own.
    #[must_use]
    pub fn wish(&self, default: Option<Binding>) -> Option<(bool, Binding)> {
        let own = match (self.required, self.preferred) {
            (Some(required), _) => (true, required),
            (None, preferred) => (false, preferred.unwrap_or(Wish::Default)),
        };
        let binding = own.1.or(default).filter(|_| self.is_sensitive)?;
        Some((own.0, binding))
    }
}
