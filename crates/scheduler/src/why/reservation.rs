//! Why a Reservation has no node.

use api::Reservation;
use chassis::client::Client;
use engine::fact::{PodFact, ReservationFact};
use engine::plugin::Plugin;

use super::{Answer, AnsweredBy, State, Subject, WhyError, listed, now};
use crate::config::Configuration;

/// A Reservation that is asked about.
pub(crate) struct Asked {
    /// What it tells itself.
    pub(crate) answer: Answer,
    /// The pod in whose stead it wants a node; none where it wants none, or nobody is to give it one.
    pub(crate) fact: Option<PodFact>,
}

impl Asked {
    /// What a Reservation itself tells.
    pub(crate) fn begun(own: &Reservation, by: AnsweredBy, configuration: &Configuration) -> Self {
        let subject = Subject::Reservation { reservation: own.metadata.name.clone() };
        let (state, fact) = match ReservationFact::of(own) {
            Err(error) if !own.is_held() => (State::Malformed { error: error.to_string() }, None),
            Err(_) | Ok(None) => (State::of_reservation(own), None),
            Ok(Some(fact)) => (State::wanting(own, &fact.pod, configuration), Some(fact.pod)),
        };
        let is_waiting = matches!(state, State::Waiting { .. });
        Self { answer: Answer::about(subject, by, state), fact: fact.filter(|_| is_waiting) }
    }

    /// Whether it takes over pods that run: who those are is not known of a copy.
    pub(crate) fn takes_over(&self) -> bool {
        let needs = self.fact.as_ref().and_then(|fact| fact.needs.reservation.as_ref());
        needs.and_then(|needs| needs.own.as_ref()).is_some_and(|own| own.takes_over.is_some())
    }
}

impl State {
    /// How one stands for which no node is looked for.
    fn of_reservation(own: &Reservation) -> Self {
        match own.has_ended() {
            true => Self::Ended { phase: format!("{:?}", own.status.phase) },
            false => Self::Bound { node: own.status.node_name.clone() },
        }
    }

    fn wanting(own: &Reservation, pod: &PodFact, configuration: &Configuration) -> Self {
        let all = configuration.profiles.iter();
        let reserving = all.filter(|own| own.lineup.plugins().contains(&Plugin::Reservation));
        let reserving: Vec<String> = reserving.map(|own| own.scheduler_name.clone()).collect();
        if pod.node.is_some() {
            Self::of_reservation(own)
        } else if own.metadata.is_going() {
            Self::Deleting
        } else if !reserving.iter().any(|name| **name == *pod.scheduler) {
            Self::NotReserving { scheduler: pod.scheduler.to_string(), reserving }
        } else {
            Self::Waiting { standing: None, nominated: None }
        }
    }
}

/// A Reservation by its name.
///
/// # Errors
/// When there is none, or the server does not tell.
pub(crate) async fn find_reservation(client: &Client, name: &str) -> Result<Reservation, WhyError> {
    let own = client.all::<Reservation>().find(name).await?;
    own.ok_or_else(|| WhyError::NoReservation { name: name.to_owned() })
}

/// Says why a Reservation has no node, from the objects of the cluster alone: every kind that scheduling
/// depends on is listed once.
///
/// # Errors
/// When there is no such Reservation, or a kind cannot be listed.
pub async fn reservation_from_objects(
    client: &Client,
    configuration: &Configuration,
    name: &str,
) -> Result<Answer, WhyError> {
    let own = find_reservation(client, name).await?;
    let Asked { mut answer, fact } = Asked::begun(&own, AnsweredBy::Objects, configuration);
    let Some(fact) = fact else { return Ok(answer) };
    let Some(profile) = answer.profile(&fact, configuration) else { return Ok(answer) };
    let mut ledger = listed(client, configuration, profile, &mut answer.unread).await?;
    // It may have come between two lists, or be another by now.
    ledger.apply(ReservationFact::told(&own));
    answer.work_out(&mut ledger, profile, &fact, now(client));
    Ok(answer)
}
