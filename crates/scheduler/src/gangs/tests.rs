mod asking;

use std::time::Duration;

use api::Node;
use api::pod_group::INCOMPLETE_START;
use engine::Engine;
use engine::fact::NodeFact;
use engine::gangs::{Incarnation, Membership, Settings as GangSettings};
use engine::profile::Profile;
use engine::turn;
use serde_json::json;

use super::*;
use crate::message::Wrote;
use crate::pace::{AGAIN, INTERVAL, REFUSED_AGAIN};

const START: Moment = Moment(1_000_000_000_000);

fn group(min: i32, conditions: &Value) -> Arc<PodGroup> {
    let wire = json!({
        "metadata": { "namespace": "ns", "name": "g", "uid": "u" },
        "spec": { "minMember": min },
        "status": { "conditions": conditions },
    });
    Arc::new(serde_json::from_value(wire).unwrap())
}

/// What comes of what was to be written on it, and what it is then.
fn receipt(wrote: Wrote, object: Option<Arc<PodGroup>>) -> Receipt<PodGroup> {
    Receipt { key: Key::namespaced("ns", "g"), object, wrote }
}

fn collecting(there: usize) -> GangNews {
    let gang = GangId::new("ns", "g");
    GangNews::Waits(Arc::new(GangWait::Collecting { gang, there, min: 4 }))
}

fn said(groups: &mut Groups, news: GangNews, now: Moment) -> Option<(String, String, bool)> {
    groups.say(&GangId::new("ns", "g"), news, now);
    let order = groups.next(&Ledger::default(), now)?;
    let own = &order.patch["status"]["conditions"][0];
    let text = |key: &str| own[key].as_str().unwrap().to_owned();
    assert_eq!(order.patch["metadata"]["uid"], "u");
    Some((text("reason"), text("message"), order.note.is_some()))
}

#[test]
fn a_group_says_why_it_has_not_started_once_a_second_and_tells_what_is_new() {
    let mut groups = Groups::default();
    // What is said of a gang may come before its group.
    assert_eq!(said(&mut groups, collecting(1), START), None);
    groups.put(group(4, &json!([])), START);
    let order = groups.next(&Ledger::default(), START).unwrap();
    assert_eq!(order.note.as_ref().unwrap().state, GangState::Collecting);
    let conditions = order.patch["status"]["conditions"].clone();
    assert_eq!(said(&mut groups, collecting(2), START), None, "it is being written");
    groups.written(&receipt(Wrote::All, None), START);
    groups.put(group(4, &conditions), START);
    assert_eq!(said(&mut groups, collecting(3), START), None, "it was just written");
    let later = START.after(INTERVAL);
    let words = "gang ns/g waits for members: collected 3/4".to_owned();
    let expected = Some(("WaitingForMembers".to_owned(), words, false));
    assert_eq!(said(&mut groups, collecting(3), later), expected, "no event for a number");
    groups.written(&receipt(Wrote::All, None), later);
    let last = later.after(INTERVAL);
    let told = said(&mut groups, GangNews::Placed { placed: 4, min: 4 }, last).unwrap();
    assert_eq!((&*told.0, told.2), ("Placed", true));
    assert_eq!(groups.next_due(), None);
}

#[test]
fn what_is_written_is_not_written_again_and_what_could_not_be_is() {
    let mut groups = Groups::default();
    let key = Key::namespaced("ns", "g");
    groups.put(group(4, &json!([])), START);
    assert!(groups.next(&Ledger::default(), START).is_none(), "nothing is said of it");
    groups.say(&GangId::new("ns", "g"), GangNews::Queued, START);
    let order = groups.next(&Ledger::default(), START).unwrap();
    groups.written(&receipt(Wrote::Nothing, None), START);
    assert_eq!(groups.next_due(), Some(START.after(AGAIN)));
    let again = groups.next(&Ledger::default(), START.after(AGAIN)).unwrap();
    assert_eq!(again.patch["status"]["conditions"][0]["reason"], "Queued");
    groups.written(&receipt(Wrote::All, None), START.after(AGAIN));
    groups.put(group(4, &order.patch["status"]["conditions"]), START.after(AGAIN));
    let late = START.after(AGAIN * 2);
    assert!(groups.next(&Ledger::default(), late).is_none());
    groups.remove(&key);
    assert_eq!(groups.next_due(), None);
}

