//! `docs/COVERAGE.md`: which acceptance scenario of `docs/spec` is proved by which test.
//!
//! A scenario is an item of the chapter "Acceptance scenarios" of a specification. Its id is
//! `s`, the number of the file, `_`, and the item's own mark in lower case: `s12_g5`. A test
//! that proves it carries the id at the start of its name, or several in a row:
//! `s12_g5_s12_g6_…`.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};

use crate::repository::{self, SourceFile};

const PAGE: &str = "docs/COVERAGE.md";

/// The chapter of a specification whose items are scenarios.
const CHAPTER: &str = "Acceptance scenarios";

/// Write docs/COVERAGE.md: each acceptance scenario and the tests that prove it
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask coverage            write the page
  cargo xtask coverage --check    fail where the page is not current")]
pub struct Arguments {
    /// Write nothing; fail where the page is not current
    #[arg(long)]
    check: bool,
}

/// Runs the chore.
pub fn run(arguments: &Arguments) -> Result<()> {
    let page = page(&repository::files()?)?;
    if arguments.check {
        return is_current(&page);
    }
    repository::write(PAGE, &page)?;
    println!("wrote {PAGE}");
    Ok(())
}

fn is_current(page: &str) -> Result<()> {
    let written = repository::read(PAGE).unwrap_or_default();
    ensure!(written == page, "{PAGE} is not current: run `cargo xtask coverage`");
    Ok(())
}

/// A specification and its scenarios in order.
struct Specification {
    path: String,
    title: String,
    /// Ids, without the number of the file.
    scenarios: Vec<String>,
    number: String,
}

fn page(files: &[SourceFile]) -> Result<String> {
    let specifications = files
        .iter()
        .filter(|file| file.path.starts_with("docs/spec/") && file.path.ends_with(".md"))
        .map(specification)
        .collect::<Result<Vec<_>>>()?;
    let proofs = proofs(files);
    let known: BTreeSet<String> = specifications
        .iter()
        .flat_map(|one| one.scenarios.iter().map(|mark| format!("s{}_{mark}", one.number)))
        .collect();
    if let Some((id, tests)) = proofs.iter().find(|(id, _)| !known.contains(*id)) {
        bail!("the test {} names the scenario {id}, which no specification has", tests[0]);
    }
    Ok(render(&specifications, &proofs))
}

fn render(specifications: &[Specification], proofs: &BTreeMap<String, Vec<String>>) -> String {
    let count = |one: &Specification| {
        let ids = one.scenarios.iter().map(|mark| format!("s{}_{mark}", one.number));
        ids.filter(|id| proofs.contains_key(id)).count()
    };
    let mut text = String::from(
        "# Coverage of the specification\n\n\
         Written by `cargo xtask coverage`; a test keeps it current. A test proves a scenario when its name\n\
         starts with the scenario's id.\n\n\
         | specification | scenarios | proved |\n|---|---:|---:|\n",
    );
    // Writing to a string cannot fail.
    for one in specifications {
        let file = one.path.trim_start_matches("docs/");
        let (all, proved) = (one.scenarios.len(), count(one));
        let _ = writeln!(text, "| [{}]({file}) | {all} | {proved} |", one.title);
    }
    let all: usize = specifications.iter().map(|one| one.scenarios.len()).sum();
    let proved: usize = specifications.iter().map(count).sum();
    let _ = writeln!(text, "| total | {all} | {proved} |");
    for one in specifications {
        let _ = writeln!(text, "\n## {}\n", one.title);
        let mut open = Vec::new();
        for mark in &one.scenarios {
            let id = format!("s{}_{mark}", one.number);
            match proofs.get(&id) {
                Some(tests) => {
                    let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
                    let _ = writeln!(text, "- {id}: {}", tests.join(", "));
                }
                None => open.push(mark.as_str()),
            }
        }
        if !open.is_empty() {
            let _ = writeln!(text, "- open: {}", open.join(" "));
        }
    }
    text
}

fn specification(file: &SourceFile) -> Result<Specification> {
    let name = file.path.rsplit('/').next().unwrap_or_default();
    let number: String = name.chars().take_while(char::is_ascii_digit).collect();
    ensure!(!number.is_empty(), "{} does not start with its number", file.path);
    let mut title = name.to_owned();
    let mut scenarios = Vec::new();
    let mut is_inside = false;
    for line in file.text.lines() {
        if let Some(heading) = line.strip_prefix("# ") {
            heading.trim().clone_into(&mut title);
        } else if let Some(heading) = line.strip_prefix("## ") {
            is_inside = heading.contains(CHAPTER);
        } else if is_inside && let Some(mark) = mark(line) {
            ensure!(!scenarios.contains(&mark), "{} has the scenario {mark} twice", file.path);
            scenarios.push(mark);
        }
    }
    ensure!(!scenarios.is_empty(), "{} has no item under {CHAPTER:?}", file.path);
    Ok(Specification { path: file.path.clone(), title, scenarios, number })
}

