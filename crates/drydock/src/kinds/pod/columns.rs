//! The table of pods.

use std::collections::BTreeMap;

use jiff::Timestamp;
use object::table::{RowCondition, date_cell};
use object::time::{Time, human_duration};
use serde_json::Value;

use crate::kinds::cells::{AGE, Cell, NAME, cell, wide};
use crate::kinds::fields::{flag, list, number, present, text};
use crate::kinds::pod_spec::resources::is_sidecar;

const NONE: &str = "<none>";

/// The table.
pub(super) const TABLE: &[Cell] = &[
    NAME,
    cell("Ready", "string", |pod, _| {
        let seen = Seen::of(pod);
        format!("{}/{}", seen.ready, seen.total).into()
    }),
    cell("Status", "string", |pod, _| Seen::of(pod).reason.into()),
    cell("Restarts", "string", |pod, now| restarts(&Seen::of(pod), now).into()),
    AGE,
    wide("IP", "string", |pod, _| {
        or_none(list(&pod["status"], "podIPs").first().map_or("", |one| text(one, "ip")))
    }),
    wide("Node", "string", |pod, _| or_none(text(&pod["spec"], "nodeName"))),
    wide("Nominated Node", "string", |pod, _| or_none(text(&pod["status"], "nominatedNodeName"))),
    wide("Readiness Gates", "string", |pod, _| {
        readiness_gates(&pod["spec"], &pod["status"]).into()
    }),
];

fn or_none(text: &str) -> Value {
    if text.is_empty() { NONE } else { text }.into()
}

fn restarts(seen: &Seen, now: Timestamp) -> String {
    match seen.last_restart.filter(|_| seen.restarts != 0) {
        Some(last) => {
            let since = date_cell(&last.to_string(), now, &human_duration);
            format!("{} ({since} ago)", seen.restarts)
        }
        None => seen.restarts.to_string(),
    }
}

/// Says that a pod is over, so that clients may leave it out.
pub(super) fn conditions(pod: &Value) -> Vec<RowCondition> {
    let phase = text(&pod["status"], "phase");
    let message = match phase {
        "Succeeded" => "The pod has completed successfully.",
        "Failed" => "The pod failed.",
        _ => return Vec::new(),
    };
    vec![RowCondition {
        condition_type: "Completed".to_owned(),
        status: "True".to_owned(),
        reason: phase.to_owned(),
        message: message.to_owned(),
    }]
}

fn readiness_gates(spec: &Value, status: &Value) -> String {
    let gates = list(spec, "readinessGates");
    if gates.is_empty() {
        return NONE.to_owned();
    }
    let open = gates.iter().filter(|gate| condition(status, text(gate, "conditionType")) == "True");
    format!("{}/{}", open.count(), gates.len())
}

fn condition<'a>(status: &'a Value, kind: &str) -> &'a str {
    let mut conditions = list(status, "conditions").iter();
    conditions.find(|one| text(one, "type") == kind).map_or("", |one| text(one, "status"))
}

/// What the containers of a pod come to, in one line.
struct Seen {
    reason: String,
    restarts: i64,
    last_restart: Option<Time>,
    ready: usize,
    total: usize,
}

impl Seen {
    fn of(pod: &Value) -> Self {
        let (spec, status) = (&pod["spec"], &pod["status"]);
        let own = text(status, "reason");
        let reason = if own.is_empty() { text(status, "phase") } else { own };
        let sidecars = list(spec, "initContainers").iter().filter(|one| is_sidecar(one)).count();
        let mut seen = Self {
            reason: reason.to_owned(),
            restarts: 0,
            last_restart: None,
            ready: 0,
            total: list(spec, "containers").len() + sidecars,
        };
        let gated = list(status, "conditions").iter().any(|one| {
            text(one, "type") == "PodScheduled" && text(one, "reason") == "SchedulingGated"
        });
        if gated {
            "SchedulingGated".clone_into(&mut seen.reason);
        }
        let starting = seen.init_containers(spec, status);
        if !starting || condition(status, "Initialized") == "True" {
            seen.containers(spec, status);
        }
        seen.deletion(pod);
        seen
    }

