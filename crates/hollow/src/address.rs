//! Addresses of nodes and their pods: which there are, and who gets which.
//!
//! Every node has a block, a number below [`NODES_MAX`]. Its own address is in 172.16.0.0/12,
//! and those of its pods are a /24 of 10.128.0.0/9. The blocks of a group begin where the start
//! of its names says (those of the default name at the first one), and go around what nodes that
//! the API server knows already have: so groups of different names, and processes that do not
//! know of each other, do not share addresses. A node keeps the block that its object tells of.

use std::collections::BTreeSet;
use std::net::Ipv4Addr;

use chassis::random::seed_for;

use crate::group::NODES_MAX;

/// First of the addresses of nodes.
const HOSTS: u32 = 0xac10_0000;
/// First of the addresses of pods: 256 for each node.
const PODS: u32 = 0x0a80_0000;
/// How many nodes there are in a /24: its first address looks like a network, its last like a
/// broadcast.
const HOSTS_IN_24: u32 = 254;
/// How many blocks there are.
const BLOCKS: u32 = NODES_MAX as u32;
/// Names that begin so have the first block, so that what everybody sees first is simple.
const DEFAULT_PREFIX: &str = "node";

/// The address of a node.
pub(crate) fn host_address(block: u32) -> Ipv4Addr {
    Ipv4Addr::from(HOSTS + (block / HOSTS_IN_24) * 256 + block % HOSTS_IN_24 + 1)
}

/// The block of a node of this address, if there is one.
pub(crate) fn block_of(address: &str) -> Option<u32> {
    let offset = u32::from(address.parse::<Ipv4Addr>().ok()?).checked_sub(HOSTS)?;
    let last = (offset % 256).checked_sub(1).filter(|last| *last < HOSTS_IN_24)?;
    let block = offset / 256 * HOSTS_IN_24 + last;
    (block < BLOCKS).then_some(block)
}

/// An address of a pod.
pub(crate) fn pod_address(block: u32, number: u8) -> Ipv4Addr {
    Ipv4Addr::from(PODS + block * 256 + u32::from(number))
}

/// The number of an address among those of the pods of a node.
pub(crate) fn number_of(block: u32, address: &str) -> Option<u8> {
    let address = u32::from(address.parse::<Ipv4Addr>().ok()?);
    u8::try_from(address.checked_sub(PODS + block * 256)?).ok()
}

/// Where the blocks of nodes whose names start so begin.
fn first_block(prefix: &str) -> u32 {
    let number = |prefix: &str| seed_for(0, &["addresses", prefix]);
    let offset = number(prefix).wrapping_sub(number(DEFAULT_PREFIX));
    u32::try_from(offset % u64::from(BLOCKS)).unwrap_or(0)
}

/// Gives out blocks that nobody has.
#[derive(Debug, Default)]
pub(crate) struct Blocks {
    taken: BTreeSet<u32>,
    /// Where to look next, for the start of the names that was last asked for.
    next: (String, u32),
}

impl Blocks {
    /// Notes that a block is in use; says whether it was free.
    pub(crate) fn take(&mut self, block: u32) -> bool {
        self.taken.insert(block)
    }

    /// A free block for a node whose name starts so; none where there is none.
    pub(crate) fn give(&mut self, prefix: &str) -> Option<u32> {
        if self.next.0 != prefix {
            self.next = (prefix.to_owned(), first_block(prefix));
        }
        let from = self.next.1;
        let order = (0..BLOCKS).map(|offset| (from + offset) % BLOCKS);
        let block = order.into_iter().find(|block| !self.taken.contains(block))?;
        self.taken.insert(block);
        self.next.1 = (block + 1) % BLOCKS;
        Some(block)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn addresses_are_unique_and_found_again() {
        assert_eq!(host_address(0).to_string(), "172.16.0.1");
        assert_eq!(host_address(253).to_string(), "172.16.0.254");
        assert_eq!(host_address(254).to_string(), "172.16.1.1");
        assert_eq!(pod_address(0, 1).to_string(), "10.128.0.1");
        assert_eq!(pod_address(32_767, 250).to_string(), "10.255.255.250");
        assert_eq!(number_of(300, &pod_address(300, 7).to_string()), Some(7));
        for other in ["10.128.0.7", "10.255.0.1", "::1", "", "10.129.45.0.1"] {
            assert_eq!(number_of(300, other), None, "{other}");
        }
        for block in 0..BLOCKS {
            assert_eq!(block_of(&host_address(block).to_string()), Some(block));
        }
        for other in ["172.16.0.0", "172.16.0.255", "10.0.0.1", "172.31.0.1", "node", ""] {
            assert_eq!(block_of(other), None, "{other}");
        }
    }

    #[test]
    fn blocks_go_around_what_is_taken_and_end_when_all_are() {
        let mut blocks = Blocks::default();
        assert!(blocks.take(1) && !blocks.take(1));
        assert_eq!([blocks.give("node"), blocks.give("node")], [Some(0), Some(2)]);
        let other = blocks.give("extra");
        assert!(other.is_some_and(|block| block > 100), "{other:?}");
        let mut given = 4;
        while blocks.give("node").is_some() {
            given += 1;
        }
        assert_eq!(given, BLOCKS);
    }
}
