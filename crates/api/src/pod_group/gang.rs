//! What pods and their groups say of gangs.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;
use std::time::Duration;

use object::time;

use crate::malformed::{ListBounds, Malformed, UnreadList, What, names_annotation};
use crate::pod::Pod;
use crate::pod_group::PodGroup;

/// Pod label: the group that the pod is of, in its own namespace.
pub const POD_GROUP_LABEL: &str = "pod-group.scheduling.sigs.k8s.io";
/// Pod label: the gang that the pod is of, where no object describes it.
pub const GANG_NAME_LABEL: &str = "pod-group.scheduling.sigs.k8s.io/name";
/// Pod label: how many members must have a place; it goes before the annotation.
pub const GANG_MIN_AVAILABLE_LABEL: &str = "pod-group.scheduling.sigs.k8s.io/min-available";
/// Pod annotation: the gang that the pod is of, where no object describes it.
pub const GANG_NAME: &str = "gang.scheduling.koordinator.sh/name";
/// Pod annotation: how many members must have a place before any may start.
pub const GANG_MIN_AVAILABLE: &str = "gang.scheduling.koordinator.sh/min-available";
/// Pod annotation: how long members wait for each other.
pub const GANG_WAITING_TIME: &str = "gang.scheduling.koordinator.sh/waiting-time";
/// Annotation: how many members there are in all.
pub const GANG_TOTAL_NUMBER: &str = "gang.scheduling.koordinator.sh/total-number";
/// Annotation: what becomes of members that have a place when another finds none.
pub const GANG_MODE: &str = "gang.scheduling.koordinator.sh/mode";
/// Annotation: gangs that start together with this one.
pub const GANG_GROUPS: &str = "gang.scheduling.koordinator.sh/groups";
/// Annotation: which members count.
pub const GANG_MATCH_POLICY: &str = "gang.scheduling.koordinator.sh/match-policy";
/// Annotation: the same, where the other is not there.
pub const GANG_MATCH_POLICY_ALIAS: &str = "pod-group.scheduling.sigs.k8s.io/match-policy";

/// Annotation of a group: what becomes of members that are bound where too few follow them in time. Upstream knows
/// nothing of it.
pub const INCOMPLETE_START: &str = "gang.gantry.dev/incomplete-start";

/// Annotation that the scheduler writes with the node: the gangs that the pod started with.
pub const BIND_GROUP_ID: &str = "internal.scheduling.koordinator.sh/bind-gang-group-id";
/// Annotation that the scheduler writes with the node: how many members started at once.
pub const BIND_MEMBER_COUNT: &str = "internal.scheduling.koordinator.sh/bind-gang-member-count";
/// What [`BIND_GROUP_ID`] was called before.
pub const BIND_GROUP_ID_BEFORE: &str = "scheduling.koordinator.sh/bind-gang-group-id";
/// What [`BIND_MEMBER_COUNT`] was called before.
pub const BIND_MEMBER_COUNT_BEFORE: &str = "scheduling.koordinator.sh/bind-gang-member-count";

/// How many letters the name of a gang has at most, and that of its namespace.
const NAME_MAX: usize = 253;
const NAMESPACE_MAX: usize = 63;

/// How many gangs may start together.
pub const GANG_GROUPS_MAX: usize = 64;
/// What a list of them may say: some may be named more than once.
const GROUPS_BOUNDS: ListBounds = ListBounds {
    of: "gangs that start together",
    names: GANG_GROUPS_MAX,
    entries: 4 * GANG_GROUPS_MAX,
    bytes: 64 << 10,
};

const COUNT_FIX: &str = "write a whole number such as 4";
const NAME_FIX: &str = "write at most 253 letters, none of them a slash or a comma";

