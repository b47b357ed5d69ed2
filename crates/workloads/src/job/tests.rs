mod policies;

use api::job::JobStatus;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::*;
use crate::facts::testing::{at, meta, pod, text};

/// A job from words such as `completions=3 parallelism=2 indexed`.
fn job(words: &str) -> Packed<Job> {
    let mut spec = json!({ "parallelism": 1, "completions": 1, "backoffLimit": 6,
                           "template": { "spec": { "restartPolicy": "Never" } } });
    for word in words.split_whitespace() {
        let (key, value) = word.split_once('=').unwrap_or((word, ""));
        let number = || -> Value { serde_json::from_str(value).unwrap() };
        match key {
            "completions" => spec["completions"] = number(),
            "parallelism" => spec["parallelism"] = number(),
            "backoff" => spec["backoffLimit"] = number(),
            "deadline" => spec["activeDeadlineSeconds"] = number(),
            "ttl" => spec["ttlSecondsAfterFinished"] = number(),
            "suspend" => spec["suspend"] = true.into(),
            "indexed" => spec["completionMode"] = "Indexed".into(),
            "wait" => spec["podReplacementPolicy"] = "Failed".into(),
            "per-index" => spec["backoffLimitPerIndex"] = number(),
            "max-failed" => spec["maxFailedIndexes"] = number(),
            "ignore" => rule(&mut spec, "Ignore", &number()),
            "fail-index" => rule(&mut spec, "FailIndex", &number()),
            "fail-job" => rule(&mut spec, "FailJob", &number()),
            "enough" => {
                spec["successPolicy"] = json!({ "rules": [{ "succeededIndexes": value }] });
            }
            "restart" => spec["template"]["spec"]["restartPolicy"] = "OnFailure".into(),
            other => panic!("{other} means nothing"),
        }
    }
    let (metadata, status) = (meta("pi", "job"), JobStatus::default());
    Packed::new(Job { metadata, spec: serde_json::from_value(spec).unwrap(), status })
}

/// Adds a rule for an exit code.
fn rule(spec: &mut Value, action: &str, code: &Value) {
    let rule = json!({ "action": action, "onExitCodes": { "operator": "In", "values": [code] } });
    match spec["podFailurePolicy"]["rules"].as_array_mut() {
        Some(rules) => rules.push(rule),
        None => spec["podFailurePolicy"] = json!({ "rules": [rule] }),
    }
}

fn with_status(mut job: Packed<Job>, status: Value) -> Packed<Job> {
    job.object.status = serde_json::from_value(status).unwrap();
    job
}

fn decided(job: &Packed<Job>, pods: &[PodFact], claims: &Claims) -> String {
    let pods: Vec<&PodFact> = pods.iter().collect();
    let facts = Facts { job, pods: &pods, claims, backoff: Backoff::default(), now: at(100) };
    let actions = decide(&facts);
    let create: Vec<String> = actions.create.iter().map(told).collect();
    let delete: Vec<String> =
        actions.delete.iter().map(|pod| format!("-{}", pod.meta.key.name())).collect();
    let ending = actions.ending.map(|ending| format!("{ending:?}"));
    let wait = actions.look_again.map(|wait| format!("wait {}", wait.as_secs()));
    let words = create.into_iter().chain(delete).chain(ending).chain(wait);
    words.collect::<Vec<_>>().join(" ")
}

/// The place of a new pod, as in `+0:1~2`: index, failures, and failures that do not count.
fn told(place: &Place) -> String {
    let index = place.index.map_or(String::new(), |index| index.to_string());
    let failures = place.failures.map_or(String::new(), |failures| match failures.ignored {
        0 => format!(":{}", failures.counted),
        ignored => format!(":{}~{ignored}", failures.counted),
    });
    format!("+{index}{failures}")
}

fn pods(list: &[(&str, &str)]) -> Vec<PodFact> {
    list.iter().map(|(name, words)| pod(name, &format!("tracked {words}"))).collect()
}

