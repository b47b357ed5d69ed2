//! The Events that controllers write, in a form that two runs share.

use std::collections::BTreeMap;
use std::sync::LazyLock;

use regex::{Captures, Regex};
use serde_json::Value;

/// Letters and digits of a generated name. No word has only these.
const GENERATED: &str = "[bcdfghjklmnpqrstvwxz2456789]";

/// Events by their names, as a watch tells them.
#[derive(Default)]
pub struct Events(BTreeMap<String, Value>);

impl Events {
    /// Takes an event, or what became of it.
    pub fn take(&mut self, event: Value) {
        self.0.insert(text(&event, "/metadata/name").to_owned(), event);
    }

    /// A line for each thing that a controller said: who, of what, how serious, why, of how many
    /// pods, in which words. How often an event is told again is left out: a controller whose
    /// write meets a conflict says the same once more.
    ///
    /// The ends of pods' names are not shown, and hashes of templates are counted from 1 as they
    /// come up. What kube-scheduler says is left out: it is the same program everywhere.
    pub fn shown(&self) -> String {
        let mut events: Vec<&Value> = self.0.values().collect();
        events.retain(|event| text(event, "/reportingComponent") != "default-scheduler");
        // What comes after the last dot of the name is the time to the nanosecond.
        let time = |event: &Value| {
            let end = text(event, "/metadata/name").rsplit('.').next().unwrap_or_default();
            u64::from_str_radix(end, 16).unwrap_or_default()
        };
        events.sort_by_key(|event| time(event));
        let mut hashes = Vec::new();
        let mut lines: BTreeMap<[String; 5], usize> = BTreeMap::new();
        for event in events {
            let fields =
                ["/source/component", "/involvedObject/name", "/type", "/reason", "/message"];
            let line = fields.map(|field| named(text(event, field), &mut hashes));
            *lines.entry(line).or_default() += 1;
        }
        let shown = lines.iter().map(|([who, of, tone, reason, message], count)| {
            format!(
                "{who} {of} {tone} {reason} {count}: {message}
"
            )
        });
        shown.collect()
    }
}

fn text<'a>(event: &'a Value, field: &str) -> &'a str {
    event.pointer(field).and_then(Value::as_str).unwrap_or_default()
}

/// `text` with generated names as two runs share them.
fn named(text: &str, hashes: &mut Vec<String>) -> String {
    static PATTERN: LazyLock<Regex> = LazyLock::new(|| {
        Regex::new(&format!(r"-(?<hash>{GENERATED}{{6,10}})\b|-(?<end>{GENERATED}{{5}})\b"))
            .unwrap()
    });
    let named = PATTERN.replace_all(text, |found: &Captures<'_>| match found.name("hash") {
        None => "-{pod}".to_owned(),
        Some(hash) => {
            let known = hashes.iter().position(|known| known == hash.as_str());
            let place = known.unwrap_or_else(|| {
                hashes.push(hash.as_str().to_owned());
                hashes.len() - 1
            });
            format!("-{}", place + 1)
        }
    });
    named.into_owned()
}

#[test]
fn equal_stories_are_shown_alike() {
    let event = |name: &str, of: &str, count: u32, tone: &str, message: &str| {
        serde_json::json!({
            "metadata": { "name": name }, "involvedObject": { "name": of }, "reason": "Why",
            "source": { "component": "who" }, "type": tone, "message": message, "count": count })
    };
    let mut events = Events::default();
    let check = |events: &Events, expected: &str| assert_eq!(events.shown(), expected);
    check(&events, "");
    // Of two sets the second one is told of first by its name, and later by its time.
    events.take(event("web.10", "web", 1, "Normal", "Scaled up replica set web-z5d7f8 to 1"));
    events.take(event("web.f", "web", 1, "Normal", "Scaled up replica set web-bcdfg2 to 1"));
    events.take(event("a.11", "web-z5d7f8", 1, "Normal", "Created pod: web-z5d7f8-bbbbb"));
    events.take(event("b.11", "web-z5d7f8", 1, "Normal", "Created pod: web-z5d7f8-ccccc"));
    events.take(event("c.12", "web", 7, "Warning", "No account-never"));
    events.take(event("c.12", "web", 8, "Warning", "No account-never"));
    let expected = "who web Normal Why 1: Scaled up replica set web-1 to 1\n\
                    who web Normal Why 1: Scaled up replica set web-2 to 1\n\
                    who web Warning Why 1: No account-never\n\
                    who web-2 Normal Why 2: Created pod: web-2-{pod}\n";
    check(&events, expected);
}
