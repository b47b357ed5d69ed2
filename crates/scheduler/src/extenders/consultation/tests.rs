use std::collections::VecDeque;

use super::*;
use crate::config;

/// Extenders as a file has them, each at a URL of one letter: `a`, `b` and so on.
fn extenders(lines: &[&str]) -> Vec<Extender> {
    let each = lines.iter().zip('a'..).map(|(line, letter)| {
        let knows = if line.contains("nodeCacheCapable") { "" } else { "nodeCacheCapable: true, " };
        format!("- {{urlPrefix: 'http://{letter}', {knows}{line}}}\n")
    });
    let text = format!(
        "apiVersion: {}\nkind: {}\nextenders:\n{}",
        config::API_VERSION,
        config::KIND,
        each.collect::<String>()
    );
    config::parse("f".as_ref(), &text).unwrap().extenders
}

enum Said {
    Left(&'static str),
    Filtered(Filtered),
    Scores(&'static [(&'static str, i64)]),
    Nothing(&'static str),
}
use Said::{Left, Nothing, Scores};

fn names(words: &str) -> Vec<String> {
    words.split_whitespace().map(str::to_owned).collect()
}

/// What is asked, and what comes of it, when extenders say this in turn.
#[track_caller]
fn check(lines: &[&str], nodes: &str, said: Vec<Said>, expected: &[&str]) {
    let extenders = extenders(lines);
    let nodes = nodes.split_whitespace().map(Into::into).collect();
    let mut consultation = Consultation::new(&extenders, &["e/x".into()], nodes);
    let mut said = VecDeque::from(said);
    let mut asked = Vec::new();
    let advice = loop {
        let about = consultation.nodes().join("+");
        match consultation.step() {
            Effect::End(advice) => break advice,
            Effect::Filter(place) => {
                asked.push(format!("{} filters {about}", extenders[place].url_prefix));
                let answer = match said.pop_front().expect("it has something to say") {
                    Left(left) => {
                        Ok(Filtered { node_names: Some(names(left)), ..Filtered::default() })
                    }
                    Said::Filtered(answer) => Ok(answer),
                    Nothing(why) => Err(why.to_owned()),
                    Scores(_) => panic!("it is not asked for scores"),
                };
                consultation.filtered(place, answer);
            }
            Effect::Score(places) => {
                for place in places {
                    asked.push(format!("{} scores {about}", extenders[place].url_prefix));
                    let answer = match said.pop_front().expect("it has something to say") {
                        Scores(scores) => Ok(scores
                            .iter()
                            .map(|(host, score)| Scored { host: (*host).into(), score: *score })
                            .collect()),
                        Nothing(why) => Err(why.to_owned()),
                        _ => panic!("it is asked for scores"),
                    };
                    consultation.scored(place, answer);
                }
            }
        }
    };
    assert!(said.is_empty(), "somebody was not asked");
    asked.push(shown(&advice));
    assert_eq!(asked, expected);
}

fn shown(advice: &Advice) -> String {
    let counsel = match advice {
        Advice::Failed(why) => return format!("failed: {why}"),
        Advice::Counsel(counsel) => counsel,
    };
    let allowed = counsel.allowed.iter().map(|(node, score)| format!("{node}+{score}"));
    let refused = counsel.refused.iter().map(|(node, refusal)| {
        let sign = if refusal.code == Code::Unresolvable { '!' } else { '-' };
        format!("{node}{sign}{}", refusal.reasons[0])
    });
    allowed.chain(refused).collect::<Vec<_>>().join(" ")
}

#[test]
fn each_filter_is_asked_about_what_the_ones_before_left() {
    let both = ["filterVerb: f", "filterVerb: f"];
    check(
        &both,
        "n1 n2 n3",
        vec![Left("n3 n1"), Left("n3")],
        &["http://a filters n1+n2+n3", "http://b filters n1+n3", "n3+0"],
    );
    check(&both, "n1 n2", vec![Left("")], &["http://a filters n1+n2", ""]);
    // Those that may fail are asked last, and what they say counts all the same.
    check(
        &["filterVerb: f, ignorable: true", "filterVerb: f"],
        "n1 n2",
        vec![Left("n1 n2"), Left("n1")],
        &["http://b filters n1+n2", "http://a filters n1+n2", "n1+0"],
    );
    check(&["bindVerb: b"], "n1", vec![], &["n1+0"]);
}

#[test]
fn only_those_who_manage_a_resource_of_the_pod_are_asked() {
    check(
        &["filterVerb: f, managedResources: [{name: e/y}]", "filterVerb: f"],
        "n1",
        vec![Left("n1")],
        &["http://b filters n1", "n1+0"],
    );
    let managed = "filterVerb: f, managedResources: [{name: e/x}]";
    check(&[managed], "n1", vec![Left("n1")], &["http://a filters n1", "n1+0"]);
}

