//! An API server that replays a script, for the tests of this crate.

use std::collections::VecDeque;
use std::sync::{Arc, Mutex};

use bytes::Bytes;
use futures::stream::{self, StreamExt as _};
use http::{Request, Response};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::Frame;
use kube::client::Body;

use crate::client::{Client, Options};

/// How an answer ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Tail {
    /// As it should.
    End,
    /// The connection breaks.
    Break,
    /// Nothing more comes, and it does not end.
    Hang,
}

/// One answer: what is sent for the next request.
#[derive(Debug, Clone)]
pub struct Reply {
    status: u16,
    chunks: Vec<String>,
    tail: Tail,
}

impl Reply {
    /// An answer in one piece.
    pub fn new(status: u16, body: &str) -> Self {
        Self { status, chunks: vec![body.to_owned()], tail: Tail::End }
    }

    /// A watch whose bytes come a few at a time.
    pub fn watch(lines: &[String], tail: Tail) -> Self {
        let text: String = lines.iter().map(|line| format!("{line}\n")).collect();
        let bytes: Vec<char> = text.chars().collect();
        let chunks = bytes.chunks(7).map(|chunk| chunk.iter().collect()).collect();
        Self { status: 200, chunks, tail }
    }
}

/// What was asked: `METHOD path?query`, the user agent, the forms of answer that are
/// accepted, the content type and the body.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Asked {
    pub line: String,
    pub user_agent: String,
    pub accept: String,
    pub content_type: String,
    pub body: String,
}

/// A script, and what was asked so far. After its end no request is answered.
#[derive(Clone)]
pub struct Script {
    replies: Arc<Mutex<VecDeque<Reply>>>,
    asked: Arc<Mutex<Vec<Asked>>>,
}

impl Script {
    pub fn new(replies: impl IntoIterator<Item = Reply>) -> Self {
        let replies = Arc::new(Mutex::new(replies.into_iter().collect()));
        Self { replies, asked: Arc::default() }
    }

    /// The request lines so far.
    pub fn lines(&self) -> Vec<String> {
        self.asked.lock().unwrap().iter().map(|asked| asked.line.clone()).collect()
    }

    pub fn asked(&self) -> Vec<Asked> {
        self.asked.lock().unwrap().clone()
    }

    pub fn client(&self, options: &Options) -> Client {
        let script = self.clone();
        let service =
            tower::service_fn(move |request: Request<Body>| script.clone().serve(request));
        Client::from_service(service, options)
    }

    async fn serve(
        self,
        request: Request<Body>,
    ) -> Result<Response<impl http_body::Body<Data = Bytes, Error = std::io::Error>>, std::io::Error>
    {
        let (parts, body) = request.into_parts();
        let header = |name: &str| {
            parts.headers.get(name).map_or("", |value| value.to_str().unwrap()).to_owned()
        };
        let body = body.collect().await.unwrap().to_bytes();
        let asked = Asked {
            line: format!("{} {}", parts.method, parts.uri),
            user_agent: header("user-agent"),
            accept: header("accept"),
            content_type: header("content-type"),
            body: String::from_utf8(body.to_vec()).unwrap(),
        };
        self.asked.lock().unwrap().push(asked);
        let next = self.replies.lock().unwrap().pop_front();
        let Some(reply) = next else { return std::future::pending().await };
        let chunks = reply.chunks.into_iter().map(|chunk| Ok(Frame::data(Bytes::from(chunk))));
        let tail = match reply.tail {
            Tail::End => stream::empty().boxed(),
            Tail::Hang => stream::pending().boxed(),
            Tail::Break => {
                stream::iter([Err(std::io::Error::other("connection reset by peer"))]).boxed()
            }
        };
        let body = StreamBody::new(stream::iter(chunks).chain(tail));
        Ok(Response::builder().status(reply.status).body(body).unwrap())
    }
}

/// An object of the fake server, as JSON.
pub fn object(name: &str, uid: &str, version: u64) -> String {
    format!(
        r#"{{"metadata":{{"namespace":"shop","name":"{name}","uid":"{uid}","resourceVersion":"{version}"}}}}"#
    )
}

/// An event of the fake server, as JSON.
pub fn event(kind: &str, object: &str) -> String {
    format!(r#"{{"type":"{kind}","object":{object}}}"#)
}

/// A list answer of the fake server.
pub fn list(version: u64, next: &str, items: &[String]) -> Reply {
    let items = items.join(",");
    Reply::new(
        200,
        &format!(
            r#"{{"kind":"List","metadata":{{"resourceVersion":"{version}","continue":"{next}"}},"items":[{items}]}}"#
        ),
    )
}
