//! What is said to an extender and what it says, as JSON of `extender/v1`.
//!
//! Its fields begin with capitals, and those who answer may write them in any case. Whole nodes and
//! the pod are passed on as the API server told them; of an answer only names are read, no more of them
//! than anybody could mean, and words up to a length.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::fmt;
use std::marker::PhantomData;

use bytes::Bytes;
use chassis::words::cut;
use serde::de::{DeserializeOwned, Deserializer, IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::{Deserialize, Serialize};

/// How many things an answer may name: more nodes than any cluster has.
const ITEMS_MAX: usize = 100_000;
/// How long the words of an extender may be; more are cut.
const WORDS_MAX: usize = 1024;

/// The nodes that are asked about, as an extender wants them.
#[derive(Debug, Clone, Copy)]
pub(super) enum Nodes<'a> {
    /// By their names.
    Names(&'a [Box<str>]),
    /// As whole objects.
    Whole(&'a [Bytes]),
}

/// The question which of these nodes can take a pod, or how good they are.
pub(super) fn question(pod: &[u8], nodes: Nodes<'_>) -> Bytes {
    let mut body = Vec::with_capacity(pod.len() + 64);
    body.extend_from_slice(b"{\"Pod\":");
    body.extend_from_slice(pod);
    match nodes {
        Nodes::Names(names) => {
            body.extend_from_slice(b",\"Nodes\":null,\"NodeNames\":");
            body.extend(serde_json::to_vec(names).unwrap_or_default());
        }
        Nodes::Whole(nodes) => {
            body.extend_from_slice(b",\"Nodes\":{\"metadata\":{},\"items\":[");
            for (place, node) in nodes.iter().enumerate() {
                if place > 0 {
                    body.push(b',');
                }
                body.extend_from_slice(node);
            }
            body.extend_from_slice(b"]},\"NodeNames\":null");
        }
    }
    body.push(b'}');
    body.into()
}

/// The order to bind a pod.
#[derive(Debug, Serialize)]
#[serde(rename_all = "PascalCase")]
pub(super) struct Binding<'a> {
    pub(super) pod_name: &'a str,
    pub(super) pod_namespace: &'a str,
    #[serde(rename = "PodUID")]
    pub(super) pod_uid: &'a str,
    pub(super) node: &'a str,
}

/// Which nodes can take a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Filtered {
    /// Names of those that can, where whole nodes were answered.
    pub nodes: Option<Vec<String>>,
    /// The same where names were answered.
    pub node_names: Option<Vec<String>>,
    /// Those that cannot, and why.
    pub failed: BTreeMap<String, String>,
    /// The same, where nobody who leaves would help.
    pub unresolvable: BTreeMap<String, String>,
    /// What went wrong.
    pub error: String,
}

/// How good nodes are.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Scores(pub(super) Vec<Scored>);

impl<'de> Deserialize<'de> for Scores {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        Bounded::deserialize(deserializer).map(|own| Self(own.0))
    }
}

/// How good a node is.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Scored {
    /// Its name.
    pub host: String,
    /// More is better.
    pub score: i64,
}

/// What came of a binding.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub(super) struct Bound {
    /// What went wrong.
    pub(super) error: String,
}

#[derive(Deserialize)]
struct NodeList {
    #[serde(default)]
    items: Option<Bounded<Item>>,
}

#[derive(Deserialize)]
struct Item {
    #[serde(default)]
    metadata: Name,
}

#[derive(Default, Deserialize)]
struct Name {
    #[serde(default)]
    name: String,
}

/// A sequence that is not read further than anybody could mean.
struct Bounded<T>(Vec<T>);

impl<'de, T: Deserialize<'de>> Deserialize<'de> for Bounded<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_seq(Counting(PhantomData))
    }
}

struct Counting<T>(PhantomData<T>);

impl<'de, T: Deserialize<'de>> Visitor<'de> for Counting<T> {
    type Value = Bounded<T>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a sequence")
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut sequence: A) -> Result<Bounded<T>, A::Error> {
        let mut items = Vec::new();
        while let Some(item) = sequence.next_element()? {
            if items.len() == ITEMS_MAX {
                return Err(too_many());
            }
            items.push(item);
        }
        Ok(Bounded(items))
    }
}

/// What is said of each node, read no further either.
#[derive(Default)]
struct Reasons(BTreeMap<String, String>);

