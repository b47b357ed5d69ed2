//! Who may see what a component shows: the API server is asked.
//!
//! A request says who sends it by a bearer token, which the API server reviews, or by a
//! certificate of the cluster's client authority; one that says nothing is anonymous. Whether
//! that user may see the path is for the API server to say as well. Answers are remembered for
//! some seconds. The rules, the texts and the times are those of Kubernetes' own components.
//!
//! Nothing is let in for want of an answer: where the API server does not review, or cannot be
//! reached, only the paths that are open to everybody are served.
//!
//! Whoever can reach the port can have reviews asked for. So they have a budget of their own, of
//! which nothing else in the process takes part, and who finds it spent is told to come again.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use http::header::AUTHORIZATION;
use http::request::Parts;
use http::{Method, StatusCode};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::WebPkiClientVerifier;
use rustls::server::danger::ClientCertVerifier;
use serde::{Deserialize, Serialize};
use sha2::{Digest as _, Sha256};
use tokio::sync::Semaphore;

use super::certificate::subject_of;
use crate::client::{Bucket, Call, Client, Error, Rate, Reason, ResourceType};
use crate::memory::Memory;

const TOKEN_REVIEWS: &str = "/apis/authentication.k8s.io/v1/tokenreviews";
const ACCESS_REVIEWS: &str = "/apis/authorization.k8s.io/v1/subjectaccessreviews";
const ANONYMOUS: &str = "system:anonymous";
const UNAUTHENTICATED: &str = "system:unauthenticated";
const AUTHENTICATED: &str = "system:authenticated";
/// Who may do anything, without being looked up.
const MASTERS: &str = "system:masters";
/// How many answers of each kind are remembered.
const ANSWERS_MAX: usize = 1024;
/// How many reviews are under way at once: of tokens, of those who are known, and of strangers.
const REVIEWS_MAX: usize = 8;
/// How many reviews are asked for in a second, as Kubernetes' own components have it.
const REVIEWS: Rate = Rate { qps: 200.0, burst: 400 };
/// How many of them about strangers, who may name as many paths as they like.
const REVIEWS_OF_STRANGERS: Rate = Rate { qps: 5.0, burst: 20 };
/// How long a review may take.
const REVIEW_TIMEOUT: Duration = Duration::from_secs(10);
/// The longest path that is reviewed: answers are remembered by it.
const PATH_BYTES_MAX: usize = 1024;
/// How long the cluster's client authority is believed to be what it was.
const AUTHORITY_FOR: Duration = Duration::from_mins(1);

/// What a guard goes by.
#[derive(Debug, Clone)]
pub struct GuardOptions {
    /// Paths that are open to everybody; one that ends in `*` stands for all that begin so.
    pub open_paths: Vec<String>,
    /// Whether the cluster's client authority is not looked up. Then certificates say nothing of who
    /// somebody is.
    pub skips_lookup: bool,
    /// How long it is remembered whose a token is.
    pub token_for: Duration,
    /// How long it is remembered that a user may see a path.
    pub allowed_for: Duration,
    /// How long it is remembered that a user may not.
    pub denied_for: Duration,
}

impl Default for GuardOptions {
    /// What kube-scheduler goes by.
    fn default() -> Self {
        let ten = Duration::from_secs(10);
        Self {
            open_paths: ["/healthz", "/readyz", "/livez"].map(str::to_owned).into(),
            skips_lookup: false,
            token_for: ten,
            allowed_for: ten,
            denied_for: ten,
        }
    }
}

/// Somebody, as the API server knows them.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(default)]
struct User {
    #[serde(rename(serialize = "user", deserialize = "username"))]
    name: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    uid: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    groups: Vec<String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    extra: BTreeMap<String, Vec<String>>,
}

/// Who sends a request that is served.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Caller {
    /// Somebody who has said who they are, and was believed.
    Known,
    /// Anybody: what is asked for is open to all, or to those who say nothing.
    Stranger,
}

