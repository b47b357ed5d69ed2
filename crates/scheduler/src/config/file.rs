//! What the user wrote: the file's own shape, field for field.
//!
//! Everything is optional, because the API lets nearly everything be left out or be `null`. What
//! a missing value means, and whether a value may be, is not known here.

use object::time::Duration;
use serde::{Deserialize, Deserializer};
use serde_json::Value;

/// Reads `null` as if the field were absent, as the API does.
pub(super) fn or_default<'de, D, T>(deserializer: D) -> Result<T, D::Error>
where
    D: Deserializer<'de>,
    T: Default + Deserialize<'de>,
{
    Ok(Option::deserialize(deserializer)?.unwrap_or_default())
}

/// How a scheduler runs.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct KubeSchedulerConfiguration {
    /// `kubescheduler.config.k8s.io/v1`.
    pub api_version: Option<String>,
    /// `KubeSchedulerConfiguration`.
    pub kind: Option<String>,
    /// How many things are done at once. 16 when absent.
    pub parallelism: Option<i32>,
    /// How one of several schedulers becomes the one that works.
    #[serde(deserialize_with = "or_default")]
    pub leader_election: LeaderElection,
    /// How the API server is reached.
    #[serde(deserialize_with = "or_default")]
    pub client_connection: ClientConnection,
    /// Whether profiles of the process can be fetched. True when absent.
    pub enable_profiling: Option<bool>,
    /// Whether profiles of waiting can be fetched. As the one above when absent.
    pub enable_contention_profiling: Option<bool>,
    /// About so many of a hundred nodes extenders are asked at a time. All nodes are looked at whatever
    /// it is.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// How long a pod waits after its first failure. 1 when absent.
    pub pod_initial_backoff_seconds: Option<i64>,
    /// How long a pod waits at most after a failure. 10 when absent.
    pub pod_max_backoff_seconds: Option<i64>,
    /// Ways to schedule, of which pods name one. One with all defaults when empty.
    #[serde(deserialize_with = "or_default")]
    pub profiles: Vec<Profile>,
    /// Programs that are asked over HTTP.
    #[serde(deserialize_with = "or_default")]
    pub extenders: Vec<Extender>,
    /// Whether nothing is watched before this scheduler is the one that works. False when absent.
    #[serde(deserialize_with = "or_default")]
    pub delay_cache_until_active: bool,
}

/// How one of several schedulers becomes the one that works.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct LeaderElection {
    /// Whether there is an election at all. True when absent.
    pub leader_elect: Option<bool>,
    /// For how long others leave a leader that does not renew alone. 15s when absent.
    pub lease_duration: Option<Duration>,
    /// For how long a leader tries to renew before it gives up. 10s when absent.
    pub renew_deadline: Option<Duration>,
    /// The pause between two tries. 2s when absent.
    pub retry_period: Option<Duration>,
    /// `leases`.
    pub resource_lock: Option<String>,
    /// The name of the lease. `kube-scheduler` when absent.
    pub resource_name: Option<String>,
    /// The namespace of the lease. `kube-system` when absent.
    pub resource_namespace: Option<String>,
}

/// How the API server is reached.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClientConnection {
    /// A kubeconfig file.
    pub kubeconfig: Option<String>,
    /// What is asked for.
    pub accept_content_types: Option<String>,
    /// What is sent.
    pub content_type: Option<String>,
    /// How many requests are sent in a second. There is no limit when absent.
    pub qps: Option<f64>,
    /// How many may be sent at once, where there is a limit. 100 when absent.
    pub burst: Option<i32>,
}

/// A way to schedule.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Profile {
    /// What pods name to be scheduled this way. `default-scheduler` for the only profile.
    pub scheduler_name: Option<String>,
    /// Goes before the field of the same name for all profiles.
    pub percentage_of_nodes_to_score: Option<i32>,
    /// What is different from the default plugins.
    #[serde(deserialize_with = "or_default")]
    pub plugins: Plugins,
    /// Arguments of plugins.
    #[serde(deserialize_with = "or_default")]
    pub plugin_config: Vec<PluginConfig>,
}

