//! The pods without a node, as one watch sees them come and go.
//!
//! Only metadata travels, and a pod makes two events at most, so that the observer costs the
//! server little and every row the same.

use anyhow::{Context, Result, bail};
use chassis::client::{
    Access, Client, Event, EventStream, ListOptions, Nameplate, StreamError, WatchOptions,
};

use crate::load::{self, NAMESPACE};

/// What happened to a pod.
#[derive(Debug, PartialEq, Eq)]
pub enum Sight {
    /// It is there and has no node.
    Waits(String),
    /// It has a node, or is gone.
    Left(String),
}

/// An open watch of the pods without a node.
pub struct Pending {
    access: Access<Nameplate>,
    options: WatchOptions,
    stream: EventStream<Nameplate>,
}

impl Pending {
    /// Opens the watch: what happens from now on is seen.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn open(client: &Client) -> Result<Self> {
        let access = client.access::<Nameplate>(load::pods(), NAMESPACE).metadata_only();
        let field_selector = "spec.nodeName=".to_owned();
        let head = ListOptions {
            field_selector: field_selector.clone(),
            limit: 1,
            ..ListOptions::default()
        };
        let resource_version = access.list(&head).await?.resource_version;
        let options = WatchOptions { field_selector, resource_version, ..WatchOptions::default() };
        let stream = access.watch(&options).await?;
        Ok(Self { access, options, stream })
    }

    /// The next that happens. Cancel safe.
    ///
    /// # Errors
    /// When the watch cannot go on where it was.
    pub async fn next(&mut self) -> Result<Sight> {
        loop {
            match self.stream.next().await {
                Ok(Some(Event::Applied(pod))) => return Ok(Sight::Waits(self.passed(pod))),
                Ok(Some(Event::Deleted(pod))) => return Ok(Sight::Left(self.passed(pod))),
                Ok(Some(Event::Bookmark { resource_version })) => {
                    self.options.resource_version = resource_version;
                }
                // The server ends watches now and then.
                Ok(None) | Err(StreamError::Broken(_)) => {
                    self.stream = self.access.watch(&self.options).await?;
                }
                Ok(Some(other)) => bail!("the watch of pods brought {other:?}"),
                Err(error) => return Err(error).context("cannot watch pods"),
            }
        }
    }

    fn passed(&mut self, pod: Nameplate) -> String {
        self.options.resource_version = pod.metadata.resource_version;
        pod.metadata.name
    }
}
