//! Volumes, claims to them, and what drivers say about themselves.

mod driver;
mod volume;

pub(super) use driver::{
    CsiDriver, CsiNode, CsiStorageCapacity, StorageClass, VolumeAttachment, VolumeAttributesClass,
};
pub(crate) use volume::claim_spec_errors;
pub(super) use volume::{PersistentVolume, PersistentVolumeClaim};
