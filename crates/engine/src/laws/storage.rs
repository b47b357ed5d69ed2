//! Facts of storage, and volumes of pods, that have much to do with each other.

use std::collections::BTreeMap;

use object::quantity::{Format, Quantity};
use object::selector::label::Selector;
use proptest::collection::vec;
use proptest::option;
use proptest::prelude::*;
use proptest::sample::select;

use crate::fact::{
    Attachment, Capacity, Claim, ClaimReference, Class, CsiDriver, CsiNode, Fact, InTree,
    PersistentVolume, Source, StorageFact, TopologyRequirement, Version, Zone,
};
use crate::ledger::Ledger;
use crate::needs::{Disk, NodeTerm, Operator, Requirement, Volume, Volumes};

const CLAIMS: [&str; 3] = ["claim-0", "claim-1", "claim-2"];
const PERSISTENT: [&str; 4] = ["pv-0", "pv-1", "pv-2", "pv-3"];
const CLASSES: [&str; 2] = ["waits", "at-once"];
const DRIVER: &str = "csi.example.com";

fn name(of: &'static [&'static str]) -> impl Strategy<Value = Box<str>> {
    select(of).prop_map(Into::into)
}

fn node() -> impl Strategy<Value = Box<str>> {
    (0..12_u8).prop_map(|number| format!("node-{number}").into())
}

fn size() -> impl Strategy<Value = Quantity> {
    (1..6_i64).prop_map(|size| Quantity::from_units(size, Format::BinarySi))
}

fn modes() -> impl Strategy<Value = Box<[Box<str>]>> {
    name(&["ReadWriteOnce", "ReadWriteOncePod"]).prop_map(|mode| Box::new([mode]) as Box<[_]>)
}

/// Volumes of a pod.
pub fn volumes() -> impl Strategy<Value = Volumes> {
    let disk = any::<bool>().prop_map(|read_only| Disk::Gce { name: "disk".into(), read_only });
    let volume = prop_oneof![
        3 => name(&CLAIMS).prop_map(Volume::Claim),
        1 => disk.prop_map(Volume::Disk),
        1 => name(&CLAIMS).prop_map(|claim| Volume::Ephemeral {
            claim,
            pod: "pod".into(),
            uid: "owner".into(),
        }),
    ];
    let some = (name(&["default", "other"]), vec(volume, 1..3))
        .prop_map(|(namespace, volumes)| Volumes { namespace, volumes: volumes.into() });
    prop_oneof![2 => Just(Volumes::default()), 1 => some]
}

fn reach() -> impl Strategy<Value = Box<[NodeTerm]>> {
    let is = |key: &str, operator, values: &[&str]| Requirement {
        key: key.into(),
        operator,
        values: values.iter().map(|value| (*value).into()).collect(),
    };
    let requirement = prop_oneof![
        4 => Just(is("zone", Operator::In, &["a"])),
        1 => Just(is("disk", Operator::In, &["a", "b"])),
        1 => Just(is("zone", Operator::Exists, &[])),
    ];
    let term = vec(requirement, 1..3)
        .prop_map(|labels| NodeTerm { labels: labels.into(), fields: Box::default() });
    vec(term, 0..3).prop_map(Into::into)
}

fn persistent_volume() -> impl Strategy<Value = PersistentVolume> {
    let source = prop_oneof![
        Just(Source::Csi { driver: DRIVER.into(), handle: "handle".into() }),
        Just(Source::InTree { kind: InTree::Aws, handle: Some("vol-1".into()) }),
        Just(Source::Other),
    ];
    let claim = (name(&["default", "other"]), name(&CLAIMS))
        .prop_map(|(namespace, name)| ClaimReference { namespace, name, uid: "".into() });
    let zone = Zone { label: "topology.kubernetes.io/zone", values: Box::new(["a".into()]) };
    let zones = vec(Just(zone), 0..2);
    (
        name(&CLASSES),
        size(),
        modes(),
        option::weighted(0.2, claim),
        option::of(reach()),
        zones,
        source,
    )
        .prop_map(|(class, capacity, access_modes, claim, reach, zones, source)| {
            PersistentVolume {
                version: Version::default(),
                class,
                capacity,
                access_modes,
                is_block: false,
                attributes_class: "".into(),
                claim,
                is_available: true,
                is_going: false,
                labels: BTreeMap::new(),
                reach,
                reach_taken_over: None,
                zones: zones.into(),
                source,
            }
        })
}

fn claim() -> impl Strategy<Value = Claim> {
    let selected = option::weighted(0.1, node());
    (name(&CLASSES), size(), modes(), option::of(name(&PERSISTENT)), any::<bool>(), selected)
        .prop_map(|(class, request, access_modes, volume, bind_completed, selected_node)| Claim {
            uid: "claim".into(),
            version: Version::default(),
            class,
            request: Some(request),
            access_modes,
            is_block: false,
            attributes_class: "".into(),
            selector: Selector::everything(),
            volume,
            bind_completed,
            is_lost: false,
            is_going: false,
            selected_node,
            controller: Some("owner".into()),
        })
}

