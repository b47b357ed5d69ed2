//! What a pod is told to do by its annotations, since nothing in it really runs.
//!
#![doc = include_str!("behaviour.md")]
//!
//! Seconds may have a fraction. Those that speak of a container may also be given for one
//! of them, as in `hollow.gantry.dev/run-seconds.main`, which then counts for that one. A
//! value that cannot be read keeps the containers from being created, with a message that
//! names the annotation, as a bad configuration does on a real node. A key that is none of
//! these means nothing. Of both an Event of the pod tells.

use std::collections::BTreeMap;

use chassis::config::nearest;
use object::quantity::Quantity;

/// What the keys of all annotations here start with.
pub const ANNOTATION_PREFIX: &str = "hollow.gantry.dev/";

/// The longest time that may be asked for: ten years.
const SECONDS_MAX: u64 = 10 * 366 * 86_400;

/// How many faults of one pod's annotations are told: each is an Event.
const FAULTS_MAX: usize = 8;

/// What a value is read as.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Form {
    Seconds,
    Code,
    /// A quantity, in units of ten to this power.
    Amount(i32),
}

/// Whom an annotation speaks of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Scope {
    Pod,
    Container,
}

/// Every annotation there is.
const KNOWN: [(&str, Scope, Form); 9] = [
    ("start-seconds", Scope::Pod, Form::Seconds),
    ("init-seconds", Scope::Container, Form::Seconds),
    ("init-exit-code", Scope::Container, Form::Code),
    ("ready-seconds", Scope::Container, Form::Seconds),
    ("run-seconds", Scope::Container, Form::Seconds),
    ("exit-code", Scope::Container, Form::Code),
    ("stop-seconds", Scope::Pod, Form::Seconds),
    ("cpu-usage", Scope::Pod, Form::Amount(CPU_SCALE)),
    ("memory-usage", Scope::Pod, Form::Amount(MEMORY_SCALE)),
];

/// CPU is counted in thousandths.
pub(crate) const CPU_SCALE: i32 = -3;
/// Memory is counted in bytes.
pub(crate) const MEMORY_SCALE: i32 = 0;

/// What is wrong with one annotation of a pod.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Fault {
    pub(crate) kind: FaultKind,
    /// Key, value, and what to write instead.
    pub(crate) message: Box<str>,
}

/// How bad it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum FaultKind {
    /// The value cannot be read: nothing starts before it is mended.
    Unreadable,
    /// There is no such key, or no such container: it means nothing.
    Unknown,
}

impl FaultKind {
    /// The reason of the Event.
    pub(crate) fn reason(self) -> &'static str {
        match self {
            Self::Unreadable => "InvalidAnnotation",
            Self::Unknown => "UnknownAnnotation",
        }
    }
}

/// What the annotations of a pod say, for it as a whole and for single containers.
#[derive(Debug, Default)]
pub(crate) struct Behaviour<'a> {
    values: BTreeMap<&'a str, &'a str>,
}

impl<'a> Behaviour<'a> {
    pub(crate) fn of(annotations: &'a BTreeMap<String, String>) -> Self {
        let ours = annotations
            .range(ANNOTATION_PREFIX.to_owned()..)
            .map_while(|(key, value)| Some((key.strip_prefix(ANNOTATION_PREFIX)?, value.as_str())));
        Self { values: ours.collect() }
    }

    /// What is wrong with them, in the order of their keys, unreadable values first.
    pub(crate) fn faults(&self, containers: &[&str]) -> Vec<Fault> {
        let fault = |(key, value): (&&str, &&str)| fault_of(key, value, containers);
        let mut faults: Vec<Fault> = self.values.iter().filter_map(fault).collect();
        faults.sort_by_key(|fault| fault.kind);
        faults.truncate(FAULTS_MAX);
        faults
    }

    /// A time for one container, else for all of them, in milliseconds.
    pub(crate) fn millis(&self, name: &str, container: &str) -> Result<Option<u64>, String> {
        self.find(name, container).map(|(key, value)| seconds(&key, value)).transpose()
    }

    /// An exit code for one container, else for all of them.
    pub(crate) fn code(&self, name: &str, container: &str) -> Result<i32, String> {
        let Some((key, value)) = self.find(name, container) else { return Ok(0) };
        code_of(&key, value)
    }

