use super::*;
use crate::group::NodeGroup;

/// What a type says of its layout: CPUs, threads, NUMA nodes, sockets and policy, or what is wrong.
fn check(value: &str, want: &str) {
    let told = match value.parse::<NodeGroup>().map(|group| group.layout) {
        Ok(None) => "none".to_owned(),
        Ok(Some(own)) => {
            let Layout { cpus, threads, numas, sockets, .. } = own;
            format!("{cpus} {threads} {numas} {sockets} {}", own.word())
        }
        Err(error) => format!("{}: {}", error.piece, error.problem),
    };
    assert_eq!(told, want, "{value}");
}

#[test]
fn cpus_are_dealt_out_evenly() {
    check("1", "8 2 1 1 None");
    check("3cpu", "3 1 1 1 None");
    check("1cpu", "1 1 1 1 None");
    check("8000mcpu", "8 2 1 1 None");
    check("8cpu,numa=2", "8 2 2 2 None");
    check("numa=2,6cpu", "6 1 2 2 None");
    check("64cpu,numa=4,sockets=2", "64 2 4 2 None");
    check("64cpu,sockets=2", "64 2 2 2 None");
    check("8cpu,threads=1", "8 1 1 1 None");
    check("1024cpu,threads=8,numa=128,sockets=1", "1024 8 128 1 None");
    check("numa-policy=BestEffort", "8 2 1 1 BestEffort");
    check("numa-policy=Restricted", "8 2 1 1 Restricted");
    check("numa=2,numa-policy=SingleNUMANode", "8 2 2 2 SingleNUMANodePodLevel");
    check("numa-policy=None", "8 2 1 1 None");
}

#[test]
fn a_node_without_whole_cpus_has_no_layout_unless_one_is_asked_for() {
    check("500mcpu", "none");
    check("1500mcpu", "none");
    check("1025cpu", "none");
    check("numa=none", "none");
    check("500mcpu,numa=none", "none");
    let whole = |cpus: &str, piece: &str| {
        format!(
            "{piece}: a layout needs whole CPUs, 1 to 1024, and there are {cpus}; write 8cpu, \
             say, or remove {piece}"
        )
    };
    check("1500mcpu,numa=2", &whole("1500m", "numa=2"));
    check("threads=1,1025cpu", &whole("1025", "threads=1"));
    check("500mcpu,numa-policy=None", &whole("500m", "numa-policy=None"));
}

#[test]
fn what_does_not_add_up_is_refused_with_the_fix() {
    let more = ", or numa=none for a node that does not report where its CPUs are";
    for (value, key, more) in [("0", "numa", more), ("-1", "sockets", ""), ("1.5", "threads", "")] {
        let problem = format!("{value:?} is no whole number above zero; write {key}=1 or more");
        check(&format!("{key}={value}"), &format!("{key}={value}: {problem}{more}"));
    }
    check(
        "8cpu,numa=3",
        "numa=3: 8 CPUs cannot be dealt out evenly over 3 NUMA nodes; write 6cpu or 9cpu, or \
         another number of NUMA nodes",
    );
    check(
        "2cpu,sockets=4",
        "sockets=4: 2 CPUs cannot be dealt out evenly over 4 NUMA nodes; write 4cpu, or another \
         number of NUMA nodes",
    );
    check(
        "8cpu,numa=4,sockets=3",
        "sockets=3: numa=4 cannot be dealt out evenly over 3 sockets; write sockets=4, or another \
         number that divides it",
    );
    check(
        "8cpu,numa=2,threads=3",
        "threads=3: the CPUs of a NUMA node, 4, cannot be cores of 3 threads; write threads=1, or \
         another number that divides 4",
    );
    check(
        "numa-policy=single-numa-node",
        "numa-policy=single-numa-node: \"single-numa-node\" is no policy; write None, BestEffort, \
         Restricted or SingleNUMANode",
    );
    check(
        "numa=none,threads=1",
        "threads=1: numa=none leaves nothing to lie anywhere; remove one of the two",
    );
    check("numa=2,numa=2", "numa=2: numa is given twice; remove one");
    check(
        "numa=4294967295",
        "numa=4294967295: 8 CPUs cannot be dealt out evenly over 4294967295 NUMA nodes; write \
         4294967295cpu, or another number of NUMA nodes",
    );
}

