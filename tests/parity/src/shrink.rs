//! A small script that still differs.

use anyhow::Result;
use serde_json::Value;

use crate::generate::{Script, Step};

/// Leaves out what is not needed for a script to fail.
///
/// # Errors
/// When a script cannot be played.
pub fn shrink(script: &Script, fails: &mut dyn FnMut(&Script) -> Result<bool>) -> Result<Script> {
    let mut small = script.clone();
    loop {
        let before = size(&small);
        for index in (0..small.steps.len()).rev() {
            let mut less = small.clone();
            less.steps.remove(index);
            if fails(&less).unwrap_or(false) {
                small = less;
            }
        }
        for index in (0..small.objects.len()).rev() {
            let mut less = small.clone();
            less.objects.remove(index);
            if fails(&less).unwrap_or(false) {
                small = less;
            }
        }
        for object in 0..small.objects.len() {
            for path in paths(&small.objects[object]) {
                let mut less = small.clone();
                cut(&mut less.objects[object], &path);
                if fails(&less).unwrap_or(false) {
                    small = less;
                }
            }
        }
        for less in with_less_configuration(&small) {
            if fails(&less).unwrap_or(false) {
                small = less;
                break;
            }
        }
        for step in 0..small.steps.len() {
            let Step::Probe(pod) = &small.steps[step] else { continue };
            for path in paths(pod) {
                let mut less = small.clone();
                if let Step::Probe(pod) = &mut less.steps[step] {
                    cut(pod, &path);
                }
                if fails(&less).unwrap_or(false) {
                    small = less;
                }
            }
        }
        if size(&small) == before {
            return Ok(small);
        }
    }
}

/// The same with the default configuration, or with one thing less in its own.
fn with_less_configuration(script: &Script) -> Vec<Script> {
    let Some(config) = &script.config else { return Vec::new() };
    let with = |config| Script { config, ..script.clone() };
    let mut all = vec![with(None)];
    for path in paths(config) {
        let mut less = config.clone();
        cut(&mut less, &path);
        all.push(with(Some(less)));
    }
    all
}

fn size(script: &Script) -> usize {
    script.request().to_string().len()
}

/// Every place inside an object that may be cut, but for what names it.
fn paths(object: &Value) -> Vec<Vec<String>> {
    fn walk(value: &Value, path: &mut Vec<String>, paths: &mut Vec<Vec<String>>) {
        let children: Vec<(String, &Value)> = match value {
            Value::Object(map) => map.iter().map(|(key, value)| (key.clone(), value)).collect(),
            Value::Array(list) => list
                .iter()
                .enumerate()
                .map(|(index, value)| (index.to_string(), value))
                .rev()
                .collect(),
            _ => return,
        };
        for (key, child) in children {
            path.push(key);
            paths.push(path.clone());
            walk(child, path, paths);
            path.pop();
        }
    }
    let mut all = Vec::new();
    walk(object, &mut Vec::new(), &mut all);
    let kept = [
        "apiVersion",
        "kind",
        "metadata/name",
        "metadata/namespace",
        "metadata/uid",
        // Without it, the API server takes it from the capacity.
        "status/allocatable",
    ];
    all.retain(|path| path.len() > 1 && !kept.contains(&path.join("/").as_str()));
    // Without these the API server would not have what is around them.
    let needed = ["key", "operator", "values", "topologyKey", "maxSkew", "whenUnsatisfiable"];
    all.retain(|path| path.last().is_some_and(|last| !needed.contains(&last.as_str())));
    all
}

fn cut(object: &mut Value, path: &[String]) {
    let [parents @ .., last] = path else { return };
    let mut place = object;
    for key in parents {
        let next = match place {
            Value::Object(map) => map.get_mut(key),
            Value::Array(list) => key.parse().ok().and_then(|index: usize| list.get_mut(index)),
            _ => None,
        };
        let Some(next) = next else { return };
        place = next;
    }
    match place {
        Value::Object(map) => {
            map.remove(last);
        }
        Value::Array(list) => {
            if let Ok(index) = last.parse::<usize>()
                && index < list.len()
            {
                list.remove(index);
            }
        }
        _ => {}
    }
}
