//! Priority bands: production, mid, batch and free, each a range of pod priorities.
//!
//! The wire is `spec.priority`, a label that overrides it, and a second label with
//! the order inside a band. What a band may use or evict is decided elsewhere.

use std::collections::BTreeMap;
use std::fmt;
use std::ops::RangeInclusive;

use crate::malformed::Malformed;
use crate::pod::Pod;
use crate::qos::QosClass;

/// Pod label that names a band and wins over `spec.priority`.
pub const PRIORITY_CLASS_LABEL: &str = "koordinator.sh/priority-class";

/// Pod label with the order inside a band.
pub const SUB_PRIORITY_LABEL: &str = "koordinator.sh/priority";

/// A range of pod priorities with one meaning, lowest first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum PriorityBand {
    /// Runs only where nothing else wants to.
    Free,
    /// Runs on what production pods leave unused at present.
    Batch,
    /// Runs on what production pods are predicted to leave unused.
    Mid,
    /// Runs on what it asked for.
    Prod,
}

impl PriorityBand {
    /// Every band, lowest first.
    pub const ALL: [Self; 4] = [Self::Free, Self::Batch, Self::Mid, Self::Prod];

    /// The name on the wire, which is also that of the shipped `PriorityClass`.
    #[must_use]
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Free => "koord-free",
            Self::Batch => "koord-batch",
            Self::Mid => "koord-mid",
            Self::Prod => "koord-prod",
        }
    }

    /// The priorities of the band.
    #[must_use]
    pub fn range(self) -> RangeInclusive<i32> {
        let start = self.class_value();
        start..=start + 999
    }

    /// The value of the shipped `PriorityClass`: the lowest of the band.
    #[must_use]
    pub fn class_value(self) -> i32 {
        match self {
            Self::Free => 3000,
            Self::Batch => 5000,
            Self::Mid => 7000,
            Self::Prod => 9000,
        }
    }

    /// The priority of a pod whose band is known and whose `spec.priority` is not set.
    #[must_use]
    pub fn default_priority(self) -> i32 {
        self.class_value() + 500
    }

    /// The band that a `spec.priority` falls into, if any.
    #[must_use]
    pub fn of_priority(priority: i32) -> Option<Self> {
        Self::ALL.into_iter().find(|band| band.range().contains(&priority))
    }

    /// Reads the value of the label.
    ///
    /// # Errors
    /// When the value names no band.
    pub fn parse(value: &str) -> Result<Self, Malformed> {
        Self::ALL.into_iter().find(|band| band.as_str() == value).ok_or_else(|| {
            let fix = "use one of koord-prod, koord-mid, koord-batch or koord-free";
            Malformed::new(PRIORITY_CLASS_LABEL, value, fix)
        })
    }

    /// The band that the labels of a pod state, if they state one.
    ///
    /// # Errors
    /// When the label has an unknown value.
    pub fn of_labels(labels: &BTreeMap<String, String>) -> Result<Option<Self>, Malformed> {
        labels.get(PRIORITY_CLASS_LABEL).map(|value| Self::parse(value)).transpose()
    }

    /// The band a pod states: by its label where it has one, even a malformed one,
    /// which means none; else by its priority.
    #[must_use]
    pub fn stated_by(pod: &Pod) -> Option<Self> {
        match Self::of_labels(&pod.metadata.labels) {
            Ok(Some(band)) => Some(band),
            Ok(None) => pod.spec.priority.and_then(Self::of_priority),
            Err(_) => None,
        }
    }

    /// The band of a pod: the stated one, else the one its QoS class implies.
    #[must_use]
    pub fn of_pod(pod: &Pod) -> Self {
        Self::stated_by(pod).unwrap_or_else(|| Self::from(QosClass::of_pod(pod)))
    }
}

impl fmt::Display for PriorityBand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

impl From<QosClass> for PriorityBand {
    fn from(class: QosClass) -> Self {
        match class {
            QosClass::System | QosClass::Lse | QosClass::Lsr | QosClass::Ls => Self::Prod,
            QosClass::Be => Self::Batch,
        }
    }
}

/// The order of a pod inside its band, if its labels state one.
///
/// The number may be written as in Go source (`100`, `0x64`, `0b110_0100`); we write
/// it as a plain decimal.
///
/// # Errors
/// When the label is not a 32-bit integer.
pub fn sub_priority(labels: &BTreeMap<String, String>) -> Result<Option<i32>, Malformed> {
    let Some(value) = labels.get(SUB_PRIORITY_LABEL) else { return Ok(None) };
    parse_go_integer(value).map(Some).ok_or_else(|| {
        let fix = "use an integer between -2147483648 and 2147483647";
        Malformed::new(SUB_PRIORITY_LABEL, value, fix)
    })
}