/// Why a request is not served.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Denial {
    /// It is not known who sends it.
    Unauthorized(&'static str),
    /// The sender may not.
    Forbidden(String),
    /// Nobody can say whether the sender may.
    Unknown(String),
    /// Too much is asked at once.
    Busy,
}

impl Denial {
    pub(super) fn code(&self) -> StatusCode {
        match self {
            Self::Unauthorized(_) => StatusCode::UNAUTHORIZED,
            Self::Forbidden(_) => StatusCode::FORBIDDEN,
            Self::Unknown(_) => StatusCode::INTERNAL_SERVER_ERROR,
            Self::Busy => StatusCode::TOO_MANY_REQUESTS,
        }
    }

    /// The Status that the client gets.
    pub(super) fn status(&self) -> serde_json::Value {
        let (reason, message) = match self {
            Self::Unauthorized(message) => ("Unauthorized", *message),
            Self::Forbidden(message) => ("Forbidden", &**message),
            Self::Unknown(message) => ("InternalError", &**message),
            Self::Busy => ("TooManyRequests", "Too many requests, please try again later."),
        };
        serde_json::json!({
            "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
            "message": message, "reason": reason, "details": {}, "code": self.code().as_u16(),
        })
    }
}

/// An answer, and when it is to be forgotten.
type Kept<T> = (Duration, T);
/// What checks client certificates, where it is known.
type Authority = Option<Arc<dyn ClientCertVerifier>>;
/// Who, what and where.
type Question = (User, String, String);

/// How much may be asked.
struct Budget {
    tokens: Semaphore,
    known: Semaphore,
    strangers: Semaphore,
    strangers_rate: Mutex<Option<Bucket>>,
    /// One reads the authority for all.
    authority: Semaphore,
}

impl Budget {
    fn new() -> Self {
        let [tokens, known, strangers] = [REVIEWS_MAX; 3].map(Semaphore::new);
        let strangers_rate = Mutex::new(Bucket::new(REVIEWS_OF_STRANGERS));
        Self { tokens, known, strangers, strangers_rate, authority: Semaphore::new(1) }
    }

    /// Whether one more review about a stranger may be asked for.
    fn has_for_stranger(&self, now: Duration) -> bool {
        let mut rate = self.strangers_rate.lock().unwrap_or_else(PoisonError::into_inner);
        rate.as_mut().is_none_or(|rate| rate.try_take(now))
    }
}

/// Lets requests in, or not.
pub struct Guard {
    client: Client,
    budget: Budget,
    options: GuardOptions,
    /// Whose token it is, by the token's hash.
    tokens: Mutex<Memory<[u8; 32], Kept<Option<User>>>>,
    /// Whether it may be, and why not.
    answers: Mutex<Memory<Question, Kept<Result<(), String>>>>,
    authority: Mutex<Option<Kept<Authority>>>,
    has_warned: AtomicBool,
}

impl Guard {
    /// A guard that asks the server of `client`, and takes nothing of its limits.
    #[must_use]
    pub fn new(client: &Client, options: GuardOptions) -> Self {
        Self {
            client: client.apart(3 * REVIEWS_MAX + 1, Some(REVIEWS)),
            budget: Budget::new(),
            options,
            tokens: Mutex::new(Memory::new(ANSWERS_MAX)),
            answers: Mutex::new(Memory::new(ANSWERS_MAX)),
            authority: Mutex::new(None),
            has_warned: AtomicBool::new(false),
        }
    }

