//! Who is woken when pods of full quotas go, as the counters of the scheduler tell it.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use anyhow::{Context, Result, ensure};
use api::elastic_quota;

use super::super::cluster::Cluster;
use super::super::contender::Contender;
use super::super::sights::Sights;
use super::work::Work;

/// How many quotas lose a pod at most.
const QUOTAS_MAX: usize = 100;
/// How long it may take until nobody is tried any more: of each pod that waits it is told first.
const PATIENCE: Duration = Duration::from_mins(10);
/// How often counters are read: less often than they are written.
const LOOK_EVERY: Duration = Duration::from_millis(1_500);

/// Pods that were tried and refused.
const REFUSED: &str =
    r#"scheduler_queue_incoming_pods_total{queue="unschedulable",event="ScheduleAttemptFailure"}"#;
/// Pods that were woken because their quotas had room.
const WOKEN: &str =
    r#"scheduler_queue_incoming_pods_total{queue="active",event="ElasticQuotaFreed"}"#;
/// Pods that are tried whatever happens, now or later.
const RESTLESS: [&str; 2] =
    [r#"scheduler_pending_pods{queue="active"}"#, r#"scheduler_pending_pods{queue="backoff"}"#];

/// Deletes a pod of each of many full quotas, waits until others have come into their places, and says how
/// many were woken and refused again, for each of those quotas.
///
/// # Errors
/// When a request fails, or nobody comes.
pub async fn woken_in_vain(
    cluster: &Cluster,
    contender: &mut Contender,
    bound: &mut Sights,
    work: Work,
) -> Result<f64> {
    // Before all others wait, it cannot be told who is refused because of those that go.
    let others = (work.size.pods - work.bound()) as f64;
    let before = settled(contender, |counters| counters.refused >= others).await?;
    let mut leaving = BTreeMap::new();
    for pod in cluster.pods().await?.iter().filter(|pod| !pod.spec.node_name.is_empty()) {
        let quota = elastic_quota::quota_name(pod).context("a pod is of no quota")?;
        leaving.insert(quota.to_owned(), pod.metadata.name.clone());
    }
    let leaving: Vec<String> = leaving.into_values().take(QUOTAS_MAX).collect();
    for name in &leaving {
        cluster.delete_pod(name, Some(0)).await?;
    }
    contender.until(bound.come(leaving.len())).await?;
    let quotas = leaving.len() as f64;
    let after = settled(contender, |counters| counters.woken - before.woken >= quotas).await?;
    Ok((after.refused - before.refused) / quotas)
}

/// What a scheduler has counted.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Counters {
    refused: f64,
    woken: f64,
    /// Pods that are to be tried again in any case.
    restless: f64,
}

impl Counters {
    fn read(page: &str) -> Self {
        // What has not happened yet is not shown.
        let value = |name: &str| {
            let mut values = page.lines().filter_map(|line| line.strip_prefix(name));
            values.find_map(|value| value.trim().parse().ok()).unwrap_or_default()
        };
        let restless = RESTLESS.into_iter().map(value).sum();
        Self { refused: value(REFUSED), woken: value(WOKEN), restless }
    }
}

/// The counters as soon as this is so of them and they stay as they are.
async fn settled(contender: &mut Contender, is_so: impl Fn(&Counters) -> bool) -> Result<Counters> {
    let (began, mut before) = (Instant::now(), None);
    loop {
        contender.check()?;
        let counters = Counters::read(&contender.metrics().await?);
        if is_so(&counters) && counters.restless == 0.0 && before == Some(counters) {
            return Ok(counters);
        }
        ensure!(began.elapsed() < PATIENCE, "the scheduler does not come to rest: {counters:?}");
        before = Some(counters);
        tokio::time::sleep(LOOK_EVERY).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counters_are_read_off_the_page_and_are_nothing_before_they_are_shown() {
        let check = |page: &str, [refused, woken, restless]: [f64; 3]| {
            assert_eq!(Counters::read(page), Counters { refused, woken, restless }, "{page}");
        };
        let page = format!("# TYPE scheduler_queue_incoming_pods counter\n{REFUSED} 45000\n");
        check(&page, [45_000.0, 0.0, 0.0]);
        check(&format!("{page}{WOKEN} 100\n"), [45_000.0, 100.0, 0.0]);
        let [active, backoff] = RESTLESS;
        check(&format!("{active} 2\n{page}{backoff} 3\n"), [45_000.0, 0.0, 5.0]);
        check("", [0.0, 0.0, 0.0]);
    }
}
