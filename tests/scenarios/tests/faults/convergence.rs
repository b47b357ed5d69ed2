//! Our controllers against a server that is reached badly: nothing is made twice, and
//! everything comes about once the faults end; also when they are killed half-way.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use api::{Deployment, Job, Pod, ReplicaSet};
use chassis::client::{Client, ListOptions, Patch, ResourceType};
use chassis::random::Random;
use chassis::shutdown::Shutdown;
use hollow::{Hollow, NodeGroup, Setup};
use serde_json::{Value, json};
use tokio::task::JoinHandle;
use tokio_util::sync::CancellationToken;

use crate::world::{BAD, Badly, World};

const SEEDS: u64 = 6;
/// How long anything may take to come about while faults go on, and afterwards.
const PATIENCE: Duration = Duration::from_secs(1800);
/// How long a pod takes to start.
const START: Duration = Duration::from_millis(300);
const REPLICAS: i32 = 5;
const SURGE: i32 = 2;
const COMPLETIONS: i32 = 6;
const PARALLELISM: i32 = 2;
/// Enough for a watch to go on where it was, unless it is told otherwise.
const WINDOW: usize = 200;

/// A cluster whose controllers reach the server badly; everything else reaches it well.
struct Cluster {
    world: Arc<World>,
    client: Client,
    badly: Badly,
    controllers: JoinHandle<()>,
    seed: u64,
    /// The most replicas that each set was ever to have, by uid.
    sizes: BTreeMap<String, i32>,
    _nodes: Shutdown,
}

impl Cluster {
    async fn start(seed: u64) -> Self {
        let world = Arc::new(World::new(seed, WINDOW));
        let client = world.client();
        let nodes = Shutdown::new();
        let setup = Setup {
            groups: vec![NodeGroup::of_default_type(1)],
            seed,
            job_run: Duration::from_secs(1),
            ..Setup::default()
        };
        let options = hollow::Options { setup, ..hollow::Options::default() };
        let hollow = Hollow::new(client.clone(), options).unwrap();
        let ending = nodes.clone();
        nodes.spawn("nodes", async move { hollow.run(&ending).await.unwrap() });
        let badly = world.faulty(BAD, seed);
        let controllers = run(&badly, seed);
        let sizes = BTreeMap::new();
        let cluster = Self { world, client, badly, controllers, seed, sizes, _nodes: nodes };
        let accounts = cluster.client.within::<api::ServiceAccount>("default");
        cluster
            .world
            .until("a default service account", PATIENCE, async || {
                accounts.find("default").await.unwrap().is_some()
            })
            .await;
        cluster
    }

    /// Ends the controllers where they stand, and starts others.
    async fn kill(&mut self) {
        self.controllers.abort();
        assert!((&mut self.controllers).await.unwrap_err().is_cancelled());
        self.controllers = run(&self.badly, self.seed + 1);
    }

    async fn pods(&self) -> Vec<Pod> {
        let pods = self.client.within::<Pod>("default");
        pods.list_all(&ListOptions::default()).await.unwrap()
    }

    /// Pods that have neither ended nor are going.
    async fn active(&self) -> Vec<Pod> {
        let mut pods = self.pods().await;
        pods.retain(|pod| !pod.metadata.is_going() && !pod.status.phase.is_terminal());
        pods
    }

    /// Lets time pass until `done`; at no time a job or a replica set has more pods than it
    /// was ever to have, beside those that nobody could know of, and the sets of a deployment
    /// are never to have more than its strategy allows.
    async fn until(&mut self, what: &str, mut done: impl AsyncFnMut(&Self) -> bool) {
        let what = format!("seed {}: {what}", self.seed);
        let world = Arc::clone(&self.world);
        let checked = async || {
            self.check(&what).await;
            done(self).await
        };
        world.until(&what, PATIENCE, checked).await;
    }

