//! Which nodes there are: the values of `--nodes`, and the names that follow from them.
//!
//! A value is a number of nodes, a type, which makes one node, or both with an `x` between them:
//!
//! ```text
//! 5                                       five nodes of the default type
//! 100x32cpu,256Gi                         a hundred nodes, 32 CPUs and 256 GiB each
//! 4x96cpu,1Ti,8nvidia.com/gpu,name=gpu    four nodes named gpu-0000 to gpu-0003
//! 6x16cpu,zone=a+b+c                      two nodes in each of three zones
//! 2x64cpu,numa=4,sockets=2                two nodes whose CPUs are on four NUMA nodes of two sockets
//! 2xlabel:pool=infra,taint:pool=infra:NoSchedule
//! ```
//!
//! The pieces of a type are separated by commas, each at most once except labels, taints
//! and extended resources; what is left out has the default:
//!
#![doc = include_str!("group.md")]
//!
//! Groups with the same start of the name are numbered on, so that names are unique and
//! the same in every run.

use std::collections::BTreeMap;
use std::fmt;
use std::str::FromStr;

use api::ResourceList;
use object::names;
use object::quantity::Quantity;
use object::taint::{Effect, Taint};

use crate::layout::{Layout, Misfit, Wish};

/// How many nodes one process simulates at most: the addresses of their pods are a /24
/// each, out of 10.128.0.0/9.
pub const NODES_MAX: usize = 32_768;
/// How many pods fit on one node at most, for the same reason.
const PODS_MAX: i64 = 250;

/// What a value may look like.
const EXAMPLES: &str = "write a number such as 5, or a type such as 3x8cpu,32Gi";
/// Units that people write for those that there are, in lower case.
const UNITS: [(&str, &str); 24] = [
    ("cpu", "cpu"),
    ("cpus", "cpu"),
    ("core", "cpu"),
    ("cores", "cpu"),
    ("vcpu", "cpu"),
    ("vcpus", "cpu"),
    ("mcpu", "mcpu"),
    ("pod", "pods"),
    ("pods", "pods"),
    ("gpu", "nvidia.com/gpu"),
    ("gpus", "nvidia.com/gpu"),
    ("k", "Ki"),
    ("kb", "Ki"),
    ("ki", "Ki"),
    ("kib", "Ki"),
    ("m", "Mi"),
    ("mb", "Mi"),
    ("mi", "Mi"),
    ("mib", "Mi"),
    ("g", "Gi"),
    ("gb", "Gi"),
    ("gi", "Gi"),
    ("gib", "Gi"),
    ("tb", "Ti"),
];
/// Units of memory that are right as they are.
const SUFFIXES: [&str; 12] = ["Ki", "Mi", "Gi", "Ti", "Pi", "Ei", "k", "M", "G", "T", "P", "E"];

/// Nodes of one type.
#[derive(Debug, Clone, PartialEq)]
pub struct NodeGroup {
    /// How many there are.
    pub count: u32,
    /// What their names start with.
    pub prefix: String,
    /// What each of them has, and offers to pods.
    pub capacity: ResourceList,
    /// Where its CPUs are; none where it does not report that.
    pub layout: Option<Layout>,
    /// Zones, which the nodes take in turn; at least one.
    pub zones: Vec<String>,
    /// Region.
    pub region: String,
    /// Instance type.
    pub instance_type: String,
    /// Architecture.
    pub arch: String,
    /// Labels beyond those that every node has.
    pub labels: BTreeMap<String, String>,
    /// What keeps pods away.
    pub taints: Vec<Taint>,
}

/// Why a value of `--nodes` is refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GroupError {
    /// The value as given.
    pub value: String,
    /// The part of it that is wrong.
    pub piece: String,
    /// What is wrong, and what to write instead.
    pub problem: String,
}

impl fmt::Display for GroupError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { value, piece, problem } = self;
        if value == piece {
            return write!(f, "nodes {value:?}: {problem}");
        }
        write!(f, "nodes {value:?}: {piece:?}: {problem}")
    }
}

impl std::error::Error for GroupError {}

impl Default for NodeGroup {
    fn default() -> Self {
        let amounts =
            [("cpu", "8"), ("memory", "32Gi"), ("ephemeral-storage", "100Gi"), ("pods", "110")];
        let quantity = |text: &str| text.parse().expect("a constant quantity");
        Self {
            count: 1,
            prefix: "node".to_owned(),
            capacity: amounts.map(|(name, text)| (name.to_owned(), quantity(text))).into(),
            layout: Layout::usual(&quantity("8")),
            zones: vec!["zone-a".to_owned()],
            region: "local".to_owned(),
            instance_type: "hollow.8cpu.32Gi".to_owned(),
            arch: "amd64".to_owned(),
            labels: BTreeMap::new(),
            taints: Vec::new(),
        }
    }
}

