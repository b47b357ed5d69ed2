//! When some of its indexes are enough for a job, by `successPolicy`.

use api::job::{SuccessPolicy, SuccessPolicyRule};

use super::Indexes;

/// The place of the first rule that the indexes that are `done` satisfy.
#[must_use]
pub fn met(policy: Option<&SuccessPolicy>, done: &Indexes, completions: u32) -> Option<usize> {
    if done.len() == 0 {
        return None;
    }
    policy?.rules.iter().position(|rule| is_met(rule, done, completions))
}

fn is_met(rule: &SuccessPolicyRule, done: &Indexes, completions: u32) -> bool {
    let enough = rule.succeeded_count.map(|count| usize::try_from(count).unwrap_or(0));
    let Some(listed) = &rule.succeeded_indexes else {
        return enough.is_some_and(|enough| done.len() >= enough);
    };
    let listed = Indexes::parse(listed, completions);
    let found = listed.common(done);
    listed.len() > 0 && (found == listed.len() || enough.is_some_and(|enough| found >= enough))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_job_succeeds_with_the_first_rule_that_is_met() {
        let check = |rules: Value, done: &str, want: Option<usize>| {
            let policy = serde_json::from_value(json!({ "rules": rules })).unwrap();
            let met = met(Some(&policy), &Indexes::parse(done, 10), 10);
            assert_eq!(met, want, "{rules} {done}");
        };
        let all = json!([{ "succeededIndexes": "0,2-4" }]);
        check(all.clone(), "", None);
        check(all.clone(), "0,2,3", None);
        check(all.clone(), "0,2-4", Some(0));
        check(all, "0-9", Some(0));
        let some = json!([{ "succeededIndexes": "0,2-4", "succeededCount": 2 }]);
        check(some.clone(), "1,4-9", None);
        check(some, "1,3-9", Some(0));
        let any = json!([{ "succeededCount": 3 }]);
        check(any.clone(), "7,9", None);
        check(any, "0,7,9", Some(0));
        let either = json!([{ "succeededIndexes": "8" }, { "succeededCount": 2 }]);
        check(either.clone(), "1,2", Some(1));
        check(either, "1,8", Some(0));
        // Indexes that the job does not have are not asked for; a rule of none of its own is no rule.
        check(json!([{ "succeededIndexes": "8-20" }]), "8,9", Some(0));
        check(json!([{ "succeededIndexes": "10-20", "succeededCount": 1 }]), "8", None);
        check(json!([{ "succeededIndexes": "none" }]), "8", None);
        check(json!([{}]), "8", None);
        assert_eq!(super::met(None, &Indexes::parse("0", 1), 1), None);
    }
}