    async fn check(&mut self, what: &str) {
        // Pods before sets: what is made in between is not held against its owner.
        let mut pods: BTreeMap<String, i32> = BTreeMap::new();
        for pod in self.active().await {
            *pods.entry(pod.metadata.owner_references[0].uid.clone()).or_default() += 1;
        }
        let sets = self.client.within::<ReplicaSet>("default");
        let sets = sets.list_all(&ListOptions::default()).await.unwrap();
        let mut sum = 0;
        for set in &sets {
            let size = set.spec.replicas.unwrap();
            let most = self.sizes.entry(set.metadata.uid.clone()).or_default();
            *most = (*most).max(size);
            sum += size;
        }
        assert!(sum <= REPLICAS + SURGE, "{what}: sets of {sum} replicas");
        let unknown = i32::try_from(self.badly.unknown()).unwrap();
        for (owner, count) in pods {
            let most = self.sizes.get(&owner).copied().unwrap_or(PARALLELISM);
            assert!(count <= most + unknown, "{what}: {count} pods of {most}, {unknown} unknown");
        }
    }

    async fn deployment(&self) -> Deployment {
        self.client.within::<Deployment>("default").get("web").await.unwrap()
    }

    /// How many pods there are of this image.
    async fn pods_of(&self, image: &str) -> usize {
        let pods = self.active().await;
        pods.iter().filter(|pod| pod.spec.containers[0].image == image).count()
    }

    /// Whether the deployment is what it should be, with this image.
    async fn is_rolled_out(&self, image: &str) -> bool {
        let Deployment { metadata, status, .. } = self.deployment().await;
        let counts = [status.replicas, status.updated_replicas, status.available_replicas];
        let wanted = usize::try_from(REPLICAS).unwrap();
        status.observed_generation >= metadata.generation
            && counts == [REPLICAS; 3]
            && self.active().await.len() == wanted
            && self.pods_of(image).await == wanted
    }

    async fn until_rolled_out(&mut self, image: &str) {
        self.until("rolled out", async |own| own.is_rolled_out(image).await).await;
    }

    /// Waits until so many pods of this image are there and some time later, which is less than
    /// the last of them needs to start: the rollout is under way.
    async fn until_under_way(&mut self, image: &str, pods: usize, random: &mut Random) {
        self.until("under way", async |own| own.pods_of(image).await >= pods).await;
        self.pass_some(random, START / 2).await;
        assert!(!self.is_rolled_out(image).await, "seed {}: {image} is rolled out", self.seed);
    }

    async fn is_job_complete(&self) -> bool {
        let job = self.client.within::<Job>("default").get("pi").await.unwrap();
        let end = api::condition::find(&job.status.conditions, "Complete");
        end.is_some_and(|end| end.is_true())
    }

    async fn set_image(&self, image: &str) {
        let access = self.client.within::<Deployment>("default");
        let patch = json!({ "spec": { "template": { "spec": {
            "containers": [{ "name": "main", "image": image }] } } } });
        access.patch("web", &Patch::Strategic(patch)).await.unwrap();
    }

    /// Lets some time pass, up to `limit`, in which the invariant holds.
    async fn pass_some(&mut self, random: &mut Random, limit: Duration) {
        let wait = random.below(limit);
        let begun = self.world.clock.monotonic();
        self.until("some time", async |own| own.world.clock.monotonic() - begun >= wait).await;
    }
}

fn run(badly: &Badly, seed: u64) -> JoinHandle<()> {
    let options = workloads::Options { seed, ..workloads::Options::default() };
    tokio::spawn(workloads::run(badly.client.clone(), options, CancellationToken::new()))
}

fn template(restart: &str, image: &str) -> Value {
    json!({
        "metadata": { "labels": { "app": "web" },
                      "annotations": { "hollow.gantry.dev/start-seconds": START.as_secs_f64().to_string() } },
        "spec": { "nodeName": "node-0000", "restartPolicy": restart,
                  "terminationGracePeriodSeconds": 0,
                  "containers": [{ "name": "main", "image": image }] },
    })
}

fn deployment() -> Value {
    let bounds = json!({ "maxSurge": SURGE, "maxUnavailable": 1 });
    json!({
        "apiVersion": "apps/v1", "kind": "Deployment", "metadata": { "name": "web" },
        "spec": { "replicas": REPLICAS, "selector": { "matchLabels": { "app": "web" } },
                  "strategy": { "type": "RollingUpdate", "rollingUpdate": bounds },
                  "template": template("Always", "web:1") },
    })
}

fn job() -> Value {
    json!({
        "apiVersion": "batch/v1", "kind": "Job", "metadata": { "name": "pi" },
        "spec": { "completions": COMPLETIONS, "parallelism": PARALLELISM, "backoffLimit": 0,
                  "template": template("Never", "pi:1") },
    })
}

