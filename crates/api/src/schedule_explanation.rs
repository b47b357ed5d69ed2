//! A question why a pod has no node, and the scheduler's answer.

use std::time::Duration;

use object::names::{dns1123_label, dns1123_subdomain};
use object::time::{self, Time};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::malformed::Malformed;
use crate::object_meta::ObjectMeta;
use crate::resource::resource;
use crate::wire;

const KEY: &str = "spec.questionObjectKey";
const TTL: &str = "spec.ttl";
/// How long one is kept that does not say so.
const KEPT_UNLESS_TOLD: Duration = Duration::from_secs(86_400);

/// A question why a pod has no node, and the scheduler's answer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleExplanation {
    /// Who it is.
    #[serde(deserialize_with = "wire::or_default")]
    pub metadata: ObjectMeta,
    /// The question.
    #[serde(deserialize_with = "wire::or_default")]
    pub spec: ScheduleExplanationSpec,
    /// The answer.
    #[serde(deserialize_with = "wire::or_default")]
    pub status: ScheduleExplanationStatus,
}

resource!(
    ScheduleExplanation,
    "scheduling.koordinator.sh",
    "v1alpha1",
    "ScheduleExplanation",
    "scheduleexplanations",
    true
);

impl ScheduleExplanation {
    /// The namespace and the name of the pod that is asked about. Who may read an answer may not know of
    /// pods of other namespaces.
    ///
    /// # Errors
    /// When the key names no pod of its own namespace.
    pub fn pod(&self) -> Result<(&str, &str), Malformed> {
        let fix = "name a pod of the namespace that the explanation is in";
        let is_own = |(namespace, _): &(&str, &str)| *namespace == self.metadata.namespace;
        let pod = Some(self.spec.pod()?).filter(is_own);
        pod.ok_or_else(|| Malformed::new(KEY, &self.spec.question_object_key, fix))
    }
}

/// The question.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleExplanationSpec {
    /// What is asked about: a pod as namespace/name, a job likewise, or gangs.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub question_object_key: String,
    /// A pod that is not there, to be asked about instead.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub question_object_template: Option<Value>,
    /// How long it is kept, as somebody wrote it.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ttl: Option<String>,
}

impl ScheduleExplanationSpec {
    /// The namespace and the name of the pod that is asked about.
    ///
    /// # Errors
    /// When the key names no pod.
    fn pod(&self) -> Result<(&str, &str), Malformed> {
        let key = self.question_object_key.as_str();
        let fix = match &self.question_object_template {
            Some(_) if key.is_empty() => {
                "write the namespace/name of a pod; templates are not answered so far"
            }
            _ => "write the namespace/name of a pod; jobs and gangs are not answered so far",
        };
        let names = key.split_once('/').filter(|(namespace, name)| {
            dns1123_label(namespace).is_empty() && dns1123_subdomain(name).is_empty()
        });
        names.ok_or_else(|| Malformed::new(KEY, key, fix))
    }

    /// How long it is kept; nothing where it is kept for ever.
    ///
    /// # Errors
    /// When what is written is no length of time.
    pub fn lifetime(&self) -> Result<Option<Duration>, Malformed> {
        let Some(text) = &self.ttl else { return Ok(Some(KEPT_UNLESS_TOLD)) };
        let length = text.parse::<time::Duration>().ok();
        let nanos = length.and_then(|length| u64::try_from(length.as_nanos()).ok());
        let fix = "write a length of time such as 24h or 90s, or 0 for ever";
        let nanos = nanos.ok_or_else(|| Malformed::new(TTL, text, fix))?;
        Ok((nanos > 0).then(|| Duration::from_nanos(nanos)))
    }
}

/// The answer.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ScheduleExplanationStatus {
    /// Whether it can be placed now.
    #[serde(deserialize_with = "wire::or_default")]
    pub schedulable: bool,
    /// Whether it can be placed when others have gone.
    #[serde(deserialize_with = "wire::or_default")]
    pub schedulable_after_preemption: bool,
    /// Why not.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub failed_message: String,
    /// When this was last found to be so.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub last_update_time: Option<Time>,
    /// By topology domain.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub detailed_explanation: Vec<DetailedExplanation>,
}

/// The answer for one topology domain.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct DetailedExplanation {
    /// Which; empty for the whole cluster.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub topology_domain: String,
    /// Whether it can be placed now.
    #[serde(deserialize_with = "wire::or_default")]
    pub schedulable: bool,
    /// Whether it can be placed when others have gone.
    #[serde(deserialize_with = "wire::or_default")]
    pub schedulable_after_preemption: bool,
    /// Why not.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub failed_message: String,
    /// What nodes say.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub schedule_explanation: Option<Explanation>,
    /// Who could go, by node.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub node_possible_victims: Vec<NodePossibleVictims>,
    /// What comes of making others go.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preempt_explanation: Option<Explanation>,
}