#[test]
fn a_job_has_as_many_pods_as_it_needs_and_no_more() {
    let check = |words: &str, list: &[(&str, &str)], want: &str| {
        assert_eq!(decided(&job(words), &pods(list), &Claims::default()), want, "{words} {list:?}");
    };
    check("", &[], "+");
    check("completions=5 parallelism=2", &[], "+ +");
    check("completions=5 parallelism=2", &[("a", "")], "+");
    check("completions=5 parallelism=2", &[("a", ""), ("b", "")], "");
    check("completions=2 parallelism=9", &[("a", "succeeded")], "+");
    check("completions=2 parallelism=9", &[("a", "succeeded"), ("b", "succeeded")], "");
    check("completions=3 parallelism=1", &[("a", ""), ("b", "node=n")], "-a");
    check("parallelism=0", &[("a", "")], "-a");
    check("completions=null parallelism=2", &[("a", "")], "+");
    check("completions=null parallelism=2", &[("a", ""), ("b", "succeeded")], "");
    check("suspend", &[("a", "")], "-a");
    check("suspend", &[], "");
    // A pod that is going is replaced at once, or when it has ended.
    check("", &[("a", "going")], "wait 9");
    check("wait", &[("a", "going")], "");
}

#[test]
fn a_failure_is_tried_again_after_a_wait_and_not_for_ever() {
    let check = |words: &str, list: &[(&str, &str)], want: &str| {
        assert_eq!(decided(&job(words), &pods(list), &Claims::default()), want, "{words} {list:?}");
    };
    check("", &[("a", "failed ended@95")], "wait 5");
    check("", &[("a", "failed ended@80")], "+");
    check("backoff=0", &[("a", "failed ended@80")], "BackoffLimit");
    check("backoff=1", &[("a", "failed ended@80")], "+");
    let two = [("a", "failed ended@10"), ("b", "failed ended@20"), ("c", "")];
    check("backoff=1 parallelism=3 completions=3", &two, "-c BackoffLimit");
    check("restart backoff=3", &[("a", "restarts=2")], "");
    check("restart backoff=3", &[("a", "restarts=3")], "-a BackoffLimit");
    check("backoff=3", &[("a", "restarts=3")], "");
}

#[test]
fn a_job_that_takes_too_long_fails() {
    let started = |seconds| json!({ "startTime": text(seconds) });
    let check = |words: &str, seconds, want: &str| {
        let job = with_status(job(words), started(seconds));
        assert_eq!(decided(&job, &pods(&[("a", "")]), &Claims::default()), want);
    };
    check("deadline=30", 80, "wait 10");
    check("deadline=30", 70, "-a Deadline");
    check("deadline=30 suspend", 70, "-a");
}

#[test]
fn indexes_are_worked_on_once_each() {
    let check = |status: Value, list: &[(&str, &str)], want: &str| {
        let job = with_status(job("indexed completions=5 parallelism=3"), status);
        assert_eq!(decided(&job, &pods(list), &Claims::default()), want, "{list:?}");
    };
    check(json!({}), &[], "+0 +1 +2");
    check(json!({}), &[("a", "index=1")], "+0 +2");
    check(json!({}), &[("a", "index=0 succeeded")], "+1 +2 +3");
    check(json!({ "completedIndexes": "0-2", "succeeded": 3 }), &[], "+3 +4");
    check(json!({ "completedIndexes": "0-4", "succeeded": 5 }), &[], "");
    // Doubles, and indexes that the job does not have, go.
    check(json!({}), &[("a", "index=1"), ("b", "index=1 node=n")], "-a");
    check(json!({}), &[("a", "index=9"), ("b", "")], "-b -a");
}

#[test]
fn what_is_on_its_way_is_not_made_twice() {
    let mut claims = Claims::default();
    claims.create("uid-x", Some(1), at(99));
    claims.delete("uid-a", at(99));
    let job = job("indexed completions=5 parallelism=3");
    assert_eq!(decided(&job, &pods(&[("a", "index=0")]), &claims), "+0 +2");
}

/// A job, its pods and a server that does what it is told: reconciled until nothing moves.
struct World {
    job: Packed<Job>,
    pods: Vec<PodFact>,
    now: i64,
    made: usize,
    backoff: Backoff,
}

