//! The loop, on a clock that the tests move.

use jiff::Timestamp;

use super::*;
use crate::clock::Hand;
use crate::shutdown::Shutdown;

const GRACE: Duration = Duration::from_secs(5);

#[derive(Debug, Clone, Copy)]
struct Refused {
    conflict: bool,
    after: Option<Duration>,
}

impl Failure for Refused {
    fn told(&self) -> String {
        "not yet".to_owned()
    }

    fn retry_after(&self) -> Option<Duration> {
        self.after
    }

    fn is_conflict(&self) -> bool {
        self.conflict
    }
}

type Answers = Box<dyn Fn(&str, usize) -> Result<Requeue, Refused> + Send + Sync>;

/// Answers as it is told, and notes what was asked and when.
struct Scripted {
    clock: Clock,
    log: Mutex<Vec<(String, Duration)>>,
    answers: Answers,
    /// Keys under way now, and the most at once.
    busy: Mutex<(Vec<String>, usize)>,
    held: Notify,
}

impl Scripted {
    fn new(
        clock: &Clock,
        answers: impl Fn(&str, usize) -> Result<Requeue, Refused> + Send + Sync + 'static,
    ) -> Arc<Self> {
        Arc::new(Self {
            clock: clock.clone(),
            log: Mutex::default(),
            answers: Box::new(answers),
            busy: Mutex::default(),
            held: Notify::new(),
        })
    }

    /// When a key was looked at, each time.
    fn looks(&self, key: &str) -> Vec<Duration> {
        let log = self.log.lock().unwrap();
        log.iter().filter(|(own, _)| own == key).map(|(_, at)| *at).collect()
    }
}

impl Reconciler for Scripted {
    type Failure = Refused;

    async fn reconcile(&self, key: Key) -> Result<Requeue, Refused> {
        let name = key.name().to_owned();
        {
            let mut busy = self.busy.lock().unwrap();
            assert!(!busy.0.contains(&name), "{name} is looked at twice at once");
            busy.0.push(name.clone());
            busy.1 = busy.1.max(busy.0.len());
        }
        if name.starts_with("held") {
            self.held.notified().await;
        }
        let mut log = self.log.lock().unwrap();
        let before = log.iter().filter(|(own, _)| *own == name).count();
        log.push((name.clone(), self.clock.monotonic()));
        self.busy.lock().unwrap().0.retain(|own| *own != name);
        (self.answers)(&name, before)
    }
}

struct Run {
    mailbox: Arc<Mailbox>,
    reconciler: Arc<Scripted>,
    shutdown: Shutdown,
    hand: Hand,
    synced: CancellationToken,
    metrics: Metrics,
}

fn run(
    workers: usize,
    answers: impl Fn(&str, usize) -> Result<Requeue, Refused> + Send + Sync + 'static,
) -> Run {
    let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
    let (shutdown, synced, metrics) = (Shutdown::new(), CancellationToken::new(), Metrics::new());
    let mailbox = Mailbox::new("test", &clock, 0, &metrics);
    let reconciler = Scripted::new(&clock, answers);
    let worker = Worker { mailbox: mailbox.clone(), synced: vec![synced.clone()], workers };
    shutdown.spawn("controller", worker.run(shutdown.token(), reconciler.clone()));
    Run { mailbox, reconciler, shutdown, hand, synced, metrics }
}

impl Run {
    /// Lets the loop go on, and its waits pass, until `done`.
    async fn until(&self, done: impl Fn(&Scripted) -> bool) {
        for _ in 0..20_000 {
            if done(&self.reconciler) {
                return;
            }
            tokio::task::yield_now().await;
            if let Some(due) = self.hand.next_due() {
                self.hand.advance(due);
            }
        }
        panic!("only {:?}", self.reconciler.log.lock().unwrap());
    }

    async fn rest(&self) {
        for _ in 0..100 {
            tokio::task::yield_now().await;
        }
    }

    async fn end(self) {
        self.shutdown.begin();
        assert_eq!(self.shutdown.join(&Clock::system(), GRACE).await, Ok(()));
    }
}

