//! Scenarios of whole clusters: controllers, hollow nodes and real programs.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod controllers;
mod kubectl;
mod programs;
