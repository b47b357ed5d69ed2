//! Ten thousand texts, read and written as quantities by a real kube-apiserver and by us.
//!
//! The capacities of a device in a `ResourceSlice` are quantities that the server neither
//! rounds nor bounds, and one object holds thousands. What we accept goes there in bulk and must
//! come back as we would write it. What we refuse goes alone, since one bad text spoils the
//! object, and must be refused in our words.

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use futures::{StreamExt, TryStreamExt, stream};
use object::quantity::Quantity;
use proptest::prelude::*;
use proptest::strategy::ValueTree;
use proptest::test_runner::TestRunner;
use scenarios::backend::{Backend, Lease, Scope};
use scenarios::client::Client;
use scenarios::request::{Request, post};
use serde_json::{Value, json};

const TEXTS: usize = 10_000;

/// The most devices of a slice and capacities of a device.
const DEVICES_MAX: usize = 128;
const CAPACITIES_MAX: usize = 32;

/// How many requests are under way at a time.
const REQUESTS_AT_A_TIME: usize = 16;

/// Texts that are quantities, are nearly so, or are not at all.
fn texts() -> impl Strategy<Value = String> {
    let digits = prop_oneof![4 => "[0-9]{0,4}", 2 => "[0-9]{1,25}", 1 => "0{0,3}[1-9]0{0,20}"];
    let fraction = prop_oneof![3 => "", 1 => r"\.", 3 => r"\.[0-9]{1,5}", 1 => r"\.[0-9]{6,14}"];
    let suffix = prop_oneof![
        4 => "[numkMGTPE]?",
        3 => "[KMGTPE]i",
        3 => "[eE][+-]?[0-9]{1,2}",
        1 => "[eE][+-]?[0-9]{0,4}",
        1 => "[eEinumkKMGTPZ]{0,3}[+-]?[0-9]{0,2}",
    ];
    let number = (r"[+-]?", digits, fraction, suffix)
        .prop_map(|(sign, digits, fraction, suffix)| format!("{sign}{digits}{fraction}{suffix}"));
    prop_oneof![
        40 => number.clone(),
        1 => number.clone().prop_map(|text| format!(" {text}")),
        1 => number.prop_map(|text| format!("{text}\u{a0}")),
        1 => "[-+.0-9eEkKMi ]{0,8}",
        1 => r#"[^"\\\x00-\x1f]{0,4}"#,
    ]
}

fn sampled() -> Vec<String> {
    let mut runner = TestRunner::deterministic();
    let strategy = texts();
    let sample = |_| strategy.new_tree(&mut runner).expect("nothing is filtered").current();
    (0..TEXTS).map(sample).collect()
}

/// What we make of a text that comes as JSON.
fn ours(text: &str) -> std::result::Result<String, String> {
    let quantity = serde_json::from_value::<Quantity>(json!(text));
    quantity.map(|quantity| quantity.to_string()).map_err(|error| error.to_string())
}

/// A slice with these texts as capacities, not to be stored.
fn slice(texts: &[&str]) -> Request {
    let devices = texts.chunks(CAPACITIES_MAX).enumerate().map(|(index, texts)| {
        let capacity: BTreeMap<String, Value> = texts
            .iter()
            .enumerate()
            .map(|(index, text)| (format!("c{index:02}"), json!({"value": text})))
            .collect();
        json!({"name": format!("d{index:03}"), "capacity": capacity})
    });
    let body = json!({
        "metadata": {"generateName": "quantities-"},
        "spec": {
            "driver": "gantry.test",
            "pool": {"name": "pool", "generation": 1, "resourceSliceCount": 1},
            "allNodes": true,
            "devices": devices.collect::<Vec<_>>(),
        },
    });
    post("/apis/resource.k8s.io/v1/resourceslices", body).query("dryRun", "All")
}

/// What the server makes of texts that it accepts, in order.
async fn accepted(client: &Client, texts: &[&str]) -> Result<Vec<String>> {
    let answer = client.send(&slice(texts)).await?;
    if answer.code != 201 {
        // One of these is not a quantity after all: the first such is a counterexample.
        for text in texts {
            let answer = client.send(&slice(&[text])).await?;
            ensure!(answer.code == 201, "we accept {text:?}: {}", answer.body["message"]);
        }
    }
    let devices = answer.body["spec"]["devices"].as_array().context("a slice has devices")?;
    let capacities = devices.iter().filter_map(|device| device["capacity"].as_object());
    let values = capacities.flat_map(|capacity| capacity.values());
    Ok(values.filter_map(|one| one["value"].as_str()).map(str::to_owned).collect())
}

async fn check_accepted(client: &Client, texts: &[(&str, String)]) -> Result<()> {
    for batch in texts.chunks(DEVICES_MAX * CAPACITIES_MAX) {
        let read: Vec<&str> = batch.iter().map(|(text, _)| *text).collect();
        let truth = accepted(client, &read).await?;
        ensure!(truth.len() == batch.len(), "{} of {} came back", truth.len(), batch.len());
        for ((text, ours), truth) in batch.iter().zip(truth) {
            ensure!(*ours == truth, "we write {text:?} as {ours}, kube-apiserver as {truth}");
        }
    }
    Ok(())
}

async fn check_refused(client: &Client, text: &str, ours: &str) -> Result<()> {
    let answer = client.send(&slice(&[text])).await?;
    ensure!(answer.code == 400, "we refuse {text:?}: {ours}");
    let message = answer.body["message"].as_str().unwrap_or_default();
    let truth = message.rsplit_once(" as a ResourceSlice: ").map_or(message, |(_, reason)| reason);
    // Ours names the value besides: who reads it may not know which one it is.
    let expected = format!("{text:?}: {truth}");
    ensure!(expected == ours, "we refuse {text:?} with {ours:?}, kube-apiserver with {truth:?}");
    Ok(())
}

#[tokio::test]
async fn ten_thousand_quantities_read_and_write_as_on_kube_apiserver() {
    let texts = sampled();
    let mut good = Vec::new();
    let mut bad = Vec::new();
    for text in &texts {
        match ours(text) {
            Ok(written) => good.push((text.as_str(), written)),
            Err(error) => bad.push((text.as_str(), error)),
        }
    }
    // Both sorts have to be there for this to prove anything.
    assert!(good.len() > TEXTS / 2 && bad.len() > TEXTS / 10, "{} {}", good.len(), bad.len());
    let lease = Lease::take(Backend::KubeApiServer, Scope::Namespaced, "").await.unwrap();
    let client = Client::new(&lease.server).unwrap();
    check_accepted(&client, &good).await.unwrap();
    let refusals = bad.iter().map(|(text, error)| check_refused(&client, text, error));
    let refusals = stream::iter(refusals).buffer_unordered(REQUESTS_AT_A_TIME);
    refusals.try_collect::<Vec<()>>().await.unwrap();
}