fn report_of(value: &str) -> NodeResourceTopology {
    let group: NodeGroup = value.parse().unwrap();
    let owner = OwnerReference {
        api_version: "v1".to_owned(),
        kind: "Node".to_owned(),
        name: "node-0000".to_owned(),
        uid: "1".to_owned(),
        ..OwnerReference::default()
    };
    group.layout.unwrap().report(owner, &group.capacity["memory"])
}

#[test]
fn a_report_says_where_each_cpu_is_and_what_each_numa_node_has() {
    let report = report_of("8cpu,30Gi,numa=4,sockets=2,threads=1,numa-policy=SingleNUMANode");
    let cpus: Vec<String> = api::cpus::Layout::of(&report)
        .cpus
        .iter()
        .map(|cpu| format!("{} {} {} {}", cpu.id, cpu.core, cpu.node, cpu.socket))
        .collect();
    assert_eq!(
        cpus,
        ["0 0 0 0", "1 1 0 0", "2 2 1 0", "3 3 1 0", "4 4 2 1", "5 5 2 1", "6 6 3 1", "7 7 3 1"]
    );
    let zones = report.zones.iter().map(|zone| {
        let amounts = zone.resources.iter().map(|own| {
            assert_eq!([&own.allocatable, &own.available], [&own.capacity; 2]);
            format!(" {}={}", own.name, own.capacity)
        });
        format!("{}{}", zone.name, amounts.collect::<String>())
    });
    let zones: Vec<String> = zones.collect();
    assert_eq!(zones[3], "node-3 cpu=2 memory=7680Mi");
    assert_eq!(report.zones.iter().filter_map(Zone::numa).collect::<Vec<_>>(), [0, 1, 2, 3]);
    assert_eq!(report.topology_policies, ["SingleNUMANodePodLevel"]);
    // Threads of a core have numbers in a row.
    let report = report_of("4cpu");
    let detail = &report.metadata.annotations[CPU_TOPOLOGY];
    let start = r#"{"detail":[{"core":0,"id":0,"node":0,"socket":0},{"core":0,"id":1,"#;
    assert!(detail.starts_with(start), "{detail}");
}

#[test]
fn a_report_is_held_against_what_others_made_of_it() {
    let own = report_of("8cpu,numa=2");
    let check = |change: &dyn Fn(&mut NodeResourceTopology), expected: bool| {
        let mut seen = own.clone();
        change(&mut seen);
        assert_eq!(says(&seen, &own), expected, "{seen:?}");
    };
    check(&|_| {}, true);
    check(&|seen| drop(seen.metadata.annotations.insert("more".into(), "theirs".into())), true);
    let gpu = |seen: &mut NodeResourceTopology| {
        let gpu = ZoneResource { name: "example.com/gpu".into(), ..ZoneResource::default() };
        seen.zones[1].resources.insert(0, gpu);
    };
    check(&gpu, true);
    let detail = r#"{"detail":[]}"#;
    check(
        &|seen| drop(seen.metadata.annotations.insert(CPU_TOPOLOGY.into(), detail.into())),
        false,
    );
    check(&|seen| seen.topology_policies.push("Restricted".into()), false);
    check(&|seen| drop(seen.zones.pop()), false);
    check(&|seen| seen.zones.push(Zone::default()), false);
    check(&|seen| seen.zones[0].resources[1].allocatable = Quantity::default(), false);
    check(&|seen| seen.zones[0].r#type = "Socket".into(), false);
    check(&|seen| seen.metadata.owner_references[0].uid = "2".into(), false);
}
