//! How a pod moves on as time passes, as on a real node: the sandbox, init containers and
//! sidecars in their order, the containers all at once, restarts with growing waits, the
//! deadline, the end.

use std::sync::Arc;

use super::{ContainerRun, Ended, Final, PodRun, Since, Stage, State, Verdict};
use crate::shape::{ContainerShape, Role, Shape};
use crate::time::Now;

/// The first restart comes as soon as the end is noticed.
const RESTART_FIRST_MS: u64 = 1_000;
/// The second one waits so long, and each further one twice as long as the one before.
const BACKOFF_MS: u64 = 10_000;
const BACKOFF_MAX_MS: u64 = 300_000;
/// A container that ran for so long starts with short waits again.
const BACKOFF_FORGOTTEN_SECONDS: u32 = 600;
/// The exit code of a process that was killed.
const KILLED: i32 = 137;

impl PodRun {
    /// The node accepted the pod.
    pub(crate) fn admit(&mut self, now: Now) {
        self.begin(now);
        self.touch();
        self.advance(now);
    }

    /// The node has seen the pod; no condition holds yet.
    fn begin(&mut self, now: Now) {
        self.start = now.stamp();
        let missing = Since { on: false, at: self.start };
        (self.sandbox, self.initialized, self.containers_ready) = (missing, missing, missing);
        self.set_gated(|_| missing);
    }

    /// The node has no room for the pod.
    pub(crate) fn reject(&mut self, now: Now, reason: &str, message: &str) {
        self.begin(now);
        let message = format!("Pod was rejected: {message}");
        self.verdict = Some(Box::new(Verdict { reason: reason.into(), message: message.into() }));
        self.containers = Box::default();
        self.stage = Stage::Finished(Final::Failed);
        self.touch();
    }

    /// Does all that is due.
    pub(crate) fn advance(&mut self, now: Now) {
        while self.advance_once(now) {
            self.touch();
        }
        self.note(now);
    }

    fn advance_once(&mut self, now: Now) -> bool {
        let alive = matches!(self.stage, Stage::Creating | Stage::Started);
        if alive && self.deadline_ms(now).is_some_and(|due| due <= now.ms()) {
            self.verdict = Some(Box::new(Verdict {
                reason: "DeadlineExceeded".into(),
                message: "Pod was active on the node longer than the specified deadline".into(),
            }));
            self.end_all(now, KILLED);
            self.stage = Stage::Finished(Final::Failed);
            return true;
        }
        match self.stage {
            Stage::Creating if self.stage_ms <= now.ms() => {
                self.stage = Stage::Started;
                true
            }
            Stage::Started => self.run(now),
            Stage::Stopping { killed } if self.stage_ms <= now.ms() => {
                self.end_all(now, if killed { KILLED } else { 0 });
                self.stage = Stage::Finished(self.outcome());
                true
            }
            _ => false,
        }
    }

    /// When something is due next.
    pub(crate) fn next_ms(&self, now: Now) -> Option<u64> {
        let own = match self.stage {
            Stage::Creating | Stage::Stopping { .. } => Some(self.stage_ms),
            Stage::Started => {
                self.containers.iter().map(|run| run.due_ms).filter(|due| *due > 0).min()
            }
            Stage::Stuck | Stage::Finished(_) => return None,
        };
        let deadline = if matches!(self.stage, Stage::Creating | Stage::Started) {
            self.deadline_ms(now)
        } else {
            None
        };
        [own, deadline].into_iter().flatten().min()
    }

    fn deadline_ms(&self, now: Now) -> Option<u64> {
        let seconds = self.shape.deadline_seconds?;
        Some(now.due_after(self.start, seconds.saturating_mul(1000)))
    }

    /// Asks the containers to end, no later than `deadline_ms`. Asked again, only an
    /// earlier end counts.
    pub(crate) fn stop(&mut self, now: Now, deadline_ms: u64) {
        match self.stage {
            Stage::Finished(_) => {}
            Stage::Stopping { .. } => {
                if deadline_ms < self.stage_ms {
                    self.stage_ms = deadline_ms;
                    self.stage = Stage::Stopping { killed: true };
                }
            }
            Stage::Creating | Stage::Stuck | Stage::Started => {
                let wanted = now.ms().saturating_add(self.shape.stop_ms);
                self.stage_ms = wanted.min(deadline_ms);
                self.stage = Stage::Stopping { killed: wanted > deadline_ms };
            }
        }
        self.advance(now);
    }

