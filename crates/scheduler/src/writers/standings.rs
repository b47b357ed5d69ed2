//! What is written on PodGroups and quotas: how they stand.

use std::sync::Arc;

use api::Resource;
use chassis::client::{Access, Patch};
use chassis::key::Key;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::{Hands, Place, is_unclear};
use crate::gangs::GroupOrder;
use crate::message::{Message, Receipt, Wrote};
use crate::quotas::QuotaOrder;

impl Hands {
    /// Writes why a gang has not started, and tells it where it is something else than before.
    pub(super) async fn tell_group(&self, order: GroupOrder, place: &mut Place) -> Message {
        self.notes.group(&order);
        let GroupOrder { key, patch, .. } = order;
        let receipt = self.state(key, patch, "why a gang has not started", place).await;
        Message::GroupWritten(Box::new(receipt))
    }

    /// Writes how a quota stands.
    pub(super) async fn tell_quota(&self, order: QuotaOrder, place: &mut Place) -> Message {
        let QuotaOrder { key, patch } = order;
        let receipt = self.state(key, patch, "how a quota stands", place).await;
        Message::QuotaWritten(Box::new(receipt))
    }

    /// Has an object say `what` as a patch has it, and says what came of that.
    async fn state<T>(&self, key: Key, patch: Value, what: &str, place: &mut Place) -> Receipt<T>
    where
        T: Resource + DeserializeOwned,
    {
        let all: Access<T> = self.client.within(key.namespace());
        let patch = &Patch::Merge(patch);
        let written = self.again(key.namespace(), place, || all.patch(key.name(), patch)).await;
        match written {
            Ok(object) => Receipt { key, object: Some(Arc::new(object)), wrote: Wrote::All },
            // What it is now comes as news, or it is gone.
            Err(error) if error.is_conflict() || error.is_not_found() => Receipt::of_nothing(key),
            Err(error) => {
                tracing::warn!(kind = T::KIND, object = %key, %error, "cannot write {what}");
                let wrote = if is_unclear(&error) { Wrote::Nothing } else { Wrote::Refused };
                Receipt { key, object: None, wrote }
            }
        }
    }
}
