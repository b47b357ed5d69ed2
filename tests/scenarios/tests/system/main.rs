//! Scenarios of whole clusters: controllers, hollow nodes and real programs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod adoption;
mod controllers;
mod jobs;
mod kubectl;
mod programs;
mod python;
mod shows;
mod transcript;
mod workloads;
