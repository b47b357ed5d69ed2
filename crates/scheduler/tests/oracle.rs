//! The configuration against the real scheduler's own code: a file that one accepts, the other
//! accepts; and what then runs at each extension point, in which order and with which weight, is
//! the same.

use std::collections::BTreeMap;

use scheduler::config::{self, Configuration, ExtensionPoint};
use serde_json::{Value, json};
use truth::{Binaries, Oracle};

/// What the real scheduler says to a file without extenders that it could run with; the oracle
/// takes none.
const NO_EXTENDERS: &str = "the oracle asks no extenders";

/// Files that both accept.
const GOOD: &[&str] = &[
    "",
    "profiles: [{schedulerName: a}, {schedulerName: b, percentageOfNodesToScore: 30}]",
    "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity, weight: 7}]}}}]",
    "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeDeclaredFeatures}]}}}]",
    "profiles: [{plugins: {multiPoint: {disabled: [{name: ImageLocality}, {name: NodeName}]}}}]",
    "profiles: [{plugins: {multiPoint: {disabled: [{name: '*'}], enabled: [{name: DefaultBinder}, \
     {name: PrioritySort}, {name: NodeResourcesFit}, {name: NodeAffinity, weight: 3}]}}}]",
    "profiles: [{plugins: {multiPoint: {disabled: [{name: NodeAffinity}], enabled: [{name: \
     NodeAffinity, weight: 9}]}}}]",
    "profiles: [{plugins: {score: {enabled: [{name: InterPodAffinity, weight: 5}, {name: \
     NodeAffinity}]}}}]",
    "profiles: [{plugins: {score: {disabled: [{name: '*'}], enabled: [{name: ImageLocality, weight: \
     4}, {name: TaintToleration}]}}}]",
    "profiles: [{plugins: {score: {disabled: [{name: NodeResourcesFit}, {name: ImageLocality}]}, \
     filter: {disabled: [{name: NodePorts}]}, preScore: {disabled: [{name: '*'}]}}}]",
    "profiles: [{plugins: {filter: {enabled: [{name: VolumeZone}, {name: NodeName}]}, multiPoint: \
     {disabled: [{name: NodeName}]}}}]",
    "profiles: [{plugins: {filter: {enabled: [{name: NodeName}], disabled: [{name: NodeName}]}}}]",
    "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}, \
     filter: {enabled: [{name: NodeAffinity}]}, preFilter: {disabled: [{name: '*'}]}, preScore: \
     {disabled: [{name: NodeAffinity}]}, score: {enabled: [{name: NodeAffinity}]}}}]",
    "profiles: [{plugins: {queueSort: {disabled: [{name: '*'}], enabled: [{name: PrioritySort}]}, \
     postFilter: {disabled: [{name: '*'}]}, filter: {disabled: [{name: EBSLimits}]}}}]",
    "profiles: [{pluginConfig: [{name: NodeResourcesFit}, {name: NodeAffinity, args: {}}, {name: \
     ImageLocality}, {name: VolumeBinding, args: null}]}]",
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {apiVersion: \
     kubescheduler.config.k8s.io/v1, kind: NodeResourcesFitArgs, ignoredResources: [a.b/c], \
     ignoredResourceGroups: [d.e], scoringStrategy: {type: MostAllocated, resources: [{name: cpu}, \
     {name: x.y/z, weight: 100}]}}}]}]",
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: \
     RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 0, score: 0}, \
     {utilization: 100, score: 10}]}}}}]}]",
    "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: \
     cpu, weight: 1}, {name: memory}]}}, {name: InterPodAffinity, args: {hardPodAffinityWeight: 0, \
     ignorePreferredTermsOfExistingPods: true}}, {name: DefaultPreemption, args: \
     {minCandidateNodesPercentage: 0}}, {name: DynamicResources, args: {filterTimeout: 0s}}, {name: \
     VolumeBinding, args: {bindTimeoutSeconds: 0}}]}]",
    "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, \
     defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}, \
     {maxSkew: 2, topologyKey: zone, whenUnsatisfiable: ScheduleAnyway}]}}]}]",
    "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: \
     {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: \
     a, operator: Gt, values: ['1']}], matchFields: [{key: metadata.name, operator: In, values: \
     [node]}]}, {}]}, preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: \
     {matchExpressions: [{key: b, operator: Exists}]}}]}}}]}]",
    "parallelism: 1\npodInitialBackoffSeconds: 5\npodMaxBackoffSeconds: 5\nenableProfiling: false\n\
     enableContentionProfiling: true\ndelayCacheUntilActive: true\npercentageOfNodesToScore: 100",
    "leaderElection: {leaderElect: false, leaseDuration: 1s, renewDeadline: 2s}",
    "leaderElection: {resourceName: x, resourceNamespace: z, resourceLock: leases, leaseDuration: 0s}",
    "clientConnection: {kubeconfig: /a, qps: 0.5, burst: 0, contentType: application/json}",
    "extenders: [{urlPrefix: 'http://e/s', filterVerb: f, prioritizeVerb: p, weight: 2, bindVerb: b, \
     enableHTTPS: true, httpTimeout: 1s, nodeCacheCapable: true, ignorable: true, managedResources: \
     [{name: a.b/c, ignoredByScheduler: true}], tlsConfig: {serverName: e, certData: YQ==, keyData: \
     YQ==, caData: YQ==}}]",
];

