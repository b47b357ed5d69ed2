//! What no two servers share, and what stands in its place when answers are compared.
//!
//! This is the one closed list. Whatever is not named here is compared as it is:
//!
//! | what | where it is found | what stands for it |
//! |---|---|---|
//! | uid | text of the shape of a uid in a field `uid`, then wherever it occurs | `{uid-1}`, by first appearance |
//! | time | an RFC 3339 time within an hour of now, as a text or in one | `{time}`, `{micro-time}` |
//! | age | a cell of a table that is a number of seconds, as in `7s` | `{age}` |
//! | revision of an object | field `resourceVersion` | `{revision-1}`, by first appearance |
//! | revision of a list or bookmark | the same, in the metadata of a list, table or bookmark | `{revision}` |
//! | revision in a message | after the phrases of [`REVISION_PHRASES`] | `{revision}` |
//! | name of a mounted token | five characters after `kube-api-access-` | `{suffix}` |
//! | generated suffix | five characters after `generateName` in a name | `{suffix-1}` |
//! | continue token | field `continue` | `{continue}` |
//! | address of a service | text in a field `clusterIP` within `10.96.0.0/16`, then wherever it occurs | `{address-1}` |
//! | port of the nodes | number in a field `nodePort` or `healthCheckNodePort`, then in cells | `{port-1}` |
//! | namespace of the scenario | wherever it occurs | `{ns}` |
//! | place in the store | the prefix of a key in a message | `/registry` |
//!
//! Numbers by first appearance keep what matters: that two answers show the same uid, or that a
//! write which changes nothing leaves the revision.

use std::collections::BTreeMap;

use jiff::{Timestamp, ToSpan};
use serde_json::{Map, Value, json};

use crate::client::Answer;

/// The phrases of messages that are followed by a revision.
pub const REVISION_PHRASES: [&str; 9] = [
    r#"resourceVersion\":\""#,
    "ResourceVersion in the precondition (",
    "ResourceVersion in record (",
    "ResourceVersion in precondition: ",
    "ResourceVersion in object meta: ",
    "too old resource version: ",
    "Too large resource version: ",
    "current: ",
    "resourceVersion: ",
];

/// How the name of the volume of a mounted token starts.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// The lengths of a date, and of a time from its `T` to its `Z`, without fractions.
const DATE_LENGTH: usize = "2006-01-02".len();
const TIME_LENGTH: usize = "T15:04:05Z".len();

/// How the store's keys start on a server of the truth harness; kube-apiserver's own default is
/// `/registry`.
const STORE_PREFIX: &str = "/gantry-truth-";

/// How the addresses of services start.
const ADDRESSES: &str = "10.96.";

/// The length of the random part of a generated name, and of the random part of
/// [`STORE_PREFIX`]'s folder.
const SUFFIX_LENGTH: usize = 5;
const FOLDER_SUFFIX_LENGTH: usize = 6;

/// The answers of one play as one JSON value, with the closed list replaced. `preparation` are
/// answers that are not compared but may name what the others mention.
#[must_use]
pub fn normalised(
    answers: &[Answer],
    preparation: &[Answer],
    namespace: &str,
    now: Timestamp,
) -> Value {
    let mut names = Names::default();
    for answer in answers.iter().chain(preparation) {
        names.collect(&answer.body);
    }
    let rewriter = Rewriter { names, namespace, now };
    let answers = answers.iter().map(|answer| {
        let mut body = answer.body.clone();
        rewriter.rewrite(&mut body, "");
        let mut headers = json!(answer.headers);
        rewriter.rewrite(&mut headers, "");
        json!({"code": answer.code, "headers": headers, "body": body})
    });
    Value::Array(answers.collect())
}

/// What was seen, in order of first appearance.
#[derive(Default)]
struct Names {
    uids: BTreeMap<String, String>,
    revisions: BTreeMap<String, String>,
    generated: BTreeMap<String, String>,
    addresses: BTreeMap<String, String>,
    ports: BTreeMap<String, String>,
}

