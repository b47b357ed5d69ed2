//! Arguments of gangs and quotas.

use std::time::Duration;

use api::pod::ResourceList;
use api::pod_group::MatchPolicy;
use engine::quota::{Limit, Settings, Shared};

use super::*;

/// What a plugin is told, or what is wrong with that.
fn read(plugin: &str, args: &str) -> Result<PluginArgs, String> {
    let body = format!("profiles: [{{pluginConfig: [{{name: {plugin}, args: {args}}}]}}]");
    let configuration = configuration(&body).map_err(|error| error.to_string())?;
    Ok(configuration.profiles[0].args.clone())
}

fn amounts(pairs: &[(&str, &str)]) -> ResourceList {
    pairs.iter().map(|(name, amount)| ((*name).to_owned(), amount.parse().unwrap())).collect()
}

#[test]
fn each_argument_of_gangs_is_heeded() {
    let check = |args: &str, expected: GangArgs| {
        assert_eq!(read("Coscheduling", args).unwrap().coscheduling, expected, "{args}");
    };
    let plain = GangArgs {
        wait: Duration::from_secs(600),
        preempts: false,
        match_policy: MatchPolicy::OnceSatisfied,
        tells_all: true,
    };
    check("{}", plain);
    check("{defaultTimeout: null, defaultMatchPolicy: ''}", plain);
    check("{defaultTimeout: 0s}", GangArgs { wait: Duration::ZERO, ..plain });
    check("{defaultTimeout: 1m30s}", GangArgs { wait: Duration::from_secs(90), ..plain });
    check("{enablePreemption: true}", GangArgs { preempts: true, ..plain });
    check("{awareNetworkTopology: true}", plain);
    let match_policy = MatchPolicy::OnlyWaiting;
    check("{defaultMatchPolicy: only-waiting}", GangArgs { match_policy, ..plain });
    let match_policy = MatchPolicy::WaitingAndRunning;
    check("{defaultMatchPolicy: waiting-and-running}", GangArgs { match_policy, ..plain });
}

#[test]
fn arguments_of_gangs_that_cannot_be_are_refused() {
    let check = |args: &str, expected: &str| check_args("Coscheduling", args, expected);
    check("{defaultTimeout: -1s}", ".defaultTimeout: Invalid value: \"-1s\": must not be negative");
    check("{controllerWorkers: 0}", ".controllerWorkers: Invalid value: 0: must be greater than 0");
    check(
        "{defaultMatchPolicy: always}",
        ".defaultMatchPolicy: Unsupported value: \"always\": supported values: \"only-waiting\", \
         \"waiting-and-running\", \"once-satisfied\"",
    );
    let unknown = read("Coscheduling", "{defaultTimeoutSeconds: 1}").unwrap_err();
    assert!(unknown.contains("defaultTimeoutSeconds: Invalid value: unknown field"), "{unknown}");
}

#[test]
fn each_argument_of_quotas_is_heeded() {
    let check = |args: &str, expected: QuotaArgs| {
        assert_eq!(read("ElasticQuota", args).unwrap().elastic_quota, expected, "{args}");
    };
    let most = amounts(&[("cpu", "1844674407370955161"), ("memory", "1844674407370955161")]);
    let plain = || QuotaArgs {
        overuse_wait: Duration::from_secs(120),
        revoke_interval: Duration::from_secs(1),
        default_max: most.clone(),
        system_max: most.clone(),
        namespace: "koordinator-system".into(),
        monitors_all: false,
        settings: Settings { spares_default: true, ..Settings::default() },
    };
    check("{}", plain());
    check("{defaultQuotaGroupMax: {}, quotaGroupNamespace: ''}", plain());
    check("{delayEvictTime: 0s}", QuotaArgs { overuse_wait: Duration::ZERO, ..plain() });
    let revoke_interval = Duration::from_millis(500);
    check("{revokePodInterval: 500ms}", QuotaArgs { revoke_interval, ..plain() });
    let default_max = amounts(&[("cpu", "100"), ("memory", "1Ti")]);
    check("{defaultQuotaGroupMax: {cpu: 100, memory: 1Ti}}", QuotaArgs { default_max, ..plain() });
    let system_max = amounts(&[("cpu", "0")]);
    check("{systemQuotaGroupMax: {cpu: 0}}", QuotaArgs { system_max, ..plain() });
    check("{quotaGroupNamespace: shares}", QuotaArgs { namespace: "shares".into(), ..plain() });
    check("{monitorAllQuotas: true}", QuotaArgs { monitors_all: true, ..plain() });
    let with = |change: fn(&mut Settings)| {
        let mut args = plain();
        change(&mut args.settings);
        args
    };
    check("{enableRuntimeQuota: false}", with(|own| own.options.limit = Limit::Max));
    check("{enableMinQuotaScale: false}", with(|own| own.options.scales_min = false));
    check("{disableDefaultQuotaPreemption: false}", with(|own| own.spares_default = false));
    check("{ignoreUnschedulableNodes: false}", plain());
    check("{ignoreUnschedulableNodes: true}", with(|own| own.shared = Shared::NodesInUse));
}

