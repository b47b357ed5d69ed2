//! The thread that the engine lives on: it waits for a message or for the engine's next due time,
//! takes in what has come, and decides as much as can be written. It never blocks on anybody.

use std::sync::Arc;
use std::time::Duration;

use chassis::clock::Clock;
use engine::moment::Moment;
use engine::turn::Advice;
use tokio::sync::{mpsc, watch};

use crate::State;
use crate::bind::Outcome;
use crate::core::{Core, Next};
use crate::inbox::{Heard, Inbox};
use crate::message::{Answer, ConsultOrder, Message, Order};
use crate::pulse::Pulse;
use crate::witness::Witness;
use crate::writers::{Telling, Traffic, Work};

/// How many messages are taken in before decisions are made again.
const MESSAGES_PER_TURN_MAX: usize = 1024;
/// How long messages are taken in before decisions are made again. A turn takes twice as long at
/// most, and what one message or one decision takes.
const DRAIN_MAX: Duration = Duration::from_millis(2);
/// How many decisions are made before messages are taken in again.
const DECISIONS_PER_TURN_MAX: usize = 64;
/// How long messages gather while the writers have enough to do: to wake up for each of them costs
/// more than to take it in.
const GATHER: Duration = Duration::from_millis(5);
/// How long they do before anything is decided: everything that there is comes then.
const GATHER_FIRST: Duration = Duration::from_millis(1);
/// How long decisions are made before messages are taken in again.
const DECIDE_MAX: Duration = Duration::from_millis(2);
/// How many tellings may wait for who tells before those are handed to him that can wait here: enough until
/// he has told some.
const TELLS_AHEAD_MAX: usize = 32;
/// How often it is shown how much there is of everything.
const MEASURE_INTERVAL: Duration = Duration::from_secs(1);

/// The time as the engine counts it. It begins with the time of day and never jumps.
#[derive(Debug, Clone)]
pub(crate) struct Timekeeper {
    clock: Clock,
    started: Moment,
}

impl Timekeeper {
    pub(crate) fn new(clock: &Clock) -> Self {
        let today = Moment(u64::try_from(clock.now().as_nanosecond()).unwrap_or_default());
        let passed = Moment::default().after(clock.monotonic());
        let started = Moment(today.0.saturating_sub(passed.0));
        Self { clock: clock.clone(), started }
    }

    pub(crate) fn now(&self) -> Moment {
        self.started.after(self.clock.monotonic())
    }
}

/// Where orders go. Each line has room for all that the core may have under way.
pub(crate) struct Outlets {
    pub(crate) binds: mpsc::Sender<Work>,
    pub(crate) tells: mpsc::Sender<Telling>,
    pub(crate) questions: mpsc::Sender<ConsultOrder>,
    /// How much of it is being written.
    pub(crate) traffic: Traffic,
}

/// Everything that the thread owns.
pub(crate) struct Turns {
    pub(crate) core: Core,
    pub(crate) outlets: Outlets,
    pub(crate) time: Timekeeper,
    pub(crate) state: watch::Sender<State>,
    /// Where it shows that it goes on.
    pub(crate) pulse: Pulse,
    /// Who looks on.
    pub(crate) witness: Option<Arc<dyn Witness>>,
}

impl Turns {
    /// Runs until it was asked to stop and nothing is under way.
    pub(crate) fn run(mut self, line: mpsc::Receiver<Message>) {
        let mut inbox = Inbox::of_this_thread(line);
        let mut measured = self.time.now();
        let mut is_changed = true;
        while !self.core.is_over() {
            let now = self.time.now();
            let measure = is_changed.then(|| measured.after(MEASURE_INTERVAL));
            let due = self.core.next_due(now).into_iter().chain(measure).min();
            self.pulse.end();
            let heard = inbox.wait(due.map(|due| due.since(now)));
            self.pulse.begin();
            is_changed |= matches!(heard, Heard::Message(_));
            if let Some(pause) = self.pause() {
                std::thread::sleep(pause);
            }
            if !self.drain(heard, || inbox.next()) {
                return self.pulse.end();
            }
            self.decide();
            let now = self.time.now();
            if is_changed && now.since(measured) >= MEASURE_INTERVAL {
                self.core.measure();
                let held_back = self.core.held_back();
                if held_back > 0 {
                    tracing::error!(
                        held_back,
                        "pods got no nodes because too many before them wait for an answer: of the \
                         API server in their namespace or in all together, of an extender, or to \
                         their volumes"
                    );
                }
                (measured, is_changed) = (now, false);
            }
        }
        self.pulse.end();
        self.core.measure();
    }

