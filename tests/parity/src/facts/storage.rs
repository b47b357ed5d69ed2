//! Facts of storage, by kind.

use anyhow::{Context, Result};
use api::{
    CsiDriver, CsiNode, CsiStorageCapacity, PersistentVolume, PersistentVolumeClaim, StorageClass,
    VolumeAttachment,
};
use engine::fact::StorageFact;
use serde::de::DeserializeOwned;
use serde_json::Value;

/// What an object says; nothing where it is not one of storage.
pub fn fact(object: &Value) -> Result<Option<StorageFact>> {
    let kind = object["kind"].as_str().unwrap_or_default();
    let read = || format!("a {kind}");
    let fact = match kind {
        "PersistentVolume" => of::<PersistentVolume>(object),
        "PersistentVolumeClaim" => of::<PersistentVolumeClaim>(object),
        "StorageClass" => of::<StorageClass>(object),
        "CSINode" => of::<CsiNode>(object),
        "CSIDriver" => of::<CsiDriver>(object),
        "CSIStorageCapacity" => of::<CsiStorageCapacity>(object),
        "VolumeAttachment" => of::<VolumeAttachment>(object),
        _ => return Ok(None),
    };
    fact.with_context(read).map(Some)
}

fn of<T>(object: &Value) -> Result<StorageFact>
where
    T: DeserializeOwned,
    for<'a> StorageFact: From<&'a T>,
{
    Ok(StorageFact::from(&serde_json::from_value::<T>(object.clone())?))
}

/// That an object is gone; nothing where it is not one of storage.
pub fn gone(kind: &str, namespace: &str, name: &str) -> Option<StorageFact> {
    let (namespace, name) = (namespace.into(), name.into());
    Some(match kind {
        "PersistentVolume" => StorageFact::Volume(name, None),
        "PersistentVolumeClaim" => StorageFact::Claim(namespace, name, None),
        "StorageClass" => StorageFact::Class(name, None),
        "CSINode" => StorageFact::CsiNode(name, None),
        "CSIDriver" => StorageFact::CsiDriver(name, None),
        "CSIStorageCapacity" => StorageFact::Capacity(namespace, name, None),
        "VolumeAttachment" => StorageFact::Attachment(name, None),
        _ => return None,
    })
}