#[test]
fn a_group_that_cannot_be_meant_says_so() {
    let check = |min: i32, words: &str| {
        let mut groups = Groups::default();
        groups.put(group(min, &json!([])), START);
        let order = groups.next(&Ledger::default(), START).unwrap();
        let own = &order.patch["status"]["conditions"][0];
        assert_eq!((own["type"].as_str(), own["status"].as_str()), (Some(VALID), Some("False")));
        assert!(own["message"].as_str().unwrap().starts_with(words), "{own}");
    };
    check(0, "spec.minMember is 0, so that each pod starts by itself");
    check(-1, "spec.minMember");
}

#[test]
fn a_group_is_told_what_of_it_changes_nothing() {
    let mut groups = Groups::default();
    let mut object = PodGroup::clone(&group(4, &json!([])));
    object.spec.min_resources.insert("cpu".into(), "4".parse().unwrap());
    groups.put(Arc::new(object), START);
    let order = groups.next(&Ledger::default(), START).unwrap();
    let own = &order.patch["status"]["conditions"][0];
    assert_eq!(
        (own["status"].as_str(), own["reason"].as_str()),
        (Some("True"), Some("PartlyHeeded"))
    );
    let words = "spec.minResources changes nothing: what each member asks for counts";
    assert_eq!(own["message"], words);
    assert_eq!(order.note, None, "nothing is wrong with it");
}

#[test]
fn a_server_that_does_not_keep_what_is_said_of_a_group_is_told_it_less_and_less_often() {
    let check = |kept: fn(Value) -> Value, expected: &[u64]| {
        let mut groups = Groups::default();
        groups.put(group(4, &json!([])), START);
        let mut all = Vec::new();
        for second in 0..100 {
            let now = START.after(Duration::from_secs(second));
            // There is news all the time.
            groups.say(&GangId::new("ns", "g"), collecting(usize::from(second >= 50)), now);
            while let Some(order) = groups.next(&Ledger::default(), now) {
                all.push(second);
                let object = group(4, &kept(order.patch["status"]["conditions"].clone()));
                groups.written(&receipt(Wrote::All, Some(object.clone())), now);
                groups.put(object, now);
            }
        }
        assert_eq!(all, expected);
    };
    let doubling = [0, 1, 3, 7, 15, 31, 63];
    check(|own| own, &[0, 50]);
    check(|_| json!([]), &doubling);
    check(
        |mut own| {
            own[0]["reason"] = "Other".into();
            own
        },
        &doubling,
    );
}

#[test]
fn what_the_server_refuses_of_a_group_is_written_a_minute_later() {
    let mut groups = Groups::default();
    groups.put(group(4, &json!([])), START);
    groups.say(&GangId::new("ns", "g"), GangNews::Queued, START);
    assert!(groups.next(&Ledger::default(), START).is_some());
    groups.written(&receipt(Wrote::Refused, None), START);
    groups.say(&GangId::new("ns", "g"), collecting(1), START);
    assert_eq!(groups.next_due(), Some(START.after(REFUSED_AGAIN)));
}

#[test]
fn every_state_of_a_gang_has_a_word_of_its_own_that_is_read_back() {
    let words: BTreeMap<&str, GangState> = GangState::ALL.map(|own| (own.word(), own)).into();
    assert_eq!(words.len(), GangState::ALL.len());
    for (word, state) in words {
        assert_eq!(GangState::read(word), Some(state));
    }
    assert_eq!(GangState::read("Other"), None);
}

