//! The conversation with the API server about one Binding, as a state machine without I/O.
//!
//! A pod is bound by one Binding. Where the answer does not come, or does not tell, the pod may be
//! bound, now or when the request lands later: then the **same** Binding is sent again until the
//! answer is definite. A conversation ends with one of four [`Outcome`]s, each of which is true of
//! the API server for good, and never because somebody lost patience.
//!
//! Where a request may still land, a refusal of the next one says nothing of it: the pod is read, and
//! asked for again. With the API server that does not go on for ever, since nothing lands there so late
//! as [`LAND_MAX`]. Nobody knows how long others take who bind in its place: of them only the pod tells.
//!
//! Whoever drives it carries out the one effect that a step asks for and feeds the answer back, with
//! the time.

#[cfg(test)]
mod tests;

use std::time::Duration;

use chassis::backoff::Backoff;

/// The first wait after an answer that does not tell.
const WAIT_MIN: Duration = Duration::from_millis(100);
/// The longest wait, even where the server asks for more.
const WAIT_MAX: Duration = Duration::from_secs(10);
/// A request to the API server that was given up so long ago is not carried out any more: it ends one
/// after a minute (`--request-timeout`), and whoever stands in between is given two.
pub const LAND_MAX: Duration = Duration::from_mins(3);

/// What happened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Event {
    /// The conversation begins.
    Begin,
    /// The Binding was carried out.
    Done,
    /// There is no such pod.
    Missing,
    /// The pod is not as the Binding needs it, in the server's words.
    Conflicted(Box<str>),
    /// The server will not do it, in its words.
    Refused(Box<str>),
    /// Nobody knows what became of the request.
    Unclear(Unclear),
    /// The pod was read, from the store and not from a cache.
    Read(Found),
    /// The wait is over.
    Woke,
}

/// An answer that does not tell what became of a request, or none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Unclear {
    /// What was said, or what went wrong.
    pub words: Box<str>,
    /// How long the server asks to wait.
    pub patience: Option<Duration>,
    /// For how long the request may still be carried out, if it is not already; zero where it was not
    /// even looked at.
    pub lands_within: Duration,
}

/// What a read of the pod shows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Found {
    /// No pod, or another one of the same name.
    Nothing,
    /// The pod on this node.
    Bound(Box<str>),
    /// The pod, without a node.
    Unbound,
    /// The pod, without a node and on its way out; it will never have one.
    Going,
}

/// What is to be done next.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Effect {
    /// Send the Binding.
    Send,
    /// Read the pod.
    Read,
    /// Come back after this long.
    Wait(Duration),
    /// Nothing: this is what came of it.
    End(Outcome),
}