/// Files that both refuse.
const BAD: &[&str] = &[
    "paralellism: 1",
    "parallelism: 0",
    "parallelism: 1.5",
    "parallelism: '1'",
    "parallelism: 3000000000",
    "percentageOfNodesToScore: -1",
    "podInitialBackoffSeconds: 0",
    "podMaxBackoffSeconds: 0",
    "clientConnection: {burst: -1}",
    "clientConnection: {qps: 1e39}",
    "leaderElection: {leaseDuration: 10s}",
    "leaderElection: {leaseDuration: -1s}",
    "leaderElection: {leaseDuration: 15}",
    "leaderElection: {resourceLock: endpoints}",
    "profiles: [{schedulerName: ''}]",
    "profiles: [{}, {schedulerName: a}]",
    "profiles: [{schedulerName: a}, {schedulerName: a}]",
    "profiles: [{percentageOfNodesToScore: 101}]",
    "profiles: [{plugins: {filters: {}}}]",
    "profiles: [{plugins: {multiPoint: {enabled: [{name: Fast}]}}}]",
    "profiles: [{plugins: {multiPoint: {enabled: [{weight: 1}]}}}]",
    "profiles: [{plugins: {filter: {enabled: [{name: EBSLimits}]}}}]",
    "profiles: [{plugins: {filter: {enabled: [{name: ImageLocality}]}}}]",
    "profiles: [{plugins: {filter: {enabled: [{name: NodeName}, {name: NodeName}]}}}]",
    "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeAffinity}, {name: NodeAffinity}]}}}]",
    "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: -1}]}}}]",
    "profiles: [{plugins: {queueSort: {disabled: [{name: '*'}]}}}]",
    "profiles: [{plugins: {multiPoint: {disabled: [{name: PrioritySort}]}}}]",
    "profiles: [{plugins: {queueSort: {enabled: [{name: PrioritySort}, {name: PrioritySort}]}}}]",
    "profiles: [{plugins: {bind: {disabled: [{name: DefaultBinder}]}}}]",
    "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: [{name: \
     PrioritySort}]}}}]",
    "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]",
    "profiles: [{pluginConfig: [{name: NodeAffinity, args: {kind: InterPodAffinityArgs}}]}]",
    "profiles: [{pluginConfig: [{name: NodeAffinity, args: []}]}]",
    "profiles: [{pluginConfig: [{name: NodeAffinity, args: {added: 1}}]}]",
    "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: \
     {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchExpressions: [{key: \
     a, operator: In}]}]}}}}]}]",
    "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: \
     {preferredDuringSchedulingIgnoredDuringExecution: [{weight: 1, preference: {matchFields: [{key: \
     metadata.name, operator: Exists}]}}]}}}]}]",
    "profiles: [{pluginConfig: [{name: InterPodAffinity, args: {hardPodAffinityWeight: 101}}]}]",
    "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesPercentage: 0, \
     minCandidateNodesAbsolute: 0}}]}]",
    "profiles: [{pluginConfig: [{name: DefaultPreemption, args: {minCandidateNodesAbsolute: -1}}]}]",
    "profiles: [{pluginConfig: [{name: VolumeBinding, args: {bindTimeoutSeconds: -1}}]}]",
    "profiles: [{pluginConfig: [{name: VolumeBinding, args: {shape: []}}]}]",
    "profiles: [{pluginConfig: [{name: DynamicResources, args: {filterTimeout: -1s}}]}]",
    "profiles: [{pluginConfig: [{name: DynamicResources, args: {bindingTimeout: 10s}}]}]",
    "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultConstraints: [{maxSkew: 1, \
     topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}}]}]",
    "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, \
     defaultConstraints: [{maxSkew: 0, topologyKey: zone, whenUnsatisfiable: DoNotSchedule}]}}]}]",
    "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: Other}}]}]",
    "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: \
     cpu}, {name: cpu}]}}]}]",
    "profiles: [{pluginConfig: [{name: NodeResourcesBalancedAllocation, args: {resources: [{name: \
     cpu, weight: 2}]}}]}]",
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {}}}]}]",
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {ignoredResourceGroups: [a/b]}}]}]",
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: \
     RequestedToCapacityRatio, requestedToCapacityRatio: {shape: [{utilization: 1, score: 1}, \
     {utilization: 0, score: 1}]}}}}]}]",
    // The real scheduler does not survive this one.
    "profiles: [{pluginConfig: [{name: NodeResourcesFit, args: {scoringStrategy: {type: \
     RequestedToCapacityRatio}}}]}]",
    "extenders: [{urlPrefix: 'http://e', prioritizeVerb: p}]",
    "extenders: [{urlPrefix: 'http://e', managedResources: [{name: cpu}]}]",
    "extenders: [{urlPrefix: 'http://e', bindVerb: b}, {urlPrefix: 'http://f', bindVerb: b}]",
];

