//! Pods that are asked to go for something that they are part of: a few at once, by way of the API server, which heeds
//! disruption budgets.

use std::collections::{BTreeMap, VecDeque};
use std::ops::Bound;

use api::{ElasticQuota, PodGroup};
use chassis::events::Subject;
use chassis::key::Key;
use engine::fact::{PodRef, Uid};

/// How many pods are asked to go at once.
const UNDER_WAY_MAX: usize = 16;
/// How many of one namespace may be in line while nobody else is: those beyond them are looked at again when these were
/// asked. Of several namespaces, whoever joins may have his part of as many in line.
pub(crate) const LINE_MAX: usize = 4096;

/// What a pod is part of that it has to go for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Cause {
    /// Its quota uses more than it may.
    Quota,
    /// Its gang has started only in part.
    Gang,
}

impl Cause {
    /// What it is called for short.
    #[must_use]
    pub fn word(self) -> &'static str {
        match self {
            Self::Quota => "quota",
            Self::Gang => "gang",
        }
    }

    /// The reason of the event.
    #[must_use]
    pub fn reason(self) -> &'static str {
        match self {
            Self::Quota => "QuotaRevoked",
            Self::Gang => "GangIncomplete",
        }
    }

    /// What the pod did not do right.
    pub(crate) fn fault(self) -> &'static str {
        match self {
            Self::Quota => "has used more than it may for too long",
            Self::Gang => "has started only in part",
        }
    }

    /// The object of this key and uid.
    pub(crate) fn subject(self, (key, uid): &(Key, Box<str>)) -> Subject {
        let (key, uid) = (key.clone(), uid.clone().into());
        match self {
            Self::Quota => Subject::named::<ElasticQuota>(key, uid),
            Self::Gang => Subject::named::<PodGroup>(key, uid),
        }
    }
}

/// What came of asking a pod to go.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Dismissal {
    /// It goes, or is gone.
    Goes,
    /// It stays for now: a disruption budget keeps it, or it could not be asked.
    Stays,
}

/// A pod that has to go.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DismissOrder {
    /// The pod.
    pub pod: PodRef,
    /// What it has to go for.
    pub cause: Cause,
    /// The object of that, and its uid.
    pub object: (Key, Box<str>),
    /// What is wrong, in words.
    pub words: Box<str>,
}

/// Who has to go, one after the other, and one namespace after the other: it is that of what they are part of, so that
/// those of one quota or gang keep their order.
#[derive(Debug, Default)]
pub(crate) struct Dismissals {
    lines: BTreeMap<Box<str>, VecDeque<DismissOrder>>,
    /// The namespace of the last one that was asked.
    last: Box<str>,
    /// Those that are being asked, and what they have to go for.
    under_way: BTreeMap<Uid, Key>,
}

impl Dismissals {
    pub(crate) fn is_empty(&self) -> bool {
        self.lines.is_empty()
    }

    /// Whether a pod is being asked to go.
    pub(crate) fn is_asked(&self, uid: &Uid) -> bool {
        self.under_way.contains_key(uid)
    }

    /// Whether one more may be asked to go now.
    pub(crate) fn admits(&self) -> bool {
        self.under_way.len() < UNDER_WAY_MAX
    }

    /// These have to go too, all for the same object, as far as there is room for them. The first one is returned for whom
    /// there is none.
    pub(crate) fn extend(
        &mut self,
        orders: impl IntoIterator<Item = DismissOrder>,
    ) -> Option<DismissOrder> {
        for order in orders {
            let namespace = order.object.0.namespace();
            let is_new = !self.lines.contains_key(namespace);
            let share = (LINE_MAX / (self.lines.len() + usize::from(is_new))).max(1);
            if self.lines.get(namespace).map_or(0, VecDeque::len) >= share {
                return Some(order);
            }
            self.lines.entry(namespace.into()).or_default().push_back(order);
        }
        None
    }

    /// A pod was asked to go, or cannot be for now: what it had to go for.
    pub(crate) fn answered(&mut self, uid: &Uid) -> Option<Key> {
        self.under_way.remove(uid)
    }

