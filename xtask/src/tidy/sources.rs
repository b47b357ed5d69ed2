//! Rules about the files of the repository.

use crate::repository::SourceFile;

/// The longest source file, in lines: a reader holds no more in mind.
const LINES_MAX: usize = 800;

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 6] = ["util", "utils", "common", "helper", "helpers", "misc"];

/// Crates that take the time, randomness and settings as arguments.
const PURE_CRATES: [&str; 4] = ["crates/object", "crates/api", "crates/engine", "crates/drydock"];

/// The `clippy.toml` of a pure crate.
const PURE_CLIPPY: &str = include_str!("pure.clippy.toml");

/// What a pure crate that can reach an async runtime bans beside that. A crate that cannot must
/// not name them: clippy takes a path that leads nowhere for a mistake.
const RUNTIME_CRATES: [&str; 1] = ["crates/drydock"];

/// The clock of the runtime.
const RUNTIME_BANS: [&str; 6] = [
    "tokio::time::Instant::now",
    "tokio::time::interval",
    "tokio::time::sleep",
    "tokio::time::sleep_until",
    "tokio::time::timeout",
    "tokio::time::timeout_at",
];

// The words below are written in two parts so that this file does not contain them.

/// Marks of work that was left: it is done, or it is an issue.
const UNFINISHED: [&str; 4] =
    [concat!("TO", "DO"), concat!("FIX", "ME"), concat!("XX", "X"), concat!("HA", "CK")];

/// Hosts of package registries: which mirror is used is a matter of the machine. They are looked
/// for in lower case.
const OUT_OF_PLACE: [&str; 4] = [
    concat!("crates", ".io"),
    concat!("proxy.", "golang.org"),
    concat!("pypi", ".org"),
    concat!("registry.", "npmjs.org"),
];

/// Where drydock's state may be changed from: the store itself, and the one way in.
const COMMITTERS: [&str; 2] = ["crates/drydock/src/store", "crates/drydock/src/write"];

/// Where requests are carried out. They write through `Ask`, which sees to what follows from a
/// write.
const CARRIERS: [&str; 2] = ["crates/drydock/src/verbs/", "crates/drydock/src/subresources"];

/// How writes look that pass `Ask` by.
const UNASKED: [&str; 3] = ["write::create(", "write::update(", "write::remove("];

fn is_generated(path: &str) -> bool {
    path.split('/').any(|part| part == "generated")
}

fn extension(path: &str) -> &str {
    path.rsplit_once('.').map_or("", |(_, extension)| extension)
}

/// Source files and folders whose name says nothing.
pub fn forbidden_names(files: &[SourceFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| extension(&file.path) == "rs") {
        let stems = file.path.split('/').map(|part| part.strip_suffix(".rs").unwrap_or(part));
        for stem in stems.filter(|stem| EMPTY_NAMES.contains(stem)) {
            findings.push(format!("{}: `{stem}` says nothing: name it for its noun", file.path));
        }
    }
    findings
}

/// Source files that are too long.
pub fn long_files(files: &[SourceFile]) -> Vec<String> {
    let sources = files.iter().filter(|file| extension(&file.path) == "rs");
    let long = sources.filter(|file| !is_generated(&file.path)).filter_map(|file| {
        let lines = file.text.lines().count();
        (lines > LINES_MAX).then(|| {
            format!("{}: {lines} lines, more than {LINES_MAX}: split it into a folder", file.path)
        })
    });
    long.collect()
}

/// Comments that say something is not done.
pub fn unfinished_comments(files: &[SourceFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        let is_source = matches!(extension(&file.path), "rs" | "toml" | "go" | "sh" | "yaml");
        if !is_source || is_generated(&file.path) {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let mut words = line.split(|c: char| !c.is_ascii_alphanumeric());
            if let Some(word) = words.find(|word| UNFINISHED.contains(word)) {
                let place = format!("{}:{}", file.path, index + 1);
                findings.push(format!("{place}: {word}: do it now or open an issue"));
            }
        }
    }
    findings
}

