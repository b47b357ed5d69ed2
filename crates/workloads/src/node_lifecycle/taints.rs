//! Which taints the conditions of a node ask for.

use api::Condition;
use jiff::Timestamp;
use object::taint::{Effect, Taint};

use super::health::ready;
use crate::facts::NodeFact;

/// The node says that it is not ready.
pub const NOT_READY: &str = "node.kubernetes.io/not-ready";
/// The node says nothing any more.
pub const UNREACHABLE: &str = "node.kubernetes.io/unreachable";
/// The node is cordoned.
const UNSCHEDULABLE: &str = "node.kubernetes.io/unschedulable";
/// What a condition asks for while it has a status.
const BY_CONDITION: [(&str, &str, &str); 6] = [
    ("Ready", "False", NOT_READY),
    ("Ready", "Unknown", UNREACHABLE),
    ("MemoryPressure", "True", "node.kubernetes.io/memory-pressure"),
    ("DiskPressure", "True", "node.kubernetes.io/disk-pressure"),
    ("NetworkUnavailable", "True", "node.kubernetes.io/network-unavailable"),
    ("PIDPressure", "True", "node.kubernetes.io/pid-pressure"),
];

/// Whether pods may be driven off a node now.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Leave {
    /// They may.
    Given,
    /// They may not; a taint that is there stays.
    Withheld,
    /// They may not, and a taint that is there goes: no node at all is ready.
    Revoked,
}

/// Whether the taint that drives pods off is missing: then leave has to be asked for. A
/// node that goes from one of the two to the other needs none.
#[must_use]
pub fn needs_leave(node: &NodeFact) -> bool {
    let is_bad = ready(&node.conditions).is_some_and(|ready| !ready.is_true());
    let drives = |taint: &Taint| {
        taint.effect == Some(Effect::NoExecute)
            && (taint.key == NOT_READY || taint.key == UNREACHABLE)
    };
    is_bad && !node.taints.iter().any(drives)
}

