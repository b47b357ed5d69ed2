//! A tree of quotas, all of which have as many children as there are.

use std::fmt;

/// How many children a quota has.
const CHILDREN_MAX: usize = 4;

/// So many quotas, numbered level by level: those without children come last, and pods are dealt out to
/// them in turn.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Tree(pub usize);

impl fmt::Display for Tree {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} quotas in {} levels", self.0, self.level(self.0 - 1))
    }
}

impl Tree {
    /// The quota above; none where it is one of the first level.
    pub fn parent(index: usize) -> Option<usize> {
        (index / CHILDREN_MAX).checked_sub(1)
    }

    /// How many quotas have children. They are the first ones.
    pub fn parents(self) -> usize {
        (self.0 - 1) / CHILDREN_MAX
    }

    /// The quota of a pod.
    pub fn leaf_of(self, pod: usize) -> usize {
        self.parents() + pod % (self.0 - self.parents())
    }

    /// How many of the pods up to this one each quota has, together with those below it.
    pub fn shares(self, pods: usize) -> Vec<usize> {
        let mut shares = vec![0; self.0];
        (0..pods).for_each(|pod| shares[self.leaf_of(pod)] += 1);
        for index in (0..self.0).rev() {
            if let Some(parent) = Self::parent(index) {
                shares[parent] += shares[index];
            }
        }
        shares
    }

    /// On which level a quota is; those that no other is above are on the first.
    fn level(self, index: usize) -> usize {
        1 + Self::parent(index).map_or(0, |parent| self.level(parent))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_pod_is_of_a_quota_without_children_and_counts_for_all_above_it() {
        let check = |quotas: usize, pods: usize, levels: usize, parents: usize| {
            let tree = Tree(quotas);
            let is_parent = |index: usize| (0..quotas).any(|own| Tree::parent(own) == Some(index));
            assert_eq!((tree.level(quotas - 1), tree.parents()), (levels, parents), "{tree}");
            assert!((0..quotas).all(|index| is_parent(index) == (index < parents)), "{tree}");
            let shares = tree.shares(pods);
            let top = (0..quotas).filter(|index| Tree::parent(*index).is_none());
            assert_eq!(top.map(|index| shares[index]).sum::<usize>(), pods, "{tree}");
            assert_eq!(shares[parents..].iter().sum::<usize>(), pods, "{tree}");
        };
        check(1_000, 5_000, 5, 249);
        check(1_000, 7, 5, 249);
        check(12, 20, 2, 2);
        check(4, 3, 1, 0);
        check(1, 3, 1, 0);
    }
}
