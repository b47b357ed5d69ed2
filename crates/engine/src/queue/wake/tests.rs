use std::collections::BTreeMap;

use object::quantity::Quantity;
use object::selector::label::Selector;

use super::*;
use crate::fact::{
    Attachment, Capacity, Claim, Class, CsiDriver, CsiNode, Fact, NodeFact, PersistentVolume,
    PodFact, Source, StorageFact, Uid, Version, Zone,
};
use crate::moment::Moment;
use crate::needs::{Disk, Needs, Owner, OwnerKind, Volume, Volumes};
use crate::profile::Profile;
use crate::queue::PodView;
use crate::queue::laws::strict;
use crate::turn::{Answer, Engine, Settings, Verdict};

fn owner() -> Owner {
    Owner { kind: OwnerKind::ReplicaSet, name: "web".into() }
}

fn labels(pairs: &[(&str, &str)]) -> BTreeMap<Box<str>, Box<str>> {
    pairs.iter().map(|(key, value)| ((*key).into(), (*value).into())).collect()
}

fn node(pairs: &[(&str, &str)]) -> Option<Box<NodeFact>> {
    let labels = labels(pairs);
    Some(Box::new(NodeFact { name: "node".into(), labels, pods_allowed: 9, ..NodeFact::default() }))
}

fn bound(pairs: &[(&str, &str)]) -> Option<Box<PodView>> {
    let node = Some("node".into());
    let fact = PodFact { labels: labels(pairs), node, ..PodFact::new("other", "default", "other") };
    Some(Box::new(PodView::of_fact(&Ledger::default(), &fact)))
}

#[test]
fn what_a_change_can_cure_follows_from_what_the_profile_says() {
    let mut ledger = Ledger::default();
    let selector = Some(Selector::from_pairs([("app", "web")]));
    ledger.apply(Fact::Owner { namespace: "default".into(), owner: owner(), selector });
    let mut needs = Needs { owner: Some(owner()), ..Needs::default() };
    needs.requests.charged.scalars = [("example.com/gpu".into(), 1)].into();
    needs.volumes.namespace = "default".into();
    needs.volumes.volumes = [Volume::Claim("data".into())].into();
    let ask = ledger.hold("default", &labels(&[("app", "web")]), &needs);
    let check = |plugin, change: Change, plain: Hint, by_strict: Hint| {
        let found = [Profile::kubernetes(), strict()]
            .map(|profile| hint_by(&profile.arguments(), plugin, &ledger, ask, &change));
        assert_eq!(found, [plain, by_strict], "{plugin} {change:?}");
        assert_eq!(hint(plugin, &ledger, ask, &change), plain);
    };
    let (yes, no, missed) = (Hint::Yes, Hint::No, Hint::Missed);
    let gone = |pairs: &[(&str, &str)]| Change::Placed { old: bound(pairs), new: None };
    check(Plugin::PodTopologySpread, gone(&[("app", "web")]), no, yes);
    check(Plugin::PodTopologySpread, gone(&[("app", "db")]), no, no);
    let owners = |namespace: &str| Change::Owners(namespace.into());
    check(Plugin::PodTopologySpread, owners("default"), no, missed(Missed::Owners));
    check(Plugin::PodTopologySpread, owners("other"), no, no);
    check(Plugin::NodeResourcesFit, owners("default"), no, no);
    let added = |pairs| Change::Node { old: None, new: node(pairs) };
    check(Plugin::PodTopologySpread, added(&[("disk", "a")]), yes, yes);
    check(Plugin::PodTopologySpread, added(&[]), yes, no);
    check(Plugin::NodeAffinity, added(&[]), yes, no);
    check(Plugin::NodeAffinity, added(&[("zone", "a")]), yes, yes);
    let relabelled = Change::Node { old: node(&[]), new: node(&[("zone", "a")]) };
    check(Plugin::NodeAffinity, relabelled, no, missed(Missed::AddedAffinity));
    check(Plugin::NodeResourcesFit, added(&[]), no, missed(Missed::IgnoredResources));
    let new_node = missed(Missed::NewNode);
    check(Plugin::NodeVolumeLimits, added(&[]), new_node, new_node);
}

