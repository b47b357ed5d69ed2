//! Samples that a control plane can start with.

use anyhow::{Context, Result, bail};
use chassis::client::{Call, Client};
use clap::ValueEnum;
use http::Method;
use scheduler::config::Configuration;

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

/// A file of a sample: its objects, and where each of them is created.
struct Sample {
    yaml: &'static str,
    paths: &'static [&'static str],
}

macro_rules! sample {
    ($file:literal, [$($path:literal),* $(,)?]) => {
        Sample { yaml: include_str!(concat!("../../demos/", $file, ".yaml")), paths: &[$($path),*] }
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
        "batch/vision",
        [
            "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/vision/podgroups",
            "/apis/batch/v1/namespaces/vision/jobs",
            "/apis/apps/v1/namespaces/vision/deployments",
        ]
    ),
    sample!(
        "batch/speech",
        [
            "/apis/scheduling.sigs.k8s.io/v1alpha1/namespaces/speech/podgroups",
            "/apis/batch/v1/namespaces/speech/jobs",
            "/apis/apps/v1/namespaces/speech/deployments",
        ]
    ),
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

    /// Creates the objects of the sample.
    ///
    /// # Errors
    /// When the server does not take one.
    pub(super) async fn create(&self, client: &Client) -> Result<()> {
        for Sample { yaml, paths } in self.demo.map(Demo::samples).into_iter().flatten() {
            for (object, path) in objects(yaml).zip(*paths) {
                let call =
                    Call::new(Method::POST, *path).body("application/yaml", object.as_bytes());
                client
                    .call_bytes(call)
                    .await
                    .with_context(|| format!("cannot create at {path}:\n{object}"))?;
            }
        }
        Ok(())
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
        for Sample { yaml, paths } in Demo::value_variants().iter().flat_map(|demo| demo.samples())
        {
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
