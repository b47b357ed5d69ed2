//! How a process ends: one token, all tasks joined, a bounded grace period.
//!
//! The first ctrl-c or SIGTERM cancels the token; every task that was spawned through
//! [`Shutdown::spawn`] watches it, and [`Shutdown::join`] waits for them. A second signal
//! ends the process at once, even when every worker is busy, and says so. A task that panics
//! ends the process too: half a component is worse than none.

use std::future::Future;
use std::io::Write as _;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures::FutureExt as _;
use tokio::runtime::Runtime;
use tokio::signal::unix::{Signal, SignalKind, signal};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::clock::Clock;

/// How long the tasks of a program may take to end.
pub const GRACE: Duration = Duration::from_secs(10);

/// The exit status of a process that a second ctrl-c ended, as shells count it.
const EXIT_INTERRUPTED: i32 = 130;
/// The same for SIGTERM.
const EXIT_TERMINATED: i32 = 143;

/// How long saying so may take: whoever sends a second signal wants no more waiting, and who
/// should read it may be what the process is stuck on.
const FAREWELL_MAX: Duration = Duration::from_millis(200);

/// A handle on the end of the process; clones share it.
#[derive(Clone, Debug, Default)]
pub struct Shutdown {
    token: CancellationToken,
    tasks: Arc<Mutex<Vec<Task>>>,
}

#[derive(Debug)]
struct Task {
    name: String,
    handle: JoinHandle<Result<(), String>>,
}

/// Why a shutdown was not clean.
#[derive(Debug, thiserror::Error, PartialEq, Eq)]
pub enum ShutdownError {
    /// Some tasks were still running when the grace period ended; they were aborted.
    #[error("{} still ran {grace:?} after shutdown began and were aborted", .tasks.join(", "))]
    Late {
        /// The names of the tasks.
        tasks: Vec<String>,
        /// The grace period they had.
        grace: Duration,
    },
    /// A task panicked, which is a defect in Gantry.
    #[error("task {task} panicked: {message}; this is a defect, please report it")]
    Panicked {
        /// The name of the task.
        task: String,
        /// What the panic said.
        message: String,
    },
}

impl Shutdown {
    /// A shutdown that nothing has asked for yet.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Lets ctrl-c and SIGTERM ask for the shutdown; the second one exits at once.
    ///
    /// # Errors
    /// When the process cannot register signal handlers.
    pub fn listen_for_signals(&self) -> std::io::Result<()> {
        let token = self.token.clone();
        let (tell, told) = std::sync::mpsc::channel();
        // A thread and a runtime of its own, since the second signal is sent when the others are
        // stuck. Not joined: it outlives every task.
        std::thread::Builder::new().name("signals".to_owned()).spawn(move || {
            let (runtime, signals) = match Signals::register() {
                Ok(registered) => registered,
                Err(error) => return tell.send(Err(error)).unwrap_or(()),
            };
            if tell.send(Ok(())).is_ok() {
                runtime.block_on(signals.obey(&token));
            }
        })?;
        told.recv().unwrap_or_else(|_| Err(std::io::Error::other("the signal thread ended")))
    }

    /// The token that is cancelled when shutdown begins.
    #[must_use]
    pub fn token(&self) -> CancellationToken {
        self.token.clone()
    }

    /// Begins the shutdown.
    pub fn begin(&self) {
        self.token.cancel();
    }

    /// Whether shutdown has begun.
    #[must_use]
    pub fn has_begun(&self) -> bool {
        self.token.is_cancelled()
    }

    /// Returns when shutdown begins.
    pub async fn begun(&self) {
        self.token.cancelled().await;
    }

    /// Starts a task that [`Shutdown::join`] will wait for. A panic in it begins the
    /// shutdown.
    pub fn spawn(&self, name: impl Into<String>, work: impl Future<Output = ()> + Send + 'static) {
        let token = self.token.clone();
        let handle = tokio::spawn(async move {
            let outcome = std::panic::AssertUnwindSafe(work).catch_unwind().await;
            outcome.map_err(|panic| {
                token.cancel();
                message_of(panic.as_ref())
            })
        });
        let mut tasks = self.tasks.lock().unwrap_or_else(PoisonError::into_inner);
        // Tasks that ended well are forgotten, so a long life does not grow the list.
        tasks.retain_mut(|task| {
            !task.handle.is_finished()
                || (&mut task.handle).now_or_never().is_none_or(|done| !matches!(done, Ok(Ok(()))))
        });
        tasks.push(Task { name: name.into(), handle });
    }

    /// Waits until shutdown begins, then for all tasks, at most `grace`.
    ///
    /// # Errors
    /// When a task panicked, or did not end in time.
    pub async fn join(&self, clock: &Clock, grace: Duration) -> Result<(), ShutdownError> {
        self.token.cancelled().await;
        let deadline = clock.monotonic().saturating_add(grace);
        let mut late = Vec::new();
        let mut panicked = None;
        loop {
            // Taken in rounds, since a task may spawn another while it ends.
            let tasks =
                std::mem::take(&mut *self.tasks.lock().unwrap_or_else(PoisonError::into_inner));
            if tasks.is_empty() {
                break;
            }
            for Task { name, mut handle } in tasks {
                let left = deadline.saturating_sub(clock.monotonic());
                match clock.timeout(left, &mut handle).await {
                    Some(Ok(Err(message))) => {
                        panicked.get_or_insert(ShutdownError::Panicked { task: name, message });
                    }
                    Some(_) => {}
                    None => {
                        handle.abort();
                        late.push(name);
                    }
                }
            }
        }
        match panicked {
            Some(panic) => Err(panic),
            None if late.is_empty() => Ok(()),
            None => Err(ShutdownError::Late { tasks: late, grace }),
        }
    }
}

