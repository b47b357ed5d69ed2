//! `docs/COVERAGE.md`: which acceptance scenario of `docs/spec` is proved by which test.
//!
//! A scenario is an item of the chapter "Acceptance scenarios" of a specification. Its id is
//! `s`, the number of the file, `_`, and the item's own mark in lower case: `s12_g5`. A test
//! that proves it carries the id at the start of its name, or several in a row:
//! `s12_g5_s12_g6_…`. Some scenarios have another outcome here on purpose ([`OTHERWISE`]): their tests
//! prove that outcome, and the page says where it is explained. Some are proved of functions that nothing in the product
//! calls yet ([`UNCALLED`]): the page counts them apart and says what they wait for.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use anyhow::{Result, bail, ensure};

use crate::repository::{self, SourceFile};

const PAGE: &str = "docs/COVERAGE.md";

/// The chapter of a specification whose items are scenarios.
const CHAPTER: &str = "Acceptance scenarios";

/// Where differences from upstream are explained.
const DIFFERENCES: &str = "docs/COMPATIBILITY.md";

/// Scenarios with another outcome on purpose, and the entry of `docs/COMPATIBILITY.md` that says which and
/// why. It names them by their marks.
const OTHERWISE: &[(&str, &str)] = &[
    ("s10_50", "engine-cpus"),
    ("s10_51", "engine-cpus"),
    ("s10_77", "engine-gangs"),
    ("s10_79", "engine-cpus"),
    ("s12_a5", "engine-quotas"),
    ("s12_a11", "engine-quotas"),
    ("s12_a21", "engine-quotas"),
    ("s12_g2", "engine-gangs"),
    ("s12_g17", "engine-gangs"),
    ("s12_g18", "engine-gangs"),
    ("s12_g19", "engine-gangs"),
    ("s12_g20", "engine-gangs"),
    ("s12_g25", "engine-gangs"),
    ("s12_g26", "engine-gangs"),
    ("s12_j1", "engine-gangs"),
];

/// Scenarios that are proved of functions which nothing in the product calls yet.
struct Uncalled {
    /// Where these functions are, with all tests of the scenarios.
    place: &'static str,
    /// What is to call them.
    until: &'static str,
    ids: &'static [&'static str],
}

/// All of these. What `quota::rules::faults` says is called, and told as a condition of a quota: scenarios of that
/// are not among them.
const UNCALLED: &[Uncalled] = &[
    Uncalled {
        place: "crates/engine/src/gathering.rs",
        until: "networks are read, which comes with devices",
        ids: &[
            "s11_88", "s11_89", "s11_90", "s11_91", "s11_92", "s11_93", "s11_94", "s11_95",
            "s11_99", "s12_j8", "s12_j9", "s12_j10", "s12_j11",
        ],
    },
    Uncalled {
        place: "crates/engine/src/quota/rules",
        until: "a webhook asks, which comes with the manager",
        ids: &[
            "s12_p4", "s12_w4", "s12_w6", "s12_w7", "s12_w8", "s12_w9", "s12_w10", "s12_w11",
            "s12_e1", "s12_e2", "s12_e3", "s12_e4", "s12_e5",
        ],
    },
];

/// How a scenario that tests play is proved.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Standing<'a> {
    /// As it is written.
    Plain,
    /// With another outcome on purpose, which this entry explains.
    Otherwise(&'a str),
    /// Of functions that nothing calls until this.
    Uncalled(&'a str),
}

/// What scenarios are listed as.
#[derive(Clone, Copy)]
struct Listed<'a> {
    otherwise: &'a [(&'a str, &'a str)],
    uncalled: &'a [Uncalled],
}

const LISTED: Listed<'static> = Listed { otherwise: OTHERWISE, uncalled: UNCALLED };

impl<'a> Listed<'a> {
    fn standing(self, id: &str) -> Standing<'a> {
        let entry = self.otherwise.iter().find(|(own, _)| *own == id);
        let uncalled = self.uncalled.iter().find(|own| own.ids.contains(&id));
        match (entry, uncalled) {
            (Some((_, entry)), _) => Standing::Otherwise(entry),
            (None, Some(own)) => Standing::Uncalled(own.until),
            (None, None) => Standing::Plain,
        }
    }
}

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
    Ok(render(&specifications, &proofs, LISTED))
}

