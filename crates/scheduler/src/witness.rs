//! Where the engine lives, and who looks on.
//!
//! In production it has a thread of its own, and nobody looks on. A simulation has but one thread,
//! on which everything happens in an order that a seed decides: there the engine takes its turns
//! among the tasks of the runtime, and a [`Witness`] sees each thing that it is told and each that
//! it orders, in order.

use std::sync::Arc;

use crate::core::Core;
use crate::message::{Message, Order};

/// Where the engine lives.
#[derive(Clone, Default)]
pub enum Place {
    /// On a thread of its own.
    #[default]
    Thread,
    /// Among the tasks of the runtime, before a witness.
    Runtime(Arc<dyn Witness>),
}

impl Place {
    /// Who looks on there, if anybody.
    pub(crate) fn witness(&self) -> Option<Arc<dyn Witness>> {
        match self {
            Self::Thread => None,
            Self::Runtime(witness) => Some(witness.clone()),
        }
    }
}

/// One who sees what the engine does, and changes nothing.
pub trait Witness: Send + Sync {
    /// The core is about to take a message.
    fn told(&self, core: &Core, message: &Message);
    /// The core ordered this.
    fn ordered(&self, core: &Core, order: &Order);
    /// Everything that could be decided is decided.
    fn turned(&self, core: &Core);
}
