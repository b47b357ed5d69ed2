use clap::CommandFactory;

use super::{Gantry, command_line};

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

/// What stands under a heading of a page, up to the next one of the second level.
fn section<'a>(page: &'a str, heading: &str) -> &'a str {
    let (_, rest) = page.split_once(heading).expect("the page has the heading");
    rest.split_once("\n## ").map_or(rest, |(section, _)| section)
}

#[test]
fn the_page_of_up_has_a_row_for_each_flag_and_names_each_controller() {
    let page = include_str!("../../../docs/UP.md");
    let command = Gantry::command();
    for (name, heading) in
        [("up", "# `gantry up`\n"), ("hollow-nodes", "\n## Hollow nodes on any cluster\n")]
    {
        let own = command.find_subcommand(name).expect("there is such a command");
        let all = own.get_arguments().chain(command.get_arguments());
        let mut flags: Vec<&str> = all.filter_map(clap::Arg::get_long).collect();
        let rows = section(page, heading).lines().filter_map(|line| line.strip_prefix("| `--"));
        let mut rows: Vec<&str> = rows.filter_map(|row| row.split(' ').next()).collect();
        flags.sort_unstable();
        rows.sort_unstable();
        assert_eq!(rows, flags, "docs/UP.md on `gantry {name}`");
    }
    let row = page.lines().find(|line| line.starts_with("| `--controllers"));
    let row = row.expect("there is a row of controllers");
    for name in workloads::known_names().split(", ") {
        assert!(row.contains(&format!("`{name}`")), "docs/UP.md says nothing of {name}");
    }
}

#[test]
fn the_page_of_the_scheduler_names_every_flag() {
    let page = include_str!("../../../docs/SCHEDULER.md");
    let command = Gantry::command();
    let scheduler = command.find_subcommand("scheduler").expect("there is such a command");
    for argument in scheduler.get_arguments().chain(command.get_arguments()) {
        let Some(flag) = argument.get_long() else { continue };
        assert!(page.contains(&format!("`--{flag}")), "docs/SCHEDULER.md says nothing of --{flag}");
    }
}

#[test]
fn the_help_of_nodes_names_every_piece_of_a_type() {
    let command = Gantry::command();
    let up = command.find_subcommand("up").expect("there is such a command");
    let nodes = up.get_arguments().find(|argument| argument.get_long() == Some("nodes"));
    let help = nodes.and_then(clap::Arg::get_long_help).expect("it has a help").to_string();
    let (defaults, further) = help
        .split_once("default: ")
        .and_then(|(_, pieces)| pieces.split_once(". There may also be: "))
        .expect("it lists the pieces");
    let pieces = defaults.split(", ").chain(further.split(", "));
    for piece in pieces.filter(|piece| !piece.contains(['K', '('])) {
        assert!(piece.parse::<hollow::NodeGroup>().is_ok(), "{piece} is not read");
    }
    let table = include_str!("../../hollow/src/group.md");
    for row in table.lines().skip(2) {
        let piece = row.split('`').nth(1).expect("a piece stands first");
        let key = piece.find(['=', ':']).map_or(piece, |end| &piece[..=end]);
        let amount = ["cpu", "Gi", "pods", "/"].into_iter().find(|unit| piece.contains(unit));
        assert!(help.contains(amount.filter(|_| key == piece).unwrap_or(key)), "{piece}: {help}");
    }
}

#[test]
fn kubectl_finds_the_same_commands_under_its_own_name() {
    let check = |program: &str, name: &str| {
        let (own, mut command) = command_line(Some(program.into()));
        assert_eq!(own, name, "{program}");
        command.build();
        let why = command.find_subcommand_mut("why").expect("there is such a command");
        let help = why.render_help().to_string();
        assert!(help.contains(&format!("Usage: {name} why ")), "{help}");
        assert!(help.contains(&format!("\n  {name} why pod web-0\n")), "{help}");
    };
    check("/usr/local/bin/kubectl-gantry", "kubectl gantry");
    check("kubectl-gantry.exe", "kubectl gantry");
    check("./gantry", "gantry");
}

#[test]
fn the_pages_of_why_top_and_quota_have_a_row_for_each_flag() {
    let pages = [
        ("why", "docs/WHY.md", include_str!("../../../docs/WHY.md")),
        ("top", "docs/TOP.md", include_str!("../../../docs/TOP.md")),
        ("quota", "docs/QUOTA.md", include_str!("../../../docs/QUOTA.md")),
    ];
    let command = Gantry::command();
    for (name, file, page) in pages {
        let own = command.find_subcommand(name).expect("there is such a command");
        for flag in own.get_arguments().filter_map(clap::Arg::get_long) {
            let names = [format!("`--{flag} "), format!("`--{flag}`")];
            let is_row = |line: &str| {
                line.starts_with("| `--") && names.iter().any(|name| line.contains(name))
            };
            assert!(page.lines().any(is_row), "{file} says nothing of --{flag}");
        }
    }
}

#[test]
fn what_koordinators_chart_passes_to_its_scheduler_is_taken_unchanged() {
    let chart = [
        "--port=10251",
        "--authentication-skip-lookup=true",
        "--v=4",
        "--feature-gates=",
        "--config=/config/koord-scheduler.config",
        "--enable-network-topology-manager=true",
    ];
    let more = [
        "--feature-gates=SyncBarrier=true",
        "--feature-gates=ResizePod=true,CSIStorageCapacity=true",
        "--controller-plugins=*,-Reservation",
        "--controller-plugins=-Reservation,*",
        "--scheduling-timeout=30s",
        "--scheduler-monitor-period=10s",
        "--scheduling-drop-unhandled-timeout=5s",
        "--sync-barrier-pod-namespace=kube-system",
        "--sync-barrier-pod-name=",
        "--sync-hard-timeout=1m",
        "--address=0.0.0.0",
    ];
    for arguments in [chart.to_vec(), more.iter().take(2).copied().collect(), more[2..3].to_vec()] {
        let line = ["gantry", "scheduler"].into_iter().chain(arguments);
        Gantry::command().try_get_matches_from(line).unwrap();
    }
    let line = ["gantry", "scheduler"].into_iter().chain(more[3..].iter().copied());
    Gantry::command().try_get_matches_from(line).unwrap();
}
