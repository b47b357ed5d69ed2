//! Which resource a request is about, and where it lives on the server.

use api::{ObjectMeta, Resource};
use percent_encoding::{AsciiSet, CONTROLS, utf8_percent_encode};
use serde::Deserialize;

use super::error::Error;
use crate::key::Key;

/// What must be escaped in a path segment or a query value.
const RESERVED: &AsciiSet = &CONTROLS
    .add(b' ')
    .add(b'"')
    .add(b'#')
    .add(b'%')
    .add(b'&')
    .add(b'+')
    .add(b'/')
    .add(b'<')
    .add(b'>')
    .add(b'?')
    .add(b'[')
    .add(b'\\')
    .add(b']')
    .add(b'^')
    .add(b'`')
    .add(b'{')
    .add(b'|')
    .add(b'}');

/// A resource as the API server's paths name it.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord)]
pub struct ResourceType {
    /// The API group; empty for the core group.
    pub group: String,
    /// The version, such as `v1`.
    pub version: String,
    /// The plural in paths, such as `pods`.
    pub plural: String,
    /// Whether its objects live in namespaces.
    pub namespaced: bool,
}

impl ResourceType {
    /// The resource that a struct of the `api` crate describes.
    #[must_use]
    pub fn of<T: Resource>() -> Self {
        let named = Self::namespaced(T::GROUP, T::VERSION, T::PLURAL);
        Self { namespaced: T::NAMESPACED, ..named }
    }

    /// A resource whose objects live in namespaces.
    #[must_use]
    pub fn namespaced(group: &str, version: &str, plural: &str) -> Self {
        Self {
            group: group.to_owned(),
            version: version.to_owned(),
            plural: plural.to_owned(),
            namespaced: true,
        }
    }

    /// A resource whose objects belong to the whole cluster.
    #[must_use]
    pub fn cluster(group: &str, version: &str, plural: &str) -> Self {
        Self { namespaced: false, ..Self::namespaced(group, version, plural) }
    }

    /// The path of the collection, in one namespace or (where empty) in all.
    pub(crate) fn collection_path(&self, namespace: &str) -> Result<String, Error> {
        let mut path = String::with_capacity(64);
        if self.group.is_empty() {
            path.push_str("/api/");
        } else {
            path.push_str("/apis/");
            push_segment(&mut path, "API group", &self.group)?;
            path.push('/');
        }
        push_segment(&mut path, "API version", &self.version)?;
        if !namespace.is_empty() {
            path.push_str("/namespaces/");
            push_segment(&mut path, "namespace", namespace)?;
        }
        path.push('/');
        push_segment(&mut path, "resource", &self.plural)?;
        Ok(path)
    }

    /// The path of one object.
    pub(crate) fn object_path(&self, namespace: &str, name: &str) -> Result<String, Error> {
        if self.namespaced && namespace.is_empty() {
            return Err(Error::Request {
                what: format!("{}/{name} needs a namespace", self.plural),
            });
        }
        let mut path = self.collection_path(namespace)?;
        path.push('/');
        push_segment(&mut path, "name", name)?;
        Ok(path)
    }
}

impl std::fmt::Display for ResourceType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.group.is_empty() {
            return write!(f, "{}.{}", self.plural, self.version);
        }
        write!(f, "{}.{}.{}", self.plural, self.version, self.group)
    }
}

fn push_segment(path: &mut String, what: &str, segment: &str) -> Result<(), Error> {
    // These would name another path than the one that is meant; the API server allows no
    // object to be called so.
    if segment.is_empty() || segment == "." || segment == ".." || segment.contains(['/', '%']) {
        return Err(Error::Request { what: format!("{segment:?} cannot be used as {what}") });
    }
    path.extend(utf8_percent_encode(segment, RESERVED));
    Ok(())
}

/// Appends `?key=value` or `&key=value`.
pub(crate) fn push_query(path: &mut String, key: &str, value: &str) {
    path.push(if path.contains('?') { '&' } else { '?' });
    path.push_str(key);
    path.push('=');
    path.extend(utf8_percent_encode(value, RESERVED));
}

/// What of an object's metadata tells it, and its version, from every other.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Identity<'a> {
    /// Its namespace; empty for a cluster-scoped kind.
    pub namespace: &'a str,
    /// Its name.
    pub name: &'a str,
    /// Its uid, which no later object of the same name shares.
    pub uid: &'a str,
    /// The version of this state of it.
    pub resource_version: &'a str,
}

