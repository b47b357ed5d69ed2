//! Everything that happens to the objects that are meant.

use std::sync::Arc;
use std::time::Duration;
use std::vec;

use bytes::{BufMut, Bytes, BytesMut};
use futures::stream;
use http::StatusCode;
use http::header::HeaderValue;
use prometheus_client::metrics::counter::Counter;

use super::Ask;
use super::list::{check_reached, revision};
use super::selection::Selection;
use crate::answer::represent::Frames;
use crate::answer::{Answer, Body, Failure, body};
use crate::deadline::Deadline;
use crate::kinds::Found;
use crate::request::ListOptions;
use crate::server::Server;
use crate::store::{Change, Event, Gone, Revision, Stored, Tail};

/// How often a watcher that takes bookmarks gets one.
const BOOKMARK_EVERY: Duration = Duration::from_secs(60);
/// How long a watch lasts when the client does not say, at least; up to twice as long.
const LASTS_AT_LEAST: Duration = Duration::from_secs(1800);
/// How long a watch lasts at most, whatever the client says.
const LASTS_AT_MOST: Duration = Duration::from_hours(24);
/// How many events are taken up at once.
const EVENTS_TAKEN_MAX: usize = 256;
/// A piece that goes out is closed once it is this large.
const PIECE_BYTES: usize = 64 * 1024;

/// Answers with a stream of events.
///
/// # Errors
/// When an option is malformed. A revision that is gone, or has not happened yet, is told in the
/// stream, as upstream does.
pub fn watch(ask: &Ask<'_>, options: &ListOptions) -> Result<Answer, Failure> {
    let selection = Selection::parse(&ask.found, options)?;
    let from = revision(&options.resource_version).map_err(Failure::unclassified)?;
    let lasts = match options.timeout_seconds {
        Some(seconds) if seconds > 0 => {
            Duration::from_secs(seconds.unsigned_abs()).min(LASTS_AT_MOST)
        }
        _ => {
            let spread = ask.server.env().random() % LASTS_AT_LEAST.as_secs();
            LASTS_AT_LEAST + Duration::from_secs(spread)
        }
    };
    let mut watcher = Watcher {
        server: Arc::clone(ask.server),
        frames: Frames::new(&ask.found, &ask.form),
        sent: ask.server.metrics().watch_events(&ask.found),
        found: ask.found.clone(),
        selection,
        scope: ask.target.prefix(),
        bookmarks: options.bookmarks,
        ends: Deadline::after(lasts),
        next_bookmark: Deadline::after(BOOKMARK_EVERY),
        phase: Phase::Over,
    };
    watcher.begin(from, options.initial_events);
    if options.initial_events == Some(true)
        && let Err(failure) = check_reached(ask, from)
    {
        watcher.phase = Phase::Last(failure);
    }
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
    /// Counts what is sent.
    sent: Counter,
    selection: Selection,
    scope: String,
    bookmarks: bool,
    ends: Deadline,
    next_bookmark: Deadline,
    phase: Phase,
}

enum Phase {
    /// What there was at the beginning, and what follows it.
    Initial { objects: vec::IntoIter<Arc<Stored>>, tail: Tail, announce_end: bool },
    /// What happens: events that are taken up, and those after them.
    Live { events: vec::IntoIter<Arc<Event>>, tail: Tail },
    /// One last thing to say.
    Last(Failure),
    /// Nothing more.
    Over,
}

impl Phase {
    fn live(tail: Tail) -> Self {
        Self::Live { events: Vec::new().into_iter(), tail }
    }
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
            (Vec::new(), table.revision())
        } else {
            (Vec::new(), from)
        };
        self.phase = match table.tail(start) {
            Ok(tail) if initial => {
                Phase::Initial { objects: objects.into_iter(), tail, announce_end }
            }
            Ok(tail) => Phase::live(tail),
            Err(gone) => Phase::Last(too_old(start, gone)),
        };
    }

    async fn next(&mut self) -> Option<Bytes> {
        match std::mem::replace(&mut self.phase, Phase::Over) {
            Phase::Over => None,
            Phase::Last(failure) => Some(self.frames.failure(&failure)),
            Phase::Initial { objects, tail, announce_end } => {
                Some(self.initial(objects, tail, announce_end))
            }
            Phase::Live { events, tail } => self.live(events, tail).await,
        }
    }

    /// The next piece of what there was; none is empty but the last.
    fn initial(
        &mut self,
        mut objects: vec::IntoIter<Arc<Stored>>,
        tail: Tail,
        announce_end: bool,
    ) -> Bytes {
        let now = self.server.env().now();
        let mut piece = BytesMut::new();
        while piece.len() < PIECE_BYTES {
            let Some(stored) = objects.next() else {
                if announce_end {
                    let end = self.bookmark(&tail, true);
                    piece.put_slice(&end);
                }
                self.phase = Phase::live(tail);
                return piece.freeze();
            };
            if self.selection.matches(&stored) {
                self.frames.event(&mut piece, Change::Added, &stored, now);
                self.sent.inc();
            }
        }
        self.phase = Phase::Initial { objects, tail, announce_end };
        piece.freeze()
    }

    async fn live(
        &mut self,
        mut events: vec::IntoIter<Arc<Event>>,
        mut tail: Tail,
    ) -> Option<Bytes> {
        loop {
            if self.ends.has_passed() {
                // A bookmark says that everything up to it has been told.
                let told = events.as_slice().is_empty();
                return (self.bookmarks && told).then(|| self.bookmark(&tail, false));
            }
            let piece = self.render(&mut events);
            if !piece.is_empty() {
                self.phase = Phase::Live { events, tail };
                return Some(piece);
            }
            if self.bookmarks && self.next_bookmark.has_passed() {
                self.next_bookmark = Deadline::after(BOOKMARK_EVERY);
                let piece = self.bookmark(&tail, false);
                self.phase = Phase::Live { events, tail };
                return Some(piece);
            }
            events = match tail.take(EVENTS_TAKEN_MAX) {
                Ok(events) => events.into_iter(),
                Err(gone) => {
                    // The client reads more slowly than things happen.
                    return Some(self.frames.failure(&too_old(tail.seen(), gone)));
                }
            };
            if events.as_slice().is_empty() {
                if tail.is_over() {
                    // The kind was replaced or withdrawn: who watches has to look anew.
                    return None;
                }
                let until =
                    if self.bookmarks { self.ends.min(self.next_bookmark) } else { self.ends };
                let _ = until.bound(tail.changed()).await;
            } else {
                // Others get their turn before a long stretch that is not for this watcher.
                tokio::task::yield_now().await;
            }
        }
    }

    /// The next piece of the events that this watcher sees; empty when there are no more.
    fn render(&mut self, events: &mut vec::IntoIter<Arc<Event>>) -> Bytes {
        let now = self.server.env().now();
        let mut piece = BytesMut::new();
        while piece.len() < PIECE_BYTES
            && let Some(event) = events.next()
        {
            if !event.object.key.starts_with(self.scope.as_str()) {
                continue;
            }
            let Some((change, stored)) = seen_as(&self.selection, &event) else { continue };
            self.frames.event(&mut piece, change, &stored, now);
            self.sent.inc();
        }
        piece.freeze()
    }

    fn bookmark(&mut self, tail: &Tail, ends_initial: bool) -> Bytes {
        self.sent.inc();
        self.frames.bookmark(tail.seen(), ends_initial)
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