    /// Lets a request in, whose connection showed these certificates, or says why not.
    pub(super) async fn admit(
        &self,
        request: &Parts,
        certificates: &[CertificateDer<'static>],
    ) -> Result<Caller, Denial> {
        if self.is_open(request.uri.path()) {
            return Ok(Caller::Stranger);
        }
        let user = self.user(request, certificates).await?;
        if user.groups.iter().any(|group| group == MASTERS) {
            return Ok(Caller::Known);
        }
        let caller = if user.name == ANONYMOUS { Caller::Stranger } else { Caller::Known };
        self.allow(user, request).await.map(|()| caller)
    }

    fn is_open(&self, path: &str) -> bool {
        self.options.open_paths.iter().any(|open| match open.strip_suffix('*') {
            Some(start) => path.starts_with(start),
            None => path == open,
        })
    }

    async fn user(
        &self,
        request: &Parts,
        certificates: &[CertificateDer<'static>],
    ) -> Result<User, Denial> {
        let mut is_bad = false;
        if let Some(named) = self.user_of_certificate(certificates).await {
            match named {
                Some(user) => return Ok(user),
                None => is_bad = true,
            }
        }
        if let Some(token) = bearer_token(request) {
            return self.user_of_token(token).await;
        }
        if is_bad {
            return Err(Denial::Unauthorized(
                "Unauthorized: the certificate is not one of the cluster's clients",
            ));
        }
        let (name, groups) = (ANONYMOUS.to_owned(), vec![UNAUTHENTICATED.to_owned()]);
        Ok(User { name, groups, ..User::default() })
    }

    /// Whom the certificates name, `Some(None)` where they are not to be believed, and `None`
    /// where there are none or nobody could check them.
    async fn user_of_certificate(
        &self,
        certificates: &[CertificateDer<'static>],
    ) -> Option<Option<User>> {
        if self.options.skips_lookup {
            return None;
        }
        let (own, others) = certificates.split_first()?;
        let authority = self.authority().await?;
        let seconds = u64::try_from(self.client.clock().now().as_second()).unwrap_or(0);
        let now = UnixTime::since_unix_epoch(Duration::from_secs(seconds));
        if let Err(error) = authority.verify_client_cert(own, others, now) {
            tracing::debug!(%error, "a client's certificate is refused");
            return Some(None);
        }
        let named = subject_of(own);
        Some(named.map(|named| known(named.common_name, named.organizations)))
    }

    /// What checks certificates, as long as the cluster's own authority can be read.
    async fn authority(&self) -> Authority {
        if let Ok(known) = self.known_authority() {
            return known;
        }
        let _turn = self.budget.authority.acquire().await.ok();
        let former = match self.known_authority() {
            Ok(known) => return known,
            Err(former) => former,
        };
        let read = self.read_authority().await.unwrap_or_else(|reason| {
            self.warn("client certificates cannot be checked", &reason);
            // What was the authority is believed to be it until another one is read.
            former
        });
        let kept = Some((self.client.clock().monotonic() + AUTHORITY_FOR, read.clone()));
        *self.authority.lock().unwrap_or_else(PoisonError::into_inner) = kept;
        read
    }

    /// The authority that was read not long ago, or else the one that was read last.
    fn known_authority(&self) -> Result<Authority, Authority> {
        let now = self.client.clock().monotonic();
        match &*self.authority.lock().unwrap_or_else(PoisonError::into_inner) {
            Some((until, authority)) if now < *until => Ok(authority.clone()),
            former => Err(former.as_ref().and_then(|(_, authority)| authority.clone())),
        }
    }

    async fn read_authority(&self) -> Result<Authority, String> {
        #[derive(Deserialize)]
        struct ConfigMap {
            #[serde(default)]
            data: BTreeMap<String, String>,
        }
        let maps = ResourceType::namespaced("", "v1", "configmaps");
        let maps = self.client.access::<ConfigMap>(maps, "kube-system");
        let reading = maps.get("extension-apiserver-authentication");
        let map = self.client.clock().timeout(REVIEW_TIMEOUT, reading).await;
        let map = map.ok_or_else(|| format!("no answer within {REVIEW_TIMEOUT:?}"))?;
        let map = map.map_err(|error| error.to_string())?;
        let Some(pem) = map.data.get("client-ca-file") else { return Ok(None) };
        let mut roots = rustls::RootCertStore::empty();
        for certificate in CertificateDer::pem_slice_iter(pem.as_bytes()) {
            let certificate = certificate.map_err(|error| error.to_string())?;
            roots.add(certificate).map_err(|error| error.to_string())?;
        }
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let verifier = WebPkiClientVerifier::builder_with_provider(Arc::new(roots), provider);
        verifier.build().map(Some).map_err(|error| error.to_string())
    }

    async fn user_of_token(&self, token: &str) -> Result<User, Denial> {
        let hash: [u8; 32] = Sha256::digest(token.as_bytes()).into();
        let now = self.client.clock().monotonic();
        let kept = {
            let tokens = self.tokens.lock().unwrap_or_else(PoisonError::into_inner);
            tokens.get(&hash).filter(|(until, _)| now < *until).map(|(_, user)| user.clone())
        };
        let user = match kept {
            Some(user) => user,
            None => {
                let _turn = self.budget.tokens.try_acquire().map_err(|_| Denial::Busy)?;
                let user = self.review_token(token).await?;
                let kept = (now + self.options.token_for, user.clone());
                self.tokens.lock().unwrap_or_else(PoisonError::into_inner).put(hash, kept);
                user
            }
        };
        user.ok_or(Denial::Unauthorized("Unauthorized"))
    }

    /// Whose a token is; `None` where it is nobody's.
    async fn review_token(&self, token: &str) -> Result<Option<User>, Denial> {
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            authenticated: bool,
            user: User,
        }
        let body = serde_json::json!({
            "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
            "spec": { "token": token },
        });
        match self.review::<Status>(TOKEN_REVIEWS, &body).await {
            Ok(status) if status.authenticated && !status.user.name.is_empty() => {
                let User { name, uid, groups, extra } = status.user;
                Ok(Some(User { uid, extra, ..known(name, groups) }))
            }
            Ok(_) => Ok(None),
            Err(error) => {
                self.warn("tokens cannot be checked", &error.to_string());
                Err(Denial::Unauthorized(match is_refusal(&error) {
                    true => "Unauthorized: the API server does not review tokens for this server",
                    false => "Unauthorized: the API server, which reviews tokens, gives no answer",
                }))
            }
        }
    }

    async fn allow(&self, user: User, request: &Parts) -> Result<(), Denial> {
        let path = request.uri.path().to_owned();
        let verb = request.method.as_str().to_ascii_lowercase();
        let refused = |reason: &str| {
            let colon = if reason.is_empty() { "" } else { ": " };
            let name = &user.name;
            Denial::Forbidden(format!(
                "forbidden: User {name:?} cannot {verb} path {path:?}{colon}{reason}"
            ))
        };
        if path.len() > PATH_BYTES_MAX {
            return Err(refused("the path is too long to be looked up"));
        }
        let question = (user.clone(), verb.clone(), path.clone());
        let now = self.client.clock().monotonic();
        let kept = {
            let answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
            answers.get(&question).filter(|(until, _)| now < *until).map(|kept| kept.1.clone())
        };
        if let Some(answer) = kept {
            return answer.map_err(|reason| refused(&reason));
        }
        let is_stranger = user.name == ANONYMOUS;
        let room = if is_stranger { &self.budget.strangers } else { &self.budget.known };
        let _turn = room.try_acquire().map_err(|_| Denial::Busy)?;
        if is_stranger && !self.budget.has_for_stranger(now) {
            return Err(Denial::Busy);
        }
        match self.review_access(&user, &verb, &path).await {
            Ok(answer) => {
                let GuardOptions { allowed_for, denied_for, .. } = self.options;
                let keep = if answer.is_ok() { allowed_for } else { denied_for };
                let mut answers = self.answers.lock().unwrap_or_else(PoisonError::into_inner);
                answers.put(question, (now + keep, answer.clone()));
                answer.map_err(|reason| refused(&reason))
            }
            Err(error) => {
                self.warn("access cannot be checked", &error.to_string());
                Err(if is_refusal(&error) {
                    refused("the API server does not review access for this server")
                } else {
                    let what = "the API server, which reviews access, gives no answer";
                    Denial::Unknown(format!("Internal Server Error: {path:?}: {what}"))
                })
            }
        }
    }

    /// Whether a user may, or why not.
    async fn review_access(
        &self,
        user: &User,
        verb: &str,
        path: &str,
    ) -> Result<Result<(), String>, Error> {
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Review<'a> {
            api_version: &'static str,
            kind: &'static str,
            spec: Spec<'a>,
        }
        #[derive(Serialize)]
        #[serde(rename_all = "camelCase")]
        struct Spec<'a> {
            #[serde(flatten)]
            user: &'a User,
            non_resource_attributes: Attributes<'a>,
        }
        #[derive(Serialize)]
        struct Attributes<'a> {
            path: &'a str,
            verb: &'a str,
        }
        #[derive(Default, Deserialize)]
        #[serde(default)]
        struct Status {
            allowed: bool,
            denied: bool,
            reason: String,
        }
        let spec = Spec { user, non_resource_attributes: Attributes { path, verb } };
        let (api_version, kind) = ("authorization.k8s.io/v1", "SubjectAccessReview");
        let body = Review { api_version, kind, spec };
        let status = self.review::<Status>(ACCESS_REVIEWS, &body).await?;
        Ok(if status.allowed && !status.denied { Ok(()) } else { Err(status.reason) })
    }

    /// The `status` that the API server gives a review. A server that only stores reviews
    /// gives none, which is as good as a no.
    async fn review<S: Default + serde::de::DeserializeOwned>(
        &self,
        path: &str,
        body: &impl Serialize,
    ) -> Result<S, Error> {
        #[derive(Deserialize)]
        struct Reviewed<S> {
            status: Option<S>,
        }
        let call = Call::new(Method::POST, path).json(body)?;
        let reviewing = self.client.call::<Reviewed<S>>(call);
        let reviewed = self.client.clock().timeout(REVIEW_TIMEOUT, reviewing).await;
        let late = || {
            let (verb, path, limit) = (Method::POST, path.to_owned(), REVIEW_TIMEOUT);
            Error::TimedOut { verb, path, limit }
        };
        Ok(reviewed.unwrap_or_else(|| Err(late()))?.status.unwrap_or_default())
    }

    /// Tells whoever runs this why nobody is let in: loudly once, since who asks is not known
    /// and may ask often.
    fn warn(&self, what: &str, reason: &str) {
        if self.has_warned.swap(true, Ordering::Relaxed) {
            tracing::debug!(reason, "{what}");
        } else {
            tracing::warn!(
                reason,
                "{what}; let this component create tokenreviews and subjectaccessreviews \
                 (ClusterRole system:auth-delegator)"
            );
        }
    }
}

/// Somebody who has said who they are.
fn known(name: String, mut groups: Vec<String>) -> User {
    if !groups.iter().any(|group| group == AUTHENTICATED) {
        groups.push(AUTHENTICATED.to_owned());
    }
    User { name, groups, ..User::default() }
}

fn bearer_token(request: &Parts) -> Option<&str> {
    let value = request.headers.get(AUTHORIZATION)?.to_str().ok()?.trim();
    let (scheme, token) = value.split_once(' ')?;
    let token = token.trim();
    (scheme.eq_ignore_ascii_case("bearer") && !token.is_empty()).then_some(token)
}

/// Whether the API server has said that it does not review, rather than nothing at all.
fn is_refusal(error: &Error) -> bool {
    matches!(
        error.reason(),
        Some(
            Reason::NotFound | Reason::Forbidden | Reason::Unauthorized | Reason::MethodNotAllowed
        )
    )
}

#[cfg(test)]
mod tests;
