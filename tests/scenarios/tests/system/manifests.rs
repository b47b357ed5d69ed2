//! What is applied in more than one story.

/// A kind that keeps a number of equal pods, which end at once when they are deleted. `spec` has
/// further fields of its spec.
fn replicated(kind: &str, name: &str, spec: &str) -> String {
    format!(
        "
apiVersion: apps/v1
kind: {kind}
metadata: {{name: {name}}}
spec:
  {spec}
  selector: {{matchLabels: {{app: {name}}}}}
  template:
    metadata: {{labels: {{app: {name}}}}}
    spec:
      terminationGracePeriodSeconds: 0
      containers: [{{name: main, image: registry.example/web:1}}]
"
    )
}

/// A deployment with these further fields of its spec.
pub fn deployment(name: &str, spec: &str) -> String {
    replicated("Deployment", name, spec)
}

/// A replica set with these further fields of its spec.
pub fn replica_set(name: &str, spec: &str) -> String {
    replicated("ReplicaSet", name, spec)
}

/// The deployment `web` of two pods.
pub fn web() -> String {
    deployment("web", "replicas: 2")
}

/// A job with these further fields of its spec.
pub fn job(name: &str, spec: &str) -> String {
    format!(
        "
apiVersion: batch/v1
kind: Job
metadata: {{name: {name}}}
spec:
  {spec}
  template:
    metadata: {{annotations: {{}}}}
    spec:
      restartPolicy: Never
      terminationGracePeriodSeconds: 0
      containers: [{{name: main, image: registry.example/job:1}}]
"
    )
}

/// Annotations of pods that end well as soon as they have started.
pub const QUICK: &str = "{hollow.gantry.dev/run-seconds: \"0\"}";

/// A pod whose label `app` is its name, with this field of its spec.
pub fn pod(name: &str, field: &str) -> String {
    format!(
        "
apiVersion: v1
kind: Pod
metadata: {{name: {name}, labels: {{app: {name}}}}}
spec:
  {field}
  terminationGracePeriodSeconds: 0
  containers: [{{name: main, image: registry.example/web:1}}]
"
    )
}

/// `manifest` with one more field in the spec of its pods.
pub fn with_pod(manifest: &str, field: &str) -> String {
    manifest.replace("containers:", &format!("{field}\n      containers:"))
}

/// `manifest` of a job with these annotations of its pods.
pub fn with_annotations(manifest: &str, annotations: &str) -> String {
    manifest.replace("annotations: {}", &format!("annotations: {annotations}"))
}

/// A budget for the pods whose label `app` is its name.
pub fn budget(name: &str, amount: &str) -> String {
    format!(
        "
apiVersion: policy/v1
kind: PodDisruptionBudget
metadata: {{name: {name}}}
spec: {{selector: {{matchLabels: {{app: {name}}}}}, {amount}}}
"
    )
}
