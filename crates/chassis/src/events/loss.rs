//! Events that are not written: whoever runs the component hears of it, and what to do.

use std::collections::BTreeMap;
use std::fmt::{self, Display, Write as _};
use std::sync::{Mutex, PoisonError};

use crate::client::{Error, Reason};

/// Why an event is not written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Loss {
    /// This component may not.
    Forbidden,
    /// The server does not take this one, for another reason.
    Refused,
    /// Its namespace goes, or is gone.
    Homeless,
    /// The server did not answer, however often it was asked.
    Unanswered,
    /// Too many wait already.
    NoRoom,
    /// The end came first.
    Ended,
}

impl Loss {
    /// Why the server would refuse it again.
    pub(super) fn of(error: &Error) -> Self {
        let Some(refusal) = error.refusal() else { return Self::Refused };
        let is_going = refusal.causes.iter().any(|cause| cause.reason == "NamespaceTerminating");
        match refusal.reason {
            _ if is_going => Self::Homeless,
            Reason::NotFound => Self::Homeless,
            Reason::Forbidden | Reason::Unauthorized => Self::Forbidden,
            _ => Self::Refused,
        }
    }

    /// What is to be done, where anything is.
    fn fix(self) -> Option<&'static str> {
        match self {
            Self::Forbidden => {
                Some("let this component create and patch events, also in the group events.k8s.io")
            }
            Self::Refused => Some("see why the API server does not take it"),
            Self::Unanswered => Some("see whether the API server is well, and has room for more"),
            Self::NoRoom => Some("allow this component more requests a second, if it is limited"),
            // That is in the nature of things, or told with the sum.
            Self::Homeless | Self::Ended => None,
        }
    }
}

impl Display for Loss {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Forbidden => "forbidden",
            Self::Refused => "refused",
            Self::Homeless => "in a namespace that goes",
            Self::Unanswered => "not answered",
            Self::NoRoom => "no room to wait",
            Self::Ended => "too late",
        })
    }
}

/// How many events were not written, by reason.
#[derive(Debug)]
pub(super) struct Losses {
    component: String,
    counts: Mutex<BTreeMap<Loss, usize>>,
}

impl Losses {
    pub(super) fn new(component: &str) -> Self {
        Self { component: component.to_owned(), counts: Mutex::default() }
    }

    /// Counts, and tells of a reason the first time.
    pub(super) fn count(&self, events: usize, why: Loss, cause: &dyn Display) {
        if events == 0 {
            return;
        }
        let is_first = {
            let mut counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
            let count = counts.entry(why).or_default();
            *count += events;
            *count == events
        };
        if is_first && let Some(fix) = why.fix() {
            let component = &self.component;
            tracing::warn!(
                component,
                %cause,
                "an event cannot be written ({why}): {fix}; more of them are only counted \
                 (gantry_events_total)"
            );
        }
    }

    /// Tells how many there were, where there were any.
    pub(super) fn sum_up(&self) {
        if let Some(text) = self.sum() {
            tracing::warn!(component = self.component, "{text}");
        }
    }

    fn sum(&self) -> Option<String> {
        let counts = self.counts.lock().unwrap_or_else(PoisonError::into_inner);
        if counts.keys().all(|why| *why == Loss::Homeless) {
            return None;
        }
        let total: usize = counts.values().sum();
        let mut text = format!("{total} events were not written:");
        for (at, (why, count)) in counts.iter().enumerate() {
            let _ = write!(text, "{} {count} {why}", if at == 0 { "" } else { "," });
        }
        Some(text)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::client::Refusal;

    #[test]
    fn losses_are_summed_up_by_reason() {
        let losses = Losses::new("test");
        assert_eq!(losses.sum(), None);
        losses.count(0, Loss::Ended, &"");
        losses.count(5, Loss::Homeless, &"");
        assert_eq!(losses.sum(), None);
        losses.count(1, Loss::Refused, &"no");
        losses.count(7, Loss::Ended, &"");
        losses.count(2, Loss::Refused, &"no");
        let want = "15 events were not written: 3 refused, 5 in a namespace that goes, 7 too late";
        assert_eq!(losses.sum().as_deref(), Some(want));
    }

    #[test]
    fn a_namespace_that_goes_is_nobodys_fault() {
        let check = |code: u16, body: &str, want: Loss| {
            let refusal = Box::new(Refusal::parse(code, None, body.as_bytes()));
            let (verb, path) = (http::Method::POST, String::new());
            assert_eq!(Loss::of(&Error::Refused { verb, path, refusal }), want, "{body}");
        };
        check(403, "{}", Loss::Forbidden);
        check(401, "{}", Loss::Forbidden);
        let going = r#"{"status":"Failure","reason":"Forbidden","code":403,
            "details":{"causes":[{"reason":"NamespaceTerminating"}]}}"#;
        check(403, going, Loss::Homeless);
        check(404, "{}", Loss::Homeless);
        check(422, "{}", Loss::Refused);
    }
}
