//! Near each other: on which nodes of a network the members of a gang go, as numbers.
//!
//! A network is a tree: nodes are in blocks, blocks below spines, as many layers as somebody has named. It
//! is known how many members each node has room for; how that was found out is nothing to this, and so it
//! knows no pod and no ledger. Members go as deep below one place as they all fit, and of several such
//! places into the one that has the least room to spare.
//!
//! Nothing in the product calls this yet: networks are read when devices are. Its scenarios are proved of these functions
//! alone.
//!
//! ```
//! use engine::gathering::{Network, Offer, Wish};
//!
//! let mut network = Network::new("spine", "s1");
//! let blocks = ["b1", "b2"].map(|name| network.add(0, "block", name));
//! let nodes = [(0, "n1", 5), (0, "n2", 7), (1, "n3", 6), (1, "n4", 4)];
//! for (block, name, slots) in nodes {
//!     let node = network.add(blocks[block], "node", name);
//!     network.offer(node, Offer { slots, ..Offer::default() });
//! }
//! let plan = network.plan(15, &Wish::default()).unwrap();
//! let plan: Vec<_> = plan.iter().map(|share| (network.name(share.node), share.members)).collect();
//! assert_eq!(plan, [("n2", 7), ("n1", 5), ("n3", 3)]);
//! ```

use std::cmp::Reverse;
use std::collections::BTreeMap;
use std::fmt;

/// What a place has for members of a gang.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Offer {
    /// How many there is room for.
    pub slots: u64,
    /// How good it is to be there.
    pub score: i64,
    /// How many pods are there that they are to be near.
    pub peers: u64,
}

/// A place in a network: a node, or what nodes or other places are below.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Place {
    layer: Box<str>,
    name: Box<str>,
    above: Option<usize>,
    below: Vec<usize>,
    offer: Offer,
}

/// Places as a tree. A place is known by its number: the first is 0, and has all others below it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Network {
    places: Vec<Place>,
}

/// What a gang says of a network, by layer.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Wish {
    /// Layers of which one place has to take all members. The deepest counts.
    pub gathers: Vec<Box<str>>,
    /// Layers of which each place takes only so many members, or twice as many, and so on. What is not above
    /// 1 says nothing.
    pub multiples: BTreeMap<Box<str>, u64>,
}

impl Wish {
    fn multiple(&self, layer: &str) -> u64 {
        self.multiples.get(layer).copied().unwrap_or(1).max(1)
    }

    /// As many of these as a place of a layer takes.
    fn whole(&self, layer: &str, members: u64) -> u64 {
        members - members % self.multiple(layer)
    }
}

/// So many members go to a node.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Share {
    /// The node.
    pub node: usize,
    /// How many: at least one.
    pub members: u64,
}

/// Why no place takes all members.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// How many there are.
    pub members: u64,
    /// The places of which one would have to take them, by layer and name, and how many it takes.
    pub places: Vec<(Box<str>, Box<str>, u64)>,
    /// Layers of which places take only multiples of something.
    pub multiples: Vec<(Box<str>, u64)>,
}

/// Of so many places a refusal tells.
const PLACES_TOLD_MAX: usize = 10;

impl fmt::Display for Refusal {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { members, places, multiples } = self;
        write!(
            f,
            "no candidate topology nodes can accommodate job, desiredOfferSlot: {members}, topologyNode "
        )?;
        let told = places.iter().take(PLACES_TOLD_MAX);
        let told: Vec<String> =
            told.map(|(layer, name, slots)| format!("{layer}/{name}: {slots}")).collect();
        f.write_str(&told.join("; "))?;
        if places.len() > PLACES_TOLD_MAX {
            write!(f, "; and {} more", places.len() - PLACES_TOLD_MAX)?;
        }
        if !multiples.is_empty() {
            let told = multiples.iter().map(|(layer, own)| format!("{layer}={own}"));
            let told = told.collect::<Vec<_>>().join(", ");
            write!(f, "; podCountMultiple constraints: {told}")?;
        }
        Ok(())
    }
}

impl Network {
    /// A network of one place.
    #[must_use]
    pub fn new(layer: &str, name: &str) -> Self {
        let mut network = Self { places: Vec::new() };
        network.put(layer, name, None);
        network
    }

    /// A place below another, and its number.
    ///
    /// # Panics
    /// When there is no such place above.
    pub fn add(&mut self, above: usize, layer: &str, name: &str) -> usize {
        let own = self.put(layer, name, Some(above));
        self.places[above].below.push(own);
        own
    }