/// Words that do not belong in the repository.
pub fn forbidden_words(files: &[SourceFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for file in files {
        // Cargo writes where packages come from.
        if file.path == "Cargo.lock" || is_generated(&file.path) {
            continue;
        }
        for (index, line) in file.text.lines().enumerate() {
            let line = line.to_lowercase();
            for word in OUT_OF_PLACE.iter().filter(|word| line.contains(**word)) {
                let place = format!("{}:{}", file.path, index + 1);
                findings.push(format!("{place}: {word:?} does not belong in this repository"));
            }
        }
    }
    findings
}

/// Places that change drydock's state without passing the one way in.
pub fn side_doors(files: &[SourceFile]) -> Vec<String> {
    let outside = files.iter().filter(|file| {
        file.path.starts_with("crates/drydock/src/")
            && !COMMITTERS.iter().any(|allowed| file.path.starts_with(allowed))
    });
    let commits = outside.filter(|file| file.text.contains(concat!(".com", "mit(")));
    let commits =
        commits.map(|file| format!("{}: writes go through write.rs, not around it", file.path));
    let carriers =
        files.iter().filter(|file| CARRIERS.iter().any(|folder| file.path.starts_with(folder)));
    let unasked = carriers.filter(|file| UNASKED.iter().any(|call| file.text.contains(call)));
    let unasked = unasked
        .map(|file| format!("{}: requests write through Ask, which tells definitions", file.path));
    commits.chain(unasked).collect()
}

/// Packages that do not take the lints of the workspace.
pub fn missing_lints(files: &[SourceFile]) -> Vec<String> {
    let manifests = files.iter().filter(|file| file.path.ends_with("/Cargo.toml"));
    let without = manifests.filter(|file| {
        let mut lines = file.text.lines().map(str::trim).skip_while(|line| *line != "[lints]");
        lines.next();
        let lines = lines.take_while(|line| !line.starts_with('['));
        !lines.into_iter().any(|line| line == "workspace = true")
    });
    without.map(|file| format!("{}: add `[lints]` with `workspace = true`", file.path)).collect()
}

/// Pure crates whose `clippy.toml` lets something impure pass.
pub fn impure_crates(files: &[SourceFile]) -> Vec<String> {
    let mut findings = Vec::new();
    for pure in PURE_CRATES {
        let path = format!("{pure}/clippy.toml");
        let Some(file) = files.iter().find(|file| file.path == path) else {
            findings.push(format!("{path} is missing: a pure crate bans clocks and hash order"));
            continue;
        };
        let banned = |ban: &str| file.text.contains(&format!("path = \"{ban}\""));
        let bans = RUNTIME_BANS.iter().filter(|_| RUNTIME_CRATES.contains(&pure));
        findings.extend(bans.filter(|ban| !banned(ban)).map(|ban| format!("{path}: ban {ban}")));
        let is_own = |line: &&str| RUNTIME_BANS.iter().any(|ban| line.contains(ban));
        let shared = file.text.lines().filter(|line| !is_own(line));
        if !shared.eq(PURE_CLIPPY.lines()) {
            let template = "xtask/src/tidy/pure.clippy.toml";
            findings.push(format!("{path}: must be {template}, apart from bans of the runtime"));
        }
    }
    findings
}

/// The licence of this repository, where it is missing or another.
pub fn missing_licence(files: &[SourceFile]) -> Vec<String> {
    let licence = files.iter().find(|file| file.path == "LICENSE");
    let is_there = licence
        .is_some_and(|file| file.text.contains("Apache License") && file.text.contains("2.0"));
    if is_there { Vec::new() } else { vec!["LICENSE: put the Apache License 2.0 there".to_owned()] }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(rule: fn(&[SourceFile]) -> Vec<String>, path: &str, text: &str, expected: usize) {
        let file = SourceFile { path: path.to_owned(), text: text.to_owned() };
        let findings = rule(&[file]);
        assert_eq!(findings.len(), expected, "{path}: {findings:?}");
    }

    #[test]
    fn a_name_says_what_is_inside() {
        check(forbidden_names, "crates/a/src/quantity.rs", "", 0);
        check(forbidden_names, "crates/a/src/utils.rs", "", 1);
        check(forbidden_names, "crates/a/src/common/mod.rs", "", 1);
        check(forbidden_names, "crates/a/src/helpers/misc.rs", "", 2);
        check(forbidden_names, "docs/common/page.md", "", 0);
        check(forbidden_names, "crates/a/src/utility.rs", "", 0);
    }

    #[test]
    fn a_source_file_has_at_most_800_lines() {
        check(long_files, "a.rs", &"\n".repeat(800), 0);
        check(long_files, "a.rs", &"\n".repeat(801), 1);
        check(long_files, "src/generated/a.rs", &"\n".repeat(801), 0);
        check(long_files, "a.md", &"\n".repeat(801), 0);
    }

    #[test]
    fn nothing_is_left_for_later() {
        check(unfinished_comments, "a.rs", &format!("// {}: later\n", UNFINISHED[0]), 1);
        check(unfinished_comments, "a.rs", &format!("a\nb\n// {}\n", UNFINISHED[1]), 1);
        check(unfinished_comments, "a.rs", "// todo as a word of clippy\n", 0);
        check(unfinished_comments, "a.md", UNFINISHED[0], 0);
        check(unfinished_comments, "a.rs", &format!("{}_VALUE", UNFINISHED[3]), 1);
        check(unfinished_comments, "a.rs", &format!("{}ATHON", UNFINISHED[3]), 0);
    }

    #[test]
    fn words_out_of_place_are_found() {
        for word in OUT_OF_PLACE {
            check(
                forbidden_words,
                "README.md",
                &format!("fine\nsee {}!\n", word.to_uppercase()),
                1,
            );
        }
        check(forbidden_words, "README.md", "shared work", 0);
        check(forbidden_words, "Cargo.lock", OUT_OF_PLACE[0], 0);
    }

    #[test]
    fn state_changes_through_one_door() {
        let text = concat!("store.com", "mit(table)");
        check(side_doors, "crates/drydock/src/verbs/get.rs", text, 1);
        check(side_doors, "crates/drydock/src/write/create.rs", text, 0);
        check(side_doors, "crates/drydock/src/store/tests.rs", text, 0);
        check(side_doors, "crates/chassis/src/lib.rs", text, 0);
        check(side_doors, "crates/drydock/src/verbs/patch.rs", "write::update(server, x)", 1);
        check(side_doors, "crates/drydock/src/subresources/scale.rs", "write::remove(x)", 1);
        check(side_doors, "crates/drydock/src/verbs.rs", "write::update(server, x)", 0);
        check(side_doors, "crates/drydock/src/verbs/patch.rs", "ask.update(&attempt)", 0);
    }

    #[test]
    fn every_package_takes_the_lints_of_the_workspace() {
        check(missing_lints, "crates/a/Cargo.toml", "[lints]\nworkspace = true\n", 0);
        check(missing_lints, "crates/a/Cargo.toml", "[package]\nname = \"a\"\n", 1);
        check(missing_lints, "crates/a/Cargo.toml", "[lints]\n[x]\nworkspace = true\n", 1);
        check(missing_lints, "Cargo.toml", "[workspace]\n", 0);
    }

    #[test]
    fn a_pure_crate_bans_clocks_and_hash_order() {
        let bans = RUNTIME_BANS.map(|ban| format!("    {{ path = \"{ban}\" }},\n")).concat();
        let head = "disallowed-methods = [\n";
        let of_runtime = PURE_CLIPPY.replace(head, &format!("{head}{bans}"));
        let check = |first: &str, last: &str, expected: usize| {
            let text = |pure: &str| match pure {
                pure if pure == PURE_CRATES[0] => first.to_owned(),
                pure if RUNTIME_CRATES.contains(&pure) => last.to_owned(),
                _ => PURE_CLIPPY.to_owned(),
            };
            let files = PURE_CRATES
                .map(|pure| SourceFile { path: format!("{pure}/clippy.toml"), text: text(pure) });
            let findings = impure_crates(&files);
            assert_eq!(findings.len(), expected, "{findings:?}");
        };
        check(PURE_CLIPPY, &of_runtime, 0);
        check(&PURE_CLIPPY.replace("std::env::vars", "x"), &of_runtime, 1);
        check(&format!("{PURE_CLIPPY}extra = true\n"), &of_runtime, 1);
        check(PURE_CLIPPY, PURE_CLIPPY, RUNTIME_BANS.len());
        check(PURE_CLIPPY, &of_runtime.replace("tokio::time::interval", "x"), 2);
        assert_eq!(impure_crates(&[]).len(), PURE_CRATES.len());
    }

    #[test]
    fn the_licence_is_there() {
        check(missing_licence, "LICENSE", "Apache License\nVersion 2.0", 0);
        check(missing_licence, "LICENSE", "", 1);
        check(missing_licence, "README.md", "", 1);
    }
}