impl Names {
    fn collect(&mut self, value: &Value) {
        match value {
            Value::Array(items) => items.iter().for_each(|item| self.collect(item)),
            Value::Object(members) => {
                self.collect_generated(members);
                let is_list = is_list_or_bookmark(members);
                for (key, member) in members {
                    match (key.as_str(), member) {
                        ("uid", Value::String(text)) if is_uid(text) => {
                            number(&mut self.uids, text, "uid");
                        }
                        ("resourceVersion", Value::String(text)) if is_revision(text) => {
                            number(&mut self.revisions, text, "revision");
                        }
                        ("clusterIP", Value::String(text)) if text.starts_with(ADDRESSES) => {
                            number(&mut self.addresses, text, "address");
                        }
                        ("nodePort" | "healthCheckNodePort", Value::Number(port)) => {
                            number(&mut self.ports, &port.to_string(), "port");
                        }
                        ("metadata", _) if is_list => {}
                        _ => self.collect(member),
                    }
                }
            }
            _ => {}
        }
    }

    fn collect_generated(&mut self, members: &Map<String, Value>) {
        let text = |key: &str| members.get(key).and_then(Value::as_str);
        let (Some(start), Some(name)) = (text("generateName"), text("name")) else { return };
        if let Some(suffix) = name.strip_prefix(start)
            && suffix.len() == SUFFIX_LENGTH
            && !self.generated.contains_key(name)
        {
            let number = self.generated.len() + 1;
            self.generated.insert(name.to_owned(), format!("{start}{{suffix-{number}}}"));
        }
    }
}

fn number(names: &mut BTreeMap<String, String>, text: &str, what: &str) {
    if !names.contains_key(text) {
        let number = names.len() + 1;
        names.insert(text.to_owned(), format!("{{{what}-{number}}}"));
    }
}

struct Rewriter<'a> {
    names: Names,
    namespace: &'a str,
    now: Timestamp,
}

impl Rewriter<'_> {
    /// Replaces in `value`, which is the member `key` of its parent.
    fn rewrite(&self, value: &mut Value, key: &str) {
        match value {
            Value::Array(items) => items.iter_mut().for_each(|item| self.rewrite(item, key)),
            Value::Object(members) => {
                if is_list_or_bookmark(members)
                    && let Some(Value::Object(metadata)) = members.get_mut("metadata")
                    && let Some(Value::String(revision)) = metadata.get_mut("resourceVersion")
                    && is_revision(revision)
                {
                    "{revision}".clone_into(revision);
                }
                for (name, member) in members.iter_mut() {
                    self.rewrite(member, name);
                }
            }
            Value::String(text) => *text = self.rewritten(text, key),
            Value::Number(port) if matches!(key, "nodePort" | "healthCheckNodePort") => {
                if let Some(name) = self.names.ports.get(&port.to_string()) {
                    *value = name.clone().into();
                }
            }
            _ => {}
        }
    }

    fn rewritten(&self, text: &str, key: &str) -> String {
        if key == "resourceVersion"
            && let Some(name) = self.names.revisions.get(text)
        {
            return name.clone();
        }
        if key == "cells" && is_age(text) {
            return "{age}".to_owned();
        }
        if key == "continue" && !text.is_empty() {
            return "{continue}".to_owned();
        }
        if let Some(name) = self.time(text) {
            return name.to_owned();
        }
        let mut text = text.to_owned();
        for (known, name) in self.names.uids.iter().chain(&self.names.generated) {
            text = text.replace(known, name);
        }
        // The longest first: one address can begin another.
        for (known, name) in self.names.addresses.iter().rev() {
            text = text.replace(known, name);
        }
        if key == "cells" {
            for (known, name) in &self.names.ports {
                text = text.replace(&format!(":{known}/"), &format!(":{name}/"));
            }
        }
        let text = without_token_suffix(&text.replace(self.namespace, "{ns}"));
        let text = self.without_times(&text);
        without_store_prefix(&without_revisions(&text))
    }

    /// Messages quote whole objects, with their times.
    fn without_times(&self, text: &str) -> String {
        let mut result = String::new();
        let mut rest = text;
        while let Some(found) = rest.find('T') {
            let start = found.checked_sub(DATE_LENGTH);
            let end = found + TIME_LENGTH;
            let time = start.and_then(|start| Some((start, rest.get(start..end)?)));
            match time.and_then(|(start, time)| Some((start, self.time(time)?))) {
                Some((start, name)) => {
                    result.push_str(&rest[..start]);
                    result.push_str(name);
                    rest = &rest[end..];
                }
                None => {
                    result.push_str(&rest[..=found]);
                    rest = &rest[found + 1..];
                }
            }
        }
        result.push_str(rest);
        result
    }

    fn time(&self, text: &str) -> Option<&'static str> {
        let time: Timestamp = text.parse().ok()?;
        let near = self.now.checked_sub(1.hour()).ok()?..=self.now.checked_add(1.hour()).ok()?;
        if !near.contains(&time) {
            return None;
        }
        Some(if text.contains('.') { "{micro-time}" } else { "{time}" })
    }
}