/// The signals that end a process.
struct Signals {
    interrupt: Signal,
    terminate: Signal,
}

impl Signals {
    fn register() -> std::io::Result<(Runtime, Self)> {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
        let entered = runtime.enter();
        let interrupt = signal(SignalKind::interrupt())?;
        let terminate = signal(SignalKind::terminate())?;
        drop(entered);
        Ok((runtime, Self { interrupt, terminate }))
    }

    /// Begins the shutdown at the first signal and exits at the second.
    async fn obey(mut self, token: &CancellationToken) {
        loop {
            let (status, name) = tokio::select! {
                _ = self.interrupt.recv() => (EXIT_INTERRUPTED, "SIGINT"),
                _ = self.terminate.recv() => (EXIT_TERMINATED, "SIGTERM"),
            };
            if token.is_cancelled() {
                say_farewell(name);
                std::process::exit(status);
            }
            token.cancel();
            tracing::info!("shutting down; a second signal exits at once");
        }
    }
}

/// Tells whoever sent the second signal what it did. Standard error may be held by a writer that
/// is stuck, so it is written to from a thread that nobody waits for longer than a moment.
fn say_farewell(signal: &'static str) {
    let (tell, told) = std::sync::mpsc::channel();
    let said = std::thread::Builder::new().name("farewell".to_owned()).spawn(move || {
        let text = format!("{signal} again: ended at once, and what was under way was cut off");
        let _ = writeln!(std::io::stderr(), "{text}");
        let _ = tell.send(());
    });
    if said.is_ok() {
        let _ = told.recv_timeout(FAREWELL_MAX);
    }
}

fn message_of(panic: &(dyn std::any::Any + Send)) -> String {
    let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
    text.or_else(|| panic.downcast_ref::<String>().cloned())
        .unwrap_or_else(|| "(no message)".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_millis(50);

    #[tokio::test]
    async fn join_waits_for_every_task() {
        let shutdown = Shutdown::new();
        let (done, mut seen) = tokio::sync::mpsc::channel(2);
        for name in ["one", "two"] {
            let (token, done) = (shutdown.token(), done.clone());
            shutdown.spawn(name, async move {
                token.cancelled().await;
                done.send(name).await.unwrap();
            });
        }
        shutdown.begin();
        assert_eq!(shutdown.join(&Clock::system(), Duration::from_secs(5)).await, Ok(()));
        assert_eq!((seen.recv().await, seen.recv().await), (Some("one"), Some("two")));
    }

    #[tokio::test]
    async fn a_signal_begins_the_shutdown() {
        let shutdown = Shutdown::new();
        shutdown.listen_for_signals().unwrap();
        let pid = std::process::id().to_string();
        let sent = std::process::Command::new("kill").args(["-TERM", &pid]).status().unwrap();
        assert!(sent.success());
        tokio::time::timeout(Duration::from_secs(10), shutdown.begun()).await.unwrap();
        assert_eq!(shutdown.join(&Clock::system(), GRACE).await, Ok(()));
    }

    /// A process whose only worker never yields; it says what it sees.
    #[tokio::test]
    #[ignore = "a part of the next test, which starts it"]
    async fn a_busy_process() {
        let shutdown = Shutdown::new();
        shutdown.listen_for_signals().unwrap();
        eprintln!("listening");
        let begun = (0..10_000).any(|_| {
            std::thread::sleep(Duration::from_millis(1));
            shutdown.has_begun()
        });
        assert!(begun, "no signal arrived");
        eprintln!("begun");
        // Longer than anyone waits for it, and not for ever.
        std::thread::sleep(Duration::from_secs(60));
    }

    #[test]
    fn the_second_signal_ends_a_process_though_its_worker_is_busy() {
        use std::io::BufRead as _;
        for (name, status) in [("INT", EXIT_INTERRUPTED), ("TERM", EXIT_TERMINATED)] {
            let mut child = std::process::Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "shutdown::tests::a_busy_process", "--ignored", "--nocapture"])
                .stdout(std::process::Stdio::null())
                .stderr(std::process::Stdio::piped())
                .spawn()
                .unwrap();
            let pid = child.id().to_string();
            let mut lines = std::io::BufReader::new(child.stderr.take().unwrap()).lines();
            for expected in ["listening", "begun"] {
                assert!(lines.any(|line| line.unwrap() == expected), "it never says {expected}");
                let sent = std::process::Command::new("kill").args(["-s", name, &pid]).status();
                assert!(sent.unwrap().success());
            }
            let told: Vec<String> = lines.map(Result::unwrap).collect();
            let farewell = "ended at once, and what was under way was cut off";
            assert_eq!(told, [format!("SIG{name} again: {farewell}")]);
            assert_eq!(child.wait().unwrap().code(), Some(status), "{name}");
        }
    }

    #[tokio::test]
    async fn a_task_that_does_not_end_is_named() {
        let shutdown = Shutdown::new();
        shutdown.spawn("stuck", std::future::pending());
        shutdown.begin();
        let error = shutdown.join(&Clock::system(), GRACE).await.unwrap_err();
        assert_eq!(error, ShutdownError::Late { tasks: vec!["stuck".into()], grace: GRACE });
    }

    #[tokio::test]
    async fn a_panic_begins_the_shutdown_and_is_told() {
        let shutdown = Shutdown::new();
        shutdown.spawn("broken", async { panic!("no {}", "way") });
        let error = shutdown.join(&Clock::system(), GRACE).await.unwrap_err();
        assert_eq!(
            error,
            ShutdownError::Panicked { task: "broken".into(), message: "no way".into() }
        );
    }
}
