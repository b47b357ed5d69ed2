//! What the scheduler is told to do: a KubeSchedulerConfiguration, version v1.
//!
//! Two stages: [`file`] is what the user wrote, field for field; [`Configuration`] is what the
//! program runs on, checked, typed and complete. What is wrong is said all at once, each fault
//! with its path and, where there is one, the name that was probably meant.
//!
//! ```
//! use scheduler::config;
//! let text = "
//! apiVersion: kubescheduler.config.k8s.io/v1
//! kind: KubeSchedulerConfiguration
//! profiles:
//! - plugins: {score: {enabled: [{name: NodeAfinity, weight: 5}]}}
//! ";
//! let error = config::parse("s.yaml".as_ref(), text).err().unwrap();
//! assert_eq!(
//!     error.to_string(),
//!     "configuration s.yaml: profiles[0].plugins.score.enabled[0]: Invalid value: \
//!      \"NodeAfinity\": there is no such plugin; did you mean NodeAffinity?"
//! );
//! ```

mod args;
mod extender;
pub mod file;
mod gates;
mod lineup;
mod plugin;
mod process;
mod profile;

#[cfg(test)]
mod tests;

use std::path::{Path as FilePath, PathBuf};
use std::time::Duration;

use chassis::config::ConfigError;
use engine::plugin::Plugin;
use object::field::{Error, Errors, Path};
use serde_json::Value;

pub use args::{
    DynamicResources, GangArgs, PluginArgs, QuotaArgs, TakeoverKey, VainArgument, VolumeBinding,
};
pub use extender::{Extender, Prioritize};
pub use gates::{GateError, Gates, Vain};
pub use lineup::Lineup;
pub use plugin::ExtensionPoint;
pub use process::{ClientConnection, LeaderElection};
pub use profile::{Assembled, ProfileConfig};

/// The version that is understood.
pub const API_VERSION: &str = "kubescheduler.config.k8s.io/v1";
/// The kind that is understood.
pub const KIND: &str = "KubeSchedulerConfiguration";
/// The file that Koordinator's chart 1.8.0 installs, as its users have it.
pub const KOORDINATOR: &str = include_str!("config/koordinator.yaml");

/// What the scheduler runs on.
#[derive(Debug, Clone)]
pub struct Configuration {
    /// Ways to schedule: at least one, each with a name of its own.
    pub profiles: Vec<ProfileConfig>,
    /// Programs that are asked over HTTP, in the order in which they are asked.
    pub extenders: Vec<Extender>,
    /// How many things are done at once.
    pub parallelism: u32,
    /// About so many of a hundred nodes extenders are asked at a time; 0 leaves it to the program. All
    /// nodes are looked at whatever it is.
    pub percentage_of_nodes_to_score: u8,
    /// How long a pod waits after its first failure.
    pub pod_initial_backoff: Duration,
    /// How long a pod waits at most after a failure.
    pub pod_max_backoff: Duration,
    /// How one of several schedulers becomes the one that works; none where this one just works.
    pub leader_election: Option<LeaderElection>,
    /// How the API server is reached.
    pub client_connection: ClientConnection,
    /// Whether profiles of the process can be fetched.
    pub profiling: bool,
    /// Whether profiles of waiting can be fetched.
    pub contention_profiling: bool,
    /// Whether nothing is watched before this scheduler is the one that works.
    pub delay_cache_until_active: bool,
}

impl Default for Configuration {
    /// What a scheduler without a file runs on.
    fn default() -> Self {
        resolve(&file::KubeSchedulerConfiguration::default()).expect("the defaults are valid")
    }
}

impl Configuration {
    /// How quotas are shared out, where they are: the same for all profiles.
    pub(crate) fn quota_args(&self) -> Option<&QuotaArgs> {
        let mut profiles = self.profiles.iter();
        let sharing = profiles.find(|own| own.lineup.plugins().contains(&Plugin::ElasticQuota));
        sharing.map(|own| &own.args.elastic_quota)
    }

    /// What Koordinator's chart installs.
    #[must_use]
    pub fn of_koordinator() -> Self {
        let chart = parse("koordinator.yaml".as_ref(), KOORDINATOR);
        let mut own = chart.expect("the chart's file is valid");
        // Nobody here has written it, so that there is nobody to tell.
        own.profiles.iter_mut().for_each(|profile| profile.args.vain.clear());
        own
    }

    /// What a whole cluster runs on where nobody says anything: pods of `default-scheduler` get nodes
    /// as from kube-scheduler, and those of `koord-scheduler` as Koordinator's chart has it.
    #[must_use]
    pub fn of_both() -> Self {
        let mut both = Self::default();
        both.profiles.extend(Self::of_koordinator().profiles);
        both
    }
}

/// Why a configuration cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum ConfigurationError {
    /// The file cannot be read, or has fields that nobody knows.
    #[error(transparent)]
    File(#[from] ConfigError),
    /// The file is something else.
    #[error("configuration {}: {reason}", .file.display())]
    Another {
        /// The file.
        file: PathBuf,
        /// What it is, and what to write.
        reason: String,
    },
    /// Something in the file cannot be.
    #[error("configuration {}: {}", .file.display(), lines(.errors))]
    Invalid {
        /// The file.
        file: PathBuf,
        /// All that is wrong.
        errors: Errors,
    },
}

