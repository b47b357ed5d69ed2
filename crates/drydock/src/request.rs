//! What a request asks for: the path, the options of its query, and who asks.

pub mod authenticate;
pub(crate) mod options;
pub(crate) mod path;
pub(crate) mod verb;

pub use authenticate::Identity;
pub(crate) use options::{FieldValidation, ListOptions, OptionsKind, Query, WriteOptions};
pub(crate) use path::{Route, Target};
pub(crate) use verb::Verb;
