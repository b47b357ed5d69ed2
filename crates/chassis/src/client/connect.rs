//! From a kubeconfig, or a pod's own credentials, to a connection.

use std::path::{Path, PathBuf};

use http::header::{HOST, HeaderValue};
use http::uri::{Authority, PathAndQuery, Scheme};
use http::{Request, Uri};
use kube::client::{Body, ConfigExt as _};
use kube::config::{Config, KubeConfigOptions, Kubeconfig, KubeconfigError};
use tower::{BoxError, ServiceBuilder};

use super::transport::{Transport, Turn};
use crate::connection;
use crate::permission::{self, Outgoing};

/// Where to find out which server to talk to, and as whom.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Source {
    /// This kubeconfig file.
    File {
        /// Its path.
        path: PathBuf,
        /// The context in it; `None` for its current one.
        context: Option<String>,
    },
    /// The files that `KUBECONFIG` names, else `~/.kube/config`, else, in a pod, its
    /// service account.
    Default {
        /// The context; `None` for the current one.
        context: Option<String>,
    },
    /// The service account of the pod that this process runs in.
    InCluster,
}

impl Source {
    /// The usual pair of flags: `--kubeconfig` and `--context`.
    #[must_use]
    pub fn from_flags(kubeconfig: Option<PathBuf>, context: Option<String>) -> Self {
        match kubeconfig {
            Some(path) => Self::File { path, context },
            None => Self::Default { context },
        }
    }
}

/// Why there is no client.
#[derive(Debug, thiserror::Error)]
pub enum ConnectError {
    /// There is no configuration anywhere.
    #[error(
        "no cluster to talk to: {tried} does not exist, and this process does not run in a pod; \
         pass --kubeconfig FILE, set KUBECONFIG, or start a cluster with `gantry up`"
    )]
    NoConfig {
        /// The file that was looked for.
        tried: String,
    },
    /// The process does not run in a pod, or its pod has no service account.
    #[error("cannot use the pod's service account: {reason}; outside a pod pass --kubeconfig FILE")]
    NotInCluster {
        /// What is missing.
        reason: String,
    },
    /// A file cannot be read.
    #[error("cannot read kubeconfig {file}: {source}")]
    Unreadable {
        /// The file.
        file: String,
        /// Why.
        source: std::io::Error,
    },
    /// A file is not a kubeconfig.
    #[error("kubeconfig {file} is malformed: {reason}")]
    Malformed {
        /// The file.
        file: String,
        /// What is wrong with it.
        reason: String,
    },
    /// No context was chosen.
    #[error(
        "kubeconfig {file} has no current context; pass --context, or choose one with \
         `kubectl config use-context` ({})", listed("contexts", .known)
    )]
    NoCurrentContext {
        /// The file.
        file: String,
        /// The contexts it has.
        known: Vec<String>,
    },
    /// A part that another part names is not in the file.
    #[error("kubeconfig {file} has no {what} {name:?} ({})", listed(what, .known))]
    Missing {
        /// The file.
        file: String,
        /// `context`, `cluster` or `user`.
        what: &'static str,
        /// Its name.
        name: String,
        /// Those it has.
        known: Vec<String>,
    },
    /// The cluster, or the user, of the context cannot be used as it is.
    #[error("cluster {cluster:?} of context {context:?} in kubeconfig {file}: {reason}")]
    Unusable {
        /// The file.
        file: String,
        /// The context.
        context: String,
        /// The cluster.
        cluster: String,
        /// What is wrong, and the fix.
        reason: String,
    },
    /// A server that no configuration names cannot be talked to.
    #[error("cannot talk to {url}: {reason}")]
    Elsewhere {
        /// Where it is.
        url: String,
        /// Why not.
        reason: String,
    },
}

fn listed(what: &str, known: &[String]) -> String {
    if known.is_empty() {
        return format!("it has no {}", what.trim_end_matches('s').to_owned() + "s at all");
    }
    format!("it has {}", known.join(", "))
}

/// A connection pool of our own making, the server's address, and the namespace of the context.
pub(super) async fn connect(source: &Source) -> Result<(Transport, String, String), ConnectError> {
    let (config, told) = configuration(source).await?;
    let transport = build(&config).map_err(|reason| told.unusable(reason))?;
    let server = config.cluster_url.to_string().trim_end_matches('/').to_owned();
    Ok((transport, server, config.default_namespace))
}

