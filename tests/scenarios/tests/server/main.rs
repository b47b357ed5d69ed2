//! Scenarios of the API server alone: no controller runs, and whole answers are compared.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

mod all_kinds;
mod apart;
mod apps;
mod bad_input;
mod batch;
mod binding;
mod config;
mod definition_changes;
mod definitions;
mod discovery;
mod events;
mod eviction;
mod first_objects;
mod limit_ranges;
mod namespaces;
mod nodes;
mod openapi;
mod pod_templates;
mod pods;
mod policy;
mod quantity;
mod resize;
mod reviews;
mod samples;
mod scopes;
mod services;
mod storage;
mod trials;
mod verbs;
mod watching;
