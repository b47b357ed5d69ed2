//! All kinds a server knows at one moment.

use std::collections::BTreeMap;
use std::sync::Arc;

use super::{Kind, Version};

/// A resource in the version a request names.
#[derive(Clone)]
pub struct Found {
    /// The kind.
    pub kind: Arc<Kind>,
    index: usize,
}

impl Found {
    /// The version asked for.
    #[must_use]
    pub fn version(&self) -> &Version {
        &self.kind.versions[self.index]
    }
}

/// All kinds, by group, version and resource. A change makes a new registry.
#[derive(Clone, Default)]
pub struct Registry {
    kinds: BTreeMap<(String, String), Arc<Kind>>,
    /// Groups in the order discovery lists them, each with its versions, preferred first.
    groups: Vec<(String, Vec<String>)>,
}

impl Registry {
    /// Makes an empty registry that lists these groups first.
    #[must_use]
    pub fn new(groups: Vec<(String, Vec<String>)>) -> Self {
        Self { kinds: BTreeMap::new(), groups }
    }

    /// The resource in a version.
    #[must_use]
    pub fn find(&self, group: &str, version: &str, resource: &str) -> Option<Found> {
        let kind = self.kinds.get(&(group.to_owned(), resource.to_owned()))?;
        let index = kind.versions.iter().position(|offered| offered.name == version)?;
        Some(Found { kind: Arc::clone(kind), index })
    }

    /// The resource, in whatever version.
    #[must_use]
    pub fn resource(&self, group: &str, resource: &str) -> Option<&Arc<Kind>> {
        self.kinds.get(&(group.to_owned(), resource.to_owned()))
    }

    /// The kind of this name.
    #[must_use]
    pub fn by_kind(&self, group: &str, kind: &str) -> Option<&Arc<Kind>> {
        self.kinds().find(|known| known.group == group && known.names.kind == kind)
    }

    /// Whether anything of this group is served.
    #[must_use]
    pub fn has_group(&self, group: &str) -> bool {
        self.groups.iter().any(|(known, _)| known == group)
    }

    /// Whether a group is built in. The core group is.
    #[must_use]
    pub fn is_native(&self, group: &str) -> bool {
        self.kinds().any(|kind| kind.group == group && !kind.is_custom())
    }

    /// Every kind, by group and plural name.
    pub fn kinds(&self) -> impl Iterator<Item = &Arc<Kind>> {
        self.kinds.values()
    }

    /// Adds a kind, or puts it in the place of the one of the same name.
    pub fn put(&mut self, kind: Arc<Kind>) {
        self.extend([kind]);
    }

    /// Adds many kinds at once.
    pub fn extend(&mut self, kinds: impl IntoIterator<Item = Arc<Kind>>) {
        for kind in kinds {
            self.kinds.insert((kind.group.clone(), kind.names.plural.clone()), kind);
        }
        self.regroup();
    }

    /// Takes a kind away.
    pub fn remove(&mut self, group: &str, plural: &str) {
        self.kinds.remove(&(group.to_owned(), plural.to_owned()));
        self.regroup();
    }

    /// Groups in discovery order, each with its versions, preferred first.
    #[must_use]
    pub fn groups(&self) -> &[(String, Vec<String>)] {
        &self.groups
    }

    /// Lists custom groups after the built-in ones, by name, and their versions by age.
    fn regroup(&mut self) {
        let native: Vec<_> = self
            .groups
            .iter()
            .filter(|(group, _)| {
                self.kinds.values().any(|kind| &kind.group == group && !kind.is_custom())
            })
            .cloned()
            .collect();
        let mut custom: BTreeMap<&str, Vec<String>> = BTreeMap::new();
        for kind in self.kinds.values().filter(|kind| kind.is_custom()) {
            let versions = custom.entry(&kind.group).or_default();
            for version in &kind.versions {
                if !versions.contains(&version.name) {
                    versions.push(version.name.clone());
                }
            }
        }
        let mut groups = native;
        for (group, mut versions) in custom {
            versions.sort_by_key(|version| std::cmp::Reverse(version_order(version)));
            match groups.iter_mut().find(|(known, _)| known == group) {
                Some((_, known)) => {
                    known.extend(
                        versions
                            .into_iter()
                            .filter(|name| !known.contains(name))
                            .collect::<Vec<_>>(),
                    );
                }
                None => groups.push((group.to_owned(), versions)),
            }
        }
        self.groups = groups;
    }
}

/// Orders versions as Kubernetes does: stable before beta before alpha, higher
/// before lower, anything else after them by name. Greater is preferred.
pub(super) fn version_order(version: &str) -> (u8, u64, u64, std::cmp::Reverse<String>) {
    let unknown = (0, 0, 0, std::cmp::Reverse(version.to_owned()));
    let Some(rest) = version.strip_prefix('v') else { return unknown };
    let digits = rest.find(|character: char| !character.is_ascii_digit()).unwrap_or(rest.len());
    let Ok(major) = rest[..digits].parse() else { return unknown };
    let (level, minor) = match &rest[digits..] {
        "" => (3, ""),
        tail if tail.starts_with("beta") => (2, &tail[4..]),
        tail if tail.starts_with("alpha") => (1, &tail[5..]),
        _ => return unknown,
    };
    let minor = if minor.is_empty() { Ok(0) } else { minor.parse() };
    let Ok(minor) = minor else { return unknown };
    (level, major, minor, std::cmp::Reverse(String::new()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn versions_are_preferred_by_stability_then_number() {
        let mut versions =
            ["v1", "v10beta3", "foo10", "v12alpha1", "v2", "v11alpha2", "v3beta1", "v10"];
        versions.sort_by_key(|version| std::cmp::Reverse(version_order(version)));
        assert_eq!(
            versions,
            ["v10", "v2", "v1", "v10beta3", "v3beta1", "v12alpha1", "v11alpha2", "foo10"]
        );
    }
}