impl<'de> Deserialize<'de> for Reasons {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Self::default())
    }
}

impl<'de> Visitor<'de> for Reasons {
    type Value = Self;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("words for each node")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<Self, A::Error> {
        while let Some(node) = map.next_key()? {
            if self.0.len() == ITEMS_MAX {
                return Err(too_many());
            }
            self.0.insert(node, words(&mut map)?);
        }
        Ok(self)
    }
}

fn too_many<E: serde::de::Error>() -> E {
    E::custom(format!("there are more than {ITEMS_MAX} of them"))
}

/// Words that are not longer than anybody reads.
fn words<'de, A: MapAccess<'de>>(map: &mut A) -> Result<String, A::Error> {
    Ok(cut(value(map)?, WORDS_MAX))
}

/// Something whose fields are known by their names in lower case.
trait Fields: Default {
    fn take<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error>;
}

/// What is `null` is as good as not there.
fn value<'de, T: Default + Deserialize<'de>, A: MapAccess<'de>>(
    map: &mut A,
) -> Result<T, A::Error> {
    Ok(map.next_value::<Option<T>>()?.unwrap_or_default())
}

impl Fields for Filtered {
    fn take<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "nodes" => {
                let list = map.next_value::<Option<NodeList>>()?;
                let items = |list: NodeList| list.items.map_or_else(Vec::new, |items| items.0);
                let names = |items: Vec<Item>| items.into_iter().map(|item| item.metadata.name);
                self.nodes = list.map(|list| names(items(list)).collect());
            }
            "nodenames" => {
                let names = map.next_value::<Option<Bounded<String>>>()?;
                self.node_names = names.map(|names| names.0);
            }
            "failednodes" => self.failed = value::<Reasons, _>(map)?.0,
            "failedandunresolvablenodes" => self.unresolvable = value::<Reasons, _>(map)?.0,
            "error" => self.error = words(map)?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Fields for Scored {
    fn take<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "host" => self.host = value(map)?,
            "score" => self.score = value(map)?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

impl Fields for Bound {
    fn take<'de, A: MapAccess<'de>>(&mut self, name: &str, map: &mut A) -> Result<(), A::Error> {
        match name {
            "error" => self.error = words(map)?,
            _ => drop(map.next_value::<IgnoredAny>()?),
        }
        Ok(())
    }
}

struct Reading<T>(T);

impl<'de, T: Fields> Visitor<'de> for Reading<T> {
    type Value = T;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("an object")
    }

    fn visit_map<A: MapAccess<'de>>(mut self, mut map: A) -> Result<T, A::Error> {
        while let Some(name) = map.next_key::<Cow<'de, str>>()? {
            self.0.take(&name.to_ascii_lowercase(), &mut map)?;
        }
        Ok(self.0)
    }
}

impl<'de> Deserialize<'de> for Filtered {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reading(Self::default()))
    }
}

impl<'de> Deserialize<'de> for Scored {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reading(Self::default()))
    }
}

impl<'de> Deserialize<'de> for Bound {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Reading(Self::default()))
    }
}

