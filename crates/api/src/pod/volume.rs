//! The volumes of a pod that its place depends on.
//!
//! Config maps, secrets, empty directories and the like can be had on every node, and
//! nearly every pod has one. [`read`] passes over them, so that a plain pod has no volumes.

use std::borrow::Cow;
use std::fmt;

use serde::de::{IgnoredAny, MapAccess, SeqAccess, Visitor};
use serde::ser::SerializeMap;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use serde_json::json;

use crate::volume::{
    AwsElasticBlockStore, AzureDisk, Cinder, GcePersistentDisk, Iscsi, PortworxVolume, Rbd,
};
use crate::wire;

/// A volume of a pod that its place depends on.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Volume {
    /// Name within the pod.
    pub name: Box<str>,
    /// Where its data is.
    pub source: VolumeSource,
}

/// Where the data of a volume is. A server lets a volume have one source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum VolumeSource {
    /// What a claim in the pod's namespace is bound to.
    PersistentVolumeClaim(ClaimSource),
    /// What a claim made for this pod alone is bound to: [`Volume::claim_name`] is its name.
    Ephemeral,
    /// A driver on the node, which makes the volume up for this pod.
    Csi(CsiSource),
    /// A disk of GCE.
    GcePersistentDisk(GcePersistentDisk),
    /// A disk of AWS.
    AwsElasticBlockStore(AwsElasticBlockStore),
    /// A disk of Azure.
    AzureDisk(AzureDisk),
    /// A disk of OpenStack.
    Cinder(Cinder),
    /// A volume of Portworx.
    PortworxVolume(PortworxVolume),
    /// A target of iSCSI.
    Iscsi(Iscsi),
    /// An image of a Ceph cluster.
    Rbd(Rbd),
}

/// A claim that a pod uses.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct ClaimSource {
    /// Name of the claim.
    #[serde(deserialize_with = "wire::or_default")]
    pub claim_name: Box<str>,
    /// Whether the pod only reads.
    #[serde(deserialize_with = "wire::or_default", skip_serializing_if = "std::ops::Not::not")]
    pub read_only: bool,
}

/// A driver that makes volumes up for one pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Deserialize, Serialize)]
#[serde(default, rename_all = "camelCase")]
pub struct CsiSource {
    /// Name of the driver.
    #[serde(deserialize_with = "wire::or_default")]
    pub driver: Box<str>,
}

impl Volume {
    /// Name of the claim behind the volume, if there is one: that of the pod and that of
    /// the volume make the name of an ephemeral volume's claim.
    ///
    /// ```
    /// use api::Pod;
    /// let pod: Pod = serde_json::from_str(
    ///     r#"{"spec":{"volumes":[
    ///         {"name":"token","projected":{"sources":[]}},
    ///         {"name":"cache","ephemeral":{"volumeClaimTemplate":{"spec":{}}}},
    ///         {"name":"data","persistentVolumeClaim":{"claimName":"data-db-0"}}]}}"#,
    /// )?;
    /// let claims = pod.spec.volumes.iter().filter_map(|volume| volume.claim_name("db-0"));
    /// assert_eq!(claims.collect::<Vec<_>>(), ["db-0-cache", "data-db-0"]);
    /// # Ok::<(), serde_json::Error>(())
    /// ```
    #[must_use]
    pub fn claim_name(&self, pod_name: &str) -> Option<Cow<'_, str>> {
        match &self.source {
            VolumeSource::PersistentVolumeClaim(claim) => Some(Cow::Borrowed(&claim.claim_name)),
            VolumeSource::Ephemeral => Some(Cow::Owned(format!("{pod_name}-{}", self.name))),
            _ => None,
        }
    }
}

