//! Gangs as they are made: the rules of Koordinator as far as anything here asks for them, written down
//! apart from the engine.

use api::pod_group::{
    GANG_GROUPS, GANG_MATCH_POLICY, GANG_MIN_AVAILABLE, GANG_MODE, GANG_NAME, GANG_WAITING_TIME,
    POD_GROUP_LABEL,
};
use serde_json::{Value, json};

use crate::draw::Draw;

/// Where all of them live.
pub const NAMESPACE: &str = "default";

/// Which members count towards those that there must be.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Policy {
    OnlyWaiting,
    WaitingAndRunning,
    OnceSatisfied,
}

impl Policy {
    fn as_str(self) -> &'static str {
        match self {
            Self::OnlyWaiting => "only-waiting",
            Self::WaitingAndRunning => "waiting-and-running",
            Self::OnceSatisfied => "once-satisfied",
        }
    }
}

/// A gang.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Gang {
    pub name: String,
    /// How many members have to get a node at once.
    pub min: usize,
    pub policy: Policy,
    /// Whether an object describes it, and not its pods.
    pub is_object: bool,
    pub is_strict: bool,
    /// How long its members may take to be bound, where it says so.
    pub wait_seconds: Option<u32>,
    /// The gangs that start with it, itself among them, in order.
    pub group: Vec<String>,
    /// Gangs that come with it, ask for the same, and do not start with it.
    pub rivals: Vec<String>,
}

impl Gang {
    /// A gang that starts with others, of which so many members are made.
    pub fn drawn(draw: &mut Draw, name: &str, group: &[String], members: usize) -> Self {
        let policies = [Policy::OnlyWaiting, Policy::WaitingAndRunning, Policy::OnceSatisfied];
        // Most say nothing, which is the last.
        let policy = if draw.chance(300) { policies[draw.below(2)] } else { policies[2] };
        Self {
            name: name.to_owned(),
            min: if draw.chance(500) { members } else { members.saturating_sub(1).max(1) },
            policy,
            is_object: draw.chance(500),
            is_strict: draw.chance(700),
            wait_seconds: draw.chance(200).then(|| [3, 20][draw.below(2)]),
            group: group.to_vec(),
            rivals: Vec::new(),
        }
    }

    /// What is said of it beside how many there must be.
    fn annotations(&self) -> Value {
        let mut all = json!({ GANG_MATCH_POLICY: self.policy.as_str() });
        if !self.is_strict {
            all[GANG_MODE] = json!("NonStrict");
        }
        if self.group.len() > 1 {
            let ids: Vec<String> =
                self.group.iter().map(|name| format!("{NAMESPACE}/{name}")).collect();
            all[GANG_GROUPS] = json!(json!(ids).to_string());
        }
        all
    }

    /// Has a pod say that it is a member.
    pub fn sign(&self, metadata: &mut Value) {
        if self.is_object {
            metadata["labels"][POD_GROUP_LABEL] = json!(self.name);
            return;
        }
        let mut told = self.annotations();
        told[GANG_NAME] = json!(self.name);
        told[GANG_MIN_AVAILABLE] = json!(self.min.to_string());
        if let Some(seconds) = self.wait_seconds {
            told[GANG_WAITING_TIME] = json!(format!("{seconds}s"));
        }
        for (key, value) in told.as_object().into_iter().flatten() {
            metadata["annotations"][key] = value.clone();
        }
    }

    /// The object that describes it.
    pub fn object(&self) -> Value {
        json!({ "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "PodGroup",
                "metadata": { "name": self.name, "annotations": self.annotations() },
                "spec": { "minMember": self.min, "scheduleTimeoutSeconds": self.wait_seconds } })
    }

    /// How many members have to get a node at once, where so many have one and wherever any of its
    /// group has one. Of those that count only who waits it may be fewer: the rest of a start that was
    /// cut short follows by itself.
    pub fn needs(&self, placed: usize, has_started: bool) -> usize {
        match self.policy {
            Policy::OnceSatisfied if has_started => 0,
            Policy::OnceSatisfied | Policy::OnlyWaiting => self.min,
            Policy::WaitingAndRunning => self.min.saturating_sub(placed),
        }
    }
}
