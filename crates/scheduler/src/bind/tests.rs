use super::*;

const OURS: &str = "ours";

/// Plays events, each so long after the one before, and returns the last effect. A wait is passed over
/// before its time where the time it takes does not matter.
fn timed<'a>(
    mut conversation: Conversation,
    events: impl IntoIterator<Item = (Duration, &'a Event)>,
) -> (Conversation, Effect) {
    let mut now = Duration::ZERO;
    let mut last = conversation.step(now, Event::Begin);
    for (time, event) in events {
        now += time;
        if let Some(Effect::Wait(_)) = last {
            conversation.step(now, Event::Woke);
        }
        last = conversation.step(now, event.clone());
    }
    (conversation, last.expect("every event belongs"))
}

/// A conversation with the API server.
fn begun() -> Conversation {
    Conversation::new(OURS, 1)
}

/// The last effect of events that come at once.
fn played(events: &[Event]) -> Effect {
    timed(begun(), events.iter().map(|event| (Duration::ZERO, event))).1
}

/// An answer that does not tell.
fn unclear(patience: Option<Duration>) -> Event {
    Event::Unclear(Unclear { words: "lost".into(), patience, lands_within: LAND_MAX })
}

/// The same of somebody of whom nobody knows how long he takes.
fn silent() -> Event {
    let (patience, lands_within) = (None, Duration::MAX);
    Event::Unclear(Unclear { words: "lost".into(), patience, lands_within })
}

/// An answer that tells only that nothing was done, and to come again.
fn busy() -> Event {
    let (patience, lands_within) = (None, Duration::ZERO);
    Event::Unclear(Unclear { words: "busy".into(), patience, lands_within })
}

#[test]
fn each_answer_leads_where_it_must() {
    use Event::{Conflicted, Done, Missing, Read, Refused};
    let check = |events: &[Event], expected: Effect| {
        assert_eq!(played(events), expected, "{events:?}");
    };
    let no = || Conflicted("no".into());
    let end = Effect::End;
    check(&[], Effect::Send);
    check(&[Done], end(Outcome::Bound));
    check(&[Missing], end(Outcome::Gone));
    check(&[Refused("never".into())], end(Outcome::NotBound("never".into())));
    check(&[no()], Effect::Read);
    check(&[no(), Read(Found::Nothing)], end(Outcome::Gone));
    check(&[no(), Missing], end(Outcome::Gone));
    check(&[no(), Read(Found::Bound(OURS.into()))], end(Outcome::Bound));
    check(&[no(), Read(Found::Bound("b".into()))], end(Outcome::Elsewhere("b".into())));
    check(&[no(), Read(Found::Unbound)], end(Outcome::NotBound("no".into())));
    check(&[no(), Read(Found::Going)], end(Outcome::NotBound("no".into())));
    check(&[unclear(None), Done], end(Outcome::Bound));
    check(&[unclear(None), Missing], end(Outcome::Gone));
    check(&[unclear(None), no(), Read(Found::Going)], end(Outcome::NotBound("no".into())));
    check(&[no(), unclear(None), Read(Found::Bound(OURS.into()))], end(Outcome::Bound));
    check(&[unclear(None), Refused("never".into())], Effect::Read);
    // What was not even tried leaves nothing behind.
    check(&[busy(), Refused("never".into())], end(Outcome::NotBound("never".into())));
    check(&[busy(), no(), Read(Found::Unbound)], end(Outcome::NotBound("no".into())));
}

