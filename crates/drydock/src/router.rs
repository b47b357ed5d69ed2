//! From a request to an answer.

use std::convert::Infallible;
use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;

use bytes::Bytes;
use http::request::Parts;
use http::{Method, Request, StatusCode};
use http_body_util::{BodyExt, LengthLimitError, Limited};
use tokio_util::sync::CancellationToken;

use crate::answer::negotiate::{self, Encoding};
use crate::answer::represent::Form;
use crate::answer::{Answer, Failure, body, discovery, openapi};
use crate::deadline::Deadline;
use crate::env::Env;
use crate::inflight::{self, Lane, Permit};
use crate::kinds::Found;
use crate::metrics::Measured;
use crate::request::{Identity, ListOptions, Query, Route, Target, Verb, authenticate};
use crate::server::{Config, Server};
use crate::verbs::{self, Ask};
use crate::write::ATTEMPTS_MAX;
use crate::{health, subresources};

/// An embedded API server. Clones share one state.
#[derive(Clone)]
pub struct Drydock {
    pub(crate) server: Arc<Server>,
}

impl Drydock {
    /// A server with the objects that every cluster begins with.
    #[must_use]
    pub fn new(config: Config, env: impl Env) -> Self {
        let server = Arc::new(Server::new(config, Box::new(env)));
        crate::bootstrap::bootstrap(&server);
        server.store().forget_history();
        Self { server }
    }