fn claim(class: &str, volume: Option<&str>) -> Claim {
    Claim {
        uid: Box::default(),
        version: Version::default(),
        class: class.into(),
        request: None,
        access_modes: Box::default(),
        is_block: false,
        attributes_class: Box::default(),
        selector: Selector::everything(),
        volume: volume.map(Into::into),
        bind_completed: volume.is_some(),
        is_lost: false,
        is_going: false,
        selected_node: None,
        controller: None,
    }
}

fn volume(class: &str) -> PersistentVolume {
    PersistentVolume {
        version: Version::default(),
        class: class.into(),
        capacity: Quantity::ZERO,
        access_modes: Box::default(),
        is_block: false,
        attributes_class: Box::default(),
        claim: None,
        is_available: true,
        is_going: false,
        labels: BTreeMap::new(),
        reach: None,
        reach_taken_over: None,
        zones: Box::default(),
        source: Source::Other,
    }
}

fn class() -> Class {
    Class { provisioner: "csi".into(), waits: true, topologies: Box::default() }
}

fn told_claim(name: &str, claim: Option<Claim>) -> StorageFact {
    StorageFact::Claim("default".into(), name.into(), claim.map(Box::new))
}

fn told_volume(name: &str, volume: Option<PersistentVolume>) -> StorageFact {
    StorageFact::Volume(name.into(), volume.map(Box::new))
}

fn told_class(name: &str) -> StorageFact {
    StorageFact::Class(name.into(), Some(class()))
}

/// What the plugins for restrictions, limits, binding and zones say of a change to one who has the
/// claims `open`, of class `late` and without a volume, and `done`, with the volume `disk`.
fn check(steps: &[StorageFact], expected: [Hint; 4]) {
    let mut ledger = Ledger::default();
    let first = [
        told_class("late"),
        told_claim("open", Some(claim("late", None))),
        told_claim("done", Some(claim("late", Some("disk")))),
        told_volume("disk", Some(volume("late"))),
    ];
    first.into_iter().for_each(|fact| ledger.apply(Fact::Storage(fact)));
    let claims = ["open", "done"].map(|name| Volume::Claim(name.into()));
    let volumes = Volumes { namespace: "default".into(), volumes: claims.into() };
    let needs = Needs { volumes, ..Needs::default() };
    let ask = ledger.hold("default", &BTreeMap::new(), &needs);
    let mut change = None;
    for step in steps {
        let fact = Fact::Storage(step.clone());
        change = Change::of(&ledger, &fact);
        ledger.apply(fact);
    }
    let change = change.expect("the last step changes something");
    let plugins = [
        Plugin::VolumeRestrictions,
        Plugin::NodeVolumeLimits,
        Plugin::VolumeBinding,
        Plugin::VolumeZone,
    ];
    assert_eq!(plugins.map(|plugin| hint(plugin, &ledger, ask, &change)), expected, "{change:?}");
    assert_eq!(hint(Plugin::NodeResourcesFit, &ledger, ask, &change), Hint::No);
}

const MISSED: Hint = Hint::Missed(Missed::Storage);

#[test]
fn claims_and_volumes_concern_pods_that_have_them_or_could_get_them() {
    use Hint::{No, Vain, Yes};
    check(&[told_claim("another", Some(claim("late", None)))], [No; 4]);
    let elsewhere =
        StorageFact::Claim("other".into(), "open".into(), Some(Box::new(claim("late", Some("v")))));
    check(&[elsewhere], [No; 4]);
    check(&[told_claim("open", Some(claim("late", Some("v"))))], [No, MISSED, Yes, Yes]);
    check(&[told_claim("open", None)], [No; 4]);
    let gone_before = [told_claim("open", None), told_claim("open", Some(claim("late", None)))];
    check(&gone_before, [Yes; 4]);
    check(&[told_volume("new", Some(volume("late")))], [No, MISSED, Yes, Vain]);
    check(&[told_volume("new", Some(volume("early")))], [No, MISSED, Vain, Vain]);
    let taken = PersistentVolume { is_available: false, ..volume("late") };
    check(&[told_volume("disk", Some(taken))], [No, No, Yes, No]);
    let zone = Zone { label: "topology.kubernetes.io/zone", values: ["a".into()].into() };
    let moved = PersistentVolume { zones: [zone].into(), ..volume("late") };
    check(&[told_volume("disk", Some(moved))], [No, No, Yes, Yes]);
    check(&[told_volume("disk", None)], [No, MISSED, MISSED, No]);
}

