//! Which nodes changed lately, so that what was computed before them can be repaired.

use std::collections::VecDeque;

use super::NodeIndex;

/// A point in a log of changes.
pub type Position = u64;

/// The last changes, one node each.
///
/// Whoever computed something at a position asks what changed since. Who comes too late gets no
/// list and computes anew; beyond one change for each node that is cheaper anyway.
#[derive(Debug, Clone, Default)]
pub struct Changes {
    nodes: VecDeque<NodeIndex>,
    /// The position after the last change.
    end: Position,
}

/// Changes that are kept even where there are fewer nodes.
const KEPT_MIN: usize = 256;

impl Changes {
    /// The position after the last change.
    #[must_use]
    pub fn end(&self) -> Position {
        self.end
    }

    /// Notes that a node changed, in a table of so many nodes.
    pub fn note(&mut self, node: NodeIndex, nodes: usize) {
        self.end += 1;
        self.nodes.push_back(node);
        while self.nodes.len() > nodes.max(KEPT_MIN) {
            self.nodes.pop_front();
        }
    }

    /// The nodes that changed since a position, some of them repeatedly; none where it is too
    /// long ago to tell.
    pub fn since(
        &self,
        position: Position,
    ) -> Option<impl ExactSizeIterator<Item = NodeIndex> + '_> {
        let count = usize::try_from(self.end - position).ok()?;
        let first = self.nodes.len().checked_sub(count)?;
        Some(self.nodes.range(first..).copied())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn changes_are_told_since_a_position_until_they_are_forgotten() {
        let mut changes = Changes::default();
        let told = |changes: &Changes, position| {
            changes.since(position).map(|nodes| nodes.map(NodeIndex::get).collect::<Vec<_>>())
        };
        let start = changes.end();
        assert_eq!(told(&changes, start), Some(vec![]));
        changes.note(NodeIndex::at(3), 10);
        changes.note(NodeIndex::at(5), 10);
        assert_eq!(told(&changes, start), Some(vec![3, 5]));
        assert_eq!(told(&changes, start + 1), Some(vec![5]));
        for _ in 0..KEPT_MIN {
            changes.note(NodeIndex::at(1), 10);
        }
        assert_eq!(told(&changes, start), None);
        assert_eq!(told(&changes, changes.end()), Some(vec![]));
    }
}