#[test]
fn what_is_said_of_gangs_without_a_group_is_kept_for_as_long_as_they_are_there() {
    let mut groups = Groups::default();
    let id = |number: usize| GangId::new("ns", &format!("g{number}"));
    // Only the first hundred stay.
    for number in 0..10_000 {
        groups.say(&id(number), GangNews::Queued, START);
        groups.drop_early(|gang| (0..100).any(|own| *gang == id(own)));
        assert!(groups.early.len() <= 200, "{number}: {}", groups.early.len());
    }
    groups.say(&id(7), collecting(3), START);
    assert_eq!(groups.early.get(&id(7)), Some(&collecting(3)), "what was said last counts");
    assert!((0..100).all(|number| groups.early.contains_key(&id(number))));
    groups.say(&GangId::new("ns", "g"), GangNews::Queued, START);
    groups.forget_early(&GangId::new("ns", "g"));
    groups.put(group(4, &json!([])), START);
    assert!(groups.next(&Ledger::default(), START).is_none(), "that was another gang of its name");
}

/// An engine with a node, and a group of three that wants nobody who is there alone.
struct Starting {
    engine: Engine,
    groups: Groups,
    group: Value,
    said: Vec<String>,
}

impl Starting {
    fn new(annotations: &Value, conditions: &Value) -> Self {
        let profile = Profile { gangs: Some(GangSettings::default()), ..Profile::kubernetes() };
        let mut engine = Engine::new(turn::Settings::default(), vec![("s".into(), profile)], START);
        let node =
            json!({ "metadata": { "name": "n" }, "status": { "allocatable": { "pods": "9" } } });
        let node: Node = serde_json::from_value(node).unwrap();
        engine.apply(Fact::Node(NodeFact::from(&node)), START);
        let group = json!({
            "metadata": { "namespace": "ns", "name": "g", "uid": "u", "annotations": annotations },
            "spec": { "minMember": 3, "scheduleTimeoutSeconds": 60 },
            "status": { "conditions": conditions },
        });
        let mut own = Self { engine, groups: Groups::default(), group, said: Vec::new() };
        own.show(START);
        own
    }

    fn show(&mut self, now: Moment) {
        let object: PodGroup = serde_json::from_value(self.group.clone()).unwrap();
        let fact = self.groups.put(Arc::new(object), now);
        self.engine.apply(fact, now);
    }

    /// A member is bound, or goes.
    fn member(&mut self, name: &str, is_going: bool, now: Moment) {
        self.tell((name, None), is_going, now);
    }

    /// The same of one on which is written with how many others it starts.
    fn tell(&mut self, (name, with): (&str, Option<u32>), is_going: bool, now: Moment) {
        let gang = GangId::new("ns", "g");
        let group = "ns/g".into();
        let incarnation = with.map(|members| Incarnation { group, members });
        let mut pod = engine::fact::PodFact::new(name, "ns", name);
        pod.gang = Some(Arc::new(Membership {
            gang: gang.clone(),
            terms: None,
            created: Moment(0),
            incarnation,
        }));
        (pod.node, pod.deleting) = (Some("n".into()), is_going);
        self.engine.apply(Fact::Pod(Box::new(pod)), now);
        self.groups.say(&gang, GangNews::Queued, now);
    }

    /// Members end, which is all that is seen of that.
    fn end(&mut self, names: &[&str], now: Moment) {
        for name in names {
            self.engine.apply(Fact::PodGone(Uid::new(name)), now);
        }
        self.groups.say(&GangId::new("ns", "g"), GangNews::Queued, now);
    }

    /// Writes what is to be written, and tells who has to go.
    fn at(&mut self, seconds: u64) -> Vec<String> {
        let now = START.after(Duration::from_secs(seconds));
        while let Some(order) = self.groups.next(self.engine.ledger(), now) {
            self.group = object::patch::merge::apply(self.group.clone(), order.patch).unwrap();
            self.groups.written(&receipt(Wrote::All, None), now);
            self.show(now);
        }
        let own = self.group["status"]["conditions"].as_array().unwrap().iter();
        let started = own.filter(|own| own["type"] == "Started");
        let started: Vec<&str> = started.filter_map(|own| own["reason"].as_str()).collect();
        self.said.extend(started.first().map(|reason| (*reason).to_owned()));
        self.said.dedup();
        let mut gone = Vec::new();
        while let Some(order) = self.groups.next_leftover(self.engine.ledger()) {
            self.groups.dismissed(&order.pod.uid);
            gone.push(format!("{} {}: {}", order.cause.word(), order.pod.name, order.words));
        }
        gone
    }
}

