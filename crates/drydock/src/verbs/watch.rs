//! Everything that happens to the objects that are meant.

use std::sync::Arc;
use std::time::Duration;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::StatusCode;
use http::header::HeaderValue;
use tokio::time::Instant;

use super::Ask;
use super::list::revision;
use super::selection::Selection;
use crate::answer::represent::Frames;
use crate::answer::{Answer, Body, Failure, body};
use crate::kinds::Found;
use crate::request::ListOptions;
use crate::server::Server;
use crate::store::{Change, Event, Gone, Revision, Stored, Tail};

/// How often a watcher that takes bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch lasts when the client does not say, at least; up to twice as long.
const LASTS_AT_LEAST: Duration = Duration::from_secs(1800);
/// How many events go out in one piece.
const EVENTS_PER_PIECE_MAX: usize = 256;

/// Answers with a stream of events.
///
/// # Errors
/// When an option is malformed. A revision that is gone is told in the stream, as upstream does.
pub fn watch(ask: &Ask<'_>, options: &ListOptions) -> Result<Answer, Failure> {
    let selection = Selection::parse(&ask.found, options)?;
    let from = revision(&options.resource_version).map_err(Failure::unclassified)?;
    let lasts = match options.timeout_seconds {
        Some(seconds) if seconds > 0 => Duration::from_secs(seconds.unsigned_abs()),
        _ => {
            let spread = ask.server.env().random() % LASTS_AT_LEAST.as_secs();
            LASTS_AT_LEAST + Duration::from_secs(spread)
        }
    };
    let mut watcher = Watcher {
        server: Arc::clone(ask.server),
        frames: Frames::new(&ask.found, &ask.form),
        found: ask.found.clone(),
        selection,
        scope: ask.target.prefix(),
        bookmarks: options.bookmarks,
        ends: Instant::now() + lasts,
        next_bookmark: Instant::now() + BOOKMARK_EVERY,
        phase: Phase::Over,
    };
    watcher.begin(from, options.initial_events);
    let pieces = stream::unfold(watcher, |mut watcher| async move {
        watcher.next().await.map(|piece| (piece, watcher))
    });
    Ok(body::typed(
        StatusCode::OK,
        HeaderValue::from_static("application/json"),
        Body::stream(pieces),
    ))
}

struct Watcher {
    server: Arc<Server>,
    found: Found,
    frames: Frames,
    selection: Selection,
    scope: String,
    bookmarks: bool,
    ends: Instant,
    next_bookmark: Instant,
    phase: Phase,
}

enum Phase {
    /// What there was at the beginning, and what follows it.
    Initial { objects: Vec<Arc<Stored>>, tail: Tail, announce_end: bool },
    /// What happens.
    Live(Tail),
    /// One last thing to say.
    Last(Failure),
    /// Nothing more.
    Over,
}

impl Watcher {
    fn begin(&mut self, from: Revision, initial_events: Option<bool>) {
        let table = Arc::clone(&self.found.kind.table);
        let initial = match initial_events {
            Some(wanted) => wanted,
            // Without a revision, a watch begins with what there is.
            None => from == 0,
        };
        let announce_end = initial_events == Some(true) && self.bookmarks;
        let (objects, start) = if initial {
            table.list(&self.scope)
        } else if from == 0 {
            (Vec::new(), self.server.store().revision())
        } else {
            (Vec::new(), from)
        };
        self.phase = match table.tail(start) {
            Ok(tail) if initial => Phase::Initial { objects, tail, announce_end },
            Ok(tail) => Phase::Live(tail),
            Err(gone) => Phase::Last(too_old(start, gone)),
        };
    }

    async fn next(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Over => None,
            Phase::Last(failure) => Some(self.frames.failure(&failure)),
            Phase::Initial { objects, tail, announce_end } => {
                Some(self.initial(&objects, tail, announce_end))
            }
            Phase::Live(tail) => self.live(tail).await,
        }
    }

    fn initial(&mut self, objects: &[Arc<Stored>], tail: Tail, announce_end: bool) -> Bytes {
        let now = self.server.env().now();
        let mut piece = BytesMut::new();
        for stored in objects.iter().filter(|stored| self.selection.matches(stored)) {
            self.frames.event(&mut piece, Change::Added, stored, now);
        }
        if announce_end {
            let end = self.frames.bookmark(tail.seen(), true);
            piece.put_slice(&end);
        }
        self.phase = Phase::Live(tail);
        piece.freeze()
    }

    async fn live(&mut self, mut tail: Tail) -> Option<Bytes> {
        loop {
            let events = match tail.take(EVENTS_PER_PIECE_MAX) {
                Ok(events) => events,
                Err(gone) => {
                    // The client reads more slowly than things happen.
                    return Some(self.frames.failure(&too_old(tail.seen(), gone)));
                }
            };
            let piece = self.render(&events);
            if !piece.is_empty() {
                self.phase = Phase::Live(tail);
                return Some(piece);
            }
            if tail.is_over() {
                // The kind was replaced or withdrawn: who watches has to look anew.
                return None;
            }
            if Instant::now() >= self.ends {
                return self.bookmarks.then(|| self.frames.bookmark(tail.seen(), false));
            }
            if self.bookmarks && Instant::now() >= self.next_bookmark {
                self.next_bookmark = Instant::now() + BOOKMARK_EVERY;
                let piece = self.frames.bookmark(tail.seen(), false);
                self.phase = Phase::Live(tail);
                return Some(piece);
            }
            let until = if self.bookmarks { self.ends.min(self.next_bookmark) } else { self.ends };
            let _ = tokio::time::timeout_at(until, tail.changed()).await;
        }
    }

    fn render(&mut self, events: &[Arc<Event>]) -> Bytes {
        let now = self.server.env().now();
        let mut piece = BytesMut::new();
        for event in events {
            if !event.object.key.starts_with(self.scope.as_str()) {
                continue;
            }
            let Some((change, stored)) = seen_as(&self.selection, event) else { continue };
            self.frames.event(&mut piece, change, &stored, now);
        }
        piece.freeze()
    }
}

/// How a watcher with a selection sees an event: an object that comes to match was added, one
/// that ceases to match was deleted, and is shown as it was when it last did.
fn seen_as(selection: &Selection, event: &Event) -> Option<(Change, Arc<Stored>)> {
    let was = event.previous.as_ref().is_some_and(|previous| selection.matches(previous));
    let is = event.change != Change::Deleted && selection.matches(&event.object);
    let change = match (was, is) {
        (false, false) => return None,
        (false, true) => Change::Added,
        (true, true) => Change::Modified,
        (true, false) => Change::Deleted,
    };
    let shown = match &event.previous {
        Some(previous) if change == Change::Deleted && event.change != Change::Deleted => {
            Arc::new(previous.restamped(event.revision()))
        }
        _ => Arc::clone(&event.object),
    };
    Some((change, shown))
}

fn too_old(wanted: Revision, gone: Gone) -> Failure {
    Failure::expired(format!("too old resource version: {wanted} ({})", gone.oldest))
}
