//! Label and field selectors.
//!
//! Both read the texts of `kubectl -l` and `--field-selector` and refuse what
//! kube-apiserver refuses, with its words. They match against a lookup that the
//! caller gives, so that they know neither objects nor where labels live.

pub mod field;
pub mod label;
