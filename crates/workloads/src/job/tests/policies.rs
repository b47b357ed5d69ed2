//! What jobs say about failures, single indexes and success.

use super::*;

fn check(words: &str, status: Value, list: &[(&str, &str)], want: &str) {
    let job = with_status(job(words), status);
    assert_eq!(decided(&job, &pods(list), &Claims::default()), want, "{words} {list:?}");
}

#[test]
fn a_failure_means_what_the_policy_says() {
    let check =
        |words: &str, list: &[(&str, &str)], want: &str| check(words, json!({}), list, want);
    check("backoff=0 ignore=3", &[("a", "failed exit=main:3")], "+");
    check("backoff=0 ignore=3", &[("a", "failed exit=main:4")], "BackoffLimit");
    // A failure that does not count is waited for like any other.
    check("backoff=0 ignore=3", &[("a", "failed exit=main:3 ended@95")], "wait 5");
    let two = [("a", "failed exit=main:5"), ("b", "")];
    let told = "FailurePolicy(\"Container main for pod shop/a failed with exit code 5 matching FailJob rule at index 1\")";
    check("completions=2 parallelism=2 ignore=3 fail-job=5", &two, &format!("-b {told}"));
    check("completions=2 parallelism=2 ignore=5 fail-job=5", &two, "+");
    // How a pod fails is not known before it has.
    check("fail-job=5", &[("a", "going exit=main:5")], "");
}

#[test]
fn indexes_fail_one_by_one() {
    let words = "indexed completions=3 parallelism=3 per-index=1";
    let check = |more: &str, list: &[(&str, &str)], want: &str| {
        check(&format!("{words} {more}"), json!({}), list, want);
    };
    let others = [("b", "index=1"), ("c", "index=2")];
    let with = |first: &'static str| [("a", first), others[0], others[1]];
    check("", &[], "+0:0 +1:0 +2:0");
    check("", &others, "+0:0");
    check("", &with("index=0 failed exit=main:1"), "+0:1");
    check("", &with("index=0 failed exit=main:1 failures=1"), "");
    check("", &with("index=0 failed exit=main:1 failures=nonsense"), "+0:1");
    // What is on its way out has failed, unless the job waits to see.
    check("", &with("index=0 going"), "wait 9");
    check("", &with("index=0 going failures=1"), "");
    check("wait", &with("index=0 going"), "");
    // A policy decides before the limit does.
    check("ignore=3", &with("index=0 failed exit=main:3 failures=1"), "+0:1~1");
    check("ignore=3", &with("index=0 failed exit=main:3 failures=1 ignored=1"), "+0:1~2");
    check("ignore=3", &with("index=0 failed exit=main:4 ignored=2"), "+0:1~2");
    check("fail-index=4", &with("index=0 failed exit=main:4"), "");
    // The limit of all together holds as well.
    check("backoff=0", &[("a", "index=0 failed exit=main:1")], "BackoffLimit");
    // An index that succeeded has not failed.
    let both = [("a", "index=0 failed failures=1"), ("d", "index=0 succeeded"), others[0]];
    check("", &both, "+2:0");
}

#[test]
fn indexes_wait_one_by_one() {
    let check = |words: &str, list: &[(&str, &str)], want: &str| {
        let words = format!("indexed completions=3 per-index=5 {words}");
        check(&words, json!({}), list, want);
    };
    let failed = [("a", "index=0 failed ended@95")];
    check("parallelism=3", &failed, "+1:0 +2:0 wait 5");
    // The lowest index is next, even when another need not wait.
    check("parallelism=1", &failed, "wait 5");
    check("parallelism=1", &[("a", "index=0 failed failures=1 ended@95")], "wait 15");
    check("parallelism=1", &[("a", "index=0 failed failures=1 ignored=1 ended@95")], "wait 35");
    // Of several, the last tells how often the index has failed.
    let several = [("b", "index=0 failed failures=1 ended@60"), ("a", "index=0 failed ended@50")];
    check("parallelism=1", &several, "+0:2");
    let turned = [several[1], several[0]];
    check("parallelism=1", &turned, "+0:2");
}

#[test]
fn a_job_ends_when_its_indexes_have_or_too_many_have_failed() {
    let words = "indexed completions=3 parallelism=3 per-index=0";
    let two = [("a", "index=0 failed exit=main:1"), ("b", "index=1")];
    let done = json!({ "completedIndexes": "2", "succeeded": 1 });
    check(words, done.clone(), &two, "");
    check(&format!("{words} max-failed=1"), done.clone(), &two, "");
    check(&format!("{words} max-failed=0"), done.clone(), &two, "-b MaxFailedIndexes");
    let rest = [two[0], ("b", "index=1 succeeded")];
    check(words, done.clone(), &rest, "FailedIndexes");
    let failed = json!({ "failedIndexes": "0,1", "completedIndexes": "2" });
    check(words, failed, &[], "FailedIndexes");
    check(words, json!({ "failedIndexes": "", "completedIndexes": "0-2" }), &[], "");
}

