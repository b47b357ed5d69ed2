//! Members of gangs: whoever is sent for one is recalled when its group gives up.

use api::pod_group::{GANG_MIN_AVAILABLE, GANG_NAME};
use engine::gangs::Settings;

use super::*;

/// A scheduler that has gangs start whole, on a node with four CPUs.
fn ganged() -> Core {
    let profile = Profile { gangs: Some(Settings::default()), ..Profile::kubernetes() };
    let engine = Engine::new(turn::Settings::default(), vec![(NAME.into(), profile)], START);
    begun(Core::new(engine, [NAME.into()], Meters::register(&Metrics::new())), 4)
}

/// A claim for which no volume is made yet.
fn claim(name: &str) -> Message {
    stored::<api::PersistentVolumeClaim>(json!({
        "metadata": { "name": name, "namespace": "ns", "uid": name },
        "spec": { "storageClassName": "late", "accessModes": ["ReadWriteOnce"],
                  "resources": { "requests": { "storage": "1Gi" } } },
        "status": { "phase": "Pending" },
    }))
}

/// A member of a gang of two, with a claim that is called as it is.
fn member(name: &str) -> Message {
    let told = json!({ GANG_NAME: "g", GANG_MIN_AVAILABLE: "2" });
    let volume = json!({ "name": "v", "persistentVolumeClaim": { "claimName": name } });
    let more = json!({ "metadata": { "annotations": told }, "spec": { "volumes": [volume] } });
    pod(name, "1", more)
}

#[test]
fn nothing_more_is_prepared_for_members_whose_group_gives_up() {
    let mut core = ganged();
    let class = json!({ "metadata": { "name": "late" }, "provisioner": "somebody",
                        "volumeBindingMode": "WaitForFirstConsumer" });
    tell(&mut core, [stored::<api::StorageClass>(class), claim("a"), claim("b")]);
    tell(&mut core, [member("a"), member("b")]);
    let orders = decisions(&mut core, START);
    assert_eq!(orders.iter().filter(|own| matches!(own, Order::Prepare(_))).count(), 2);
    let errand = errand(&core, "b");
    let recall = core.flights[&errand.uid].recall.clone().unwrap();
    let gone = StorageFact::Claim("ns".into(), "a".into(), None);
    tell(&mut core, [Message::Fact(Fact::Storage(gone))]);
    assert!(recall.is_recalled());
    assert_eq!((core.flights.len(), core.preparations, core.apart), (0, 0, 0));
    // What became of it says nothing of what comes next.
    let answer = Answer::Unprepared("no".into());
    assert_eq!(core.take(Message::Answered(errand, answer), START), None);
    let late = START.after(Duration::from_secs(60));
    assert_eq!(core.count_newly_late(late), 0, "nobody waits for volumes");
}
