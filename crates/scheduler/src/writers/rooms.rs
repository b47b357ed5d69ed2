//! Pods that have to go so that others get a node.

use std::sync::atomic::{AtomicBool, Ordering};

use api::Pod;
use chassis::client::{Access, DeleteOptions, Error};
use engine::fact::PodRef;

use super::{Hands, Place, is_unclear};
use crate::message::{RoomOrder, TellOrder};
use crate::status;

impl Hands {
    /// Deletes who has to go, and has those wait elsewhere who waited for the same room; false where
    /// somebody could not be deleted: then the others need not go either.
    pub(super) async fn make_room(
        &self,
        order: &TellOrder,
        room: &RoomOrder,
        place: &mut Place,
    ) -> bool {
        for other in &room.passed_over {
            let patch = status::passed_over(&other.uid.0);
            if let Err(error) = self.patch_status(other, patch, place).await {
                self.warn(other, &error, "cannot write that no room is made for a pod");
            }
        }
        for victim in &room.victims {
            // Whoever leads next finds out anew who has to go.
            if self.stop.is_cancelled() {
                return false;
            }
            match self.evict(order, victim, place).await {
                Ok(Some(version)) => {
                    self.notes.preempted(order, (victim, &version), &room.node);
                }
                Ok(None) => {}
                Err(error) if error.is_not_found() => {}
                Err(error) => {
                    self.warn(victim, &error, "cannot delete a pod to make room");
                    return false;
                }
            }
        }
        true
    }

    /// Deletes a pod to make room, of which the version is returned; nothing where it went, or goes, for
    /// another reason.
    async fn evict(
        &self,
        order: &TellOrder,
        victim: &PodRef,
        place: &mut Place,
    ) -> Result<Option<String>, Error> {
        let namespace = &victim.namespace;
        let pods: Access<Pod> = self.client.within(namespace);
        let find = || pods.find(&victim.name);
        let Some(pod) = self.again(namespace, place, find).await? else { return Ok(None) };
        let metadata = &pod.metadata;
        if metadata.uid != *victim.uid.0 || is_going(&pod) {
            return Ok(None);
        }
        let (uid, now) = (&victim.uid.0, self.clock().now());
        let patch = status::preempted(uid, metadata.generation, &order.scheduler, now);
        self.patch_status(victim, patch, place).await?;
        let (options, was_unclear) = (&DeleteOptions::of(uid), AtomicBool::new(false));
        let delete = async || {
            let answer = pods.delete(&victim.name, options).await;
            let is_unclear = answer.as_ref().is_err_and(is_unclear);
            was_unclear.fetch_or(is_unclear, Ordering::Relaxed);
            answer
        };
        let answer = self.again(namespace, place, delete).await;
        // Where the answer to an earlier try was lost, that may have done it; or else somebody else was faster.
        let version = pod.metadata.resource_version;
        let gone = was_unclear.load(Ordering::Relaxed).then(|| version.clone());
        match answer {
            Ok(_) => Ok(Some(version)),
            Err(error) if error.is_not_found() => Ok(gone),
            // Another one has its name by now, or somebody in between refused it.
            Err(error) if error.is_conflict() => match self.again(namespace, place, find).await? {
                Some(pod) if *pod.metadata.uid == **uid && !is_going(&pod) => Err(error),
                _ => Ok(gone),
            },
            Err(error) => Err(error),
        }
    }
}

/// Whether it is being deleted.
fn is_going(pod: &Pod) -> bool {
    pod.metadata.deletion_timestamp.is_some()
}
