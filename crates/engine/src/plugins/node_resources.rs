//! NodeResourcesFit and NodeResourcesBalancedAllocation: amounts of resources.

mod balanced;
mod fit;
mod strategy;

pub use balanced::BalancedAllocation;
pub use fit::Fit;
pub(super) use strategy::{Counted, are_most, parts};
pub use strategy::{Strategy, Weighted};
