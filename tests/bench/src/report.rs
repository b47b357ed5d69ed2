//! What every benchmark prints: tables in Markdown, and figures held against bars.

use std::fmt;

/// What a figure must reach. A figure that compares is a ratio, ours to theirs.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Bar {
    /// An amount that stays below this one.
    Under(f64),
    /// A ratio of at least so many percent.
    PercentAtLeast(f64),
    /// A ratio of at least this.
    TimesAtLeast(f64),
    /// A ratio of at most this.
    TimesAtMost(f64),
    /// A ratio of at most one to this.
    OneToAtMost(f64),
    /// A ratio that is only told.
    ToldTimes,
}

impl Bar {
    /// Whether a figure meets the bar. One that was not measured (not a number) does not.
    #[must_use]
    pub fn is_met(self, figure: f64) -> bool {
        match self {
            Self::Under(bound) => figure < bound,
            Self::PercentAtLeast(percent) => figure * 100.0 >= percent,
            Self::TimesAtLeast(ratio) => figure >= ratio,
            Self::TimesAtMost(ratio) => figure <= ratio,
            Self::OneToAtMost(parts) => figure * parts <= 1.0,
            Self::ToldTimes => !figure.is_nan(),
        }
    }

    /// A figure as the bar is written.
    #[must_use]
    pub fn shows(self, figure: f64) -> String {
        match self {
            Self::Under(bound) if bound > 100.0 => format!("{figure:.0}"),
            Self::Under(bound) if bound > 10.0 => format!("{figure:.1}"),
            Self::Under(_) => format!("{figure:.2}"),
            Self::PercentAtLeast(_) => format!("{:.0} %", figure * 100.0),
            Self::TimesAtLeast(_) => format!("{figure:.1}x"),
            Self::TimesAtMost(_) | Self::ToldTimes => format!("{figure:.2}x"),
            Self::OneToAtMost(_) => format!("1/{:.1}", 1.0 / figure),
        }
    }

    /// Met or missed, in a word.
    #[must_use]
    pub fn verdict(self, figure: f64) -> &'static str {
        match (self.is_met(figure), self) {
            (false, _) => "missed",
            (true, Self::ToldTimes) => "",
            (true, _) => "met",
        }
    }
}

impl fmt::Display for Bar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Under(bound) => write!(f, "under {bound}"),
            Self::PercentAtLeast(percent) => write!(f, "at least {percent} %"),
            Self::TimesAtLeast(ratio) => write!(f, "at least {ratio}x"),
            Self::TimesAtMost(ratio) => write!(f, "at most {ratio}x"),
            Self::OneToAtMost(parts) => write!(f, "at most 1/{parts}"),
            Self::ToldTimes => f.write_str("none"),
        }
    }
}

/// Prints the head of a table.
pub fn head(cells: &[&str]) {
    row(cells);
    println!("|{}", "---|".repeat(cells.len()));
}

/// Prints a row of a table.
pub fn row<T: fmt::Display>(cells: &[T]) {
    let cells: Vec<String> = cells.iter().map(ToString::to_string).collect();
    println!("| {} |", cells.join(" | "));
}

/// Prints an amount with its bar, and says whether it is met.
pub fn amount(what: &str, figure: f64, bar: Bar) -> bool {
    row(&[what, &bar.shows(figure), &bar.to_string()]);
    bar.is_met(figure)
}

/// Prints a figure with its bar and the verdict, and says whether it is met.
pub fn judged(what: &str, figure: f64, bar: Bar) -> bool {
    row(&[what, &bar.shows(figure), &bar.to_string(), bar.verdict(figure)]);
    bar.is_met(figure)
}

/// The middle value; not a number where there is none.
#[must_use]
pub fn median(values: &[f64]) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    values.get(values.len() / 2).copied().unwrap_or(f64::NAN)
}

/// The smallest value that so many percent of all do not exceed; not a number where there is
/// none.
#[must_use]
pub fn percentile(values: &[f64], percent: usize) -> f64 {
    let mut values = values.to_vec();
    values.sort_by(f64::total_cmp);
    let rank = (values.len() * percent).div_ceil(100).max(1);
    values.get(rank - 1).copied().unwrap_or(f64::NAN)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_met_up_to_its_edge_and_never_by_what_was_not_measured() {
        let check = |bar: Bar, met: f64, missed: f64| {
            assert_eq!((bar.verdict(met), bar.verdict(missed)), ("met", "missed"), "{bar}");
            assert_eq!(bar.verdict(f64::NAN), "missed", "{bar}");
        };
        check(Bar::Under(30.0), 29.9, 30.0);
        check(Bar::PercentAtLeast(90.0), 0.9, 0.899);
        check(Bar::TimesAtLeast(4.0), 4.0, 3.99);
        check(Bar::TimesAtMost(1.5), 1.5, 1.51);
        check(Bar::OneToAtMost(8.0), 0.125, 0.126);
        assert_eq!((Bar::ToldTimes.verdict(7.0), Bar::ToldTimes.verdict(f64::NAN)), ("", "missed"));
    }

    #[test]
    fn a_figure_is_shown_as_its_bar_is_written() {
        let check = |bar: Bar, figure: f64, expected: &str| {
            assert_eq!(format!("{} of {bar}", bar.shows(figure)), expected);
        };
        check(Bar::Under(1024.0), 573.6, "574 of under 1024");
        check(Bar::Under(30.0), 13.04, "13.0 of under 30");
        check(Bar::Under(1.0), 0.182, "0.18 of under 1");
        check(Bar::PercentAtLeast(90.0), 0.934, "93 % of at least 90 %");
        check(Bar::TimesAtLeast(4.0), 6.15, "6.2x of at least 4x");
        check(Bar::TimesAtMost(1.5), 1.326, "1.33x of at most 1.5x");
        check(Bar::OneToAtMost(5.0), 0.1, "1/10.0 of at most 1/5");
        check(Bar::ToldTimes, 1.7, "1.70x of none");
    }

    #[test]
    fn medians_and_percentiles_are_values_that_were_measured() {
        let hundred: Vec<f64> = (1..=100).rev().map(f64::from).collect();
        let check = |values: &[f64], middle: f64, high: f64| {
            assert_eq!((median(values), percentile(values, 99)), (middle, high));
        };
        check(&hundred, 51.0, 99.0);
        check(&[2.0, 1.0, 3.0], 2.0, 3.0);
        check(&[7.0], 7.0, 7.0);
        assert!(median(&[]).is_nan() && percentile(&[], 99).is_nan());
    }
}
