//! What a pod uses. A report has dozens of them, so each is read with one piece of memory of its own:
//! its namespace and name.

use std::borrow::Cow;
use std::fmt;

use serde::ser::SerializeStruct as _;
use serde::{Deserialize, Deserializer, Serialize, Serializer};

use super::ResourceMap;
use crate::priority::PriorityBand;

/// The namespace and the name of a pod.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct PodName {
    /// One after the other.
    both: Box<str>,
    /// Where the name begins.
    name_at: usize,
}

impl PodName {
    /// The pod of this namespace and name.
    #[must_use]
    pub fn new(namespace: &str, name: &str) -> Self {
        let both =
            if namespace.is_empty() { name.into() } else { [namespace, name].concat().into() };
        Self { both, name_at: namespace.len() }
    }

    /// The namespace.
    #[must_use]
    pub fn namespace(&self) -> &str {
        &self.both[..self.name_at]
    }

    /// The name within it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.both[self.name_at..]
    }
}

impl fmt::Debug for PodName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.namespace(), self.name())
    }
}

/// Usage of a pod.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct PodMetric {
    /// Which one.
    pub pod: PodName,
    /// What it uses.
    pub pod_usage: ResourceMap,
    /// Its band, as [`PriorityBand`] is written; empty for none.
    pub priority: Cow<'static, str>,
}

/// The same as it is read: texts are those of the answer, where they can be.
#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase", expecting = "struct PodMetric")]
struct Wire<'a> {
    #[serde(borrow)]
    namespace: Cow<'a, str>,
    #[serde(borrow)]
    name: Cow<'a, str>,
    pod_usage: ResourceMap,
    #[serde(borrow)]
    priority: Cow<'a, str>,
}

/// A text that is memory of its own only where it is none of those that are usual.
fn band(text: Cow<'_, str>) -> Cow<'static, str> {
    let mut known = PriorityBand::ALL.into_iter().map(PriorityBand::as_str).chain([""]);
    let known = known.find(|known| *known == text);
    known.map_or_else(|| Cow::Owned(text.into_owned()), Cow::Borrowed)
}

impl<'de> Deserialize<'de> for PodMetric {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let Wire { namespace, name, pod_usage, priority } = Wire::deserialize(deserializer)?;
        Ok(Self { pod: PodName::new(&namespace, &name), pod_usage, priority: band(priority) })
    }
}

impl Serialize for PodMetric {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut fields = serializer.serialize_struct("PodMetric", 4)?;
        fields.serialize_field("namespace", self.pod.namespace())?;
        fields.serialize_field("name", self.pod.name())?;
        fields.serialize_field("podUsage", &self.pod_usage)?;
        match &*self.priority {
            "" => fields.skip_field("priority")?,
            priority => fields.serialize_field("priority", priority)?,
        }
        fields.end()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_read_is_written_again() {
        let check = |text: &str, expected: &str| {
            let own: PodMetric = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::to_string(&own).unwrap(), expected, "{text}");
            let value: serde_json::Value = serde_json::from_str(text).unwrap();
            assert_eq!(serde_json::from_value::<PodMetric>(value).unwrap(), own, "{text}");
        };
        check("{}", r#"{"namespace":"","name":"","podUsage":{}}"#);
        check(
            r#"{"qos":"LS","priority":"koord-prod","name":"web-0","namespace":"shop"}"#,
            r#"{"namespace":"shop","name":"web-0","podUsage":{},"priority":"koord-prod"}"#,
        );
        check(
            r#"{"name":"b\u00e4r","priority":"\u0067old","podUsage":{"resources":{"cpu":"1"}}}"#,
            r#"{"namespace":"","name":"bär","podUsage":{"resources":{"cpu":"1"}},"priority":"gold"}"#,
        );
    }

    #[test]
    fn what_is_no_pod_is_refused_by_name() {
        let check = |text: &str, expected: &str| {
            let error = serde_json::from_str::<PodMetric>(text).unwrap_err().to_string();
            let told = error.split(" at line").next().unwrap();
            assert_eq!(told, expected, "{text}");
        };
        check(r#"{"name":7}"#, "invalid type: integer `7`, expected a string");
        check(r#"{"namespace":null}"#, "invalid type: null, expected a string");
        check(r#"{"priority":[]}"#, "invalid type: sequence, expected a string");
        check(r#"{"name":"a","name":"b"}"#, "duplicate field `name`");
        check(r#"{"podUsage":1}"#, "invalid type: integer `1`, expected struct ResourceMap");
        check("1", "invalid type: integer `1`, expected struct PodMetric");
    }

    #[test]
    fn pods_are_told_apart_by_both() {
        let (one, other) = (PodName::new("a", "bc"), PodName::new("ab", "c"));
        assert_ne!(one, other);
        assert_eq!(
            [one.namespace(), one.name(), other.namespace(), other.name()],
            ["a", "bc", "ab", "c"]
        );
    }
}
