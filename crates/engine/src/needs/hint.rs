//! Nodes that were chosen for a pod before.

/// Nodes that were chosen for a pod before.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct Hint {
    /// The only ones that it may get; all where none are named.
    pub nodes: Box<[Box<str>]>,
    /// Those that are tried first, in this order.
    pub preferred: Box<[Box<str>]>,
    /// What it says that cannot be read, in words: then no node takes it.
    pub malformed: Option<Box<str>>,
}
