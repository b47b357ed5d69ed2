//! NodeResourcesFit, NodeResourcesFitPlus and NodeResourcesBalancedAllocation: amounts of resources.

mod balanced;
mod fit;
mod fit_plus;
mod ignored;
mod strategy;

pub use balanced::BalancedAllocation;
pub use fit::Fit;
pub use fit_plus::FitPlus;
pub use ignored::IgnoredResources;
pub(super) use strategy::{Counted, are_most, parts};
pub use strategy::{Strategy, Weighted};
