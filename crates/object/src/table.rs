//! Table rows.
