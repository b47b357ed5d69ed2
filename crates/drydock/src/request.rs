//! What a request asks for: the path, the options of its query, and who asks.

pub mod authenticate;
pub mod options;
pub mod path;
pub mod verb;

pub use authenticate::Identity;
pub use options::{FieldValidation, ListOptions, OptionsKind, Query, WriteOptions};
pub use path::{Route, Target};
pub use verb::Verb;