fn later(seconds: u64) -> Moment {
    START.after(Duration::from_secs(seconds))
}

#[test]
fn who_is_bound_of_a_gang_that_is_not_whole_in_time_goes_where_its_group_says_so() {
    let words = |name: &str| format!("gang {name}: 2 of 3 members were bound in time");
    let check = |annotations: Value, expected: Vec<String>| {
        let mut own = Starting::new(&annotations, &json!([]));
        own.member("a", false, START);
        own.member("b", false, later(2));
        for seconds in 0..60 {
            assert_eq!(own.at(seconds), [""; 0], "{annotations} after {seconds} s");
        }
        assert_eq!(own.at(61), expected, "{annotations}");
        assert_eq!(own.at(100), [""; 0], "each is asked once");
        own.member("a", true, later(101));
        let left: Vec<String> = expected.iter().skip(1).map(|own| own.replace('2', "1")).collect();
        assert_eq!(own.at(122), left, "who did not go is asked again");
        own.member("b", true, later(123));
        assert_eq!(own.at(300), [""; 0]);
        let said = if left.is_empty() { vec![] } else { vec!["Ahead", "Incomplete", "Ahead"] };
        assert_eq!(own.said.iter().filter(|own| *own != "Ahead").count(), said.len() / 2);
    };
    check(json!({ INCOMPLETE_START: "Delete" }), vec![words("a"), words("b")]);
    check(json!({ INCOMPLETE_START: "Keep" }), vec![]);
    check(json!({ INCOMPLETE_START: "delete" }), vec![]);
    check(json!({}), vec![]);
}

#[test]
fn who_is_left_of_a_gang_that_was_whole_stays_also_under_the_next_scheduler() {
    let annotations = json!({ INCOMPLETE_START: "Delete" });
    let mut own = Starting::new(&annotations, &json!([]));
    for name in ["a", "b", "c"] {
        own.member(name, false, START);
    }
    assert_eq!(own.at(1), [""; 0]);
    own.member("c", true, later(2));
    assert_eq!(own.at(200), [""; 0]);
    assert_eq!(own.said, ["Whole"]);
    let conditions = own.group["status"]["conditions"].clone();
    let mut next = Starting::new(&annotations, &conditions);
    for name in ["a", "b"] {
        next.member(name, false, START);
    }
    assert_eq!((next.at(1), next.at(200)), (vec![], vec![]));
    // Its pods are made anew: that is another start.
    for name in ["a", "b"] {
        next.member(name, true, later(201));
    }
    assert_eq!(next.at(202), [""; 0]);
    next.member("d", false, later(203));
    assert_eq!((next.at(204), next.at(263)), (vec![], vec![]));
    assert_eq!(next.at(264), ["gang d: 1 of 3 members were bound in time"]);
    // Whoever wants it no longer is heard at once.
    next.group["metadata"]["annotations"] = json!({});
    next.show(later(265));
    assert_eq!((next.at(266), next.at(400)), (vec![], vec![]));
}

#[test]
fn a_member_on_which_something_else_is_written_has_not_ended() {
    let mut own = Starting::new(&json!({ INCOMPLETE_START: "Delete" }), &json!([]));
    for name in ["a", "b"] {
        own.tell((name, None), false, START);
        own.tell((name, Some(3)), false, START);
    }
    assert_eq!((own.at(1), own.at(60)), (vec![], vec![]));
    assert_eq!(
        own.at(61),
        ["gang a: 2 of 3 members were bound in time", "gang b: 2 of 3 members were bound in time"]
    );
    // The last one of a gang that was whole is no gang of its own.
    let mut own = Starting::new(&json!({ INCOMPLETE_START: "Delete" }), &json!([]));
    for name in ["a", "b", "c"] {
        own.member(name, false, START);
    }
    own.end(&["a", "b"], later(1));
    own.tell(("c", Some(3)), false, later(2));
    assert_eq!((own.at(3), own.at(63), own.at(300)), (vec![], vec![], vec![]));
    assert_eq!(own.said, ["Whole"]);
}

