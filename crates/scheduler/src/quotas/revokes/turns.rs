//! In which order pods of a quota go: the least important first, and no gang is torn for whom another could go.

use std::collections::BTreeMap;

use api::pod_group::GangId;

/// A pod that may have to go.
#[derive(Debug, Clone, Copy)]
pub(super) struct Candidate<'a> {
    /// Whether it was asked in the last round and stayed: others may go in its stead.
    pub(super) stayed: bool,
    pub(super) priority: i32,
    pub(super) gang: Option<&'a GangId>,
}

/// The members of a gang that says how many there must be.
#[derive(Debug, Clone, Copy)]
pub(super) struct Members {
    /// How many stay.
    pub(super) staying: usize,
    /// How many there must be.
    pub(super) min: usize,
}

/// The order in which pods go that are given from the least to the most important, by their places. Whoever was asked
/// and stayed is last. Of the same priority those are last without whom too few of their gang would stay, one gang after
/// the other: once one has too few, the rest of it is of no use.
pub(super) fn turns(
    candidates: &[Candidate<'_>],
    gangs: &BTreeMap<&GangId, Members>,
) -> Vec<usize> {
    let mut gangs = gangs.clone();
    let rank = |place: &usize| (candidates[*place].stayed, candidates[*place].priority);
    let mut places: Vec<usize> = (0..candidates.len()).collect();
    places.sort_by_key(rank);
    let mut turns = Vec::with_capacity(places.len());
    for alike in places.chunk_by(|one, other| rank(one) == rank(other)) {
        let mut torn: Vec<(usize, usize)> = Vec::new();
        let mut first: BTreeMap<&GangId, usize> = BTreeMap::new();
        for place in alike {
            let gang = candidates[*place].gang;
            match gang.and_then(|gang| Some((gang, gangs.get_mut(gang)?))) {
                Some((gang, own)) if own.staying == own.min => {
                    torn.push((*first.entry(gang).or_insert(*place), *place));
                }
                // Where there are too few already, one more or less makes no difference.
                Some((_, own)) => {
                    own.staying = own.staying.saturating_sub(1);
                    turns.push(*place);
                }
                None => turns.push(*place),
            }
        }
        torn.sort_unstable();
        turns.extend(torn.iter().map(|(_, place)| *place));
        for gang in torn.iter().filter_map(|(_, place)| candidates[*place].gang) {
            if let Some(own) = gangs.get_mut(gang) {
                own.staying = own.staying.saturating_sub(1);
            }
        }
    }
    turns
}

#[cfg(test)]
mod tests {
    use super::*;

    /// In which order pods go, given from the least to the most important, as in `2:g1` for a pod of priority 2, of gang
    /// `n/g` where that is one of these: `g 3/2` has three members, and there must be two. One with `!` was asked and stayed.
    fn check(pods: &str, gangs: &[&str], expected: &str) {
        let gangs: Vec<(GangId, Members)> = gangs
            .iter()
            .map(|text| {
                let (name, counts) = text.split_once(' ').unwrap();
                let (staying, min) = counts.split_once('/').unwrap();
                let (staying, min) = (staying.parse().unwrap(), min.parse().unwrap());
                (GangId::new("n", name), Members { staying, min })
            })
            .collect();
        let names: Vec<&str> =
            pods.split(' ').map(|text| text.split_once(':').unwrap().1).collect();
        let candidate = |text: &str| {
            let (rank, name) = text.split_once(':').unwrap();
            let gang = gangs.iter().map(|(id, _)| id).find(|id| id.name() == &name[..1]);
            let priority = rank.trim_start_matches('!').parse().unwrap();
            Candidate { stayed: rank.starts_with('!'), priority, gang }
        };
        let candidates: Vec<Candidate<'_>> = pods.split(' ').map(candidate).collect();
        let all = gangs.iter().map(|(id, own)| (id, *own)).collect();
        let turns = turns(&candidates, &all).into_iter().map(|place| names[place]);
        assert_eq!(turns.collect::<Vec<_>>().join(" "), expected, "{pods}");
    }

    #[test]
    fn the_least_important_go_first_and_of_gangs_those_who_are_not_needed() {
        check("1:a 1:b 2:c", &[], "a b c");
        check("1:g1 1:a 1:g2 1:b", &["g 2/2"], "a b g1 g2");
        check("1:g1 1:a 1:g2 1:g3", &["g 3/2"], "g1 a g2 g3");
        check("1:g1 1:a 1:g2", &["g 4/2"], "g1 a g2");
        check("1:g1 2:a", &["g 2/2"], "g1 a");
    }

    #[test]
    fn one_gang_is_torn_after_the_other() {
        check("1:g1 1:h1 1:g2 1:h2 1:a", &["g 2/2", "h 2/2"], "a g1 g2 h1 h2");
        check("1:h1 1:g1 1:g2 1:h2 1:h3", &["g 2/2", "h 3/2"], "h1 g1 g2 h2 h3");
    }

    #[test]
    fn members_of_a_gang_that_has_too_few_already_go_like_any_other() {
        check("1:g1 1:a 1:g2", &["g 2/3"], "g1 a g2");
        check("1:g1 2:h1 2:g2 2:h2", &["g 2/2", "h 2/2"], "g1 g2 h1 h2");
    }

    #[test]
    fn who_was_asked_and_stayed_goes_last() {
        check("!1:a 1:b 2:c", &[], "b c a");
        check("!2:a !1:b 3:c", &[], "c b a");
        check("!1:g1 1:a 1:g2", &["g 3/2"], "a g2 g1");
        check("!1:g1 1:a 1:g2 !1:b", &["g 2/2"], "a g2 g1 b");
    }
}
