//! The servers a scenario is played on, and how much of one a scenario gets for itself.
//!
//! `cargo xtask test` starts real servers and names them in the environment; a bare
//! `cargo test` starts them here when the first scenario asks. Either way they end with the
//! process that started them.

use std::fs::{File, TryLockError};
use std::path::{Path, PathBuf};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::{Duration, Instant};

use anyhow::{Context, Result};
use serde_json::Value;
use truth::{ApiServer, Binaries, ETCD_VARIABLE, KUBECONFIGS_VARIABLE, Kubeconfig};

use crate::client::Client;
use crate::embedded::Embedded;
use crate::request;

/// The servers every scenario is played on. The first is the truth.
pub const BACKENDS: &[Backend] = &[Backend::KubeApiServer, Backend::Drydock];

/// A sort of server.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Backend {
    /// A real kube-apiserver on etcd.
    KubeApiServer,
    /// The embedded server.
    Drydock,
}

impl Backend {
    /// What it is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Self::KubeApiServer => "kube-apiserver",
            Self::Drydock => "drydock",
        }
    }
}

/// How much of a server a scenario gets for itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Scope {
    /// A namespace.
    Namespaced,
    /// All of it, tidied afterwards.
    Exclusive,
    /// One that was started for it.
    Fresh,
}

/// A server to talk to.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Server {
    /// What it is: `kube-apiserver` or `drydock`.
    pub name: &'static str,
    /// Its address, such as `https://127.0.0.1:6443`.
    pub url: String,
    /// Its certificate authority, as PEM.
    pub authority_pem: String,
    /// The token of a user who may do everything.
    pub admin_token: String,
    /// The token of a user who may do nothing.
    pub outsider_token: String,
}

impl Server {
    fn real(config: &Kubeconfig) -> Self {
        Self {
            name: Backend::KubeApiServer.name(),
            url: config.server.clone(),
            authority_pem: config.authority_pem.clone(),
            admin_token: config.access.admin_token.clone(),
            outsider_token: config.access.outsider_token.clone(),
        }
    }
}

/// A server lent to one scenario: what has to end or be tidied afterwards hangs on it.
pub struct Lease {
    /// The server.
    pub server: Server,
    /// The kubeconfig of the server, for programs that need a file.
    pub kubeconfig: PathBuf,
    baseline: Option<Baseline>,
    _lock: Option<File>,
    own: Option<ApiServer>,
    embedded: Option<Embedded>,
}

impl Lease {
    /// A server of the given sort for `scenario`.
    ///
    /// # Errors
    /// Where no server can be had.
    pub async fn take(backend: Backend, scope: Scope, scenario: &str) -> Result<Self> {
        let lease = match (backend, scope) {
            // A drydock costs nothing, so every scenario has its own.
            (Backend::Drydock, _) => Self::embedded().await,
            (Backend::KubeApiServer, Scope::Namespaced) => Self::namespaced().await,
            (Backend::KubeApiServer, Scope::Exclusive) => Self::exclusive().await,
            (Backend::KubeApiServer, Scope::Fresh) => Self::fresh().await,
        };
        lease.with_context(|| format!("no {} for {scenario}", backend.name()))
    }

    /// A server shared with other scenarios; the scenario keeps to its own namespace, which is
    /// never deleted because that takes seconds.
    ///
    /// # Errors
    /// Where no server can be had.
    pub async fn namespaced() -> Result<Self> {
        let (kubeconfig, config) = blocking(shared).await?;
        Ok(Self {
            server: Server::real(&config),
            kubeconfig,
            baseline: None,
            _lock: None,
            own: None,
            embedded: None,
        })
    }

    /// A server nobody else uses meanwhile. [`Lease::give_back`] deletes what the scenario left
    /// outside namespaces.
    ///
    /// # Errors
    /// Where no server can be had.
    pub async fn exclusive() -> Result<Self> {
        let (kubeconfig, lock) = blocking(Unshared::take).await?;
        let server = Server::real(&Kubeconfig::read(&kubeconfig)?);
        let baseline = Some(Baseline::take(&Client::new(&server)?).await?);
        Ok(Self { server, kubeconfig, baseline, _lock: Some(lock), own: None, embedded: None })
    }

    /// A server of the scenario's own, empty.
    ///
    /// # Errors
    /// Where the server does not start.
    pub async fn fresh() -> Result<Self> {
        let own = blocking(|| ApiServer::start(&Binaries::locate(&say), &etcd_address()?)).await?;
        Ok(Self {
            server: Server::real(own.config()),
            kubeconfig: own.kubeconfig().to_owned(),
            baseline: None,
            _lock: None,
            own: Some(own),
            embedded: None,
        })
    }

    async fn embedded() -> Result<Self> {
        let embedded = Embedded::start().await?;
        Ok(Self {
            server: embedded.server.clone(),
            kubeconfig: embedded.kubeconfig.clone(),
            baseline: None,
            _lock: None,
            own: None,
            embedded: Some(embedded),
        })
    }

