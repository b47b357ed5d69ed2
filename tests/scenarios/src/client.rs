//! A raw HTTPS client: any method, path, query, header and body out; code, headers and body in.
//!
//! Answers are compared whole, so nothing here retries, decodes compression or hides a code.

use std::collections::BTreeMap;
use std::time::Duration;

use anyhow::{Context, Result, ensure};
use bytes::{Bytes, BytesMut};
use http::header::AUTHORIZATION;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper_util::client::legacy;
use hyper_util::rt::TokioExecutor;
use kube::client::ConfigExt;
use percent_encoding::{AsciiSet, NON_ALPHANUMERIC, utf8_percent_encode};
use serde_json::Value;
use tokio::time::{Instant, timeout_at};
use tower::ServiceExt;
use tower::util::BoxCloneSyncService;

use crate::backend::Server;
use crate::request::{Body, Request, User};

/// How long anything is waited for.
pub const WAIT_MAX: Duration = Duration::from_secs(10);

/// The headers of an answer that are part of the protocol; the rest is about the connection.
const HEADERS_COMPARED: [&str; 2] = ["content-type", "warning"];

/// What is encoded in the value of a query: all but what RFC 3986 calls unreserved.
const RESERVED: &AsciiSet = &NON_ALPHANUMERIC.remove(b'-').remove(b'.').remove(b'_').remove(b'~');

type Transport =
    BoxCloneSyncService<http::Request<Full<Bytes>>, http::Response<Incoming>, legacy::Error>;

/// What a server answered.
#[derive(Debug, Clone, PartialEq)]
pub struct Answer {
    /// The status code.
    pub code: u16,
    /// The headers that are compared; several of one name in order.
    pub headers: BTreeMap<String, Vec<String>>,
    /// The body: JSON where it is JSON or YAML, else its text. For a watch, the list of events.
    pub body: Value,
}

/// A connection pool to one server. It belongs to the runtime it was made on.
#[derive(Clone)]
pub struct Client {
    server: Server,
    transport: Transport,
}

impl Client {
    /// A client of `server`.
    ///
    /// # Errors
    /// Where the server's certificate authority cannot be read.
    pub fn new(server: &Server) -> Result<Self> {
        let authority = pem_blocks(&server.authority_pem)?;
        let mut config = kube::Config::new(server.url.parse().context("a server has an address")?);
        config.root_cert = Some(authority);
        let connector = config.rustls_https_connector().context("cannot set up TLS")?;
        let client = legacy::Client::builder(TokioExecutor::new()).build(connector);
        Ok(Self { server: server.clone(), transport: BoxCloneSyncService::new(client) })
    }

    /// The server this client asks.
    #[must_use]
    pub fn server(&self) -> &Server {
        &self.server
    }

    /// Sends a request and reads the whole answer, or as many events as the request wants.
    ///
    /// # Errors
    /// Where no answer comes within [`WAIT_MAX`]; an answer of any code is no error.
    pub async fn send(&self, request: &Request) -> Result<Answer> {
        let what = || format!("{} {} on {}", request.method, request.path, self.server.name);
        let deadline = Instant::now() + WAIT_MAX;
        let exchange = async {
            let response = self.transport.clone().oneshot(self.http_request(request)?).await?;
            let code = response.status().as_u16();
            let headers = compared_headers(response.headers());
            let body = match request.events {
                Some(events) if code == 200 => {
                    let mut watch = Watch { body: response.into_body(), unread: BytesMut::new() };
                    watch.take(events).await.context("while watching")?
                }
                _ => {
                    let is_yaml = headers.get("content-type").is_some_and(|values| {
                        values.iter().any(|value| value.starts_with("application/yaml"))
                    });
                    let body = response.into_body().collect().await?.to_bytes();
                    if is_yaml { parsed_yaml(&body)? } else { parsed(&body) }
                }
            };
            anyhow::Ok(Answer { code, headers, body })
        };
        let answer = timeout_at(deadline, exchange).await;
        let answer = answer.with_context(|| format!("no answer within 10 s to {}", what()))?;
        answer.with_context(what)
    }

