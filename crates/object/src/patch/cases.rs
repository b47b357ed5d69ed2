//! Cases whose results upstream's own libraries computed (apimachinery 0.35.4 and
//! the JSON patch library of kube-apiserver 1.35.4), over random Pods and Deployments.

use serde_json::{Map, Value};

use super::strategic::openapi::OpenApi;
use super::three_way::{self, OnConflict, ThreeWayError};
use super::{PatchError, json, merge, strategic};
use crate::json::{Limits, decode, encode};

fn fields(case: &Value, name: &str) -> Map<String, Value> {
    case[name].as_object().cloned().unwrap_or_default()
}

fn three_way_text(error: ThreeWayError) -> String {
    match error {
        ThreeWayError::Conflict { .. } => "conflict".to_owned(),
        ThreeWayError::Patch(error) => error.to_string(),
    }
}

/// Plays one case and gives what upstream's result is compared with.
fn play(case: &Value) -> Result<Value, String> {
    let [original, patch, modified, current] =
        ["original", "patch", "modified", "current"].map(|name| fields(case, name));
    let schema = || OpenApi::of(case["type"].as_str().unwrap());
    let text = |error: PatchError| error.to_string();
    let three_way = |on_conflict| {
        three_way::strategic(&original, &modified, &current, &schema(), on_conflict)
            .map_err(three_way_text)
    };
    let result = match case["kind"].as_str().unwrap() {
        "apply" => strategic::apply(original, patch, &schema()).map_err(text)?,
        "diff" => strategic::diff(&original, &modified, &schema()).map_err(text)?,
        "threeWay" => three_way(OnConflict::Overwrite)?,
        "threeWayStrict" => three_way(OnConflict::Refuse)?,
        "threeWayJson" => {
            three_way::json_merge(&original, &modified, &current).map_err(three_way_text)?
        }
        "merge" => {
            return merge::apply(case["original"].clone(), case["patch"].clone()).map_err(text);
        }
        "json" => {
            let patch = json::Patch::read(&encode(&case["patch"]), Limits::default());
            let applied = patch.map_err(text)?.apply(case["original"].clone(), Limits::default());
            return applied.map_err(text);
        }
        other => panic!("a case of kind {other}"),
    };
    Ok(Value::Object(result))
}

fn check(text: &str) {
    let cases = decode(text.as_bytes(), Limits::default()).unwrap().value;
    let mut wrong = 0;
    for (index, case) in cases.as_array().unwrap().iter().enumerate() {
        let truth = match case["error"].as_str() {
            Some(error) => Err(error.to_owned()),
            None => Ok(case["result"].clone()),
        };
        let ours = play(case);
        if ours != truth {
            wrong += 1;
            println!("case {index}: {case}\nours:  {ours:?}\ntruth: {truth:?}\n");
        }
    }
    assert_eq!(wrong, 0, "cases that differ from upstream");
}

#[test]
fn patches_give_what_upstream_gives() {
    check(include_str!("cases.json"));
}
