//! What is kept while nobody decides, as long as another scheduler leads.

use super::*;

/// How much is remembered for whoever decides next.
fn kept(engine: &Engine) -> [usize; 4] {
    let own = &engine.gangs;
    [own.waits.len(), own.tell_at.len(), own.news.len(), engine.queue().turned_count()]
}

#[test]
fn of_gangs_that_come_and_go_while_nobody_decides_no_more_is_kept_than_there_are() {
    let mut engine = engine();
    let at = |round: u64| START.after(Duration::from_secs(round));
    for round in 0..1_000 {
        let (now, name) = (at(round), format!("g{round}"));
        let pods = [0, 1].map(|number| format!("{name}-{number}"));
        engine.apply(gang(&name, terms(4)), now);
        for pod in &pods {
            let own = member(pod, &name, 1_000);
            engine.apply(told(PodFact { gates: Box::new(["hold".into()]), ..own.clone() }), now);
            engine.apply(told(own), now);
        }
        assert_eq!(kept(&engine)[..3], [1, 1, 1], "after {round}");
        for pod in &pods {
            engine.apply(Fact::PodGone(uid(pod)), now);
        }
        engine.apply(Fact::Gang { id: id(&name), terms: None, has_started: false }, now);
        assert_eq!(kept(&engine), [0; 4], "after {round}");
    }
}

#[test]
fn of_a_gang_whose_members_come_and_go_while_nobody_decides_nothing_piles_up() {
    let mut engine = engine();
    let at = |round: u64| START.after(Duration::from_secs(round));
    engine.apply(gang("g", terms(4)), START);
    for round in 0..1_000 {
        let (now, name) = (at(round), format!("p{round}"));
        engine.apply(told(member(&name, "g", 1_000)), now);
        engine.apply(Fact::PodGone(uid(&name)), now);
        let [waits, tell_at, news, turned] = kept(&engine);
        assert!(waits == 0 && tell_at == 0 && news <= 1 && turned == 0, "after {round}");
        // Its group is another each time.
        let naming = GangTerms { groups: groups(&["g", &format!("h{round}")]), ..terms(4) };
        engine.apply(gang("g", naming), now);
    }
    // Members that stay are told once, when somebody decides.
    engine.apply(told(member("last", "g", 1_000)), at(2_000));
    assert_eq!(decided(&mut engine, at(2_001)).len(), 1);
}

#[test]
fn a_pod_that_turns_again_and_again_while_nobody_decides_is_remembered_once() {
    let mut engine = engine();
    for round in 0..1_000 {
        let gates: Box<[Box<str>]> = (0..round % 2).map(|_| "hold".into()).collect();
        engine.apply(told(PodFact { gates, ..pod("p", 1_000) }), START);
        assert!(engine.queue().turned_count() <= 1, "after {round}");
    }
    engine.apply(Fact::PodGone(uid("p")), START);
    assert_eq!(engine.queue().turned_count(), 0);
}
