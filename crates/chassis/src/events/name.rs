//! What events are called: as their object, with the time to the nanosecond.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

use super::Subject;
use crate::random::seed_for;

/// The names of a component's events are off by less than this from the time.
const SALT_NANOS_MAX: u64 = 1_000_000;
/// The longest name of an object.
const NAME_MAX: usize = 253;

/// Gives each event of a component a number that no other one has.
#[derive(Debug, Default)]
pub struct Names {
    last: AtomicU64,
    salt: u64,
}

impl Names {
    /// Components that tell of one object at the same moment, as they do where the clock
    /// moves in steps, give their events different names by their salt.
    pub fn new(component: &str) -> Self {
        let salt = seed_for(0, &["event names", component]) % SALT_NANOS_MAX;
        Self { last: AtomicU64::new(0), salt }
    }

    /// The number of an event that is told at this time.
    pub fn draw(&self, at: Timestamp) -> u64 {
        let now = u64::try_from(at.as_nanosecond()).unwrap_or(0);
        let next = |last: u64| Some(now.max(last.saturating_add(1)));
        let before = self.last.fetch_update(Ordering::Relaxed, Ordering::Relaxed, next);
        let last = before.unwrap_or_else(|last| last);
        now.max(last.saturating_add(1)).saturating_add(self.salt)
    }
}

/// The name of an event. Where the object has a name that no event may have, its kind stands
/// for it.
pub fn of(subject: &Subject, stamp: u64) -> String {
    let name = subject.key.name();
    let suffix = format!(".{stamp:x}");
    if !object::names::dns1123_subdomain(name).is_empty() {
        return subject.kind.to_ascii_lowercase() + &suffix;
    }
    // What a cut leaves at the end must be one that a name may have before a dot.
    let cut = name[..name.len().min(NAME_MAX - suffix.len())].trim_end_matches(['.', '-']);
    let mut whole = String::with_capacity(cut.len() + suffix.len());
    whole.push_str(cut);
    whole.push_str(&suffix);
    whole
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::key::Key;

    #[test]
    fn a_name_is_the_objects_and_the_time() {
        let check = |name: &str, want: &str| {
            let subject = Subject::named::<api::Pod>(Key::namespaced("shop", name), "u".into());
            assert_eq!(of(&subject, 0x18a2_f3d1_c0de_beef), want);
        };
        check("web-0", "web-0.18a2f3d1c0debeef");
        check("system:web", "pod.18a2f3d1c0debeef");
        check("web..0", "pod.18a2f3d1c0debeef");
        check("wéb", "pod.18a2f3d1c0debeef");
        let long = format!("{}.b", "a".repeat(235));
        check(&long, &format!("{}.18a2f3d1c0debeef", &long[..235]));
    }

    #[test]
    fn components_that_tell_at_the_same_moment_choose_different_names() {
        let components = ["node-controller", "kubelet", "taint-eviction-controller", "scheduler"];
        let at = Timestamp::from_second(1_700_000_000).unwrap();
        let stamps: BTreeSet<u64> =
            components.into_iter().map(|component| Names::new(component).draw(at)).collect();
        assert_eq!(stamps.len(), components.len(), "{stamps:?}");
    }

    proptest! {
        /// Names are unique and valid whatever the object is called and whenever it is told.
        #[test]
        fn no_two_events_share_a_name(
            notes in prop::collection::vec(("[a-z]([a-z0-9.:-]{0,300}[a-z0-9])?", 0..3i64), 1..40),
        ) {
            let (drawn, mut names) = (Names::new("test"), BTreeSet::new());
            for (name, seconds) in &notes {
                let subject = Subject::named::<api::Pod>(Key::namespaced("shop", name), "u".into());
                let name = of(&subject, drawn.draw(Timestamp::from_second(*seconds).unwrap()));
                prop_assert_eq!(object::names::dns1123_subdomain(&name), Vec::<String>::new());
                prop_assert!(names.insert(name.clone()), "{} twice", name);
            }
        }
    }
}
