//! Which plugins run at which extension point, in which order, with which weight.
//!
//! The file says what is different from the defaults. First each list of the file is merged with
//! the default list; then the plugins of `multiPoint` are put at every extension point they have
//! and that does not say otherwise.

use std::collections::{BTreeMap, BTreeSet};

use engine::plugin::Plugin;
use object::field::{Error, Errors, Path};

use super::file;
use super::plugin::{self, DEFAULTS, ExtensionPoint, is_removed, runs_at};

/// What turns all default plugins off.
const ALL: &str = "*";

/// Which plugins run where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Lineup {
    points: BTreeMap<ExtensionPoint, Vec<Plugin>>,
    weights: BTreeMap<Plugin, i32>,
}

impl Lineup {
    /// The plugins at an extension point, in their order.
    #[must_use]
    pub fn at(&self, point: ExtensionPoint) -> &[Plugin] {
        self.points.get(&point).map(Vec::as_slice).unwrap_or_default()
    }

    /// The plugins that score, in their order, and what their scores count.
    pub fn scores(&self) -> impl Iterator<Item = (Plugin, i32)> {
        let weight = |plugin: &Plugin| self.weights.get(plugin).copied().unwrap_or(1);
        self.at(ExtensionPoint::Score).iter().map(move |plugin| (*plugin, weight(plugin)))
    }

    /// Every plugin that runs anywhere.
    #[must_use]
    pub fn plugins(&self) -> BTreeSet<Plugin> {
        self.points.values().flatten().copied().collect()
    }
}

/// A plugin of a list.
#[derive(Debug, Clone)]
struct Entry {
    plugin: Plugin,
    weight: i32,
    /// Where the file says so; none for a default.
    path: Option<Path>,
}

/// A list of the file with names understood.
#[derive(Debug, Default)]
struct Set {
    enabled: Vec<Entry>,
    disabled: BTreeSet<Plugin>,
    all_disabled: bool,
}

impl Set {
    fn read(wire: &file::PluginSet, path: &Path, errors: &mut Errors) -> Self {
        let mut set = Self::default();
        for (index, entry) in wire.disabled.iter().enumerate() {
            let path = path.child("disabled").index(index);
            if entry.name == ALL {
                set.all_disabled = true;
            } else if !is_removed(&entry.name) {
                set.disabled.extend(named(&entry.name, &path, errors));
            }
        }
        for (index, entry) in wire.enabled.iter().enumerate() {
            let path = path.child("enabled").index(index);
            let Some(plugin) = named(&entry.name, &path, errors) else { continue };
            let weight = entry.weight.unwrap_or(0);
            if weight < 0 {
                let fix = "must be positive; to leave a plugin out, disable it";
                errors.push(Error::invalid(&path.child("weight"), weight, fix));
            }
            set.enabled.push(Entry { plugin, weight, path: Some(path) });
        }
        set
    }

    /// The default list with the changes of the file. A default plugin that the file names keeps
    /// its place; what else the file names comes last.
    fn over(mut self, defaults: &[Entry]) -> Self {
        let mut merged = Vec::new();
        let mut replaced = BTreeSet::new();
        for default in defaults.iter().filter(|_| !self.all_disabled) {
            if self.disabled.contains(&default.plugin) {
                continue;
            }
            // Where the file names it twice, the last one counts here, and the first comes last.
            match self.enabled.iter().rposition(|entry| entry.plugin == default.plugin) {
                Some(index) => {
                    replaced.insert(index);
                    merged.push(self.enabled[index].clone());
                }
                None => merged.push(default.clone()),
            }
        }
        let rest = self.enabled.into_iter().enumerate();
        merged.extend(rest.filter(|(index, _)| !replaced.contains(index)).map(|(_, entry)| entry));
        self.enabled = merged;
        self
    }
}

fn named(name: &str, path: &Path, errors: &mut Errors) -> Option<Plugin> {
    if name.is_empty() {
        errors.push(Error::required(&path.child("name"), "which plugin?"));
        return None;
    }
    match plugin::named(name) {
        Ok(plugin) => Some(plugin),
        Err(fix) => {
            errors.push(Error::invalid(path, name, fix));
            None
        }
    }
}