    /// The next one, of those who still have to go.
    pub(crate) fn next(
        &mut self,
        mut has_to: impl FnMut(&DismissOrder) -> bool,
    ) -> Option<DismissOrder> {
        if !self.admits() {
            return None;
        }
        loop {
            let order = self.pop()?;
            if !self.is_asked(&order.pod.uid) && has_to(&order) {
                self.under_way.insert(order.pod.uid.clone(), order.object.0.clone());
                return Some(order);
            }
        }
    }

    /// The first one in line of the namespace whose turn it is.
    fn pop(&mut self) -> Option<DismissOrder> {
        let after = (Bound::Excluded(&*self.last), Bound::Unbounded);
        let next =
            self.lines.range::<str, _>(after).next().or_else(|| self.lines.first_key_value());
        let namespace = next?.0.clone();
        let line = self.lines.get_mut(&namespace)?;
        let order = line.pop_front();
        if line.is_empty() {
            self.lines.remove(&namespace);
        }
        self.last = namespace;
        order
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn order(namespace: &str, number: usize) -> DismissOrder {
        let name = format!("{namespace}-{number}");
        let pod = PodRef {
            uid: Uid::new(&name),
            namespace: namespace.into(),
            name: name.as_str().into(),
            is_reservation: false,
        };
        let object = (Key::namespaced(namespace, "g"), "u".into());
        DismissOrder { pod, cause: Cause::Gang, object, words: "".into() }
    }

    /// Has so many of a namespace join, and says how many of them are in line by that.
    fn join(own: &mut Dismissals, namespace: &str, count: usize) -> usize {
        let left = own.extend((0..count).map(|number| order(namespace, number)));
        let names = |number: usize| order(namespace, number).pod.name;
        left.map_or(count, |left| (0..count).find(|own| names(*own) == left.pod.name).unwrap())
    }

    fn asked(own: &mut Dismissals, count: usize) -> Vec<String> {
        let mut names = Vec::new();
        for _ in 0..count {
            let Some(order) = own.next(|_| true) else { break };
            own.answered(&order.pod.uid);
            names.push(order.pod.name.to_string());
        }
        names
    }

    #[test]
    fn whoever_fills_the_line_keeps_nobody_else_out_of_it() {
        let mut own = Dismissals::default();
        assert_eq!(join(&mut own, "a", LINE_MAX + 7), LINE_MAX);
        assert_eq!(join(&mut own, "a", 1), 0);
        assert_eq!(join(&mut own, "b", LINE_MAX), LINE_MAX / 2);
        assert_eq!(join(&mut own, "c", LINE_MAX), LINE_MAX / 3);
        assert_eq!(asked(&mut own, 6), ["a-0", "b-0", "c-0", "a-1", "b-1", "c-1"]);
        assert_eq!(asked(&mut own, usize::MAX).len(), LINE_MAX + LINE_MAX / 2 + LINE_MAX / 3 - 6);
        assert!(own.is_empty());
    }

    #[test]
    fn one_of_each_namespace_is_always_in_line() {
        let mut own = Dismissals::default();
        for number in 0..2 * LINE_MAX {
            assert_eq!(
                join(&mut own, &format!("n{number}"), 2),
                1 + usize::from(number < LINE_MAX / 2)
            );
        }
    }

    #[test]
    fn so_many_are_asked_at_once_and_each_once() {
        let mut own = Dismissals::default();
        join(&mut own, "a", 100);
        assert!(own.extend([order("a", 0)]).is_none());
        let orders: Vec<DismissOrder> = std::iter::from_fn(|| own.next(|_| true)).collect();
        assert_eq!(orders.len(), UNDER_WAY_MAX);
        own.answered(&orders[0].pod.uid);
        assert!(
            own.next(|own| *own.pod.name == *"a-99").is_some(),
            "others need not go any longer"
        );
        assert_eq!(own.next(|_| true), None);
    }
}
