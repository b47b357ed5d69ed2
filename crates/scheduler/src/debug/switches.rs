//! Switches by which a scheduler tells more of its decisions in the log, while it runs: by
//! `PUT /debug/flags/s`, `f` or `d` with a value, for all pods or with `?pod=NAMESPACE/NAME` for one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::turn::{Lookout, Wanted};
use http::StatusCode;
use serde::Serialize;

use super::{Query, Refusal};
use crate::config::truth;

/// What they are beneath.
pub const PATH: &str = "/debug/flags";
/// The most nodes that a table shows.
const NODES_MAX: usize = 1000;
/// The most single pods that one switch is set for.
const PODS_MAX: usize = 64;

/// Switches of one scheduler; clones are the same.
#[derive(Debug, Clone, Default)]
pub struct Switches(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    /// How often anything was set.
    changes: AtomicU64,
    set: Mutex<Set>,
}

/// How switches stand that are for all pods.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Flags {
    /// How many of the best nodes are told.
    pub scores: usize,
    /// Whether it is told who refuses which nodes.
    pub filters: bool,
    /// Whether all is told that is known of why a pod has no node.
    pub diagnosis: bool,
}

/// What is told of decisions beyond what is always told.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Set {
    /// The scores of nodes, and who refuses which.
    pub lookout: Lookout,
    /// All that is known of why a pod has no node.
    pub diagnosis: Wanted<()>,
}

/// A switch, as it is shown.
#[derive(Debug, PartialEq, Eq, Serialize)]
pub(super) struct Shown {
    flag: &'static str,
    value: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pod: Option<String>,
}

impl Switches {
    /// Sets all of them.
    pub fn set_to(&self, flags: Flags) {
        let Flags { scores, filters, diagnosis } = flags;
        self.change(|set| {
            set.lookout.scores.all = (scores > 0).then_some(scores.min(NODES_MAX));
            set.lookout.refusals.all = filters.then_some(());
            set.diagnosis.all = diagnosis.then_some(());
        });
    }

    /// How often anything was set: whoever follows them looks at that, which costs nothing.
    pub(crate) fn changes(&self) -> u64 {
        self.0.changes.load(Ordering::Acquire)
    }

