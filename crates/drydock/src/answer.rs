//! What goes back to a client: objects in the form it asked for, and `Status`.

pub mod body;
pub mod discovery;
pub mod failure;
mod listing;
pub mod negotiate;
pub mod openapi;
pub mod represent;

pub use body::{Answer, Body};
pub use failure::Failure;
