//! Scenarios of the API server alone: no controller runs, and whole answers are compared.

mod all_kinds;
mod quantity;
mod samples;
mod binding;
mod eviction;
mod namespaces;
mod nodes;
mod pod_templates;
mod pods;
mod resize;
mod scopes;
mod verbs;
