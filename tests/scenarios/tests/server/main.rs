//! Scenarios of the API server alone: no controller runs, and whole answers are compared.

mod all_kinds;
mod quantity;
mod samples;
mod scopes;
mod verbs;
