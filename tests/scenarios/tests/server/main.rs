//! Scenarios of the API server alone: no controller runs, and whole answers are compared.

mod quantity;
mod samples;
mod all_kinds;
mod scopes;
mod verbs;