/// Files that we refuse and the real scheduler does not: each would be ignored there in silence, or
/// asks for what we do not have.
const STRICTER: &[&str] = &[
    "profiles: [{plugins: {score: {disabled: [{name: NodeAfinity}]}}}]",
    "profiles: [{pluginConfig: [{name: NodeAfinity, args: {}}]}]",
    "profiles: [{pluginConfig: [{name: ImageLocality, args: {weight: 1}}]}]",
    "profiles: [{plugins: {multiPoint: {enabled: [{name: GangScheduling}]}}}]",
    "profiles: [{pluginConfig: [{name: PodTopologySpread, args: {defaultingType: List, \
     defaultConstraints: [{maxSkew: 1, topologyKey: zone, whenUnsatisfiable: DoNotSchedule, \
     minDomains: 2}]}}]}]",
    "profiles: [{pluginConfig: [{name: NodeAffinity, args: {addedAffinity: \
     {requiredDuringSchedulingIgnoredDuringExecution: {nodeSelectorTerms: [{matchFields: [{key: \
     metadata.uid, operator: In, values: [node]}]}]}}}}]}]",
    // Its leader election refuses this later, when it begins.
    "leaderElection: {renewDeadline: 2s, retryPeriod: 2s}",
    "extenders: [{urlPrefix: 'http://e', preemptVerb: p}]",
    "extenders: [{filterVerb: f}]",
    "extenders: [{urlPrefix: 'http://e', httpTimeout: -1s}]",
    "extenders: [{urlPrefix: 'http://e', tlsConfig: {certFile: a}}]",
];

struct Compared {
    oracle: Oracle,
    differences: Vec<String>,
}

impl Compared {
    fn check(&mut self, body: &str, ours_expected: bool, truth_expected: bool) {
        let text = format!("apiVersion: {}\nkind: {}\n{body}\n", config::API_VERSION, config::KIND);
        let ours = config::parse("s.yaml".as_ref(), &text);
        let truth = self.oracle.ask(&json!({"config": text, "plugins": true}));
        let refused = truth.as_ref().err().map(ToString::to_string);
        let refused = refused.filter(|reason| !reason.contains(NO_EXTENDERS));
        if ours.is_ok() != ours_expected || refused.is_none() != truth_expected {
            let ours = ours.as_ref().err().map(ToString::to_string);
            self.differences.push(format!("{body}\n  ours: {ours:?}\n  truth: {refused:?}"));
        }
        if let (Ok(ours), Ok(truth)) = (ours, truth) {
            let ours = lineups(&ours);
            if ours != truth["plugins"] {
                let truth = &truth["plugins"];
                self.differences.push(format!("{body}\n  ours: {ours}\n  truth: {truth}"));
            }
        }
    }
}

/// What runs in each profile at each point, as the oracle writes it.
fn lineups(configuration: &Configuration) -> Value {
    let profiles = configuration.profiles.iter().map(|profile| {
        let weights: BTreeMap<_, _> = profile.lineup.scores().collect();
        let points = ExtensionPoint::ALL.into_iter().filter_map(|point| {
            let plugins = profile.lineup.at(point).iter().map(|plugin| match point {
                ExtensionPoint::Score => json!({"name": plugin.name(), "weight": weights[plugin]}),
                _ => json!({"name": plugin.name()}),
            });
            let plugins: Vec<Value> = plugins.collect();
            (!plugins.is_empty()).then(|| (point.field().to_owned(), Value::Array(plugins)))
        });
        (profile.scheduler_name.clone(), Value::Object(points.collect()))
    });
    Value::Object(profiles.collect())
}

#[test]
fn what_is_accepted_and_what_then_runs_is_as_in_the_real_scheduler() {
    let oracle = Oracle::start(&Binaries::locate(&|line| eprintln!("{line}"))).unwrap();
    let mut compared = Compared { oracle, differences: Vec::new() };
    for (bodies, ours, truth) in [(GOOD, true, true), (BAD, false, false), (STRICTER, false, true)]
    {
        for body in bodies {
            compared.check(body, ours, truth);
        }
    }
    assert!(compared.differences.is_empty(), "{}", compared.differences.join("\n"));
}