    fn put(&mut self, layer: &str, name: &str, above: Option<usize>) -> usize {
        let (layer, name) = (layer.into(), name.into());
        self.places.push(Place { layer, name, above, below: Vec::new(), offer: Offer::default() });
        self.places.len() - 1
    }

    /// What a node has for members. What a place has that others are below follows from those.
    ///
    /// # Panics
    /// When there is no such node.
    pub fn offer(&mut self, node: usize, offer: Offer) {
        self.places[node].offer = offer;
    }

    /// The name of a place.
    ///
    /// # Panics
    /// When there is no such place.
    #[must_use]
    pub fn name(&self, place: usize) -> &str {
        &self.places[place].name
    }

    /// Where so many members go.
    ///
    /// # Errors
    /// When no place takes all of them.
    pub fn plan(&self, members: u64, wish: &Wish) -> Result<Vec<Share>, Refusal> {
        let plan = Plan { network: self, wish, offers: self.offers(wish) };
        let begin = plan.begin();
        let mut shares = Vec::new();
        // Where they are no multiple, some place would have a rest.
        let is_whole = self.places.iter().all(|own| wish.whole(&own.layer, members) == members);
        let candidates = if is_whole { plan.candidates(&begin, members) } else { Vec::new() };
        for place in candidates {
            shares.clear();
            if plan.distribute(place, members, &mut shares) == members {
                return Ok(shares);
            }
        }
        let told = |place: &usize| {
            let Place { layer, name, .. } = &self.places[*place];
            (layer.clone(), name.clone(), plan.offers[*place].slots)
        };
        let multiples = wish.multiples.iter().filter(|(_, own)| **own > 1);
        Err(Refusal {
            members,
            places: begin.iter().map(told).collect(),
            multiples: multiples.map(|(layer, own)| (layer.clone(), *own)).collect(),
        })
    }

    /// What each place has, given what may be taken of it.
    fn offers(&self, wish: &Wish) -> Vec<Offer> {
        let own =
            |place: &Place| if place.below.is_empty() { place.offer } else { Offer::default() };
        let mut offers: Vec<Offer> = self.places.iter().map(own).collect();
        // Whoever is below another came later.
        for (number, place) in self.places.iter().enumerate().rev() {
            offers[number].slots = wish.whole(&place.layer, offers[number].slots);
            let Some(above) = place.above else { continue };
            let Offer { slots, score, peers } = offers[number];
            let sum = &mut offers[above];
            sum.slots = sum.slots.saturating_add(slots);
            sum.score = sum.score.saturating_add(score);
            sum.peers = sum.peers.saturating_add(peers);
        }
        offers
    }

    /// A place and all above it, up to the first.
    fn chain(&self, place: usize) -> impl Iterator<Item = usize> {
        std::iter::successors(Some(place), |own| self.places[*own].above)
    }
}

/// A search for places.
struct Plan<'a> {
    network: &'a Network,
    wish: &'a Wish,
    offers: Vec<Offer>,
}

impl Plan<'_> {
    /// The places of which one has to take all members.
    fn begin(&self) -> Vec<usize> {
        let places = &self.network.places;
        let gathers = |place: &&usize| self.wish.gathers.contains(&places[**place].layer);
        let all: Vec<usize> = (0..places.len()).collect();
        let deepest =
            all.iter().filter(gathers).max_by_key(|own| self.network.chain(**own).count());
        match deepest {
            None => vec![0],
            Some(deepest) => {
                let layer = &places[*deepest].layer;
                all.into_iter().filter(|own| places[*own].layer == *layer).collect()
            }
        }
    }

    /// Places that have room for all members, as deep as there are any, the best first.
    fn candidates(&self, begin: &[usize], members: u64) -> Vec<usize> {
        let fits = |place: &usize| self.offers[*place].slots >= members;
        let mut level: Vec<usize> = begin.iter().copied().filter(fits).collect();
        loop {
            let below = level.iter().flat_map(|own| &self.network.places[*own].below);
            let below: Vec<usize> = below.copied().filter(fits).collect();
            if below.is_empty() {
                break;
            }
            level = below;
        }
        let rank = |place: &usize| {
            let chain = || self.network.chain(*place).map(|own| self.offers[own]);
            let peers: Vec<_> = chain().map(|own| Reverse(own.peers)).collect();
            let slots: Vec<_> = chain().map(|own| own.slots).collect();
            (
                peers,
                slots,
                Reverse(self.offers[*place].score),
                self.network.places[*place].name.clone(),
            )
        };
        level.sort_by_cached_key(rank);
        level
    }

    /// Gives members to the nodes of a place, those with most room first, and says how many got one.
    fn distribute(&self, place: usize, members: u64, shares: &mut Vec<Share>) -> u64 {
        let places = &self.network.places;
        let most = members.min(self.offers[place].slots);
        let most = self.wish.whole(&places[place].layer, most);
        let mut below = places[place].below.clone();
        if below.is_empty() {
            if most > 0 {
                shares.push(Share { node: place, members: most });
            }
            return most;
        }
        below.sort_by_cached_key(|own| {
            let Offer { slots, score, peers } = self.offers[*own];
            (Reverse(peers), Reverse(slots), Reverse(score), places[*own].name.clone())
        });
        let mut given = 0;
        for own in below {
            given += self.distribute(own, most - given, shares);
        }
        given
    }
}