/// Lists carry the revision of the whole store, which other scenarios move too.
fn is_list_or_bookmark(members: &Map<String, Value>) -> bool {
    let kind = members.get("kind").and_then(Value::as_str).unwrap_or_default();
    let annotations = members.get("metadata").and_then(|metadata| metadata.get("annotations"));
    let is_bookmark = members.len() == 3
        && members.get("metadata").and_then(Value::as_object).is_some_and(|metadata| {
            metadata.keys().all(|key| {
                matches!(key.as_str(), "resourceVersion" | "creationTimestamp" | "annotations")
            })
        });
    let ends_initial_events =
        annotations.is_some_and(|all| all.get("k8s.io/initial-events-end").is_some());
    kind.ends_with("List") || kind == "Table" || is_bookmark || ends_initial_events
}

fn is_revision(text: &str) -> bool {
    !text.is_empty() && text != "0" && text.bytes().all(|byte| byte.is_ascii_digit())
}

/// Objects of a scenario are seconds old.
fn is_age(text: &str) -> bool {
    let digits = text.strip_suffix('s').unwrap_or_default();
    !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit())
}

fn is_uid(text: &str) -> bool {
    let lengths = text.split('-').map(str::len);
    lengths.eq([8, 4, 4, 4, 12])
        && text.bytes().all(|byte| byte == b'-' || byte.is_ascii_hexdigit())
}

fn without_revisions(text: &str) -> String {
    let mut text = text.to_owned();
    for phrase in REVISION_PHRASES {
        let mut done = 0;
        while let Some(found) = text[done..].find(phrase) {
            let start = done + found + phrase.len();
            let digits = text[start..].bytes().take_while(u8::is_ascii_digit).count();
            if digits > 0 {
                text.replace_range(start..start + digits, "{revision}");
            }
            done = start;
        }
    }
    // A watch from too far back names the oldest revision in parentheses.
    if let Some(start) = text.find("too old resource version: {revision} (")
        && let Some(end) = text[start..].find(')')
    {
        text.replace_range(
            start..=start + end,
            "too old resource version: {revision} ({revision})",
        );
    }
    text
}

/// The volume of a mounted token has a random name.
fn without_token_suffix(text: &str) -> String {
    match text.strip_prefix(TOKEN_VOLUME) {
        Some(suffix) if suffix.len() == SUFFIX_LENGTH => format!("{TOKEN_VOLUME}{{suffix}}"),
        _ => text.to_owned(),
    }
}

