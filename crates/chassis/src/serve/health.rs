//! The named checks of a process, and how they went.

use std::fmt::Write as _;
use std::sync::{Arc, Mutex, PoisonError};

use super::slis::Slis;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Probe {
    Live,
    Ready,
}

type CheckFn = Box<dyn Fn() -> Result<(), String> + Send + Sync>;

struct Check {
    name: &'static str,
    probe: Probe,
    run: CheckFn,
}

/// The named checks of a process, and how they went whenever somebody asked for all of an
/// endpoint; clones share both, on however many ports they are shown.
#[derive(Clone, Default)]
pub struct Health(Arc<Shared>);

#[derive(Default)]
struct Shared {
    checks: Mutex<Vec<Check>>,
    slis: Slis,
}

impl Health {
    /// No checks: alive and ready.
    #[must_use]
    pub fn new() -> Self {
        Self::default()
    }

    /// Adds a check without which the process should be restarted.
    pub fn add_live(
        &self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.add(Check { name, probe: Probe::Live, run: Box::new(check) });
    }

    /// Adds a check without which the process does not do its work.
    pub fn add_ready(
        &self,
        name: &'static str,
        check: impl Fn() -> Result<(), String> + Send + Sync + 'static,
    ) {
        self.add(Check { name, probe: Probe::Ready, run: Box::new(check) });
    }

    fn add(&self, check: Check) {
        self.0.checks.lock().unwrap_or_else(PoisonError::into_inner).push(check);
    }

    /// Whether all checks of readiness, and of life, pass.
    #[must_use]
    pub fn is_ready(&self) -> bool {
        self.report("readyz", None).is_some_and(|report| report.is_ok())
    }

    /// Runs one check.
    ///
    /// # Errors
    /// When it fails, or nobody has added it.
    pub fn check(&self, name: &str) -> Result<(), String> {
        let checks = self.0.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let found = checks.iter().find(|check| check.name == name);
        found.map_or_else(|| Err("not started".to_owned()), |check| (check.run)())
    }

    /// How the checks went whenever all of an endpoint were asked for.
    pub(super) fn slis(&self) -> &Slis {
        &self.0.slis
    }

    /// Runs the checks of an endpoint, or the one of them that is named; `None` where there
    /// is no such check.
    pub(super) fn report(&self, endpoint: &str, only: Option<&str>) -> Option<Report> {
        let checks = self.0.checks.lock().unwrap_or_else(PoisonError::into_inner);
        let is_asked = |name: &str| only.is_none_or(|only| only == name);
        let ping = is_asked("ping").then_some(("ping", Ok(())));
        let own = checks.iter().filter(|check| {
            (endpoint == "readyz" || check.probe == Probe::Live) && is_asked(check.name)
        });
        let own = own.map(|check| (check.name, (check.run)()));
        let outcomes: Vec<_> = ping.into_iter().chain(own).collect();
        (!outcomes.is_empty()).then_some(Report(outcomes))
    }
}

/// How checks went, each by its name.
pub(super) struct Report(pub(super) Vec<(&'static str, Result<(), String>)>);

impl Report {
    pub(super) fn is_ok(&self) -> bool {
        self.0.iter().all(|(_, outcome)| outcome.is_ok())
    }

    /// A line for each check.
    pub(super) fn text(&self) -> String {
        let mut text = String::new();
        for (name, outcome) in &self.0 {
            // Writing to a string cannot fail.
            let _ = match outcome {
                Ok(()) => writeln!(text, "[+]{name} ok"),
                Err(reason) => writeln!(text, "[-]{name} failed: {reason}"),
            };
        }
        text
    }
}
