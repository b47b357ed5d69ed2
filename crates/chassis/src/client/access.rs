//! The verbs of one resource, typed by what the caller reads of its objects.

use std::collections::BTreeMap;
use std::marker::PhantomData;
use std::time::Duration;

use http::Method;
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::error::Error;
use super::events::EventStream;
use super::page::{Page, Unread};
use super::resource::{Nameplate, Object as _, ResourceType};
use super::{Call, Client};

/// How a list of nothing but metadata is asked for.
const METADATA_LIST: &str = "application/json;as=PartialObjectMetadataList;g=meta.k8s.io;v=v1";
/// How one object, or the objects of a watch, are asked for by their metadata.
const METADATA: &str = "application/json;as=PartialObjectMetadata;g=meta.k8s.io;v=v1";

/// The verbs of one resource, in one namespace or in all.
///
/// `T` names only the fields that the caller reads: unknown fields are skipped while
/// decoding. Use [`serde_json::Value`] to see everything.
pub struct Access<T> {
    client: Client,
    resource: ResourceType,
    namespace: String,
    metadata_only: bool,
    reads: PhantomData<fn() -> T>,
}

impl<T> Clone for Access<T> {
    fn clone(&self) -> Self {
        Self {
            client: self.client.clone(),
            resource: self.resource.clone(),
            namespace: self.namespace.clone(),
            ..*self
        }
    }
}

/// What to list.
#[derive(Debug, Clone, Default)]
pub struct ListOptions {
    /// Only objects with these labels; empty for all.
    pub label_selector: String,
    /// Only objects with these field values; empty for all.
    pub field_selector: String,
    /// At most so many objects an answer; zero for all at once.
    pub limit: u32,
    /// Where the last answer ended, as its [`Page::next`] says.
    pub continue_token: Option<String>,
    /// The version to list at; `None` for the newest.
    pub resource_version: Option<String>,
}

/// What to watch.
#[derive(Debug, Clone, Default)]
pub struct WatchOptions {
    /// Only objects with these labels; empty for all.
    pub label_selector: String,
    /// Only objects with these field values; empty for all.
    pub field_selector: String,
    /// The version after which to begin.
    pub resource_version: String,
    /// How long the server shall keep the watch open; `None` for its own default.
    pub timeout: Option<Duration>,
}

/// A change to an object, in one of the server's three notations.
#[derive(Debug, Clone)]
pub enum Patch<B> {
    /// JSON merge patch (RFC 7386).
    Merge(B),
    /// JSON patch (RFC 6902): a list of operations.
    Json(B),
    /// Strategic merge patch: lists merge by key; native kinds only.
    Strategic(B),
}

/// What must hold of an object for a write to be done.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Preconditions {
    /// It is this object, not another of the same name.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub uid: Option<String>,
    /// It has not changed since this version.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub resource_version: Option<String>,
}

/// How to delete.
#[derive(Debug, Clone, Default, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct DeleteOptions {
    /// How long the object may take to end; `None` for its own.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub grace_period_seconds: Option<u32>,
    /// What must hold.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub preconditions: Option<Preconditions>,
    /// What becomes of dependents; `None` for the kind's default.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub propagation_policy: Option<Propagation>,
}

/// What becomes of the dependents of an object that is deleted.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
pub enum Propagation {
    /// They go after it.
    Background,
    /// They go before it.
    Foreground,
    /// They stay.
    Orphan,
}

impl DeleteOptions {
    /// Deletes this object, not another of the same name.
    #[must_use]
    pub fn of(uid: &str) -> Self {
        let preconditions = Preconditions { uid: Some(uid.to_owned()), resource_version: None };
        Self { preconditions: Some(preconditions), ..Self::default() }
    }

    /// The same, unless the object has changed since this version.
    #[must_use]
    pub fn at(mut self, resource_version: &str) -> Self {
        let version = Some(resource_version.to_owned());
        self.preconditions.get_or_insert_default().resource_version = version;
        self
    }

    /// The same, with this to become of its dependents.
    #[must_use]
    pub fn leaving(mut self, dependents: Propagation) -> Self {
        self.propagation_policy = Some(dependents);
        self
    }
}

/// A pod's node, and what is written to the pod together with it.
#[derive(Debug, Clone, Default)]
pub struct Binding<'a> {
    /// The pod.
    pub pod: &'a str,
    /// The uid that the pod must have.
    pub uid: Option<&'a str>,
    /// The node.
    pub node: &'a str,
    /// Annotations that are merged into the pod's.
    pub annotations: BTreeMap<String, String>,
    /// Labels that are merged into the pod's.
    pub labels: BTreeMap<String, String>,
}

/// A deletion that respects disruption budgets.
#[derive(Debug, Clone, Default)]
pub struct Eviction<'a> {
    /// The pod.
    pub pod: &'a str,
    /// How it is to be deleted.
    pub options: DeleteOptions,
}

