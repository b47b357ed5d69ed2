use api::{Pod, PodGroup};
use chassis::metrics::Metrics;
use engine::ledger::QuotaHolders;
use engine::turn::{self, Engine};
use serde_json::{Value, json};

use super::super::tests::{START, node, opened_for};
use super::*;
use crate::feed;
use crate::message::{Kind, Message};
use crate::meters::Meters;

fn core(configuration: &Configuration) -> Core {
    let profiles = configuration.profiles.iter();
    let profiles = profiles.map(|own| (own.scheduler_name.as_str().into(), own.assemble().profile));
    let engine = Engine::new(turn::Settings::default(), profiles.collect(), START);
    let names = configuration.profiles.iter().map(|own| own.scheduler_name.as_str().into());
    let mut core = Core::new(engine, names, Meters::register(&Metrics::new()));
    for kind in Kind::ALL {
        core.take(Message::Synced(kind), START);
    }
    core
}

fn member(name: &str, cpu: &str) -> Pod {
    let labels = json!({ "pod-group.scheduling.sigs.k8s.io": "g" });
    let requests = json!({ "cpu": cpu });
    let pod = json!({
        "metadata": { "name": name, "namespace": "shop", "uid": name, "labels": labels },
        "spec": { "schedulerName": "koord-scheduler", "containers": [
            { "name": "main", "resources": { "requests": requests } }] },
    });
    serde_json::from_value(pod).unwrap()
}

fn group(min: i32) -> Message {
    let own: Value = json!({
        "metadata": { "name": "g", "namespace": "shop", "uid": "g" },
        "spec": { "minMember": min },
    });
    let own: PodGroup = serde_json::from_value(own).unwrap();
    Message::Group(Arc::new(own))
}

/// What is known of a gang of two, of which the first asks for so many of four CPUs.
fn known(cpu: &str, configuration: &Configuration) -> Core {
    let mut core = core(configuration);
    let messages =
        [node("n1"), group(2), feed::news(member("a", cpu)), feed::news(member("b", "3"))];
    for message in messages {
        core.take(message, START);
    }
    core
}

/// Has all decided: room for a gang is looked for in slices.
fn settle(core: &mut Core) {
    for _ in 0..50 {
        core.decide(START);
    }
}

fn gang() -> GangId {
    GangId::new("shop", "g")
}

#[test]
fn a_scheduler_says_of_a_gang_what_its_members_were_told_and_plans_it_on_a_copy() {
    let configuration = Configuration::of_koordinator();
    let mut core = known("2", &configuration);
    settle(&mut core);
    let told = core.told(&Uid::new("a")).unwrap().message.to_string();
    let answer = Answer::of_gang("shop", "g", AnsweredBy::Scheduler, &configuration);
    let known = || Known::of_gang(&core, &gang(), START).unwrap();
    // What is found out in thought is what the engine found out.
    let (mut own, mut asked) = (known(), answer.clone());
    let candidates = own.group.unwrap().candidates;
    asked.ask_group(&mut own.ledger, &gang(), &candidates, &configuration, |_, _| {
        QuotaHolders::default()
    });
    let words = asked.message.unwrap();
    assert!(
        told.starts_with(&words) && words.ends_with("alreadyWaitForBound: 1"),
        "{words} {told}"
    );
    let (answer, unexplained) = planned(answer, known(), None, &configuration);
    assert_eq!(answer.message.as_ref(), Some(&told));
    assert!(told.contains("preemption: "), "{told}");
    assert_eq!(answer.state, State::Unstarted { standing: Some(Standing::Waiting) });
    let Unexplained { mut ledger, unplaced, now } = unexplained.unwrap();
    let (mut answer, fact) = (answer, PodFact::from(&member("a", "2")));
    answer.explain_unplaced(&mut ledger, &unplaced, &fact, &configuration, now);
    let plan = answer.group.unwrap().plan.unwrap();
    let nodes = plan.refused.unwrap().nodes.unwrap();
    assert_eq!((plan.needed, plan.fitting, nodes.fitting), (2, 1, 0));
    assert_eq!(nodes.changes[0].change, "request 1 of cpu, not 2");
    // The same is said of a member.
    let answer = Answer::begun(&member("b", "3"), AnsweredBy::Scheduler, &configuration);
    let known = Known::of(&core, &Uid::new("b"), START);
    let (answer, _) =
        planned(answer, known, Some(&PodFact::from(&member("b", "3"))), &configuration);
    assert_eq!(answer.nodes, None, "no node is looked for it alone");
    assert_eq!(answer.group.unwrap().member_of.as_deref(), Some("shop/g"));
}

#[test]
fn of_a_gang_whose_nodes_are_being_written_it_is_not_said_that_members_are_missing() {
    let configuration = Configuration::of_koordinator();
    let mut core = known("1", &configuration);
    settle(&mut core);
    let answer = Answer::of_gang("shop", "g", AnsweredBy::Scheduler, &configuration);
    let known = Known::of_gang(&core, &gang(), START).unwrap();
    let (answer, unexplained) = planned(answer, known, None, &configuration);
    let group = answer.group.unwrap();
    assert_eq!((group.phase, group.waits_for, group.plan), (GroupPhase::Starting, None, None));
    assert!(unexplained.is_none());
    let pod = member("a", "1");
    let answer = Answer::begun(&pod, AnsweredBy::Scheduler, &configuration);
    let known = Known::of(&core, &Uid::new("a"), START);
    let (answer, _) = planned(answer, known, Some(&PodFact::from(&pod)), &configuration);
    let standing = Some(Standing::Decided { node: "n1".to_owned() });
    assert_eq!(answer.state, State::Waiting { standing, nominated: None });
}

#[tokio::test]
async fn a_gang_that_is_not_there_is_named() {
    let configuration = Configuration::of_koordinator();
    let (desk, _sender, mut line, _hand) = opened_for(&configuration);
    let mut asks = Box::pin(desk.why_gang("shop", "lost"));
    let core = core(&configuration);
    let answer = tokio::select! {
        answer = &mut asks => answer,
        Some(Message::Look(look)) = line.recv() => {
            look.at(&core, START);
            asks.await
        }
    };
    let refusal = answer.unwrap_err();
    assert!(
        refusal.message.starts_with("there is no gang lost in namespace shop: "),
        "{refusal:?}"
    );
    let plain = Configuration::default();
    let (desk, _sender, _line, _hand) = opened_for(&plain);
    assert_eq!(desk.why_gang("shop", "lost").await.unwrap().state, State::NotGanging);
}
