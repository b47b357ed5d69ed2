//! How a pod that a former process ran is taken up where it was left.

use api::Pod;
use api::pod::{ContainerStatus, PodPhase};

use super::{ContainerRun, Ended, Final, PodRun, Since, Stage, State};
use crate::shape::{ContainerShape, Restart};
use crate::time::{Now, Stamp};

impl PodRun {
    /// Takes the state from what the API server was told before. Says false when nothing
    /// was: the pod is new to its node.
    pub(crate) fn adopt(&mut self, pod: &Pod, now: Now) -> bool {
        let status = &pod.status;
        let end = match status.phase {
            PodPhase::Succeeded => Some(Final::Succeeded),
            PodPhase::Failed => Some(Final::Failed),
            PodPhase::Pending | PodPhase::Running | PodPhase::Unknown => None,
        };
        let Some(start) = status.start_time.map(Stamp::from) else {
            let Some(end) = end else { return false };
            self.start = now.stamp();
            self.stage = Stage::Finished(end);
            return true;
        };
        self.start = start;
        let since_told = |kind: &str| {
            let found = api::condition::find(&status.conditions, kind);
            let at = found.and_then(|condition| condition.last_transition_time);
            Since {
                on: found.is_some_and(api::Condition::is_true),
                at: at.map_or(start, Stamp::from),
            }
        };
        for (kind, since) in [
            ("PodReadyToStartContainers", &mut self.sandbox),
            ("Initialized", &mut self.initialized),
            ("ContainersReady", &mut self.containers_ready),
        ] {
            *since = since_told(kind);
        }
        self.set_gated(|_| since_told("Ready"));
        let told = status.init_container_statuses.iter().chain(&status.container_statuses);
        let told: Vec<&ContainerStatus> = told.collect();
        for (run, shape) in self.containers.iter_mut().zip(&self.shape.containers) {
            if let Some(status) = told.iter().find(|status| *status.name == *shape.name) {
                *run = ContainerRun::adopt(status, shape, self.shape.restart, now);
            }
        }
        if let Some(end) = end {
            self.stage = Stage::Finished(end);
            return true;
        }
        let begun = self.containers.iter().any(|run| run.state != State::Waiting);
        if begun && self.stage == Stage::Creating {
            self.stage = Stage::Started;
        }
        self.advance(now);
        true
    }
}

impl ContainerRun {
    fn adopt(status: &ContainerStatus, shape: &ContainerShape, restart: Restart, now: Now) -> Self {
        let restarts = u32::try_from(status.restart_count).unwrap_or(0);
        let mut run = Self { restarts, ready: status.ready, ..Self::default() };
        run.backoff = u8::try_from(restarts).unwrap_or(u8::MAX);
        if let Some(ended) = &status.last_state.terminated {
            run.last = Some(Box::new(Ended {
                started: ended.started_at.map_or(Stamp::NONE, Stamp::from),
                finished: ended.finished_at.map_or(Stamp::NONE, Stamp::from),
                exit_code: ended.exit_code,
                restarts: restarts.saturating_sub(1),
            }));
        }
        if let Some(running) = &status.state.running {
            run.state = State::Running;
            run.started = running.started_at.map_or(now.stamp(), Stamp::from);
            run.due_ms = run.running_until(shape, now);
        } else if let Some(ended) = &status.state.terminated {
            run.state = State::Ended;
            run.started = ended.started_at.map_or(Stamp::NONE, Stamp::from);
            run.finished = ended.finished_at.map_or(Stamp::NONE, Stamp::from);
            run.exit_code = ended.exit_code;
            if restart.follows(shape.role, ended.exit_code) {
                run.due_ms = now.ms().max(1);
            }
        } else if let Some(last) = run.last.take() {
            // It waited to be started again.
            run.state = State::BackingOff;
            run.backoff = run.backoff.saturating_add(1);
            (run.started, run.finished, run.exit_code) =
                (last.started, last.finished, last.exit_code);
            let wait = run.current_wait_seconds().saturating_mul(1000);
            run.due_ms = now.due_after(run.finished, wait).max(1);
        }
        run
    }
}
