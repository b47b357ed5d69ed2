//! Programs that are asked over HTTP: where they are, what they are asked, and whom they trust.

use std::collections::BTreeSet;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use chassis::connection::{Identity, Pem, Security, Trust};
use object::field::{Error, Errors, Path};
use object::names::qualified_name;

use super::file;

/// For how long an answer is waited for where the file does not say.
const TIMEOUT: Duration = Duration::from_secs(5);

/// A program that is asked over HTTP.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Extender {
    /// Where it is; verbs are appended.
    pub url_prefix: String,
    /// The verb that asks which nodes can take a pod.
    pub filter_verb: Option<String>,
    /// The verb that asks how good nodes are, and what the answer counts.
    pub prioritize: Option<Prioritize>,
    /// The verb that has a pod bound.
    pub bind_verb: Option<String>,
    /// How the connection is secured.
    pub tls: Security,
    /// For how long an answer is waited for.
    pub timeout: Duration,
    /// Whether names of nodes are enough.
    pub knows_nodes: bool,
    /// It is asked about pods that request one of these, or about all when empty.
    pub managed_resources: BTreeSet<String>,
    /// Whether pods are scheduled without it when it fails.
    pub ignorable: bool,
}

/// How an extender is asked how good nodes are.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Prioritize {
    /// The verb.
    pub verb: String,
    /// What its scores count.
    pub weight: i64,
}

/// All extenders, and the resources that only they look at.
pub(super) fn extenders(
    wire: &[file::Extender],
    errors: &mut Errors,
) -> (Vec<Extender>, Vec<Box<str>>) {
    let path = Path::new("extenders");
    let mut seen = BTreeSet::new();
    let mut extenders = Vec::new();
    for (index, one) in wire.iter().enumerate() {
        let path = path.index(index);
        check_resources(one, &path, &mut seen, errors);
        extenders.push(extender(one, &path, errors));
    }
    let binders = extenders.iter().filter(|one| one.bind_verb.is_some()).count();
    if binders > 1 {
        let found = format!("found {binders} extenders implementing bind");
        errors.push(Error::invalid(&path, found, "only one extender can implement bind"));
    }
    // Those that may fail are asked last.
    extenders.sort_by_key(|one| one.ignorable);
    let managed = wire.iter().flat_map(|one| &one.managed_resources);
    let ignored = managed.filter(|one| one.ignored_by_scheduler);
    (extenders, ignored.map(|one| one.name.as_str().into()).collect())
}

fn verb(verb: &str) -> Option<String> {
    (!verb.is_empty()).then(|| verb.to_owned())
}

fn extender(wire: &file::Extender, path: &Path, errors: &mut Errors) -> Extender {
    check_url(&wire.url_prefix, &path.child("urlPrefix"), errors);
    if !wire.prioritize_verb.is_empty() && wire.weight <= 0 {
        let fix = "must have a positive weight applied to it";
        errors.push(Error::invalid(&path.child("weight"), wire.weight, fix));
    }
    if !wire.preempt_verb.is_empty() {
        let reason = "extenders cannot take part in preemption yet; leave it out";
        errors.push(Error::forbidden(&path.child("preemptVerb"), reason));
    }
    let timeout = wire.http_timeout.unwrap_or_default();
    if timeout.as_nanos() < 0 {
        let path = path.child("httpTimeout");
        errors.push(Error::invalid(&path, timeout.to_string(), "must not be negative"));
    }
    let timeout = match u64::try_from(timeout.as_nanos()) {
        Ok(0) | Err(_) => TIMEOUT,
        Ok(nanos) => Duration::from_nanos(nanos),
    };
    let prioritize = verb(&wire.prioritize_verb);
    Extender {
        url_prefix: wire.url_prefix.clone(),
        filter_verb: verb(&wire.filter_verb),
        prioritize: prioritize.map(|verb| Prioritize { verb, weight: wire.weight }),
        bind_verb: verb(&wire.bind_verb),
        tls: tls(wire, &path.child("tlsConfig"), errors),
        timeout,
        knows_nodes: wire.node_cache_capable,
        managed_resources: wire.managed_resources.iter().map(|one| one.name.clone()).collect(),
        ignorable: wire.ignorable,
    }
}

