//! What pods say of quotas.

use crate::malformed::{Malformed, flag};
use crate::pod::Pod;

/// Pod label: the quota that the pod is charged to.
pub const QUOTA_NAME_LABEL: &str = "quota.scheduling.koordinator.sh/name";
/// Pod label: `false` says that the pod never makes room for others, and so is charged to what its quota
/// is guaranteed.
pub const PREEMPTIBLE_LABEL: &str = "quota.scheduling.koordinator.sh/preemptible";

/// The quota that a pod names; none where it leaves that to its namespace.
#[must_use]
pub fn quota_name(pod: &Pod) -> Option<&str> {
    let name = pod.metadata.labels.get(QUOTA_NAME_LABEL)?;
    Some(name.as_str()).filter(|name| !name.is_empty())
}

/// Whether a pod may have to make room for others of its quota.
///
/// # Errors
/// When what it says is neither yes nor no. It may, then.
pub fn is_preemptible(pod: &Pod) -> Result<bool, Malformed> {
    Ok(flag(&pod.metadata.labels, PREEMPTIBLE_LABEL)?.unwrap_or(true))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn pod(key: &str, value: &str) -> Pod {
        serde_json::from_value(json!({ "metadata": { "labels": { key: value } } })).unwrap()
    }

    #[test]
    fn a_pod_may_name_its_quota() {
        assert_eq!(quota_name(&pod(QUOTA_NAME_LABEL, "team-a")), Some("team-a"));
        assert_eq!(quota_name(&pod(QUOTA_NAME_LABEL, "")), None);
        assert_eq!(quota_name(&Pod::default()), None);
    }

    #[test]
    fn a_pod_makes_room_unless_it_says_that_it_does_not() {
        let check = |word: &str, expected: Result<bool, &str>| {
            let read = is_preemptible(&pod(PREEMPTIBLE_LABEL, word));
            assert_eq!(
                read.map_err(|error| error.value().to_owned()),
                expected.map_err(str::to_owned)
            );
        };
        check("false", Ok(false));
        check("true", Ok(true));
        check("", Ok(true));
        check("False", Err("False"));
        check("no", Err("no"));
        assert_eq!(is_preemptible(&Pod::default()), Ok(true));
    }
}
