//! What the failure of a pod means to its job, by `podFailurePolicy`.

use api::job::{OnExitCodes, PodFailurePolicy, PodFailurePolicyRule};

use crate::facts::{JobPod, PodFact};

/// What a failure means.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// It counts; so does every failure that no rule matches.
    Count,
    /// It does not count.
    Ignore,
    /// The index of the pod fails with it.
    FailIndex,
    /// The whole job fails with it, for this reason.
    FailJob(String),
}

/// The part of a pod that a rule matches.
enum Match<'a> {
    Exit(&'a str, i32),
    Condition(&'a str),
}

/// Judges a pod, as if it had failed. The first rule that matches counts.
#[must_use]
pub fn judge(policy: Option<&PodFailurePolicy>, pod: &PodFact) -> Verdict {
    let (Some(policy), Some(kept)) = (policy, &pod.job) else { return Verdict::Count };
    for (place, rule) in policy.rules.iter().enumerate() {
        let Some(found) = matching(rule, kept) else { continue };
        match rule.action.as_str() {
            "Ignore" => return Verdict::Ignore,
            "FailIndex" => return Verdict::FailIndex,
            "Count" => return Verdict::Count,
            "FailJob" => return Verdict::FailJob(told(&found, pod, place)),
            // An action of a later release: the next rule may say more.
            _ => {}
        }
    }
    Verdict::Count
}

fn matching<'a>(rule: &PodFailurePolicyRule, pod: &'a JobPod) -> Option<Match<'a>> {
    if let Some(codes) = &rule.on_exit_codes {
        let found = pod.exits.iter().find(|(name, code)| is_among(codes, name, *code));
        return found.map(|(name, code)| Match::Exit(name, *code));
    }
    let is_named = |told: &&(Box<str>, Box<str>)| {
        let mut patterns = rule.on_pod_conditions.iter();
        patterns.any(|pattern| pattern.r#type == *told.0 && pattern.status == *told.1)
    };
    pod.conditions.iter().find(is_named).map(|(kind, _)| Match::Condition(kind))
}

fn is_among(codes: &OnExitCodes, container: &str, code: i32) -> bool {
    let is_meant = codes.container_name.as_deref().is_none_or(|name| name == container);
    let is_listed = codes.values.contains(&code);
    match codes.operator.as_str() {
        "In" => is_meant && is_listed,
        "NotIn" => is_meant && !is_listed,
        _ => false,
    }
}

fn told(found: &Match<'_>, pod: &PodFact, place: usize) -> String {
    let (namespace, name) = (pod.meta.key.namespace(), pod.meta.key.name());
    match found {
        Match::Exit(container, code) => format!(
            "Container {container} for pod {namespace}/{name} failed with exit code {code} \
             matching FailJob rule at index {place}"
        ),
        Match::Condition(kind) => format!(
            "Pod {namespace}/{name} has condition {kind} matching FailJob rule at index {place}"
        ),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::facts::testing;

    #[test]
    fn the_first_rule_that_matches_decides() {
        let on_codes = |action: &str, operator: &str, values: &[i32]| json!({ "action": action, "onExitCodes": { "operator": operator, "values": values } });
        let on_condition = |action: &str, kind: &str, status: &str| {
            json!({ "action": action, "onPodConditions": [
                { "type": "Other", "status": "True" }, { "type": kind, "status": status }] })
        };
        let check = |rules: &[Value], words: &str, want: Verdict| {
            let policy = serde_json::from_value(json!({ "rules": rules })).unwrap();
            let pod = testing::pod("a", &format!("tracked failed {words}"));
            assert_eq!(judge(Some(&policy), &pod), want, "{rules:?} {words}");
        };
        let fails = |text: &str| Verdict::FailJob(text.to_owned());
        let (in_3, not_3) = (on_codes("Ignore", "In", &[3]), on_codes("FailIndex", "NotIn", &[3]));
        check(&[], "exit=main:3", Verdict::Count);
        check(&[in_3.clone(), not_3.clone()], "exit=main:3", Verdict::Ignore);
        check(&[in_3.clone(), not_3.clone()], "exit=main:4", Verdict::FailIndex);
        // Success is not an exit code that a rule could mean, and neither is none.
        check(&[in_3.clone(), not_3.clone()], "exit=main:0", Verdict::Count);
        check(&[in_3.clone(), not_3], "", Verdict::Count);
        check(&[on_codes("Count", "In", &[3]), in_3.clone()], "exit=main:3", Verdict::Count);
        check(&[on_codes("Later", "In", &[3]), in_3.clone()], "exit=main:3", Verdict::Ignore);
        check(&[on_codes("Ignore", "Among", &[3])], "exit=main:3", Verdict::Count);
        // A container before an init container, whatever their order in the rule.
        let job = on_codes("FailJob", "In", &[3, 4]);
        let told = "Container main for pod shop/a failed with exit code 3 matching FailJob rule at index 1";
        check(&[on_codes("Ignore", "In", &[9]), job], "init-exit=i:4 exit=main:3", fails(told));
        let mut named = in_3;
        named["onExitCodes"]["containerName"] = "side".into();
        check(std::slice::from_ref(&named), "exit=main:3", Verdict::Count);
        check(&[named], "exit=main:3 exit=side:3", Verdict::Ignore);
        let target = on_condition("FailJob", "DisruptionTarget", "True");
        let told = "Pod shop/a has condition DisruptionTarget matching FailJob rule at index 0";
        check(std::slice::from_ref(&target), "condition=DisruptionTarget:True", fails(told));
        check(&[target], "condition=DisruptionTarget:False", Verdict::Count);
    }
}