/// What came of a Binding, for good.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Outcome {
    /// The pod is bound to the node.
    Bound,
    /// The pod is gone.
    Gone,
    /// The pod is bound to another node.
    Elsewhere(Box<str>),
    /// The pod is not bound and no request of ours can still bind it; why, in the server's words.
    NotBound(Box<str>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Phase {
    Idle,
    Sending,
    Reading { said: Box<str>, since: Duration },
    WaitingToSend,
    WaitingToRead { said: Box<str> },
    Ended,
}

/// One conversation.
#[derive(Debug)]
pub struct Conversation {
    node: Box<str>,
    phase: Phase,
    /// Until when a request of ours may be carried out though we go on.
    lands_until: Option<Duration>,
    /// Answers that did not tell.
    failures: u32,
    /// The words of the last of them.
    words: Box<str>,
    backoff: Backoff,
    /// Whether the pod is read after each of them.
    reads: bool,
}

impl Conversation {
    /// A conversation about binding a pod to `node`; `seed` spreads its waits.
    #[must_use]
    pub fn new(node: &str, seed: u64) -> Self {
        Self {
            node: node.into(),
            phase: Phase::Idle,
            lands_until: None,
            failures: 0,
            words: Box::default(),
            backoff: Backoff::new(WAIT_MIN, WAIT_MAX, seed),
            reads: false,
        }
    }

    /// The same through somebody who binds in the server's place: whether he did so before he fell
    /// silent, the pod itself tells.
    #[must_use]
    pub fn through_others(self) -> Self {
        Self { reads: true, ..self }
    }

    /// How many answers did not tell so far, and the words of the last of them.
    #[must_use]
    pub fn unclear(&self) -> (u32, &str) {
        (self.failures, &self.words)
    }

    /// Whether a request of ours may be carried out after this moment.
    fn may_land(&self, moment: Duration) -> bool {
        self.lands_until.is_some_and(|until| moment < until)
    }

    /// Takes what happened at `now`, on a clock that never goes back, and says what to do; nothing
    /// where it does not belong here.
    pub fn step(&mut self, now: Duration, event: Event) -> Option<Effect> {
        let phase = std::mem::replace(&mut self.phase, Phase::Ended);
        let effect = match (phase, event) {
            (Phase::Idle, Event::Begin) | (Phase::WaitingToSend, Event::Woke) => {
                self.phase = Phase::Sending;
                Effect::Send
            }
            (Phase::WaitingToRead { said }, Event::Woke) => self.read(now, said),
            (Phase::Sending, Event::Done) => Effect::End(Outcome::Bound),
            (Phase::Sending, Event::Missing) => Effect::End(Outcome::Gone),
            (Phase::Sending, Event::Conflicted(said)) => self.read(now, said),
            (Phase::Sending, Event::Refused(said)) if self.lands_until.is_none() => {
                Effect::End(Outcome::NotBound(said))
            }
            // This one was refused; an earlier one may not be.
            (Phase::Sending, Event::Refused(said)) => {
                self.words.clone_from(&said);
                self.read(now, said)
            }
            (Phase::Sending, Event::Unclear(Unclear { words, patience, lands_within })) => {
                if !lands_within.is_zero() {
                    let until = now.saturating_add(lands_within);
                    self.lands_until = self.lands_until.max(Some(until));
                }
                self.words.clone_from(&words);
                let then = match self.reads {
                    true => Phase::WaitingToRead { said: words },
                    false => Phase::WaitingToSend,
                };
                self.wait(then, patience)
            }
            (Phase::Reading { said, since }, Event::Read(found)) => self.found(since, found, said),
            (Phase::Reading { .. }, Event::Missing) => Effect::End(Outcome::Gone),
            (Phase::Reading { said, .. }, Event::Unclear(Unclear { words, patience, .. })) => {
                self.words = words;
                self.wait(Phase::WaitingToRead { said }, patience)
            }
            (Phase::Reading { said, .. }, Event::Refused(_) | Event::Conflicted(_)) => {
                self.wait(Phase::WaitingToRead { said }, None)
            }
            (phase, _) => {
                self.phase = phase;
                return None;
            }
        };
        Some(effect)
    }

    fn read(&mut self, now: Duration, said: Box<str>) -> Effect {
        self.phase = Phase::Reading { said, since: now };
        Effect::Read
    }

    /// Takes in what a read shows that was asked for at `since`.
    fn found(&mut self, since: Duration, found: Found, said: Box<str>) -> Effect {
        match found {
            Found::Nothing => Effect::End(Outcome::Gone),
            Found::Bound(node) if node == self.node => Effect::End(Outcome::Bound),
            Found::Bound(node) => Effect::End(Outcome::Elsewhere(node)),
            Found::Going => Effect::End(Outcome::NotBound(said)),
            Found::Unbound if !self.may_land(since) => Effect::End(Outcome::NotBound(said)),
            Found::Unbound => self.wait(Phase::WaitingToSend, None),
        }
    }

    fn wait(&mut self, then: Phase, asked: Option<Duration>) -> Effect {
        let wait = self.backoff.wait(self.failures);
        self.failures = self.failures.saturating_add(1);
        self.phase = then;
        Effect::Wait(wait.max(asked.unwrap_or_default().min(WAIT_MAX)))
    }
}