#[test]
fn what_was_given_up_long_ago_does_not_land() {
    use Event::{Conflicted, Read, Refused};
    let (short, soon) = (Duration::from_secs(1), LAND_MAX - Duration::from_secs(1));
    let not_bound = || Effect::End(Outcome::NotBound("no".into()));
    let check = |events: &[(Duration, Event)], expected: Option<Effect>| {
        let (_, last) = timed(begun(), events.iter().map(|(time, event)| (*time, event)));
        match expected {
            Some(expected) => assert_eq!(last, expected, "{events:?}"),
            None => assert!(matches!(last, Effect::Wait(_)), "{events:?}: {last:?}"),
        }
    };
    let (refused, unbound) = (|| Refused("no".into()), || Read(Found::Unbound));
    check(&[(short, unclear(None)), (LAND_MAX, refused()), (short, unbound())], Some(not_bound()));
    check(&[(short, unclear(None)), (soon, refused()), (Duration::ZERO, unbound())], None);
    // The read has to be asked for after the last moment, not only answered.
    check(&[(short, unclear(None)), (soon, refused()), (LAND_MAX, unbound())], None);
    let conflicted = || Conflicted("no".into());
    check(
        &[(short, unclear(None)), (LAND_MAX, conflicted()), (short, unbound())],
        Some(not_bound()),
    );
    // One that may land begins the time anew, one that was not tried does not.
    let late = [(short, unclear(None)), (LAND_MAX, unclear(None)), (soon, refused())];
    check(&[&late[..], &[(Duration::ZERO, unbound())]].concat(), None);
    let late = [(short, unclear(None)), (soon, busy()), (short, refused())];
    check(&[&late[..], &[(short, unbound())]].concat(), Some(not_bound()));
    // Of others nobody knows, whatever the server says meanwhile.
    check(&[(short, silent()), (2 * LAND_MAX, refused()), (short, unbound())], None);
    let mixed = [(short, silent()), (short, unclear(None)), (2 * LAND_MAX, refused())];
    check(&[&mixed[..], &[(short, unbound())]].concat(), None);
}

#[test]
fn after_an_unclear_answer_nothing_but_a_definite_one_ends_it() {
    use Event::{Conflicted, Read, Refused};
    let check = |events: &[Event]| {
        let last = played(events);
        assert!(matches!(last, Effect::Wait(_)), "{events:?}: {last:?}");
    };
    check(&[unclear(None)]);
    check(&[busy()]);
    check(&[unclear(None), Refused("no".into()), Read(Found::Unbound)]);
    check(&[unclear(None), Conflicted("no".into()), Read(Found::Unbound)]);
    check(&[Conflicted("no".into()), unclear(None)]);
    check(&[Conflicted("no".into()), Refused("no".into())]);
}

#[test]
fn waits_grow_and_follow_the_server_within_bounds() {
    let mut conversation = Conversation::new(OURS, 7);
    let mut step = |event| conversation.step(Duration::ZERO, event);
    step(Event::Begin);
    let mut waits = Vec::new();
    for asked in [None, None, None, Some(5), Some(500)] {
        let asked = asked.map(Duration::from_secs);
        let Some(Effect::Wait(wait)) = step(unclear(asked)) else { panic!() };
        assert_eq!(step(Event::Woke), Some(Effect::Send));
        waits.push(wait);
    }
    assert!(waits[0] < WAIT_MIN && waits[2] >= WAIT_MIN, "{waits:?}");
    assert_eq!(waits[3..], [Duration::from_secs(5), WAIT_MAX]);
    assert_eq!(conversation.unclear(), (5, "lost"));
}

#[test]
fn what_does_not_belong_is_left_out() {
    let mut conversation = Conversation::new(OURS, 1);
    let mut step = |event| conversation.step(Duration::ZERO, event);
    assert_eq!(step(Event::Done), None);
    assert_eq!(step(Event::Begin), Some(Effect::Send));
    assert_eq!(step(Event::Woke), None);
    assert_eq!(step(Event::Done), Some(Effect::End(Outcome::Bound)));
    assert_eq!(step(Event::Done), None);
}

/// A pod on an API server, and Bindings of ours that are under way though we heard nothing.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Server {
    pod: Pod,
    under_way: u8,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Pod {
    Unbound,
    Ours,
    Theirs,
    Going,
    Gone,
}

impl Server {
    /// Carries out a Binding of ours.
    fn bind(mut self) -> (Self, Event) {
        let answer = match self.pod {
            Pod::Unbound => Event::Done,
            Pod::Gone => Event::Missing,
            Pod::Ours | Pod::Theirs | Pod::Going => Event::Conflicted("conflict".into()),
        };
        if self.pod == Pod::Unbound {
            self.pod = Pod::Ours;
        }
        (self, answer)
    }

    fn read(self) -> Event {
        Event::Read(match self.pod {
            Pod::Unbound => Found::Unbound,
            Pod::Ours => Found::Bound(OURS.into()),
            Pod::Theirs => Found::Bound("theirs".into()),
            Pod::Going => Found::Going,
            Pod::Gone => Found::Nothing,
        })
    }