/// Reads an answer; what comes after it is not looked at.
pub(super) fn read<T: Default + DeserializeOwned>(body: &[u8]) -> Result<T, serde_json::Error> {
    let mut deserializer = serde_json::Deserializer::from_slice(body);
    Ok(Option::<T>::deserialize(&mut deserializer)?.unwrap_or_default())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_question_has_names_or_whole_nodes() {
        let check = |nodes: Nodes<'_>, expected: &str| {
            let body = question(b"{\"kind\":\"Pod\"}", nodes);
            assert_eq!(String::from_utf8(body.to_vec()).unwrap(), expected);
        };
        let names = ["a".into(), "b\"".into()];
        check(
            Nodes::Names(&names),
            r#"{"Pod":{"kind":"Pod"},"Nodes":null,"NodeNames":["a","b\""]}"#,
        );
        let whole = [Bytes::from_static(b"{}"), Bytes::from_static(b"{\"a\":1}")];
        check(
            Nodes::Whole(&whole),
            r#"{"Pod":{"kind":"Pod"},"Nodes":{"metadata":{},"items":[{},{"a":1}]},"NodeNames":null}"#,
        );
        let binding = Binding { pod_name: "p", pod_namespace: "ns", pod_uid: "u", node: "n" };
        let told = serde_json::to_string(&binding).unwrap();
        let expected = r#"{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"n"}"#;
        assert_eq!(told, expected);
    }

    #[test]
    fn an_answer_is_read_whatever_the_case_of_its_fields() {
        let check = |body: &str, expected: Result<Filtered, &str>| {
            let read = read::<Filtered>(body.as_bytes());
            match (read, expected) {
                (Ok(read), Ok(expected)) => assert_eq!(read, expected, "{body}"),
                (Err(error), Err(part)) => assert!(error.to_string().contains(part), "{error}"),
                (read, _) => panic!("{body}: {read:?}"),
            }
        };
        let empty = Filtered::default;
        let names = || Some(vec!["a".to_owned()]);
        check("{}", Ok(empty()));
        check("null", Ok(empty()));
        check(r#"{"NodeNames":null,"FailedNodes":null,"Error":null}"#, Ok(empty()));
        check(r#"{"NodeNames":["a"],"More":{}}"#, Ok(Filtered { node_names: names(), ..empty() }));
        check(r#"{"nodenames":["a"]} more"#, Ok(Filtered { node_names: names(), ..empty() }));
        let whole = r#"{"Nodes":{"items":[{"metadata":{"name":"a","labels":{}},"spec":{}}]}}"#;
        check(whole, Ok(Filtered { nodes: names(), ..empty() }));
        check(r#"{"nodes":{"items":null}}"#, Ok(Filtered { nodes: Some(vec![]), ..empty() }));
        let failed = BTreeMap::from([("a".to_owned(), "no".to_owned())]);
        let both = r#"{"failedNodes":{"a":"no"},"FailedAndUnresolvableNodes":{"a":"no"}}"#;
        check(both, Ok(Filtered { failed: failed.clone(), unresolvable: failed, ..empty() }));
        check(r#"{"error":"full"}"#, Ok(Filtered { error: "full".to_owned(), ..empty() }));
        check("", Err("EOF"));
        check("<html>", Err("expected value"));
        check("[]", Err("expected an object"));
        check(r#"{"NodeNames":"a"}"#, Err("expected a sequence"));
        let Scores(scores) = read(br#"[{"Host":"a","Score":5},{"host":"b"}]"#).unwrap();
        let scored = |host: &str, score| Scored { host: host.to_owned(), score };
        assert_eq!(scores, [scored("a", 5), scored("b", 0)]);
        let bound: Bound = read(br#"{"Error":"no"}"#).unwrap();
        assert_eq!(bound.error, "no");
    }

    #[test]
    fn an_answer_is_read_no_further_than_anybody_could_mean() {
        let long = "é".repeat(5_000_000);
        let body = format!(r#"{{"FailedNodes":{{"a":"{long}"}},"Error":"{long}"}}"#);
        let filtered: Filtered = read(body.as_bytes()).unwrap();
        for words in [&filtered.failed["a"], &filtered.error] {
            assert!((WORDS_MAX - 2..=WORDS_MAX).contains(&words.len()), "{}", words.len());
            assert!(words.ends_with("é ..."));
        }
        let bound: Bound = read(body.as_bytes()).unwrap();
        assert_eq!(bound.error, filtered.error);
        let many = |count: usize| format!("[{}{{}}]", "{},".repeat(count - 1));
        let scores: Scores = read(many(ITEMS_MAX).as_bytes()).unwrap();
        assert_eq!(scores.0.len(), ITEMS_MAX);
        let error = read::<Scores>(many(ITEMS_MAX + 1).as_bytes()).unwrap_err().to_string();
        assert!(error.starts_with("there are more than 100000 of them"), "{error}");
        let whole = format!(r#"{{"Nodes":{{"items":{}}}}}"#, many(ITEMS_MAX + 1));
        assert!(read::<Filtered>(whole.as_bytes()).is_err());
        let names = format!(r#"{{"NodeNames":[{}""]}}"#, "\"\",".repeat(ITEMS_MAX));
        assert!(read::<Filtered>(names.as_bytes()).is_err());
        let failed = |count: usize| {
            let failed: Vec<String> = (0..count).map(|n| format!(r#""n{n}":null"#)).collect();
            read::<Filtered>(format!(r#"{{"FailedNodes":{{{}}}}}"#, failed.join(",")).as_bytes())
        };
        assert_eq!(failed(ITEMS_MAX).unwrap().failed.len(), ITEMS_MAX);
        assert!(failed(ITEMS_MAX + 1).is_err());
    }
}
