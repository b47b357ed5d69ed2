//! What several controllers ask the server, and tell it.

use api::Resource;
use chassis::client::{Client, Identity, Nameplate, Patch, ResourceType};
use serde_json::Value;

use crate::facts::MetadataOnly;
use crate::failure::{Failure, unless_gone};

/// Whether an object is still there and not going. The store may lag behind a deletion, and
/// nothing must be given to an owner that is gone.
///
/// # Errors
/// When the request fails.
pub async fn is_alive<K: Resource>(client: &Client, who: Identity<'_>) -> Result<bool, Failure> {
    let access = client.access::<MetadataOnly>(ResourceType::of::<K>(), who.namespace);
    let doing = format!("read {} {}", K::KIND, who.key());
    let live = access.metadata_only().find(who.name).await.map_err(Failure::of(doing))?;
    Ok(live.is_some_and(|live| live.metadata.uid == who.uid && !live.metadata.is_going()))
}

/// Writes a merge patch to the status of an object, at exactly the version it was read at.
/// What the server has then comes back, and nothing where the object is gone.
///
/// # Errors
/// When the object changed meanwhile, or the request fails.
pub async fn report<K: Resource>(
    client: &Client,
    who: Identity<'_>,
    mut patch: Value,
) -> Result<Option<Nameplate>, Failure> {
    patch["metadata"]["uid"] = who.uid.into();
    patch["metadata"]["resourceVersion"] = who.resource_version.into();
    let access = client.access::<Nameplate>(ResourceType::of::<K>(), who.namespace);
    let answer = access.patch_sub(who.name, "status", &Patch::Merge(patch)).await;
    unless_gone(answer, format!("report on {} {}", K::KIND, who.key()))
}