/// What a source says, and where it was found.
pub(super) async fn configuration(source: &Source) -> Result<(Config, Told), ConnectError> {
    match source {
        Source::InCluster => Ok((in_cluster()?, Told::pod())),
        Source::File { path, context } => {
            let file = path.display().to_string();
            let kubeconfig =
                Kubeconfig::read_from(path).map_err(|error| unreadable(&file, error))?;
            from_kubeconfig(kubeconfig, file, context.as_deref()).await
        }
        Source::Default { context } => match default_kubeconfig()? {
            Some((kubeconfig, file)) => from_kubeconfig(kubeconfig, file, context.as_deref()).await,
            None => Ok((in_cluster()?, Told::pod())),
        },
    }
}

/// Which part of which file a configuration came from.
#[derive(Debug, Clone)]
pub(super) struct Told {
    file: String,
    context: String,
    cluster: String,
}

impl Told {
    fn pod() -> Self {
        let name = "in-cluster".to_owned();
        Self { file: "of the pod".to_owned(), context: name.clone(), cluster: name }
    }

    fn unusable(self, reason: String) -> ConnectError {
        let Self { file, context, cluster } = self;
        ConnectError::Unusable { file, context, cluster, reason }
    }
}

fn in_cluster() -> Result<Config, ConnectError> {
    Config::incluster().map_err(|error| ConnectError::NotInCluster { reason: error.to_string() })
}

fn default_kubeconfig() -> Result<Option<(Kubeconfig, String)>, ConnectError> {
    let named = std::env::var_os("KUBECONFIG").filter(|value| !value.is_empty());
    if let Some(value) = named {
        let file = value.to_string_lossy().into_owned();
        let read = Kubeconfig::from_env().map_err(|error| unreadable(&file, error))?;
        if let Some(kubeconfig) = read {
            return Ok(Some((kubeconfig, file)));
        }
    }
    let home = std::env::home_dir().unwrap_or_else(|| PathBuf::from("~"));
    default_file(
        &home.join(".kube").join("config"),
        std::env::var_os("KUBERNETES_SERVICE_HOST").is_some(),
    )
}

fn default_file(path: &Path, in_pod: bool) -> Result<Option<(Kubeconfig, String)>, ConnectError> {
    let file = path.display().to_string();
    match Kubeconfig::read_from(path) {
        Ok(kubeconfig) => Ok(Some((kubeconfig, file))),
        Err(KubeconfigError::ReadConfig(error, _))
            if error.kind() == std::io::ErrorKind::NotFound =>
        {
            if in_pod {
                Ok(None)
            } else {
                Err(ConnectError::NoConfig { tried: file })
            }
        }
        Err(error) => Err(unreadable(&file, error)),
    }
}

fn unreadable(file: &str, error: KubeconfigError) -> ConnectError {
    match error {
        KubeconfigError::ReadConfig(source, path) => {
            ConnectError::Unreadable { file: path.display().to_string(), source }
        }
        other => ConnectError::Malformed { file: file.to_owned(), reason: other.to_string() },
    }
}

async fn from_kubeconfig(
    kubeconfig: Kubeconfig,
    file: String,
    context: Option<&str>,
) -> Result<(Config, Told), ConnectError> {
    let told = check(&kubeconfig, file, context)?;
    let proxied = kubeconfig
        .clusters
        .iter()
        .find(|named| named.name == told.cluster)
        .and_then(|named| named.cluster.as_ref()?.proxy_url.clone())
        .filter(|proxy| !proxy.is_empty());
    if let Some(proxy) = proxied {
        let reason = format!(
            "proxy-url {proxy} is not supported; remove it and reach the server directly or \
             through a tunnel"
        );
        return Err(told.unusable(reason));
    }
    let options =
        KubeConfigOptions { context: Some(told.context.clone()), ..KubeConfigOptions::default() };
    match Config::from_custom_kubeconfig(kubeconfig, &options).await {
        Ok(config) => Ok((config, told)),
        Err(error) => Err(told.unusable(error.to_string())),
    }
}

