//! Taints and tolerations: which pods a node turns away, and for how long it bears
//! one.
//!
//! The operators `Lt` and `Gt` of 1.35 are behind a gate that is off by default
//! upstream; here as there they tolerate nothing and are refused in a pod. What a taint
//! means for a pod's place is decided elsewhere.
//!
//! ```
//! use object::taint::{Taint, Toleration};
//! let taint: Taint = "dedicated=db:NoSchedule".parse()?;
//! let toleration = Toleration { key: "dedicated".into(), value: "db".into(), ..Default::default() };
//! assert!(toleration.tolerates(&taint));
//! # Ok::<(), object::taint::TaintError>(())
//! ```

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;

use serde::{Deserialize, Deserializer, Serialize};
use serde_json::json;

use crate::field::{Error, Errors, Fault, Path};
use crate::names::{label_value, qualified_name, validate_label_name};
use crate::time::Time;

#[cfg(test)]
mod tests;

macro_rules! wire_enum {
    ($name:ident { $($variant:ident),+ }) => {
        impl $name {
            /// The word on the wire.
            #[must_use]
            pub fn as_str(&self) -> &str {
                match self {
                    $(Self::$variant => stringify!($variant),)+
                    Self::Other(text) => text,
                }
            }
        }

        impl From<String> for $name {
            fn from(text: String) -> Self {
                match text.as_str() {
                    $(stringify!($variant) => Self::$variant,)+
                    _ => Self::Other(text),
                }
            }
        }

        impl From<$name> for String {
            fn from(value: $name) -> Self {
                value.as_str().to_owned()
            }
        }
    };
}

/// What a taint does to pods that do not tolerate it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum Effect {
    /// No new pod comes.
    NoSchedule,
    /// A new pod comes only where nothing better is.
    PreferNoSchedule,
    /// No new pod comes, and those that run are evicted.
    NoExecute,
    /// A word that Kubernetes does not know; validation refuses it.
    Other(String),
}

wire_enum!(Effect { NoSchedule, PreferNoSchedule, NoExecute });

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// How a toleration compares its value with a taint's.
#[derive(Debug, Clone, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(from = "String", into = "String")]
pub enum TolerationOperator {
    /// The values are the same. What an absent operator means, too.
    Equal,
    /// Any value.
    Exists,
    /// The taint's value is a smaller integer; off.
    Lt,
    /// The taint's value is a greater integer; off.
    Gt,
    /// A word that Kubernetes does not know; validation refuses it.
    Other(String),
}

wire_enum!(TolerationOperator { Equal, Exists, Lt, Gt });

/// A mark on a node that keeps pods away.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Taint {
    /// The key, a qualified name.
    #[serde(default)]
    pub key: String,
    /// The value, as of a label.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The effect. Only where taints are to be removed may it be missing.
    #[serde(default, deserialize_with = "none_if_empty", skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// Since when; the node lifecycle sets it for `NoExecute`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time_added: Option<Time>,
}

/// A pod's leave to be on nodes with certain taints.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct Toleration {
    /// The key of the taints; empty with [`TolerationOperator::Exists`] for all.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub key: String,
    /// How the values compare.
    #[serde(deserialize_with = "none_if_empty", skip_serializing_if = "Option::is_none")]
    pub operator: Option<TolerationOperator>,
    /// The value to compare with.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub value: String,
    /// The effect of the taints; none for all.
    #[serde(deserialize_with = "none_if_empty", skip_serializing_if = "Option::is_none")]
    pub effect: Option<Effect>,
    /// For how long a `NoExecute` taint is borne; none for ever.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub toleration_seconds: Option<i64>,
}

fn none_if_empty<'de, D, T>(deserializer: D) -> Result<Option<T>, D::Error>
where
    D: Deserializer<'de>,
    T: From<String>,
{
    let text = Option::<String>::deserialize(deserializer)?;
    Ok(text.filter(|text| !text.is_empty()).map(T::from))
}

impl Taint {
    /// Whether the two are the same mark: taints are unique by key and effect.
    #[must_use]
    pub fn is_same(&self, other: &Self) -> bool {
        self.key == other.key && self.effect == other.effect
    }

    fn effect_text(&self) -> &str {
        self.effect.as_ref().map_or("", Effect::as_str)
    }
}

impl fmt::Display for Taint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (key, value, effect) = (&self.key, &self.value, self.effect_text());
        match (value.is_empty(), effect.is_empty()) {
            (true, true) => f.write_str(key),
            (true, false) => write!(f, "{key}:{effect}"),
            (false, _) => write!(f, "{key}={value}:{effect}"),
        }
    }
}

/// Why a text is no taint, in the words of Kubernetes.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum TaintError {
    /// The text is not `key=value:effect`, `key:effect` or `key`.
    #[error("invalid taint spec: {0}")]
    Shape(String),
    /// The effect is none of the three.
    #[error("invalid taint effect: {0}, unsupported taint effect")]
    Effect(String),
    /// The key or the value is not valid.
    #[error("invalid taint spec: {text}, {}", faults.join("; "))]
    Part {
        /// The whole text.
        text: String,
        /// What is wrong with the part.
        faults: Vec<String>,
    },
}

