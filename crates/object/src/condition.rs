//! Conditions with correct transition times.
