//! What kubectl shows of a cluster, and what it makes without a file: the same on both servers.

use anyhow::{Result, ensure};

use crate::manifests::{budget, web};
use crate::story::{DRYDOCK, SERVERS, Story};
use crate::transcript::{Transcript, scrubbed};

const HELLO: &str = "
apiVersion: v1
kind: Pod
metadata: {name: hello, labels: {run: hello}}
spec:
  terminationGracePeriodSeconds: 0
  nodeSelector: {kubernetes.io/os: linux}
  containers:
  - name: main
    image: registry.example/hello:1
    command: [/hello, --loud]
    ports: [{containerPort: 80, name: http}]
    env: [{name: COLOR, valueFrom: {configMapKeyRef: {name: settings, key: color}}}]
    resources: {requests: {cpu: 100m, memory: 64Mi}, limits: {memory: 64Mi}}
    readinessProbe: {httpGet: {path: /ready, port: 80}}
    volumeMounts: [{name: settings, mountPath: /settings}]
  volumes:
  - {name: settings, configMap: {name: settings}}
";

/// What is told of the deployment, and of the node.
const WEB_TOLD: &str = "
deployment-controller web Normal ScalingReplicaSet 1: Scaled up replica set web-1 from 0 to 2
replicaset-controller web-1 Normal SuccessfulCreate 2: Created pod: web-1-{pod}
";
const NODE_TOLD: &str = "
node-controller node-0000 Normal RegisteredNode 1: Node node-0000 event: Registered Node node-0000 in Controller
";

