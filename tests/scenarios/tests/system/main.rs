//! Stories of whole clusters: controllers, hollow nodes and real programs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adoption;
mod budgets;
mod cpus;
mod deployments;
mod events;
mod explanations;
mod extenders;
mod first_quotas;
mod gangs;
mod guard;
mod jobs;
mod killed;
mod koordinator;
mod kubectl;
mod leaders;
mod loads;
mod manifests;
mod metrics;
mod namespaces;
mod nodes;
mod placing;
mod pod_groups;
mod programs;
mod python;
mod quotas;
mod recorder;
mod replica_sets;
mod reservations;
mod scheduling;
mod shows;
mod standby;
mod story;
mod top;
mod transcript;
mod troubles;
mod views;
mod way;
mod why;
mod yard;