    /// Takes other amounts or another behaviour; the containers stay the same ones.
    pub(crate) fn reshape(&mut self, now: Now, shape: Arc<Shape>) {
        self.shape = shape;
        for (run, shape) in self.containers.iter_mut().zip(&self.shape.containers) {
            if run.state == State::Running {
                run.due_ms = run.running_until(shape, now);
            }
        }
        if self.stage == Stage::Stuck && self.shape.fault().is_none() {
            self.stage = Stage::Creating;
            self.stage_ms = now.ms();
        }
        self.touch();
        self.advance(now);
    }

    /// Whether there is a sandbox, which has an address.
    pub(crate) fn has_sandbox(&self) -> bool {
        self.sandbox.on
    }

    /// Somebody else declared the pod over; so it is.
    pub(crate) fn end_as(&mut self, now: Now, end: Final) {
        self.end_all(now, KILLED);
        self.stage = Stage::Finished(end);
        self.touch();
        self.note(now);
    }

    fn run(&mut self, now: Now) -> bool {
        let mut moved = false;
        for index in 0..self.containers.len() {
            let due = self.containers[index].due_ms;
            if due > 0 && due <= now.ms() {
                self.move_container(index, now);
                moved = true;
            }
        }
        if self.is_finished() {
            return true;
        }
        moved |= self.take_turns(now);
        if self.mains().all(|run| run.state == State::Ended && run.due_ms == 0) {
            self.end_all(now, 0);
            self.stage = Stage::Finished(self.outcome());
            return true;
        }
        moved
    }

    /// Starts whatever has its turn.
    fn take_turns(&mut self, now: Now) -> bool {
        let mut moved = false;
        for index in 0..self.containers.len() {
            let role = self.shape.containers[index].role;
            if self.containers[index].state == State::Waiting {
                self.start_container(index, now);
                moved = true;
            }
            let run = &self.containers[index];
            let done = match role {
                Role::Init => run.state == State::Ended && run.due_ms == 0 && run.exit_code == 0,
                // One that waits to be restarted keeps nobody else from starting.
                Role::Sidecar | Role::Main => true,
            };
            if !done {
                break;
            }
        }
        moved
    }

    fn move_container(&mut self, index: usize, now: Now) {
        let shape = &self.shape.containers[index];
        let (run_ms, ready_ms) = (shape.run_ms, shape.ready_ms);
        let run = &mut self.containers[index];
        match run.state {
            State::Running if !run.ready && becomes_ready(run_ms, ready_ms, shape.role) => {
                run.ready = true;
                let rest = run_ms.map(|run_ms| run_ms.saturating_sub(ready_ms));
                run.due_ms = rest.map_or(0, |rest| run.due_ms.saturating_add(rest));
            }
            State::Running => self.end_container(index, now),
            State::Ended | State::BackingOff => self.start_container(index, now),
            State::Waiting => run.due_ms = 0,
        }
    }

    fn start_container(&mut self, index: usize, now: Now) {
        let shape = &self.shape.containers[index];
        let run = &mut self.containers[index];
        if run.state != State::Waiting {
            run.last = Some(Box::new(run.ended()));
            run.restarts = run.restarts.saturating_add(1);
        }
        run.state = State::Running;
        run.started = now.stamp();
        run.ready = shape.role != Role::Init && shape.ready_ms == 0;
        let wait = run.next_change(shape);
        // Zero means that nothing is due.
        run.due_ms = wait.map_or(0, |wait| now.ms().saturating_add(wait).max(1));
    }

    fn end_container(&mut self, index: usize, now: Now) {
        let (role, exit_code) = {
            let shape = &self.shape.containers[index];
            (shape.role, shape.exit_code)
        };
        let restart = self.shape.restart;
        let run = &mut self.containers[index];
        run.finished = now.stamp();
        run.exit_code = exit_code;
        run.state = State::Ended;
        run.ready = role == Role::Init && exit_code == 0;
        run.due_ms = 0;
        if restart.follows(role, exit_code) {
            let wait = run.next_wait();
            run.due_ms = now.ms().saturating_add(wait);
            run.state = if wait > RESTART_FIRST_MS { State::BackingOff } else { State::Ended };
        } else if role == Role::Init && exit_code != 0 {
            self.end_all(now, 0);
            self.stage = Stage::Finished(Final::Failed);
        }
    }

