//! What carries requests to a server and answers back: a socket, or a service in this process.
//!
//! It is the cheapest way there is: each request goes from the task that sends it straight to a
//! connection, with one allocation of its own, and the body of a short answer is neither boxed
//! nor copied.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;

use bytes::{Bytes, BytesMut};
use http::response::Parts;
use http::{Request, Response};
use http_body_util::BodyExt as _;
use http_body_util::combinators::UnsyncBoxBody;
use kube::client::Body;
use tower::{BoxError, Service, ServiceExt as _};

use crate::permission::Permission;

/// The body of an answer, as it comes.
pub type AnswerBody = UnsyncBoxBody<Bytes, BoxError>;

type Sent<T> = Pin<Box<dyn Future<Output = Result<T, BoxError>> + Send>>;

/// A way to a server; clones share it.
#[derive(Clone)]
pub(super) struct Transport(Arc<dyn Carrier>);

trait Carrier: Send + Sync {
    /// The whole answer.
    fn exchange(&self, request: Request<Body>) -> Sent<(Parts, Bytes)>;
    /// The answer with its body as it comes.
    fn open(&self, request: Request<Body>) -> Sent<Response<AnswerBody>>;
}

struct Through<S> {
    service: S,
    turn: Turn,
}

/// Whether who sends a request lets others have a turn first.
#[derive(Clone, Copy)]
pub(super) enum Turn {
    /// A socket makes it wait anyway.
    Keep,
    /// A service in this process may answer at once, time and again, and whoever asks it in a
    /// loop would leave the thread to nobody.
    Give,
}

impl Turn {
    async fn taken(self) {
        match self {
            Self::Keep => {}
            Self::Give => tokio::task::yield_now().await,
        }
    }
}

impl<S, B> Carrier for Through<S>
where
    S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
    S::Future: Send + 'static,
    S::Error: Into<BoxError>,
    B: http_body::Body<Data = Bytes> + Send + 'static,
    B::Error: Into<BoxError>,
{
    fn exchange(&self, request: Request<Body>) -> Sent<(Parts, Bytes)> {
        let permission = Permission::of(&request);
        let (turn, sent) = (self.turn, self.service.clone().oneshot(request));
        Box::pin(async move {
            turn.taken().await;
            permission.map_or(Ok(()), |permission| permission.ask())?;
            let (parts, body) = sent.await.map_err(Into::into)?.into_parts();
            Ok((parts, gather(body).await?))
        })
    }

    fn open(&self, request: Request<Body>) -> Sent<Response<AnswerBody>> {
        let permission = Permission::of(&request);
        let (turn, sent) = (self.turn, self.service.clone().oneshot(request));
        Box::pin(async move {
            turn.taken().await;
            permission.map_or(Ok(()), |permission| permission.ask())?;
            let answer = sent.await.map_err(Into::into)?;
            Ok(answer.map(|body| body.map_err(Into::into).boxed_unsync()))
        })
    }
}

impl Transport {
    pub(super) fn new<S, B>(service: S, turn: Turn) -> Self
    where
        S: Service<Request<Body>, Response = Response<B>> + Clone + Send + Sync + 'static,
        S::Future: Send + 'static,
        S::Error: Into<BoxError>,
        B: http_body::Body<Data = Bytes> + Send + 'static,
        B::Error: Into<BoxError>,
    {
        Self(Arc::new(Through { service, turn }))
    }

    pub(super) fn exchange(&self, request: Request<Body>) -> Sent<(Parts, Bytes)> {
        self.0.exchange(request)
    }

    pub(super) fn open(&self, request: Request<Body>) -> Sent<Response<AnswerBody>> {
        self.0.open(request)
    }
}

/// How much more room a body gets that finds none, to what it has.
const GROWTH: usize = 3;

/// The bytes of a body; those of one that comes in one piece are not copied.
pub(super) async fn gather<B>(body: B) -> Result<Bytes, BoxError>
where
    B: http_body::Body<Data = Bytes>,
    B::Error: Into<BoxError>,
{
    let mut body = std::pin::pin!(body);
    let (mut first, mut rest) = (Bytes::new(), BytesMut::new());
    while let Some(frame) = body.frame().await {
        let Ok(data) = frame.map_err(Into::into)?.into_data() else { continue };
        if rest.is_empty() && first.is_empty() {
            first = data;
        } else {
            if rest.is_empty() {
                rest.extend_from_slice(&first);
            }
            if rest.capacity() - rest.len() < data.len() {
                // A list is megabytes, and each time that it finds no room it is copied to where there is some.
                rest.reserve((GROWTH * rest.len()).max(data.len()));
            }
            rest.extend_from_slice(&data);
        }
    }
    Ok(if rest.is_empty() { first } else { rest.freeze() })
}

#[cfg(test)]
mod tests {
    use futures::stream;
    use http_body_util::StreamBody;
    use hyper::body::Frame;

    use super::*;

    #[tokio::test]
    async fn a_body_is_the_same_in_however_many_pieces_it_comes() {
        let check = async |pieces: &[&'static str]| {
            let frames: Vec<_> = pieces
                .iter()
                .map(|piece| Ok::<_, BoxError>(Frame::data(Bytes::from_static(piece.as_bytes()))))
                .collect();
            let got = gather(StreamBody::new(stream::iter(frames))).await.unwrap();
            assert_eq!(got, pieces.concat(), "{pieces:?}");
        };
        check(&[]).await;
        check(&["whole"]).await;
        check(&["", "in ", "", "three ", "pieces"]).await;
    }
}
