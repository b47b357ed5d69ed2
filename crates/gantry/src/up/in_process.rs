//! A client of the server in this process: no socket, no TLS, the same requests.

use std::task::{Context, Poll};

use chassis::client::{Client, Options};
use drydock::Drydock;
use drydock::request::Identity;
use http::Request;
use tower::Service;

/// A client that is let in as a component of the system.
pub(super) fn client(drydock: &Drydock, component: &str) -> Client {
    let identity =
        Identity { user: format!("system:{component}"), groups: vec!["system:masters".to_owned()] };
    Client::from_service(Trusted { drydock: drydock.clone(), identity }, &Options::new(component))
}

/// A drydock that knows who asks.
#[derive(Clone)]
struct Trusted {
    drydock: Drydock,
    identity: Identity,
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