/// Whether context, cluster and user are all there; `kube` would take a missing user for
/// an anonymous one.
fn check(
    kubeconfig: &Kubeconfig,
    file: String,
    context: Option<&str>,
) -> Result<Told, ConnectError> {
    let contexts = names(kubeconfig.contexts.iter().map(|context| &context.name));
    let chosen = context.or(kubeconfig.current_context.as_deref()).filter(|name| !name.is_empty());
    let Some(chosen) = chosen else {
        return Err(ConnectError::NoCurrentContext { file, known: contexts });
    };
    let missing = |what, name: &str, known| ConnectError::Missing {
        file: file.clone(),
        what,
        name: name.to_owned(),
        known,
    };
    let context = kubeconfig
        .contexts
        .iter()
        .find(|context| context.name == chosen)
        .and_then(|context| context.context.as_ref())
        .ok_or_else(|| missing("context", chosen, contexts))?;
    if !kubeconfig.clusters.iter().any(|cluster| cluster.name == context.cluster) {
        let known = names(kubeconfig.clusters.iter().map(|cluster| &cluster.name));
        return Err(missing("cluster", &context.cluster, known));
    }
    if let Some(user) = context.user.as_ref().filter(|user| !user.is_empty())
        && !kubeconfig.auth_infos.iter().any(|known| known.name == *user)
    {
        let known = names(kubeconfig.auth_infos.iter().map(|user| &user.name));
        return Err(missing("user", user, known));
    }
    let (context, cluster) = (chosen.to_owned(), context.cluster.clone());
    Ok(Told { file, context, cluster })
}

fn names<'a>(names: impl Iterator<Item = &'a String>) -> Vec<String> {
    names.cloned().collect()
}

pub(super) fn build(config: &Config) -> Result<Transport, String> {
    let told = |error: kube::Error| error.to_string();
    let pool =
        connection::pool::<Outgoing<Body>>(config, connection::CONNECT_TIMEOUT).map_err(told)?;
    let base = Base::of(&config.cluster_url)?;
    sendable(config)?;
    let service = ServiceBuilder::new()
        .map_request(move |request| base.lead(request))
        .option_layer(config.auth_layer().map_err(told)?)
        .layer(config.extra_headers_layer().map_err(told)?)
        .map_err(BoxError::from)
        // Innermost: a credential or a connection may be long in coming.
        .map_request(permission::outgoing)
        .service(pool);
    Ok(Transport::new(service, Turn::Keep))
}

/// Whether a token can be sent; `kube` panics over one that cannot.
fn sendable(config: &Config) -> Result<(), String> {
    let user = serde_json::to_value(&config.auth_info).unwrap_or_default();
    match user["token"].as_str().map(HeaderValue::from_str) {
        Some(Err(_)) => Err("the token has a line break or another character that no header may \
             have; write it on one line, without anything around it"
            .to_owned()),
        _ => Ok(()),
    }
}

/// Where all requests of a client go.
#[derive(Clone)]
struct Base {
    scheme: Scheme,
    authority: Authority,
    host: HeaderValue,
    /// What stands before the path; mostly nothing.
    prefix: String,
}

impl Base {
    fn of(server: &Uri) -> Result<Self, String> {
        let whole = || format!("server {server} is not a URL; it should begin with https://");
        let scheme = server.scheme().ok_or_else(whole)?.clone();
        let authority = server.authority().ok_or_else(whole)?.clone();
        let host = HeaderValue::from_str(authority.as_str()).map_err(|_| whole())?;
        let prefix = server.path().trim_end_matches('/').to_owned();
        Ok(Self { scheme, authority, host, prefix })
    }

    /// The request with the server's address; nothing is copied where the server has no path
    /// of its own.
    fn lead(&self, mut request: Request<Body>) -> Request<Body> {
        let mut parts = std::mem::take(request.uri_mut()).into_parts();
        if !self.prefix.is_empty() {
            let path = parts.path_and_query.as_ref().map_or("", PathAndQuery::as_str);
            parts.path_and_query = format!("{}{path}", self.prefix).parse().ok();
        }
        parts.path_and_query.get_or_insert_with(|| PathAndQuery::from_static("/"));
        (parts.scheme, parts.authority) = (Some(self.scheme.clone()), Some(self.authority.clone()));
        *request.uri_mut() = Uri::from_parts(parts).expect("all three parts are there");
        request.headers_mut().insert(HOST, self.host.clone());
        request
    }
}

#[cfg(test)]
mod tests {
    use super::super::Options;
    use super::*;

