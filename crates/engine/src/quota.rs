//! Shares of a cluster that lend each other what is idle: how much each may use now.
//!
//! This folder is apart because it knows no pod, no node and no ledger: amounts go in, amounts come out.

mod divide;
mod scale;

pub use divide::{Member, divide};
pub use scale::scale;