/// What nodes say.
#[derive(Debug, Clone, Default, PartialEq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Explanation {
    /// Whether all can be placed.
    #[serde(deserialize_with = "wire::or_default")]
    pub schedulable: bool,
    /// Why not.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "String::is_empty")]
    pub failed_message: String,
    /// Where they would go.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub feasible_scheduling_result: Vec<SchedulingResult>,
    /// Nodes that refuse, by plugin and reason.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub node_failed_details: Vec<NodeFailedDetail>,
}

/// Where a pod would go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct SchedulingResult {
    /// Its namespace.
    #[serde(deserialize_with = "wire::or_default")]
    pub namespace: String,
    /// Its name.
    #[serde(deserialize_with = "wire::or_default")]
    pub name: String,
    /// Its identity.
    #[serde(deserialize_with = "wire::or_default")]
    pub uid: String,
    /// The node.
    #[serde(deserialize_with = "wire::or_default")]
    pub node_name: String,
}

/// Nodes that refuse for one reason.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodeFailedDetail {
    /// Who says so.
    #[serde(deserialize_with = "wire::or_default")]
    pub failed_plugin: String,
    /// Why.
    #[serde(deserialize_with = "wire::or_default")]
    pub reason: String,
    /// Whether it could help that others go.
    #[serde(deserialize_with = "wire::or_default")]
    pub preempt_might_help: bool,
    /// The nodes, in order.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub failed_nodes: Vec<String>,
}

/// Who could go on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct NodePossibleVictims {
    /// The node.
    #[serde(deserialize_with = "wire::or_default")]
    pub node_name: String,
    /// Who could go there.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "Vec::is_empty")]
    pub possible_victims: Vec<PossibleVictim>,
}

/// A pod that could go.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct PossibleVictim {
    /// Its namespace.
    #[serde(deserialize_with = "wire::or_default")]
    pub namespace: String,
    /// Its name.
    #[serde(deserialize_with = "wire::or_default")]
    pub name: String,
    /// Its identity.
    #[serde(deserialize_with = "wire::or_default")]
    pub uid: String,
    /// Whether it only waits for room there.
    #[serde(deserialize_with = "wire::or_default")]
    pub is_nominated_pod: bool,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn spec(key: &str, ttl: Option<&str>) -> ScheduleExplanationSpec {
        let ttl = ttl.map(str::to_owned);
        ScheduleExplanationSpec { question_object_key: key.to_owned(), ttl, ..Default::default() }
    }

    #[test]
    fn a_question_is_the_key_of_a_pod() {
        assert_eq!(spec("shop/web-0", None).pod(), Ok(("shop", "web-0")));
        assert_eq!(spec("shop/web.0", None).pod(), Ok(("shop", "web.0")));
        for wrong in ["", "web-0", "/web-0", "shop/", "shop/a/b", "shop/a,shop/b", "Shop/a?b"] {
            let error = spec(wrong, None).pod().unwrap_err().to_string();
            let words = "write the namespace/name of a pod; jobs and gangs are not answered so far";
            assert_eq!(error, format!("{KEY} has the value {wrong:?}: {words}"));
        }
        let template = Some(serde_json::json!({}));
        let own = ScheduleExplanationSpec { question_object_template: template, ..spec("", None) };
        assert!(own.pod().unwrap_err().to_string().contains("templates are not answered so far"));
    }

    #[test]
    fn it_asks_about_its_own_namespace_only() {
        let asked = |namespace: &str| {
            let mut own =
                ScheduleExplanation { spec: spec("shop/web-0", None), ..Default::default() };
            own.metadata.namespace = namespace.to_owned();
            own.pod().map(|(_, name)| name.to_owned()).map_err(|error| error.value().to_owned())
        };
        assert_eq!(asked("shop"), Ok("web-0".to_owned()));
        assert_eq!(asked("bank"), Err("shop/web-0".to_owned()));
    }

    #[test]
    fn it_lives_for_a_day_unless_told_and_for_ever_with_0() {
        let check = |ttl: Option<&str>, seconds: Option<u64>| {
            assert_eq!(spec("", ttl).lifetime(), Ok(seconds.map(Duration::from_secs)), "{ttl:?}");
        };
        check(None, Some(86_400));
        check(Some("24h"), Some(86_400));
        check(Some("90s"), Some(90));
        check(Some("0"), None);
        check(Some("0s"), None);
        for wrong in ["", "soon", "-1s", "5"] {
            let error = spec("", Some(wrong)).lifetime().unwrap_err().to_string();
            assert!(
                error.starts_with(&format!("spec.ttl has the value {wrong:?}: write")),
                "{error}"
            );
        }
    }
}