fn class() -> impl Strategy<Value = Class> {
    let topology =
        TopologyRequirement { key: "zone".into(), values: Box::new(["a".into(), "b".into()]) };
    let provisioner = name(&["kubernetes.io/no-provisioner", DRIVER]);
    (provisioner, any::<bool>(), vec(Just(Box::new([topology]) as Box<[_]>), 0..2)).prop_map(
        |(provisioner, waits, topologies)| Class {
            provisioner,
            waits,
            topologies: topologies.into(),
        },
    )
}

fn capacity() -> impl Strategy<Value = Capacity> {
    (name(&CLASSES), option::of(1..6_i64)).prop_map(|(class, largest_bytes)| Capacity {
        class,
        largest_bytes,
        nodes: Selector::everything(),
    })
}

fn csi_node() -> impl Strategy<Value = CsiNode> {
    (0..3_i32).prop_map(|limit| CsiNode {
        limits: [(DRIVER.into(), limit)].into_iter().collect(),
        taken_over: Box::new([InTree::Aws.name().into()]),
    })
}

fn attachment() -> impl Strategy<Value = Attachment> {
    (node(), name(&PERSISTENT)).prop_map(|(node, volume)| Attachment {
        node,
        attacher: DRIVER.into(),
        volume: Some(volume),
    })
}

/// Something of storage.
pub fn fact() -> impl Strategy<Value = StorageFact> {
    let namespace = || name(&["default", "other"]);
    let driver = any::<bool>().prop_map(|tells_capacity| CsiDriver { tells_capacity });
    prop_oneof![
        4 => (name(&PERSISTENT), option::weighted(0.8, persistent_volume().prop_map(Box::new)))
            .prop_map(|(name, volume)| StorageFact::Volume(name, volume)),
        4 => (namespace(), name(&CLAIMS), option::weighted(0.8, claim().prop_map(Box::new)))
            .prop_map(|(namespace, name, claim)| StorageFact::Claim(namespace, name, claim)),
        2 => (name(&CLASSES), option::weighted(0.8, class()))
            .prop_map(|(name, class)| StorageFact::Class(name, class)),
        2 => (node(), option::weighted(0.8, csi_node()))
            .prop_map(|(name, node)| StorageFact::CsiNode(name, node)),
        1 => option::weighted(0.8, driver)
            .prop_map(|driver| StorageFact::CsiDriver(DRIVER.into(), driver)),
        1 => (namespace(), option::weighted(0.8, capacity())).prop_map(|(namespace, capacity)| {
            StorageFact::Capacity(namespace, "room".into(), capacity)
        }),
        1 => (name(&CLAIMS), option::weighted(0.8, attachment()))
            .prop_map(|(name, attachment)| StorageFact::Attachment(name, attachment)),
    ]
}

/// All of it is gone.
pub fn gone() -> Vec<StorageFact> {
    let mut facts = vec![StorageFact::CsiDriver(DRIVER.into(), None)];
    facts.extend(PERSISTENT.map(|name| StorageFact::Volume(name.into(), None)));
    facts.extend(CLASSES.map(|name| StorageFact::Class(name.into(), None)));
    for namespace in ["default", "other"] {
        facts.extend(CLAIMS.map(|name| StorageFact::Claim(namespace.into(), name.into(), None)));
        facts.push(StorageFact::Capacity(namespace.into(), "room".into(), None));
    }
    facts.extend(CLAIMS.map(|name| StorageFact::Attachment(name.into(), None)));
    facts.extend((0..12).map(|number| StorageFact::CsiNode(format!("node-{number}").into(), None)));
    facts
}

proptest! {
    #[test]
    fn the_smallest_volume_that_nobody_has_is_found_by_the_labels_of_the_node(
        facts in vec(fact(), 1..40),
        node in super::labels(),
        least in size(),
    ) {
        let mut ledger = Ledger::default();
        facts.into_iter().for_each(|fact| ledger.apply(Fact::Storage(fact)));
        let label = |key: &str| node.get(key).map(|value| &**value);
        let reaches = |volume: &PersistentVolume| {
            let terms = volume.reach.as_deref();
            terms.is_none_or(|terms| terms.iter().any(|term| term.holds("", label)))
        };
        for class in CLASSES {
            let all = PERSISTENT.iter().filter_map(|name| Some((*name, ledger.storage.volume(name)?)));
            let fine = all.filter(|(_, volume)| {
                let free = *volume.class == *class && volume.claim.is_none();
                free && volume.capacity >= least && reaches(volume)
            });
            let smallest = fine.min_by(|(_, one), (_, other)| one.capacity.cmp(&other.capacity));
            let found = ledger.storage.smallest_free(class, &least, label, |_, own| reaches(own));
            prop_assert_eq!(found, smallest.map(|(name, _)| name));
        }
        for claim in CLAIMS {
            let of = |name: &&str| {
                let kept = ledger.storage.volume(name).and_then(|volume| volume.claim.as_ref());
                kept.is_some_and(|kept| *kept.namespace == *"default" && *kept.name == *claim)
            };
            let kept: Vec<&str> = PERSISTENT.iter().copied().filter(|name| of(name)).collect();
            let found = ledger.storage.kept_for("default", claim).map(|(name, ..)| name);
            prop_assert_eq!(found.collect::<Vec<_>>(), kept);
        }
    }
}