#[test]
fn arguments_of_quotas_that_cannot_be_are_refused() {
    let check = |args: &str, expected: &str| check_args("ElasticQuota", args, expected);
    let length = "Invalid value: \"-1s\": must not be negative";
    check("{delayEvictTime: -1s}", &format!(".delayEvictTime: {length}"));
    check("{revokePodInterval: -1s}", &format!(".revokePodInterval: {length}"));
    check("{quotaSnapshotUpdateInterval: -1s}", &format!(".quotaSnapshotUpdateInterval: {length}"));
    check(
        "{defaultQuotaGroupMax: {cpu: -1}}",
        ".defaultQuotaGroupMax[cpu]: Invalid value: \"-1\": must not be negative",
    );
    check(
        "{systemQuotaGroupMax: {memory: -1Gi}}",
        ".systemQuotaGroupMax[memory]: Invalid value: \"-1Gi\": must not be negative",
    );
    check(
        "{hookPlugins: [{key: a, factoryKey: b}]}",
        ".hookPlugins: Forbidden: hooks are Go code of Koordinator's own program, which cannot be \
         loaded here; leave them out",
    );
    let bad = read("ElasticQuota", "{quotaGroupNamespace: No Name}").unwrap_err();
    assert!(bad.contains(".quotaGroupNamespace: Invalid value: \"No Name\""), "{bad}");
    let unknown = read("ElasticQuota", "{quotaGroupNamespaces: a}").unwrap_err();
    assert!(unknown.contains("quotaGroupNamespaces: Invalid value: unknown field"), "{unknown}");
}

#[test]
fn what_changes_nothing_is_told_where_somebody_has_written_it() {
    let check = |plugin: &str, args: &str, expected: &[&str]| {
        let vain = read(plugin, args).unwrap().vain;
        let fields: Vec<&str> = vain.iter().map(|vain| vain.field).collect();
        assert_eq!(fields, expected, "{args}");
    };
    check("Coscheduling", "{}", &[]);
    check("Coscheduling", "{skipCheckScheduleCycle: false, controllerWorkers: 1}", &[]);
    check(
        "Coscheduling",
        "{skipCheckScheduleCycle: true, controllerWorkers: 3}",
        &["skipCheckScheduleCycle", "controllerWorkers"],
    );
    check("Coscheduling", "{awareNetworkTopology: false}", &[]);
    check("Coscheduling", "{awareNetworkTopology: true}", &["awareNetworkTopology"]);
    check("ElasticQuota", "{enableCheckParentQuota: true, enableQueueHint: false}", &[]);
    check(
        "ElasticQuota",
        "{enableCheckParentQuota: false, enableQueueHint: true, quotaSnapshotUpdateInterval: 1m}",
        &["enableCheckParentQuota", "enableQueueHint", "quotaSnapshotUpdateInterval"],
    );
    let own = read("ElasticQuota", "{enableCheckParentQuota: false}").unwrap().vain[0];
    assert_eq!(
        own.to_string(),
        "argument enableCheckParentQuota of plugin ElasticQuota changes nothing: a pod is held \
         against every quota above its own, whatever is said"
    );
}

/// Two profiles with a plugin that is told this in each.
fn both(plugin: &str, first: &str, second: &str) -> Result<(), String> {
    let profile = |name: &str, args: &str| {
        format!(
            "{{schedulerName: {name}, plugins: {{preFilter: {{enabled: [{{name: {plugin}}}]}}}}, \
             pluginConfig: [{{name: {plugin}, args: {args}}}]}}"
        )
    };
    let text = format!("profiles: [{}, {}]", profile("a", first), profile("b", second));
    configuration(&text).map(drop).map_err(|error| error.to_string())
}

#[test]
fn quotas_are_shared_out_the_same_way_for_all_profiles() {
    assert_eq!(both("ElasticQuota", "{}", "{delayEvictTime: 2m}"), Ok(()));
    let other = both("ElasticQuota", "{}", "{delayEvictTime: 1m}").unwrap_err();
    assert!(other.contains("profiles[1].pluginConfig: Invalid value: \"ElasticQuota\""), "{other}");
}

#[test]
fn what_counts_for_gangs_that_do_not_say_is_the_same_for_all_profiles() {
    let check = |first: &str, second: &str, expected: &[&str]| {
        let error = both("Coscheduling", first, second).err().unwrap_or_default();
        let errors = error.matches("Coscheduling").count();
        assert_eq!(errors, expected.len(), "{first} {second}: {error}");
        for words in expected {
            let words = format!(
                "profiles[1].pluginConfig: Invalid value: \"Coscheduling\": {words}, since a gang may \
                 have pods of both"
            );
            assert!(error.contains(&words), "{words} is not in {error}");
        }
    };
    check("{}", "{}", &[]);
    check("{}", "{defaultTimeout: 10m, defaultMatchPolicy: once-satisfied}", &[]);
    check("{enablePreemption: true}", "{}", &[]);
    let timeout = "defaultTimeout must be the same for profiles a and b";
    check("{}", "{defaultTimeout: 1m}", &[timeout]);
    let policy = "defaultMatchPolicy must be the same for profiles a and b";
    check("{defaultMatchPolicy: only-waiting}", "{}", &[policy]);
    check("{defaultMatchPolicy: only-waiting}", "{defaultTimeout: 1m}", &[timeout, policy]);
}

#[test]
fn gangs_and_quotas_are_as_koordinators_chart_has_them() {
    let own = Configuration::of_koordinator().profiles.remove(0).args;
    let plain = GangArgs::default();
    assert_eq!(own.coscheduling, GangArgs { preempts: true, ..plain });
    assert_eq!(own.elastic_quota, QuotaArgs::default());
    assert_eq!(own.vain, [], "nobody has written it");
}