impl World {
    fn new(job: Packed<Job>) -> Self {
        Self { job, pods: Vec::new(), now: 0, made: 0, backoff: Backoff::default() }
    }

    /// One look; says whether anything changed.
    fn look(&mut self) -> bool {
        let before = self.job.status.clone();
        let pods = self.pods.clone();
        let refs: Vec<&PodFact> = pods.iter().collect();
        let claims = Claims::default();
        let now = at(self.now);
        let facts =
            Facts { job: &self.job, pods: &refs, claims: &claims, backoff: self.backoff, now };
        let actions = decide(&facts);
        let outcome = Outcome {
            created: actions.create.len(),
            deleted: actions.delete.iter().map(|pod| pod.meta.uid.clone()).collect(),
        };
        let tally = tally(&facts, &actions, &outcome);
        let released: Vec<Box<str>> =
            tally.release.iter().map(|pod| pod.meta.uid.clone()).collect();
        let changed = tally.status != before || !released.is_empty() || outcome.created > 0;
        let backoff = backoff(&facts);
        check_transition(&self.job, &tally.status);
        if tally.status != before {
            self.backoff = backoff;
        }
        for place in &actions.create {
            self.made += 1;
            let mut words = place.index.map_or(String::new(), |index| format!("index={index}"));
            if let Some(IndexFailures { counted, ignored }) = place.failures {
                words += &format!(" failures={counted} ignored={ignored}");
            }
            self.pods.push(pod(&format!("p{}", self.made), &format!("tracked {words}")));
        }
        for pod in &mut self.pods {
            if outcome.deleted.contains(&pod.meta.uid) {
                pod.meta.deleting = Some(now);
                if !actions.counts_deleted() {
                    pod.meta.finalizers = Box::default();
                }
            }
            if released.contains(&pod.meta.uid) {
                pod.meta.finalizers = Box::default();
            }
        }
        // A deleted pod without a finalizer is gone.
        self.pods.retain(|pod| !pod.is_going() || !pod.meta.finalizers.is_empty());
        self.job.object.status = tally.status;
        changed || !outcome.deleted.is_empty()
    }

    fn settle(&mut self) {
        for _ in 0..200 {
            if is_finished(&self.job) || !self.look() {
                return;
            }
        }
        panic!("never settles: {:?}", self.job.status);
    }

    /// Ends an active pod, and says of which index.
    fn end(&mut self, nth: usize, phase: api::pod::PodPhase) -> Option<u32> {
        self.exit(nth, phase, 0)
    }

    fn exit(&mut self, nth: usize, phase: api::pod::PodPhase, code: i32) -> Option<u32> {
        let now = at(self.now);
        let active: Vec<usize> =
            (0..self.pods.len()).filter(|n| self.pods[*n].is_active()).collect();
        let n = active.get(nth % active.len().max(1))?;
        let pod = &mut self.pods[*n];
        pod.phase = phase;
        pod.ended = now;
        if let Some(kept) = &mut pod.job {
            kept.exits = [("main".into(), code)].into();
        }
        pod.completion_index
    }

    /// Reason and message of a condition.
    fn words(&self, kind: &str) -> (&str, &str) {
        let told = api::condition::find(&self.job.status.conditions, kind).unwrap();
        (&told.reason, &told.message)
    }

