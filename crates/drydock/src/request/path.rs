//! From a URL path to what it names.

use percent_encoding::percent_decode_str;

/// Where a path leads.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Route {
    /// A resource, or one object, or a part of one.
    Resource(Target),
    /// `/api`: the versions of the core group.
    CoreVersions,
    /// `/apis`: all groups.
    Groups,
    /// `/apis/GROUP`.
    Group(String),
    /// `/api/VERSION` or `/apis/GROUP/VERSION`.
    GroupVersion(String, String),
    /// `/openapi/v2`: the older form.
    OpenApiV2,
    /// `/openapi/v3`: the index.
    OpenApiV3,
    /// `/openapi/v3/api/v1` or `/openapi/v3/apis/GROUP/VERSION`.
    OpenApiV3Group(String, String),
    /// `/version`.
    Version,
    /// `/healthz`, `/livez` or `/readyz`, without the slash, and one of its checks.
    Health(String, Option<String>),
    /// `/metrics`.
    Metrics,
    /// `/`: the list of paths.
    Root,
    /// Nowhere.
    Unknown,
}

/// A resource as a path names it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Target {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version.
    pub version: String,
    /// The namespace, where the path names one.
    pub namespace: Option<String>,
    /// The plural resource name.
    pub resource: String,
    /// The object's name, where the path names one.
    pub name: Option<String>,
    /// The subresource, where the path names one.
    pub subresource: Option<String>,
}

impl Route {
    /// Reads a path.
    #[must_use]
    pub fn parse(path: &str) -> Self {
        let parts: Vec<String> = path
            .split('/')
            .filter(|part| !part.is_empty())
            .map(|part| percent_decode_str(part).decode_utf8_lossy().into_owned())
            .collect();
        let parts: Vec<&str> = parts.iter().map(String::as_str).collect();
        match parts.as_slice() {
            [] => Self::Root,
            ["api"] => Self::CoreVersions,
            ["apis"] => Self::Groups,
            ["api", version] => Self::GroupVersion(String::new(), (*version).to_owned()),
            ["apis", group] => Self::Group((*group).to_owned()),
            ["apis", group, version] => {
                Self::GroupVersion((*group).to_owned(), (*version).to_owned())
            }
            ["api", version, rest @ ..] => Target::parse("", version, rest),
            ["apis", group, version, rest @ ..] => Target::parse(group, version, rest),
            ["openapi", "v2"] => Self::OpenApiV2,
            ["openapi", "v3"] => Self::OpenApiV3,
            ["openapi", "v3", "api", version] => {
                Self::OpenApiV3Group(String::new(), (*version).to_owned())
            }
            ["openapi", "v3", "apis", group, version] => {
                Self::OpenApiV3Group((*group).to_owned(), (*version).to_owned())
            }
            ["version"] => Self::Version,
            ["metrics"] => Self::Metrics,
            [health @ ("healthz" | "livez" | "readyz")] => Self::Health((*health).to_owned(), None),
            [health @ ("healthz" | "livez" | "readyz"), check] => {
                Self::Health((*health).to_owned(), Some((*check).to_owned()))
            }
            _ => Self::Unknown,
        }
    }
}

impl Target {
    fn parse(group: &str, version: &str, rest: &[&str]) -> Route {
        let (namespace, rest) = match rest {
            // `namespaces/x/finalize` and `namespaces/x/status` are parts of the namespace itself.
            ["namespaces", _, "finalize" | "status"] => (None, rest),
            ["namespaces", namespace, rest @ ..] if !rest.is_empty() => {
                (Some((*namespace).to_owned()), rest)
            }
            _ => (None, rest),
        };
        let [resource, rest @ ..] = rest else { return Route::Unknown };
        let (name, subresource) = match rest {
            [] => (None, None),
            [name] => (Some(*name), None),
            [name, subresource] => (Some(*name), Some(*subresource)),
            _ => return Route::Unknown,
        };
        Route::Resource(Self {
            group: group.to_owned(),
            version: version.to_owned(),
            namespace,
            resource: (*resource).to_owned(),
            name: name.map(str::to_owned),
            subresource: subresource.map(str::to_owned),
        })
    }

    /// The key under which the store keeps the named object.
    #[must_use]
    pub fn key(&self) -> String {
        self.key_of(self.name.as_deref().unwrap_or_default())
    }

    /// The key of another object in the same place.
    #[must_use]
    pub fn key_of(&self, name: &str) -> String {
        match &self.namespace {
            Some(namespace) => format!("{namespace}/{name}"),
            None => name.to_owned(),
        }
    }

    /// What the keys of all objects in this place start with.
    #[must_use]
    pub fn prefix(&self) -> String {
        self.key_of("")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check(path: &str, text: &str) {
        let shown = match Route::parse(path) {
            Route::Resource(target) => format!(
                "{}/{} ns={} {} {} {}",
                target.group,
                target.version,
                target.namespace.as_deref().unwrap_or("-"),
                target.resource,
                target.name.as_deref().unwrap_or("-"),
                target.subresource.as_deref().unwrap_or("-")
            ),
            other => format!("{other:?}"),
        };
        assert_eq!(shown, text, "{path}");
    }

    #[test]
    fn a_path_names_a_resource_an_object_or_a_part_of_one() {
        check("/api/v1/pods", "/v1 ns=- pods - -");
        check("/api/v1/namespaces", "/v1 ns=- namespaces - -");
        check("/api/v1/namespaces/a", "/v1 ns=- namespaces a -");
        check("/api/v1/namespaces/a/status", "/v1 ns=- namespaces a status");
        check("/api/v1/namespaces/a/pods", "/v1 ns=a pods - -");
        check("/api/v1/namespaces/a/pods/b/binding", "/v1 ns=a pods b binding");
        check("/apis/apps/v1/namespaces/a/deployments/b/scale", "apps/v1 ns=a deployments b scale");
        check("/api/v1/nodes/a%2Fb", "/v1 ns=- nodes a/b -");
        check("/api/v1/nodes/a/proxy/b/c", "Unknown");
        check("/apis/apps/v1", "GroupVersion(\"apps\", \"v1\")");
        check("/openapi/v3/apis/apps/v1", "OpenApiV3Group(\"apps\", \"v1\")");
        check("/readyz", "Health(\"readyz\", None)");
        check("/readyz/ping", "Health(\"readyz\", Some(\"ping\"))");
        check("/readyz/ping/pong", "Unknown");
        check("/nothing", "Unknown");
    }
}