#[test]
fn who_comes_for_members_that_have_ended_of_a_gang_that_was_whole_stays() {
    let mut own = Starting::new(&json!({ INCOMPLETE_START: "Delete" }), &json!([]));
    for name in ["a", "b", "c"] {
        own.member(name, false, START);
    }
    assert_eq!(own.at(1), [""; 0]);
    own.end(&["a", "b", "c"], later(2));
    assert_eq!(own.at(3), [""; 0]);
    // A Job makes one anew that failed.
    own.member("c2", false, later(4));
    for seconds in [5, 64, 65, 66, 300] {
        assert_eq!(own.at(seconds), [""; 0], "after {seconds} s");
    }
    own.end(&["c2"], later(301));
    own.member("c3", false, later(301));
    assert_eq!((own.at(302), own.at(400)), (vec![], vec![]));
    assert_eq!(own.said, ["Whole"]);
}

#[test]
fn members_that_end_before_the_last_is_bound_count_for_their_start_whenever_it_is_looked_at() {
    let mut own = Starting::new(&json!({ INCOMPLETE_START: "Delete" }), &json!([]));
    for name in ["a", "b"] {
        own.member(name, false, START);
    }
    assert_eq!(own.at(1), [""; 0]);
    own.end(&["a"], later(2));
    own.member("c", false, later(3));
    own.end(&["c"], later(3));
    for seconds in [4, 61, 62, 300] {
        assert_eq!(own.at(seconds), [""; 0], "after {seconds} s");
    }
    assert_eq!(own.said, ["Incomplete", "Whole"]);
    // Where only some end of those that were bound, and nobody follows, it was never whole.
    let mut own = Starting::new(&json!({ INCOMPLETE_START: "Delete" }), &json!([]));
    for name in ["a", "b"] {
        own.member(name, false, START);
    }
    own.end(&["a"], START);
    assert_eq!((own.at(1), own.at(60)), (vec![], vec![]));
    assert_eq!(own.at(61), ["gang b: 1 of 3 members were bound in time"]);
}

#[test]
fn a_new_leader_reads_off_a_group_whether_its_gang_has_started() {
    let check = |scheduled: Option<&str>, started: Option<&str>, status: Value, expected: bool| {
        let condition = |kind: &str, reason: &str, status: bool| {
            let status = if status { "True" } else { "False" };
            json!({ "type": kind, "reason": reason, "status": status, "message": "" })
        };
        let own = scheduled.map(|reason| condition(SCHEDULED, reason, reason == "Placed"));
        let start = started.map(|reason| condition("Started", reason, reason == "Whole"));
        let mut status = status;
        status["conditions"] = own.into_iter().chain(start).collect();
        let words = status.to_string();
        let wire = json!({ "metadata": { "namespace": "ns", "name": "g" },
            "spec": { "minMember": 4 }, "status": status });
        let Fact::Gang { has_started, .. } = fact(&serde_json::from_value(wire).unwrap()) else {
            panic!("a group describes a gang")
        };
        assert_eq!(has_started, expected, "{words}");
    };
    let none = || json!({});
    let ended = || json!({ "phase": "Failed", "scheduled": 4, "succeeded": 3, "failed": 1 });
    check(None, None, none(), false);
    check(Some("MembersLeft"), None, json!({ "scheduled": 1 }), true);
    check(Some("MembersLeft"), None, ended(), true);
    // Its group has started, and of it nobody was bound.
    check(Some("MembersLeft"), None, none(), false);
    // Nobody may have been bound, or all were deleted before that could be said.
    check(Some("Placed"), None, none(), false);
    check(Some("Placed"), None, ended(), true);
    check(Some("Placed"), Some("Whole"), none(), true);
    for reason in ["WaitingForMembers", "Queued", "Unschedulable"] {
        check(Some(reason), Some("Whole"), ended(), false);
    }
    // Where others look after groups, they say no more than how many have ended.
    check(None, None, ended(), true);
    check(None, None, json!({ "phase": "Pending", "failed": 1 }), false);
    check(None, None, json!({ "phase": "Running", "running": 4, "scheduled": 4 }), false);
    check(None, Some("Whole"), none(), true);
}
