//! Fields that take a number or a percentage.

use std::fmt;

use serde::{Deserialize, Serialize};

/// A number, or a text such as `25%`.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Serialize)]
#[serde(untagged)]
pub enum IntOrString {
    /// The amount itself.
    Int(i32),
    /// A percentage of something.
    String(String),
}

/// What becomes of a fraction.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Rounding {
    /// To the next whole number.
    Up,
    /// To the whole number before.
    Down,
}

/// A text that is no percentage.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{0:?} is not a percentage: use a whole number, or one followed by %, such as 25%")]
pub struct NotAPercentage(pub String);

impl IntOrString {
    /// The amount, with a percentage taken of `total`.
    ///
    /// ```
    /// use api::{IntOrString, Rounding};
    /// let quarter = IntOrString::String("25%".to_owned());
    /// assert_eq!(quarter.of(10, Rounding::Up), Ok(3));
    /// assert_eq!(quarter.of(10, Rounding::Down), Ok(2));
    /// ```
    ///
    /// # Errors
    /// When a text is no percentage.
    pub fn of(&self, total: i32, rounding: Rounding) -> Result<i32, NotAPercentage> {
        let percent = match self {
            Self::Int(amount) => return Ok(*amount),
            Self::String(text) => percent(text).ok_or_else(|| NotAPercentage(text.clone()))?,
        };
        let hundredths = i64::from(percent) * i64::from(total);
        let whole = match rounding {
            Rounding::Down => hundredths.div_euclid(100),
            Rounding::Up => -(-hundredths).div_euclid(100),
        };
        // Only a percentage in the millions of a total in the millions gets here.
        Ok(i32::try_from(whole).unwrap_or(if whole < 0 { i32::MIN } else { i32::MAX }))
    }
}

/// A sign is allowed, as in Go.
fn percent(text: &str) -> Option<i32> {
    let number = text.strip_suffix('%')?;
    number.parse().ok()
}

impl fmt::Display for IntOrString {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Int(amount) => amount.fmt(f),
            Self::String(text) => text.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_percentage_is_rounded_as_asked() {
        let check = |wire: &str, total, up: Option<i32>, down: Option<i32>| {
            let value: IntOrString = serde_json::from_str(wire).unwrap();
            assert_eq!(value.of(total, Rounding::Up).ok(), up, "{wire}");
            assert_eq!(value.of(total, Rounding::Down).ok(), down, "{wire}");
            assert_eq!(serde_json::to_string(&value).unwrap(), wire);
        };
        check("3", 10, Some(3), Some(3));
        check("-1", 10, Some(-1), Some(-1));
        check("\"25%\"", 4, Some(1), Some(1));
        check("\"25%\"", 10, Some(3), Some(2));
        check("\"0%\"", 10, Some(0), Some(0));
        check("\"100%\"", 7, Some(7), Some(7));
        check("\"150%\"", 7, Some(11), Some(10));
        check("\"1%\"", 0, Some(0), Some(0));
        check("\"-25%\"", 10, Some(-2), Some(-3));
        for wrong in ["\"\"", "\"%\"", "\"25\"", "\"2.5%\"", "\"25 %\"", "\"99999999999%\""] {
            check(wrong, 10, None, None);
        }
    }

    proptest! {
        #[test]
        fn no_text_and_no_total_panics(text in "\\PC*|[+-]?[0-9]{1,10}%", total in any::<i32>()) {
            let value = IntOrString::String(text);
            let up = value.of(total, Rounding::Up);
            let down = value.of(total, Rounding::Down);
            prop_assert_eq!(up.is_ok(), down.is_ok());
            if let (Ok(up), Ok(down)) = (up, down) {
                prop_assert!(up >= down && i64::from(up) - i64::from(down) <= 1);
            }
        }
    }
}