fn check_url(url: &str, path: &Path, errors: &mut Errors) {
    if url.is_empty() {
        errors.push(Error::required(path, "where is the extender?"));
        return;
    }
    let parsed: Option<http::Uri> = url.parse().ok();
    let is_good = parsed.is_some_and(|uri| {
        uri.host().is_some() && matches!(uri.scheme_str(), Some("http" | "https"))
    });
    if !is_good {
        let fix = "must be a URL such as http://127.0.0.1:8888/scheduler";
        errors.push(Error::invalid(path, url, fix));
    }
}

fn check_resources(
    wire: &file::Extender,
    path: &Path,
    seen: &mut BTreeSet<String>,
    errors: &mut Errors,
) {
    for (index, resource) in wire.managed_resources.iter().enumerate() {
        let path = path.child("managedResources").index(index).child("name");
        let name = resource.name.as_str();
        let faults = qualified_name(name);
        if faults.is_empty() && !is_extended(name) {
            errors.push(Error::invalid(&path, name, "is an invalid extended resource name"));
        }
        errors.extend(faults.into_iter().map(|fault| Error::invalid(&path, name, fault)));
        if !seen.insert(name.to_owned()) {
            errors.push(Error::invalid(&path, name, "duplicate extender managed resource name"));
        }
    }
}

/// Whether a resource is one that Kubernetes itself knows nothing of, and that quotas can name.
fn is_extended(name: &str) -> bool {
    let native = !name.contains('/') || name.contains("kubernetes.io/");
    !native
        && !name.starts_with("requests.")
        && qualified_name(&format!("requests.{name}")).is_empty()
}

fn tls(wire: &file::Extender, path: &Path, errors: &mut Errors) -> Security {
    let none = file::ExtenderTlsConfig::default();
    let config = wire.tls_config.as_ref().unwrap_or(&none);
    let mut pem = |data: &str, file: &str, field: &str| {
        if data.is_empty() {
            return (!file.is_empty()).then(|| Pem::File(file.into()));
        }
        match BASE64_STANDARD.decode(data) {
            Ok(bytes) => Some(Pem::Inline(bytes)),
            Err(_) => {
                // The value may be a key, so it is not repeated.
                let mut error = Error::invalid(&path.child(field), "", "must be base64");
                error.value = None;
                errors.push(error);
                None
            }
        }
    };
    let authorities = pem(&config.ca_data, &config.ca_file, "caData");
    let certificate = pem(&config.cert_data, &config.cert_file, "certData");
    let key = pem(&config.key_data, &config.key_file, "keyData");
    let is_set = |data: &str, file: &str| !data.is_empty() || !file.is_empty();
    let has_certificate = is_set(&config.cert_data, &config.cert_file);
    if has_certificate != is_set(&config.key_data, &config.key_file) {
        let missing = if has_certificate { "keyFile" } else { "certFile" };
        errors.push(Error::required(&path.child(missing), "certificate and key go together"));
    }
    if authorities.is_some() && config.insecure {
        let reason = "specifying a root certificates file with the insecure flag is not allowed";
        errors.push(Error::forbidden(&path.child("insecure"), reason));
    }
    let identity = certificate.zip(key).map(|(certificate, key)| Identity { certificate, key });
    let trust = match authorities {
        Some(authorities) => Trust::Authorities(authorities),
        // As upstream has it, this is also what `enableHTTPS` without authorities means.
        None if config.insecure || wire.enable_https => Trust::Anyone,
        None => Trust::System,
    };
    let server_name = verb(&config.server_name);
    Security { trust, server_name, identity }
}
