//! What the load of a pod is estimated by.

use api::priority::PriorityBand;

use super::Amounts;

/// What the load of a pod is estimated by, besides its requests.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct LoadNeeds {
    /// Whose resources it uses.
    pub band: PriorityBand,
    /// What it may use at most.
    pub limits: Amounts,
    /// How much of what it requests it is taken to use, in percent, by resource.
    pub factors: Box<[(Box<str>, i64)]>,
    /// For how many seconds after it got its node it is taken to use that, whatever is reported.
    pub after_scheduled: Option<u64>,
    /// The same after its init containers ended.
    pub after_initialized: Option<u64>,
    /// Whether it runs on every node, whatever its load.
    pub is_daemon: bool,
}

impl LoadNeeds {
    /// Those of a pod that says nothing but what it requests.
    #[must_use]
    pub fn of_requests(requests: &Amounts) -> Self {
        Self {
            band: Self::band_of(None, requests),
            limits: Amounts::default(),
            factors: Box::default(),
            after_scheduled: None,
            after_initialized: None,
            is_daemon: false,
        }
    }

    /// The band of a pod that says this, or nothing but what it requests.
    #[must_use]
    pub fn band_of(needs: Option<&Self>, requests: &Amounts) -> PriorityBand {
        let requested = requests.cpu_millis > 0 || requests.memory_bytes > 0;
        let plain = if requested { PriorityBand::Prod } else { PriorityBand::Batch };
        needs.map_or(plain, |needs| needs.band)
    }
}
