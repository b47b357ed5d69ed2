//! NodeResourcesFit, NodeResourcesFitPlus and NodeResourcesBalancedAllocation: amounts of resources.

mod balanced;
mod fit;
mod fit_plus;
mod strategy;

pub use balanced::BalancedAllocation;
pub use fit::Fit;
pub use fit_plus::FitPlus;
pub(super) use strategy::{Counted, are_most, parts};
pub use strategy::{Strategy, Weighted};
