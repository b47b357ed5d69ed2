//! `gantry crds` prints what the scenario `our_definitions_are_applied_and_listed` applies.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::process::Command;

#[test]
fn the_definitions_of_all_kinds_are_printed() {
    let output = Command::new(env!("CARGO_BIN_EXE_gantry")).arg("crds").output().unwrap();
    assert!(output.status.success());
    assert_eq!(String::from_utf8(output.stdout).unwrap(), api::crds::to_yaml_stream());
}