    /// How long messages gather just now, where they do.
    fn pause(&self) -> Option<Duration> {
        match (self.core.is_ahead(), self.core.is_filling()) {
            (true, _) => Some(GATHER),
            (false, true) => Some(GATHER_FIRST),
            (false, false) => None,
        }
    }

    /// The same among the tasks of a runtime, on the clock that it was given.
    pub(crate) async fn run_among_tasks(mut self, mut line: mpsc::Receiver<Message>) {
        while !self.core.is_over() {
            let now = self.time.now();
            let due = self.core.next_due(now).map(|due| due.since(now));
            let heard = tokio::select! {
                biased;
                message = line.recv() => message.map_or(Heard::Closed, Heard::Message),
                () = self.time.clock.sleep(due.unwrap_or_default()), if due.is_some() => {
                    Heard::Nothing
                }
            };
            let next = || match line.try_recv() {
                Ok(message) => Heard::Message(message),
                Err(mpsc::error::TryRecvError::Empty) => Heard::Nothing,
                Err(mpsc::error::TryRecvError::Disconnected) => Heard::Closed,
            };
            if !self.drain(heard, next) {
                return;
            }
            self.decide();
            if let Some(witness) = &self.witness {
                witness.turned(&self.core);
            }
            tokio::task::yield_now().await;
        }
        self.core.measure();
    }

    /// Takes in what has come; false where nothing ever will.
    fn drain(
        &mut self,
        mut heard: Heard<Message>,
        mut next: impl FnMut() -> Heard<Message>,
    ) -> bool {
        let begun = self.time.now();
        for left in (0..MESSAGES_PER_TURN_MAX).rev() {
            let message = match heard {
                Heard::Message(message) => message,
                Heard::Nothing => return true,
                Heard::Closed => return false,
            };
            let is_news = matches!(message, Message::Synced(_));
            let now = self.time.now();
            self.take(message, now);
            if is_news && self.core.is_filled() {
                self.state.send_replace(State::Deciding);
            }
            // What there is before the first decision is taken in as fast as it comes.
            if left == 0 || (self.core.is_filled() && now.since(begun) >= DRAIN_MAX) {
                return true;
            }
            heard = next();
        }
        true
    }

    fn take(&mut self, message: Message, now: Moment) {
        if let Some(witness) = &self.witness {
            witness.told(&self.core, &message);
        }
        if let Some(order) = self.core.take(message, now) {
            self.send(order);
        }
    }

    fn decide(&mut self) {
        let mut now = self.time.now();
        self.core.look_after(now);
        self.core.heed(self.outlets.traffic.busy());
        let until = now.after(DECIDE_MAX);
        for _ in 0..DECISIONS_PER_TURN_MAX {
            let begun = now;
            let next = self.core.decide(begun);
            now = self.time.now();
            self.core.took(now.since(begun));
            match next {
                Next::Order(order) => self.send(*order),
                Next::Silent => {}
                Next::Idle => break,
            }
            if now >= until {
                break;
            }
        }
        self.tell_waiting(now);
    }

    /// Has users told of pods that wait to be told of, as far as there is time for it beside Bindings.
    fn tell_waiting(&mut self, now: Moment) {
        if self.core.untold_count() == 0 {
            return;
        }
        let tells = &self.outlets.tells;
        let ahead = tells.max_capacity() - tells.capacity();
        for _ in ahead..TELLS_AHEAD_MAX {
            let Some(order) = self.core.tell_waiting(now) else { return };
            self.send(order);
        }
    }