    /// Ends every container that runs.
    fn end_all(&mut self, now: Now, exit_code: i32) {
        for run in &mut self.containers {
            if run.state == State::Running {
                (run.finished, run.exit_code) = (now.stamp(), exit_code);
                run.ready = false;
            }
            if run.state != State::Waiting {
                run.state = State::Ended;
            }
            run.due_ms = 0;
        }
    }

    /// How the pod ended, from how its containers did.
    fn outcome(&self) -> Final {
        let well = |run: &ContainerRun| run.state == State::Ended && run.exit_code == 0;
        if self.mains().all(well) { Final::Succeeded } else { Final::Failed }
    }

    fn mains(&self) -> impl Iterator<Item = &ContainerRun> {
        self.with_role(|role| role == Role::Main)
    }

    fn with_role(&self, wanted: impl Fn(Role) -> bool) -> impl Iterator<Item = &ContainerRun> {
        let all = self.containers.iter().zip(&self.shape.containers);
        all.filter(move |(_, shape)| wanted(shape.role)).map(|(run, _)| run)
    }

    pub(super) fn has_started_mains(&self) -> bool {
        self.mains().any(|run| run.state != State::Waiting)
    }

    /// Brings the facts that conditions tell up to date.
    pub(super) fn note(&mut self, now: Now) {
        let alive = matches!(self.stage, Stage::Started | Stage::Stopping { .. });
        let begun = alive && self.containers.iter().any(|run| run.state != State::Waiting);
        let initialized = self.initialized.on
            || self
                .with_role(|role| role == Role::Init)
                .all(|run| run.state == State::Ended && run.due_ms == 0 && run.exit_code == 0)
                && self.with_role(|role| role == Role::Sidecar).all(|run| !run.started.is_none());
        let ready = alive
            && self.has_started_mains()
            && self.with_role(|role| role != Role::Init).all(|run| run.ready);
        self.sandbox.set(begun, now);
        self.initialized.set(initialized, now);
        self.containers_ready.set(ready, now);
        let ready = ready && self.closed_gates().is_none();
        self.set_gated(|mut since| {
            since.set(ready, now);
            since
        });
    }
}

/// Whether a container is ready at some time of its run, other than at its start.
fn becomes_ready(run_ms: Option<u64>, ready_ms: u64, role: Role) -> bool {
    role != Role::Init && ready_ms > 0 && ready_ms < run_ms.unwrap_or(u64::MAX)
}

impl Since {
    pub(super) fn set(&mut self, on: bool, now: Now) {
        if self.on != on {
            *self = Self { on, at: now.stamp() };
        }
    }
}

impl ContainerRun {
    /// After how much of its run a running container changes.
    fn next_change(&self, shape: &ContainerShape) -> Option<u64> {
        if !self.ready && becomes_ready(shape.run_ms, shape.ready_ms, shape.role) {
            return Some(shape.ready_ms);
        }
        shape.run_ms
    }

    /// When a container that started a while ago changes; zero for never.
    pub(super) fn running_until(&self, shape: &ContainerShape, now: Now) -> u64 {
        self.next_change(shape).map_or(0, |wait| now.due_after(self.started, wait).max(1))
    }

    pub(super) fn ended(&self) -> Ended {
        Ended {
            started: self.started,
            finished: self.finished,
            exit_code: self.exit_code,
            restarts: self.restarts,
        }
    }

    /// How long to wait before the next start.
    pub(super) fn next_wait(&mut self) -> u64 {
        let ran = self.finished.seconds().saturating_sub(self.started.seconds());
        if ran >= BACKOFF_FORGOTTEN_SECONDS {
            self.backoff = 0;
        }
        let wait = self.wait();
        self.backoff = self.backoff.saturating_add(1);
        wait
    }

    fn wait(&self) -> u64 {
        match self.backoff {
            0 => RESTART_FIRST_MS,
            nth => (BACKOFF_MS << (nth - 1).min(16)).min(BACKOFF_MAX_MS),
        }
    }

    /// How long the wait is that it is in.
    pub(super) fn current_wait_seconds(&self) -> u64 {
        let level = self.backoff.saturating_sub(1);
        Self { backoff: level, ..Self::default() }.wait() / 1000
    }
}
