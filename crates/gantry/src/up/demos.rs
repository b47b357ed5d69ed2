//! Samples that a control plane can start with.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use chassis::client::{Call, Client};
use clap::ValueEnum;
use http::Method;
use scheduler::config::Configuration;
use serde_json::Value;

/// The profile that the pods of all samples name.
const SCHEDULER: &str = "koord-scheduler";

/// What the control plane has in it from the beginning.
#[derive(clap::Args)]
pub(crate) struct DemoArguments {
    /// A sample to start with: namespaces, pods, and what they need
    #[arg(long, value_name = "NAME", value_enum)]
    demo: Option<Demo>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, ValueEnum)]
enum Demo {
    /// Two teams that share quotas, a gang that runs and a gang that waits
    Batch,
}

/// How long is waited at most until the objects of a file are as the next ones need them. The cluster may
/// be one in which they never are.
const STEP_MAX: Duration = Duration::from_secs(15);
/// How long is waited before it is looked again whether they are.
const LOOK_EVERY: Duration = Duration::from_millis(50);

/// A file of a sample: its objects, and where each of them is created.
struct Sample {
    yaml: &'static str,
    paths: &'static [&'static str],
    /// What is to be so before the next file has its turn: whoever comes first has what quotas leave.
    then: &'static [Sight],
}

/// What an object is to say.
struct Sight {
    path: &'static str,
    /// Where in the object.
    field: &'static str,
    says: &'static str,
}

macro_rules! sample {
    ($file:literal, [$($path:literal),* $(,)?]) => {
        sample!($file, [$($path),*], then [])
    };
    ($file:literal, [$($path:literal),* $(,)?], then [$($sight:expr),* $(,)?]) => {
        Sample {
            yaml: include_str!(concat!("../../demos/", $file, ".yaml")),
            paths: &[$($path),*],
            then: &[$($sight),*],
        }
    };
}

const BATCH: &[Sample] = &[
    sample!("batch/namespaces", ["/api/v1/namespaces", "/api/v1/namespaces"]),
    sample!(
        "batch/quotas",
        [
            "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/default/elasticquotas",
            "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/vision/elasticquotas",
            "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/speech/elasticquotas",
        ]
    ),
    sample!(
        "batch/resnet",
        [
            "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/vision/podgroups",
            "/apis/batch/v1/namespaces/vision/jobs",
        ],
        then[Sight {
            path: "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/vision/podgroups/resnet",
            field: "/status/phase",
            says: "Running",
        }]
    ),
    sample!(
        "batch/speech",
        [
            "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/speech/podgroups",
            "/apis/batch/v1/namespaces/speech/jobs",
            "/apis/apps/v1/namespaces/speech/deployments",
        ],
        then [
            Sight {
                path: "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/speech/podgroups/allreduce",
                field: "/status/conditions/0/reason",
                says: "Unschedulable",
            },
            Sight {
                path: "/apis/apps/v1/namespaces/speech/deployments/transcribe",
                field: "/status/readyReplicas",
                says: "2",
            },
        ]
    ),
    sample!("batch/sweep", ["/apis/apps/v1/namespaces/vision/deployments"]),
];

/// What to try in an empty control plane.
const EMPTY: &str = "  kubectl get nodes
  kubectl create deployment web --image=nginx --replicas=3
  kubectl get deployments,pods --output=wide";

const TRY_BATCH: &str = "  kubectl get podgroups,pods --all-namespaces
  kubectl events --namespace speech
  gantry quota
docs/BATCH.md goes on from there.";

impl Demo {
    fn samples(self) -> &'static [Sample] {
        match self {
            Self::Batch => BATCH,
        }
    }
}

impl DemoArguments {
    /// Refuses a sample whose pods nobody would give nodes.
    ///
    /// # Errors
    /// When no profile is for them.
    pub(super) fn check(&self, configuration: Option<&Configuration>) -> Result<()> {
        let profiles = configuration.into_iter().flat_map(|own| &own.profiles);
        let mut names = profiles.map(|own| &*own.scheduler_name);
        if let Some(demo) = self.demo
            && !names.any(|name| name == SCHEDULER)
        {
            let name =
                demo.to_possible_value().map_or_else(String::new, |own| own.get_name().into());
            bail!(
                "the pods of --demo {name} name the scheduler {SCHEDULER}, which is not there: leave \
                 out --scheduler and --scheduler-config, or give the file a profile of that name"
            );
        }
        Ok(())
    }

    /// What to try first.
    pub(super) fn to_try(&self) -> &'static str {
        match self.demo {
            None => EMPTY,
            Some(Demo::Batch) => TRY_BATCH,
        }
    }

    /// Creates the objects of the sample, a file after the other.
    ///
    /// # Errors
    /// When the server does not take one.
    pub(super) async fn create(&self, client: &Client) -> Result<()> {
        for Sample { yaml, paths, then } in self.demo.map(Demo::samples).into_iter().flatten() {
            for (object, path) in objects(yaml).zip(*paths) {
                let call =
                    Call::new(Method::POST, *path).body("application/yaml", object.as_bytes());
                client
                    .call_bytes(call)
                    .await
                    .with_context(|| format!("cannot create at {path}:\n{object}"))?;
            }
            let seen = async {
                for sight in *then {
                    sight.awaited(client).await?;
                }
                anyhow::Ok(())
            };
            client.clock().timeout(STEP_MAX, seen).await.unwrap_or(Ok(()))?;
        }
        Ok(())
    }
}

impl Sight {
    /// Waits until the object says so.
    async fn awaited(&self, client: &Client) -> Result<()> {
        let Self { path, field, says } = self;
        loop {
            let answer = client.call_bytes(Call::new(Method::GET, *path)).await;
            let answer = answer.with_context(|| format!("cannot look at {path}"))?;
            let object: Value = serde_json::from_slice(&answer)?;
            let told = object.pointer(field).map(|own| match own {
                Value::String(text) => text.clone(),
                other => other.to_string(),
            });
            if told.as_deref() == Some(*says) {
                return Ok(());
            }
            client.clock().sleep(LOOK_EVERY).await;
        }
    }
}

/// The objects of a file.
fn objects(yaml: &'static str) -> impl Iterator<Item = &'static str> {
    yaml.split("\n---\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_object_of_a_sample_is_created_where_it_says_it_lives() {
        for Sample { yaml, paths, then } in
            Demo::value_variants().iter().flat_map(|demo| demo.samples())
        {
            // Only what is created can be waited for.
            let is_created = |own: &Sight| {
                let (place, name) = own.path.rsplit_once('/').unwrap();
                paths.contains(&place) && yaml.contains(&format!("\n  name: {name}\n"))
            };
            assert!(then.iter().all(is_created), "{yaml}");
            assert_eq!(objects(yaml).count(), paths.len(), "{yaml}");
            for (object, path) in objects(yaml).zip(*paths) {
                let version = object.lines().find_map(|line| line.strip_prefix("apiVersion: "));
                let kind = object.lines().find_map(|line| line.strip_prefix("kind: "));
                let (version, kind) = (version.unwrap_or_default(), kind.unwrap_or_default());
                assert!(path.contains(&format!("/{version}/")), "{path}: {object}");
                assert!(path.ends_with(&format!("/{}s", kind.to_lowercase())), "{path}: {object}");
                let namespace = object.lines().find_map(|line| line.strip_prefix("  namespace: "));
                let within = namespace.map(|name| format!("/namespaces/{name}/"));
                assert!(within.is_none_or(|within| path.contains(&within)), "{path}: {object}");
            }
        }
    }
}