#[test]
fn a_job_ends_when_enough_indexes_have_succeeded() {
    let words = "indexed completions=3 parallelism=3 enough=1";
    let check =
        |words: &str, list: &[(&str, &str)], want: &str| check(words, json!({}), list, want);
    check(words, &[("a", "index=1 succeeded"), ("b", "index=0")], "-b SuccessPolicy(0)");
    check(words, &[("a", "index=2 succeeded"), ("b", "index=0")], "+1");
    // A failure is found first.
    let late = [("a", "index=1 succeeded"), ("b", "index=0 failed exit=main:1")];
    check(&format!("{words} backoff=0"), &late, "BackoffLimit");
    check(&format!("{words} per-index=0"), &late, "SuccessPolicy(0)");
    check(&format!("{words} per-index=0 max-failed=0"), &late, "MaxFailedIndexes");
}

#[test]
fn a_pod_that_failed_is_held_until_its_replacement_has_its_count() {
    let mut world = World::new(job("indexed completions=1 per-index=1"));
    world.settle();
    world.exit(0, Failed, 1);
    world.settle();
    assert_eq!(world.told(), "active 0 succeeded 0 failed 0 [] ");
    assert_eq!(world.job.status.failed_indexes.as_deref(), Some(""));
    world.now = 10;
    world.settle();
    assert_eq!(world.told(), "active 1 succeeded 0 failed 1 [] ");
    world.exit(0, Failed, 1);
    world.settle();
    assert_eq!(world.told(), "active 0 succeeded 0 failed 2 [] FailureTarget=True Failed=True");
    assert_eq!(world.words("Failed"), ("FailedIndexes", "Job has failed indexes"));
    assert_eq!(world.job.status.failed_indexes.as_deref(), Some("0"));
}

#[test]
fn a_job_that_succeeds_by_policy_takes_the_rest_along_uncounted() {
    let mut world = World::new(job("indexed completions=3 parallelism=3 enough=1"));
    world.settle();
    world.end(1, Succeeded);
    world.settle();
    let want = "active 0 succeeded 1 failed 0 [1] SuccessCriteriaMet=True Complete=True";
    assert_eq!(world.told(), want);
    let words = ("SuccessPolicy", "Matched rules at index 0");
    assert_eq!((world.words("SuccessCriteriaMet"), world.words("Complete")), (words, words));
}

#[test]
fn a_job_that_fails_by_policy_tells_which_pod_and_rule() {
    let mut world = World::new(job("completions=2 parallelism=2 fail-job=5"));
    world.settle();
    world.exit(0, Failed, 5);
    world.settle();
    assert_eq!(world.told(), "active 0 succeeded 0 failed 2 [] FailureTarget=True Failed=True");
    let message =
        "Container main for pod shop/p1 failed with exit code 5 matching FailJob rule at index 0";
    assert_eq!(world.words("Failed"), ("PodFailurePolicy", message));
}

#[test]
fn failures_that_are_ignored_are_in_no_count() {
    let mut world = World::new(job("backoff=0 ignore=3"));
    for _ in 0..3 {
        world.now += 700;
        world.settle();
        world.exit(0, Failed, 3);
    }
    world.settle();
    assert_eq!(world.told(), "active 0 succeeded 0 failed 0 [] ");
    world.now += 700;
    world.settle();
    world.end(0, Succeeded);
    world.settle();
    let want = "active 0 succeeded 1 failed 0 [] SuccessCriteriaMet=True Complete=True";
    assert_eq!(world.told(), want);
}

proptest! {
    /// However the pods of indexes end, each index has the tries it is due, each failure that
    /// counts is counted once, and the job ends with its last index.
    #[test]
    fn every_index_has_its_tries(
        completions in 1..5u32,
        parallelism in 1..5i32,
        limit in 0..3i32,
        ends in prop::collection::vec((0..5usize, 0..5i32), 0..60),
    ) {
        let words = format!(
            "indexed completions={completions} parallelism={parallelism} backoff=99 \
             per-index={limit} ignore=3 fail-index=4"
        );
        let mut world = World::new(job(&words));
        let (mut done, mut failed) = (Indexes::default(), Indexes::default());
        let mut failures = vec![0; completions as usize];
        for (nth, code) in ends {
            world.settle();
            world.now += 700;
            world.settle();
            let phase = if code == 0 { Succeeded } else { Failed };
            let Some(index) = world.exit(nth, phase, code) else { continue };
            if code == 0 {
                done.insert(index);
                continue;
            }
            failures[index as usize] += i32::from(code != 3);
            if code == 4 || (code != 3 && failures[index as usize] > limit) {
                failed.insert(index);
            }
        }
        world.settle();
        world.now += 700;
        world.settle();
        let status = &world.job.status;
        prop_assert_eq!(&status.completed_indexes, &done.to_string());
        prop_assert_eq!(status.failed_indexes.clone(), Some(failed.to_string()));
        prop_assert_eq!(status.failed, failures.iter().sum::<i32>(), "{}", world.told());
        prop_assert_eq!(is_finished(&world.job), done.len() + failed.len() == completions as usize);
        let busy = done.len() + failed.len() + usize::try_from(status.active).unwrap();
        prop_assert!(busy == completions as usize || status.active == parallelism);
    }
}