#[test]
fn scores_count_ten_times_their_weight_and_are_asked_for_where_there_is_a_choice() {
    let lines = ["prioritizeVerb: p, weight: 2", "prioritizeVerb: p, weight: 1"];
    let asked = ["http://a scores n1+n2", "http://b scores n1+n2"];
    let each = |last: &'static str| [asked[0], asked[1], last];
    check(
        &lines,
        "n1 n2",
        vec![Scores(&[("n1", 3), ("n2", 1)]), Scores(&[("n2", 10), ("n9", 4)])],
        &each("n1+60 n2+120"),
    );
    check(&lines, "n1 n2", vec![Nothing("down"), Scores(&[("n2", 1)])], &each("n1+0 n2+10"));
    // What is out of range counts as it does for kube-scheduler, and goes no further than numbers do.
    check(
        &lines,
        "n1 n2",
        vec![Scores(&[("n1", -1), ("n2", i64::MAX)]), Scores(&[("n1", 50), ("n2", 5)])],
        &each("n1+480 n2+9223372036854775807"),
    );
    check(&lines, "n1", vec![], &["n1+0"]);
    check(
        &["filterVerb: f, prioritizeVerb: p, weight: 1"],
        "n1 n2",
        vec![Left("n2")],
        &["http://a filters n1+n2", "n2+0"],
    );
}

#[test]
fn what_is_said_of_a_refused_node_is_kept() {
    let map = |words: &str| {
        let pairs = words.split_whitespace().filter_map(|word| word.split_once('='));
        pairs.map(|(node, why)| (node.to_owned(), why.to_owned())).collect()
    };
    let answer = |left: &str, failed: &str, unresolvable: &str| {
        Said::Filtered(Filtered {
            node_names: Some(names(left)),
            failed: map(failed),
            unresolvable: map(unresolvable),
            ..Filtered::default()
        })
    };
    let one = ["filterVerb: f"];
    let asked = "http://a filters n1+n2+n3";
    check(
        &one,
        "n1 n2 n3",
        vec![answer("n1", "n2=full n3=full", "n3=old")],
        &[asked, "n1+0 n2-full n3!old"],
    );
    // Of a node that it leaves nothing can be wrong, and of others it knows nothing.
    check(&one, "n1 n2 n3", vec![answer("n1", "n1=full n9=full", "")], &[asked, "n1+0"]);
}

#[test]
fn whole_nodes_are_read_where_no_names_are_answered() {
    let check = |line: &str, names_left: Option<&str>, nodes_left: Option<&str>, expected: &str| {
        let extenders = extenders(&[line]);
        let nodes = vec!["n1".into(), "n2".into()];
        let mut consultation = Consultation::new(&extenders, &[], nodes);
        assert_eq!(consultation.step(), Effect::Filter(0));
        let (node_names, nodes) = (names_left.map(names), nodes_left.map(names));
        consultation.filtered(0, Ok(Filtered { nodes, node_names, ..Filtered::default() }));
        let Effect::End(advice) = consultation.step() else { panic!("nobody else is asked") };
        assert_eq!(shown(&advice), expected, "{line}");
    };
    let (knows, wants) = ("filterVerb: f", "filterVerb: f, nodeCacheCapable: false");
    check(knows, Some("n1"), Some("n2"), "n1+0");
    check(knows, None, Some("n2"), "n2+0");
    check(knows, None, None, "");
    check(wants, Some("n1"), Some("n2"), "n2+0");
    check(wants, Some("n1"), None, "");
}

#[test]
fn one_that_fails_or_lies_fails_the_attempt_unless_it_may() {
    let lie = "extender \"http://a\" claims a filtered node \"n9\" which is not found in the input \
               node list";
    let error = || Said::Filtered(Filtered { error: "broken".into(), ..Filtered::default() });
    let asked = "http://a filters n1+n2";
    for (is_lie, words) in [(false, "down"), (true, lie)] {
        let said = || if is_lie { Left("n9") } else { Nothing("down") };
        let failed = format!("failed: {words}");
        check(&["filterVerb: f"], "n1 n2", vec![said()], &[asked, &failed]);
        let may = ["filterVerb: f, ignorable: true"];
        check(&may, "n1 n2", vec![said()], &[asked, "n1+0 n2+0"]);
    }
    check(&["filterVerb: f"], "n1 n2", vec![error()], &[asked, "failed: broken"]);
    // Nobody is asked after that.
    let two = ["filterVerb: f", "filterVerb: f, prioritizeVerb: p, weight: 1"];
    check(&two, "n1 n2", vec![Nothing("down")], &[asked, "failed: down"]);
}

#[test]
fn more_nodes_than_were_asked_about_are_no_answer() {
    check(
        &["filterVerb: f"],
        "n1 n2",
        vec![Left("n1 n2 n1")],
        &[
            "http://a filters n1+n2",
            "failed: extender \"http://a\" names 3 nodes, and was asked about 2",
        ],
    );
    check(
        &["filterVerb: f, ignorable: true"],
        "n1 n2",
        vec![Left("n1 n2 n1")],
        &["http://a filters n1+n2", "n1+0 n2+0"],
    );
    // To name one twice leaves it once.
    check(&["filterVerb: f"], "n1 n2", vec![Left("n2 n2")], &["http://a filters n1+n2", "n2+0"]);
}

#[test]
fn an_answer_about_many_nodes_is_taken_in_at_once() {
    const NODES: usize = 50_000;
    let extenders = extenders(&["filterVerb: f"]);
    let nodes: Vec<String> = (0..NODES).map(|n| format!("node-of-a-large-cluster-{n}")).collect();
    let asked = nodes.iter().map(|node| node.as_str().into()).collect();
    let mut consultation = Consultation::new(&extenders, &[], asked);
    let answer = Filtered { node_names: Some(nodes), ..Filtered::default() };
    let begun = std::time::Instant::now();
    consultation.filtered(0, Ok(answer));
    // To look for each name among all nodes takes many times as long.
    assert!(begun.elapsed() < std::time::Duration::from_secs(3), "{:?}", begun.elapsed());
    assert_eq!(consultation.nodes().len(), NODES);
}