#[tokio::test]
async fn keys_are_reconciled_again_after_failure_when_asked_and_on_change() {
    let again = Duration::from_secs(20);
    let run = run(1, move |key, before| match (key, before) {
        ("a", 0) => Err(Refused { conflict: false, after: None }),
        ("a", 1) => Err(Refused { conflict: true, after: Some(Duration::from_secs(3)) }),
        ("a", 2) => Ok(Requeue::After(again)),
        _ => Ok(Requeue::OnChange),
    });
    run.synced.cancel();
    run.mailbox.add(Key::cluster("a"));
    run.mailbox.add(Key::cluster("b"));
    run.until(|seen| seen.looks("a").len() == 4 && seen.looks("b").len() == 1).await;
    let looks = run.reconciler.looks("a");
    assert!(looks[1] - looks[0] <= Duration::from_millis(5), "{looks:?}");
    assert_eq!(looks[2] - looks[1], Duration::from_secs(3));
    assert_eq!(looks[3] - looks[2], again);
    run.rest().await;
    assert_eq!(run.reconciler.looks("a").len(), 4);
    run.mailbox.add(Key::cluster("b"));
    run.until(|seen| seen.looks("b").len() == 2).await;
    run.rest().await;
    let text = run.metrics.render();
    for line in [
        "workqueue_adds_total{name=\"test\"} 3",
        "workqueue_retries_total{name=\"test\"} 2",
        "gantry_controller_reconciles_total{name=\"test\",result=\"done\"} 4",
        "workqueue_depth{name=\"test\"} 0",
    ] {
        assert!(text.lines().any(|own| own == line), "{line}\n{text}");
    }
    run.end().await;
}

#[tokio::test]
async fn nothing_is_reconciled_before_everything_is_in() {
    let run = run(1, |_, _| Ok(Requeue::OnChange));
    run.mailbox.add(Key::cluster("a"));
    run.rest().await;
    assert!(run.reconciler.looks("a").is_empty());
    run.synced.cancel();
    run.until(|seen| seen.looks("a").len() == 1).await;
    run.end().await;
}

#[tokio::test]
async fn keys_are_looked_at_side_by_side_up_to_the_bound_and_never_twice_at_once() {
    let run = run(3, |_, _| Ok(Requeue::OnChange));
    run.synced.cancel();
    for key in ["held-1", "held-2", "held-3", "held-4"] {
        run.mailbox.add(Key::cluster(key));
    }
    run.rest().await;
    // Asked for again while under way: it comes again afterwards, not meanwhile.
    run.mailbox.add(Key::cluster("held-1"));
    run.rest().await;
    assert_eq!(run.reconciler.busy.lock().unwrap().0, ["held-1", "held-2", "held-3"]);
    let all =
        |seen: &Scripted| seen.looks("held-1").len() == 2 && seen.log.lock().unwrap().len() == 5;
    for _ in 0..100 {
        run.reconciler.held.notify_one();
        run.rest().await;
        if all(&run.reconciler) {
            break;
        }
    }
    assert!(all(&run.reconciler));
    assert_eq!(run.reconciler.busy.lock().unwrap().1, 3);
    run.end().await;
}

#[tokio::test]
async fn a_shutdown_waits_for_the_key_under_way() {
    let run = run(1, |_, _| Ok(Requeue::OnChange));
    run.synced.cancel();
    run.mailbox.add(Key::cluster("held"));
    run.rest().await;
    run.shutdown.begin();
    run.rest().await;
    let reconciler = run.reconciler.clone();
    assert!(reconciler.looks("held").is_empty());
    reconciler.held.notify_one();
    run.end().await;
    assert_eq!(reconciler.looks("held").len(), 1);
}

#[tokio::test]
async fn a_panic_in_a_reconciliation_ends_the_process() {
    let run = run(1, |key, _| {
        assert!(key != "a", "cannot be");
        Ok(Requeue::OnChange)
    });
    run.synced.cancel();
    run.mailbox.add(Key::cluster("a"));
    let error = run.shutdown.join(&Clock::system(), GRACE).await.unwrap_err();
    assert!(error.to_string().starts_with("task controller panicked: cannot be"), "{error}");
}