    /// Answers one request. Whatever goes wrong is an answer, too.
    ///
    /// On a runtime with several threads, work that may take long leaves the thread's other tasks
    /// to another one. Tokio cannot do that for a task of a `LocalSet`, and panics: use a runtime
    /// of one thread there, or a task of the runtime itself.
    pub async fn answer<B>(&self, request: Request<B>) -> Answer
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let (parts, body) = request.into_parts();
        let encoding = Encoding::of(&parts.headers);
        let answer = self.try_answer(parts, body).await.unwrap_or_else(Answer::from);
        body::encoded(answer, encoding)
    }

    async fn try_answer<B>(&self, parts: Parts, body: B) -> Result<Answer, Failure>
    where
        B: http_body::Body<Data = Bytes> + Send,
        B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
    {
        let identity = match parts.extensions.get::<Identity>() {
            Some(identity) => identity.clone(),
            None => authenticate::authenticate(&self.server.config().credentials, &parts.headers)?
                .clone(),
        };
        if let Some(admitted) = parts.extensions.get::<Admitted>() {
            admitted.0.cancel();
        }
        authenticate::refuse_impersonation(&parts.headers)?;
        let route = Route::parse(parts.uri.path());
        let query = Query::parse(parts.uri.query());
        let Ok(permit) = self.make_room(&parts.method, &route, &query) else {
            return Ok(inflight::come_again());
        };
        let answer = match read(body, self.server.config().body_bytes_max).await {
            Ok(body) => self.routed(&parts, route, query, body, &identity).await,
            Err(failure) => Err(failure),
        };
        Ok(answer.unwrap_or_else(Answer::from).map(|body| body.holding(permit)))
    }

    /// Room for a request, where it needs some.
    fn make_room(
        &self,
        method: &Method,
        route: &Route,
        query: &Query,
    ) -> Result<Option<Permit>, NoRoom> {
        let (limits, metrics) = (self.server.config().in_flight, self.server.metrics());
        let permit = match Lane::of(method, route, query) {
            Lane::Uncounted => return Ok(None),
            Lane::Reading => Permit::take(metrics.reading(), limits.reading_max),
            Lane::Writing => Permit::take(metrics.writing(), limits.writing_max),
        };
        if permit.is_some() {
            return Ok(permit);
        }
        match route {
            Route::Resource(target) => {
                let found = self.server.find(target);
                let found =
                    found.and_then(|found| Ok((verb(method, &found, target, query)?, found)));
                if let Ok((verb, found)) = found {
                    metrics.sent_away(&found, target, verb, query);
                }
            }
            _ => metrics.document_sent_away(),
        }
        Err(NoRoom)
    }

    async fn routed(
        &self,
        parts: &Parts,
        route: Route,
        query: Query,
        body: Bytes,
        identity: &Identity,
    ) -> Result<Answer, Failure> {
        match route {
            Route::Resource(target) => self.resource(parts, target, query, body, identity).await,
            route if self.leads_nowhere(&route, parts.uri.path()) => Ok(no_such_page()),
            route if parts.method == Method::GET => self.document(parts, &route),
            _ => Err(Failure::method_not_allowed()),
        }
    }

    /// Whether a path names a group, or a version of a custom group, that is not served: no part
    /// of kube-apiserver feels responsible for such a path.
    fn leads_nowhere(&self, route: &Route, path: &str) -> bool {
        let registry = self.server.registry();
        let is_served = |group: &str, version: &str| {
            let mut groups = registry.groups().iter();
            groups.any(|(known, versions)| {
                known == group && versions.iter().any(|known| known == version)
            })
        };
        match route {
            Route::Unknown => match path.split('/').nth(1) {
                Some("api") => false,
                Some("apis") => !registry.is_native(path.split('/').nth(2).unwrap_or_default()),
                _ => true,
            },
            Route::Group(group) => !registry.has_group(group),
            Route::Health(endpoint, Some(check)) => {
                !health::knows(&self.server.config().checks, endpoint, check)
            }
            Route::GroupVersion(group, version) => {
                !registry.is_native(group) && !is_served(group, version)
            }
            _ => false,
        }
    }

    fn document(&self, parts: &Parts, route: &Route) -> Result<Answer, Failure> {
        let registry = self.server.registry();
        let checks = &self.server.config().checks;
        match route {
            Route::CoreVersions => Ok(discovery::core_versions(&registry, &parts.headers)),
            Route::Groups => Ok(discovery::groups(&registry, &parts.headers)),
            Route::Group(group) => discovery::group(&registry, group),
            Route::GroupVersion(group, version) => {
                discovery::group_version(&registry, group, version)
            }
            Route::OpenApiV2 => Ok(openapi::older(&parts.headers)),
            Route::OpenApiV3 => Ok(openapi::index(&registry)),
            Route::OpenApiV3Group(group, version) => openapi::document(&registry, group, version),
            Route::Version => Ok(body::value(StatusCode::OK, &discovery::version())),
            Route::Health(endpoint, None) => {
                Ok(health::all(checks, endpoint, parts.uri.query().unwrap_or_default()))
            }
            Route::Health(_, Some(check)) => Ok(health::one(checks, check)),
            Route::Metrics => Ok(body::metrics(self.server.metrics().render(&registry))),
            Route::Root => Ok(discovery::paths(&registry)),
            Route::Unknown | Route::Resource(_) => Err(Failure::no_such_path()),
        }
    }

    async fn resource(
        &self,
        parts: &Parts,
        target: Target,
        query: Query,
        body: Bytes,
        identity: &Identity,
    ) -> Result<Answer, Failure> {
        crate::write::expiry::sweep(&self.server);
        let found = match self.server.find(&target) {
            Err(_) if !self.server.registry().is_native(&target.group) => return Ok(no_such_page()),
            found => found?,
        };
        let verb = verb(&parts.method, &found, &target, &query)?;
        let mut measured = Measured::begin(&self.server, &found, &target, verb, &query);
        let answer = self.verb(parts, (found, target, verb), query, body, identity).await;
        let answer = answer.unwrap_or_else(Answer::from);
        measured.answered(answer.status());
        Ok(answer.map(|body| body.keeping(measured)))
    }

    async fn verb(
        &self,
        parts: &Parts,
        (found, target, verb): (Found, Target, Verb),
        query: Query,
        body: Bytes,
        identity: &Identity,
    ) -> Result<Answer, Failure> {
        if !found.kind.is_custom() {
            negotiate::require_representation(&parts.headers, verb)?;
        }
        let form = Form::negotiate(&parts.headers, &query)?;
        let mut ask = Ask {
            server: &self.server,
            found,
            target,
            query,
            headers: parts.headers.clone(),
            body,
            identity,
            form,
        };
        let mut answer = carry_out(&mut ask, verb).await.unwrap_or_else(Answer::from);
        if let Some(warning) = &ask.found.version().deprecation {
            verbs::warn_first(&mut answer, warning);
        }
        Ok(answer)
    }
}

/// What a connection hears by that whoever is at its other end may enter: before the body is
/// read, which may take as long as the answer.
#[derive(Clone)]
pub(crate) struct Admitted(pub(crate) CancellationToken);

