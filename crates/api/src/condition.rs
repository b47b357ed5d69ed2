//! Conditions of native kinds: what a controller or node agent last found out.
//!
//! `object::condition` has the form that newer kinds share; native kinds are older,
//! keep other times beside it and leave out more.

use object::time::Time;
use serde::{Deserialize, Serialize};

/// One condition in the status of any kind. The kinds differ in the times they keep;
/// those that a kind does not have stay `None` and are not written.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Condition {
    /// What the condition is about, as in `Ready`.
    pub r#type: String,
    /// `True`, `False` or `Unknown`.
    pub status: String,
    /// Why, as one word.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// Why, in words.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When `status` last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_transition_time: Option<Time>,
    /// Pods and jobs: when it was last looked at.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_probe_time: Option<Time>,
    /// Nodes: when the kubelet last reported it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_heartbeat_time: Option<Time>,
    /// Deployments: when anything but the message last changed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// Generation of the object that the condition speaks of.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub observed_generation: Option<i64>,
}

impl Condition {
    /// Whether the status is `True`.
    #[must_use]
    pub fn is_true(&self) -> bool {
        self.status == "True"
    }
}

/// The condition of type `name`, if the list has one.
#[must_use]
pub fn find<'a>(conditions: &'a [Condition], name: &str) -> Option<&'a Condition> {
    conditions.iter().find(|condition| condition.r#type == name)
}

/// Puts `new` in the place of the condition of its type, or at the end. The time of
/// transition is kept while the status stays the same, and is `now` otherwise. Says
/// whether the list differs from before.
pub fn set(conditions: &mut Vec<Condition>, mut new: Condition, now: Time) -> bool {
    let Some(old) = conditions.iter_mut().find(|old| old.r#type == new.r#type) else {
        new.last_transition_time = Some(now);
        conditions.push(new);
        return true;
    };
    let kept = old.last_transition_time.filter(|_| old.status == new.status);
    new.last_transition_time = Some(kept.unwrap_or(now));
    let changed = *old != new;
    *old = new;
    changed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_time_of_transition_moves_with_the_status_alone() {
        let mut conditions = Vec::new();
        let mut check = |status: &str, reason: &str, now: &str, changed: bool, since: &str| {
            let new = Condition {
                r#type: "Ready".to_owned(),
                status: status.to_owned(),
                reason: reason.to_owned(),
                ..Condition::default()
            };
            assert_eq!(set(&mut conditions, new, now.parse().unwrap()), changed);
            let found = find(&conditions, "Ready").unwrap();
            assert_eq!(found.last_transition_time, Some(since.parse().unwrap()));
            assert_eq!((found.is_true(), found.reason.as_str()), (status == "True", reason));
            assert_eq!(conditions.len(), 1);
        };
        let (first, second, third) =
            ("2026-01-01T00:00:01Z", "2026-01-01T00:00:02Z", "2026-01-01T00:00:03Z");
        check("False", "Starting", first, true, first);
        check("False", "Starting", second, false, first);
        check("False", "Slow", second, true, first);
        check("True", "Up", third, true, third);
        assert_eq!(find(&[], "Ready"), None);
    }
}
