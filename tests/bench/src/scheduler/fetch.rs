//! A client that reads lists as a scheduler does when it starts, and throws them away: what the
//! server and the wire need before anybody can decide anything.

use std::path::PathBuf;

use anyhow::{Context, Result};
use chassis::client::{Call, Client, UnderWay};
use futures::future;
use http::Method;
use serde::Deserialize;

use crate::subjects::{IN_FLIGHT, client_with};

/// How far into an answer its items may begin.
const HEAD_BYTES_MAX: usize = 4096;

/// What is read.
#[derive(clap::Args)]
pub struct Arguments {
    /// The server.
    #[arg(long)]
    kubeconfig: PathBuf,
    /// The lists, such as `/api/v1/pods?limit=500`.
    lists: Vec<String>,
}

/// Reads all lists side by side, each page by page.
///
/// # Errors
/// When a request fails.
pub async fn run(arguments: &Arguments) -> Result<()> {
    let client = client_with(&arguments.kubeconfig, IN_FLIGHT, &UnderWay::default()).await?;
    future::try_join_all(arguments.lists.iter().map(|list| read(&client, list))).await?;
    println!("{DONE}");
    Ok(())
}

/// What it says at the end.
pub const DONE: &str = "all lists are read";

async fn read(client: &Client, list: &str) -> Result<()> {
    let mut token = String::new();
    loop {
        let mut call = Call::new(Method::GET, list);
        if !token.is_empty() {
            call = call.query("continue", &token);
        }
        let page = client.call_bytes(call).await?;
        token = next(&page).with_context(|| format!("{list} is not a list"))?;
        if token.is_empty() {
            return Ok(());
        }
    }
}

#[derive(Deserialize)]
struct Head {
    metadata: HeadMeta,
}

#[derive(Default, Deserialize)]
struct HeadMeta {
    #[serde(default, rename = "continue")]
    token: String,
}

/// Where the next page begins; empty at the end. Only what stands before the items is parsed.
fn next(page: &[u8]) -> Option<String> {
    let items = b"\"items\":";
    let head = &page[..page.len().min(HEAD_BYTES_MAX)];
    let end = head.windows(items.len()).position(|window| window == items)?;
    let mut head = head[..end].to_vec();
    head.extend_from_slice(b"\"items\":null}");
    serde_json::from_slice::<Head>(&head).ok().map(|head| head.metadata.token)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_next_page_is_read_off_the_head() {
        let check = |page: &str, expected: Option<&str>| {
            assert_eq!(next(page.as_bytes()).as_deref(), expected, "{page}");
        };
        check(r#"{"kind":"PodList","metadata":{"continue":"abc"},"items":[{"x":1"#, Some("abc"));
        check(r#"{"kind":"PodList","metadata":{"resourceVersion":"1"},"items":[]}"#, Some(""));
        check(r#"{"metadata":{"continue":"","remainingItemCount":1},"items":null}"#, Some(""));
        check(r#"{"kind":"Status"}"#, None);
        check("", None);
    }
}