    fn restarted(&mut self, container: &Value) {
        self.restarts += number(container, "restartCount").unwrap_or(0);
        let ended = &container["lastState"]["terminated"];
        let finished = text(ended, "finishedAt").parse::<Time>().ok();
        if finished > self.last_restart {
            self.last_restart = finished;
        }
    }

    /// Reads the init containers; whether the pod is still starting.
    fn init_containers(&mut self, spec: &Value, status: &Value) -> bool {
        let specs = list(spec, "initContainers");
        let sidecars: BTreeMap<&str, bool> =
            specs.iter().map(|one| (text(one, "name"), is_sidecar(one))).collect();
        for (index, container) in list(status, "initContainerStatuses").iter().enumerate() {
            self.restarted(container);
            let state = &container["state"];
            let (ended, waiting) =
                (present(state, "terminated"), text(&state["waiting"], "reason"));
            let code = ended.map(|ended| number(ended, "exitCode").unwrap_or(0));
            let sidecar = sidecars.get(text(container, "name")).copied().unwrap_or(false);
            if code == Some(0) {
                continue;
            }
            if sidecar && flag(container, "started") {
                self.ready += usize::from(flag(container, "ready"));
                continue;
            }
            self.reason = match ended {
                Some(ended) => format!("Init:{}", ending(ended)),
                None if !matches!(waiting, "" | "PodInitializing") => format!("Init:{waiting}"),
                None => format!("Init:{index}/{}", specs.len()),
            };
            return true;
        }
        false
    }

    fn containers(&mut self, spec: &Value, status: &Value) {
        // The restarts of init containers that ran to their end are over and forgotten.
        (self.restarts, self.last_restart) = (0, None);
        let sidecar = |name: &str| {
            list(spec, "initContainers")
                .iter()
                .any(|one| text(one, "name") == name && is_sidecar(one))
        };
        let started = list(status, "initContainerStatuses").iter();
        for container in started.filter(|one| sidecar(text(one, "name"))) {
            self.restarted(container);
        }
        let (mut running, mut failed) = (false, None);
        for container in list(status, "containerStatuses").iter().rev() {
            self.restarted(container);
            let state = &container["state"];
            let waiting = text(&state["waiting"], "reason");
            if !waiting.is_empty() {
                waiting.clone_into(&mut self.reason);
            } else if let Some(ended) = present(state, "terminated") {
                self.reason = ending(ended);
                if number(ended, "exitCode").unwrap_or(0) != 0 {
                    failed = Some(self.reason.clone());
                }
            } else if flag(container, "ready") && present(state, "running").is_some() {
                running = true;
                self.ready += 1;
            }
        }
        if self.reason != "Completed" {
            return;
        }
        if running && condition(status, "Ready") == "True" {
            "Running".clone_into(&mut self.reason);
        } else if let Some(failed) = failed {
            self.reason = failed;
        } else if running {
            "NotReady".clone_into(&mut self.reason);
        }
    }

    fn deletion(&mut self, pod: &Value) {
        if present(&pod["metadata"], "deletionTimestamp").is_none() {
            return;
        }
        let status = &pod["status"];
        if text(status, "reason") == "NodeLost" {
            "Unknown".clone_into(&mut self.reason);
        } else if !matches!(text(status, "phase"), "Failed" | "Succeeded") {
            "Terminating".clone_into(&mut self.reason);
        }
    }
}

/// Why a container ended.
fn ending(ended: &Value) -> String {
    let (reason, signal) = (text(ended, "reason"), number(ended, "signal").unwrap_or(0));
    if !reason.is_empty() {
        reason.to_owned()
    } else if signal != 0 {
        format!("Signal:{signal}")
    } else {
        format!("ExitCode:{}", number(ended, "exitCode").unwrap_or(0))
    }
}
