//! The `gantry` program.
fn main() {}