/// Scenarios that are listed as having another outcome on purpose, though no test plays them, or though the
/// entry that is to explain it does not name them; and those listed as proved of functions that nobody calls, though
/// no test plays them there, or one does elsewhere.
pub fn stale_differences(files: &[SourceFile]) -> Vec<String> {
    let mut findings = stale(files, OTHERWISE);
    findings.extend(stale_uncalled(files, UNCALLED));
    findings
}

fn stale_uncalled(files: &[SourceFile], uncalled: &[Uncalled]) -> Vec<String> {
    let mut findings = Vec::new();
    for Uncalled { place, ids, .. } in uncalled {
        let is_there = |file: &&SourceFile| file.path.starts_with(place);
        let there = proofs(files.iter().filter(is_there));
        let elsewhere = proofs(files.iter().filter(|file| !is_there(file)));
        for id in ids.iter().filter(|id| !there.contains_key(**id)) {
            findings
                .push(format!("{id} is listed as proved in {place}, and no test there plays it"));
        }
        for id in *ids {
            if let Some([test, ..]) = elsewhere.get(*id).map(Vec::as_slice) {
                findings.push(format!(
                    "{id} is listed as proved of functions that nobody calls, and {test} plays it"
                ));
            }
        }
    }
    findings
}

fn stale(files: &[SourceFile], otherwise: &[(&str, &str)]) -> Vec<String> {
    let proofs = proofs(files);
    let page = files.iter().find(|file| file.path == DIFFERENCES).map_or("", |file| &file.text);
    let mut findings = Vec::new();
    for (id, entry) in otherwise {
        let mark = id.split('_').next_back().unwrap_or_default();
        let heading = format!("### {entry}\n");
        let text = page.split_once(&heading).map_or("", |(_, rest)| rest);
        let text = text.split("\n### ").next().unwrap_or_default().to_lowercase();
        let mut words = text.split(|c: char| !c.is_ascii_alphanumeric() && c != '_');
        if !proofs.contains_key(*id) {
            findings.push(format!("{id} is listed with another outcome, and no test plays it"));
        } else if !words.any(|word| word == mark) {
            findings.push(format!(
                "{id} is listed with another outcome, and the entry {entry} of {DIFFERENCES} does not \
                 name {mark}"
            ));
        }
    }
    findings
}