/// The gang that a pod is of, and who describes it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GangName<'a> {
    /// A [`PodGroup`] of this name, in the namespace of the pod.
    Group(&'a str),
    /// Its pods themselves.
    Pods(&'a str),
}

impl<'a> GangName<'a> {
    /// What a pod says; none where it is of no gang. A group goes before a label, and that before an
    /// annotation. What cannot be a name is as empty as all others of the kind, and [`GangTerms::of_pod`] tells
    /// it: such a gang never starts.
    #[must_use]
    pub fn of(pod: &'a Pod) -> Option<Self> {
        let metadata = &pod.metadata;
        let group = told(&metadata.labels, POD_GROUP_LABEL).map(Self::Group);
        let label = || told(&metadata.labels, GANG_NAME_LABEL).map(Self::Pods);
        let annotation = told(&metadata.annotations, GANG_NAME);
        let annotation =
            || annotation.map(|name| Self::Pods(if is_name(name) { name } else { "" }));
        group.or_else(label).or_else(annotation)
    }

    /// The name, whoever describes it.
    #[must_use]
    pub fn as_str(self) -> &'a str {
        match self {
            Self::Group(name) | Self::Pods(name) => name,
        }
    }
}

/// A gang in the cluster: `namespace/name`. Their order is that of this text.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GangId(Box<str>);

impl GangId {
    /// The gang of this name in a namespace.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        Self(format!("{namespace}/{name}").into())
    }

    /// Reads `namespace/name`; none where it is something else.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (namespace, name) = text.split_once('/')?;
        let is_namespace = is_name(namespace) && namespace.len() <= NAMESPACE_MAX;
        (is_namespace && is_name(name)).then(|| Self(text.into()))
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        self.0.split_once('/').map_or("", |(namespace, _)| namespace)
    }

    /// The name within it.
    #[must_use]
    pub fn name(&self) -> &str {
        self.0.split_once('/').map_or("", |(_, name)| name)
    }

    /// `namespace/name`.
    #[must_use]
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for GangId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// What becomes of members that have a place when another finds none.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum GangMode {
    /// They give it back.
    #[default]
    Strict,
    /// They keep it and wait.
    NonStrict,
}

/// What becomes of members that are bound where too few follow them in time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Hash)]
pub enum IncompleteStart {
    /// They stay.
    #[default]
    Keep,
    /// They are asked to go, so that whoever made them can make them anew and they start whole.
    Delete,
}

/// Which members count towards those that must have a place.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum MatchPolicy {
    /// Those that have a place and wait to start.
    OnlyWaiting,
    /// These, and those that run.
    WaitingAndRunning,
    /// All of them, once there were enough.
    OnceSatisfied,
}

impl MatchPolicy {
    /// The word on the wire.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::OnlyWaiting => "only-waiting",
            Self::WaitingAndRunning => "waiting-and-running",
            Self::OnceSatisfied => "once-satisfied",
        }
    }

    fn parse(key: &'static str, word: &str) -> Result<Self, Malformed> {
        let mut all = [Self::OnlyWaiting, Self::WaitingAndRunning, Self::OnceSatisfied].into_iter();
        let fix = "use one of only-waiting, waiting-and-running or once-satisfied";
        all.find(|own| own.as_str() == word).ok_or_else(|| Malformed::new(key, word, fix))
    }
}

/// What is said of a gang, by its group or by each of its pods.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct GangTerms {
    /// How many members must have a place before any may start; none where nobody can read it, and the
    /// gang cannot start.
    pub min_available: Option<u32>,
    /// How many members there are in all: never fewer than must have a place.
    pub total_number: Option<u32>,
    /// How long members wait for each other; none where the scheduler decides.
    pub waiting_time: Option<Duration>,
    /// What becomes of members that have a place when another finds none.
    pub mode: GangMode,
    /// Which members count; none where the scheduler decides.
    pub match_policy: Option<MatchPolicy>,
    /// Gangs that start together; none where this one starts by itself.
    pub groups: BTreeSet<GangId>,
    /// What becomes of members that are bound where too few follow them in time.
    pub incomplete_start: IncompleteStart,
    /// What could not be read, and counts as if it were not there.
    pub malformed: Vec<Malformed>,
}