    fn send(&mut self, order: Order) {
        if let Some(witness) = &self.witness {
            witness.ordered(&self.core, &order);
        }
        let telling = match order {
            Order::Bind(order) => return self.hand_out(Work::Bind(order)),
            Order::Prepare(order) => return self.hand_out(Work::Prepare(order)),
            Order::Consult(order) => return self.question(order),
            Order::Tell(order) => Telling::Wait(order),
            Order::Complain(what) => Telling::Unreadable(what),
            Order::Live(order) => Telling::Life(order),
            Order::Report(order) => Telling::Report(order),
            Order::Quota(order) => Telling::Quota(order),
            Order::Group(order) => Telling::Group(order),
            Order::Dismiss(order) => Telling::Dismiss(order),
        };
        if let Err(lost) = self.outlets.tells.try_send(telling) {
            self.take(lost.into_inner().untold(), self.time.now());
        }
    }

    fn question(&mut self, order: ConsultOrder) {
        if let Err(lost) = self.outlets.questions.try_send(order) {
            let advice = Advice::Failed("nobody is left to ask extenders".into());
            let back = Message::Advised(lost.into_inner().ticket, advice);
            self.take(back, self.time.now());
        }
    }

    fn hand_out(&mut self, work: Work) {
        let Err(lost) = self.outlets.binds.try_send(work) else { return };
        // There is room for all of them, unless preparations that nobody waits for any longer fill
        // it, or the writers have ended before us, which they do only with the process.
        let why = "too much is waiting to be written";
        let back = match lost.into_inner() {
            Work::Bind(order) => {
                let outcome = Outcome::NotBound(why.into());
                Message::Answered(order.errand(), Answer::Definite(outcome))
            }
            Work::Prepare(order) => {
                Message::Answered(order.errand(), Answer::Unprepared(why.into()))
            }
        };
        self.take(back, self.time.now());
    }
}

#[cfg(test)]
mod tests {
    use chassis::metrics::Metrics;
    use chassis::serve::Health;
    use engine::profile::Profile;
    use engine::turn::{self, Engine};

    use super::*;
    use crate::debug::Look;
    use crate::meters::Meters;
    use crate::notes::Notes;
    use crate::pulse::STALLED;

    #[test]
    fn a_turn_that_does_not_end_is_seen_from_outside() {
        let (clock, hand) = Clock::manual(jiff::Timestamp::UNIX_EPOCH);
        let (time, pulse, health) = (Timekeeper::new(&clock), Pulse::new(&clock), Health::new());
        pulse.watch(&health);
        let profiles = vec![("s".into(), Profile::kubernetes())];
        let engine = Engine::new(turn::Settings::default(), profiles, time.now());
        let core = Core::new(engine, ["s".into()], Meters::register(&Metrics::new()));
        let (binds, _b) = mpsc::channel(1);
        let (tells, _t) = mpsc::channel(1);
        let (questions, _q) = mpsc::channel(1);
        let traffic = Traffic::new(Notes::default());
        let outlets = Outlets { binds, tells, questions, traffic };
        let (state, witness) = (watch::Sender::default(), None);
        let turns = Turns { core, outlets, time, state, pulse, witness };
        let (messages, line) = mpsc::channel(8);
        let thread = std::thread::spawn(move || turns.run(line));
        // Whoever looks does not come back for a while.
        let (begin, begun) = std::sync::mpsc::channel();
        let (end, ended) = std::sync::mpsc::channel::<()>();
        let look = Look::new(move |_, _| {
            begin.send(()).unwrap();
            let _ = ended.recv();
        });
        messages.blocking_send(Message::Look(look)).unwrap();
        begun.recv().unwrap();
        hand.advance(STALLED / 2);
        assert_eq!(health.check("engine"), Ok(()));
        hand.advance(STALLED / 2);
        assert!(health.check("engine").is_err());
        drop(end);
        messages.blocking_send(Message::Stop).unwrap();
        thread.join().unwrap();
        assert_eq!(health.check("engine"), Ok(()));
    }
}