/// A pod that runs, what it needs, and a deployment that has rolled out.
async fn set_up(kubectl: &Transcript<'_>) -> Result<()> {
    kubectl.quietly("create configmap settings --from-literal=color=red").await?;
    kubectl.apply(HELLO).await?;
    kubectl.apply(&web()).await?;
    kubectl.quietly("wait pod/hello --for=condition=Ready --timeout=30s").await?;
    kubectl.quietly("rollout status deployment/web --timeout=30s").await?;
    // Now that there are pods: a budget for none says so.
    kubectl.apply(&budget("web", "minAvailable: 1")).await?;
    let allowed = "wait pdb/web --for=jsonpath={.status.disruptionsAllowed}=1 --timeout=30s";
    kubectl.quietly(allowed).await?;
    kubectl.until_told("", WEB_TOLD).await?;
    let uid = kubectl.show("node node-0000", "{.metadata.uid}").await?;
    let of_node = format!("--namespace=default --field-selector=involvedObject.uid={uid}");
    kubectl.until_told(&of_node, NODE_TOLD).await
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_describe_themselves() {
    Story::new("describe", 1)
        .on(SERVERS)
        .alike(async |kubectl| {
            set_up(kubectl).await?;
            kubectl.describe("pod hello").await?;
            kubectl.describe("node").await?;
            kubectl.describe("namespace {ns}".replace("{ns}", &kubectl.namespace).as_str()).await?;
            kubectl.describe("deployment web").await?;
            kubectl.describe("replicaset --selector=app=web").await?;
            kubectl.describe("poddisruptionbudget web").await?;
            kubectl.describe("configmap settings").await?;
            kubectl.describe("serviceaccount default").await?;
            kubectl.run_scrubbed("events --for=pod/hello").await?;
            kubectl.run_scrubbed("get pod hello --output=wide").await?;
            kubectl.run_scrubbed("get deployments --output=wide").await?;
            let pods = "get pods --selector=app=web --output=jsonpath={.items[*].metadata.name}";
            for pod in kubectl.quietly(pods).await?.split(' ') {
                kubectl.call(pod, "{pod}");
            }
            let set = "get replicasets --output=jsonpath={.items[*].metadata.name}";
            let set = kubectl.quietly(set).await?;
            kubectl.call(set.trim_start_matches("web-"), "{hash}");
            Ok(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn an_object_is_edited() {
    Story::bare("edit")
        .alike(async |kubectl| {
            kubectl.run("create configmap settings --from-literal=color=red").await?;
            for editor in ["sed -i s/red/blue/", "true", "sed -i s/blue/green/"] {
                let words = ["configmap", "settings", "--namespace", &kubectl.namespace];
                let printed = kubectl.cluster.kubectl_edit(&words, editor).await?;
                kubectl.keep("edit configmap settings", &printed);
                kubectl.run("get configmap settings --output=jsonpath={.data.color}").await?;
            }
            let color = kubectl.lines.last().map(String::as_str).unwrap_or_default();
            ensure!(color.ends_with("green"), "after the edits: {color}");
            Ok(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn changes_are_printed_as_they_come() {
    Story::bare("follow")
        .alike(async |kubectl| {
            kubectl.run("create configmap settings --from-literal=color=red").await?;
            let watch = "get configmaps --watch --output-watch-events --no-headers";
            let mut following = kubectl.cluster.kubectl_following(&kubectl.words(watch))?;
            let mut seen = vec![following.next().await?];
            for change in [
                "create configmap more --from-literal=color=green",
                "patch configmap settings --patch {\"data\":{\"size\":\"big\"}}",
                "delete configmap settings",
            ] {
                kubectl.quietly(change).await?;
                seen.push(following.next().await?);
            }
            let kinds = ["ADDED", "ADDED", "MODIFIED", "DELETED"];
            ensure!(
                seen.iter().zip(kinds).all(|(line, kind)| line.starts_with(kind)),
                "watched: {seen:?}"
            );
            kubectl.keep(watch, &scrubbed(&seen.join("\n")));
            Ok(())
        })
        .await;
}

/// The definitions as `gantry crds` prints them.
#[tokio::test(flavor = "multi_thread")]
async fn our_definitions_are_applied_and_listed() {
    Story::bare("crds")
        .alike(async |kubectl| {
            let definitions = api::crds::to_yaml_stream();
            let apply = kubectl.words("apply --filename -");
            kubectl.cluster.kubectl_with(&apply, &definitions).await?;
            kubectl.quietly("wait crd --all --for=condition=Established --timeout=30s").await?;
            kubectl.run_with("apply --filename -", &definitions).await?;
            let again = kubectl.lines.last().map(String::as_str).unwrap_or_default();
            let unchanged = again.lines().filter(|line| line.ends_with(" unchanged")).count();
            ensure!(unchanged == api::crds::all().count(), "the second time: {again}");

            let sample = include_str!("../../../../crates/api/samples/podgroups/maximal.yaml");
            let sample =
                sample.replace("namespace: default", &format!("namespace: {}", kubectl.namespace));
            kubectl.run_with("apply --filename -", &sample).await?;
            kubectl.describe("podgroup train").await?;
            kubectl.run("explain podgroups.spec").await?;
            for command in ["api-resources --output=wide --sort-by=name", "api-versions"] {
                let printed = kubectl.quietly(command).await?;
                // Other scenarios leave definitions of their own on a server that is shared.
                let lines = printed.lines().filter(|line| !line.contains("gantry.test"));
                let columns =
                    lines.map(|line| line.split_whitespace().collect::<Vec<_>>().join(" "));
                let printed = columns.collect::<Vec<_>>().join("\n");
                ensure!(
                    printed.contains("scheduling.koordinator.sh/v1alpha1"),
                    "{command}: {printed}"
                );
                kubectl.keep(command, &printed);
            }
            Ok(())
        })
        .await;
}

#[tokio::test(flavor = "multi_thread")]
async fn objects_are_made_without_a_file() {
    Story::bare("create")
        .alike(async |kubectl| {
            for command in [
                "create configmap settings --from-literal=color=red",
                "create secret generic password --from-literal=word=sesame",
                "create serviceaccount robot",
                "create deployment web --image=registry.example/web:1 --replicas=2 --port=80",
                "create job once --image=registry.example/job:1",
                "create cronjob nightly --image=registry.example/job:1 --schedule=@daily",
                "create job again --from=cronjob/nightly",
                "create service clusterip web --tcp=80:8080",
                "create poddisruptionbudget web --selector=app=web --min-available=1",
                "create quota limits --hard=pods=10",
                "create role reader --verb=get,list --resource=pods",
                "create rolebinding readers --role=reader --serviceaccount=default:robot",
                "create ingress web --rule=web.example/*=web:80",
                "expose deployment web --name=web-too --port=80",
                "autoscale deployment web --min=1 --max=3 --cpu=80%",
                "set image deployment/web web=registry.example/web:2",
                "set env deployment/web COLOR=red",
                "set resources deployment web --requests=cpu=100m",
                "set serviceaccount deployment web robot",
                "annotate configmap settings note=hello",
                "label configmap settings tier=front",
                "get deployment web --output=jsonpath={.spec.template.spec}",
                "get cronjob nightly --output=jsonpath={.spec}",
                "get hpa web --output=jsonpath={.spec}",
                "get service web-too --output=jsonpath={.spec.ports},{.spec.selector},{.spec.type}",
                "get ingress web --output=jsonpath={.spec}",
                "delete deployment,job,cronjob,hpa --all --cascade=background",
                "get deployments,jobs,cronjobs --output=name",
            ] {
                kubectl.run(command).await?;
            }
            kubectl
                .run_scrubbed("get configmaps,secrets,roles,ingresses,services --output=name")
                .await
        })
        .await;
}

/// Nothing runs in the containers of a hollow node, so there is nothing to read from or to run
/// in: drydock alone, because a real server asks a kubelet, which is not there.
#[tokio::test(flavor = "multi_thread")]
async fn what_needs_a_process_is_refused() {
    let nothing = "nothing runs in";
    Story::new("exec", 1)
        .on(DRYDOCK)
        .alike(async |kubectl| {
            kubectl.run("run hello --image=registry.example/hello:1").await?;
            kubectl.run("wait pod/hello --for=condition=Ready --timeout=30s").await?;
            for (arguments, expected) in [
                ("logs hello", "pods/log is not served: pods on hollow nodes have no logs"),
                ("exec hello -- ls", nothing),
                ("attach hello", nothing),
                ("port-forward pod/hello 8080:80", "nothing listens in its containers"),
                ("top pods", "Metrics API not available"),
            ] {
                let output = kubectl.cluster.try_kubectl(&kubectl.words(arguments), "").await?;
                let said = String::from_utf8_lossy(&output.stderr).into_owned();
                ensure!(!output.status.success(), "kubectl {arguments} succeeds");
                ensure!(said.contains(expected), "kubectl {arguments} says {said}");
            }
            Ok(())
        })
        .await;
}