/// The mark of an item: `7` in `7. Given`, `g5` in `| G5 | …`, `s01` in `- **S01** Given`.
fn mark(line: &str) -> Option<String> {
    let (candidate, is_list) = if let Some(rest) = line.strip_prefix("| ") {
        (rest.split(' ').next()?, false)
    } else if let Some(rest) = line.strip_prefix("- **") {
        (rest.split("**").next()?, false)
    } else {
        (line.split_once(". ")?.0, true)
    };
    let has_digit = candidate.bytes().any(|byte| byte.is_ascii_digit());
    let is_mark = candidate.bytes().all(|byte| byte.is_ascii_alphanumeric())
        && has_digit
        && candidate.len() <= 5;
    let is_number = candidate.bytes().all(|byte| byte.is_ascii_digit());
    (is_mark && (is_number || !is_list)).then(|| candidate.to_lowercase())
}

/// The tests that carry an id, by id.
fn proofs(files: &[SourceFile]) -> BTreeMap<String, Vec<String>> {
    let mut proofs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.iter().filter(|file| file.path.ends_with(".rs")) {
        for line in file.text.lines() {
            let line = line.trim_start();
            let line = line.strip_prefix("async ").unwrap_or(line);
            let Some(rest) = line.strip_prefix("fn ") else { continue };
            let name = rest.split(|c: char| !c.is_ascii_alphanumeric() && c != '_').next();
            let name = name.unwrap_or_default();
            for id in ids(name) {
                proofs.entry(id).or_default().push(name.to_owned());
            }
        }
    }
    proofs
}

/// The ids at the start of a test's name.
fn ids(name: &str) -> Vec<String> {
    let mut parts = name.split('_');
    let mut ids = Vec::new();
    while let (Some(file), Some(mark)) = (parts.next(), parts.next()) {
        let number = file.strip_prefix('s').unwrap_or_default();
        let is_file = number.len() == 2 && number.bytes().all(|byte| byte.is_ascii_digit());
        if !is_file || !mark.bytes().any(|byte| byte.is_ascii_digit()) {
            break;
        }
        ids.push(format!("{file}_{mark}"));
    }
    ids
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_is_current() {
        is_current(&page(&repository::files().unwrap()).unwrap()).unwrap();
    }

    #[test]
    fn a_mark_is_found_in_each_sort_of_item() {
        let check = |line: &str, expected: Option<&str>| {
            assert_eq!(mark(line).as_deref(), expected, "{line}");
        };
        check("7. **Given** a node", Some("7"));
        check("| G5 | given | when |", Some("g5"));
        check("| L15b | given | when |", Some("l15b"));
        check("- **S01** Given a parent", Some("s01"));
        check("| # | Given |", None);
        check("| --- | --- |", None);
        check("- **Note** that", None);
        check("In 7.1. this holds", None);
        check("v2. this holds", None);
        check("", None);
    }

    #[test]
    fn ids_stand_at_the_start_of_a_name() {
        let check = |name: &str, expected: &[&str]| assert_eq!(ids(name), expected, "{name}");
        check("s12_g5_a_pod_is_activated", &["s12_g5"]);
        check("s12_g5_s12_g6_two_at_once", &["s12_g5", "s12_g6"]);
        check("s10_7_passes", &["s10_7"]);
        check("stays_s12_g5", &[]);
        check("s12_gang", &[]);
        check("s1_g5", &[]);
    }

    #[test]
    fn the_page_counts_what_is_proved_and_refuses_unknown_ids() {
        let file =
            |path: &str, text: &str| SourceFile { path: path.to_owned(), text: text.to_owned() };
        let specification = file(
            "docs/spec/12-gang.md",
            "# Gangs\n1. not here\n## 7. Acceptance scenarios\n| G1 | a |\n| G2 | b |\n## 8. End\n| G3 | c |\n",
        );
        let test = file("crates/a/src/b.rs", "    #[test]\n    fn s12_g2_holds() {}\n");
        let page = page(&[specification.clone(), test]).unwrap();
        assert!(page.contains("| total | 2 | 1 |"), "{page}");
        assert!(page.contains("- s12_g2: `s12_g2_holds`\n- open: g1\n"), "{page}");
        let stray = file("crates/a/src/b.rs", "async fn s12_g9_holds() {}\n");
        assert!(super::page(&[specification, stray]).is_err());
    }
}
