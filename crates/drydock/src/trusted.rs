//! The server for clients in the same process: who asks is said, not proved.

use std::task::{Context, Poll};

use http::Request;
use tower::Service;

use crate::Drydock;
use crate::request::Identity;

/// A drydock that takes every request for one identity's.
///
/// Its answers must not be awaited in a `LocalSet` on a runtime with several threads: see
/// [`Drydock::answer`].
#[derive(Clone)]
pub struct Trusted {
    drydock: Drydock,
    identity: Identity,
}

impl Drydock {
    /// The same server for a client that needs no credentials: no socket, no TLS.
    #[must_use]
    pub fn trusting(&self, identity: Identity) -> Trusted {
        Trusted { drydock: self.clone(), identity }
    }
}

impl<B> Service<Request<B>> for Trusted
where
    Drydock: Service<Request<B>>,
{
    type Response = <Drydock as Service<Request<B>>>::Response;
    type Error = <Drydock as Service<Request<B>>>::Error;
    type Future = <Drydock as Service<Request<B>>>::Future;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), Self::Error>> {
        self.drydock.poll_ready(context)
    }

    fn call(&mut self, mut request: Request<B>) -> Self::Future {
        request.extensions_mut().insert(self.identity.clone());
        self.drydock.call(request)
    }
}
