//! Which resources a server has: native ones and those of CRDs alike.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use chassis::client::{Call, Client, Error, ResourceType};
use http::Method;
use serde::Deserialize;

/// How all groups are asked for at once.
const AGGREGATED: &str =
    "application/json;g=apidiscovery.k8s.io;v=v2;as=APIGroupDiscoveryList,application/json";

/// How long an answer is good enough for who asks often.
const RECENT: Duration = Duration::from_secs(30);

/// How long an answer is good enough for who misses something in it: a CRD may be younger.
const RECENT_ON_MISS: Duration = Duration::from_secs(1);

/// What was last found out, for those who ask often.
#[derive(Default)]
pub struct Recent(Mutex<Option<(Duration, Arc<Resources>)>>);

impl Recent {
    /// The resource of a kind; one that was not there a little while ago is looked for again.
    ///
    /// # Errors
    /// When the server has to be asked and does not answer.
    pub async fn of_kind(
        &self,
        client: &Client,
        api_version: &str,
        kind: &str,
    ) -> Result<Option<Served>, Error> {
        for age in [RECENT, RECENT_ON_MISS] {
            let resources = self.within(client, age).await?;
            if let Some(served) = resources.of_kind(api_version, kind) {
                return Ok(Some(served.clone()));
            }
        }
        Ok(None)
    }

    async fn within(&self, client: &Client, age: Duration) -> Result<Arc<Resources>, Error> {
        let now = client.clock().monotonic();
        let kept = self.0.lock().unwrap_or_else(PoisonError::into_inner).clone();
        if let Some((since, resources)) = kept
            && now.saturating_sub(since) < age
        {
            return Ok(resources);
        }
        let found = Arc::new(Resources::discover(client).await?);
        let mut kept = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        *kept = Some((now, found.clone()));
        Ok(found)
    }
}

/// A resource that a server has.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Served {
    /// Where it is, at the version that the server prefers.
    pub resource: ResourceType,
    /// The kind of its objects.
    pub kind: String,
    /// What can be done with it.
    pub verbs: Vec<String>,
}

impl Served {
    /// Whether it has all of these verbs.
    #[must_use]
    pub fn can(&self, verbs: &[&str]) -> bool {
        verbs.iter().all(|verb| self.verbs.iter().any(|own| own == verb))
    }
}

/// The resources of a server, each once.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Resources {
    /// The resources, in order of group and name.
    pub served: Vec<Served>,
    /// Groups and versions whose resources could not be found out.
    pub unknown: Vec<String>,
}

impl Resources {
    /// Asks a server.
    ///
    /// # Errors
    /// When it does not answer, or with something else.
    pub async fn discover(client: &Client) -> Result<Self, Error> {
        let mut groups: Vec<Group> = Vec::new();
        for path in ["/api", "/apis"] {
            let call = Call::new(Method::GET, path).accept(AGGREGATED);
            groups.extend(client.call::<Groups>(call).await?.items);
        }
        Ok(Self::of(groups))
    }

    /// The resource of a kind. A reference names a version, but an object is the same at
    /// every version, so that the preferred one will do.
    #[must_use]
    pub fn of_kind(&self, api_version: &str, kind: &str) -> Option<&Served> {
        let group = api_version.split_once('/').map_or("", |(group, _)| group);
        self.served.iter().find(|served| served.resource.group == group && served.kind == kind)
    }

    fn of(groups: Vec<Group>) -> Self {
        let mut served = BTreeMap::new();
        let mut unknown = Vec::new();
        for group in groups {
            let name = group.metadata.name;
            for version in group.versions {
                if version.freshness == "Stale" {
                    unknown.push(format!("{name}/{}", version.version));
                }
                for wire in version.resources {
                    let resource = ResourceType {
                        group: name.clone(),
                        version: version.version.clone(),
                        plural: wire.resource.clone(),
                        namespaced: wire.scope == "Namespaced",
                    };
                    // The preferred version comes first.
                    served.entry((name.clone(), wire.resource)).or_insert(Served {
                        resource,
                        kind: wire.response_kind.unwrap_or_default().kind,
                        verbs: wire.verbs,
                    });
                }
            }
        }
        Self { served: served.into_values().collect(), unknown }
    }
}

#[derive(Deserialize)]
struct Groups {
    items: Vec<Group>,
}

#[derive(Deserialize)]
#[serde(default)]
#[derive(Default)]
struct Group {
    metadata: GroupMeta,
    versions: Vec<Version>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct GroupMeta {
    name: String,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Version {
    version: String,
    freshness: String,
    resources: Vec<Resource>,
}

#[derive(Deserialize, Default)]
#[serde(default, rename_all = "camelCase")]
struct Resource {
    resource: String,
    response_kind: Option<Kind>,
    scope: String,
    verbs: Vec<String>,
}

#[derive(Deserialize, Default)]
#[serde(default)]
struct Kind {
    kind: String,
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn each_resource_is_known_once_at_its_preferred_version() {
        let resource = |name: &str, kind: &str| {
            json!({ "resource": name, "scope": "Namespaced", "verbs": ["list", "delete"],
                    "responseKind": { "group": "", "version": "", "kind": kind } })
        };
        let wire = json!({ "items": [
            { "metadata": {}, "versions": [
                { "version": "v1", "resources": [resource("pods", "Pod")] }] },
            { "metadata": { "name": "apps" }, "versions": [
                { "version": "v1", "freshness": "Current", "resources": [resource("jobs", "Job")] },
                { "version": "v1beta1",
                  "resources": [resource("jobs", "Job"), resource("olds", "Old")] }] },
            { "metadata": { "name": "lost" }, "versions": [
                { "version": "v1", "freshness": "Stale" }] },
        ] });
        let found = Resources::of(serde_json::from_value::<Groups>(wire).unwrap().items);
        let names: Vec<String> =
            found.served.iter().map(|served| served.resource.to_string()).collect();
        assert_eq!(names, ["pods.v1", "jobs.v1.apps", "olds.v1beta1.apps"]);
        assert_eq!(found.unknown, ["lost/v1"]);
        let job = found.of_kind("apps/v1beta1", "Job").unwrap();
        assert!(job.resource.version == "v1" && job.can(&["delete"]) && !job.can(&["watch"]));
        assert_eq!(found.of_kind("v1", "Job"), None);
    }
}
