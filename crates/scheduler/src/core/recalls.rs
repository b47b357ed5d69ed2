//! Those who were sent for a pod and are not wanted any longer.

use engine::fact::Uid;

use super::{Core, Flight, Mission};
use crate::extenders::Binder;

impl Core {
    /// Nothing more is to be prepared for a pod.
    pub(super) fn recall(&self, uid: &Uid) {
        // Hardly any pod is prepared.
        if self.preparations > 0
            && let Some(Flight { recall: Some(recall), .. }) = self.flights.get(uid)
        {
            recall.recall();
        }
    }

    /// Whoever was sent for this pod may come back: nobody listens any longer.
    pub(super) fn forget(&mut self, uid: &Uid) -> Option<Flight> {
        self.recall(uid);
        let flight = self.flights.remove(uid)?;
        self.apart -= usize::from(flight.is_apart);
        self.unclear -= usize::from(flight.is_unclear);
        match flight.mission {
            Mission::Bind(Binder::Server) if flight.is_apart => {
                let namespace = &flight.pod.namespace;
                if let Some(count) = self.apart_in.get_mut(namespace) {
                    *count -= 1;
                    if *count == 0 {
                        self.apart_in.remove(namespace);
                    }
                }
            }
            Mission::Bind(Binder::Server) => {}
            Mission::Bind(_) => self.foreign -= 1,
            Mission::Prepare => self.preparations -= 1,
        }
        Some(flight)
    }

    /// Nothing more is prepared for members of gangs that have lost their nodes: what comes of it says nothing
    /// of what they get next.
    pub(super) fn recall_vacated(&mut self) {
        for uid in self.engine.take_vacated() {
            let flight = self.flights.get(&uid);
            if flight.is_some_and(|flight| flight.mission == Mission::Prepare) {
                self.forget(&uid);
            }
            self.overdue.forget(&uid);
        }
    }
}