impl GangTerms {
    /// What a pod says of its gang, where that is described by its pods.
    #[must_use]
    pub fn of_pod(pod: &Pod) -> Self {
        let metadata = &pod.metadata;
        let label = told(&metadata.labels, GANG_MIN_AVAILABLE_LABEL);
        let (key, text) = match label {
            Some(text) => (GANG_MIN_AVAILABLE_LABEL, text),
            None => (
                GANG_MIN_AVAILABLE,
                told(&metadata.annotations, GANG_MIN_AVAILABLE).unwrap_or_default(),
            ),
        };
        let least = match GangName::of(pod) {
            Some(GangName::Pods("")) => {
                let name = told(&metadata.annotations, GANG_NAME).unwrap_or_default();
                Err(Malformed::new(GANG_NAME, name, NAME_FIX))
            }
            _ => count(key, text),
        };
        let waiting = told(&metadata.annotations, GANG_WAITING_TIME).map(waiting_time).transpose();
        let mut own = Self::of(&metadata.annotations, least, waiting.map(Option::flatten));
        if own.incomplete_start == IncompleteStart::Delete {
            own.incomplete_start = IncompleteStart::Keep;
            let fix = "write it on a PodGroup: of gangs that pods describe nobody knows whether they started whole";
            own.malformed.push(Malformed::new(INCOMPLETE_START, "Delete", fix));
        }
        own
    }

    /// What a group says of its gang.
    #[must_use]
    pub fn of_group(group: &PodGroup) -> Self {
        let least = group.spec.min_member;
        let fix = "write how many members must have a place, such as 4";
        let least = u32::try_from(least)
            .map_err(|_| Malformed::new("spec.minMember", &least.to_string(), fix));
        let waiting = match group.spec.schedule_timeout_seconds {
            None => Ok(None),
            Some(seconds) => match u64::try_from(seconds) {
                Ok(seconds) if seconds > 0 => Ok(Some(Duration::from_secs(seconds))),
                _ => {
                    let fix = "write how many seconds members wait for each other, such as 600";
                    let key = "spec.scheduleTimeoutSeconds";
                    Err(Malformed::new(key, &seconds.to_string(), fix))
                }
            },
        };
        Self::of(&group.metadata.annotations, least, waiting)
    }

    /// What annotations say, and what was read already.
    fn of(
        annotations: &BTreeMap<String, String>,
        least: Result<u32, Malformed>,
        waiting: Result<Option<Duration>, Malformed>,
    ) -> Self {
        let mut malformed = Vec::new();
        let mut min_available = kept(&mut malformed, least.map(Some));
        let total = total_number(annotations, min_available);
        let groups = groups(annotations).unwrap_or_else(|error| {
            match error {
                // With whom it starts is not known: it cannot.
                UnreadList::TooMuch(error) => {
                    min_available = None;
                    malformed.insert(0, error);
                }
                UnreadList::Otherwise(error) => malformed.push(error),
            }
            BTreeSet::new()
        });
        Self {
            min_available,
            waiting_time: kept(&mut malformed, waiting),
            total_number: kept(&mut malformed, total).or(min_available),
            mode: kept(&mut malformed, mode(annotations)).unwrap_or_default(),
            match_policy: kept(&mut malformed, match_policy(annotations)),
            incomplete_start: kept(&mut malformed, incomplete_start(annotations))
                .unwrap_or_default(),
            groups,
            malformed,
        }
    }
}

/// What was read, where it could be; what could not is told.
fn kept<T>(malformed: &mut Vec<Malformed>, read: Result<Option<T>, Malformed>) -> Option<T> {
    read.unwrap_or_else(|error| {
        malformed.push(error);
        None
    })
}

/// What is written at a key, where it is something.
fn told<'a>(texts: &'a BTreeMap<String, String>, key: &str) -> Option<&'a str> {
    texts.get(key).map(|text| text.trim()).filter(|text| !text.is_empty())
}

/// Whether this can be the name of a gang, or of a namespace: several of them are written as one text.
fn is_name(text: &str) -> bool {
    !text.is_empty() && text.len() <= NAME_MAX && !text.contains(['/', ','])
}

/// A number of members, as an API server would take it: 32 bits with a sign, and not below zero.
fn count(key: &'static str, text: &str) -> Result<u32, Malformed> {
    let number = text.parse::<i32>().ok().and_then(|number| u32::try_from(number).ok());
    number.ok_or_else(|| Malformed::new(key, text, COUNT_FIX))
}

