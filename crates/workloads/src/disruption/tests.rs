use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::facts::testing::{at, meta, pod, text};

fn budget(spec: &str) -> PodDisruptionBudget {
    let mut metadata = meta("budget", "b");
    metadata.generation = 4;
    PodDisruptionBudget {
        metadata,
        spec: serde_json::from_str(spec).unwrap(),
        status: PodDisruptionBudgetStatus::default(),
    }
}

fn pods(list: &str) -> Vec<PodFact> {
    list.split(',')
        .filter(|words| !words.is_empty())
        .enumerate()
        .map(|(n, words)| pod(&format!("p{n}"), words))
        .collect()
}

fn scales(list: &[(&str, Option<i32>)]) -> Scales {
    list.iter().map(|(uid, size)| ((*uid).to_owned(), *size)).collect()
}

#[test]
fn the_amounts_follow_from_budget_pods_and_sizes() {
    let check =
        |spec: &str, list: &str, sizes: &[(&str, Option<i32>)], want: (i32, i32, i32, i32)| {
            let pods = pods(list);
            let refs: Vec<&PodFact> = pods.iter().collect();
            let (status, _) = status(&budget(spec), &refs, &scales(sizes), at(0));
            let got = (
                status.expected_pods,
                status.desired_healthy,
                status.current_healthy,
                status.disruptions_allowed,
            );
            assert_eq!(got, want, "{spec} {list}");
            assert_eq!(status.observed_generation, 4);
            let told = api::condition::find(&status.conditions, "DisruptionAllowed").unwrap();
            assert_eq!(told.is_true(), want.3 > 0);
            assert_eq!(told.observed_generation, Some(4));
        };
    let two = "ready@0 owner=a,ready@0 owner=a";
    check(r#"{"minAvailable":1}"#, two, &[], (2, 1, 2, 1));
    check(r#"{"minAvailable":2}"#, two, &[], (2, 2, 2, 0));
    check(r#"{"minAvailable":0}"#, "", &[], (0, 0, 0, 0));
    check(r#"{"minAvailable":1}"#, "ready@0 going,ready@0,", &[], (2, 1, 1, 0));
    check(r#"{"minAvailable":"50%"}"#, two, &[("a", Some(4))], (4, 2, 2, 0));
    check(r#"{"minAvailable":"50%"}"#, two, &[("a", Some(3))], (3, 2, 2, 0));
    check(r#"{"maxUnavailable":1}"#, two, &[("a", Some(2))], (2, 1, 2, 1));
    check(r#"{"maxUnavailable":"30%"}"#, two, &[("a", Some(10))], (10, 7, 2, 0));
    check(r#"{"maxUnavailable":9}"#, two, &[("a", Some(2))], (2, 0, 2, 2));
    let mixed = "ready@0 owner=a,ready@0 owner=b,ready@0";
    check(r#"{"maxUnavailable":1}"#, mixed, &[("a", Some(1)), ("b", Some(2))], (3, 2, 3, 1));
    check("{}", two, &[], (0, 0, 2, 0));
}

#[test]
fn nothing_is_allowed_while_the_size_is_not_known() {
    let pods = pods("ready@0 owner=a");
    let refs: Vec<&PodFact> = pods.iter().collect();
    let check = |spec: &str, want: &str| {
        let mut budget = budget(spec);
        budget.status.disruptions_allowed = 3;
        budget.status.current_healthy = 5;
        let (status, next) = status(&budget, &refs, &scales(&[("a", None)]), at(0));
        assert_eq!(next, Next::Retry(want.to_owned()));
        assert_eq!((status.disruptions_allowed, status.current_healthy), (0, 5));
        let told = api::condition::find(&status.conditions, "DisruptionAllowed").unwrap();
        assert_eq!((told.reason.as_str(), told.message.as_str()), ("SyncFailed", want));
    };
    check(r#"{"maxUnavailable":1}"#, "found no controllers for pod \"p0\"");
}

#[test]
fn an_allowed_eviction_counts_until_it_is_done_or_overdue() {
    let check = |seconds, list: &str, want: (i32, usize, Next)| {
        let pods = pods(list);
        let refs: Vec<&PodFact> = pods.iter().collect();
        let mut budget = budget(r#"{"minAvailable":1}"#);
        budget.status.disrupted_pods =
            serde_json::from_value(json!({ "p0": text(0), "gone": text(0) })).unwrap();
        let (status, next) = status(&budget, &refs, &Scales::new(), at(seconds));
        let got = (status.disruptions_allowed, status.disrupted_pods.len(), next);
        assert_eq!(got, want);
    };
    let three = "ready@0,ready@0,ready@0";
    let after = |seconds| Next::After(Duration::from_secs(seconds));
    check(10, three, (1, 1, after(111)));
    check(120, three, (1, 1, after(1)));
    check(121, three, (2, 0, Next::OnChange));
    check(10, "ready@0 going,ready@0,ready@0", (1, 0, Next::OnChange));
}

proptest! {
    /// No budget lets more pods go than are healthy, or fewer stay than it asks for.
    #[test]
    fn a_budget_is_never_overdrawn(
        ready in 0..20usize,
        unready in 0..20usize,
        amount in prop_oneof![(0..25i32).prop_map(|n| json!(n)), (0..101u8).prop_map(|n| json!(format!("{n}%")))],
        is_min in any::<bool>(),
        size in 0..40i32,
    ) {
        let pods: Vec<PodFact> = (0..ready + unready)
            .map(|n| pod(&format!("p{n}"), if n < ready { "ready@0 owner=a" } else { "owner=a" }))
            .collect();
        let refs: Vec<&PodFact> = pods.iter().collect();
        let key = if is_min { "minAvailable" } else { "maxUnavailable" };
        let budget = budget(&json!({ key: amount }).to_string());
        let (status, _) = status(&budget, &refs, &scales(&[("a", Some(size))]), at(0));
        prop_assert!(status.disruptions_allowed >= 0);
        prop_assert_eq!(status.current_healthy as usize, ready);
        let left = status.current_healthy - status.disruptions_allowed;
        prop_assert!(status.disruptions_allowed == 0 || left == status.desired_healthy);
    }
}
