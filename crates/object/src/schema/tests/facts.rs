//! The facts of the CRDs this project serves: each schema, put together again from
//! its flat list of fields, is accepted with all its rules.

use std::path::Path as File;

use super::*;

/// Where the schema of the field at `path` stands: `a.b[].c{}` names fields, elements
/// and values.
fn place<'s>(root: &'s mut Value, path: &str) -> &'s mut Value {
    let mut at = root;
    let mut rest = path;
    while !rest.is_empty() {
        (at, rest) = if let Some(after) = rest.strip_prefix("[]") {
            (&mut at["items"], after)
        } else if let Some(after) = rest.strip_prefix("{}") {
            (&mut at["additionalProperties"], after)
        } else {
            let name = rest.strip_prefix('.').unwrap_or(rest);
            let end = name.find(['.', '[', '{']).unwrap_or(name.len());
            (&mut at["properties"][&name[..end]], &name[end..])
        };
    }
    at
}

fn schema_of(version: &Value) -> (Value, usize) {
    let mut schema = json!({"type": "object"});
    let mut rules = 0;
    for (path, fact) in version["fields"].as_object().unwrap() {
        let fact = match fact {
            Value::String(kind) => json!({"type": kind}),
            other => other.clone(),
        };
        let at = place(&mut schema, path);
        for (key, value) in fact.as_object().unwrap() {
            match (key.as_str(), value.as_str()) {
                ("type", Some("int-or-string")) => at["x-kubernetes-int-or-string"] = true.into(),
                ("type", Some("any")) => {}
                ("required", _) => {}
                ("cel", _) => {
                    let written = value.as_array().unwrap();
                    rules += written.len();
                    let written: Vec<Value> =
                        written.iter().map(|rule| json!({"rule": rule})).collect();
                    at["x-kubernetes-validations"] = written.into();
                }
                _ => at[key.as_str()] = value.clone(),
            }
        }
        if fact.get("required") == Some(&Value::Bool(true))
            && let Some(dot) = path.rfind('.').or_else(|| (!path.is_empty()).then_some(0))
        {
            let name = path[dot..].trim_start_matches('.');
            let parent = place(&mut schema, &path[..dot]);
            if parent["required"].is_null() {
                parent["required"] = json!([]);
            }
            parent["required"].as_array_mut().unwrap().push(name.into());
        }
    }
    (schema, rules)
}

#[test]
fn every_served_crd_is_accepted_with_its_rules() {
    let folder = File::new(env!("CARGO_MANIFEST_DIR")).join("../../tests/facts/crds");
    let (mut versions, mut rules) = (0, 0);
    let mut wrong = Vec::new();
    for project in std::fs::read_dir(folder).unwrap() {
        for file in std::fs::read_dir(project.unwrap().path()).unwrap() {
            let file = file.unwrap().path();
            let facts: Value = serde_json::from_slice(&std::fs::read(&file).unwrap()).unwrap();
            for version in facts["versions"].as_array().unwrap() {
                let (schema, count) = schema_of(version);
                versions += 1;
                rules += count;
                for error in crd(&schema).err().unwrap_or_default() {
                    wrong.push(format!("{}: {error}", file.display()));
                }
            }
        }
    }
    assert!(wrong.is_empty(), "{}", wrong.join("\n"));
    assert!(versions > 60 && rules > 100, "{versions} versions, {rules} rules");
}