/// A length of time; none where it is nothing.
fn waiting_time(text: &str) -> Result<Option<Duration>, Malformed> {
    let length = text.parse::<time::Duration>().ok();
    let nanos = length.and_then(|length| u64::try_from(length.as_nanos()).ok());
    let fix = "write a length of time such as 30s or 10m";
    let nanos = nanos.ok_or_else(|| Malformed::new(GANG_WAITING_TIME, text, fix))?;
    Ok((nanos > 0).then(|| Duration::from_nanos(nanos)))
}

/// How many members there are in all, where so many must have a place.
fn total_number(
    annotations: &BTreeMap<String, String>,
    least: Option<u32>,
) -> Result<Option<u32>, Malformed> {
    let Some(text) = told(annotations, GANG_TOTAL_NUMBER) else { return Ok(None) };
    let number = count(GANG_TOTAL_NUMBER, text)?;
    if least.is_some_and(|least| number < least) {
        let fix = "write at least as many as must have a place";
        return Err(Malformed::new(GANG_TOTAL_NUMBER, text, fix));
    }
    Ok(Some(number))
}

fn mode(annotations: &BTreeMap<String, String>) -> Result<Option<GangMode>, Malformed> {
    match told(annotations, GANG_MODE) {
        None => Ok(None),
        Some("Strict") => Ok(Some(GangMode::Strict)),
        Some("NonStrict") => Ok(Some(GangMode::NonStrict)),
        Some(other) => Err(Malformed::new(GANG_MODE, other, "use Strict or NonStrict")),
    }
}

fn incomplete_start(
    annotations: &BTreeMap<String, String>,
) -> Result<Option<IncompleteStart>, Malformed> {
    match told(annotations, INCOMPLETE_START) {
        None => Ok(None),
        Some("Keep") => Ok(Some(IncompleteStart::Keep)),
        Some("Delete") => Ok(Some(IncompleteStart::Delete)),
        Some(other) => Err(Malformed::new(INCOMPLETE_START, other, "use Keep or Delete")),
    }
}

fn match_policy(annotations: &BTreeMap<String, String>) -> Result<Option<MatchPolicy>, Malformed> {
    let at = |key| told(annotations, key).map(|word| (key, word));
    let told = at(GANG_MATCH_POLICY).or_else(|| at(GANG_MATCH_POLICY_ALIAS));
    told.map(|(key, word)| MatchPolicy::parse(key, word)).transpose()
}