impl NodeGroup {
    /// `count` nodes of the default type.
    #[must_use]
    pub fn of_default_type(count: u32) -> Self {
        Self { count, ..Self::default() }
    }
}

impl FromStr for NodeGroup {
    type Err = GroupError;

    fn from_str(value: &str) -> Result<Self, GroupError> {
        let fail = |piece: &str, problem: String| GroupError {
            value: value.to_owned(),
            piece: piece.to_owned(),
            problem,
        };
        let digits = value.len() - value.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, rest) = value.split_at(digits);
        if let Some(pieces) = rest.strip_prefix(['X', '*', '×']) {
            return Err(fail(value, format!("write a small x, as in {number}x{pieces}")));
        }
        let is_word = |c: char| c.is_alphabetic() || matches!(c, ' ' | '-' | '_');
        if number.is_empty() && !rest.is_empty() && rest.chars().all(is_word) {
            return Err(fail(value, format!("is neither a number nor a type; {EXAMPLES}")));
        }
        let (count, pieces) = match (number, rest.strip_prefix('x')) {
            ("", _) | (_, None) if !rest.is_empty() => (1, value),
            (_, None) if number.is_empty() => {
                return Err(fail(value, format!("is empty; {EXAMPLES}")));
            }
            (_, pieces) => (count_of(number).map_err(|p| fail(number, p))?, pieces.unwrap_or("")),
        };
        if pieces.is_empty() && rest.starts_with('x') {
            let problem = "a type must follow the x, as in 3x8cpu,32Gi";
            return Err(fail(value, problem.to_owned()));
        }
        let group = Self { count, ..Self::default() };
        let mut reader = Reader { group, layout: Wish::default(), given: Vec::new() };
        for piece in pieces.split(',').filter(|_| !pieces.is_empty()) {
            reader.take(piece).map_err(|problem| fail(piece, problem))?;
        }
        reader.finish().map_err(|(piece, problem)| fail(&piece, problem))
    }
}

fn count_of(text: &str) -> Result<u32, String> {
    match text.parse::<u32>() {
        Ok(count) if count >= 1 && count as usize <= NODES_MAX => Ok(count),
        _ => Err(format!("the number of nodes must be 1 to {NODES_MAX}, as in 3x8cpu,32Gi")),
    }
}

struct Reader {
    group: NodeGroup,
    layout: Wish,
    given: Vec<String>,
}

impl Reader {
    fn take(&mut self, piece: &str) -> Result<(), String> {
        if piece.is_empty() {
            return Err("there is nothing between two commas; remove one".to_owned());
        }
        if let Some(label) = piece.strip_prefix("label:") {
            return self.take_label(label);
        }
        if let Some(taint) = piece.strip_prefix("taint:") {
            let taint = taint_of(taint)?;
            let same = |own: &Taint| own.key == taint.key && own.effect == taint.effect;
            if self.group.taints.iter().any(same) {
                return Err("this key and effect are given twice; remove one".to_owned());
            }
            self.group.taints.push(taint);
            return Ok(());
        }
        if let Some((key, value)) = piece.split_once('=') {
            return self.take_setting(key, value);
        }
        self.take_amount(piece)
    }

    fn once(&mut self, key: &str) -> Result<(), String> {
        if self.given.iter().any(|given| given == key) {
            return Err(format!("{key} is given twice; remove one"));
        }
        self.given.push(key.to_owned());
        Ok(())
    }

    fn take_setting(&mut self, key: &str, value: &str) -> Result<(), String> {
        match key {
            "name" => {
                // The number takes a dash and up to five digits.
                if value.len() > 240 || !names::dns1123_subdomain(value).is_empty() {
                    return Err(
                        "a name starts and ends with a lower-case letter or digit and has \
                                only those, dashes and dots between, at most 240 in all"
                            .to_owned(),
                    );
                }
                value.clone_into(&mut self.group.prefix);
            }
            "zone" => {
                self.group.zones = value.split('+').map(label_text).collect::<Result<_, _>>()?;
            }
            "region" => self.group.region = label_text(value)?,
            "type" => self.group.instance_type = label_text(value)?,
            "arch" => self.group.arch = label_text(value)?,
            "disk" => {
                let amount = amount_of(value)?;
                self.group.capacity.insert("ephemeral-storage".to_owned(), amount);
            }
            _ if self.layout.take(key, value)? => {}
            _ => {
                return Err(format!(
                    "{key} is no setting; there are name=, zone=, region=, type=, arch=, disk=, \
                     numa=, sockets=, threads=, numa-policy=, label:KEY=VALUE and \
                     taint:KEY=VALUE:EFFECT"
                ));
            }
        }
        self.once(key)
    }

