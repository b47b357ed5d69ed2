//! The quotas that every cluster has, made where they are not there: specification 12, 4.2.1.
//!
//! Where the namespace that they belong to is not there, it is made as well. What stands in the way is told
//! in the log, and tried again. Once all are there, whoever changes or deletes them is left alone.

use std::collections::BTreeMap;
use std::time::Duration;

use api::elastic_quota::{
    ALLOW_LENT_LABEL, DEFAULT_QUOTA, ElasticQuotaSpec, IS_PARENT_LABEL, PARENT_LABEL, ROOT_QUOTA,
    SYSTEM_QUOTA,
};
use api::pod::ResourceList;
use api::{ElasticQuota, Namespace, ObjectMeta};
use chassis::client::{Client, Error, ListOptions};
use chassis::controller::Failure as _;

use crate::caretaker::{Caretaker, Failure};
use crate::config::QuotaArgs;

/// How many requests are under way at once.
pub(crate) const IN_FLIGHT_MAX: usize = 1;
/// How long until it is tried again.
const RETRY: Duration = Duration::from_secs(10);

/// The quotas that there are to be.
fn all(args: &QuotaArgs) -> [ElasticQuota; 3] {
    let quota = |name: &str, labels: &[(&str, &str)], max: &ResourceList| {
        let labels = labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned()));
        let metadata = ObjectMeta {
            name: name.to_owned(),
            namespace: args.namespace.to_string(),
            labels: labels.collect(),
            ..ObjectMeta::default()
        };
        let spec = ElasticQuotaSpec { max: max.clone(), min: BTreeMap::new() };
        ElasticQuota { metadata, spec, ..ElasticQuota::default() }
    };
    let root = [(IS_PARENT_LABEL, "true"), (ALLOW_LENT_LABEL, "false"), (PARENT_LABEL, "")];
    [
        quota(ROOT_QUOTA, &root, &ResourceList::new()),
        quota(SYSTEM_QUOTA, &[], &args.system_max),
        quota(DEFAULT_QUOTA, &[], &args.default_max),
    ]
}

/// Why quotas are not there yet.
#[derive(Debug, thiserror::Error)]
enum Obstacle {
    /// The server does not know quotas. Somebody may install them later.
    #[error("the server does not know ElasticQuotas")]
    NoKind,
    /// It cannot be known or made.
    #[error(transparent)]
    Api(#[from] Failure),
}

/// Makes quotas while this process leads, until all are there or it is to stop.
pub(crate) async fn run(own: Caretaker, args: QuotaArgs) {
    let Some(own) = own.leading().await else { return };
    let work = async {
        while let Err(obstacle) = make(&own.client, &args).await {
            match obstacle {
                Obstacle::NoKind => tracing::debug!("{obstacle}"),
                Obstacle::Api(failure) => tracing::warn!(
                    error = failure.told(),
                    "the first ElasticQuotas are not all there, which is tried again; allow it, or \
                     create {ROOT_QUOTA}, {SYSTEM_QUOTA} and {DEFAULT_QUOTA} in namespace {} yourself",
                    args.namespace
                ),
            }
            own.client.clock().sleep(RETRY).await;
        }
    };
    own.work(work).await;
}

async fn make(client: &Client, args: &QuotaArgs) -> Result<(), Obstacle> {
    // Nothing is made for a kind that is not there.
    let look = ListOptions { limit: 1, ..ListOptions::default() };
    match client.all::<ElasticQuota>().list(&look).await {
        Ok(_) => {}
        Err(error) if error.is_not_found() => return Err(Obstacle::NoKind),
        Err(error) => return Err(Failure::of("list ElasticQuotas")(error).into()),
    }
    let mut has_namespace = false;
    for quota in all(args) {
        let name = &quota.metadata.name;
        let quotas = client.within::<ElasticQuota>(&args.namespace);
        let found = quotas.find(name).await;
        if found.map_err(Failure::of(format!("read ElasticQuota {name}")))?.is_some() {
            continue;
        }
        if !has_namespace {
            make_namespace(client, &args.namespace).await?;
            has_namespace = true;
        }
        let made = client.create(&quota).await.map(drop).or_else(unless_there);
        made.map_err(Failure::of(format!("create ElasticQuota {name}")))?;
    }
    Ok(())
}

async fn make_namespace(client: &Client, name: &str) -> Result<(), Failure> {
    let found = client.all::<Namespace>().find(name).await;
    // Who may not read namespaces finds out whether it is there when the quota is made.
    if !matches!(found, Ok(None)) {
        return Ok(());
    }
    let metadata = ObjectMeta { name: name.to_owned(), ..ObjectMeta::default() };
    let namespace = Namespace { metadata, ..Namespace::default() };
    let made = client.create(&namespace).await.map(drop).or_else(unless_there);
    made.map_err(Failure::of(format!("create namespace {name} for the first ElasticQuotas")))
}

fn unless_there(error: Error) -> Result<(), Error> {
    if error.is_already_exists() { Ok(()) } else { Err(error) }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn every_cluster_has_a_root_a_system_and_a_default_quota() {
        let amount = |text: &str| ResourceList::from([("cpu".to_owned(), text.parse().unwrap())]);
        let args = QuotaArgs {
            namespace: "shares".into(),
            system_max: amount("8"),
            default_max: amount("9"),
            ..QuotaArgs::default()
        };
        let made = all(&args).map(|quota| {
            let ObjectMeta { namespace, name, labels, .. } = &quota.metadata;
            json!({ "in": namespace, "name": name, "labels": labels, "spec": quota.spec })
        });
        let root = json!({
            "quota.scheduling.koordinator.sh/is-parent": "true",
            "quota.scheduling.koordinator.sh/allow-lent-resource": "false",
            "quota.scheduling.koordinator.sh/parent": "",
        });
        let expected = [
            json!({ "in": "shares", "name": "koordinator-root-quota", "labels": root, "spec": {} }),
            json!({ "in": "shares", "name": "koordinator-system-quota", "labels": {},
                    "spec": { "max": { "cpu": "8" } } }),
            json!({ "in": "shares", "name": "koordinator-default-quota", "labels": {},
                    "spec": { "max": { "cpu": "9" } } }),
        ];
        assert_eq!(made, expected);
    }
}