/// There are as many requests under way as there may be.
struct NoRoom;

/// Does what is asked, from the beginning where the kind was replaced by another form of it before
/// the write: what was read of the body went by the old one.
async fn carry_out(ask: &mut Ask<'_>, verb: Verb) -> Result<Answer, Failure> {
    let mut attempts = 1;
    loop {
        match carry_out_once(ask, verb).await {
            Err(failure) if failure.is_outdated && attempts < ATTEMPTS_MAX => attempts += 1,
            result => return result,
        }
        ask.apart_with_all(|| ask.server.wait_for_definitions());
        ask.found = ask.server.find(&ask.target)?;
    }
}

async fn carry_out_once(ask: &Ask<'_>, verb: Verb) -> Result<Answer, Failure> {
    verbs::require_offered(&ask.found, &ask.target, verb)?;
    if verb == Verb::Patch {
        verbs::patch::refuse_apply(ask)?;
    }
    if !matches!(ask.target.subresource.as_deref(), None | Some("status")) {
        return ask.apart(|| subresources::answer(ask, verb));
    }
    match verb {
        Verb::Get => verbs::get::get(ask),
        Verb::List => {
            let options = ListOptions::parse(&ask.query)?;
            ask.apart_with_all(|| verbs::list::list(ask, &options))
        }
        Verb::Watch => {
            let options = ListOptions::parse(&ask.query)?;
            negotiate::require_stream(&ask.headers)?;
            verbs::watch::watch(ask, &options)
        }
        Verb::Create => verbs::create::create(ask).await,
        Verb::Update => ask.apart(|| verbs::update::update(ask)),
        Verb::Patch => ask.apart(|| verbs::patch::patch(ask)),
        Verb::Delete => ask.apart(|| verbs::delete::delete(ask)),
        Verb::DeleteCollection => ask.apart_with_all(|| verbs::delete::delete_collection(ask)),
    }
}

/// The answer to a path that leads nowhere.
fn no_such_page() -> Answer {
    body::text(StatusCode::NOT_FOUND, "404 page not found\n")
}

fn verb(method: &Method, found: &Found, target: &Target, query: &Query) -> Result<Verb, Failure> {
    let named = target.name.is_some();
    let watch = query.flag("watch").unwrap_or(false);
    match Verb::of(method, named, watch) {
        // Paths of custom kinds are not routed by method: the verb finds out what it misses.
        Some(Verb::Create) if found.kind.is_custom() => Ok(Verb::Create),
        Some(Verb::Create) if named && target.subresource.is_none() => {
            Err(Failure::method_not_allowed())
        }
        Some(verb) => Ok(verb),
        None if found.kind.is_custom() && matches!(*method, Method::PUT | Method::PATCH) => {
            Err(Failure::bad_request("name must be provided"))
        }
        None => Err(Failure::method_not_allowed()),
    }
}

/// How long a body may take to arrive, as long as kube-apiserver lets a request take.
const BODY_WITHIN: Duration = Duration::from_secs(60);

async fn read<B>(body: B, bytes_max: usize) -> Result<Bytes, Failure>
where
    B: http_body::Body<Data = Bytes> + Send,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    if body.size_hint().lower() > bytes_max as u64 {
        return Err(Failure::too_large(bytes_max));
    }
    let read = Box::pin(Limited::new(body, bytes_max).collect());
    let Some(read) = Deadline::after(BODY_WITHIN).bound(read).await else {
        let seconds = BODY_WITHIN.as_secs();
        return Err(Failure::bad_request(format!("the body did not arrive within {seconds} s")));
    };
    read.map(http_body_util::Collected::to_bytes).map_err(|error| {
        if error.is::<LengthLimitError>() {
            return Failure::too_large(bytes_max);
        }
        Failure::bad_request(format!("the body could not be read: {error}"))
    })
}

impl<B> tower::Service<Request<B>> for Drydock
where
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<Box<dyn std::error::Error + Send + Sync>>,
{
    type Response = Answer;
    type Error = Infallible;
    type Future = Pin<Box<dyn Future<Output = Result<Answer, Infallible>> + Send>>;

    fn poll_ready(&mut self, _context: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, request: Request<B>) -> Self::Future {
        let drydock = self.clone();
        Box::pin(async move { Ok(drydock.answer(request).await) })
    }
}