#[test]
fn classes_drivers_room_and_attachments_concern_pods_whose_volumes_are_of_them() {
    use Hint::{No, Vain, Yes};
    check(&[told_class("early")], [No, MISSED, Vain, Vain]);
    check(&[StorageFact::Class("late".into(), None), told_class("late")], [No, MISSED, Yes, Yes]);
    check(&[StorageFact::Class("late".into(), None)], [No, MISSED, No, No]);
    let node = |limit: Option<i32>, taken_over: &str| {
        let limits = limit.map(|limit| ("csi".into(), limit)).into_iter().collect();
        let csi = CsiNode { limits, taken_over: [taken_over.into()].into() };
        StorageFact::CsiNode("node".into(), Some(csi))
    };
    check(&[node(Some(1), "")], [No, Vain, Yes, No]);
    check(&[node(Some(1), ""), node(Some(2), "")], [No, Yes, No, No]);
    check(&[node(Some(2), ""), node(Some(1), "")], [No; 4]);
    check(&[node(Some(2), ""), node(None, "")], [No, MISSED, No, No]);
    check(&[node(None, ""), node(None, "aws")], [No, MISSED, Yes, No]);
    let driver = |name: &str, tells_capacity| {
        StorageFact::CsiDriver(name.into(), Some(CsiDriver { tells_capacity }))
    };
    check(&[driver("csi", true)], [No; 4]);
    check(&[driver("csi", true), driver("csi", false)], [No, No, MISSED, No]);
    check(&[driver("other", true), driver("other", false)], [No; 4]);
    let room = |class: &str, largest_bytes| {
        let (class, nodes) = (class.into(), Selector::everything());
        let capacity = Capacity { class, largest_bytes: Some(largest_bytes), nodes };
        StorageFact::Capacity("default".into(), "room".into(), Some(capacity))
    };
    check(&[room("late", 1)], [No, No, Yes, No]);
    check(&[room("early", 1)], [No, No, Vain, No]);
    check(&[room("late", 1), room("late", 2)], [No, No, Yes, No]);
    check(&[room("late", 2), room("late", 1)], [No; 4]);
    let attached = |there: bool| {
        let (node, attacher, volume) = ("node".into(), "csi".into(), Some("disk".into()));
        let attachment = there.then_some(Attachment { node, attacher, volume });
        StorageFact::Attachment("attached".into(), attachment)
    };
    check(&[attached(true)], [No; 4]);
    check(&[attached(true), attached(false)], [No, Yes, No, No]);
}

#[test]
fn a_pod_that_goes_cures_what_it_did_not_share() {
    let check = |own: Volume, theirs: Volume, namespace: &str, expected: [Hint; 2]| {
        let mut ledger = Ledger::default();
        let for_one =
            |modes: &str| Claim { access_modes: [modes.into()].into(), ..claim("", None) };
        for (name, mode) in [("one", "ReadWriteOncePod"), ("many", "ReadWriteMany")] {
            ledger.apply(Fact::Storage(told_claim(name, Some(for_one(mode)))));
        }
        let of = |namespace: &str, volume| {
            let volumes = Volumes { namespace: namespace.into(), volumes: [volume].into() };
            Needs { volumes, ..Needs::default() }
        };
        let ask = ledger.hold("default", &BTreeMap::new(), &of("default", own));
        let mut gone = PodFact::new("gone", namespace, "gone");
        (gone.node, gone.needs) = (Some("node".into()), of(namespace, theirs));
        let change = Change::Placed {
            old: Some(Box::new(PodView::of_fact(&Ledger::default(), &gone))),
            new: None,
        };
        let found = [Plugin::VolumeRestrictions, Plugin::NodeVolumeLimits]
            .map(|plugin| hint(plugin, &ledger, ask, &change));
        assert_eq!(found, expected, "{change:?}");
    };
    let named = |name: &str| Volume::Claim(name.into());
    let disk = || Volume::Disk(Disk::Gce { name: "disk".into(), read_only: false });
    let image = || Volume::Disk(Disk::Iscsi { iqn: "image".into(), read_only: false });
    use Hint::{No, Vain, Yes};
    check(named("one"), named("one"), "default", [Yes, Yes]);
    check(named("one"), named("one"), "other", [No, Yes]);
    check(named("many"), named("many"), "default", [Vain, Yes]);
    check(named("one"), named("many"), "default", [No, Yes]);
    check(disk(), disk(), "default", [Yes, Yes]);
    check(disk(), disk(), "other", [Hint::Missed(Missed::SharedDisk), Yes]);
    check(image(), image(), "default", [Yes, No]);
}

