//! Shares of a cluster that lend each other what is idle: how much each may use now, and who may take
//! more.
//!
//! Quotas form a tree. Each is guaranteed something (`min`), never goes beyond something (`max`), and in
//! between gets what others leave, by weight. This folder is apart because it knows no pod, no node and no
//! ledger: quotas, sums of requests and a capacity go in, amounts and refusals come out, so that whoever
//! admits pods or whole jobs asks the same tree. It refuses to guess: a quota whose place in the tree is
//! unknown admits nothing and holds nothing until it has one.
//!
//! ```
//! use engine::needs::Amounts;
//! use engine::quota::{Preemptible, QuotaFact, QuotaTree};
//!
//! let cpu = |millis: i64| [("cpu".into(), millis)].into();
//! let mut tree = QuotaTree::default();
//! tree.set_capacity(cpu(10_000));
//! for name in ["a", "b"] {
//!     tree.put(QuotaFact { min: cpu(5_000), ..QuotaFact::new(name, cpu(10_000)) });
//! }
//! let eight = Amounts { cpu_millis: 8_000, ..Amounts::default() };
//! tree.add_request("a", &eight, 1, Preemptible::Yes);
//! // Nobody asks for what b is guaranteed, so a may borrow of it.
//! assert!(tree.admit("a", &eight, Preemptible::Yes).is_ok());
//! tree.add_request("b", &eight, 1, Preemptible::Yes);
//! let refusal = tree.admit("a", &eight, Preemptible::Yes).unwrap_err();
//! assert_eq!(
//!     refusal.to_string(),
//!     "Insufficient quotas, quotaName: a, runtime: cpu 5, used: cpu 0, pod's request: cpu 8, \
//!      exceedDimensions: [cpu]"
//! );
//! ```

mod account;
mod belongs;
mod column;
mod divide;
mod fact;
mod forest;
mod placement;
mod refusal;
mod register;
mod revoke;
pub mod rules;
mod scale;
mod tree;
mod view;

#[cfg(test)]
mod tests;

use std::collections::BTreeMap;

use api::pod::ResourceList;
use object::quantity::{Format, Quantity};

pub use account::Account;
pub(crate) use account::Entry;
pub use belongs::{DefaultQuota, belongs};
pub(crate) use column::Charge;
pub use divide::{Member, divide};
pub use fact::{QuotaFact, amounts};
pub use forest::{Forest, QuotaRef, Settings, Shared, Trees};
pub use placement::{Misplaced, RESOURCES_MAX};
pub use refusal::{Bound, Excess, QuotaRefusal, RefusalReason};
pub use register::Register;
pub use revoke::{Holder, Tenure, revoke};
pub use scale::scale;
pub use tree::{Freed, Limit, OTHER_RESOURCES_MAX, Options, QuotaTree};
pub use view::{Claim, Part, Standing, View, Wants};

/// Amounts by resource, in thousandths of a CPU or in units. Unlike in
/// [`Amounts`](crate::needs::Amounts), nothing of a resource is something else than no word of it: a quota
/// counts only resources that its `max` names.
pub type ByResource = BTreeMap<Box<str>, i64>;

/// Whether who is charged to a quota may have to make room for others of it.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Preemptible {
    /// He may.
    Yes,
    /// Never: he is charged to what the quota is guaranteed.
    No,
}

/// An amount as people write it.
#[must_use]
pub fn quantity(resource: &str, amount: i64) -> Quantity {
    match resource {
        "cpu" => Quantity::from_millis(amount, Format::DecimalSi),
        "memory" | "ephemeral-storage" => Quantity::from_units(amount, Format::BinarySi),
        _ => Quantity::from_units(amount, Format::DecimalSi),
    }
}

/// Amounts as objects carry them, also those of which there is nothing.
#[must_use]
pub fn quantities(amounts: &ByResource) -> ResourceList {
    amounts.iter().map(|(name, own)| (name.to_string(), quantity(name, *own))).collect()
}

/// A sum as an amount: beyond what a number holds it is the most that one holds.
fn amount(sum: i128) -> i64 {
    i64::try_from(sum).unwrap_or(if sum > 0 { i64::MAX } else { i64::MIN })
}
