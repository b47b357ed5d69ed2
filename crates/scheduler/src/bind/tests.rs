use super::*;

const OURS: &str = "ours";

/// Plays events and returns the last effect. Waits are passed over.
fn played(events: &[Event]) -> Option<Effect> {
    let mut conversation = Conversation::new(OURS, 1);
    let mut last = conversation.step(Event::Begin);
    for event in events {
        if let Some(Effect::Wait(_)) = last {
            conversation.step(Event::Woke);
        }
        last = conversation.step(event.clone());
    }
    last
}

/// An answer that does not tell.
fn unclear(patience: Option<Duration>) -> Event {
    Event::Unclear(Unclear { words: "lost".into(), patience })
}

#[test]
fn each_answer_leads_where_it_must() {
    use Event::{Conflicted, Done, Missing, Read, Refused};
    let check = |events: &[Event], expected: Effect| {
        assert_eq!(played(events), Some(expected), "{events:?}");
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
}

#[test]
fn after_an_unclear_answer_nothing_but_a_definite_one_ends_it() {
    use Event::{Conflicted, Read, Refused};
    let check = |events: &[Event]| {
        let last = played(events);
        assert!(matches!(last, Some(Effect::Wait(_))), "{events:?}: {last:?}");
    };
    check(&[unclear(None)]);
    check(&[unclear(None), Refused("no".into())]);
    check(&[unclear(None), Conflicted("no".into()), Read(Found::Unbound)]);
    check(&[Conflicted("no".into()), unclear(None)]);
    check(&[Conflicted("no".into()), Refused("no".into())]);
}

#[test]
fn waits_grow_and_follow_the_server_within_bounds() {
    let mut conversation = Conversation::new(OURS, 7);
    conversation.step(Event::Begin);
    let mut waits = Vec::new();
    for asked in [None, None, None, Some(5), Some(500)] {
        let asked = asked.map(Duration::from_secs);
        let Some(Effect::Wait(wait)) = conversation.step(unclear(asked)) else { panic!() };
        assert_eq!(conversation.step(Event::Woke), Some(Effect::Send));
        waits.push(wait);
    }
    assert!(waits[0] < WAIT_MIN && waits[2] >= WAIT_MIN, "{waits:?}");
    assert_eq!(waits[3..], [Duration::from_secs(5), WAIT_MAX]);
    assert_eq!(conversation.unclear(), (5, "lost"));
}

#[test]
fn what_does_not_belong_is_left_out() {
    let mut conversation = Conversation::new(OURS, 1);
    assert_eq!(conversation.step(Event::Done), None);
    assert_eq!(conversation.step(Event::Begin), Some(Effect::Send));
    assert_eq!(conversation.step(Event::Woke), None);
    assert_eq!(conversation.step(Event::Done), Some(Effect::End(Outcome::Bound)));
    assert_eq!(conversation.step(Event::Done), None);
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

/// Plays every way in which a conversation of so many requests can go, and counts those that end.
fn explore(server: Server, history: &mut Vec<Event>, requests_left: u8) -> usize {
    let effect = played(history).expect("every event of a history belongs");
    let effect = match effect {
        // The wait itself changes nothing: what follows is what it was for.
        Effect::Wait(_) => {
            let mut conversation = Conversation::new(OURS, 1);
            let mut last = conversation.step(Event::Begin);
            for event in history.iter() {
                if let Some(Effect::Wait(_)) = last {
                    conversation.step(Event::Woke);
                }
                last = conversation.step(event.clone());
            }
            conversation.step(Event::Woke).expect("a wait is for something")
        }
        other => other,
    };
    if let Effect::End(outcome) = &effect {
        assert!(server.agrees(outcome), "{outcome:?} of {server:?} after {history:?}");
        return 1;
    }
    if requests_left == 0 {
        return 0;
    }
    let mut ended = 0;
    for server in server.moves() {
        let mut answers = vec![(server, Event::Refused("refused".into()))];
        if effect == Effect::Send {
            let (bound, answer) = server.bind();
            answers.extend([(bound, answer), (bound, unclear(None))]);
            let later = Server { under_way: server.under_way + 1, ..server };
            answers.push((later, unclear(None)));
        } else {
            answers.extend([(server, server.read()), (server, unclear(None))]);
        }
        for (server, answer) in answers {
            history.push(answer);
            ended += explore(server, history, requests_left - 1);
            history.pop();
        }
    }
    ended
}

#[test]
fn whatever_the_server_does_an_outcome_is_true_for_good() {
    let ended = explore(Server { pod: Pod::Unbound, under_way: 0 }, &mut Vec::new(), 5);
    assert!(ended > 10_000, "{ended} ways is not every way");
}