    /// Ends the server and starts it again, with what it had stored and at the same address. A
    /// kube-apiserver is killed; of drydock everything ends but the store, which is in memory.
    ///
    /// # Errors
    /// Where the server is not the scenario's own, or does not come back.
    pub async fn restart(&mut self) -> Result<()> {
        if let Some(embedded) = &mut self.embedded {
            return embedded.restart().await;
        }
        let own = self.own.take().context("only a server of one's own is restarted")?;
        self.own = Some(blocking(move || own.restart()).await?);
        Ok(())
    }

    /// Ends the lease: cluster-scoped objects beyond those found at its start are deleted.
    ///
    /// # Errors
    /// Where an object cannot be deleted.
    pub async fn give_back(self) -> Result<()> {
        match &self.baseline {
            Some(baseline) => baseline.restore(&Client::new(&self.server)?).await,
            None => Ok(()),
        }
    }
}

/// The cluster-scoped objects of a server, as paths.
struct Baseline {
    collections: Vec<String>,
    objects: Vec<String>,
}

impl Baseline {
    /// Resources that are left as they are: namespaces are never deleted because that takes
    /// seconds, and definitions of custom resources are shared.
    const LEFT_ALONE: [&'static str; 2] = ["namespaces", "customresourcedefinitions"];

    /// Namespaced objects that do not rest: a scheduler or a controller of the next scenario
    /// would act on them.
    const RESTLESS: [&'static str; 4] = [
        "/apis/apps/v1/deployments",
        "/apis/apps/v1/replicasets",
        "/apis/batch/v1/jobs",
        "/api/v1/pods",
    ];

    async fn take(client: &Client) -> Result<Self> {
        let mut collections: Vec<String> = Self::RESTLESS.map(str::to_owned).to_vec();
        let accept = "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList";
        for root in ["/api", "/apis"] {
            let discovery = client.send(&request::get(root).header("Accept", accept)).await?;
            collections.extend(deletable_collections(root, &discovery.body));
        }
        let objects = Self::objects(client, &collections).await?;
        Ok(Self { collections, objects })
    }

    async fn objects(client: &Client, collections: &[String]) -> Result<Vec<String>> {
        let mut objects = Vec::new();
        for collection in collections {
            let list = client.send(&request::get(collection)).await?;
            for item in list.body["items"].as_array().into_iter().flatten() {
                objects.extend(path_of(collection, item));
            }
        }
        objects.sort();
        Ok(objects)
    }

    async fn restore(&self, client: &Client) -> Result<()> {
        for object in Self::objects(client, &self.collections).await? {
            if self.objects.binary_search(&object).is_err() {
                let request = request::delete(&object)
                    .query("gracePeriodSeconds", "0")
                    .query("propagationPolicy", "Background");
                let answer = client.send(&request).await?;
                anyhow::ensure!(
                    matches!(answer.code, 200 | 202 | 404),
                    "cannot delete {object}: {}",
                    answer.body
                );
            }
        }
        Ok(())
    }
}

/// The path of an element of a collection that was listed over all namespaces.
fn path_of(collection: &str, item: &Value) -> Option<String> {
    let text = |pointer: &str| item.pointer(pointer).and_then(Value::as_str);
    let name = text("/metadata/name")?;
    match (text("/metadata/namespace"), collection.rsplit_once('/')) {
        (Some(namespace), Some((root, plural))) => {
            Some(format!("{root}/namespaces/{namespace}/{plural}/{name}"))
        }
        _ => Some(format!("{collection}/{name}")),
    }
}

/// The paths of cluster-scoped collections whose objects can be listed and deleted.
fn deletable_collections(root: &str, discovery: &Value) -> Vec<String> {
    let list = |value: &Value| value.as_array().cloned().unwrap_or_default();
    let mut paths = Vec::new();
    for group in list(&discovery["items"]) {
        let group_name =
            group.pointer("/metadata/name").and_then(Value::as_str).unwrap_or_default();
        // The first version is the preferred one; the same objects show in each.
        let Some(version) = list(&group["versions"]).into_iter().next() else { continue };
        for resource in list(&version["resources"]) {
            let name = resource["resource"].as_str().unwrap_or_default();
            let verbs = list(&resource["verbs"]);
            let can = |verb: &str| verbs.iter().any(|known| known == verb);
            if resource["scope"] == "Cluster"
                && can("list")
                && can("delete")
                && !Baseline::LEFT_ALONE.contains(&name)
            {
                let version = version["version"].as_str().unwrap_or_default();
                let path = [root, group_name, version, name];
                let path: Vec<&str> = path.into_iter().filter(|part| !part.is_empty()).collect();
                paths.push(path.join("/"));
            }
        }
    }
    paths
}

/// The servers that run already and are named in the environment. Controllers and schedulers
/// act on a whole server, so scenarios that share have the first, and the others have the rest.
fn named() -> Vec<PathBuf> {
    let paths = std::env::var_os(KUBECONFIGS_VARIABLE);
    paths.map_or_else(Vec::new, |paths| std::env::split_paths(&paths).collect())
}

/// The kubeconfig of the server that scenarios share.
fn shared() -> Result<(PathBuf, Kubeconfig)> {
    static STARTED: Mutex<Option<ApiServer>> = Mutex::new(None);
    if let Some(path) = named().into_iter().next() {
        let config = Kubeconfig::read(&path)?;
        return Ok((path, config));
    }
    let mut started = STARTED.lock().unwrap_or_else(PoisonError::into_inner);
    let server = match started.take() {
        Some(server) => server,
        None => ApiServer::start(&Binaries::locate(&say), &etcd_address()?)?,
    };
    let server = started.insert(server);
    Ok((server.kubeconfig().to_owned(), server.config().clone()))
}

/// How many servers there are to be lent to one scenario each.
const UNSHARED_MAX: usize = 4;

/// How long all servers must be lent before one more is started, which takes seconds itself.
const START_AFTER: Duration = Duration::from_secs(1);

/// How often a server is asked for while all are lent: other processes take them too, so nobody
/// can tell.
const ASK_AGAIN: Duration = Duration::from_millis(50);

/// Servers that were started here to be lent to one scenario at a time.
struct Unshared {
    started: Vec<ApiServer>,
    starting: usize,
}

static UNSHARED: Mutex<Unshared> = Mutex::new(Unshared { started: Vec::new(), starting: 0 });

impl Unshared {
    fn pool() -> MutexGuard<'static, Self> {
        UNSHARED.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// The kubeconfig of a server that nobody else uses as long as the lock is held.
    fn take() -> Result<(PathBuf, File)> {
        let asked = Instant::now();
        loop {
            let may_start = {
                let mut pool = Self::pool();
                let started = pool.started.iter().map(|server| server.kubeconfig().to_owned());
                let servers: Vec<PathBuf> = named().into_iter().skip(1).chain(started).collect();
                let count = servers.len() + pool.starting;
                for kubeconfig in servers {
                    if let Some(lock) = locked(&kubeconfig)? {
                        return Ok((kubeconfig, lock));
                    }
                }
                let has_waited = count == 0 || asked.elapsed() > START_AFTER;
                let may_start = has_waited && count < UNSHARED_MAX;
                pool.starting += usize::from(may_start);
                may_start
            };
            if may_start {
                Self::start()?;
            } else {
                std::thread::sleep(ASK_AGAIN);
            }
        }
    }

