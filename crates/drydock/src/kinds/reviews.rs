//! Questions that are asked by creating an object and answered in its status; nothing is stored.

use serde_json::{Value, json};

use super::Strategy;
use crate::request::Identity;
use crate::request::authenticate::Credential;

/// Who asks, and who is known.
pub struct Asker<'a> {
    /// The client.
    pub identity: &'a Identity,
    /// Everyone who may enter.
    pub credentials: &'a [Credential],
}

/// May somebody do something? Whoever has credentials may do everything.
pub(super) struct Access;

/// What may the client do? Everything.
pub(super) struct Rules;

/// Who is the client?
pub(super) struct Myself;

/// Whose token is this?
pub(super) struct Token;

impl Strategy for Access {
    fn answer(&self, _asker: &Asker<'_>, _object: &Value) -> Option<Value> {
        Some(json!({"allowed": true}))
    }
}

impl Strategy for Rules {
    fn answer(&self, _asker: &Asker<'_>, _object: &Value) -> Option<Value> {
        Some(json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        }))
    }
}

impl Strategy for Myself {
    fn answer(&self, asker: &Asker<'_>, _object: &Value) -> Option<Value> {
        Some(json!({"userInfo": user(asker.identity)}))
    }
}

impl Strategy for Token {
    fn answer(&self, asker: &Asker<'_>, object: &Value) -> Option<Value> {
        let token = object["spec"]["token"].as_str().unwrap_or_default();
        let known = asker.credentials.iter().find(|credential| credential.token == token);
        Some(match known {
            Some(credential) => json!({"authenticated": true, "user": user(&credential.identity)}),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        })
    }
}

fn user(identity: &Identity) -> Value {
    let mut groups = identity.groups.clone();
    groups.push("system:authenticated".to_owned());
    json!({"username": identity.user, "groups": groups})
}