/// What is different from the default plugins, by extension point.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Plugins {
    /// Before a pod enters the queue.
    #[serde(deserialize_with = "or_default")]
    pub pre_enqueue: PluginSet,
    /// The order of the queue.
    #[serde(deserialize_with = "or_default")]
    pub queue_sort: PluginSet,
    /// Before nodes are filtered.
    #[serde(deserialize_with = "or_default")]
    pub pre_filter: PluginSet,
    /// Which nodes can take a pod.
    #[serde(deserialize_with = "or_default")]
    pub filter: PluginSet,
    /// What to do where no node can.
    #[serde(deserialize_with = "or_default")]
    pub post_filter: PluginSet,
    /// Before nodes are scored.
    #[serde(deserialize_with = "or_default")]
    pub pre_score: PluginSet,
    /// How good nodes are.
    #[serde(deserialize_with = "or_default")]
    pub score: PluginSet,
    /// What is set aside for a pod.
    #[serde(deserialize_with = "or_default")]
    pub reserve: PluginSet,
    /// Whether a pod may be bound yet.
    #[serde(deserialize_with = "or_default")]
    pub permit: PluginSet,
    /// Before a pod is bound.
    #[serde(deserialize_with = "or_default")]
    pub pre_bind: PluginSet,
    /// How a pod is bound.
    #[serde(deserialize_with = "or_default")]
    pub bind: PluginSet,
    /// After a pod was bound.
    #[serde(deserialize_with = "or_default")]
    pub post_bind: PluginSet,
    /// Every extension point that a plugin has.
    #[serde(deserialize_with = "or_default")]
    pub multi_point: PluginSet,
}

/// What is different from the default plugins at an extension point.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PluginSet {
    /// Run as well, after the default ones, or in the place of the default one of that name.
    #[serde(deserialize_with = "or_default")]
    pub enabled: Vec<PluginEntry>,
    /// Do not run; `*` stands for all.
    #[serde(deserialize_with = "or_default")]
    pub disabled: Vec<PluginEntry>,
}

/// A plugin.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PluginEntry {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// What its score counts. 1 when absent or 0.
    pub weight: Option<i32>,
}

/// Arguments of a plugin.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default)]
pub struct PluginConfig {
    /// The name of the plugin.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Its arguments, whose shape the plugin knows.
    pub args: Option<Value>,
}

/// A program that is asked over HTTP.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct Extender {
    /// Where it is.
    #[serde(deserialize_with = "or_default")]
    pub url_prefix: String,
    /// What is appended to ask which nodes can take a pod; not asked when empty.
    #[serde(deserialize_with = "or_default")]
    pub filter_verb: String,
    /// What is appended to ask about victims; not asked when empty.
    #[serde(deserialize_with = "or_default")]
    pub preempt_verb: String,
    /// What is appended to ask how good nodes are; not asked when empty.
    #[serde(deserialize_with = "or_default")]
    pub prioritize_verb: String,
    /// What its scores count.
    #[serde(deserialize_with = "or_default")]
    pub weight: i64,
    /// What is appended to have a pod bound; not asked when empty.
    #[serde(deserialize_with = "or_default")]
    pub bind_verb: String,
    /// Whether it speaks HTTPS.
    #[serde(rename = "enableHTTPS", deserialize_with = "or_default")]
    pub enable_https: bool,
    /// How it and this program know each other.
    pub tls_config: Option<ExtenderTlsConfig>,
    /// For how long an answer is waited for. 5s when absent or 0.
    pub http_timeout: Option<Duration>,
    /// Whether it knows the nodes, so that names are enough.
    #[serde(deserialize_with = "or_default")]
    pub node_cache_capable: bool,
    /// It is asked about pods that request one of these, or about all when empty.
    #[serde(deserialize_with = "or_default")]
    pub managed_resources: Vec<ManagedResource>,
    /// Whether a pod is scheduled without it when it cannot be reached.
    #[serde(deserialize_with = "or_default")]
    pub ignorable: bool,
}

/// A resource that an extender looks after.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ManagedResource {
    /// Its name.
    #[serde(deserialize_with = "or_default")]
    pub name: String,
    /// Whether nobody else looks at it.
    #[serde(deserialize_with = "or_default")]
    pub ignored_by_scheduler: bool,
}

/// How an extender and this program know each other.
#[derive(Debug, Clone, Default, PartialEq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ExtenderTlsConfig {
    /// Whether its certificate is not checked.
    #[serde(deserialize_with = "or_default")]
    pub insecure: bool,
    /// The name in its certificate. The host of the URL when empty.
    #[serde(deserialize_with = "or_default")]
    pub server_name: String,
    /// A file with our certificate.
    #[serde(deserialize_with = "or_default")]
    pub cert_file: String,
    /// A file with our key.
    #[serde(deserialize_with = "or_default")]
    pub key_file: String,
    /// A file with the authorities it may be certified by.
    #[serde(deserialize_with = "or_default")]
    pub ca_file: String,
    /// Our certificate, in base64; goes before the file.
    #[serde(deserialize_with = "or_default")]
    pub cert_data: String,
    /// Our key, in base64; goes before the file.
    #[serde(deserialize_with = "or_default")]
    pub key_data: String,
    /// The authorities, in base64; go before the file.
    #[serde(deserialize_with = "or_default")]
    pub ca_data: String,
}
