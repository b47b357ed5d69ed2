//! Which quota a pod is charged to.

use api::elastic_quota::{DEFAULT_QUOTA, ROOT_QUOTA, SYSTEM_QUOTA};

use super::Register;

/// What becomes of pods that belong to no quota.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub enum DefaultQuota {
    /// They are charged to the default quota.
    #[default]
    On,
    /// They are charged to none, and only what a pod names itself counts.
    Off,
}

/// The quota that a pod of a namespace is charged to, by what it names: that, or else the quota that is
/// called as its namespace and lives there, or else the one that lists its namespace, or else the default
/// quota. None where it is charged to nobody.
#[must_use]
pub fn belongs<'a>(
    register: &'a Register,
    named: Option<&'a str>,
    namespace: &'a str,
    default: DefaultQuota,
) -> Option<&'a str> {
    // Nothing is charged to the root, and two are there whether somebody told of them or not.
    let is_there = |name: &&str| {
        let is_always = matches!(*name, DEFAULT_QUOTA | SYSTEM_QUOTA);
        *name != ROOT_QUOTA && (is_always || register.get(name).is_some())
    };
    let found = match (named, default) {
        (Some(name), _) => Some(name),
        (None, DefaultQuota::Off) => None,
        (None, DefaultQuota::On) => {
            let of_its_name = register.get(namespace).filter(|fact| &*fact.namespace == namespace);
            of_its_name.map(|fact| &*fact.name).or_else(|| register.of_namespace(namespace))
        }
    };
    let otherwise = match default {
        DefaultQuota::On => Some(DEFAULT_QUOTA),
        DefaultQuota::Off => None,
    };
    found.filter(is_there).or(otherwise)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::quota::{ByResource, QuotaFact};

    fn register() -> Register {
        let mut register = Register::default();
        let mut put = |namespace: &str, name: &str, lists: &[&str]| {
            let namespaces = lists.iter().map(|name| Box::from(*name)).collect();
            let fact = QuotaFact::new(name, ByResource::new());
            register.put(QuotaFact { namespace: namespace.into(), namespaces, ..fact });
        };
        put("team-a", "team-a", &[]);
        put("elsewhere", "team-b", &[]);
        put("quotas", "shared", &["ns1", "ns2", "team-a"]);
        put("quotas", ROOT_QUOTA, &["ns3"]);
        register
    }

    fn check(named: Option<&str>, namespace: &str, default: DefaultQuota, expected: Option<&str>) {
        assert_eq!(
            belongs(&register(), named, namespace, default),
            expected,
            "{named:?} {namespace}"
        );
    }

    #[test]
    fn s12_a16_a_pod_belongs_to_the_quota_that_is_called_as_its_namespace_and_lives_there() {
        check(None, "team-a", DefaultQuota::On, Some("team-a"));
        check(None, "team-b", DefaultQuota::On, Some(DEFAULT_QUOTA));
        check(Some("shared"), "team-a", DefaultQuota::On, Some("shared"));
        check(None, "team-a", DefaultQuota::Off, None);
    }

    #[test]
    fn s12_a17_or_to_the_one_that_lists_its_namespace() {
        check(None, "ns2", DefaultQuota::On, Some("shared"));
        check(None, "ns9", DefaultQuota::On, Some(DEFAULT_QUOTA));
        check(None, "ns2", DefaultQuota::Off, None);
        check(None, "ns3", DefaultQuota::On, Some(DEFAULT_QUOTA));
    }

    #[test]
    fn s12_a18_who_names_a_quota_that_is_not_there_belongs_to_the_default_one_or_to_none() {
        check(Some("gone"), "team-a", DefaultQuota::On, Some(DEFAULT_QUOTA));
        check(Some("gone"), "team-a", DefaultQuota::Off, None);
        check(Some("team-b"), "team-a", DefaultQuota::Off, Some("team-b"));
        check(Some(SYSTEM_QUOTA), "kube-system", DefaultQuota::Off, Some(SYSTEM_QUOTA));
        check(Some(ROOT_QUOTA), "team-a", DefaultQuota::On, Some(DEFAULT_QUOTA));
    }
}
