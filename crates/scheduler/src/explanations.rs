//! ScheduleExplanations: somebody asks why a pod has no node, and reads the answer in the status.
//!
//! What is due when is decided by [`questions`], without I/O; what is said of a pod by [`answer`], from
//! a copy of what the engine's thread knows. One question is answered at a time, in turn with those of
//! people, and there is a pause between them: a thousand of them hold up nobody. Where there is none,
//! there is a watch and nothing else.

mod answer;
mod questions;

#[cfg(test)]
mod tests;

use api::{Pod, Resource as _, ScheduleExplanation};
use chassis::client::{Client, DeleteOptions, Error, Patch, ResourceType};
use chassis::metrics::Metrics;
use chassis::reflector::{Delta, Reflector};
use engine::fact::Uid;
use engine::moment::Moment;
use tokio::sync::mpsc;
use tokio_util::sync::CancellationToken;

use crate::debug::{Asked, Desk, Refusal};
use crate::writers::License;
use answer::Content;
pub(crate) use answer::details;
use questions::{Name, Questions, Step, Write};

/// How many requests are under way at once: one for the watch, and one for the question.
pub(crate) const IN_FLIGHT_MAX: usize = 2;
/// How many changes of questions may wait.
const NEWS_MAX: usize = 64;

/// Who answers.
pub(crate) struct Explainer {
    /// With limits of its own.
    pub(crate) client: Client,
    pub(crate) desk: Desk,
    pub(crate) license: License,
    /// Cancelled when this process begins to lead; none where it need not.
    pub(crate) begun: Option<CancellationToken>,
    pub(crate) metrics: Metrics,
    pub(crate) seed: u64,
    pub(crate) stop: CancellationToken,
}

/// What happened to a question.
enum News {
    Put(Box<ScheduleExplanation>),
    Gone(Box<str>),
    Nothing,
}

fn news(delta: Delta<ScheduleExplanation>) -> News {
    match delta {
        Delta::Upserted(object) => News::Put(Box::new(object)),
        Delta::Deleted { uid, .. } => News::Gone(uid),
        Delta::Malformed { key, error, .. } => {
            let kind = ScheduleExplanation::KIND;
            tracing::warn!(%key, error, "a {kind} cannot be read, and is not answered");
            News::Nothing
        }
        Delta::Synced => News::Nothing,
    }
}

impl Explainer {
    /// Answers questions while this process leads, until it is to stop.
    pub(crate) async fn run(mut self) {
        if let Some(begun) = &self.begun {
            tokio::select! {
                biased;
                () = self.stop.cancelled() => return,
                () = begun.cancelled() => {}
            }
        }
        let (license, clock) = (self.license.clone(), self.client.clock().clone());
        self.client = self.client.guarded(move || license.is_valid(clock.monotonic()));
        let kind = ResourceType::of::<ScheduleExplanation>();
        let reflector = Reflector::new(self.client.access(kind, ""));
        let reflector = reflector.may_be_absent().seed(self.seed).metrics(&self.metrics);
        let (sink, line) = mpsc::channel(NEWS_MAX);
        let watch = reflector.run(sink, news, self.stop.clone());
        let stop = self.stop.clone();
        tokio::select! {
            biased;
            () = stop.cancelled() => {}
            () = async { tokio::join!(watch, self.answer_all(line)); } => {}
        }
    }

    fn now(&self) -> Moment {
        let nanos = self.client.clock().now().as_nanosecond();
        Moment(u64::try_from(nanos).unwrap_or_default())
    }

    async fn answer_all(&self, mut line: mpsc::Receiver<News>) {
        let mut questions = Questions::default();
        loop {
            let now = self.now();
            let wait = questions.next_due().map(|due| due.since(now));
            tokio::select! {
                biased;
                news = line.recv() => match news {
                    Some(News::Put(object)) => questions.put(*object, self.now()),
                    Some(News::Gone(uid)) => questions.remove(&Uid::new(&uid)),
                    Some(News::Nothing) => {}
                    None => return,
                },
                () = self.client.clock().sleep(wait.unwrap_or_default()), if wait.is_some() => {
                    if let Some(step) = questions.next(self.now()) {
                        self.do_step(&mut questions, step).await;
                    }
                }
            }
        }
    }

    async fn do_step(&self, questions: &mut Questions, step: Step) {
        let write = match step {
            Step::Ask { uid, namespace, pod } => {
                let content = self.ask(&namespace, &pod).await;
                questions.answered(&uid, content, self.now())
            }
            Step::Write(write) => Some(write),
            Step::Delete { uid, name } => {
                let all = self.client.within::<ScheduleExplanation>(&name.namespace);
                let deleted = all.delete(&name.name, &DeleteOptions::of(&uid.0)).await;
                if let Err(error) = deleted.or_else(gone) {
                    tell(&name, &error, "cannot delete an explanation whose time is over");
                }
                None
            }
        };
        let Some(Write { name, patch, .. }) = write else { return };
        let all = self.client.within::<ScheduleExplanation>(&name.namespace);
        match all.patch_sub(&name.name, "status", &Patch::Merge(patch)).await {
            Ok(object) => questions.put(object, self.now()),
            // What it is now comes as news, or it is gone.
            Err(error) if error.is_conflict() || error.is_not_found() => {}
            Err(error) => tell(&name, &error, "cannot write an explanation"),
        }
    }

    /// What there is to be said of a pod; nothing where nobody can say it now.
    async fn ask(&self, namespace: &str, name: &str) -> Option<Content> {
        let pod = match self.client.within::<Pod>(namespace).find(name).await {
            Ok(Some(pod)) => pod,
            Ok(None) => return Some(Content::no_pod(namespace, name)),
            Err(error) => {
                tracing::warn!(namespace, name, %error, "cannot read a pod that is asked about");
                return None;
            }
        };
        match self.desk.ask_about(&pod, |asked: Asked| answer::of(asked)).await {
            Ok(content) => content,
            Err(Refusal { message, .. }) => {
                tracing::debug!(namespace, name, message, "a pod is not explained yet");
                None
            }
        }
    }
}

fn gone(error: Error) -> Result<(), Error> {
    if error.is_not_found() || error.is_conflict() { Ok(()) } else { Err(error) }
}

fn tell(name: &Name, error: &Error, what: &str) {
    let Name { namespace, name } = name;
    tracing::warn!(namespace, name, %error, "{what}");
}
