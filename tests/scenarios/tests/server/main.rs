//! Scenarios of the API server alone: no controller runs, and whole answers are compared.

mod all_kinds;
mod apps;
mod batch;
mod config;
mod events;
mod policy;
mod scopes;
mod services;
mod storage;
mod trials;
