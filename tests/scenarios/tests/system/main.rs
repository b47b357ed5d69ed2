//! Stories of whole clusters: controllers, hollow nodes and real programs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adoption;
mod budgets;
mod deployments;
mod events;
mod extenders;
mod guard;
mod jobs;
mod kubectl;
mod manifests;
mod namespaces;
mod nodes;
mod programs;
mod python;
mod recorder;
mod replica_sets;
mod scheduling;
mod shows;
mod story;
mod transcript;
mod why;
