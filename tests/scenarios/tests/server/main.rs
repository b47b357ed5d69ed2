//! Scenarios of the API server alone: no controller runs, and whole answers are compared.

mod definitions;
mod discovery;
mod scopes;
mod verbs;
