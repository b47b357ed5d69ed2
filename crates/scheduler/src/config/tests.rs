mod groups;

use std::collections::BTreeMap;

use chassis::connection::Trust;
use engine::fact::{Aggregation, WindowLimits};
use engine::ledger::{EstimateSettings, LoadSettings, ScoreSettings, Stale};
use engine::plugin::Plugin;
use engine::profile::{LastResort, Profile};
use proptest::prelude::*;

use super::*;

fn configuration(body: &str) -> Result<Configuration, ConfigurationError> {
    let text = format!("apiVersion: {API_VERSION}\nkind: {KIND}\n{body}\n");
    parse("s.yaml".as_ref(), &text)
}

/// What is said of a body, without the name of the file.
fn refusal(body: &str) -> String {
    let told = configuration(body).expect_err(body).to_string();
    told.strip_prefix("configuration s.yaml: ").unwrap().to_owned()
}

fn check(body: &str, expected: &str) {
    assert_eq!(refusal(body), expected, "{body}");
}

/// The same for the arguments of a plugin.
fn check_args(plugin: &str, args: &str, expected: &str) {
    let body = format!("profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]");
    check(&body, &format!("profiles[0].pluginConfig[0].args{expected}"));
}

#[test]
fn the_default_configuration_is_that_of_kube_scheduler() {
    insta::assert_debug_snapshot!(Configuration::default());
    let (file, none) = (configuration("").unwrap(), Configuration::default());
    assert_eq!(format!("{file:?}"), format!("{none:?}"));
}