fn lines(errors: &[Error]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\n  ")
}

/// Reads a configuration file.
///
/// # Errors
/// When the file cannot be read, or something in it cannot be.
pub fn load(path: &FilePath) -> Result<Configuration, ConfigurationError> {
    read(path, &chassis::config::load(path)?)
}

/// Reads a configuration from text; `path` is only named in errors.
///
/// # Errors
/// When something in the text cannot be.
pub fn parse(path: &FilePath, text: &str) -> Result<Configuration, ConfigurationError> {
    read(path, &chassis::config::parse(path, text)?)
}

fn read(path: &FilePath, value: &Value) -> Result<Configuration, ConfigurationError> {
    let file = || path.to_owned();
    // Fields of another version would only confuse.
    what_it_is(value).map_err(|reason| ConfigurationError::Another { file: file(), reason })?;
    let wire = chassis::config::from_value(value)
        .map_err(|fault| ConfigError::Field { file: file(), fault })?;
    resolve(&wire).map_err(|errors| ConfigurationError::Invalid { file: file(), errors })
}

fn what_it_is(value: &Value) -> Result<(), String> {
    let field = |name: &str| value.get(name).and_then(Value::as_str).unwrap_or_default();
    let (version, kind) = (field("apiVersion"), field("kind"));
    let write = format!("write apiVersion: {API_VERSION} and kind: {KIND}");
    let (group, _) = API_VERSION.rsplit_once('/').unwrap_or_default();
    match (version, kind) {
        ("", _) => Err(format!("apiVersion: is missing; {write}")),
        (_, "") => Err(format!("kind: is missing; {write}")),
        (API_VERSION, KIND) => Ok(()),
        (API_VERSION, other) => Err(format!("kind: {other:?} is not understood; {write}")),
        (old, _) if old.starts_with(group) => {
            Err(format!("apiVersion: {old:?} is a version that Kubernetes no longer has; {write}"))
        }
        (other, _) => Err(format!("apiVersion: {other:?} is not understood; {write}")),
    }
}

/// Checks what was written and fills in what is missing.
///
/// # Errors
/// All that cannot be.
pub fn resolve(wire: &file::KubeSchedulerConfiguration) -> Result<Configuration, Errors> {
    let errors = &mut Errors::new();
    let client_connection = process::client(&wire.client_connection, errors);
    let leader_election = process::leader_election(&wire.leader_election, errors);
    let parallelism = wire.parallelism.unwrap_or(16);
    if parallelism <= 0 {
        let fix = "should be an integer value greater than zero";
        errors.push(Error::invalid(&Path::new("parallelism"), parallelism, fix));
    }
    let mut profiles = profile::profiles(&wire.profiles, errors);
    let path = Path::new("percentageOfNodesToScore");
    let percentage_of_nodes_to_score =
        percent(wire.percentage_of_nodes_to_score.unwrap_or(0), &path, errors);
    let (initial, max) = backoff(wire, errors);
    let (extenders, ignored) = extender::extenders(&wire.extenders, errors);
    if !ignored.is_empty() {
        // What an extender answers for goes before what the profile says.
        for profile in &mut profiles {
            profile.args.node_resources_fit.ignored.names.clone_from(&ignored);
        }
    }
    if !errors.is_empty() {
        return Err(std::mem::take(errors));
    }
    let profiling = wire.enable_profiling.unwrap_or(true);
    Ok(Configuration {
        profiles,
        extenders,
        parallelism: parallelism.unsigned_abs(),
        percentage_of_nodes_to_score,
        pod_initial_backoff: seconds(initial),
        pod_max_backoff: seconds(max),
        leader_election,
        client_connection,
        profiling,
        contention_profiling: wire.enable_contention_profiling.unwrap_or(profiling),
        delay_cache_until_active: wire.delay_cache_until_active,
    })
}

fn backoff(wire: &file::KubeSchedulerConfiguration, errors: &mut Errors) -> (i64, i64) {
    let initial = wire.pod_initial_backoff_seconds.unwrap_or(1);
    let max = wire.pod_max_backoff_seconds.unwrap_or(10);
    if initial <= 0 {
        let path = Path::new("podInitialBackoffSeconds");
        errors.push(Error::invalid(&path, initial, "must be greater than 0"));
    }
    if max < initial {
        let path = Path::new("podMaxBackoffSeconds");
        let fix = "must be greater than or equal to PodInitialBackoffSeconds";
        errors.push(Error::invalid(&path, max, fix));
    }
    (initial, max)
}

fn percent(value: i32, path: &Path, errors: &mut Errors) -> u8 {
    match u8::try_from(value) {
        Ok(value) if value <= 100 => value,
        _ => {
            errors.push(Error::invalid(path, value, "not in valid range [0-100]"));
            0
        }
    }
}

fn seconds(seconds: i64) -> Duration {
    Duration::from_secs(u64::try_from(seconds).unwrap_or_default())
}

/// What Go reads as a truth value.
pub(crate) fn truth(word: &str) -> Option<bool> {
    match word {
        "1" | "t" | "T" | "true" | "TRUE" | "True" => Some(true),
        "0" | "f" | "F" | "false" | "FALSE" | "False" => Some(false),
        _ => None,
    }
}