#[tokio::test(start_paused = true)]
async fn a_deployment_rolls_through_faults_without_a_pod_too_many() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::start(seed).await;
        let mut random = Random::new(seed);
        let access = cluster.client.within::<Deployment>("default");
        access.create(&deployment()).await.unwrap();
        cluster.until_rolled_out("web:1").await;
        let wanted = usize::try_from(REPLICAS).unwrap();
        let (made, unknown) = (cluster.badly.made(), cluster.badly.unknown());
        assert!(made >= wanted && made <= wanted + unknown, "seed {seed}: {made} {unknown}");
        // The second change comes while the first is under way.
        cluster.set_image("web:2").await;
        cluster.until_under_way("web:2", 1, &mut random).await;
        cluster.set_image("web:3").await;
        cluster.pass_some(&mut random, Duration::from_secs(3)).await;
        cluster.badly.heal();
        cluster.until_rolled_out("web:3").await;
        let sets = cluster.client.within::<ReplicaSet>("default");
        let sets = sets.list_all(&ListOptions::default()).await.unwrap();
        let sizes: Vec<i32> = sets.iter().filter_map(|set| set.spec.replicas).collect();
        assert_eq!(sizes.iter().filter(|size| **size > 0).count(), 1, "seed {seed}: {sizes:?}");
    }
}

/// Starts a job and waits until half of it is done.
async fn begin_job(cluster: &mut Cluster) {
    let jobs = cluster.client.within::<Job>("default");
    jobs.create(&job()).await.unwrap();
    cluster
        .until("half a job", async |_| {
            jobs.get("pi").await.unwrap().status.succeeded >= COMPLETIONS / 2
        })
        .await;
}

/// Waits until the job is done, and checks that it was done once.
async fn finish_job(cluster: &mut Cluster) {
    let (seed, jobs) = (cluster.seed, cluster.client.within::<Job>("default"));
    cluster.badly.heal();
    cluster.until("a whole job", async |own| own.is_job_complete().await).await;
    let job = jobs.get("pi").await.unwrap();
    assert_eq!((job.status.succeeded, job.status.failed), (COMPLETIONS, 0), "seed {seed}");
    let (made, unknown) = (cluster.badly.made(), cluster.badly.unknown());
    let wanted = usize::try_from(COMPLETIONS).unwrap();
    assert!(made >= wanted && made <= wanted + unknown, "seed {seed}: {made} {unknown}");
    let events = ResourceType::namespaced("", "v1", "events");
    let events = cluster.client.access::<Value>(events, "default");
    cluster
        .until("an event that tells it", async |_| {
            let list = events.list_all(&ListOptions::default()).await.unwrap();
            let tells = |event: &&Value| {
                event["reason"] == "Completed" && event["message"] == "Job completed"
            };
            let told: Vec<&Value> = list.iter().filter(tells).collect();
            told.len() == 1 && told[0]["involvedObject"]["uid"] == job.metadata.uid
        })
        .await;
}

#[tokio::test(start_paused = true)]
async fn a_job_runs_through_faults_and_each_pod_counts_once() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::start(seed).await;
        begin_job(&mut cluster).await;
        finish_job(&mut cluster).await;
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_that_are_killed_in_the_middle_of_a_job_go_on_where_it_stands() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::start(seed).await;
        begin_job(&mut cluster).await;
        assert!(!cluster.is_job_complete().await, "seed {seed}: there is nothing left to do");
        cluster.kill().await;
        finish_job(&mut cluster).await;
    }
}

#[tokio::test(start_paused = true)]
async fn controllers_that_are_killed_in_the_middle_of_a_rollout_go_on_where_it_stands() {
    for seed in 0..SEEDS {
        let mut cluster = Cluster::start(seed).await;
        let mut random = Random::new(seed);
        let access = cluster.client.within::<Deployment>("default");
        access.create(&deployment()).await.unwrap();
        cluster.until_under_way("web:1", 1, &mut random).await;
        cluster.kill().await;
        cluster.until_rolled_out("web:1").await;
        cluster.set_image("web:2").await;
        for pods in [1, 3, 5] {
            cluster.until_under_way("web:2", pods, &mut random).await;
            cluster.kill().await;
        }
        cluster.badly.heal();
        cluster.until_rolled_out("web:2").await;
    }
}