impl Identity<'_> {
    /// Namespace and name as one key.
    #[must_use]
    pub fn key(&self) -> Key {
        Key::new(self.namespace, self.name)
    }
}

impl<'a> From<&'a ObjectMeta> for Identity<'a> {
    fn from(meta: &'a ObjectMeta) -> Self {
        Self {
            namespace: &meta.namespace,
            name: &meta.name,
            uid: &meta.uid,
            resource_version: &meta.resource_version,
        }
    }
}

/// A type that objects are decoded into, which keeps at least their identity.
pub trait Object: serde::de::DeserializeOwned + Send + 'static {
    /// Who this is, at which version.
    fn identity(&self) -> Identity<'_>;
}

impl<T: Resource + serde::de::DeserializeOwned + Send + 'static> Object for T {
    fn identity(&self) -> Identity<'_> {
        self.meta().into()
    }
}

/// The identity of an object, who manages it and nothing else of it: what is read of an object
/// whose rest does not fit the type it should have.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
pub struct Nameplate {
    /// The few fields of `metadata` that are read.
    #[serde(default)]
    pub metadata: NameplateMeta,
}

/// The fields of `metadata` that make an identity, and the one that tells who answers for it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct NameplateMeta {
    /// The namespace; empty for a cluster-scoped kind.
    pub namespace: String,
    /// The name.
    pub name: String,
    /// The uid.
    pub uid: String,
    /// The version.
    pub resource_version: String,
    /// The uid of the owner that manages the object.
    #[serde(rename = "ownerReferences", deserialize_with = "controller_of")]
    pub controller: Option<Box<str>>,
}

/// Of all owners, the uid of the one that manages the object.
fn controller_of<'de, D: serde::Deserializer<'de>>(wire: D) -> Result<Option<Box<str>>, D::Error> {
    #[derive(Deserialize)]
    struct Owner {
        uid: Box<str>,
        controller: Option<bool>,
    }
    let owners = Option::<Vec<Owner>>::deserialize(wire)?.unwrap_or_default();
    Ok(owners.into_iter().find(|owner| owner.controller == Some(true)).map(|owner| owner.uid))
}

impl Object for Nameplate {
    fn identity(&self) -> Identity<'_> {
        let meta = &self.metadata;
        Identity {
            namespace: &meta.namespace,
            name: &meta.name,
            uid: &meta.uid,
            resource_version: &meta.resource_version,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_name_group_version_namespace_and_object() {
        let pods = ResourceType::namespaced("", "v1", "pods");
        let nodes = ResourceType::cluster("", "v1", "nodes");
        let leases = ResourceType::namespaced("coordination.k8s.io", "v1", "leases");
        let check = |got: Result<String, Error>, want: &str| match got {
            Ok(path) => assert_eq!(path, want),
            Err(error) => assert_eq!(error.to_string(), want),
        };
        check(pods.collection_path(""), "/api/v1/pods");
        check(pods.object_path("shop", "web-0"), "/api/v1/namespaces/shop/pods/web-0");
        check(nodes.object_path("", "n1"), "/api/v1/nodes/n1");
        check(
            leases.object_path("kube-node-lease", "n1"),
            "/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases/n1",
        );
        check(nodes.object_path("", "system:x y"), "/api/v1/nodes/system:x%20y");
        check(pods.object_path("", "web-0"), "invalid request: pods/web-0 needs a namespace");
        check(nodes.object_path("", ".."), "invalid request: \"..\" cannot be used as name");
        check(nodes.object_path("", "a/b"), "invalid request: \"a/b\" cannot be used as name");
        check(nodes.object_path("", ""), "invalid request: \"\" cannot be used as name");
    }

    #[test]
    fn query_values_are_escaped() {
        let mut path = "/api/v1/pods".to_owned();
        push_query(&mut path, "labelSelector", "app in (a,b),x!=y&z");
        push_query(&mut path, "limit", "500");
        assert_eq!(path, "/api/v1/pods?labelSelector=app%20in%20(a,b),x!=y%26z&limit=500");
        assert!(path.parse::<http::Uri>().is_ok());
    }
}