impl FromStr for Taint {
    type Err = TaintError;

    fn from_str(text: &str) -> Result<Self, TaintError> {
        let parts: Vec<&str> = text.split(':').collect();
        let (marked, effect) = match parts.as_slice() {
            [key] => (*key, None),
            [marked, effect] if EFFECTS.contains(effect) => {
                (*marked, Some(Effect::from((*effect).to_owned())))
            }
            [_, effect] => return Err(TaintError::Effect((*effect).to_owned())),
            _ => return Err(TaintError::Shape(text.to_owned())),
        };
        let checked = |faults: Vec<String>| match faults.as_slice() {
            [] => Ok(()),
            _ => Err(TaintError::Part { text: text.to_owned(), faults }),
        };
        let (key, value) = match (&effect, marked.split_once('=')) {
            (Some(_), Some((_, value))) if value.contains('=') => {
                return Err(TaintError::Shape(text.to_owned()));
            }
            (Some(_), Some((key, value))) => (key, value),
            _ => (marked, ""),
        };
        checked(label_value(value))?;
        checked(qualified_name(key))?;
        Ok(Self { key: key.to_owned(), value: value.to_owned(), effect, time_added: None })
    }
}

impl Toleration {
    /// Whether a pod with this toleration bears the taint.
    #[must_use]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        if self.effect.is_some() && self.effect != taint.effect {
            return false;
        }
        if !self.key.is_empty() && self.key != taint.key {
            return false;
        }
        match self.operator {
            None | Some(TolerationOperator::Equal) => self.value == taint.value,
            Some(TolerationOperator::Exists) => true,
            Some(_) => false,
        }
    }

    /// Whether everything that `other` tolerates is tolerated by this one as well.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        if self == other {
            return true;
        }
        let exists = self.operator == Some(TolerationOperator::Exists);
        if self.key != other.key && !(self.key.is_empty() && exists) {
            return false;
        }
        if self.effect.is_some() && self.effect != other.effect {
            return false;
        }
        if self.effect == Some(Effect::NoExecute)
            && let Some(seconds) = self.toleration_seconds
            && other.toleration_seconds.is_none_or(|theirs| theirs > seconds)
        {
            return false;
        }
        match self.operator {
            None | Some(TolerationOperator::Equal) => {
                other.operator == Some(TolerationOperator::Equal) && other.value == self.value
            }
            _ => exists,
        }
    }
}

/// Whether some toleration bears the taint.
#[must_use]
pub fn is_tolerated(taint: &Taint, tolerations: &[Toleration]) -> bool {
    tolerations.iter().any(|toleration| toleration.tolerates(taint))
}

/// The first taint with one of these effects that no toleration bears.
#[must_use]
pub fn untolerated<'a>(
    taints: &'a [Taint],
    tolerations: &[Toleration],
    effects: &[Effect],
) -> Option<&'a Taint> {
    let counts = |taint: &&Taint| taint.effect.as_ref().is_some_and(|own| effects.contains(own));
    taints.iter().filter(counts).find(|taint| !is_tolerated(taint, tolerations))
}

/// How long a pod may stay on a node with `NoExecute` taints.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Stay {
    /// It goes at once.
    None,
    /// It goes after so many seconds.
    Seconds(i64),
    /// It stays.
    Forever,
}

/// How long a pod bears the `NoExecute` taints of its node: as long as the shortest of
/// the tolerations that bear one.
#[must_use]
pub fn stay(taints: &[Taint], tolerations: &[Toleration]) -> Stay {
    let mut shortest = Stay::Forever;
    for taint in taints.iter().filter(|taint| taint.effect == Some(Effect::NoExecute)) {
        let Some(toleration) = tolerations.iter().find(|toleration| toleration.tolerates(taint))
        else {
            return Stay::None;
        };
        shortest = shortest.min(match toleration.toleration_seconds {
            None => Stay::Forever,
            Some(..=0) => Stay::None,
            Some(seconds) => Stay::Seconds(seconds),
        });
    }
    shortest
}

/// Adds a taint, or replaces the one of its key and effect; says whether that changed
/// anything.
pub fn add_or_update(taints: &mut Vec<Taint>, taint: Taint) -> bool {
    match taints.iter_mut().find(|own| own.is_same(&taint)) {
        Some(own) if *own == taint => return false,
        Some(own) => *own = taint,
        None => taints.push(taint),
    }
    true
}

/// Removes the taint of this key and effect; says whether there was one.
pub fn remove(taints: &mut Vec<Taint>, taint: &Taint) -> bool {
    let before = taints.len();
    taints.retain(|own| !own.is_same(taint));
    taints.len() != before
}

/// Removes the taints of this key; says whether there were any.
pub fn remove_key(taints: &mut Vec<Taint>, key: &str) -> bool {
    let before = taints.len();
    taints.retain(|own| own.key != key);
    taints.len() != before
}

