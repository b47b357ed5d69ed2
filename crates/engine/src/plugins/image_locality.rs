//! ImageLocality: a node that has the pod's images starts it sooner.

use crate::ledger::{Ask, Ledger};
use crate::node_set::NodeSet;
use crate::plugin::{Key, Normalise, Plugin, Reads, SCORE_MAX, Score};

/// Prefers nodes that have large images of the pod.
#[derive(Debug, Clone, Copy)]
pub struct ImageLocality;

const MIB: i64 = 1 << 20;
/// Images smaller than this in all count nothing.
const BYTES_MIN: i64 = 23 * MIB;
/// For each container, images larger than this count no more.
const BYTES_MAX_PER_CONTAINER: i64 = 1000 * MIB;

impl Score for ImageLocality {
    fn plugin(&self) -> Plugin {
        Plugin::ImageLocality
    }

    fn reads(&self) -> Reads {
        Reads::Node
    }

    fn key(&self, ledger: &Ledger, ask: Ask) -> Option<Key> {
        let images = &ledger.asks.images.get(ask.images).0;
        let known = images.iter().any(|image| ledger.nodes.nodes_with_image(image) > 0);
        known.then(|| ledger.asks.images.stamp(ask.images))
    }

    /// An image counts the more, the more nodes have it: that moves with any of them.
    fn epoch(&self, ledger: &Ledger) -> u64 {
        ledger.nodes.image_epoch()
    }

    fn normalise(&self) -> Normalise {
        Normalise::No
    }

    fn score(&self, ledger: &Ledger, ask: Ask, nodes: &NodeSet, raw: &mut [i32]) {
        let images = &ledger.asks.images.get(ask.images).0;
        let total = ledger.nodes.present().len() as f64;
        let containers = i64::try_from(images.len()).unwrap_or(i64::MAX);
        let most = BYTES_MAX_PER_CONTAINER * containers;
        for node in nodes.iter() {
            let scaled = |image: &str| {
                let bytes = ledger.nodes.image_bytes(node, image)?;
                let spread = f64::from(ledger.nodes.nodes_with_image(image)) / total;
                Some((bytes as f64 * spread) as i64)
            };
            let sum: i64 = images.iter().filter_map(|image| scaled(image)).sum();
            let sum = sum.clamp(BYTES_MIN, most);
            let score = SCORE_MAX * (sum - BYTES_MIN) / (most - BYTES_MIN);
            raw[node.get()] = i32::try_from(score).unwrap_or(i32::MAX);
        }
    }
}
