use clap::CommandFactory;

use super::Gantry;

#[test]
fn the_command_line_is_consistent() {
    Gantry::command().debug_assert();
}

#[test]
fn every_command_has_a_description_and_an_example() {
    for command in Gantry::command().get_subcommands() {
        let name = command.get_name();
        assert!(command.get_about().is_some(), "{name} says nothing about itself");
        let after = command.get_after_help().map(ToString::to_string).unwrap_or_default();
        assert!(after.contains(&format!("gantry {name}")), "{name} has no example");
        for argument in command.get_arguments() {
            assert!(argument.get_help().is_some(), "{name} does not explain {argument}");
        }
    }
}
