//! What the rounds came to, by row, and Gantry held against the others.

use std::collections::BTreeMap;

use super::contender::Row;
use crate::report::{self, Bar, median};

/// All samples of a table.
#[derive(Debug)]
pub struct Samples<S>(BTreeMap<Row, Vec<S>>);

/// How Gantry compares: in what, with whom, and how far.
pub struct Comparison<S> {
    /// The figure, in words.
    pub what: &'static str,
    /// With whom.
    pub than: Row,
    /// The figure.
    pub of: fn(&S) -> f64,
    /// How far.
    pub bar: Bar,
}

impl<S> Samples<S> {
    /// No samples.
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Takes note of one.
    pub fn add(&mut self, row: Row, sample: S) {
        self.0.entry(row).or_default().push(sample);
    }

    /// The rows that have samples.
    pub fn rows(&self) -> impl Iterator<Item = Row> + '_ {
        self.0.keys().copied()
    }

    /// The middle of a figure over all rounds; not a number where the row has none.
    pub fn median(&self, row: Row, of: fn(&S) -> f64) -> f64 {
        let samples = self.0.get(&row).map(Vec::as_slice).unwrap_or_default();
        median(&samples.iter().map(of).collect::<Vec<_>>())
    }

    /// Prints a table of those comparisons both sides of which took part, and says whether all
    /// bars in it are met.
    pub fn judge(&self, comparisons: &[Comparison<S>]) -> bool {
        let took_part = |row: Row| self.0.contains_key(&row);
        let judged = comparisons.iter().filter(|comparison| took_part(comparison.than));
        let judged: Vec<&Comparison<S>> = judged.filter(|_| took_part(Row::Gantry)).collect();
        if judged.is_empty() {
            return true;
        }
        println!();
        report::head(&["Gantry", "measured", "bar", ""]);
        // Every line is printed, whatever became of those before it.
        let mut met = true;
        for Comparison { what, than, of, bar } in judged {
            let ratio = self.median(Row::Gantry, *of) / self.median(*than, *of);
            met &= report::judged(&format!("{what}, to {}", than.name()), ratio, *bar);
        }
        met
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_bar_is_judged_by_medians_and_only_where_both_sides_took_part() {
        let check = |samples: &[(Row, f64)], met: bool| {
            let mut all = Samples::new();
            samples.iter().for_each(|(row, figure)| all.add(*row, *figure));
            let comparison = Comparison {
                what: "throughput",
                than: Row::BindEvent,
                of: |figure: &f64| *figure,
                bar: Bar::PercentAtLeast(90.0),
            };
            assert_eq!(all.judge(&[comparison]), met, "{all:?}");
        };
        check(&[(Row::Gantry, 90.0), (Row::BindEvent, 100.0)], true);
        check(&[(Row::Gantry, 89.0), (Row::BindEvent, 100.0)], false);
        check(
            &[
                (Row::Gantry, 1.0),
                (Row::Gantry, 95.0),
                (Row::Gantry, 96.0),
                (Row::BindEvent, 100.0),
            ],
            true,
        );
        check(&[(Row::Gantry, 1.0), (Row::KubeScheduler, 100.0)], true);
        check(&[(Row::BindEvent, 100.0)], true);
        check(&[(Row::Gantry, f64::NAN), (Row::BindEvent, 100.0)], false);
    }
}
