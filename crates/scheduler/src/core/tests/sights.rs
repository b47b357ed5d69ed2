//! What is told in the log of single attempts.

use std::io::Write;
use std::sync::Mutex;

use chassis::logging;

use super::*;
use crate::debug::{Flags, Switches};

/// What is logged.
#[derive(Clone, Default)]
struct Lines(Arc<Mutex<Vec<u8>>>);

impl Write for Lines {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        self.0.lock().unwrap().write(bytes)
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

/// What is logged, of what is logged by default, while something is done.
fn logged(work: impl FnOnce()) -> Vec<Value> {
    let lines = Lines::default();
    let writer = lines.clone();
    let subscriber = logging::subscriber(logging::Format::Json, "warn", move || writer.clone());
    tracing::subscriber::with_default(subscriber.unwrap(), work);
    let text = String::from_utf8(lines.0.lock().unwrap().clone()).unwrap();
    text.lines().map(|line| serde_json::from_str(line).unwrap()).collect()
}

/// A scheduler with eight nodes, of which two have no room for more than one CPU.
fn eight(switches: &Switches) -> Core {
    let mut core = begun(core().heeding(switches.clone()), 1);
    tell(&mut core, (2..=7).map(|n| node(&format!("n{n}"), n * 10)));
    tell(&mut core, [node("n8", 1)]);
    core
}

#[test]
fn s10_76_the_best_nodes_of_the_next_attempts_are_told_with_what_each_plugin_gives() {
    let switches = Switches::default();
    let mut core = eight(&switches);
    let mut attempt = |name: &str, cpu: &str| {
        tell(&mut core, [pod(name, cpu, json!({}))]);
        logged(|| assert_eq!(decisions(&mut core, START).len(), 1))
    };
    assert_eq!(attempt("silent", "2"), Vec::<Value>::new());
    switches.set_to(Flags { scores: 5, ..Flags::default() });
    let told = attempt("shown", "2");
    for line in &told {
        assert_eq!((&line["pod"], &line["feasible"]), (&json!("ns/shown"), &json!(6)));
    }
    let lines: Vec<&str> = told.iter().map(|line| line["message"].as_str().unwrap()).collect();
    let [head, rows @ ..] = &lines[..] else { panic!("{told:?}") };
    assert_eq!(rows.len(), 5, "{rows:?}");
    let total = |row: &str| row.split('|').nth(3).unwrap().trim().parse::<i64>().unwrap();
    assert!(rows.is_sorted_by_key(|row| std::cmp::Reverse(total(row))), "{rows:?}");
    for row in rows {
        let by_plugin = row.split('|').skip(4).filter_map(|score| score.trim().parse::<i64>().ok());
        assert_eq!(by_plugin.sum::<i64>(), total(row), "{row}");
    }
    assert!(head.contains("| Score | TaintToleration |"), "{head}");
    switches.set_to(Flags::default());
    assert_eq!(attempt("silent-again", "2"), Vec::<Value>::new());
}

#[test]
fn who_refuses_which_nodes_and_all_that_is_known_of_a_pod_is_told_where_it_is_wanted() {
    let switches = Switches::default();
    let mut core = eight(&switches);
    switches.set_to(Flags { filters: true, ..Flags::default() });
    tell(&mut core, [pod("p", "2", json!({}))]);
    let told = logged(|| assert_eq!(decisions(&mut core, START).len(), 1));
    let short: Vec<_> = told.iter().map(|line| (&line["node"], &line["plugin"])).collect();
    let fit = json!("NodeResourcesFit");
    assert_eq!(short, [(&json!("n1"), &fit), (&json!("n8"), &fit)]);
    assert_eq!(told[0]["reason"], "Insufficient cpu");
    switches.set_to(Flags { diagnosis: true, ..Flags::default() });
    tell(&mut core, [pod("huge", "1k", json!({})), pod("small", "1", json!({}))]);
    let told = logged(|| assert_eq!(decisions(&mut core, START).len(), 2));
    let [line] = &told[..] else { panic!("{told:?}") };
    let record: Value = serde_json::from_str(line["record"].as_str().unwrap()).unwrap();
    assert_eq!(record["questionedKey"], "ns/huge");
    assert_eq!(record["timestamp"], "1970-01-01T00:16:40Z");
    let details = &record["scheduleDiagnosis"]["nodeFailedDetails"];
    let [one] = &details.as_array().unwrap()[..] else { panic!("{record}") };
    assert_eq!(one["failedPlugin"], "NodeResourcesFit");
    assert_eq!(one["failedNodes"].as_array().unwrap().len(), 8);
    assert_eq!(one["preemptMightHelp"], false, "{one}");
}
