//! HTTP/1.0 without TLS: it has neither chunks nor connections that stay open, so an answer is
//! what comes until the end.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::time::Duration;

use anyhow::{Context, Result, ensure};

/// How long an answer may take.
const ANSWER_WITHIN: Duration = Duration::from_secs(30);

/// The body of the answer to one request.
pub(crate) fn exchange(
    address: &str,
    method: &str,
    path: &str,
    accept: &str,
    body: &str,
) -> Result<Vec<u8>> {
    let answer = bytes(address, method, path, accept, body)
        .with_context(|| format!("no answer to {method} {path} of {address}"))?;
    parsed(&answer).with_context(|| format!("{method} {path} of {address}"))
}

fn bytes(address: &str, method: &str, path: &str, accept: &str, body: &str) -> Result<Vec<u8>> {
    let mut stream = TcpStream::connect(address)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN))?;
    let length = body.len();
    write!(
        stream,
        "{method} {path} HTTP/1.0\r\nHost: localhost\r\nAccept: {accept}\r\n\
         Content-Type: application/json\r\nContent-Length: {length}\r\n\r\n{body}"
    )?;
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer)?;
    Ok(answer)
}

/// The body of an answer with the code 200.
fn parsed(answer: &[u8]) -> Result<Vec<u8>> {
    let end = answer.windows(4).position(|window| window == b"\r\n\r\n");
    let end = end.context("the answer has no end of headers")?;
    let head = String::from_utf8_lossy(&answer[..end]);
    let status = head.lines().next().unwrap_or_default();
    let body = &answer[end + 4..];
    ensure!(
        status.split(' ').nth(1) == Some("200"),
        "the answer is {status:?}: {}",
        String::from_utf8_lossy(body)
    );
    Ok(body.to_vec())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_a_success_has_a_body() {
        let check = |answer: &str, expected: Option<&str>| {
            let body = parsed(answer.as_bytes()).ok();
            assert_eq!(body.as_deref(), expected.map(str::as_bytes), "{answer:?}");
        };
        check("HTTP/1.0 200 OK\r\nA: b\r\n\r\nbody", Some("body"));
        check("HTTP/1.0 200 OK\r\n\r\n", Some(""));
        check("HTTP/1.0 404 Not Found\r\n\r\nbody", None);
        check("HTTP/1.0 200 OK\r\n", None);
        check("", None);
    }
}