#[cfg(test)]
mod tests {
    use proptest::collection::vec;
    use proptest::{prop_assert, prop_assert_eq, proptest};

    use super::*;

    /// Spine s1 with the blocks b1 (n1: 5, n2: 7) and b2 (n3: 6, n4: 4).
    fn spine() -> Network {
        network(&[("b1", &[("n1", 5), ("n2", 7)]), ("b2", &[("n3", 6), ("n4", 4)])])
    }

    fn network(blocks: &[(&str, &[(&str, u64)])]) -> Network {
        let mut network = Network::new("cluster", "");
        let spine = network.add(0, "spine", "s1");
        for (name, nodes) in blocks {
            let block = network.add(spine, "block", name);
            for (name, slots) in *nodes {
                let node = network.add(block, "node", name);
                network.offer(node, Offer { slots: *slots, ..Offer::default() });
            }
        }
        network
    }

    fn multiples(multiples: &[(&str, u64)]) -> Wish {
        let multiples = multiples.iter().map(|(layer, own)| ((*layer).into(), *own)).collect();
        Wish { multiples, ..Wish::default() }
    }

    fn gathers(layer: &str) -> Wish {
        Wish { gathers: vec![layer.into()], ..Wish::default() }
    }

    /// Who goes where, or why nobody does.
    fn planned(network: &Network, members: u64, wish: &Wish) -> String {
        match network.plan(members, wish) {
            Err(refusal) => refusal.to_string(),
            Ok(shares) => {
                let shares = shares.iter();
                let shares =
                    shares.map(|own| format!("{} {}", network.name(own.node), own.members));
                shares.collect::<Vec<_>>().join(", ")
            }
        }
    }

    fn check(members: u64, wish: &Wish, expected: &str) {
        assert_eq!(planned(&spine(), members, wish), expected, "{members} {wish:?}");
    }

    #[test]
    fn s12_j8_s11_88_members_go_where_most_of_them_fit() {
        check(15, &Wish::default(), "n2 7, n1 5, n3 3");
        check(22, &multiples(&[("node", 0), ("block", 1)]), "n2 7, n1 5, n3 6, n4 4");
    }

    #[test]
    fn s11_89_s11_90_as_deep_as_all_of_them_fit_and_where_least_is_to_spare() {
        check(8, &Wish::default(), "n3 6, n4 2");
        check(6, &Wish::default(), "n3 6");
        check(7, &Wish::default(), "n2 7");
    }

    #[test]
    fn s12_j9_s11_92_a_node_takes_a_multiple() {
        let wish = multiples(&[("node", 4)]);
        let refused = "no candidate topology nodes can accommodate job, desiredOfferSlot: 20, \
                       topologyNode cluster/: 16; podCountMultiple constraints: node=4";
        check(20, &wish, refused);
        check(16, &wish, "n1 4, n2 4, n3 4, n4 4");
    }

    #[test]
    fn s12_j10_s11_95_who_is_no_multiple_goes_nowhere() {
        let two = network(&[("b1", &[("n1", 5), ("n2", 5)])]);
        let wish = multiples(&[("node", 4)]);
        let refused = "no candidate topology nodes can accommodate job, desiredOfferSlot: 10, \
                       topologyNode cluster/: 8; podCountMultiple constraints: node=4";
        assert_eq!(planned(&two, 10, &wish), refused);
        check(10, &wish, &refused.replace("/: 8", "/: 16"));
    }