    fn http_request(&self, request: &Request) -> Result<http::Request<Full<Bytes>>> {
        let mut address = format!("{}{}", self.server.url, request.path);
        for (index, (name, value)) in request.query.iter().enumerate() {
            let separator = if index == 0 { '?' } else { '&' };
            address
                .push_str(&format!("{separator}{name}={}", utf8_percent_encode(value, RESERVED)));
        }
        let mut builder = http::Request::builder().method(request.method.clone()).uri(address);
        let token = match request.user {
            User::Admin => Some(self.server.admin_token.as_str()),
            User::Outsider => Some(self.server.outsider_token.as_str()),
            User::Stranger => Some("a-token-of-nobody"),
            User::Anonymous => None,
        };
        if let Some(token) = token {
            builder = builder.header(AUTHORIZATION, format!("Bearer {token}"));
        }
        for (name, value) in &request.headers {
            builder = builder.header(name, value);
        }
        let body = match &request.body {
            Body::Empty => Bytes::new(),
            Body::Json(value) => Bytes::from(value.to_string()),
            Body::Raw(bytes) => bytes.clone(),
        };
        builder.body(Full::new(body)).context("the request cannot be written as HTTP")
    }
}

/// Lines of JSON that come over time.
struct Watch {
    body: Incoming,
    unread: BytesMut,
}

impl Watch {
    /// Reads `count` events, or fewer where the server ends the stream.
    async fn take(&mut self, count: usize) -> Result<Value> {
        let mut events = Vec::new();
        while events.len() < count {
            let Some(event) = self.next().await? else { break };
            events.push(event);
        }
        Ok(Value::Array(events))
    }

    async fn next(&mut self) -> Result<Option<Value>> {
        loop {
            if let Some(end) = self.unread.iter().position(|&byte| byte == b'\n') {
                let line = self.unread.split_to(end + 1);
                return Ok(Some(parsed(&line)));
            }
            let Some(frame) = self.body.frame().await else {
                // A refusal after the headers may come without an end of line.
                let rest = self.unread.split();
                return Ok((!rest.is_empty()).then(|| parsed(&rest)));
            };
            if let Ok(data) = frame?.into_data() {
                self.unread.extend_from_slice(&data);
            }
        }
    }
}

fn compared_headers(headers: &http::HeaderMap) -> BTreeMap<String, Vec<String>> {
    let mut compared = BTreeMap::new();
    for name in HEADERS_COMPARED {
        let values = headers.get_all(name).iter();
        let values: Vec<String> =
            values.map(|value| String::from_utf8_lossy(value.as_bytes()).into_owned()).collect();
        if !values.is_empty() {
            compared.insert(name.to_owned(), values);
        }
    }
    compared
}

fn parsed(body: &[u8]) -> Value {
    match serde_json::from_slice(body) {
        Ok(value) => value,
        Err(_) => Value::String(String::from_utf8_lossy(body).into_owned()),
    }
}

fn parsed_yaml(body: &[u8]) -> Result<Value> {
    let text = std::str::from_utf8(body).context("the YAML is not text")?;
    serde_saphyr::from_str(text).context("the body is not YAML, as its header says")
}

/// The contents of the certificates in a PEM file.
fn pem_blocks(pem: &str) -> Result<Vec<Vec<u8>>> {
    use base64::Engine as _;
    let mut blocks = Vec::new();
    for block in pem.split("-----BEGIN CERTIFICATE-----").skip(1) {
        let text = block.split("-----END CERTIFICATE-----").next().unwrap_or_default();
        let text: String = text.split_whitespace().collect();
        let decoded = base64::engine::general_purpose::STANDARD.decode(text);
        blocks.push(decoded.context("a certificate is not base64")?);
    }
    ensure!(!blocks.is_empty(), "the authority of a server has no certificate");
    Ok(blocks)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_value_is_encoded_whole() {
        let check = |text: &str, expected: &str| {
            assert_eq!(utf8_percent_encode(text, RESERVED).to_string(), expected);
        };
        check("a=b,c!=d", "a%3Db%2Cc%21%3Dd");
        check("x-1._~", "x-1._~");
        check("", "");
        check("ü", "%C3%BC");
    }

    #[test]
    fn certificates_are_found_between_their_lines() {
        let block = "-----BEGIN CERTIFICATE-----\nAQID\n-----END CERTIFICATE-----\n";
        let check = |pem: String, expected: Option<usize>| {
            assert_eq!(pem_blocks(&pem).ok().map(|blocks| blocks.len()), expected);
        };
        check(block.to_owned(), Some(1));
        check(block.repeat(2), Some(2));
        check(String::new(), None);
        check(block.replace("AQID", "!"), None);
    }
}