    /// What may happen on the server by itself.
    fn moves(self) -> Vec<Self> {
        let mut moves = vec![self];
        let with = |pod| Self { pod, ..self };
        match self.pod {
            Pod::Unbound => moves.extend([with(Pod::Theirs), with(Pod::Going), with(Pod::Gone)]),
            Pod::Ours | Pod::Theirs | Pod::Going => moves.push(with(Pod::Gone)),
            Pod::Gone => {}
        }
        if self.under_way > 0 {
            let landed = Self { under_way: self.under_way - 1, ..self };
            moves.extend([landed.bind().0, landed]);
        }
        moves
    }

    /// The same after so long that nothing is under way any more.
    fn calm(self) -> [Self; 2] {
        let lost = Self { under_way: 0, ..self };
        let landed = if self.under_way > 0 { lost.bind().0 } else { lost };
        [lost, landed]
    }

    /// Whether an outcome is true, and stays true whatever is still under way.
    fn agrees(self, outcome: &Outcome) -> bool {
        match outcome {
            // A pod that was bound may be gone by now.
            Outcome::Bound => matches!(self.pod, Pod::Ours | Pod::Gone),
            Outcome::Gone => self.pod == Pod::Gone,
            Outcome::Elsewhere(node) => &**node == "theirs" && self.pod != Pod::Ours,
            Outcome::NotBound(_) => match self.pod {
                Pod::Unbound => self.under_way == 0,
                Pod::Ours => false,
                Pod::Theirs | Pod::Going | Pod::Gone => true,
            },
        }
    }
}

/// Who is asked to bind the pod.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Asked {
    Server,
    Others,
}

impl Asked {
    fn conversation(self) -> Conversation {
        match self {
            Self::Server => begun(),
            Self::Others => begun().through_others(),
        }
    }

    /// What may come of a Binding, and how it is answered.
    fn answers(self, server: Server) -> Vec<(Server, Event)> {
        let refused = (server, Event::Refused("refused".into()));
        let (bound, answer) = server.bind();
        let later = Server { under_way: server.under_way + 1, ..server };
        match self {
            Self::Server => vec![
                refused,
                (bound, answer),
                (bound, unclear(None)),
                (server, busy()),
                (later, unclear(None)),
            ],
            // What they say is held against the pod.
            Self::Others => {
                let said = || Event::Conflicted("said".into());
                vec![
                    refused,
                    (bound, said()),
                    (server, said()),
                    (bound, silent()),
                    (later, silent()),
                ]
            }
        }
    }

    /// The server after [`LAND_MAX`], in which time others need not come to an end.
    fn waited(self, server: Server) -> Vec<Server> {
        match self {
            Self::Server => server.calm().into(),
            Self::Others => vec![server],
        }
    }
}

/// What happened so far, and how long each took.
type History = Vec<(Duration, Event)>;

/// Plays every way in which a conversation of so many requests can go, and counts those that end.
fn explore(asked: Asked, server: Server, history: &mut History, requests_left: u8) -> usize {
    let (mut conversation, mut effect) =
        timed(asked.conversation(), history.iter().map(|(time, event)| (*time, event)));
    if let Effect::End(outcome) = &effect {
        assert!(server.agrees(outcome), "{outcome:?} of {server:?} after {history:?}");
        return 1;
    }
    if requests_left == 0 {
        return 0;
    }
    let now = history.iter().map(|(time, _)| *time).sum();
    let is_waiting = matches!(effect, Effect::Wait(_));
    if is_waiting {
        // The wait itself changes nothing: what follows is what it was for.
        effect = conversation.step(now, Event::Woke).expect("a wait is for something");
    }
    let mut ended = 0;
    let mut states: Vec<_> = server.moves().into_iter().map(|one| (Duration::ZERO, one)).collect();
    // The time passes before a request, while something is waited for.
    if is_waiting {
        states.extend(asked.waited(server).into_iter().map(|one| (LAND_MAX, one)));
    }
    for (time, server) in states {
        let answers = match effect {
            Effect::Send => asked.answers(server),
            _ => vec![
                (server, Event::Refused("refused".into())),
                (server, server.read()),
                (server, unclear(None)),
            ],
        };
        for (server, answer) in answers {
            history.push((time, answer));
            ended += explore(asked, server, history, requests_left - 1);
            history.pop();
        }
    }
    ended
}

#[test]
fn whatever_the_server_does_an_outcome_is_true_for_good() {
    for asked in [Asked::Server, Asked::Others] {
        let server = Server { pod: Pod::Unbound, under_way: 0 };
        let ended = explore(asked, server, &mut Vec::new(), 5);
        assert!(ended > 10_000, "{ended} ways is not every way of {asked:?}");
    }
}