#[test]
fn the_default_profile_is_the_one_of_the_engine() {
    let names = |profile: &Profile| {
        let filters = profile.filters.iter().map(|filter| filter.plugin().to_string());
        let scores = profile.scores.iter();
        let scores = scores.map(|(score, weight)| format!("{} {}", score.plugin(), weight.0));
        let last_resorts = profile.last_resorts.clone();
        (filters.collect::<Vec<_>>(), scores.collect::<Vec<_>>(), last_resorts)
    };
    let assembled = Configuration::default().profiles[0].assemble();
    assert_eq!(names(&assembled.profile), names(&Profile::kubernetes()));
    assert_eq!(assembled.profile.last_resorts, Profile::kubernetes().last_resorts);
    let elsewhere: Vec<String> = assembled
        .elsewhere
        .iter()
        .map(|(point, plugin)| format!("{} {plugin}", point.field()))
        .collect();
    insta::assert_snapshot!(elsewhere.join("\n"), @r"
    filter NodeName
    score VolumeBinding
    score DynamicResources
    preEnqueue SchedulingGates
    preEnqueue DynamicResources
    preEnqueue DefaultPreemption
    queueSort PrioritySort
    reserve VolumeBinding
    reserve DynamicResources
    preBind VolumeBinding
    preBind DynamicResources
    bind DefaultBinder
    ");
}

#[test]
fn another_version_or_kind_is_told_clearly() {
    let check = |text: &str, expected: &str| {
        let told = parse("s.yaml".as_ref(), text).unwrap_err().to_string();
        let write = format!("write apiVersion: {API_VERSION} and kind: {KIND}");
        assert_eq!(told, format!("configuration s.yaml: {expected}; {write}"));
    };
    check(
        "apiVersion: kubescheduler.config.k8s.io/v1beta3\nkind: KubeSchedulerConfiguration\nold: 1",
        "apiVersion: \"kubescheduler.config.k8s.io/v1beta3\" is a version that Kubernetes no longer \
         has",
    );
    check("apiVersion: v1\nkind: Pod", "apiVersion: \"v1\" is not understood");
    check(
        "apiVersion: kubescheduler.config.k8s.io/v1\nkind: Policy",
        "kind: \"Policy\" is not understood",
    );
    check("kind: KubeSchedulerConfiguration", "apiVersion: is missing");
    check("apiVersion: kubescheduler.config.k8s.io/v1", "kind: is missing");
    check("[]", "apiVersion: is missing");
}

#[test]
fn an_unknown_field_is_refused_with_its_path_and_the_nearest_name() {
    check("paralelism: 3", "paralelism: unknown field; did you mean parallelism?");
    check(
        "profiles: [{plugins: {scores: {}}}]",
        "profiles[0].plugins.scores: unknown field; did you mean score?",
    );
    check(
        "extenders: [{urlPrefx: a}]",
        "extenders[0].urlPrefx: unknown field; did you mean urlPrefix?",
    );
    check("parallelism: many", "parallelism: invalid type: string \"many\", expected i32");
    check_args(
        "InterPodAffinity",
        "{hardPodAffinityWeigth: 1}",
        ".hardPodAffinityWeigth: Invalid value: unknown field; did you mean hardPodAffinityWeight?",
    );
    check_args(
        "NodeResourcesFit",
        "{scoringStrategy: {resources: [{name: cpu, weigth: 1}]}}",
        ".scoringStrategy.resources[0].weigth: Invalid value: unknown field; did you mean weight?",
    );
}

#[test]
fn an_unknown_plugin_is_refused_with_the_nearest_name() {
    let wrong = "Invalid value: \"PodTopologySpred\": there is no such plugin; did you mean \
                 PodTopologySpread?";
    for place in ["multiPoint: {enabled", "filter: {enabled", "score: {disabled"] {
        let body = format!("profiles: [{{plugins: {{{place}: [{{name: PodTopologySpred}}]}}}}}}]");
        let path = place.replace(": {", ".");
        check(&body, &format!("profiles[0].plugins.{path}[0]: {wrong}"));
    }
    check(
        "profiles: [{pluginConfig: [{name: PodTopologySpred}]}]",
        &format!("profiles[0].pluginConfig[0]: {wrong}"),
    );
}

#[test]
fn profiles_have_names_of_their_own_and_one_queue_sort() {
    check(
        "profiles: [{schedulerName: a}, {schedulerName: a}]",
        "profiles[1].schedulerName: Duplicate value: \"a, as of profiles[0]\"",
    );
    check("profiles: [{}, {schedulerName: a}]", "profiles[0].schedulerName: Required value");
    check(
        "profiles: [{plugins: {queueSort: {disabled: [{name: '*'}]}}}]",
        "profiles[0].plugins.queueSort: Invalid value: 0: only one queue sort plugin required for \
         profile with scheduler name \"default-scheduler\", but got 0",
    );
    check(
        "profiles: [{plugins: {queueSort: {enabled: [{name: PrioritySort}, {name: PrioritySort}]}}}]",
        "profiles[0].plugins.queueSort.enabled[1]: Duplicate value: \"PrioritySort\"",
    );
    check(
        "profiles: [{schedulerName: a}, {schedulerName: b, plugins: {queueSort: {enabled: \
         [{name: PrioritySort}]}}}]",
        "profiles[1].plugins.queueSort: Invalid value: [\"PrioritySort\"]: must be the same for all \
         profiles",
    );
    check(
        "profiles: [{plugins: {bind: {disabled: [{name: '*'}]}}}]",
        "profiles[0].plugins.bind: Required value: at least one bind plugin is needed for profile \
         with scheduler name \"default-scheduler\"",
    );
}

#[test]
fn plugins_run_where_they_can_and_once() {
    check(
        "profiles: [{plugins: {filter: {enabled: [{name: ImageLocality}]}}}]",
        "profiles[0].plugins.filter.enabled[0]: Invalid value: \"ImageLocality\": plugin \
         \"ImageLocality\" does not extend filter",
    );
    check(
        "profiles: [{plugins: {multiPoint: {enabled: [{name: NodeName}, {name: NodeName}]}}}]",
        "profiles[0].plugins.multiPoint.enabled[0]: Duplicate value: \"NodeName\"",
    );
    check(
        "profiles: [{plugins: {score: {disabled: [{name: '*'}], \
         enabled: [{name: NodeAffinity, weight: 6000000}]}}}]",
        "profiles[0].plugins.score: Invalid value: [\"NodeAffinity: 6000000\"]: the weights of all \
         score plugins add up to 6000000; they must add up to at most 5368709",
    );
    check(
        "profiles: [{plugins: {score: {enabled: [{name: NodeAffinity, weight: -1}]}}}]",
        "profiles[0].plugins.score.enabled[0].weight: Invalid value: -1: must be positive; to leave \
         a plugin out, disable it",
    );
}

#[test]
fn arguments_are_checked() {
    check(
        "profiles: [{pluginConfig: [{name: NodeAffinity}, {name: NodeAffinity}]}]",
        "profiles[0].pluginConfig[1]: Duplicate value: \"NodeAffinity\"",
    );
    check_args("ImageLocality", "{a: 1}", ": Forbidden: plugin ImageLocality takes no arguments");
    check_args(
        "NodeAffinity",
        "{kind: PodArgs}",
        ".kind: Invalid value: \"PodArgs\": must be NodeAffinityArgs",
    );
    let fit = |args: &str, expected: &str| {
        let expected = format!(".scoringStrategy.{expected}");
        check_args("NodeResourcesFit", &format!("{{scoringStrategy: {args}}}"), &expected);
    };
    let shape = "requestedToCapacityRatio.shape";
    let ratio = |points: &str| {
        format!("{{type: RequestedToCapacityRatio, requestedToCapacityRatio: {{shape: {points}}}}}")
    };
    fit(&ratio("[]"), &format!("{shape}: Required value: at least one point must be specified"));
    fit(
        &ratio("[{utilization: 50, score: 1}, {utilization: 50, score: 2}]"),
        &format!(
            "{shape}[1].utilization: Invalid value: 50: values must be sorted in increasing order"
        ),
    );
    fit(
        &ratio("[{utilization: 0, score: 11}]"),
        &format!("{shape}[0].score: Invalid value: 11: not in valid range [0, 10]"),
    );
    fit(
        "{type: Best}",
        "type: Unsupported value: \"Best\": supported values: \"LeastAllocated\", \
         \"MostAllocated\", \"RequestedToCapacityRatio\"",
    );
    fit(
        "{type: RequestedToCapacityRatio}",
        "requestedToCapacityRatio: Required value: the strategy needs a shape",
    );
    fit(
        "{type: MostAllocated, resources: [{name: cpu, weight: 101}]}",
        "resources[0].weight: Invalid value: 101: resource weight of cpu not in valid range (0, 100]",
    );
}

#[test]
fn extenders_are_checked() {
    check(
        "extenders: [{urlPrefix: 'http://e', preemptVerb: p}]",
        "extenders[0].preemptVerb: Forbidden: extenders cannot take part in preemption yet; leave \
         it out",
    );
    check(
        "extenders: [{urlPrefix: 'http://e', prioritizeVerb: p}]",
        "extenders[0].weight: Invalid value: 0: must have a positive weight applied to it",
    );
    check(
        "extenders: [{urlPrefix: 'http://e', bindVerb: b}, {urlPrefix: 'http://f', bindVerb: b}]",
        "extenders: Invalid value: \"found 2 extenders implementing bind\": only one extender can \
         implement bind",
    );
    check(
        "extenders: [{urlPrefix: 'http://e', managedResources: [{name: cpu}]}]",
        "extenders[0].managedResources[0].name: Invalid value: \"cpu\": is an invalid extended \
         resource name",
    );
    check(
        "extenders: [{urlPrefix: e}]",
        "extenders[0].urlPrefix: Invalid value: \"e\": must be a URL such as \
         http://127.0.0.1:8888/scheduler",
    );
    let body = "extenders: [{urlPrefix: 'http://e', ignorable: true}, {urlPrefix: 'https://f/p', \
                filterVerb: filter, enableHTTPS: true, managedResources: [{name: example.com/a, \
                ignoredByScheduler: true}]}]";
    let good = configuration(body).unwrap();
    let order: Vec<&str> = good.extenders.iter().map(|one| one.url_prefix.as_str()).collect();
    assert_eq!(order, ["https://f/p", "http://e"], "those that may fail are asked last");
    assert_eq!(good.extenders[0].tls.trust, Trust::Anyone);
    let ignored = &good.profiles[0].args.node_resources_fit.ignored;
    assert_eq!(ignored.names.iter().map(|name| &**name).collect::<Vec<_>>(), ["example.com/a"]);
}

#[test]
fn the_process_is_as_the_file_says() {
    let limit = |body: &str| {
        let rate = configuration(&format!("clientConnection: {body}")).unwrap();
        rate.client_connection.rate.map(|rate| (rate.qps, rate.burst))
    };
    assert_eq!(limit("{}"), None, "no limit unless one is set");
    assert_eq!(limit("{qps: 20}"), Some((20.0, 100)));
    assert_eq!(limit("{qps: 0.5, burst: 3}"), Some((0.5, 3)));
    assert_eq!(limit("{qps: -1}"), None);
    assert!(
        configuration("leaderElection: {leaderElect: false}").unwrap().leader_election.is_none()
    );
    check(
        "leaderElection: {leaseDuration: 10s}",
        "leaderElection.leaseDuration: Invalid value: \"10s\": must be greater than `RenewDeadline`",
    );
    check(
        "leaderElection: {resourceLock: endpoints}",
        "leaderElection.resourceLock: Invalid value: \"endpoints\": resourceLock value must be \
         \"leases\"",
    );
    check(
        "parallelism: 0\npodInitialBackoffSeconds: 11\npercentageOfNodesToScore: 101",
        "parallelism: Invalid value: 0: should be an integer value greater than zero\n  \
         percentageOfNodesToScore: Invalid value: 101: not in valid range [0-100]\n  \
         podMaxBackoffSeconds: Invalid value: 10: must be greater than or equal to \
         PodInitialBackoffSeconds",
    );
}

proptest! {
    #[test]
    fn no_text_makes_the_reader_fall_over(text in "[ \\[\\]{}:,*\\-\nа-яA-Za-z0-9]{0,80}") {
        let _ = configuration(&text);
        let _ = configuration(&format!("profiles: [{{plugins: {{{text}}}, pluginConfig: [{text}]}}]"));
    }
}

#[test]
fn s10_16_arguments_of_load_that_cannot_be_are_refused() {
    let check = |args: &str, expected: &str| check_args("LoadAwareScheduling", args, expected);
    check(
        "{estimatedScalingFactors: {cpu: 110}}",
        ".estimatedScalingFactors[cpu]: Invalid value: 110: cpu must be in (0, 100]",
    );
    check(
        "{resourceWeights: {nvidia.com/gpu: 1}}",
        ".resourceWeights[nvidia.com/gpu]: Invalid value: 1: has no estimatedScalingFactors; add one \
         or leave the weight out",
    );
    check(
        "{prodUsageThresholds: {cpu: 101}}",
        ".prodUsageThresholds[cpu]: Invalid value: 101: cpu must be in [0, 100]",
    );
    check(
        "{nodeMetricExpirationSeconds: 0}",
        ".nodeMetricExpirationSeconds: Invalid value: 0: must be greater than 0",
    );
    check(
        "{aggregated: {usageThresholds: {cpu: 60}, usageAggregationType: p96}}",
        ".aggregated.usageAggregationType: Invalid value: \"p96\": must be one of avg, p50, p90, \
         p95, p99",
    );
    check(
        "{aggregated: {usageThresholds: {cpu: 60}}}",
        ".aggregated.usageThresholds: Forbidden: means nothing without usageAggregationType; add that \
         or leave this out",
    );
    check(
        "{estimatedSecondsAfterInitialized: -1}",
        ".estimatedSecondsAfterInitialized: Invalid value: -1: must be zero or positive",
    );
    check(
        "{dominantResourceWeight: 101}",
        ".dominantResourceWeight: Invalid value: 101: must be in [0, 100]",
    );
    check(
        "{estimator: mine}",
        ".estimator: Invalid value: \"mine\": there is only defaultEstimator",
    );
}

/// How load is judged with these arguments.
fn loads(args: &str) -> LoadSettings {
    let body = format!(
        "profiles: [{{plugins: {{filter: {{enabled: [{{name: LoadAwareScheduling}}]}}, score: \
         {{enabled: [{{name: LoadAwareScheduling, weight: 1}}]}}}}, pluginConfig: [{{name: \
         LoadAwareScheduling, args: {args}}}]}}]"
    );
    let profile = configuration(&body).unwrap().profiles[0].assemble().profile;
    let settings: Vec<&LoadSettings> = profile.loads().map(|own| &**own).collect();
    assert_eq!((settings.len(), settings[0]), (2, settings[1]));
    settings[0].clone()
}

#[test]
fn each_argument_of_load_is_heeded() {
    let each = |list: &[(&str, i64)]| -> BTreeMap<Box<str>, i64> {
        list.iter().map(|(name, number)| ((*name).into(), *number)).collect()
    };
    let settings = loads(
        "{filterExpiredNodeMetrics: true, enableScheduleWhenNodeMetricsExpired: true, \
         nodeMetricExpirationSeconds: 300, resourceWeights: {cpu: 2}, dominantResourceWeight: 3, \
         usageThresholds: {cpu: 11}, prodUsageThresholds: {memory: 12}, prodUsageIncludeSys: true, \
         scoreAccordingProdUsage: true, estimatedScalingFactors: {cpu: 81}, \
         estimatedSecondsAfterPodScheduled: 4, estimatedSecondsAfterInitialized: 5, \
         allowCustomizeEstimation: true, supportedResources: [a.b/c], soft: true, \
         aggregated: {usageThresholds: {cpu: 13}, usageAggregationType: p95, \
         usageAggregatedDuration: 5m, scoreAggregationType: avg, scoreAggregatedDuration: 10m}}",
    );
    let expected = LoadSettings {
        usage: each(&[("cpu", 11)]),
        prod: each(&[("memory", 12)]),
        window: Some(WindowLimits {
            percents: each(&[("cpu", 13)]),
            figure: Aggregation::P95,
            window: Duration::from_mins(5),
        }),
        expires_after: Duration::from_mins(5),
        stale: Stale::Forgotten,
        is_soft: true,
        score: ScoreSettings {
            weights: each(&[("cpu", 2)]),
            dominant: 3,
            by_prod: true,
            window: Some((Aggregation::Avg, Duration::from_mins(10))),
        },
        estimate: EstimateSettings {
            factors: each(&[("cpu", 81), ("memory", 70)]),
            after_scheduled: Some(4),
            after_initialized: Some(5),
            allows_own: true,
            prod_with_system: true,
        },
        more: vec!["a.b/c".into()],
    };
    assert_eq!(settings, expected);
    assert_eq!(loads("{}"), LoadSettings::default());
    // As Koordinator's chart has it.
    assert_eq!(loads("{filterExpiredNodeMetrics: false}").stale, Stale::Believed);
}

/// What NodeNUMAResource does with these arguments, or what is wrong with them.
fn cpus(args: &str) -> Result<engine::plugins::node_numa_resource::NodeNuma, String> {
    let body = format!(
        "profiles: [{{plugins: {{filter: {{enabled: [{{name: NodeNUMAResource}}]}}}}, pluginConfig: \
         [{{name: NodeNUMAResource, args: {args}}}]}}]"
    );
    let configuration = configuration(&body).map_err(|error| error.to_string())?;
    Ok(configuration.profiles[0].args.node_numa.clone())
}

#[test]
fn each_argument_of_cpus_is_heeded() {
    use engine::cpus::{Binding, Strategy as Filling};
    use engine::plugins::node_resources::{Strategy, Weighted};

    let own = cpus(
        "{defaultCPUBindPolicy: SpreadByPCPUs, scoringStrategy: {type: MostAllocated, resources: \
         [{name: memory, weight: 3}]}, numaScoringStrategy: {type: MostAllocated, resources: [{name: \
         cpu, weight: 2}]}}",
    )
    .unwrap();
    assert_eq!(own.settings.zone_weights, [Weighted { resource: "cpu".into(), weight: 2 }]);
    assert_eq!(own.settings.binding, Some(Binding::SpreadByCores));
    assert_eq!(own.settings.strategy, Filling::MostAllocated);
    assert_eq!(own.score, Strategy::MostAllocated);
    assert_eq!(own.resources, [Weighted { resource: "memory".into(), weight: 3 }]);
    let plain = cpus("{}").unwrap();
    assert_eq!(plain.settings.binding, Some(Binding::FullCores));
    assert_eq!(plain.settings.strategy, Filling::LeastAllocated);
    assert_eq!(cpus("{defaultCPUBindPolicy: ''}").unwrap().settings.binding, None);
}

#[test]
fn arguments_of_cpus_that_cannot_be_are_refused() {
    let check = |args: &str, expected: &str| {
        let told = cpus(args).unwrap_err();
        assert!(told.contains(expected), "{args}: {told}");
    };
    check(
        "{defaultCPUBindPolicy: ConstrainedBurst}",
        ".defaultCPUBindPolicy: Unsupported value: \"ConstrainedBurst\"",
    );
    check("{scoringStrategy: {type: Balanced}}", ".scoringStrategy.type: Unsupported value");
    check(
        "{numaScoringStrategy: {type: RequestedToCapacityRatio, requestedToCapacityRatio: {shape: \
         [{utilization: 0, score: 0}]}}}",
        ".numaScoringStrategy.type: Unsupported value: \"RequestedToCapacityRatio\"",
    );
    check(
        "{scoringStrategy: {type: LeastAllocated, resources: [{name: cpu, weight: 101}]}}",
        "resource weight of cpu not in valid range (0, 100]",
    );
    check("{defaultCpuBindPolicy: FullPCPUs}", "defaultCpuBindPolicy");
}

#[test]
fn arguments_of_single_resources_are_heeded_or_refused() {
    let read = |plugin: &str, args: &str| {
        let body = format!(
            "profiles: [{{plugins: {{score: {{enabled: [{{name: {plugin}, weight: 1}}]}}}}, \
             pluginConfig: [{{name: {plugin}, args: {args}}}]}}]"
        );
        configuration(&body).map(|own| own.profiles[0].args.clone()).map_err(|e| e.to_string())
    };
    let fit = "NodeResourcesFitPlus";
    let own = read(fit, "{resources: {cpu: {type: LeastAllocated, weight: 2}}}").unwrap();
    let expected = (engine::plugins::node_resources::Strategy::LeastAllocated, 2);
    assert_eq!(own.fit_plus.resources.get("cpu"), Some(&expected));
    let own = read("ScarceResourceAvoidance", "{resources: [nvidia.com/gpu]}").unwrap();
    assert_eq!(own.scarce.resources, ["nvidia.com/gpu".into()]);
    let check = |plugin: &str, args: &str, expected: &str| {
        let told = read(plugin, args).unwrap_err();
        assert!(told.contains(expected), "{args}: {told}");
    };
    check(fit, "{resources: {cpu: {type: Balanced, weight: 1}}}", "[cpu].type: Unsupported value");
    check(
        fit,
        "{resources: {'no name': {type: MostAllocated, weight: 1}}}",
        ".resources[no name]: Invalid value",
    );
    check(fit, "{resources: {cpu: {type: MostAllocated}}}", "[cpu].weight: Invalid value: 0");
    check("ScarceResourceAvoidance", "{resources: ['no name']}", ".resources[0]: Invalid value");
}

#[test]
fn a_hint_is_heeded_where_the_file_names_it_and_no_further_than_it_says() {
    let read = |args: &str| {
        let body = format!(
            "profiles: [{{plugins: {{preFilter: {{enabled: [{{name: SchedulingHint}}]}}}}, \
             pluginConfig: [{{name: SchedulingHint, args: {args}}}]}}]"
        );
        configuration(&body).map_err(|error| error.to_string())
    };
    let own = read("{maxHintNodes: 7}").unwrap();
    assert_eq!(own.profiles[0].args.scheduling_hint.tried_max, 7);
    let first = own.profiles[0].assemble().profile.filters[0].plugin();
    assert_eq!(first, engine::plugin::Plugin::SchedulingHint);
    let wrong = read("{maxHintNodes: 0}").unwrap_err();
    assert!(wrong.contains(".maxHintNodes: Invalid value: 0: must be greater than 0"), "{wrong}");
}

#[test]
fn the_profile_that_koordinator_installs_loads_as_it_is() {
    let own = Configuration::of_koordinator();
    let profile = &own.profiles[0];
    let assembled = profile.assemble().profile;
    let filters = assembled.filters.iter().map(|filter| filter.plugin().name());
    let added: Vec<&str> = filters.rev().take(3).collect();
    assert_eq!(added, ["NodeNUMAResource", "LoadAwareScheduling", "Reservation"]);
    assert_eq!(assembled.filters[0].plugin(), Plugin::SchedulingHint);
    let of = |plugin: Plugin| assembled.scores.iter().any(|(own, _)| own.plugin() == plugin);
    assert!(of(Plugin::LoadAwareScheduling) && of(Plugin::NodeNUMAResource));
    let resorts =
        [LastResort::Reservation(None), LastResort::Coscheduling, LastResort::ElasticQuota];
    assert_eq!(assembled.last_resorts, resorts);
    let to_come: Vec<&str> = profile.to_come().map(Plugin::name).collect();
    assert_eq!(to_come, ["DeviceShare"]);
    assert_eq!(&*profile.scheduler_name, "koord-scheduler");
}

#[test]
fn a_cluster_of_both_has_each_profile_as_it_is_alone() {
    let both = Configuration::of_both();
    let names: Vec<&str> = both.profiles.iter().map(|own| own.scheduler_name.as_str()).collect();
    assert_eq!(names, ["default-scheduler", "koord-scheduler"]);
    let alone = [Configuration::default(), Configuration::of_koordinator()];
    for (own, alone) in both.profiles.iter().zip(&alone) {
        assert_eq!(format!("{own:?}"), format!("{:?}", alone.profiles[0]));
    }
}

#[test]
fn arguments_of_reservations_are_heeded_or_refused() {
    let of = |args: &str| {
        let text = format!("profiles: [{{pluginConfig: [{{name: Reservation, args: {args}}}]}}]");
        configuration(&text)
            .map(|own| own.profiles[0].args.reservation.lives.kept.map(|kept| kept.as_secs()))
    };
    assert_eq!(of("{}").unwrap(), Some(86_400));
    assert_eq!(of("{gcDurationSeconds: 60, gcIntervalSeconds: 5}").unwrap(), Some(60));
    assert_eq!(of("{gcDurationSeconds: 0}").unwrap(), Some(86_400));
    assert_eq!(of("{disableGarbageCollection: true}").unwrap(), None);
    assert_eq!(of("{reservationSelectorIndex: {enabled: true, keys: [a]}}").unwrap(), Some(86_400));
    let refused = |args: &str, words: &str| {
        let told = of(args).unwrap_err().to_string();
        assert!(told.contains(words), "{told}");
    };
    refused(
        "{gcDurationSeconds: -1}",
        "gcDurationSeconds: Invalid value: -1: must not be negative",
    );
    refused("{minCandidateNodesPercentage: 101}", "not in valid range [0, 100]");
    refused(
        "{preAllocationConfig: {clusterLabelKey: 'a b'}}",
        "preAllocationConfig.clusterLabelKey: Invalid value: \"a b\"",
    );
    refused("{gcSeconds: 1}", "gcSeconds: Invalid value: unknown field");
}

#[test]
fn what_reservations_take_over_and_push_out_is_said_in_their_arguments() {
    let of = |args: &str| {
        let text = format!("profiles: [{{pluginConfig: [{{name: Reservation, args: {args}}}]}}]");
        configuration(&text).unwrap().profiles[0].args.reservation.clone()
    };
    let own = of("{}");
    assert_eq!((own.preemption, own.plugin.takeover_label), (None, None));
    assert_eq!(own.takeover_key.0, "pod.koordinator.sh/pre-allocatable-priority");
    let own = of("{enablePreemption: true, minCandidateNodesAbsolute: 7}").preemption.unwrap();
    let told = (own.candidate_nodes_percent_min, own.candidate_nodes_min, own.spares);
    assert_eq!(told, (10, 7, true));
    let own =
        of("{preAllocationConfig: {enableClusterMode: true, preferNoPreAllocatedPods: true}}");
    let label = own.plugin.takeover_label.as_deref();
    assert_eq!(label, Some("pod.koordinator.sh/is-pre-allocatable"));
    assert!(own.plugin.prefers_no_takeover);
    let own = of("{preAllocationConfig: {enableClusterMode: true, clusterLabelKey: a.b/c,
                  clusterPriorityAnnotationKey: a.b/d}}");
    assert_eq!(own.plugin.takeover_label.as_deref(), Some("a.b/c"));
    assert_eq!(own.takeover_key.0, "a.b/d");
}

