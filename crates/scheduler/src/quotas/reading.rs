//! A quota and what was read of it, once: it is compared with how it stands many times.

use std::sync::Arc;

use api::elastic_quota::QuotaTerms;
use api::{ElasticQuota, ResourceList};
use engine::quota::{ByResource, QuotaFact, amounts};

use super::status::STANDS;

/// How long the text of an annotation is in which the scheduler may have written how a quota stands: one that is longer
/// is none of his.
const TEXT_MAX: usize = 64 << 10;

/// A quota as the API server shows it, and what it says.
#[derive(Debug)]
pub(super) struct Read {
    pub(super) object: Arc<ElasticQuota>,
    /// What its labels and annotations say.
    pub(super) terms: QuotaTerms,
    pub(super) fact: Arc<QuotaFact>,
    /// How it stands as its annotations say it, in the order of [`STANDS`]; none where that cannot be read.
    pub(super) stands: [Option<ByResource>; STANDS.len()],
    /// What its status says that is used.
    pub(super) used: ByResource,
}

#[cfg(test)]
thread_local! {
    /// How many quotas were read.
    pub(super) static READ: std::cell::Cell<usize> = const { std::cell::Cell::new(0) };
}

impl Read {
    /// What a quota says.
    pub(super) fn of(object: Arc<ElasticQuota>) -> Self {
        #[cfg(test)]
        READ.set(READ.get() + 1);
        let terms = QuotaTerms::of(&object);
        let fact = Arc::new(QuotaFact::said_by(&object, &terms));
        let stands = STANDS.map(|own| stands(&object, own.key));
        let used = amounts(&object.status.used);
        Self { object, terms, fact, stands, used }
    }
}

/// What an annotation says; nothing where there is none.
fn stands(object: &ElasticQuota, key: &str) -> Option<ByResource> {
    let Some(text) = object.metadata.annotations.get(key) else { return Some(ByResource::new()) };
    let text = Some(text).filter(|text| text.len() <= TEXT_MAX)?;
    let read: Option<ResourceList> = serde_json::from_str(text).ok();
    Some(amounts(&read?))
}