/// A 32-bit integer with the prefixes and separators of a Go literal.
fn parse_go_integer(text: &str) -> Option<i32> {
    let (negative, digits) = match text.strip_prefix(['+', '-']) {
        Some(rest) => (text.starts_with('-'), rest),
        None => (false, text),
    };
    let prefix = digits.get(..2).filter(|_| digits.len() > 2).unwrap_or_default();
    let (radix, body) = match prefix.to_ascii_lowercase().as_str() {
        "0x" => (16, digits.get(2..)?),
        "0b" => (2, digits.get(2..)?),
        "0o" => (8, digits.get(2..)?),
        // The leading zero stays: it is a digit that an underscore may follow.
        _ => (if digits.starts_with('0') { 8 } else { 10 }, digits),
    };
    // An underscore stands between digits, or between the prefix and a digit.
    let misplaced = body.ends_with('_')
        || body.contains("__")
        || (body.starts_with('_') && body.len() == digits.len());
    if body.is_empty() || misplaced {
        return None;
    }
    let mut magnitude: i64 = 0;
    for digit in body.chars().filter(|c| *c != '_') {
        let next = magnitude.checked_mul(i64::from(radix))?;
        magnitude = next.checked_add(i64::from(digit.to_digit(radix)?))?;
    }
    i32::try_from(if negative { -magnitude } else { magnitude }).ok()
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use serde_json::{Value, json};

    use super::*;

    #[test]
    fn a_band_is_a_thousand_priorities() {
        let check = |priority, band| assert_eq!(PriorityBand::of_priority(priority), band);
        check(2999, None);
        check(3000, Some(PriorityBand::Free));
        check(3999, Some(PriorityBand::Free));
        check(4000, None);
        check(5500, Some(PriorityBand::Batch));
        check(6000, None);
        check(7999, Some(PriorityBand::Mid));
        check(9000, Some(PriorityBand::Prod));
        check(9999, Some(PriorityBand::Prod));
        check(10_000, None);
        check(i32::MIN, None);
        check(i32::MAX, None);
        for band in PriorityBand::ALL {
            check(band.class_value(), Some(band));
            check(band.default_priority(), Some(band));
        }
    }

    #[test]
    fn the_label_wins_over_the_number_and_both_over_qos() {
        let check = |label: Option<&str>, priority: Option<i32>, qos: &str, stated, band| {
            let mut labels = json!({ "koordinator.sh/qosClass": qos });
            if let Some(label) = label {
                labels["koordinator.sh/priority-class"] = label.into();
            }
            let spec = priority.map_or(Value::Null, |value| json!(value));
            let pod = json!({ "metadata": { "labels": labels }, "spec": { "priority": spec } });
            let pod: Pod = serde_json::from_value(pod).unwrap();
            assert_eq!(PriorityBand::stated_by(&pod), stated, "{label:?} {priority:?} {qos}");
            assert_eq!(PriorityBand::of_pod(&pod), band, "{label:?} {priority:?} {qos}");
        };
        let (prod, mid) = (PriorityBand::Prod, PriorityBand::Mid);
        let (batch, free) = (PriorityBand::Batch, PriorityBand::Free);
        check(Some("koord-mid"), Some(9500), "LS", Some(mid), mid);
        check(None, Some(9500), "BE", Some(prod), prod);
        check(None, Some(3500), "LSR", Some(free), free);
        check(None, Some(0), "BE", None, batch);
        check(None, None, "SYSTEM", None, prod);
        // A malformed label means none; the number is not asked.
        check(Some("gold"), Some(3500), "LS", None, prod);
        check(Some(""), Some(3500), "BE", None, batch);
    }

    #[test]
    fn the_order_inside_a_band_is_an_integer_as_go_reads_it() {
        let check = |value: &str, number: Option<i32>| {
            let labels = BTreeMap::from([(SUB_PRIORITY_LABEL.to_owned(), value.to_owned())]);
            assert_eq!(sub_priority(&labels).ok().flatten(), number, "{value:?}");
        };
        assert_eq!(sub_priority(&BTreeMap::new()), Ok(None));
        check("0", Some(0));
        check("9999", Some(9999));
        check("+7", Some(7));
        check("-1", Some(-1));
        check("0x1F", Some(31));
        check("0X1f", Some(31));
        check("0b101", Some(5));
        check("0o17", Some(15));
        check("017", Some(15));
        check("1_000", Some(1000));
        check("0x_1", Some(1));
        check("0_7", Some(7));
        check("-2147483648", Some(i32::MIN));
        check("2147483647", Some(i32::MAX));
        for wrong in ["", "-", "+-1", "08", "0x", "0b2", "1__0", "_1", "1_", "2147483648", "1e3"] {
            check(wrong, None);
        }
        check("99999999999999999999999999", None);
        check("١", None);
        check("0é", None);
        check("é0", None);
    }

    #[test]
    fn an_error_names_key_value_and_fix() {
        let labels = BTreeMap::from([(SUB_PRIORITY_LABEL.to_owned(), "high".to_owned())]);
        assert_eq!(
            sub_priority(&labels).unwrap_err().to_string(),
            "koordinator.sh/priority has the value \"high\": \
             use an integer between -2147483648 and 2147483647"
        );
    }

    proptest! {
        #[test]
        fn any_text_is_a_band_or_an_error_that_repeats_it(value in "\\PC*|koord-[a-z]{3,5}") {
            match PriorityBand::parse(&value) {
                Ok(band) => prop_assert_eq!(band.as_str(), value),
                Err(error) => prop_assert_eq!(error.value(), value),
            }
        }

        #[test]
        fn every_band_is_read_back(band in proptest::sample::select(&PriorityBand::ALL[..])) {
            prop_assert_eq!(PriorityBand::parse(band.as_str()), Ok(band));
        }

        #[test]
        fn a_number_is_read_back(number in any::<i32>()) {
            prop_assert_eq!(parse_go_integer(&number.to_string()), Some(number));
        }

        #[test]
        fn no_text_is_too_odd_to_refuse(value in "\\PC*|[+-]?0?[xXbBoO]?[0-9a-f_]{0,12}") {
            let labels = BTreeMap::from([(SUB_PRIORITY_LABEL.to_owned(), value.clone())]);
            if let Err(error) = sub_priority(&labels) {
                prop_assert_eq!(error.value(), value);
            }
        }
    }
}
