//! Quotas as they are made and as the server shows them, and how much pods may use of them: the rules of
//! Koordinator as far as anything here asks for them, written down apart from the engine.

use std::collections::BTreeMap;
use std::ops::{Add, AddAssign, Sub};

use api::elastic_quota::{IS_PARENT_LABEL, PARENT_LABEL};
use serde_json::{Value, json};

use crate::draw::Draw;
use crate::held::{bytes, millis};
use crate::rules::Place;
use crate::shapes::{MEGA, Shape};

/// The quota above two others.
pub const ORG: &str = "org";
/// Quotas that pods name.
pub const LEAVES: [&str; 3] = ["team-a", "team-b", "lone"];

/// So much of everything that quotas count here.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Amount {
    pub cpu_millis: i64,
    pub memory_bytes: i64,
}

impl Amount {
    pub fn of(shape: &Shape) -> Self {
        Self { cpu_millis: shape.cpu_millis, memory_bytes: shape.memory_mega * MEGA }
    }

    /// What all nodes have.
    pub fn of_all<'a>(places: impl Iterator<Item = &'a Place>) -> Self {
        places.fold(Self::default(), |sum, place| {
            sum + Self { cpu_millis: place.cpu_millis, memory_bytes: place.memory_bytes }
        })
    }

    fn read(list: &Value) -> Self {
        Self { cpu_millis: millis(&list["cpu"]), memory_bytes: bytes(&list["memory"]) }
    }

    fn written(self) -> Value {
        json!({ "cpu": format!("{}m", self.cpu_millis),
                "memory": format!("{}Mi", self.memory_bytes / MEGA) })
    }

    pub fn is_within(self, other: Self) -> bool {
        self.cpu_millis <= other.cpu_millis && self.memory_bytes <= other.memory_bytes
    }

    /// So much of each.
    pub fn of_each(amount: i64) -> Self {
        Self { cpu_millis: amount, memory_bytes: amount }
    }

    fn at_least(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.max(other.cpu_millis),
            memory_bytes: self.memory_bytes.max(other.memory_bytes),
        }
    }

    pub fn at_most(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis.min(other.cpu_millis),
            memory_bytes: self.memory_bytes.min(other.memory_bytes),
        }
    }

    fn half(self) -> Self {
        // Whole numbers of what it is written in.
        let memory_bytes = self.memory_bytes / MEGA / 2 * MEGA;
        Self { cpu_millis: self.cpu_millis / 2, memory_bytes }
    }
}

impl Add for Amount {
    type Output = Self;

    fn add(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis + other.cpu_millis,
            memory_bytes: self.memory_bytes + other.memory_bytes,
        }
    }
}

impl Sub for Amount {
    type Output = Self;

    fn sub(self, other: Self) -> Self {
        Self {
            cpu_millis: self.cpu_millis - other.cpu_millis,
            memory_bytes: self.memory_bytes - other.memory_bytes,
        }
    }
}

impl AddAssign for Amount {
    fn add_assign(&mut self, other: Self) {
        *self = *self + other;
    }
}

/// A quota.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Share {
    pub name: String,
    /// The one above, where that is not the root.
    pub parent: Option<String>,
    pub min: Amount,
    pub max: Amount,
}

impl Share {
    fn drawn(draw: &mut Draw, name: &str, parent: Option<&str>) -> Self {
        let max = ceiling(draw);
        // Those who are guaranteed nothing borrow all that they use.
        let min = if draw.chance(600) { max.half() } else { Amount::default() };
        Self { name: name.to_owned(), parent: parent.map(str::to_owned), min, max }
    }

    /// Two below one, and one beside it. What is guaranteed below adds up to no more than above.
    pub fn all_drawn(draw: &mut Draw) -> Vec<Self> {
        let mut below = [LEAVES[0], LEAVES[1]].map(|name| Self::drawn(draw, name, Some(ORG)));
        // One of them alone may use all that there is for both.
        let borrower = &mut below[draw.below(2)];
        borrower.max = borrower.max.at_least(ceiling(draw));
        let lone = Self::drawn(draw, LEAVES[2], None);
        let min = below[0].min + below[1].min;
        let max = ceiling(draw).at_least(min);
        let org = Self { name: ORG.to_owned(), parent: None, min, max };
        [org].into_iter().chain(below).chain([lone]).collect()
    }

    /// The same with another ceiling.
    pub fn resized(&self, draw: &mut Draw) -> Self {
        Self { max: ceiling(draw).at_least(self.min), ..self.clone() }
    }

    pub fn object(&self) -> Value {
        let mut labels = json!({ IS_PARENT_LABEL: (self.name == ORG).to_string() });
        if let Some(parent) = &self.parent {
            labels[PARENT_LABEL] = json!(parent);
        }
        json!({ "apiVersion": "scheduling.sigs.k8s.io/v1alpha1", "kind": "ElasticQuota",
                "metadata": { "name": self.name, "labels": labels }, "spec": self.spec() })
    }

    pub fn spec(&self) -> Value {
        json!({ "min": self.min.written(), "max": self.max.written() })
    }

    pub fn read(object: &Value) -> Self {
        let (metadata, spec) = (&object["metadata"], &object["spec"]);
        Self {
            name: metadata["name"].as_str().unwrap_or_default().to_owned(),
            parent: metadata["labels"][PARENT_LABEL].as_str().map(str::to_owned),
            min: Amount::read(&spec["min"]),
            max: Amount::read(&spec["max"]),
        }
    }
}

fn ceiling(draw: &mut Draw) -> Amount {
    Amount {
        cpu_millis: [500, 1000, 2000, 4000][draw.below(4)],
        memory_bytes: [256, 1024, 4096][draw.below(3)] * MEGA,
    }
}

/// Whether a quota is one of those that are made here; some are of every cluster.
pub fn is_ours(name: &str) -> bool {
    name == ORG || LEAVES.contains(&name)
}

/// All quotas, by name.
pub type Shares = BTreeMap<String, Share>;

/// A quota and those above it; nobody where there is no such quota, for then nothing limits who names it.
pub fn chain<'a>(shares: &'a Shares, name: &str) -> Vec<&'a Share> {
    let above = |share: &&'a Share| share.parent.as_ref().and_then(|name| shares.get(name));
    std::iter::successors(shares.get(name), above).take(shares.len()).collect()
}

/// What pods use of each quota, and of none: under an empty name.
pub fn used<'a>(
    shares: &Shares,
    pods: impl Iterator<Item = &'a Shape>,
) -> BTreeMap<String, Amount> {
    let mut used: BTreeMap<String, Amount> = BTreeMap::new();
    for shape in pods {
        let chain = chain(shares, shape.quota.unwrap_or_default());
        if chain.is_empty() {
            *used.entry(String::new()).or_default() += Amount::of(shape);
        }
        for share in chain {
            *used.entry(share.name.clone()).or_default() += Amount::of(shape);
        }
    }
    used
}

/// The quota that one more pod goes beyond the ceiling of, given what is used.
pub fn overdraws(
    shares: &Shares,
    used: &BTreeMap<String, Amount>,
    shape: &Shape,
) -> Option<String> {
    let of = |share: &Share| used.get(&share.name).copied().unwrap_or_default();
    let chain = chain(shares, shape.quota?);
    let share = chain.iter().find(|share| !(of(share) + Amount::of(shape)).is_within(share.max))?;
    Some(format!("{:?} of {share:?}, and {:?} more", of(share), Amount::of(shape)))
}