#[test]
fn the_node_that_a_pod_did_not_get_is_for_others() {
    const NOW: Moment = Moment(1_000_000_000_000_000_000);
    let profiles = vec![("default-scheduler".into(), Profile::kubernetes())];
    let mut engine = Engine::new(Settings::default(), profiles, NOW);
    let small = NodeFact { pods_allowed: 1, ..*node(&[]).unwrap() };
    engine.apply(Fact::Node(small), NOW);
    let pod = |name: &str| PodFact::new(name, "default", name);
    for name in ["one", "two"] {
        engine.apply(Fact::Pod(Box::new(pod(name))), NOW);
    }
    let bound = |engine: &mut Engine| {
        let decision = engine.decide(NOW)?;
        Some((decision.pod.name.clone(), matches!(decision.verdict, Verdict::Bind(..))))
    };
    assert_eq!(bound(&mut engine), Some(("one".into(), true)));
    assert_eq!(bound(&mut engine), Some(("two".into(), false)));
    assert_eq!(bound(&mut engine), None);
    // Somebody else was faster.
    let elsewhere = PodFact { node: Some("elsewhere".into()), ..pod("one") };
    engine.apply(Fact::Pod(Box::new(elsewhere)), NOW);
    assert_eq!(bound(&mut engine), Some(("two".into(), true)));
}

#[test]
fn a_volume_that_was_promised_in_vain_is_for_the_next() {
    const NOW: Moment = Moment(1_000_000_000_000_000_000);
    let check = |end: &dyn Fn(&mut Engine)| {
        let profiles = vec![("default-scheduler".into(), Profile::kubernetes())];
        let mut engine = Engine::new(Settings::default(), profiles, NOW);
        let nobody = Class { provisioner: "".into(), ..class() };
        let facts = [
            StorageFact::Class("late".into(), Some(nobody)),
            told_volume("disk", Some(volume("late"))),
            told_claim("one", Some(claim("late", None))),
            told_claim("two", Some(claim("late", None))),
        ];
        engine.apply(Fact::Node(*node(&[]).unwrap()), NOW);
        facts.into_iter().for_each(|fact| engine.apply(Fact::Storage(fact), NOW));
        for name in ["one", "two"] {
            let mut pod = PodFact::new(name, "default", name);
            pod.needs.volumes.namespace = "default".into();
            pod.needs.volumes.volumes = [Volume::Claim(name.into())].into();
            engine.apply(Fact::Pod(Box::new(pod)), NOW);
        }
        let decided = |engine: &mut Engine| {
            let decision = engine.decide(NOW)?;
            Some((decision.pod.name.clone(), matches!(decision.verdict, Verdict::Prepare(..))))
        };
        assert_eq!(decided(&mut engine), Some(("one".into(), true)));
        assert_eq!(decided(&mut engine), Some(("two".into(), false)));
        assert_eq!(decided(&mut engine), None);
        end(&mut engine);
        assert_eq!(decided(&mut engine), Some(("two".into(), true)));
    };
    let uid = || Uid::new("one");
    check(&|engine| engine.answered(&uid(), Answer::Refused, NOW));
    check(&|engine| engine.answered(&uid(), Answer::Lost, NOW));
    check(&|engine| engine.apply(Fact::PodGone(uid()), NOW));
}