/// The taints that a node should have; `None` when it has them.
#[must_use]
pub fn wanted(node: &NodeFact, leave: Leave, now: Timestamp) -> Option<Vec<Taint>> {
    let is_so = |condition: &Condition, kind: &str, status: &str| {
        condition.r#type == kind && condition.status == status
    };
    let mut keys: Vec<&str> = BY_CONDITION
        .iter()
        .filter(|(kind, status, _)| node.conditions.iter().any(|own| is_so(own, kind, status)))
        .map(|(_, _, key)| *key)
        .collect();
    if node.unschedulable {
        keys.push(UNSCHEDULABLE);
    }
    let drive = keys.iter().copied().find(|key| *key == NOT_READY || *key == UNREACHABLE);
    let is_ours = |taint: &Taint| {
        let known = |key: &str| BY_CONDITION.iter().any(|(_, _, own)| *own == key);
        match taint.effect {
            Some(Effect::NoSchedule) => taint.key == UNSCHEDULABLE || known(&taint.key),
            Some(Effect::NoExecute) => taint.key == NOT_READY || taint.key == UNREACHABLE,
            _ => false,
        }
    };
    let drives_now =
        node.taints.iter().any(|taint| taint.effect == Some(Effect::NoExecute) && is_ours(taint));
    // A node without a report keeps what drives its pods off until it reports.
    let knows = ready(&node.conditions).is_some();
    let mut taints: Vec<Taint> = Vec::new();
    for taint in &node.taints {
        let stays = !is_ours(taint)
            || match taint.effect {
                Some(Effect::NoExecute) => {
                    leave != Leave::Revoked && (!knows || drive == Some(taint.key.as_str()))
                }
                _ => keys.contains(&taint.key.as_str()),
            };
        if stays {
            taints.push(taint.clone());
        }
    }
    let has = |taints: &[Taint], key: &str, effect: &Effect| {
        taints.iter().any(|own| own.key == key && own.effect.as_ref() == Some(effect))
    };
    let added = |key: &str, effect: Effect| Taint {
        key: key.to_owned(),
        effect: Some(effect),
        time_added: Some(now.into()),
        ..Taint::default()
    };
    for key in keys {
        if !has(&taints, key, &Effect::NoSchedule) {
            taints.push(added(key, Effect::NoSchedule));
        }
    }
    let drives = match leave {
        Leave::Given => true,
        Leave::Withheld => drives_now,
        Leave::Revoked => false,
    };
    if let Some(key) = drive.filter(|_| drives)
        && !has(&taints, key, &Effect::NoExecute)
    {
        taints.push(added(key, Effect::NoExecute));
    }
    (taints != node.taints).then_some(taints)
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::facts::testing::at;

    fn node(conditions: &str, taints: &str, unschedulable: bool) -> NodeFact {
        let conditions: Vec<_> = conditions
            .split_whitespace()
            .map(|word| {
                let (kind, status) = word.split_once('=').unwrap();
                json!({ "type": kind, "status": status })
            })
            .collect();
        let taints: Vec<_> = taints
            .split_whitespace()
            .map(|word| {
                let (key, effect) = word.split_once(':').unwrap();
                let key = key.replace("k8s/", "node.kubernetes.io/");
                json!({ "key": key, "effect": effect })
            })
            .collect();
        let wire = json!({ "metadata": { "name": "n" }, "status": { "conditions": conditions },
                           "spec": { "taints": taints, "unschedulable": unschedulable } });
        serde_json::from_value(wire).unwrap()
    }

    fn told(taints: &[Taint]) -> String {
        let lines = taints.iter().map(|taint| {
            let key = taint.key.replace("node.kubernetes.io/", "k8s/");
            format!("{key}:{}", taint.effect.as_ref().map_or("", Effect::as_str))
        });
        lines.collect::<Vec<_>>().join(" ")
    }

    #[test]
    fn conditions_become_taints_and_others_stay() {
        let check = |conditions: &str, before: &str, leave, want: &str| {
            let node = node(conditions, before, false);
            let taints = wanted(&node, leave, at(0));
            assert_eq!(told(taints.as_deref().unwrap_or(&node.taints)), want, "{conditions}");
            assert_eq!(taints.is_none(), before == want);
        };
        let (given, withheld) = (Leave::Given, Leave::Withheld);
        check("Ready=True", "a:NoSchedule", given, "a:NoSchedule");
        let both = "k8s/not-ready:NoSchedule k8s/not-ready:NoExecute";
        check("Ready=False", "", given, both);
        check("Ready=False", "", withheld, "k8s/not-ready:NoSchedule");
        check("Ready=False", both, withheld, both);
        check("Ready=True", both, given, "");
        // Going from one to the other needs no leave.
        let gone = "k8s/unreachable:NoSchedule k8s/unreachable:NoExecute";
        check("Ready=Unknown", both, withheld, gone);
        check("Ready=False", gone, withheld, both);
        // Where no node is ready none of them is to lose its pods; what a user set stays.
        check("Ready=Unknown", gone, Leave::Revoked, "k8s/unreachable:NoSchedule");
        check("Ready=Unknown", both, Leave::Revoked, "k8s/unreachable:NoSchedule");
        check("", "k8s/not-ready:NoExecute", Leave::Revoked, "");
        check(
            "Ready=Unknown",
            "a:NoExecute",
            Leave::Revoked,
            "a:NoExecute k8s/unreachable:NoSchedule",
        );
        let pressed = "k8s/memory-pressure:NoSchedule k8s/pid-pressure:NoSchedule";
        check("Ready=True MemoryPressure=True PIDPressure=True", "", given, pressed);
        check("Ready=True MemoryPressure=False", pressed, given, "");
        // A user's own taint of that key with another effect is not ours.
        let own = "k8s/disk-pressure:NoExecute k8s/not-ready:PreferNoSchedule";
        check("Ready=True", own, given, own);
        // Before its first report nothing is known that would keep pods from being bound, as
        // with kube-controller-manager; what drives pods off stays.
        check("", "k8s/not-ready:NoSchedule", given, "");
        check("", "k8s/not-ready:NoExecute", given, "k8s/not-ready:NoExecute");
    }

    #[test]
    fn a_cordoned_node_is_tainted_and_freed() {
        let cordoned = node("Ready=True", "", true);
        let taints = wanted(&cordoned, Leave::Given, at(7)).unwrap();
        assert_eq!(told(&taints), "k8s/unschedulable:NoSchedule");
        assert_eq!(taints[0].time_added, Some(at(7).into()));
        let freed = node("Ready=True", "k8s/unschedulable:NoSchedule", false);
        assert_eq!(wanted(&freed, Leave::Given, at(7)), Some(Vec::new()));
    }

    #[test]
    fn leave_is_asked_for_only_when_a_new_taint_would_drive_pods_off() {
        assert!(needs_leave(&node("Ready=False", "", false)));
        assert!(!needs_leave(&node("Ready=True", "", false)));
        assert!(!needs_leave(&node("", "", false)));
        assert!(!needs_leave(&node("Ready=Unknown", "k8s/not-ready:NoExecute", false)));
    }
}
