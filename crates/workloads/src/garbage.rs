//! Garbage collection: objects whose owners are gone go too.
//!
//! [`graph`] knows every object of the server by its uid, with its owners and what waits
//! for its deletion, and says for each what is to be done. The shell feeds it from the
//! shared informers and from watches of nothing but metadata for all other resources that
//! discovery shows, and carries out what it says.
//!
//! An owner counts as gone only when the server says so, for exactly this uid: a watch that
//! lags never costs an object its life.

pub mod graph;
mod shell;
#[cfg(test)]
mod tests;
mod watches;

pub use shell::start;