    fn take_label(&mut self, text: &str) -> Result<(), String> {
        let (key, value) =
            text.split_once('=').ok_or("a label is written label:KEY=VALUE".to_owned())?;
        if let Some(problem) = names::qualified_name(key).into_iter().next() {
            return Err(format!("{key:?} is no label key: {problem}"));
        }
        let value = if value.is_empty() { String::new() } else { label_text(value)? };
        if self.group.labels.insert(key.to_owned(), value).is_some() {
            return Err(format!("label {key} is given twice; remove one"));
        }
        Ok(())
    }

    fn take_amount(&mut self, piece: &str) -> Result<(), String> {
        if let Some(meant) = meant_by(piece) {
            return Err(format!("is no amount; write {meant}"));
        }
        if let Some(text) = piece.strip_suffix("pods") {
            let amount = amount_of(text)?;
            if amount.checked_scaled_value(0).is_none_or(|pods| pods > PODS_MAX) {
                return Err(format!("at most {PODS_MAX} pods fit on a node"));
            }
            self.group.capacity.insert("pods".to_owned(), amount);
            return self.once("pods");
        }
        if let Some(text) = piece.strip_suffix("cpu") {
            self.group.capacity.insert("cpu".to_owned(), amount_of(text)?);
            return self.once("cpu");
        }
        let digits = piece.len() - piece.trim_start_matches(|c: char| c.is_ascii_digit()).len();
        let (number, name) = piece.split_at(digits);
        if !number.is_empty() && name.contains('/') {
            if let Some(problem) = names::qualified_name(name).into_iter().next() {
                return Err(format!("{name:?} is no resource name: {problem}"));
            }
            self.once(name)?;
            self.group.capacity.insert(name.to_owned(), amount_of(number)?);
            return Ok(());
        }
        if !number.is_empty() && name.is_empty() {
            return Err(format!("of what? write {number}cpu, {number}Gi or {number}pods"));
        }
        let is_memory = SUFFIXES.iter().any(|suffix| piece.ends_with(suffix));
        if number.is_empty() || !is_memory {
            return Err("is none of 8cpu, 32Gi, 110pods, 2example.com/resource, name=, zone=, \
                        region=, type=, arch=, disk=, numa=, sockets=, threads=, numa-policy=, \
                        label: and taint:"
                .to_owned());
        }
        self.group.capacity.insert("memory".to_owned(), amount_of(piece)?);
        self.once("memory")
    }

    fn finish(mut self) -> Result<NodeGroup, Misfit> {
        self.group.layout = self.layout.settle(&self.group.capacity["cpu"])?;
        if !self.given.iter().any(|given| given == "type") {
            let text = |name: &str| self.group.capacity[name].to_string();
            self.group.instance_type = format!("hollow.{}cpu.{}", text("cpu"), text("memory"));
        }
        Ok(self.group)
    }
}

/// What somebody meant who wrote the unit of an amount in another way, or its case.
fn meant_by(piece: &str) -> Option<String> {
    let (number, unit) = piece.split_at(piece.find(|c: char| c.is_alphabetic())?);
    let number = number.trim_end();
    let is_number = !number.is_empty() && number.chars().all(|c| c.is_ascii_digit() || c == '.');
    if !is_number || SUFFIXES.contains(&unit) {
        return None;
    }
    let lower = unit.to_lowercase();
    let (_, meant) = UNITS.iter().find(|(written, _)| *written == lower)?;
    let meant = format!("{number}{meant}");
    (meant != piece).then_some(meant)
}

fn amount_of(text: &str) -> Result<Quantity, String> {
    let parsed = text.parse::<Quantity>().ok().filter(|amount| amount.sign() > 0);
    parsed
        .filter(|amount| amount.checked_scaled_value(-3).is_some())
        .ok_or_else(|| format!("{text:?} is no amount above zero, such as 4, 500m or 32Gi"))
}

fn label_text(value: &str) -> Result<String, String> {
    if value.is_empty() || !names::label_value(value).is_empty() {
        return Err(format!(
            "{value:?} is no label value: at most 63 letters, digits, dashes, dots and \
             underscores, with a letter or digit at both ends"
        ));
    }
    Ok(value.to_owned())
}