    /// How they stand.
    pub(crate) fn set(&self) -> Set {
        self.0.set.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    fn change<T>(&self, change: impl FnOnce(&mut Set) -> T) -> T {
        let changed = change(&mut self.0.set.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.changes.fetch_add(1, Ordering::Release);
        changed
    }

    /// Sets one, and says how it stands; what cannot be leaves it as it was.
    pub(super) fn put(&self, path: &str, query: &Query, body: &[u8]) -> Result<Shown, Refusal> {
        let value = str::from_utf8(body).map(str::trim).unwrap_or_default();
        if let Some(key) = query.keys().find(|key| *key != "pod") {
            return Err(wrong(format!("{key:?} narrows no switch: write ?pod=NAMESPACE/NAME")));
        }
        let pod = query.get("pod").map(|pod| named(pod)).transpose()?;
        let on = || {
            let word = truth(value);
            let word = word.ok_or_else(|| wrong(format!("{value:?} is neither true nor false")));
            word.map(|word| word.then_some(()))
        };
        let (flag, shown) = match path.strip_prefix(PATH).unwrap_or_default() {
            "/s" => {
                let count = nodes(value)?;
                self.change(|set| put(&mut set.lookout.scores, pod.as_ref(), count))?;
                ("s", count.unwrap_or_default().to_string())
            }
            "/f" => {
                let on = on()?;
                self.change(|set| put(&mut set.lookout.refusals, pod.as_ref(), on))?;
                ("f", on.is_some().to_string())
            }
            "/d" => {
                let on = on()?;
                self.change(|set| put(&mut set.diagnosis, pod.as_ref(), on))?;
                ("d", on.is_some().to_string())
            }
            _ => {
                let text = format!("there is no {path}; there are /debug/flags/s, f and d");
                return Err(Refusal::new(StatusCode::NOT_FOUND, text));
            }
        };
        Ok(Shown::new(flag, shown, pod.as_ref()))
    }

    /// All of them: each for all pods, then for single ones.
    pub(super) fn shown(&self) -> Vec<Shown> {
        fn shown<T: Copy>(
            flag: &'static str,
            own: &Wanted<T>,
            value: impl Fn(Option<T>) -> String,
        ) -> Vec<Shown> {
            let all = Shown::new(flag, value(own.all), None);
            let single =
                own.pods.iter().map(|(pod, one)| Shown::new(flag, value(Some(*one)), Some(pod)));
            [all].into_iter().chain(single).collect()
        }
        let Set { lookout: Lookout { scores, refusals }, diagnosis } = self.set();
        let is_on = |own: Option<()>| own.is_some().to_string();
        [
            shown("s", &scores, |count| count.unwrap_or_default().to_string()),
            shown("f", &refusals, is_on),
            shown("d", &diagnosis, is_on),
        ]
        .into_iter()
        .flatten()
        .collect()
    }
}

/// Namespace and name of a pod.
type PodName = (Box<str>, Box<str>);

impl Shown {
    fn new(flag: &'static str, value: String, pod: Option<&PodName>) -> Self {
        Self { flag, value, pod: pod.map(|(namespace, name)| format!("{namespace}/{name}")) }
    }
}

fn wrong(text: String) -> Refusal {
    Refusal::new(StatusCode::BAD_REQUEST, text)
}

fn named(pod: &str) -> Result<PodName, Refusal> {
    let named = pod.split_once('/').filter(|(namespace, name)| {
        !namespace.is_empty() && !name.is_empty() && !name.contains('/')
    });
    let (namespace, name) =
        named.ok_or_else(|| wrong(format!("{pod:?} is no pod: write ?pod=NAMESPACE/NAME")))?;
    Ok((namespace.into(), name.into()))
}

/// Of how many nodes is told; none where it is told of none.
fn nodes(value: &str) -> Result<Option<usize>, Refusal> {
    let count = value.parse().ok().filter(|count| *count <= NODES_MAX);
    let count = count.ok_or_else(|| {
        let most = NODES_MAX;
        wrong(format!("{value:?} is no number of nodes: write 1 to {most}, or 0 for none"))
    })?;
    Ok((count > 0).then_some(count))
}

/// Wants this of a pod, or of all of which nothing else is said.
fn put<T>(own: &mut Wanted<T>, pod: Option<&PodName>, value: Option<T>) -> Result<(), Refusal> {
    match (pod, value) {
        (None, value) => own.all = value,
        (Some(pod), None) => drop(own.pods.remove(pod)),
        (Some(pod), Some(_)) if own.pods.len() >= PODS_MAX && !own.pods.contains_key(pod) => {
            let text = "it is set for as many single pods as can be: set it to 0 or false for one";
            return Err(wrong(format!("{text} ({PODS_MAX})")));
        }
        (Some(pod), Some(value)) => drop(own.pods.insert(pod.clone(), value)),
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use engine::fact::PodRef;
    use serde_json::json;

    use super::*;

    #[test]
    fn s10_76_a_switch_is_set_by_what_can_be_and_stays_as_it_was_otherwise() {
        let switches = Switches::default();
        switches.set_to(Flags { scores: 2, filters: false, diagnosis: true });
        let standing = || serde_json::to_value(switches.shown()).unwrap();
        let begun = json!([{ "flag": "s", "value": "2" }, { "flag": "f", "value": "false" },
            { "flag": "d", "value": "true" }]);
        assert_eq!(standing(), begun);
        let put = |path: &str, pod: Option<&str>, value: &str| {
            let query = pod.map(|pod| ("pod".to_owned(), pod.to_owned())).into_iter().collect();
            let told = switches.put(&format!("{PATH}{path}"), &query, value.as_bytes());
            told.map(|own| serde_json::to_value(own).unwrap())
                .map_err(|refusal| (refusal.code, refusal.message))
        };
        let refused = |path: &str, pod: Option<&str>, value: &str, code: u16, begin: &str| {
            let (before, changes) = (standing(), switches.changes());
            let (own, words) = put(path, pod, value).unwrap_err();
            assert!(own == code && words.starts_with(begin), "{own} {words}");
            assert_eq!((standing(), switches.changes()), (before, changes));
        };
        let numbers = " is no number of nodes: write 1 to 1000, or 0 for none";
        for odd in ["abc", "-5", "1001", "1.5"] {
            refused("/s", None, odd, 400, &format!("{odd:?}{numbers}"));
        }
        refused("/s", None, "", 400, "\"\" is no number of nodes");
        refused("/f", None, "5", 400, "\"5\" is neither true nor false");
        refused("/f", Some("web"), "true", 400, "\"web\" is no pod: write ?pod=NAMESPACE/NAME");
        refused("/x", None, "true", 404, "there is no /debug/flags/x; there are ");
        refused("", None, "true", 404, "there is no /debug/flags; there are ");
        let query = Query::from([("pd".to_owned(), "a/b".to_owned())]);
        let odd = switches.put(&format!("{PATH}/s"), &query, b"5").unwrap_err();
        let words = "\"pd\" narrows no switch: write ?pod=NAMESPACE/NAME";
        assert_eq!((odd.code, odd.message.as_str()), (400, words));
        assert_eq!(standing(), begun);
        assert_eq!(put("/s", None, "5\n"), Ok(json!({ "flag": "s", "value": "5" })));
        assert_eq!(put("/s", None, "0"), Ok(json!({ "flag": "s", "value": "0" })));
        assert_eq!(put("/d", None, "0"), Ok(json!({ "flag": "d", "value": "false" })));
        assert_eq!(switches.set(), Set::default());
    }

    #[test]
    fn a_switch_is_set_for_all_pods_and_for_single_ones_apart() {
        let switches = Switches::default();
        let put = |pod: Option<&str>, value: &str| {
            let query = pod.map(|pod| ("pod".to_owned(), pod.to_owned())).into_iter().collect();
            switches.put(&format!("{PATH}/s"), &query, value.as_bytes())
        };
        let counts = || {
            let own = switches.set().lookout.scores;
            let of = |name: &str| own.of(&pod_named(name));
            (own.all, of("a"), of("b"))
        };
        let told = put(Some("shop/a"), "3").unwrap();
        assert_eq!(told, Shown { flag: "s", value: "3".into(), pod: Some("shop/a".into()) });
        assert_eq!(counts(), (None, Some(3), None));
        put(Some("shop/b"), "4").unwrap();
        put(None, "5").unwrap();
        assert_eq!(counts(), (Some(5), Some(3), Some(4)));
        let told = put(Some("shop/a"), "0").unwrap();
        assert_eq!(told, Shown { flag: "s", value: "0".into(), pod: Some("shop/a".into()) });
        put(None, "0").unwrap();
        assert_eq!(counts(), (None, None, Some(4)));
        let shown = serde_json::to_value(switches.shown()).unwrap();
        let rest =
            [json!({ "flag": "f", "value": "false" }), json!({ "flag": "d", "value": "false" })];
        let own = [
            json!({ "flag": "s", "value": "0" }),
            json!({ "flag": "s", "value": "4", "pod": "shop/b" }),
        ];
        assert_eq!(shown, json!([own, rest].concat()));
        for number in 1..PODS_MAX {
            put(Some(&format!("shop/p{number}")), "1").unwrap();
        }
        assert!(put(Some("shop/c"), "1").unwrap_err().message.contains("as many single pods"));
        put(Some("shop/b"), "2").unwrap();
    }

    fn pod_named(name: &str) -> PodRef {
        let uid = engine::fact::Uid::new(name);
        PodRef { uid, namespace: "shop".into(), name: name.into(), is_reservation: false }
    }
}