impl Client {
    /// The verbs of `resource`; an empty namespace means all of them.
    #[must_use]
    pub fn access<T: DeserializeOwned>(
        &self,
        resource: ResourceType,
        namespace: &str,
    ) -> Access<T> {
        let namespace = namespace.to_owned();
        let client = self.clone();
        Access { client, resource, namespace, metadata_only: false, reads: PhantomData }
    }
}

impl<T: DeserializeOwned> Access<T> {
    /// The same, reading nothing of an object but its `metadata`: gets, lists and watches
    /// ask the server to leave out the rest.
    #[must_use]
    pub fn metadata_only(mut self) -> Self {
        self.metadata_only = true;
        self
    }

    fn form(&self, call: Call, form: &'static str) -> Call {
        if self.metadata_only { call.accept(form) } else { call }
    }

    /// The same objects, of which nothing but their identity is read.
    pub(crate) fn nameplates(&self) -> Access<Nameplate> {
        self.client.access(self.resource.clone(), &self.namespace)
    }

    /// The resource.
    #[must_use]
    pub fn resource(&self) -> &ResourceType {
        &self.resource
    }

    /// The client underneath.
    #[must_use]
    pub fn client(&self) -> &Client {
        &self.client
    }

    fn object(&self, method: Method, name: &str, sub: &str) -> Result<Call, Error> {
        let mut path = self.resource.object_path(&self.namespace, name)?;
        if !sub.is_empty() {
            path.push('/');
            path.push_str(sub);
        }
        Ok(Call::new(method, path))
    }

    fn collection(&self, method: Method) -> Result<Call, Error> {
        Ok(Call::new(method, self.resource.collection_path(&self.namespace)?))
    }

    /// One object.
    ///
    /// # Errors
    /// When it does not exist, or the request fails.
    pub async fn get(&self, name: &str) -> Result<T, Error> {
        let call = self.form(self.object(Method::GET, name, "")?, METADATA);
        self.client.call(call).await
    }

    /// One object, or `None` where it does not exist.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn find(&self, name: &str) -> Result<Option<T>, Error> {
        match self.get(name).await {
            Ok(object) => Ok(Some(object)),
            Err(error) if error.is_not_found() => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// A subresource of one object, such as `scale`.
    ///
    /// # Errors
    /// When the object or the subresource does not exist, or the request fails.
    pub async fn get_sub(&self, name: &str, sub: &str) -> Result<T, Error> {
        self.client.call(self.object(Method::GET, name, sub)?).await
    }

    /// One answer of a list.
    ///
    /// # Errors
    /// When the request fails, or the answer is not a list.
    pub async fn list(&self, options: &ListOptions) -> Result<Page<T>, Error> {
        self.fetch(options).await?.read()
    }

    /// One answer of a list, not read yet.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn fetch(&self, options: &ListOptions) -> Result<Unread<T>, Error> {
        let mut call = self.form(self.collection(Method::GET)?, METADATA_LIST);
        call = select(call, &options.label_selector, &options.field_selector);
        if options.limit > 0 {
            call = call.query("limit", &options.limit.to_string());
        }
        if let Some(token) = &options.continue_token {
            call = call.query("continue", token);
        }
        if let Some(version) = &options.resource_version {
            call = call.query("resourceVersion", version);
        }
        let _counted = self.client.shared.limits.list();
        let (asked, body) = self.client.exchange(call).await?;
        Ok(Unread::new(asked, body))
    }

    /// The whole list, page by page. Objects that are not a `T` are an error here.
    ///
    /// # Errors
    /// When a request fails, or an object cannot be read.
    pub async fn list_all(&self, options: &ListOptions) -> Result<Vec<T>, Error> {
        let mut options = options.clone();
        let mut all = Vec::new();
        loop {
            let page = self.list(&options).await?;
            if let Some((nameplate, error)) = page.malformed.into_iter().next() {
                let (resource, name) = (self.resource.to_string(), nameplate.identity().key());
                return Err(Error::Malformed { resource, name, reason: error });
            }
            all.extend(page.items);
            match page.next {
                Some(next) => options.continue_token = Some(next),
                None => return Ok(all),
            }
        }
    }

    /// Creates an object and returns it as the server stored it.
    ///
    /// # Errors
    /// When it exists, or the request fails.
    pub async fn create(&self, object: &(impl Serialize + ?Sized)) -> Result<T, Error> {
        self.client.call(self.collection(Method::POST)?.json(object)?).await
    }

    /// Replaces an object.
    ///
    /// # Errors
    /// When it changed since the version in `object`, or the request fails.
    pub async fn update(&self, name: &str, object: &(impl Serialize + ?Sized)) -> Result<T, Error> {
        self.client.call(self.object(Method::PUT, name, "")?.json(object)?).await
    }

    /// Replaces a subresource, such as `status`.
    ///
    /// # Errors
    /// When the object changed since, or the request fails.
    pub async fn update_sub(
        &self,
        name: &str,
        sub: &str,
        object: &(impl Serialize + ?Sized),
    ) -> Result<T, Error> {
        self.client.call(self.object(Method::PUT, name, sub)?.json(object)?).await
    }