fn taint_of(text: &str) -> Result<Taint, String> {
    let form = "a taint is written taint:KEY=VALUE:EFFECT or taint:KEY:EFFECT, with the effect \
                NoSchedule, PreferNoSchedule or NoExecute";
    let taint: Taint = text.parse().map_err(|error| format!("{error}; {form}"))?;
    match taint.effect {
        None | Some(Effect::Other(_)) => Err(form.to_owned()),
        Some(_) => Ok(taint),
    }
}

/// One node of a group.
#[derive(Debug, Clone, PartialEq)]
pub(crate) struct Place {
    pub(crate) name: String,
    /// Which group.
    pub(crate) group: usize,
    /// Which zone of the group.
    pub(crate) zone: usize,
}

/// The nodes of all groups, in order.
///
/// # Errors
/// When there are none, or more than the addresses suffice for.
pub(crate) fn places(groups: &[NodeGroup]) -> Result<Vec<Place>, GroupError> {
    let total: usize = groups.iter().map(|group| group.count as usize).sum();
    let bad = |problem: String| GroupError {
        value: total.to_string(),
        piece: total.to_string(),
        problem,
    };
    if total == 0 || total > NODES_MAX {
        return Err(bad(format!("the number of nodes must be 1 to {NODES_MAX} in all")));
    }
    let mut counts: BTreeMap<&str, usize> = BTreeMap::new();
    let mut places = Vec::with_capacity(total);
    for (index, group) in groups.iter().enumerate() {
        let next = counts.entry(&group.prefix).or_default();
        let zones = group.zones.len().max(1);
        for nth in 0..group.count as usize {
            let name = format!("{}-{:04}", group.prefix, *next);
            places.push(Place { name, group: index, zone: nth % zones });
            *next += 1;
        }
    }
    // Prefixes such as `a` and `a-0000` could meet.
    let mut names: Vec<&str> = places.iter().map(|place| place.name.as_str()).collect();
    names.sort_unstable();
    if let Some(pair) = names.windows(2).find(|pair| pair[0] == pair[1]) {
        return Err(bad(format!("two groups have a node {}; choose other names", pair[0])));
    }
    Ok(places)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(value: &str, want: &str) {
        let told = match value.parse::<NodeGroup>() {
            Ok(group) => {
                let mut told = format!("{} {}", group.count, group.prefix);
                for (name, amount) in &group.capacity {
                    told.push_str(&format!(" {name}={amount}"));
                }
                told.push_str(&format!(" {}/{}", group.region, group.zones.join("+")));
                told.push_str(&format!(" {} {}", group.instance_type, group.arch));
                for (key, value) in &group.labels {
                    told.push_str(&format!(" {key}={value}"));
                }
                for taint in &group.taints {
                    let effect = taint.effect.as_ref().map_or("", Effect::as_str);
                    told.push_str(&format!(" {}={}:{effect}", taint.key, taint.value));
                }
                told
            }
            Err(error) => error.to_string(),
        };
        assert_eq!(told, want, "{value}");
    }

    #[test]
    fn a_value_is_a_number_a_type_or_both() {
        let rest = "cpu=8 ephemeral-storage=100Gi memory=32Gi pods=110 local/zone-a \
                    hollow.8cpu.32Gi amd64";
        check("5", &format!("5 node {rest}"));
        check(
            "100x32cpu,256Gi",
            "100 node cpu=32 ephemeral-storage=100Gi memory=256Gi pods=110 local/zone-a \
             hollow.32cpu.256Gi amd64",
        );
        check(
            "500mcpu,1G,10pods,disk=1Ti",
            "1 node cpu=500m ephemeral-storage=1Ti memory=1G pods=10 local/zone-a \
             hollow.500mcpu.1G amd64",
        );
        check(
            "2x8nvidia.com/gpu,name=gpu,zone=a+b,region=west,type=p4,arch=arm64",
            "2 gpu cpu=8 ephemeral-storage=100Gi memory=32Gi nvidia.com/gpu=8 pods=110 west/a+b \
             p4 arm64",
        );
        check(
            "3xlabel:pool=infra,label:x/y=,taint:pool=infra:NoSchedule,taint:gone:NoExecute",
            &format!("3 node {rest} pool=infra x/y= pool=infra:NoSchedule gone=:NoExecute"),
        );
    }

    #[test]
    fn an_error_names_the_piece_and_the_fix() {
        check("", "nodes \"\": is empty; write a number such as 5, or a type such as 3x8cpu,32Gi");
        check("5x", "nodes \"5x\": a type must follow the x, as in 3x8cpu,32Gi");
        let range = "the number of nodes must be 1 to 32768, as in 3x8cpu,32Gi";
        check("0", &format!("nodes \"0\": {range}"));
        check("0x8cpu", &format!("nodes \"0x8cpu\": \"0\": {range}"));
        check("99999999999x1cpu", &format!("nodes \"99999999999x1cpu\": \"99999999999\": {range}"));
        check(
            "3x8cpu,256",
            "nodes \"3x8cpu,256\": \"256\": of what? write 256cpu, 256Gi or 256pods",
        );
        check("3x8cpu,4cpu", "nodes \"3x8cpu,4cpu\": \"4cpu\": cpu is given twice; remove one");
        check(
            "3x8cpu,,",
            "nodes \"3x8cpu,,\": \"\": there is nothing between two commas; remove one",
        );
        check("-1cpu", "nodes \"-1cpu\": \"-1\" is no amount above zero, such as 4, 500m or 32Gi");
        check("300pods", "nodes \"300pods\": at most 250 pods fit on a node");
        check(
            "1xcolour=red",
            "nodes \"1xcolour=red\": \"colour=red\": colour is no setting; there are name=, \
             zone=, region=, type=, arch=, disk=, numa=, sockets=, threads=, numa-policy=, \
             label:KEY=VALUE and taint:KEY=VALUE:EFFECT",
        );
        for (value, piece, meant) in [
            ("5x8CPU", "8CPU", "8cpu"),
            ("5x8cores", "8cores", "8cpu"),
            ("5x32GB", "32GB", "32Gi"),
            ("5x8cpu,32gi", "32gi", "32Gi"),
            ("5x500MCPU", "500MCPU", "500mcpu"),
            ("5x2K", "2K", "2Ki"),
            ("5x1gpu", "1gpu", "1nvidia.com/gpu"),
            ("5x8 cpu", "8 cpu", "8cpu"),
        ] {
            check(value, &format!("nodes {value:?}: {piece:?}: is no amount; write {meant}"));
        }
        check("5X8cpu", "nodes \"5X8cpu\": write a small x, as in 5x8cpu");
        check(
            "five",
            "nodes \"five\": is neither a number nor a type; write a number such as 5, or a type \
             such as 3x8cpu,32Gi",
        );
        check(
            "2xmany",
            "nodes \"2xmany\": \"many\": is none of 8cpu, 32Gi, 110pods, 2example.com/resource, name=, zone=, \
             region=, type=, arch=, disk=, numa=, sockets=, threads=, numa-policy=, label: and taint:",
        );
    }

    #[test]
    fn names_are_numbered_on_over_groups_and_never_meet() {
        let names = |values: &[&str]| {
            let groups: Vec<NodeGroup> =
                values.iter().map(|value| value.parse().unwrap()).collect();
            match places(&groups) {
                Ok(places) => {
                    let told = places.iter().map(|place| format!("{}/{}", place.name, place.zone));
                    told.collect::<Vec<_>>().join(" ")
                }
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(
            names(&["2", "1xname=gpu", "3xzone=a+b"]),
            "node-0000/0 node-0001/0 gpu-0000/0 node-0002/0 node-0003/1 node-0004/0"
        );
        assert_eq!(names(&[]), "nodes \"0\": the number of nodes must be 1 to 32768 in all");
    }

    #[test]
    fn the_page_for_users_shows_what_is_read_here() {
        let page = include_str!("../../../docs/UP.md");
        let table = include_str!("group.md");
        assert!(page.contains(table), "docs/UP.md: {table}");
        let pieces = table.lines().skip(2).flat_map(|line| {
            let cell = line.split('|').nth(1).unwrap_or_default();
            cell.split('`').skip(1).step_by(2)
        });
        let pieces: Vec<&str> = pieces.collect();
        assert!(pieces.len() > 12, "{pieces:?}");
        for piece in pieces {
            assert!(piece.parse::<NodeGroup>().is_ok(), "{piece} is not read");
        }
        let examples = page.lines().filter_map(|line| line.strip_prefix("--nodes "));
        let examples: Vec<&str> =
            examples.filter_map(|line| line.split_whitespace().next()).collect();
        assert!(examples.len() > 4, "{examples:?}");
        for example in examples {
            assert!(example.parse::<NodeGroup>().is_ok(), "{example} is not read");
        }
    }

    proptest::proptest! {
        #[test]
        fn no_text_panics_and_errors_repeat_it(value in "\\PC{0,40}|[0-9x,a-zGi=:/+.-]{0,30}") {
            if let Err(error) = value.parse::<NodeGroup>() {
                let repeated = error.to_string().contains(&format!("{value:?}"));
                proptest::prop_assert!(repeated);
            }
        }
    }
}
