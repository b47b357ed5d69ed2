//! Scenarios of whole clusters: controllers, hollow nodes and real programs.

mod kubectl;
mod programs;