    #[test]
    fn s11_93_s11_94_so_does_a_block() {
        check(16, &multiples(&[("block", 8)]), "n2 7, n1 1, n3 6, n4 2");
        check(16, &multiples(&[("block", 8), ("node", 2)]), "n2 6, n1 2, n3 6, n4 2");
    }

    #[test]
    fn s12_j11_one_block_takes_all_where_that_is_wanted() {
        let blocks: [(&str, &[(&str, u64)]); 2] =
            [("y", &[("y1", 8), ("y2", 8)]), ("x", &[("x1", 4), ("x2", 4)])];
        let network = network(&blocks);
        assert_eq!(planned(&network, 8, &gathers("block")), "y1 8", "a node takes them all");
        // Where no node does, the block with fewer places that still fits.
        let blocks: [(&str, &[(&str, u64)]); 2] =
            [("y", &[("y1", 4), ("y2", 4), ("y3", 4), ("y4", 4)]), ("x", &[("x1", 4), ("x2", 4)])];
        let wide = self::network(&blocks);
        assert_eq!(planned(&wide, 8, &gathers("block")), "x1 4, x2 4");
    }

    #[test]
    fn s11_91_no_block_takes_all_and_each_is_told() {
        let refused = "no candidate topology nodes can accommodate job, desiredOfferSlot: 13, \
                       topologyNode block/b1: 12; block/b2: 10";
        check(13, &gathers("block"), refused);
        // The deepest layer counts, whatever else is said.
        let both = Wish { gathers: vec!["block".into(), "spine".into()], ..Wish::default() };
        check(13, &both, refused);
        check(13, &gathers("spine"), "n2 7, n1 5, n3 1");
        check(13, &gathers("hall"), "n2 7, n1 5, n3 1");
    }

    #[test]
    fn s11_99_pods_that_are_there_draw_others() {
        let blocks: [(&str, &[(&str, u64)]); 2] =
            [("b1", &[("n1", 3), ("n2", 3)]), ("b2", &[("n3", 3), ("n4", 3)])];
        let mut network = network(&blocks);
        assert_eq!(planned(&network, 4, &Wish::default()), "n1 3, n2 1");
        let n4 = (0..).find(|own| network.name(*own) == "n4").unwrap();
        network.offer(n4, Offer { slots: 3, peers: 1, ..Offer::default() });
        assert_eq!(planned(&network, 4, &Wish::default()), "n4 3, n3 1");
    }

    #[test]
    fn of_equal_places_the_better_one_takes_them() {
        let mut network = network(&[("b1", &[("n1", 3)]), ("b2", &[("n2", 3)])]);
        assert_eq!(planned(&network, 3, &Wish::default()), "n1 3");
        let n2 = (0..).find(|own| network.name(*own) == "n2").unwrap();
        network.offer(n2, Offer { slots: 3, score: 1, peers: 0 });
        assert_eq!(planned(&network, 3, &Wish::default()), "n2 3");
    }

    proptest! {
        #[test]
        fn whoever_is_placed_is_placed_whole_and_nobody_takes_more_than_there_is(
            nodes in vec((0..3_usize, 0..6_u64, 0..2_u64), 1..10),
            (of_node, of_block) in (0..4_u64, 0..4_u64),
            members in 1..20_u64,
        ) {
            let mut network = Network::new("cluster", "");
            let blocks = [0, 1, 2].map(|own| network.add(0, "block", &format!("b{own}")));
            for (number, (block, slots, peers)) in nodes.into_iter().enumerate() {
                let node = network.add(blocks[block], "node", &format!("n{number}"));
                network.offer(node, Offer { slots, score: 0, peers });
            }
            let wish = multiples(&[("node", of_node), ("block", of_block)]);
            let offers = network.offers(&wish);
            let Ok(shares) = network.plan(members, &wish) else {
                // Multiples may leave a rest that nobody takes.
                let is_whole = of_node < 2 && of_block < 2;
                prop_assert!(!is_whole || offers[0].slots < members);
                return Ok(());
            };
            prop_assert_eq!(shares.iter().map(|own| own.members).sum::<u64>(), members);
            for (place, own) in network.places.iter().enumerate() {
                let inside = |share: &&Share| network.chain(share.node).any(|own| own == place);
                let sum: u64 = shares.iter().filter(inside).map(|own| own.members).sum();
                prop_assert_eq!(sum % wish.multiple(&own.layer), 0, "{}", own.name);
                prop_assert!(sum <= offers[place].slots, "{}", own.name);
            }
        }
    }
}
