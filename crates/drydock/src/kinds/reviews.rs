//! Questions that are asked by creating an object and answered in its status; nothing is stored.

use object::field::{Error, Errors, Path};
use serde_json::{Value, json};

use super::Strategy;
use crate::answer::Failure;
use crate::answer::failure::GroupResource;
use crate::request::Identity;
use crate::request::authenticate::Credential;

/// The group of those who have no credentials.
const STRANGERS: &str = "system:unauthenticated";
/// What strangers may read, as in any cluster.
const OPEN: [&str; 5] = ["/healthz", "/livez", "/readyz", "/version", "/version/"];

/// Who asks, and who is known.
pub struct Asker<'a> {
    /// The client.
    pub identity: &'a Identity,
    /// Everyone who may enter.
    pub credentials: &'a [Credential],
}

/// May somebody do something? Whoever has credentials may do everything; who has none may see whether a
/// server is well, and which version it is.
pub(super) enum Access {
    /// The client asks about itself.
    OfClient,
    /// The question names a user or groups.
    OfSubject,
}

/// What may the client do? Everything.
pub(super) struct Rules;

/// Who is the client?
pub(super) struct Myself;

/// Whose token is this?
pub(super) struct Token;

impl Strategy for Access {
    fn answer(&self, _asker: &Asker<'_>, object: &Value) -> Option<Result<Value, Failure>> {
        let errors = self.check(&object["spec"]);
        let kind = GroupResource { group: "authorization.k8s.io", resource: "" };
        Some(match errors.is_empty() {
            true => Ok(json!({"allowed": self.is_allowed(&object["spec"])})),
            false => Err(Failure::invalid(&kind, "", &errors)),
        })
    }
}

impl Access {
    fn is_allowed(&self, spec: &Value) -> bool {
        let groups = spec["groups"].as_array().map(Vec::as_slice).unwrap_or_default();
        let is_of = |group: &str| groups.iter().any(|own| own == group);
        let is_stranger = spec["user"] == "system:anonymous" || is_of(STRANGERS);
        let asked = &spec["nonResourceAttributes"];
        let is_open = asked["verb"] == "get" && OPEN.iter().any(|open| asked["path"] == *open);
        matches!(self, Self::OfClient) || !is_stranger || (is_open && is_of(STRANGERS))
    }

    fn check(&self, spec: &Value) -> Errors {
        let at = Path::new("spec");
        let mut errors = Errors::new();
        let path = &spec["nonResourceAttributes"];
        match (path.is_null(), spec["resourceAttributes"].is_null()) {
            (true, true) => errors.push(Error::invalid(
                &at.child("resourceAttributes"),
                Value::Null,
                "exactly one of nonResourceAttributes or resourceAttributes must be specified",
            )),
            (false, false) => errors.push(Error::invalid(
                &at.child("nonResourceAttributes"),
                // Upstream shows its own struct.
                json!({"Path": path["path"], "Verb": path["verb"]}),
                "cannot be specified in combination with resourceAttributes",
            )),
            _ => {}
        }
        let is_named = spec["user"].as_str().is_some_and(|user| !user.is_empty())
            || spec["groups"].as_array().is_some_and(|groups| !groups.is_empty());
        if matches!(self, Self::OfSubject) && !is_named {
            let why = "at least one of user or group must be specified";
            errors.push(Error::invalid(&at.child("user"), "", why));
        }
        errors
    }
}

impl Strategy for Rules {
    fn answer(&self, _asker: &Asker<'_>, _object: &Value) -> Option<Result<Value, Failure>> {
        Some(Ok(json!({
            "resourceRules": [{"verbs": ["*"], "apiGroups": ["*"], "resources": ["*"]}],
            "nonResourceRules": [{"verbs": ["*"], "nonResourceURLs": ["*"]}],
            "incomplete": false,
        })))
    }
}

impl Strategy for Myself {
    fn answer(&self, asker: &Asker<'_>, _object: &Value) -> Option<Result<Value, Failure>> {
        Some(Ok(json!({"userInfo": user(asker.identity)})))
    }
}

impl Strategy for Token {
    fn answer(&self, asker: &Asker<'_>, object: &Value) -> Option<Result<Value, Failure>> {
        let token = object["spec"]["token"].as_str().unwrap_or_default();
        if token.is_empty() {
            let why = "token is required for TokenReview in authentication";
            return Some(Err(Failure::bad_request(why)));
        }
        let known = asker.credentials.iter().find(|credential| credential.token == token);
        Some(Ok(match known {
            Some(credential) => json!({"authenticated": true, "user": user(&credential.identity)}),
            None => json!({"user": {}, "error": "invalid bearer token"}),
        }))
    }
}

fn user(identity: &Identity) -> Value {
    let mut groups = identity.groups.clone();
    groups.push("system:authenticated".to_owned());
    json!({"username": identity.user, "groups": groups})
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_may_see_whether_a_server_is_well() {
        let check = |groups: &[&str], verb: &str, path: &str, expected: bool| {
            let spec = json!({"user": "system:anonymous", "groups": groups,
                              "nonResourceAttributes": {"path": path, "verb": verb}});
            assert_eq!(Access::OfSubject.is_allowed(&spec), expected, "{spec}");
        };
        for path in OPEN {
            check(&[STRANGERS], "get", path, true);
            check(&[STRANGERS], "post", path, false);
            check(&[], "get", path, false);
        }
        for path in ["/metrics", "/debug/queue", "/livez/ping", ""] {
            check(&[STRANGERS], "get", path, false);
        }
        let group = json!({"groups": [STRANGERS], "resourceAttributes": {}});
        assert!(!Access::OfSubject.is_allowed(&group));
        assert!(Access::OfClient.is_allowed(&group));
        let somebody = json!({"user": "somebody", "resourceAttributes": {}});
        assert!(Access::OfSubject.is_allowed(&somebody));
    }
}