    const GOOD: &str = r#"
apiVersion: v1
kind: Config
current-context: dev
contexts:
- {name: dev, context: {cluster: local, user: me, namespace: shop}}
- {name: lost, context: {cluster: gone, user: me}}
- {name: nobody, context: {cluster: local, user: ghost}}
- {name: proxied, context: {cluster: far, user: me}}
- {name: bad, context: {cluster: bad, user: me}}
- {name: broken, context: {cluster: local, user: broken}}
clusters:
- {name: local, cluster: {server: 'https://127.0.0.1:6443', insecure-skip-tls-verify: true}}
- {name: far, cluster: {server: 'https://far:6443', proxy-url: 'http://proxy:3128'}}
- {name: bad, cluster: {server: 'https://127.0.0.1:6443', certificate-authority: /no/such/ca}}
users:
- {name: me, user: {token: secret}}
- {name: broken, user: {token: "a\nb"}}
"#;

    async fn outcome(yaml: &str, context: Option<&str>) -> String {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        std::fs::write(&path, yaml).unwrap();
        let source = Source::File { path: path.clone(), context: context.map(str::to_owned) };
        let answer = match super::super::Client::connect(&source, &Options::new("test")).await {
            Ok(client) => format!("ok {}", client.default_namespace()),
            Err(error) => error.to_string(),
        };
        answer.replace(&path.display().to_string(), "F")
    }

    #[tokio::test]
    async fn every_fault_of_a_kubeconfig_names_file_part_and_fix() {
        let check = async |yaml: &str, context: Option<&str>, want: &str| {
            assert_eq!(outcome(yaml, context).await, want);
        };
        check(GOOD, None, "ok shop").await;
        let all = "it has dev, lost, nobody, proxied, bad, broken";
        let no = format!("kubeconfig F has no context \"prod\" ({all})");
        check(GOOD, Some("prod"), &no).await;
        let no = "kubeconfig F has no cluster \"gone\" (it has local, far, bad)";
        check(GOOD, Some("lost"), no).await;
        check(GOOD, Some("nobody"), "kubeconfig F has no user \"ghost\" (it has me, broken)").await;
        let proxy = "cluster \"far\" of context \"proxied\" in kubeconfig F: proxy-url \
            http://proxy:3128 is not supported; remove it and reach the server directly or \
            through a tunnel";
        check(GOOD, Some("proxied"), proxy).await;
        let unset = "kubeconfig F has no current context; pass --context, or choose one with \
            `kubectl config use-context` (it has no contexts at all)";
        check("", None, unset).await;
        let bad = outcome(GOOD, Some("bad")).await;
        assert!(bad.contains("cluster \"bad\"") && bad.contains("/no/such/ca"), "{bad}");
        let broken = outcome(GOOD, Some("broken")).await;
        assert!(broken.contains("in kubeconfig F: the token has a line break"), "{broken}");
        assert!(!broken.contains("a\nb"), "{broken}");
        let text = outcome("clusters: [", None).await;
        assert!(text.starts_with("kubeconfig F is malformed: "), "{text}");
    }

    #[test]
    fn every_request_is_led_to_the_server() {
        let check = |server: &'static str, path: &'static str, want: &str| {
            let base = Base::of(&Uri::from_static(server)).unwrap();
            let request = base.lead(Request::get(path).body(Body::empty()).unwrap());
            assert_eq!(request.uri().to_string(), want);
            let authority = request.uri().authority().unwrap().as_str();
            assert_eq!(request.headers()[HOST], authority);
        };
        let pods = "/api/v1/pods?watch=true";
        check("https://[::1]:6443", pods, "https://[::1]:6443/api/v1/pods?watch=true");
        check("http://h/", pods, "http://h/api/v1/pods?watch=true");
        check("https://h/k8s/c-1/", pods, "https://h/k8s/c-1/api/v1/pods?watch=true");
        let error = Base::of(&Uri::from_static("h:6443")).err().unwrap();
        assert_eq!(error, "server h:6443 is not a URL; it should begin with https://");
    }

    #[tokio::test]
    async fn a_missing_file_is_named() {
        let source = Source::from_flags(Some("/no/such/kubeconfig".into()), None);
        let error = connect(&source).await.err().unwrap().to_string();
        assert!(
            error.starts_with("cannot read kubeconfig /no/such/kubeconfig: No such"),
            "{error}"
        );
        let error = default_file(Path::new("/no/home/.kube/config"), false).unwrap_err();
        assert!(error.to_string().contains("/no/home/.kube/config does not exist"), "{error}");
        assert!(default_file(Path::new("/no/home/.kube/config"), true).unwrap().is_none());
    }
}
