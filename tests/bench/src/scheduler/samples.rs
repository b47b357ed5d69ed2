//! What the rounds came to, by row, and Gantry held against the others.

use std::collections::BTreeMap;

use chassis::random::seed_for;

use crate::report::{self, Bar, median};

/// A row of a table.
pub trait Named: Copy + Ord {
    /// How tables call it.
    fn name(self) -> &'static str;
}

/// The rows of a round, in an order of its own, so that none always follows the same.
pub fn in_round<R: Named>(rows: impl IntoIterator<Item = R>, round: usize) -> Vec<R> {
    let (mut rows, round): (Vec<R>, _) = (rows.into_iter().collect(), round.to_string());
    rows.sort_by_cached_key(|row| seed_for(0, &["round", &round, row.name()]));
    rows
}

/// All samples of a table.
#[derive(Debug)]
pub struct Samples<R, S>(BTreeMap<R, Vec<S>>);

/// How a row of Gantry's compares: in what, with whom, and how far.
pub struct Comparison<R, S> {
    /// The figure, in words.
    pub what: &'static str,
    /// With whom.
    pub than: R,
    /// The figure.
    pub of: fn(&S) -> f64,
    /// How far.
    pub bar: Bar,
}

impl<R: Named, S> Samples<R, S> {
    /// No samples.
    pub fn new() -> Self {
        Self(BTreeMap::new())
    }

    /// Takes note of one.
    pub fn add(&mut self, row: R, sample: S) {
        self.0.entry(row).or_default().push(sample);
    }

    /// The rows that have samples.
    pub fn rows(&self) -> impl Iterator<Item = R> + '_ {
        self.0.keys().copied()
    }

    /// The middle of a figure over all rounds; not a number where the row has none.
    pub fn median(&self, row: R, of: fn(&S) -> f64) -> f64 {
        let samples = self.0.get(&row).map(Vec::as_slice).unwrap_or_default();
        median(&samples.iter().map(of).collect::<Vec<_>>())
    }

    /// Prints a table of those comparisons of a row both sides of which took part, and says whether all
    /// bars in it are met.
    pub fn judge(&self, own: R, comparisons: &[Comparison<R, S>]) -> bool {
        let took_part = |row: R| self.0.contains_key(&row);
        let judged = comparisons.iter().filter(|comparison| took_part(comparison.than));
        let judged: Vec<&Comparison<R, S>> = judged.filter(|_| took_part(own)).collect();
        if judged.is_empty() {
            return true;
        }
        println!();
        report::head(&[own.name(), "measured", "bar", ""]);
        // Every line is printed, whatever became of those before it.
        let mut met = true;
        for Comparison { what, than, of, bar } in judged {
            let ratio = self.median(own, *of) / self.median(*than, *of);
            met &= report::judged(&format!("{what}, to {}", than.name()), ratio, *bar);
        }
        met
    }
}

#[cfg(test)]
mod tests {
    use super::super::contender::Row;
    use super::*;

    #[test]
    fn each_round_has_everybody_in_it_and_not_always_in_one_order() {
        let check = |rows: &[Row]| {
            let rounds: Vec<Vec<Row>> =
                (0..5).map(|round| in_round(rows.iter().copied(), round)).collect();
            for round in &rounds {
                let mut sorted = round.clone();
                sorted.sort();
                assert_eq!(sorted, rows);
            }
            assert!(rounds.iter().any(|round| round != &rounds[0]), "{rounds:?}");
        };
        check(&Row::ALL);
        check(&[Row::Gantry, Row::BindEvent]);
    }

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
            assert_eq!(all.judge(Row::Gantry, &[comparison]), met, "{all:?}");
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
