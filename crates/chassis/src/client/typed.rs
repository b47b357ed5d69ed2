//! The kinds that have a struct: where they are served need not be said again.

use api::Resource;
use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::access::Access;
use super::error::Error;
use super::resource::ResourceType;
use super::{Call, Client};

/// An object as an API server takes it: the struct's fields, with `apiVersion` and `kind`.
#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Whole<'a, T> {
    api_version: String,
    kind: &'static str,
    #[serde(flatten)]
    object: &'a T,
}

impl<'a, T: Resource> Whole<'a, T> {
    fn of(object: &'a T) -> Self {
        Self { api_version: T::api_version(), kind: T::KIND, object }
    }
}

impl Client {
    /// The verbs of a kind, in all namespaces.
    ///
    /// ```no_run
    /// # async fn nodes(client: chassis::client::Client) -> Result<(), chassis::client::Error> {
    /// let node = client.all::<api::Node>().get("node-1").await?;
    /// # Ok(()) }
    /// ```
    #[must_use]
    pub fn all<T: Resource + DeserializeOwned>(&self) -> Access<T> {
        self.access(ResourceType::of::<T>(), "")
    }

    /// The verbs of a kind, in one namespace.
    #[must_use]
    pub fn within<T: Resource + DeserializeOwned>(&self, namespace: &str) -> Access<T> {
        self.access(ResourceType::of::<T>(), namespace)
    }

    /// Creates an object where its metadata says, and returns it as the server stored it.
    ///
    /// # Errors
    /// When it exists, or the request fails.
    pub async fn create<T>(&self, object: &T) -> Result<T, Error>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let resource = ResourceType::of::<T>();
        let namespace = &object.meta().namespace;
        if resource.namespaced && namespace.is_empty() {
            let what = format!("{} {} needs a namespace", T::KIND, object.meta().name);
            return Err(Error::Request { what });
        }
        let path = resource.collection_path(namespace)?;
        self.call(Call::new(Method::POST, path).json(&Whole::of(object))?).await
    }

    /// Replaces an object that is wholly the caller's, such as its lease: fields that the
    /// struct does not name are lost.
    ///
    /// # Errors
    /// When it changed since the version in its metadata, or the request fails.
    pub async fn replace<T>(&self, object: &T) -> Result<T, Error>
    where
        T: Resource + Serialize + DeserializeOwned,
    {
        let meta = object.meta();
        let path = ResourceType::of::<T>().object_path(&meta.namespace, &meta.name)?;
        self.call(Call::new(Method::PUT, path).json(&Whole::of(object))?).await
    }
}
