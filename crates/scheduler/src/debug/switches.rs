//! Switches by which a scheduler tells more of its decisions in the log, while it runs: by
//! `PUT /debug/flags/s`, `f` or `d` with a value, for all pods or with `?pod=NAMESPACE/NAME` for one.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

use engine::turn::{Lookout, Pods};
use http::StatusCode;
use serde::Serialize;

use super::{Query, Refusal};
use crate::config::truth;

/// What they are beneath.
pub const PATH: &str = "/debug/flags";
/// The most nodes that a table shows.
const NODES_MAX: usize = 1000;

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
    /// All that is known of why a pod has no node, of these pods.
    pub diagnosis: Option<Pods>,
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
            set.lookout.scores = some(scores, Pods::All);
            set.lookout.refusals = filters.then_some(Pods::All);
            set.diagnosis = diagnosis.then_some(Pods::All);
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

    fn change(&self, change: impl FnOnce(&mut Set)) {
        change(&mut self.0.set.lock().unwrap_or_else(PoisonError::into_inner));
        self.0.changes.fetch_add(1, Ordering::Release);
    }

    /// Sets one, and says how it stands; what cannot be leaves it as it was.
    pub(super) fn put(&self, path: &str, query: &Query, body: &[u8]) -> Result<Shown, Refusal> {
        let wrong = |text: String| Refusal::new(StatusCode::BAD_REQUEST, text);
        let value = str::from_utf8(body).map(str::trim).unwrap_or_default();
        if let Some(key) = query.keys().find(|key| *key != "pod") {
            return Err(wrong(format!("{key:?} narrows no switch: write ?pod=NAMESPACE/NAME")));
        }
        let pods = match query.get("pod") {
            None => Pods::All,
            Some(pod) => {
                let named = pod.split_once('/').filter(|(namespace, name)| {
                    !namespace.is_empty() && !name.is_empty() && !name.contains('/')
                });
                let (namespace, name) = named.ok_or_else(|| {
                    wrong(format!("{pod:?} is no pod: write ?pod=NAMESPACE/NAME"))
                })?;
                Pods::One(namespace.into(), name.into())
            }
        };
        let flag = path.strip_prefix(PATH).unwrap_or_default();
        let on = || {
            let word = truth(value);
            word.ok_or_else(|| wrong(format!("{value:?} is neither true nor false")))
        };
        match flag {
            "/s" => {
                let count = value.parse::<i64>().map_err(|_| {
                    wrong(format!("{value:?} is no number of nodes: write 5, or 0 for none"))
                })?;
                let count = usize::try_from(count).unwrap_or(0);
                self.change(|set| set.lookout.scores = some(count, pods));
            }
            "/f" => {
                let pods = on()?.then_some(pods);
                self.change(|set| set.lookout.refusals = pods);
            }
            "/d" => {
                let pods = on()?.then_some(pods);
                self.change(|set| set.diagnosis = pods);
            }
            _ => {
                let text = format!("there is no {path}; there are /debug/flags/s, f and d");
                return Err(Refusal::new(StatusCode::NOT_FOUND, text));
            }
        }
        let letter = flag.trim_start_matches('/');
        let mut shown = self.shown().into_iter();
        shown.find(|own| own.flag == letter).ok_or_else(Refusal::idle)
    }

    /// All of them.
    pub(super) fn shown(&self) -> [Shown; 3] {
        let Set { lookout: Lookout { scores, refusals }, diagnosis } = self.set();
        let (count, ranked) = scores.map_or((0, None), |(count, pods)| (count, Some(pods)));
        let shown = |flag, value: String, pods: Option<Pods>| {
            let pod = pods.and_then(|pods| match pods {
                Pods::All => None,
                Pods::One(namespace, name) => Some(format!("{namespace}/{name}")),
            });
            Shown { flag, value, pod }
        };
        [
            shown("s", count.to_string(), ranked),
            shown("f", refusals.is_some().to_string(), refusals),
            shown("d", diagnosis.is_some().to_string(), diagnosis),
        ]
    }
}

fn some(count: usize, pods: Pods) -> Option<(usize, Pods)> {
    (count > 0).then_some((count.min(NODES_MAX), pods))
}

#[cfg(test)]
mod tests {
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
        refused("/s", None, "abc", 400, "\"abc\" is no number of nodes: write 5, or 0 for none");
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
        assert_eq!(switches.set().lookout.scores, Some((5, Pods::All)));
        let one = json!({ "flag": "f", "value": "true", "pod": "shop/web" });
        assert_eq!(put("/f", Some("shop/web"), "true"), Ok(one));
        let pod = Pods::One("shop".into(), "web".into());
        assert_eq!(switches.set().lookout.refusals, Some(pod));
        assert_eq!(put("/s", None, "-1"), Ok(json!({ "flag": "s", "value": "0" })));
        assert_eq!(put("/d", None, "0"), Ok(json!({ "flag": "d", "value": "false" })));
        assert_eq!(switches.set().diagnosis, None);
    }
}