fn render(
    specifications: &[Specification],
    proofs: &BTreeMap<String, Vec<String>>,
    listed: Listed<'_>,
) -> String {
    // How many there are, and how many are proved: plainly, otherwise, and as functions.
    let counts = |one: &Specification| {
        let mut counts = [one.scenarios.len(), 0, 0, 0];
        let ids = one.scenarios.iter().map(|mark| format!("s{}_{mark}", one.number));
        for id in ids.filter(|id| proofs.contains_key(id)) {
            let column = match listed.standing(&id) {
                Standing::Plain => 1,
                Standing::Otherwise(_) => 2,
                Standing::Uncalled(_) => 3,
            };
            counts[column] += 1;
        }
        counts
    };
    let mut text = String::from(
        "# Coverage of the specification\n\n\
         Written by `cargo xtask coverage`; a test keeps it current. A test proves a scenario when its name\n\
         starts with the scenario's id. Where a scenario has another outcome on purpose, its test proves that\n\
         outcome; the link says which and why. What is proved *as functions* is of code that is there and that\n\
         nothing in the product calls yet; the line says what is to come first.\n\n\
         | specification | scenarios | proved | otherwise on purpose | as functions |\n\
         |---|---:|---:|---:|---:|\n",
    );
    let mut sums = [0; 4];
    // Writing to a string cannot fail.
    for one in specifications {
        let file = one.path.trim_start_matches("docs/");
        let counts = counts(one);
        let [all, proved, others, functions] = counts;
        let title = &one.title;
        let _ = writeln!(text, "| [{title}]({file}) | {all} | {proved} | {others} | {functions} |");
        sums.iter_mut().zip(counts).for_each(|(sum, count)| *sum += count);
    }
    let [all, proved, others, functions] = sums;
    let _ = writeln!(text, "| total | {all} | {proved} | {others} | {functions} |");
    for one in specifications {
        let _ = writeln!(text, "\n## {}\n", one.title);
        let mut open = Vec::new();
        for mark in &one.scenarios {
            let id = format!("s{}_{mark}", one.number);
            match proofs.get(&id) {
                Some(tests) => {
                    let tests: Vec<String> = tests.iter().map(|test| format!("`{test}`")).collect();
                    let more = match listed.standing(&id) {
                        Standing::Plain => String::new(),
                        Standing::Otherwise(own) => {
                            format!("; otherwise on purpose: [{own}](COMPATIBILITY.md#{own})")
                        }
                        Standing::Uncalled(until) => format!("; as a function, until {until}"),
                    };
                    let _ = writeln!(text, "- {id}: {}{more}", tests.join(", "));
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
fn proofs<'a>(files: impl IntoIterator<Item = &'a SourceFile>) -> BTreeMap<String, Vec<String>> {
    let mut proofs: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for file in files.into_iter().filter(|file| file.path.ends_with(".rs")) {
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

    fn file(path: &str, text: &str) -> SourceFile {
        SourceFile { path: path.to_owned(), text: text.to_owned() }
    }

    fn test(path: &str, name: &str) -> SourceFile {
        file(path, &format!("fn {name}() {{}}\n"))
    }

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
        let specification = file(
            "docs/spec/12-gang.md",
            "# Gangs\n1. not here\n## 7. Acceptance scenarios\n| G1 | a |\n| G4 | b |\n## 8. End\n| G5 | c |\n",
        );
        let test = file("crates/a/src/b.rs", "    #[test]\n    fn s12_g4_holds() {}\n");
        let page = page(&[specification.clone(), test]).unwrap();
        assert!(page.contains("| total | 2 | 1 | 0 | 0 |"), "{page}");
        assert!(page.contains("- s12_g4: `s12_g4_holds`\n- open: g1\n"), "{page}");
        let stray = file("crates/a/src/b.rs", "async fn s12_g9_holds() {}\n");
        assert!(super::page(&[specification, stray]).is_err());
    }

    #[test]
    fn what_has_another_outcome_or_is_not_called_yet_is_counted_apart_and_says_why() {
        let file = file(
            "docs/spec/12-gang.md",
            "# Gangs\n## 7. Acceptance scenarios\n| G1 | a |\n| G2 | b |\n| G3 | c |\n",
        );
        let ids = ["s12_g1", "s12_g2", "s12_g3"];
        let tests = ids.map(|id| (id.to_owned(), vec![format!("{id}_holds")]));
        let uncalled =
            [Uncalled { place: "crates/a/src/b.rs", until: "it is asked", ids: &["s12_g3"] }];
        let listed = Listed { otherwise: &[("s12_g2", "gangs")], uncalled: &uncalled };
        let page = render(&[specification(&file).unwrap()], &tests.into(), listed);
        assert!(page.contains("| total | 3 | 1 | 1 | 1 |"), "{page}");
        let line = "- s12_g3: `s12_g3_holds`; as a function, until it is asked\n";
        assert!(page.contains(line), "{page}");
        assert!(page.contains("- s12_g1: `s12_g1_holds`\n"), "{page}");
        let line =
            "- s12_g2: `s12_g2_holds`; otherwise on purpose: [gangs](COMPATIBILITY.md#gangs)\n";
        assert!(page.contains(line), "{page}");
    }

    #[test]
    fn what_nobody_calls_yet_is_proved_where_it_is_and_nowhere_else() {
        let check = |path: &str, more: &str, expected: usize| {
            let files = [test(path, "s12_g3_holds"), test("crates/c/src/d.rs", more)];
            let uncalled = [Uncalled { place: "crates/a/src/b", until: "", ids: &["s12_g3"] }];
            assert_eq!(stale_uncalled(&files, &uncalled).len(), expected, "{path} {more}");
        };
        check("crates/a/src/b.rs", "other", 0);
        check("crates/a/src/b/tests.rs", "other", 0);
        check("crates/a/src/b.rs", "s12_g3_holds_for_all", 1);
        check("crates/a/src/e.rs", "other", 2);
    }

    #[test]
    fn another_outcome_has_a_test_and_an_entry_that_names_it() {
        let check = |id: &str, entry: &str, is_fine: bool| {
            let page = format!("### other\n\nG2\n\n### gangs\n\n{entry}\n\n### last\n\nG2\n");
            let files =
                [file(DIFFERENCES, &page), test("crates/a/src/b.rs", &format!("{id}_holds"))];
            let findings = stale(&files, &[("s12_g2", "gangs")]);
            assert_eq!(findings.is_empty(), is_fine, "{id} {entry}: {findings:?}");
        };
        check("s12_g2", "| G2 | a | b |", true);
        check("s12_g2", "as in scenario g2, so", true);
        check("s12_g2", "| G20 | a | b |", false);
        check("s12_g2", "its test is `s12_g2_holds`", false);
        check("s12_g1", "| G2 | a | b |", false);
    }
}