/// What `new` has that `old` has not, and the reverse, by key and effect.
#[must_use]
pub fn difference<'a>(new: &'a [Taint], old: &'a [Taint]) -> (Vec<&'a Taint>, Vec<&'a Taint>) {
    let missing = |from: &'a [Taint], among: &[Taint]| -> Vec<&'a Taint> {
        from.iter().filter(|taint| !among.iter().any(|other| other.is_same(taint))).collect()
    };
    (missing(new, old), missing(old, new))
}

/// Both lists in one, without those that another covers.
#[must_use]
pub fn merge_tolerations(first: &[Toleration], second: &[Toleration]) -> Vec<Toleration> {
    let all: Vec<&Toleration> = first.iter().chain(second).collect();
    let mut merged: Vec<Toleration> = Vec::new();
    for (index, &toleration) in all.iter().enumerate() {
        // Of equal ones the first stays.
        let later = &all[index + 1..];
        let covered = merged.iter().any(|kept| kept.covers(toleration))
            || later.iter().any(|other| *other != toleration && other.covers(toleration));
        if !covered {
            merged.push(toleration.clone());
        }
    }
    merged
}

/// What kube-apiserver would say of the taints of a node. It places them at
/// `metadata.taints`, wherever they are.
#[must_use]
pub fn validate_taints(taints: &[Taint], path: &Path) -> Errors {
    let mut errors = Errors::new();
    let mut seen = BTreeSet::new();
    for (index, taint) in taints.iter().enumerate() {
        let at = path.index(index);
        errors.extend(validate_label_name(&taint.key, &at.child("key")));
        let faults = label_value(&taint.value);
        if !faults.is_empty() {
            let detail = faults.join(";");
            errors.push(Error::invalid(&at.child("value"), taint.value.as_str(), detail));
        }
        match &taint.effect {
            None => errors.push(Error::required(&at.child("effect"), "")),
            Some(effect) => errors.extend(effect_fault(effect, &at.child("effect"))),
        }
        if !seen.insert((taint.effect_text(), taint.key.as_str())) {
            // Upstream shows its internal form, whose fields have Go's names and order.
            let detail = format!(
                "{{\"Key\":{},\"Value\":{},\"Effect\":{},\"TimeAdded\":{}}}: taints must be unique by key and effect pair",
                json!(taint.key),
                json!(taint.value),
                json!(taint.effect_text()),
                json!(taint.time_added),
            );
            errors.push(Error { path: at, fault: Fault::Duplicate, value: None, detail });
        }
    }
    errors
}

/// What kube-apiserver would say of the tolerations of a pod.
#[must_use]
pub fn validate_tolerations(tolerations: &[Toleration], path: &Path) -> Errors {
    let mut errors = Errors::new();
    for (index, toleration) in tolerations.iter().enumerate() {
        errors.extend(toleration.validate(&path.index(index)));
    }
    errors
}

impl Toleration {
    fn validate(&self, path: &Path) -> Errors {
        let mut errors = Errors::new();
        let operator = self.operator.as_ref().map_or("", TolerationOperator::as_str);
        let at = path.child("operator");
        if !self.key.is_empty() {
            errors.extend(validate_label_name(&self.key, &path.child("key")));
        } else if operator != "Exists" {
            let detail = "operator must be Exists when `key` is empty, which means \"match all values and all keys\"";
            errors.push(Error::invalid(&at, operator, detail));
        }
        if self.toleration_seconds.is_some() && self.effect != Some(Effect::NoExecute) {
            let effect = self.effect.as_ref().map_or("", Effect::as_str);
            let detail = "effect must be 'NoExecute' when `tolerationSeconds` is set";
            errors.push(Error::invalid(&path.child("effect"), effect, detail));
        }
        match &self.operator {
            None | Some(TolerationOperator::Equal) => {
                let faults = label_value(&self.value);
                if !faults.is_empty() {
                    errors.push(Error::invalid(&at, self.value.as_str(), faults.join(";")));
                }
            }
            Some(TolerationOperator::Exists) if self.value.is_empty() => {}
            Some(TolerationOperator::Exists) => {
                let detail = "value must be empty when `operator` is 'Exists'";
                errors.push(Error::invalid(&at, self.value.as_str(), detail));
            }
            // Where the gate is off the message names the operators all the same.
            Some(TolerationOperator::Lt | TolerationOperator::Gt) => {
                let supported = ["Equal", "Exists", "Lt", "Gt"];
                errors.push(unsupported(&at, operator, &supported));
            }
            Some(TolerationOperator::Other(_)) => {
                errors.push(unsupported(&at, operator, &["Equal", "Exists"]));
            }
        }
        if let Some(effect) = &self.effect {
            errors.extend(effect_fault(effect, &path.child("effect")));
        }
        errors
    }
}

fn effect_fault(effect: &Effect, path: &Path) -> Option<Error> {
    matches!(effect, Effect::Other(_)).then(|| unsupported(path, effect.as_str(), &EFFECTS))
}

/// A value outside a set that upstream lists in an order of its own.
fn unsupported(path: &Path, value: &str, supported: &[&str]) -> Error {
    let names: Vec<String> = supported.iter().map(|name| format!("{name:?}")).collect();
    Error {
        path: path.clone(),
        fault: Fault::NotSupported,
        value: Some(value.into()),
        detail: format!("supported values: {}", names.join(", ")),
    }
}