    /// An amount for the pod in units of `10^scale`.
    pub(crate) fn amount(&self, name: &str, scale: i32) -> Result<Option<u64>, String> {
        let Some((key, value)) = self.find(name, "") else { return Ok(None) };
        amount_of(&key, value, scale).map(Some)
    }

    fn find(&self, name: &str, container: &str) -> Option<(String, &'a str)> {
        if !container.is_empty() && !self.values.is_empty() {
            let own = format!("{name}.{container}");
            if let Some(value) = self.values.get(own.as_str()) {
                return Some((own, value));
            }
        }
        self.values.get(name).map(|value| (name.to_owned(), *value))
    }
}

fn fault_of(key: &str, value: &str, containers: &[&str]) -> Option<Fault> {
    let unknown =
        |message: String| Some(Fault { kind: FaultKind::Unknown, message: message.into() });
    let (name, container) = match key.split_once('.') {
        Some((name, container)) => (name, Some(container)),
        None => (key, None),
    };
    let Some((_, scope, form)) = KNOWN.iter().find(|(known, ..)| *known == name) else {
        let names = KNOWN.map(|(name, ..)| name);
        let hint = match nearest(name, &names) {
            Some(nearest) => format!("did you mean {ANNOTATION_PREFIX}{nearest}?"),
            None => format!("known are {}", names.join(", ")),
        };
        return unknown(format!(
            "annotation {ANNOTATION_PREFIX}{key}={value:?} is unknown and means nothing: {hint}"
        ));
    };
    match (container, scope) {
        (Some(_), Scope::Pod) => {
            return unknown(format!(
                "annotation {ANNOTATION_PREFIX}{key}={value:?} means nothing: {name} counts for the \
                 whole pod, write {ANNOTATION_PREFIX}{name}"
            ));
        }
        (Some(container), Scope::Container) if !containers.contains(&container) => {
            return unknown(format!(
                "annotation {ANNOTATION_PREFIX}{key}={value:?} means nothing: the pod has no \
                 container {container:?}, it has {}",
                containers.join(", ")
            ));
        }
        _ => {}
    }
    let read = match form {
        Form::Seconds => seconds(key, value).map(|_| ()),
        Form::Code => code_of(key, value).map(|_| ()),
        Form::Amount(scale) => amount_of(key, value, *scale).map(|_| ()),
    };
    let message = read.err()?;
    Some(Fault { kind: FaultKind::Unreadable, message: message.into() })
}

fn code_of(key: &str, value: &str) -> Result<i32, String> {
    value.parse::<u8>().map(i32::from).map_err(|_| {
        format!("annotation {ANNOTATION_PREFIX}{key}: {value:?} is no exit code; write 0 to 255")
    })
}

fn amount_of(key: &str, value: &str, scale: i32) -> Result<u64, String> {
    let parsed = value.parse::<Quantity>().ok();
    let amount = parsed.and_then(|quantity| quantity.checked_scaled_value(scale));
    amount.and_then(|amount| u64::try_from(amount).ok()).ok_or_else(|| {
        format!(
            "annotation {ANNOTATION_PREFIX}{key}: {value:?} is no amount; write a quantity \
             such as 500m or 2Gi"
        )
    })
}

