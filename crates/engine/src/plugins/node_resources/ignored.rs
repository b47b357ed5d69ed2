//! Extended resources that are left to others.

/// Extended resources that are not looked at.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct IgnoredResources {
    /// By name.
    pub names: Vec<Box<str>>,
    /// By group, such as `example.com`.
    pub groups: Vec<Box<str>>,
}

impl IgnoredResources {
    /// Whether a resource is one of them.
    #[must_use]
    pub fn contain(&self, name: &str) -> bool {
        // Huge pages and other resources of Kubernetes itself are always looked at.
        let extended = name.contains('/') && !name.contains("kubernetes.io/");
        let group = name.split('/').next().unwrap_or_default();
        extended
            && (self.names.iter().any(|own| **own == *name)
                || self.groups.iter().any(|own| **own == *group))
    }
}