/// Gangs that start together; none where this one starts by itself.
fn groups(annotations: &BTreeMap<String, String>) -> Result<BTreeSet<GangId>, UnreadList> {
    let Some(text) = told(annotations, GANG_GROUPS) else { return Ok(BTreeSet::new()) };
    let fix = r#"write JSON such as ["team-a/workers","team-a/servers"]"#;
    let ids = names_annotation(annotations, GANG_GROUPS, GROUPS_BOUNDS, fix)?.unwrap_or_default();
    let ids: Option<BTreeSet<GangId>> = ids.iter().map(|id| GangId::parse(id)).collect();
    let ids = ids.ok_or_else(|| UnreadList::Otherwise(Malformed::new(GANG_GROUPS, text, fix)))?;
    if ids.len() > GANG_GROUPS_MAX {
        let what = What::TooManyNames { names: ids.len(), most: GROUPS_BOUNDS };
        return Err(UnreadList::TooMuch(Malformed { key: GANG_GROUPS, what }));
    }
    Ok(ids)
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    fn pod(labels: Value, annotations: Value) -> Pod {
        let metadata = json!({ "labels": labels, "annotations": annotations });
        serde_json::from_value(json!({ "metadata": metadata })).unwrap()
    }

    /// What annotations say beside that four members must have a place.
    fn terms(mut annotations: Value) -> GangTerms {
        annotations[GANG_MIN_AVAILABLE] = json!("4");
        GangTerms::of_pod(&pod(json!({}), annotations))
    }

    #[test]
    fn a_group_goes_before_a_label_and_that_before_an_annotation() {
        let check = |labels: Value, expected: Option<GangName<'_>>| {
            let pod = pod(labels, json!({ GANG_NAME: "by-annotation" }));
            assert_eq!(GangName::of(&pod), expected);
        };
        let both = json!({ POD_GROUP_LABEL: "group", GANG_NAME_LABEL: "by-label" });
        check(both, Some(GangName::Group("group")));
        check(json!({ GANG_NAME_LABEL: "by-label" }), Some(GangName::Pods("by-label")));
        let empty = json!({ POD_GROUP_LABEL: "", GANG_NAME_LABEL: "" });
        check(empty, Some(GangName::Pods("by-annotation")));
        assert_eq!(GangName::of(&pod(json!({}), json!({ GANG_NAME: "" }))), None);
        assert_eq!(GangName::of(&Pod::default()), None);
        assert_eq!(GangName::Group("g").as_str(), GangName::Pods("g").as_str());
    }

    #[test]
    fn what_cannot_be_a_name_is_a_gang_that_never_starts() {
        let long = "a".repeat(NAME_MAX);
        let check = |name: &str, is_one: bool| {
            let pod = pod(json!({}), json!({ GANG_NAME: name, GANG_MIN_AVAILABLE: "2" }));
            let named = GangName::of(&pod).map(GangName::as_str);
            let terms = GangTerms::of_pod(&pod);
            let told: Vec<&str> = terms.malformed.iter().map(|own| own.key).collect();
            let expected = match is_one {
                true => (Some(name), Some(2), vec![]),
                false => (Some(""), None, vec![GANG_NAME]),
            };
            assert_eq!((named, terms.min_available, told), expected, "{name}");
            assert_eq!(GangId::parse(&format!("shop/{name}")).is_some(), is_one, "{name}");
        };
        check("Train 7", true);
        check(&long, true);
        for wrong in [&*format!("{long}a"), "x,b/y", "a/b", "a,b"] {
            check(wrong, false);
        }
        assert_eq!(GangId::parse(&format!("{}/g", "n".repeat(NAMESPACE_MAX + 1))), None);
    }

    #[test]
    fn who_says_nothing_is_strict_and_by_itself() {
        let four =
            GangTerms { min_available: Some(4), total_number: Some(4), ..GangTerms::default() };
        assert_eq!(terms(json!({})), four);
        let empty = json!({ GANG_MODE: "", GANG_GROUPS: "", GANG_WAITING_TIME: "0s" });
        assert_eq!(terms(empty), four);
        assert_eq!(terms(json!({ GANG_GROUPS: "[]" })), four);
    }

    #[test]
    fn everything_that_is_said_is_read() {
        let own = terms(json!({
            GANG_WAITING_TIME: "1m30s", GANG_TOTAL_NUMBER: "8", GANG_MODE: "NonStrict",
            GANG_GROUPS: r#"["b/two","a-b/one","a/one","b/two"]"#,
            GANG_MATCH_POLICY: "only-waiting", GANG_MATCH_POLICY_ALIAS: "once-satisfied",
        }));
        let ids: Vec<&str> = own.groups.iter().map(GangId::as_str).collect();
        assert_eq!(ids, ["a-b/one", "a/one", "b/two"], "in the order of the whole text");
        assert_eq!(own.waiting_time, Some(Duration::from_secs(90)));
        assert_eq!((own.total_number, own.mode), (Some(8), GangMode::NonStrict));
        assert_eq!(own.match_policy, Some(MatchPolicy::OnlyWaiting));
        assert!(own.malformed.is_empty());
        let alias = terms(json!({ GANG_MATCH_POLICY_ALIAS: "waiting-and-running" }));
        assert_eq!(alias.match_policy, Some(MatchPolicy::WaitingAndRunning));
    }

    #[test]
    fn how_many_must_have_a_place_is_said_by_a_label_or_an_annotation_or_the_gang_cannot_start() {
        let check = |labels: Value, annotations: Value, expected: Result<u32, (&str, &str)>| {
            let own = GangTerms::of_pod(&pod(labels, annotations));
            let error = own.malformed.first().map(|error| (error.key, error.value()));
            assert_eq!(own.min_available.ok_or_else(|| error.unwrap()), expected);
        };
        let (label, annotation) = (GANG_MIN_AVAILABLE_LABEL, GANG_MIN_AVAILABLE);
        check(json!({ label: "3" }), json!({ annotation: "5" }), Ok(3));
        check(json!({ label: "" }), json!({ annotation: "5" }), Ok(5));
        check(json!({ label: "x" }), json!({ annotation: "5" }), Err((label, "x")));
        check(json!({}), json!({}), Err((annotation, "")));
        for wrong in ["-1", "1.5", "2147483648", "0x4", "four", "4 5"] {
            check(json!({}), json!({ annotation: wrong }), Err((annotation, wrong)));
        }
    }

    #[test]
    fn what_cannot_be_read_counts_as_if_it_were_not_there_and_is_told() {
        let check = |key: &'static str, wrong: &[&str]| {
            for text in wrong {
                let own = terms(json!({ key: text }));
                let [error] = &own.malformed[..] else { panic!("{key} {text}: {own:?}") };
                assert_eq!((error.key, error.value()), (key, *text));
                assert!(!error.to_string().ends_with(": "));
                assert_eq!(GangTerms { malformed: Vec::new(), ..own }, terms(json!({})), "{text}");
            }
        };
        check(GANG_WAITING_TIME, &["30", "-5s", "soon", "99999999999h"]);
        check(GANG_TOTAL_NUMBER, &["3", "-1", "many", "8.0"]);
        check(GANG_MODE, &["strict", "Non-Strict", "true"]);
        check(GANG_MATCH_POLICY, &["OnlyWaiting", "none"]);
        check(GANG_MATCH_POLICY_ALIAS, &["only_waiting"]);
        let wrong = ["{}", "[", "a/b", "[7]", r#"["b"]"#, r#"["/b"]"#, r#"["a/"]"#, r#"["a/b/c"]"#];
        check(GANG_GROUPS, &wrong);
        check(GANG_GROUPS, &[r#"["a/b,c"]"#, "null"]);
    }

    #[test]
    fn a_gang_that_names_too_many_cannot_start_and_says_how_many_they_are() {
        let check = |count: usize, expected: Option<&str>| {
            let names: Vec<String> = (0..count).map(|number| format!("a/g{number}")).collect();
            let own = terms(json!({ GANG_GROUPS: json!(names).to_string() }));
            let told = own.malformed.first().map(ToString::to_string);
            let fix = "name at most 64 gangs that start together, in at most 65536 bytes of JSON";
            assert_eq!(told, expected.map(|what| format!("{GANG_GROUPS} {what}: {fix}")));
            assert_eq!(own.min_available.is_some(), expected.is_none());
            assert_eq!(own.groups.len(), if expected.is_none() { count } else { 0 });
        };
        check(GANG_GROUPS_MAX, None);
        check(GANG_GROUPS_MAX + 1, Some("names 65 gangs that start together"));
        check(4 * GANG_GROUPS_MAX + 1, Some("has more than 256 entries"));
        check(20_000, Some("has 208891 bytes"));
    }

    #[test]
    fn a_group_says_it_in_its_spec() {
        let check = |spec: Value, least: Option<u32>, seconds: Option<u64>, told: &[&str]| {
            let annotations = json!({ GANG_MODE: "NonStrict", GANG_MIN_AVAILABLE: "9" });
            let wire = json!({ "metadata": { "annotations": annotations }, "spec": spec });
            let own = GangTerms::of_group(&serde_json::from_value(wire).unwrap());
            let waiting = own.waiting_time.map(|time| time.as_secs());
            assert_eq!(
                (own.min_available, waiting, own.mode),
                (least, seconds, GangMode::NonStrict)
            );
            let keys: Vec<&str> = own.malformed.iter().map(|error| error.key).collect();
            assert_eq!(keys, told);
        };
        check(json!({ "minMember": 4 }), Some(4), None, &[]);
        check(json!({ "minMember": 4, "scheduleTimeoutSeconds": 60 }), Some(4), Some(60), &[]);
        let timeout = "spec.scheduleTimeoutSeconds";
        check(json!({ "minMember": 1, "scheduleTimeoutSeconds": 0 }), Some(1), None, &[timeout]);
        check(json!({ "minMember": 1, "scheduleTimeoutSeconds": -1 }), Some(1), None, &[timeout]);
        check(json!({ "minMember": -1 }), None, None, &["spec.minMember"]);
        check(json!({}), Some(0), None, &[]);
    }
}