impl Serialize for Volume {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(2))?;
        map.serialize_entry("name", &self.name)?;
        match &self.source {
            VolumeSource::PersistentVolumeClaim(source) => {
                map.serialize_entry("persistentVolumeClaim", source)
            }
            VolumeSource::Ephemeral => map.serialize_entry("ephemeral", &json!({})),
            VolumeSource::Csi(source) => map.serialize_entry("csi", source),
            VolumeSource::GcePersistentDisk(source) => {
                map.serialize_entry("gcePersistentDisk", source)
            }
            VolumeSource::AwsElasticBlockStore(source) => {
                map.serialize_entry("awsElasticBlockStore", source)
            }
            VolumeSource::AzureDisk(source) => map.serialize_entry("azureDisk", source),
            VolumeSource::Cinder(source) => map.serialize_entry("cinder", source),
            VolumeSource::PortworxVolume(source) => map.serialize_entry("portworxVolume", source),
            VolumeSource::Iscsi(source) => map.serialize_entry("iscsi", source),
            VolumeSource::Rbd(source) => map.serialize_entry("rbd", source),
        }?;
        map.end()
    }
}

/// Reads the volumes of a pod without those that its place does not depend on.
pub(super) fn read<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Vec<Volume>, D::Error> {
    deserializer.deserialize_any(List)
}

struct List;

impl<'de> Visitor<'de> for List {
    type Value = Vec<Volume>;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a list of volumes")
    }

    fn visit_unit<E: serde::de::Error>(self) -> Result<Self::Value, E> {
        Ok(Vec::new())
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut entries: A) -> Result<Self::Value, A::Error> {
        let mut volumes = Vec::new();
        while let Some(Entry(volume)) = entries.next_element()? {
            volumes.extend(volume);
        }
        Ok(volumes)
    }
}

/// A volume of any source; `None` for those we pass over.
struct Entry(Option<Volume>);

impl<'de> Deserialize<'de> for Entry {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_map(Fields)
    }
}

#[derive(Deserialize)]
#[serde(field_identifier, rename_all = "camelCase")]
enum Field {
    Name,
    PersistentVolumeClaim,
    Ephemeral,
    Csi,
    GcePersistentDisk,
    AwsElasticBlockStore,
    AzureDisk,
    Cinder,
    PortworxVolume,
    Iscsi,
    Rbd,
    #[serde(other)]
    PassedOver,
}

/// A text that is copied only if the volume is kept.
#[derive(Deserialize)]
struct Name<'a>(#[serde(borrow)] Cow<'a, str>);

struct Fields;

impl<'de> Visitor<'de> for Fields {
    type Value = Entry;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a volume")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut fields: A) -> Result<Entry, A::Error> {
        let mut name: Option<Name<'de>> = None;
        let mut source = None;
        while let Some(field) = fields.next_key()? {
            let found = match field {
                Field::Name => {
                    name = fields.next_value()?;
                    None
                }
                Field::PassedOver => {
                    fields.next_value::<IgnoredAny>()?;
                    None
                }
                Field::Ephemeral => {
                    fields.next_value::<Option<IgnoredAny>>()?.map(|_| VolumeSource::Ephemeral)
                }
                Field::PersistentVolumeClaim => {
                    fields.next_value::<Option<_>>()?.map(VolumeSource::PersistentVolumeClaim)
                }
                Field::Csi => fields.next_value::<Option<_>>()?.map(VolumeSource::Csi),
                Field::GcePersistentDisk => {
                    fields.next_value::<Option<_>>()?.map(VolumeSource::GcePersistentDisk)
                }
                Field::AwsElasticBlockStore => {
                    fields.next_value::<Option<_>>()?.map(VolumeSource::AwsElasticBlockStore)
                }
                Field::AzureDisk => fields.next_value::<Option<_>>()?.map(VolumeSource::AzureDisk),
                Field::Cinder => fields.next_value::<Option<_>>()?.map(VolumeSource::Cinder),
                Field::PortworxVolume => {
                    fields.next_value::<Option<_>>()?.map(VolumeSource::PortworxVolume)
                }
                Field::Iscsi => fields.next_value::<Option<_>>()?.map(VolumeSource::Iscsi),
                Field::Rbd => fields.next_value::<Option<_>>()?.map(VolumeSource::Rbd),
            };
            source = found.or(source);
        }
        Ok(Entry(source.map(|source| Volume {
            name: name.map(|name| name.0.into()).unwrap_or_default(),
            source,
        })))
    }
}