/// The plugins of a profile.
pub(super) fn lineup(wire: &file::Plugins, path: &Path, errors: &mut Errors) -> Lineup {
    let defaults = DEFAULTS.map(|(plugin, weight)| Entry { plugin, weight, path: None });
    let everywhere =
        Set::read(&wire.multi_point, &path.child("multiPoint"), errors).over(&defaults);
    let mut lineup = Lineup { points: BTreeMap::new(), weights: BTreeMap::new() };
    let mut twice = BTreeSet::new();
    for point in ExtensionPoint::ALL {
        let set = Set::read(at(wire, point), &path.child(point.field()), errors);
        check(&set, point, errors);
        if point == ExtensionPoint::Score {
            lineup.weights = weights(set.enabled.iter().chain(&everywhere.enabled));
        }
        let plugins = expand(set, point, &everywhere, &mut twice);
        if !plugins.is_empty() {
            lineup.points.insert(point, plugins);
        }
    }
    let mut seen = BTreeSet::new();
    for Entry { plugin, path, .. } in &everywhere.enabled {
        if twice.contains(plugin) && !seen.insert(*plugin) {
            errors.push(Error::duplicate(path.as_ref().unwrap_or(&Path::root()), plugin.name()));
        }
    }
    lineup
}

fn at(wire: &file::Plugins, point: ExtensionPoint) -> &file::PluginSet {
    match point {
        ExtensionPoint::PreEnqueue => &wire.pre_enqueue,
        ExtensionPoint::QueueSort => &wire.queue_sort,
        ExtensionPoint::PreFilter => &wire.pre_filter,
        ExtensionPoint::Filter => &wire.filter,
        ExtensionPoint::PostFilter => &wire.post_filter,
        ExtensionPoint::PreScore => &wire.pre_score,
        ExtensionPoint::Score => &wire.score,
        ExtensionPoint::Reserve => &wire.reserve,
        ExtensionPoint::Permit => &wire.permit,
        ExtensionPoint::PreBind => &wire.pre_bind,
        ExtensionPoint::Bind => &wire.bind,
        ExtensionPoint::PostBind => &wire.post_bind,
    }
}

/// What a plugin's score counts: what is said at `score` goes before `multiPoint`, and nothing
/// said is 1.
fn weights<'a>(entries: impl Iterator<Item = &'a Entry>) -> BTreeMap<Plugin, i32> {
    let mut weights = BTreeMap::new();
    for entry in entries.filter(|entry| runs_at(entry.plugin, ExtensionPoint::Score)) {
        weights.entry(entry.plugin).or_insert(entry.weight.max(1));
    }
    weights
}

/// Every plugin that is named for an extension point has it, and is named once.
fn check(set: &Set, point: ExtensionPoint, errors: &mut Errors) {
    let mut seen = BTreeSet::new();
    for Entry { plugin, path, .. } in &set.enabled {
        let path = path.clone().unwrap_or_default();
        if !runs_at(*plugin, point) {
            let field = point.field();
            let fix = format!("plugin \"{plugin}\" does not extend {field}");
            errors.push(Error::invalid(&path, plugin.name(), fix));
        } else if !seen.insert(*plugin) {
            errors.push(Error::duplicate(&path, plugin.name()));
        }
    }
}

/// The plugins at one extension point: first those that it names and `multiPoint` has too, then the
/// others of `multiPoint`, then the others that it names.
fn expand(
    set: Set,
    point: ExtensionPoint,
    everywhere: &Set,
    twice: &mut BTreeSet<Plugin>,
) -> Vec<Plugin> {
    let own: Vec<Plugin> = set.enabled.iter().map(|entry| entry.plugin).collect();
    if set.all_disabled {
        return own;
    }
    let mut overridden = BTreeSet::new();
    let mut others = Vec::new();
    for Entry { plugin, .. } in &everywhere.enabled {
        if !runs_at(*plugin, point) || set.disabled.contains(plugin) {
            continue;
        }
        if own.contains(plugin) {
            overridden.insert(*plugin);
        } else if others.contains(plugin) {
            twice.insert(*plugin);
        } else {
            others.push(*plugin);
        }
    }
    let (mut first, last): (Vec<Plugin>, Vec<Plugin>) =
        own.into_iter().partition(|plugin| overridden.contains(plugin));
    first.extend(others);
    first.extend(last);
    first
}