    /// Changes an object.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn patch<B: Serialize>(&self, name: &str, patch: &Patch<B>) -> Result<T, Error> {
        self.patch_sub(name, "", patch).await
    }

    /// Changes a subresource, such as `status`.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn patch_sub<B: Serialize>(
        &self,
        name: &str,
        sub: &str,
        patch: &Patch<B>,
    ) -> Result<T, Error> {
        let (content_type, body) = match patch {
            Patch::Merge(body) => ("application/merge-patch+json", body),
            Patch::Json(body) => ("application/json-patch+json", body),
            Patch::Strategic(body) => ("application/strategic-merge-patch+json", body),
        };
        let bytes = serde_json::to_vec(body).map_err(Error::Unwritable)?;
        let call = self.object(Method::PATCH, name, sub)?.body(content_type, bytes);
        self.client.call(call).await
    }

    /// Deletes an object, or begins to: finalizers and grace may keep it a while.
    ///
    /// # Errors
    /// When it does not exist, a precondition does not hold, or the request fails.
    pub async fn delete(&self, name: &str, options: &DeleteOptions) -> Result<(), Error> {
        let call = self.object(Method::DELETE, name, "")?.json(options)?;
        self.client.call_unread(call).await
    }

    /// Deletes every object that the selectors name.
    ///
    /// # Errors
    /// When the request fails.
    pub async fn delete_all(
        &self,
        which: &ListOptions,
        options: &DeleteOptions,
    ) -> Result<(), Error> {
        let call = self.collection(Method::DELETE)?.json(options)?;
        let call = select(call, &which.label_selector, &which.field_selector);
        self.client.call_unread(call).await
    }

    /// Binds a pod to a node: node, annotations and labels appear together or not at all.
    ///
    /// # Errors
    /// [`Reason::Conflict`](super::Reason::Conflict) when the pod is bound or is another one.
    pub async fn bind(&self, binding: &Binding<'_>) -> Result<(), Error> {
        let body = BindingWire {
            api_version: "v1",
            kind: "Binding",
            metadata: BindingMeta {
                name: binding.pod,
                uid: binding.uid,
                annotations: &binding.annotations,
                labels: &binding.labels,
            },
            target: Target { api_version: "v1", kind: "Node", name: binding.node },
        };
        let call = self.object(Method::POST, binding.pod, "binding")?.json(&body)?;
        self.client.call_unread(call).await
    }

    /// Asks for a pod to be deleted without breaking a disruption budget.
    ///
    /// # Errors
    /// [`Reason::TooManyRequests`](super::Reason::TooManyRequests) while a budget forbids it.
    pub async fn evict(&self, eviction: &Eviction<'_>) -> Result<(), Error> {
        let body = EvictionWire {
            api_version: "policy/v1",
            kind: "Eviction",
            metadata: EvictionMeta { name: eviction.pod, namespace: &self.namespace },
            delete_options: &eviction.options,
        };
        let call = self.object(Method::POST, eviction.pod, "eviction")?.json(&body)?;
        self.client.call_unread(call).await
    }

    /// Opens a watch with bookmarks.
    ///
    /// # Errors
    /// When the version is gone, or the request fails.
    pub async fn watch(&self, options: &WatchOptions) -> Result<EventStream<T>, Error> {
        let mut call = self.form(self.collection(Method::GET)?, METADATA).query("watch", "true");
        call = call.query("allowWatchBookmarks", "true");
        call = call.query("resourceVersion", &options.resource_version);
        call = select(call, &options.label_selector, &options.field_selector);
        if let Some(timeout) = options.timeout {
            call = call.query("timeoutSeconds", &timeout.as_secs().max(1).to_string());
        }
        Ok(EventStream::new(self.client.open(call).await?))
    }
}

fn select(mut call: Call, labels: &str, fields: &str) -> Call {
    if !labels.is_empty() {
        call = call.query("labelSelector", labels);
    }
    if !fields.is_empty() {
        call = call.query("fieldSelector", fields);
    }
    call
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct BindingWire<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: BindingMeta<'a>,
    target: Target<'a>,
}

#[derive(Serialize)]
struct BindingMeta<'a> {
    name: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    uid: Option<&'a str>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    annotations: &'a BTreeMap<String, String>,
    #[serde(skip_serializing_if = "BTreeMap::is_empty")]
    labels: &'a BTreeMap<String, String>,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct Target<'a> {
    api_version: &'static str,
    kind: &'static str,
    name: &'a str,
}

#[derive(Serialize)]
#[serde(rename_all = "camelCase")]
struct EvictionWire<'a> {
    api_version: &'static str,
    kind: &'static str,
    metadata: EvictionMeta<'a>,
    delete_options: &'a DeleteOptions,
}

#[derive(Serialize)]
struct EvictionMeta<'a> {
    name: &'a str,
    namespace: &'a str,
}