#[test]
fn what_counts_for_all_profiles_is_the_same_in_all() {
    let of = |second: &str| {
        let reserving = "plugins: {filter: {enabled: [{name: Reservation}]}}";
        let config = |args: &str| format!("pluginConfig: [{{name: Reservation, args: {args}}}]");
        let profile = |name: &str, args: &str| {
            format!("{{schedulerName: {name}, {reserving}, {}}}", config(args))
        };
        let text = format!("profiles: [{}, {}]", profile("a", "{}"), profile("b", second));
        configuration(&text).map(drop).map_err(|error| error.to_string())
    };
    assert_eq!(of("{gcDurationSeconds: 86400, enablePreemption: true}"), Ok(()));
    let other = of("{gcDurationSeconds: 60}").unwrap_err();
    assert!(other.contains("profiles[1].pluginConfig: Invalid value: \"Reservation\""), "{other}");
    let key = "{preAllocationConfig: {clusterPriorityAnnotationKey: a.b/d}}";
    assert!(of(key).unwrap_err().contains("must be the same for all profiles"));
}

#[test]
fn s11_36_only_extended_resources_are_left_to_others() {
    let of = |args: &str| {
        let text = format!("profiles: [{{pluginConfig: [{{name: Reservation, args: {args}}}]}}]");
        configuration(&text).map(|own| own.profiles[0].args.reservation.plugin.ignored.clone())
    };
    let own =
        of("{ignoredResources: [example.com/x], ignoredResourceGroups: [vendor.io]}").unwrap();
    assert!(own.contain("example.com/x") && own.contain("vendor.io/any") && !own.contain("cpu"));
    let refused = |args: &str, words: &str| {
        let told = of(args).unwrap_err().to_string();
        assert!(told.contains(words), "{told}");
    };
    refused("{ignoredResources: [cpu]}", "ignoredResources[0]: Invalid value: \"cpu\": must be");
    refused("{ignoredResources: [kubernetes.io/batch-cpu]}", "must be the name of an extended");
    refused("{ignoredResourceGroups: [kubernetes.io]}", "must be the group of extended resources");
    refused("{ignoredResourceGroups: [a/b]}", "must be the group of extended resources");
}
