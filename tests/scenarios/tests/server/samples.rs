//! Every kind of Gantry on both servers: its definition installs, its samples are accepted,
//! defaulted, pruned and shown alike, and refused alike when wrong.

use std::fs;
use std::path::{Path, PathBuf};

use scenarios::Scenario;
use scenarios::request::{Request, delete, get, post, put};
use serde_json::{Value, json};

/// What `crates/api` keeps for tests.
fn folder() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../crates/api")
}

fn yaml(path: &Path) -> Value {
    let text = fs::read_to_string(path).unwrap();
    serde_saphyr::from_str(&text).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

fn definition_of(plural: &str) -> Value {
    let definitions =
        api::crds::all().map(|crd| serde_saphyr::from_str::<Value>(crd.yaml).unwrap());
    let mut found = definitions.filter(|crd| crd["spec"]["names"]["plural"] == plural);
    found.next().unwrap_or_else(|| panic!("no definition of {plural}"))
}

/// A sample, placed where the scenario may write.
struct Sample {
    file: String,
    object: Value,
    collection: String,
}

impl Sample {
    fn read(path: &Path, definition: &Value) -> Self {
        let file = path.file_name().unwrap().to_str().unwrap().to_owned();
        let mut object = yaml(path);
        let api_version = object["apiVersion"].as_str().unwrap().to_owned();
        let plural = definition["spec"]["names"]["plural"].as_str().unwrap();
        let collection = if definition["spec"]["scope"] == "Namespaced" {
            object["metadata"]["namespace"] = "{ns}".into();
            format!("/apis/{api_version}/namespaces/{{ns}}/{plural}")
        } else {
            let name = object["metadata"]["name"].as_str().unwrap();
            object["metadata"]["name"] = format!("{{ns}}-{name}").into();
            format!("/apis/{api_version}/{plural}")
        };
        Self { file, object, collection }
    }

    fn path(&self) -> String {
        format!("{}/{}", self.collection, self.object["metadata"]["name"].as_str().unwrap())
    }

    fn create(&self) -> Request {
        post(&self.collection, self.object.clone())
    }

    /// The same object, to be written over the one that is there, whatever its revision.
    fn over(&self, path: &str) -> Request {
        let mut object = self.object.clone();
        object["metadata"]["name"] = path.rsplit('/').next().unwrap().into();
        object["metadata"]["resourceVersion"] = "{revision}".into();
        put(path, object)
    }
}

fn samples(plural: &str) -> Vec<Sample> {
    let definition = definition_of(plural);
    let mut paths: Vec<PathBuf> = fs::read_dir(folder().join("samples").join(plural))
        .unwrap()
        .map(|entry| entry.unwrap().path())
        .collect();
    paths.sort();
    paths.iter().map(|path| Sample::read(path, &definition)).collect()
}

async fn play(plural: &str) {
    let samples = samples(plural);
    let minimal = samples.iter().find(|sample| sample.file == "minimal.yaml").unwrap();
    let definition = definition_of(plural);
    let has_status = !definition["spec"]["versions"][0]["subresources"]["status"].is_null();
    let read = |path: &str| get(path).expect(200).capture("revision", "/metadata/resourceVersion");
    let mut scenario = Scenario::new(&format!("samples_of_{plural}")).definition(definition);
    for sample in samples.iter().filter(|sample| !sample.file.starts_with("wrong")) {
        scenario = scenario
            .step(sample.create().query("fieldValidation", "Strict").expect(201).warned(0))
            .step(read(&sample.path()))
            .step(get(&sample.collection).header("Accept", TABLE).expect(200));
        if has_status {
            let status = format!("{}/status", sample.path());
            let mut write = sample.over(&sample.path());
            write.path.clone_from(&status);
            scenario = scenario.step(write.expect(200));
        }
        let mut stray = sample.over(&sample.path());
        stray = stray.json(with_stray(&sample.object));
        scenario = scenario
            .step(read(&sample.path()))
            .step(stray.query("fieldValidation", "Warn").expect(200))
            .step(delete(&sample.path()).expect(200));
    }
    scenario = scenario.step(minimal.create().expect(201));
    for sample in samples.iter().filter(|sample| sample.file.starts_with("wrong")) {
        if sample.file.starts_with("wrong-update") || sample.file.starts_with("wrong-status") {
            let mut write = sample.over(&minimal.path());
            if sample.file.starts_with("wrong-status") {
                write.path = format!("{}/status", minimal.path());
            }
            scenario = scenario.step(read(&minimal.path())).step(write.refused(422, "Invalid"));
        } else {
            scenario = scenario.step(sample.create().refused(422, "Invalid"));
        }
    }
    scenario.step(delete(&minimal.path()).expect(200)).run().await;
}

const TABLE: &str = "application/json;as=Table;v=v1;g=meta.k8s.io";

/// The object with fields that no schema knows.
fn with_stray(object: &Value) -> Value {
    let mut object = object.clone();
    object["metadata"]["resourceVersion"] = "{revision}".into();
    object["stray"] = json!(true);
    if object["spec"].is_object() {
        object["spec"]["stray"] = json!({"deep": [1, 2]});
    }
    object
}

macro_rules! kinds {
    ($($plural:ident)*) => {
        const KINDS: &[&str] = &[$(stringify!($plural)),*];
        $(
            #[tokio::test]
            async fn $plural() {
                play(stringify!($plural)).await;
            }
        )*
    };
}

kinds! {
    admissionchecks
    clustercolocationprofiles
    clusternetworktopologies
    devices
    elasticquotaprofiles
    elasticquotas
    nodemetrics
    noderesourcetopologies
    nodeslos
    podgroups
    podmigrationjobs
    provisioningrequestconfigs
    queues
    queueunits
    recommendations
    reservations
    scheduleexplanations
}

#[test]
fn every_kind_is_played() {
    let mut found: Vec<String> =
        api::crds::all().map(|crd| crd.name.split('.').next().unwrap().to_owned()).collect();
    found.sort();
    assert_eq!(found, KINDS);
}
