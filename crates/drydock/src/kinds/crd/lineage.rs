//! What became of the schemas of a definition, and what that means for objects that were stored
//! before.
//!
//! An object stays stored as it was written. Where the schema it was written under is no longer
//! the one that is served, it is pruned and defaulted anew each time it is read, so a change of
//! a definition costs nothing per object and, taken back, loses nothing. A change that leaves the
//! schemas alone, such as a printer column, costs the readers nothing either.

use object::field::{Errors, Path};
use object::schema::{self, Schema};
use serde_json::Value;
use sha2::{Digest, Sha256};

use crate::kinds::{Kind, Version};
use crate::store::Revision;

/// The schemas under which the objects of a kind were written.
pub struct Lineage {
    /// Objects of this revision and later were written under the schemas of today.
    since: Revision,
    /// Which version objects are stored in, and from which revision on; the oldest first.
    stored_in: Vec<(Revision, String)>,
    /// Whether one version knows fields or defaults that another does not.
    differs: bool,
    /// A digest of the schema of the version that objects are stored in.
    storage_schema: [u8; 32],
    /// The schemas of versions that objects are stored in but that are not served.
    unserved: Vec<(String, Schema)>,
}

/// When a change of a definition has yet to take effect.
const NOT_YET: Revision = Revision::MAX;

impl Lineage {
    /// The lineage of a new definition.
    ///
    /// # Errors
    /// When a schema is not structural.
    pub(super) fn new(spec: &Value) -> Result<Self, Errors> {
        let mut unserved = Vec::new();
        let (mut storage, mut storage_schema, mut schemas) =
            (String::new(), &Value::Null, Vec::new());
        for (index, version) in spec["versions"].as_array().into_iter().flatten().enumerate() {
            let name = version["name"].as_str().unwrap_or_default().to_owned();
            let raw = &version["schema"]["openAPIV3Schema"];
            schemas.push(raw);
            if version["served"] != true {
                let at = Path::new("spec").child("versions").index(index);
                let at = at.child("schema").child("openAPIV3Schema");
                unserved.push((name.clone(), Schema::from_crd(raw, &at)?));
            }
            if version["storage"] == true {
                (storage, storage_schema) = (name, raw);
            }
        }
        let differs = schemas.windows(2).any(|pair| pair[0] != pair[1]);
        let storage_schema = Sha256::digest(object::json::encode(storage_schema)).into();
        Ok(Self { since: 0, stored_in: vec![(0, storage)], differs, storage_schema, unserved })
    }

    /// Goes on where the definition before its change has been, as far as that matters for the
    /// objects; the change itself has yet to take effect.
    pub(super) fn follow(&mut self, old: &Self) {
        // What all versions showed as it was stored, they show so still under the same schema.
        let is_same = !old.differs && self.storage_schema == old.storage_schema;
        self.since = if is_same { old.since } else { NOT_YET };
        let storage = std::mem::replace(&mut self.stored_in, old.stored_in.clone());
        for (_, version) in storage {
            if self.stored_in.last().is_none_or(|(_, last)| *last != version) {
                self.stored_in.push((NOT_YET, version));
            }
        }
    }

    /// Lets the change take effect: what is written from `revision` on obeys it.
    pub(super) fn take_effect(&mut self, revision: Revision) {
        if self.since == NOT_YET {
            self.since = revision;
        }
        for (from, _) in self.stored_in.iter_mut().filter(|(from, _)| *from == NOT_YET) {
            *from = revision;
        }
    }

    /// Whether an object of this revision is shown as it is stored, in every version.
    pub(crate) fn is_exact(&self, revision: Revision) -> bool {
        !self.differs && revision >= self.since
    }

    /// Turns a stored object into what `version` shows: the version it is stored in prunes it and
    /// fills in its defaults, and the one it is shown in drops what it does not know.
    pub(crate) fn show(
        &self,
        kind: &Kind,
        version: &Version,
        revision: Revision,
        object: &mut Value,
    ) {
        if self.is_exact(revision) {
            return;
        }
        let stored_in = self.stored_in.iter().rev().find(|(from, _)| *from <= revision);
        let stored_in = stored_in.map_or("", |(_, version)| version);
        if let Some(schema) = self.schema(kind, stored_in) {
            schema::prune(schema, object);
            // What was stored must stay readable: of defaults that are too large it shows what
            // fits.
            let _ = schema::default(schema, object);
        }
        if stored_in != version.name {
            schema::prune(&version.schema, object);
        }
    }

