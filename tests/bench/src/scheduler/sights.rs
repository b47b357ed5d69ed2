//! What comes into sight and leaves it, as one watch with a selector sees it.
//!
//! Only metadata travels, and a pod makes two events at most, so that the observer costs the
//! server little and every row the same.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, bail};
use chassis::client::{
    Access, Client, Event, EventStream, ListOptions, Nameplate, ResourceType, StreamError,
    WatchOptions,
};

use crate::load::{self, NAMESPACE};

/// Without another one for so long, those that are awaited do not come any more.
const PATIENCE: Duration = Duration::from_secs(180);

/// What happened to an object.
#[derive(Debug, PartialEq, Eq)]
pub enum Sight {
    /// It is there, and is what is looked for.
    Here(String),
    /// It is so no longer, or is gone.
    Gone(String),
}

/// Objects that were awaited, and when they were seen.
#[derive(Debug)]
pub struct Seen {
    /// When the first was.
    pub first: Instant,
    /// When the last was.
    pub last: Instant,
    /// The pods that they are or tell of.
    pub pods: BTreeSet<String>,
}

/// An open watch of the objects of the load that a selector means.
pub struct Sights {
    access: Access<Nameplate>,
    options: WatchOptions,
    stream: EventStream<Nameplate>,
}

impl Sights {
    /// Opens a watch of the pods without a node: what happens from now on is seen.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn of_waiting(client: &Client) -> Result<Self> {
        Self::open(client, load::pods(), "spec.nodeName=").await
    }

    /// The same of those that have one: what is written of pods that wait on is not seen.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn of_bound(client: &Client) -> Result<Self> {
        Self::open(client, load::pods(), "spec.nodeName!=").await
    }

    /// The same of events that tell of a pod that it is bound.
    ///
    /// # Errors
    /// When a request fails.
    pub async fn of_told(client: &Client) -> Result<Self> {
        Self::open(client, load::events(), "reason=Scheduled").await
    }

    async fn open(client: &Client, what: ResourceType, selector: &str) -> Result<Self> {
        let access = client.access::<Nameplate>(what, NAMESPACE).metadata_only();
        let field_selector = selector.to_owned();
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
                Ok(Some(Event::Applied(object))) => return Ok(Sight::Here(self.passed(object))),
                Ok(Some(Event::Deleted(object))) => return Ok(Sight::Gone(self.passed(object))),
                Ok(Some(Event::Bookmark { resource_version })) => {
                    self.options.resource_version = resource_version;
                }
                // The server ends watches now and then.
                Ok(None) | Err(StreamError::Broken(_)) => {
                    self.stream = self.access.watch(&self.options).await?;
                }
                Ok(Some(other)) => bail!("a watch brought {other:?}"),
                Err(error) => return Err(error).context("cannot watch"),
            }
        }
    }

    fn passed(&mut self, object: Nameplate) -> String {
        self.options.resource_version = object.metadata.resource_version;
        object.metadata.name
    }

    /// Waits until so many have come, each of another pod.
    ///
    /// # Errors
    /// When they stay away.
    pub async fn come(&mut self, count: usize) -> Result<Seen> {
        self.awaited(count, |sight| matches!(sight, Sight::Here(_))).await
    }

    /// Waits until so many have left, each of another pod.
    ///
    /// # Errors
    /// When they stay.
    pub async fn leave(&mut self, count: usize) -> Result<Seen> {
        self.awaited(count, |sight| matches!(sight, Sight::Gone(_))).await
    }

    async fn awaited(&mut self, count: usize, is_one: fn(&Sight) -> bool) -> Result<Seen> {
        let now = Instant::now();
        let mut seen = Seen { first: now, last: now, pods: BTreeSet::new() };
        while seen.pods.len() < count {
            let patience = PATIENCE.saturating_sub(seen.last.elapsed());
            let sight = tokio::time::timeout(patience, self.next()).await;
            let sight = sight
                .with_context(|| format!("{} of {count}, and no more come", seen.pods.len()))?;
            let sight = sight?;
            if is_one(&sight) && seen.pods.insert(pod_of(sight)) {
                seen.last = Instant::now();
                if seen.pods.len() == 1 {
                    seen.first = seen.last;
                }
            }
        }
        Ok(seen)
    }
}

/// The pod that is in sight: an event has the name of what it tells of, and a number.
fn pod_of(sight: Sight) -> String {
    let (Sight::Here(name) | Sight::Gone(name)) = sight;
    match name.split_once('.') {
        Some((pod, _)) => pod.to_owned(),
        None => name,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_counted_for_the_pod_that_it_tells_of() {
        let check = |name: &str, pod: &str| assert_eq!(pod_of(Sight::Here(name.to_owned())), pod);
        check("pod-000001", "pod-000001");
        check("pod-000001.1879f2bc0a", "pod-000001");
    }
}