fn without_store_prefix(text: &str) -> String {
    let mut parts = text.split(STORE_PREFIX);
    let mut result = parts.next().unwrap_or_default().to_owned();
    for part in parts {
        result.push_str("/registry");
        result.push_str(part.get(FOLDER_SUFFIX_LENGTH..).unwrap_or_default());
    }
    result
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(body: Value, expected: Value) {
        let answer = Answer { code: 200, headers: BTreeMap::new(), body };
        let now: Timestamp = "2026-01-01T12:00:00Z".parse().unwrap();
        let normalised = normalised(&[answer], &[], "ns-1", now);
        assert_eq!(normalised[0]["body"], expected);
    }

    const UID: &str = "0f8fad5b-d9cb-469f-a165-70867728950e";

    #[test]
    fn a_uid_is_numbered_and_found_again_in_texts() {
        check(
            json!({"metadata": {"uid": UID}, "message": format!("UID {UID}!")}),
            json!({"metadata": {"uid": "{uid-1}"}, "message": "UID {uid-1}!"}),
        );
        check(json!({"uid": "mine"}), json!({"uid": "mine"}));
    }

    #[test]
    fn only_a_time_near_now_is_replaced() {
        check(
            json!(["2026-01-01T12:00:09Z", "2026-01-01T12:00:09.000001Z", "2020-01-01T00:00:00Z"]),
            json!(["{time}", "{micro-time}", "2020-01-01T00:00:00Z"]),
        );
    }

    #[test]
    fn equal_revisions_stay_equal_and_those_of_lists_say_nothing() {
        check(
            json!([
                {"metadata": {"resourceVersion": "7"}},
                {"metadata": {"resourceVersion": "9"}},
                {"metadata": {"resourceVersion": "7"}},
                {"metadata": {"resourceVersion": "0"}},
                {"kind": "PodList", "metadata": {"resourceVersion": "9", "continue": "abc"},
                 "items": [{"metadata": {"resourceVersion": "9"}}]},
            ]),
            json!([
                {"metadata": {"resourceVersion": "{revision-1}"}},
                {"metadata": {"resourceVersion": "{revision-2}"}},
                {"metadata": {"resourceVersion": "{revision-1}"}},
                {"metadata": {"resourceVersion": "0"}},
                {"kind": "PodList", "metadata": {"resourceVersion": "{revision}",
                 "continue": "{continue}"},
                 "items": [{"metadata": {"resourceVersion": "{revision-2}"}}]},
            ]),
        );
    }

    #[test]
    fn the_volume_of_a_token_loses_its_suffix() {
        check(
            json!(["kube-api-access-x7k2p", "kube-api-access-other-x7k2p", "a-x7k2p"]),
            json!(["kube-api-access-{suffix}", "kube-api-access-other-x7k2p", "a-x7k2p"]),
        );
    }

    #[test]
    fn only_cells_of_tables_have_an_age() {
        check(
            json!({"cells": ["a", "12s", 12, "s"], "text": "12s"}),
            json!({"cells": ["a", "{age}", 12, "s"], "text": "12s"}),
        );
    }

    #[test]
    fn addresses_and_ports_of_services_are_numbered() {
        check(
            json!([
                {"spec": {"clusterIP": "10.96.7.1", "ports": [{"port": 80, "nodePort": 31000}]}},
                {"spec": {"clusterIP": "10.96.7.12"}, "cells": ["10.96.7.12", "80:31000/TCP"]},
                {"spec": {"clusterIP": "None"}},
            ]),
            json!([
                {"spec": {"clusterIP": "{address-1}",
                    "ports": [{"port": 80, "nodePort": "{port-1}"}]}},
                {"spec": {"clusterIP": "{address-2}"}, "cells": ["{address-2}", "80:{port-1}/TCP"]},
                {"spec": {"clusterIP": "None"}},
            ]),
        );
    }

    #[test]
    fn a_bookmark_has_the_revision_of_a_list() {
        check(
            json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1",
                "metadata": {"resourceVersion": "9", "creationTimestamp": null}}}),
            json!({"type": "BOOKMARK", "object": {"kind": "Pod", "apiVersion": "v1",
                "metadata": {"resourceVersion": "{revision}", "creationTimestamp": null}}}),
        );
    }

    #[test]
    fn a_generated_name_keeps_its_given_part() {
        check(
            json!({"metadata": {"generateName": "a-", "name": "a-x7k2p"}, "message": "a-x7k2p"}),
            json!({"metadata": {"generateName": "a-", "name": "a-{suffix-1}"},
                "message": "a-{suffix-1}"}),
        );
        check(
            json!({"generateName": "a-", "name": "b-x7k2p"}),
            json!({"generateName": "a-", "name": "b-x7k2p"}),
        );
    }

    #[test]
    fn messages_lose_revisions_namespace_and_store_prefix() {
        check(
            json!([
                "too old resource version: 1 (213)",
                "Precondition failed: ResourceVersion in precondition: 5, ResourceVersion in \
                 object meta: 77",
                "Key: /gantry-truth-aB3xYz/configmaps/ns-1/a",
                "63 characters",
                "value \\\"2026-01-01T12:00:09Z\\\", \\\"resourceVersion\\\":\\\"88\\\" at T1",
            ]),
            json!([
                "too old resource version: {revision} ({revision})",
                "Precondition failed: ResourceVersion in precondition: {revision}, \
                 ResourceVersion in object meta: {revision}",
                "Key: /registry/configmaps/{ns}/a",
                "63 characters",
                "value \\\"{time}\\\", \\\"resourceVersion\\\":\\\"{revision}\\\" at T1",
            ]),
        );
    }
}