    /// Drops from an object of `version` what the version it is stored in does not know.
    pub(crate) fn store(&self, kind: &Kind, version: &Version, object: &mut Value) {
        let Some((_, storage)) = self.stored_in.last() else { return };
        if self.differs
            && *storage != version.name
            && let Some(schema) = self.schema(kind, storage)
        {
            schema::prune(schema, object);
        }
    }

    fn schema<'a>(&'a self, kind: &'a Kind, version: &str) -> Option<&'a Schema> {
        let served = kind.versions.iter().find(|served| served.name == version);
        let unserved = || self.unserved.iter().find(|(name, _)| name == version);
        served.map(|served| &served.schema).or_else(|| Some(&unserved()?.1))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn lineage(versions: &[(&str, bool, &str)]) -> Lineage {
        let version = |(name, storage, field): &(&str, bool, &str)| {
            json!({"name": name, "served": true, "storage": storage, "schema": {
                "openAPIV3Schema": {"type": "object", "properties": {*field: {"type": "string"}}}}})
        };
        let versions: Vec<Value> = versions.iter().map(version).collect();
        Lineage::new(&json!({"versions": versions})).unwrap()
    }

    #[test]
    fn only_what_was_written_under_other_schemas_is_read_anew() {
        let first = lineage(&[("v1", true, "a")]);
        assert!(first.is_exact(1));
        let mut second = lineage(&[("v1", true, "b")]);
        second.follow(&first);
        assert!(!second.is_exact(1_000_000));
        second.take_effect(7);
        assert!(!second.is_exact(6));
        assert!(second.is_exact(7));
        assert_eq!(second.stored_in, [(0, "v1".to_owned())]);
    }

    #[test]
    fn a_change_that_leaves_the_schemas_alone_costs_no_reader_anything() {
        let next = |old: &Lineage, versions: &[(&str, bool, &str)], revision| {
            let mut next = lineage(versions);
            next.follow(old);
            next.take_effect(revision);
            next
        };
        let first = lineage(&[("v1", true, "a")]);
        let same = next(&first, &[("v1", true, "a")], 5);
        assert!(same.is_exact(1));
        // Nor does another version of the same schema, whichever is stored.
        let second = next(&same, &[("v1", true, "a"), ("v2", false, "a")], 6);
        assert!(second.is_exact(1));
        let stored = next(&second, &[("v1", false, "a"), ("v2", true, "a")], 7);
        assert!(stored.is_exact(1));
        // What was changed before stays changed.
        let other = next(&stored, &[("v1", false, "b"), ("v2", true, "b")], 8);
        let same = next(&other, &[("v1", false, "b"), ("v2", true, "b")], 9);
        assert!(!same.is_exact(7));
        assert!(same.is_exact(8));
        // What came by another schema than the one it is stored in may lack defaults of that.
        let differs = next(&same, &[("v1", false, "c"), ("v2", true, "b")], 10);
        assert!(!differs.is_exact(11));
        let equal = next(&differs, &[("v1", false, "b"), ("v2", true, "b")], 12);
        assert!(!equal.is_exact(11));
        assert!(equal.is_exact(12));
    }

    #[test]
    fn versions_of_one_schema_show_what_is_stored() {
        assert!(lineage(&[("v1", true, "a"), ("v2", false, "a")]).is_exact(1));
        assert!(!lineage(&[("v1", true, "a"), ("v2", false, "b")]).is_exact(1));
    }

    #[test]
    fn an_object_stays_in_the_version_it_was_stored_in() {
        let mut lineages = lineage(&[("v1", true, "a"), ("v2", false, "b")]);
        for (storage, revision) in [("v2", 5), ("v2", 7), ("v1", 9)] {
            let mut next = lineage(&[("v1", storage == "v1", "a"), ("v2", storage == "v2", "b")]);
            next.follow(&lineages);
            next.take_effect(revision);
            lineages = next;
        }
        let stored_in: Vec<(Revision, &str)> =
            lineages.stored_in.iter().map(|(from, version)| (*from, version.as_str())).collect();
        assert_eq!(stored_in, [(0, "v1"), (5, "v2"), (9, "v1")]);
    }
}