fn seconds(key: &str, value: &str) -> Result<u64, String> {
    let wrong = || {
        format!(
            "annotation {ANNOTATION_PREFIX}{key}: {value:?} is no number of seconds; write one \
             such as 30 or 0.5, at most {SECONDS_MAX}"
        )
    };
    let (whole, fraction) = value.split_once('.').unwrap_or((value, "0"));
    let digits = |text: &str| !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_digit());
    if !digits(whole) || !digits(fraction) {
        return Err(wrong());
    }
    let whole: u64 = whole.parse().ok().filter(|&n| n <= SECONDS_MAX).ok_or_else(wrong)?;
    let thousandths = format!("{fraction:0<3}");
    let millis: u64 = thousandths[..3].parse().map_err(|_| wrong())?;
    Ok(whole * 1000 + millis)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_may_have_a_fraction_and_nothing_else() {
        let check = |text: &str, want: Option<u64>| {
            let annotations =
                BTreeMap::from([(format!("{ANNOTATION_PREFIX}run-seconds"), text.to_owned())]);
            let got = Behaviour::of(&annotations).millis("run-seconds", "main");
            match (got, want) {
                (Ok(got), want) => assert_eq!(got, want, "{text}"),
                (Err(error), None) => assert_eq!(
                    error,
                    format!(
                        "annotation hollow.gantry.dev/run-seconds: {text:?} is no number of \
                         seconds; write one such as 30 or 0.5, at most 316224000"
                    )
                ),
                (Err(error), Some(_)) => panic!("{text}: {error}"),
            }
        };
        check("30", Some(30_000));
        check("0.5", Some(500));
        check("1.2345", Some(1234));
        check("0", Some(0));
        for bad in ["", "-1", "1s", ".5", "1.", "1e3", "99999999999999999999", "٣", "1.٣"] {
            check(bad, None);
        }
    }

    #[test]
    fn a_fault_names_key_value_and_fix() {
        let check = |key: &str, value: &str, want: &str| {
            let annotations =
                BTreeMap::from([(format!("{ANNOTATION_PREFIX}{key}"), value.to_owned())]);
            let faults = Behaviour::of(&annotations).faults(&["main", "proxy"]);
            let told = faults.iter().map(|own| format!("{} {}", own.kind.reason(), own.message));
            let told: Vec<String> = told.collect();
            assert_eq!(told.join("; "), want, "{key}={value}");
        };
        for fine in ["run-seconds", "run-seconds.main", "exit-code.proxy", "init-seconds"] {
            check(fine, "3", "");
        }
        check("cpu-usage", "500m", "");
        check(
            "init-exit-code",
            "300",
            "InvalidAnnotation annotation hollow.gantry.dev/init-exit-code: \"300\" is no exit code; \
             write 0 to 255",
        );
        check(
            "memory-usage",
            "-1",
            "InvalidAnnotation annotation hollow.gantry.dev/memory-usage: \"-1\" is no amount; write \
             a quantity such as 500m or 2Gi",
        );
        check(
            "run-second",
            "3",
            "UnknownAnnotation annotation hollow.gantry.dev/run-second=\"3\" is unknown and means \
             nothing: did you mean hollow.gantry.dev/run-seconds?",
        );
        check(
            "zzz",
            "",
            "UnknownAnnotation annotation hollow.gantry.dev/zzz=\"\" is unknown and means nothing: \
             known are start-seconds, init-seconds, init-exit-code, ready-seconds, run-seconds, \
             exit-code, stop-seconds, cpu-usage, memory-usage",
        );
        check(
            "run-seconds.other",
            "soon",
            "UnknownAnnotation annotation hollow.gantry.dev/run-seconds.other=\"soon\" means nothing: \
             the pod has no container \"other\", it has main, proxy",
        );
        check(
            "stop-seconds.main",
            "3",
            "UnknownAnnotation annotation hollow.gantry.dev/stop-seconds.main=\"3\" means nothing: \
             stop-seconds counts for the whole pod, write hollow.gantry.dev/stop-seconds",
        );
    }

    #[test]
    fn the_page_for_users_lists_what_is_known() {
        let table = include_str!("behaviour.md");
        assert!(include_str!("../../../docs/UP.md").contains(table), "docs/UP.md: {table}");
        let listed: Vec<&str> = table
            .lines()
            .filter_map(|line| line.strip_prefix("| `hollow.gantry.dev/")?.split('`').next())
            .collect();
        assert_eq!(listed, KNOWN.map(|(name, ..)| name));
    }

    #[test]
    fn what_is_said_of_one_container_counts_for_it() {
        let annotations: BTreeMap<String, String> = [
            ("a.example/x", "1"),
            ("hollow.gantry.dev/exit-code", "3"),
            ("hollow.gantry.dev/exit-code.proxy", "4"),
            ("hollow.gantry.dev/cpu-usage", "1500m"),
            ("z.example/x", "1"),
        ]
        .map(|(key, value)| (key.to_owned(), value.to_owned()))
        .into();
        let behaviour = Behaviour::of(&annotations);
        assert_eq!(behaviour.code("exit-code", "main"), Ok(3));
        assert_eq!(behaviour.code("exit-code", "proxy"), Ok(4));
        assert_eq!(behaviour.code("init-exit-code", "proxy"), Ok(0));
        assert_eq!(behaviour.amount("cpu-usage", CPU_SCALE), Ok(Some(1500)));
        assert_eq!(behaviour.amount("memory-usage", 0), Ok(None));
    }
}