    fn told(&self) -> String {
        let status = &self.job.status;
        let conditions: Vec<String> = status
            .conditions
            .iter()
            .map(|told| format!("{}={}", told.r#type, told.status))
            .collect();
        format!(
            "active {} succeeded {} failed {} [{}] {}",
            status.active,
            status.succeeded,
            status.failed,
            status.completed_indexes,
            conditions.join(" ")
        )
    }
}

/// What kube-apiserver refuses in a change of a job's status.
fn check_transition(job: &Packed<Job>, new: &JobStatus) {
    let old = &job.status;
    let is = |status: &JobStatus, kind: &str| {
        api::condition::find(&status.conditions, kind).is_some_and(Condition::is_true)
    };
    let finished = is(new, "Complete") || is(new, "Failed");
    assert!(new.failed >= old.failed && new.succeeded >= old.succeeded, "counters go back");
    assert!(new.ready.unwrap_or(0) <= new.active, "more ready than active");
    for kind in ["Complete", "Failed", "FailureTarget", "SuccessCriteriaMet"] {
        assert!(!is(old, kind) || is(new, kind), "{kind} is taken back");
    }
    assert!(!is(new, "Complete") || is(new, "SuccessCriteriaMet"));
    assert!(!is(new, "Failed") || is(new, "FailureTarget"));
    assert!(!is(new, "SuccessCriteriaMet") || !is(new, "FailureTarget"));
    assert_eq!(new.completion_time.is_some(), is(new, "Complete"));
    assert!(new.completion_time.is_none_or(|end| Some(end) >= new.start_time));
    if finished {
        assert_eq!((new.active, new.terminating), (0, Some(0)));
        assert!(new.start_time.is_some());
        let uncounted = new.uncounted_terminated_pods.clone().unwrap_or_default();
        assert_eq!(uncounted, api::job::UncountedPods::default());
    }
    let resumes = is(old, "Suspended") && !is(new, "Suspended");
    assert!(old.start_time.is_none() || old.start_time == new.start_time || resumes);
    assert!(new.completed_indexes.is_empty() || job.spec.completion_mode.is_some());
    let failed = new.failed_indexes.as_deref().map(|text| Indexes::parse(text, 99));
    assert_eq!(failed.is_some(), job.spec.backoff_limit_per_index.is_some());
    let done = Indexes::parse(&new.completed_indexes, 99);
    assert_eq!(failed.unwrap_or_default().common(&done), 0, "both failed and completed");
}

use api::pod::PodPhase::{Failed, Succeeded};

#[test]
fn a_job_completes_when_enough_pods_have_succeeded() {
    let mut world = World::new(job("completions=2 parallelism=1"));
    world.settle();
    assert_eq!(world.told(), "active 1 succeeded 0 failed 0 [] ");
    world.end(0, Succeeded);
    world.settle();
    assert_eq!(world.told(), "active 1 succeeded 1 failed 0 [] ");
    world.now = 5;
    world.end(0, Succeeded);
    world.settle();
    let want = "active 0 succeeded 2 failed 0 [] SuccessCriteriaMet=True Complete=True";
    assert_eq!(world.told(), want);
    let told = api::condition::find(&world.job.status.conditions, "Complete").unwrap();
    assert_eq!(told.reason, "CompletionsReached");
    assert_eq!(told.message, "Reached expected number of succeeded pods");
    assert_eq!(world.job.status.completion_time, Some(at(5).into()));
}

#[test]
fn a_job_with_indexes_lists_those_that_are_done() {
    let mut world = World::new(job("indexed completions=4 parallelism=4"));
    world.settle();
    for nth in [3, 0] {
        world.end(nth, Succeeded);
    }
    world.settle();
    assert_eq!(world.told(), "active 2 succeeded 2 failed 0 [0,3] ");
    world.end(0, Failed);
    world.settle();
    assert_eq!(world.told(), "active 1 succeeded 2 failed 1 [0,3] ");
    world.now = 20;
    world.settle();
    world.end(0, Succeeded);
    world.end(0, Succeeded);
    world.settle();
    let want = "active 0 succeeded 4 failed 1 [0-3] SuccessCriteriaMet=True Complete=True";
    assert_eq!(world.told(), want);
}

#[test]
fn a_job_fails_when_its_limit_is_passed_and_takes_its_pods_along() {
    let mut world = World::new(job("completions=3 parallelism=3 backoff=0"));
    world.settle();
    world.end(1, Failed);
    world.settle();
    assert_eq!(world.told(), "active 0 succeeded 0 failed 3 [] FailureTarget=True Failed=True");
    let told = api::condition::find(&world.job.status.conditions, "Failed").unwrap();
    assert_eq!(told.reason, "BackoffLimitExceeded");
    assert_eq!(told.message, "Job has reached the specified backoff limit");
    assert!(world.pods.iter().all(|pod| pod.meta.finalizers.is_empty()));
}

#[test]
fn a_job_fails_at_its_deadline() {
    let mut world = World::new(job("deadline=30"));
    world.settle();
    world.now = 30;
    world.settle();
    assert_eq!(world.told(), "active 0 succeeded 0 failed 1 [] FailureTarget=True Failed=True");
}

#[test]
fn a_job_rests_and_goes_on() {
    let mut world = World::new(job("suspend deadline=30"));
    world.settle();
    assert_eq!(world.told(), "active 0 succeeded 0 failed 0 [] Suspended=True");
    assert_eq!(world.job.status.start_time, None);
    world.now = 100;
    world.job.object.spec.suspend = Some(false);
    world.settle();
    assert_eq!(world.told(), "active 1 succeeded 0 failed 0 [] Suspended=False");
    assert_eq!(world.job.status.start_time, Some(at(100).into()));
    world.now = 110;
    world.job.object.spec.suspend = Some(true);
    world.settle();
    // A pod that is not wanted any more has not failed.
    assert_eq!(world.told(), "active 0 succeeded 0 failed 0 [] Suspended=True");
    world.now = 500;
    world.job.object.spec.suspend = Some(false);
    world.settle();
    assert_eq!(world.job.status.start_time, Some(at(500).into()));
}

#[test]
fn a_job_that_asks_for_nothing_is_complete() {
    let mut world = World::new(job("completions=0"));
    world.settle();
    let want = "active 0 succeeded 0 failed 0 [] SuccessCriteriaMet=True Complete=True";
    assert_eq!(world.told(), want);
}

#[test]
fn a_job_is_deleted_some_time_after_its_end() {
    let check = |words: &str, status: Value, want: Option<i64>| {
        let job = with_status(job(words), status);
        assert_eq!(delete_at(&job), want.map(at));
    };
    let ended = |kind: &str, status: &str| json!({ "conditions": [{ "type": kind, "status": status, "lastTransitionTime": text(7) }] });
    check("ttl=10", ended("Complete", "True"), Some(17));
    check("ttl=0", ended("Failed", "True"), Some(7));
    check("ttl=10", ended("SuccessCriteriaMet", "True"), None);
    check("ttl=10", ended("Complete", "False"), None);
    check("", ended("Complete", "True"), None);
}

proptest! {
    /// However pods end, each is counted once, no transition is one that the server
    /// refuses, and the job comes to an end.
    #[test]
    fn every_pod_is_counted_once(
        completions in prop::option::of(0..6i32),
        parallelism in 1..4i32,
        backoff in 0..4i32,
        indexed in any::<bool>(),
        ends in prop::collection::vec((0..4usize, 0..4u8), 1..30),
    ) {
        let number = completions.map_or("null".to_owned(), |count| count.to_string());
        let mode = if indexed && completions.is_some() { "indexed" } else { "" };
        let words = format!("completions={number} parallelism={parallelism} backoff={backoff} {mode}");
        let mut world = World::new(job(&words));
        let (mut succeeded, mut failed) = (0, 0);
        for (nth, kind) in ends {
            world.settle();
            if is_finished(&world.job) {
                break;
            }
            let any = world.pods.iter().any(PodFact::is_active);
            match kind {
                0 if any => { world.end(nth, Failed); failed += 1; }
                1 => world.now += 700,
                _ if any => { world.end(nth, Succeeded); succeeded += 1; }
                _ => {}
            }
        }
        world.settle();
        let status = &world.job.status;
        prop_assert_eq!(status.succeeded, succeeded, "{}", world.told());
        prop_assert!(status.failed >= failed, "{}", world.told());
        if is_finished(&world.job) {
            prop_assert!(world.pods.iter().all(|pod| pod.meta.finalizers.is_empty()));
        } else {
            prop_assert!(status.failed <= backoff);
            let enough = completions.map_or(1, |count| count);
            prop_assert!(status.succeeded < enough || status.active > 0);
        }
    }
}