    /// Starts the server for which there is a place already.
    fn start() -> Result<()> {
        let address = etcd_address();
        let server = address.and_then(|etcd| ApiServer::start(&Binaries::locate(&say), &etcd));
        let mut pool = Self::pool();
        pool.starting -= 1;
        pool.started.push(server?);
        Ok(())
    }
}

/// The lock of a server, unless somebody has it.
fn locked(kubeconfig: &Path) -> Result<Option<File>> {
    let path = kubeconfig.with_extension("lock");
    let lock = File::create(&path).with_context(|| format!("cannot write {}", path.display()))?;
    match lock.try_lock() {
        Ok(()) => Ok(Some(lock)),
        Err(TryLockError::WouldBlock) => Ok(None),
        Err(TryLockError::Error(error)) => {
            Err(error).with_context(|| format!("cannot lock {}", path.display()))
        }
    }
}

/// The etcd of servers that are started here.
fn etcd_address() -> Result<String> {
    static STARTED: OnceLock<Result<truth::Etcd, String>> = OnceLock::new();
    if let Ok(address) = std::env::var(ETCD_VARIABLE) {
        return Ok(address);
    }
    let start =
        || truth::Etcd::start(&Binaries::locate(&say)).map_err(|error| format!("{error:#}"));
    match STARTED.get_or_init(start) {
        Ok(etcd) => Ok(etcd.address().to_owned()),
        Err(error) => Err(anyhow::Error::msg(error.clone())),
    }
}

fn say(line: &str) {
    eprintln!("{line}");
}

/// Starting servers and taking file locks block a thread: not one of the runtime's.
async fn blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T> + Send + 'static,
) -> Result<T> {
    tokio::task::spawn_blocking(work).await.context("a blocking step panicked")?
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn only_cluster_scoped_collections_that_can_be_emptied_are_found() {
        let resource = |name: &str, scope: &str, verbs: &[&str]| json!({"resource": name, "scope": scope, "verbs": verbs});
        let group = |name: &str, resources: Value| {
            json!({"items": [{"metadata": {"name": name},
                "versions": [{"version": "v1", "resources": resources}, {"version": "v1beta1"}]}]})
        };
        let all = ["delete", "list"];
        let check = |root: &str, discovery: Value, expected: &[&str]| {
            assert_eq!(deletable_collections(root, &discovery), expected);
        };
        check(
            "/api",
            group(
                "",
                json!([
                    resource("nodes", "Cluster", &all),
                    resource("namespaces", "Cluster", &all),
                    resource("componentstatuses", "Cluster", &["list"]),
                    resource("pods", "Namespaced", &all),
                ]),
            ),
            &["/api/v1/nodes"],
        );
        check(
            "/apis",
            group("storage.k8s.io", json!([resource("csinodes", "Cluster", &all)])),
            &["/apis/storage.k8s.io/v1/csinodes"],
        );
        check("/apis", json!({}), &[]);
    }
}
