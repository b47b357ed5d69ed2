//! Who has which share of the cluster, as tables.

use api::elastic_quota::ROOT_QUOTA;
use engine::ledger::QuotaHolder;

use super::{Figures, Share, Shares};
use crate::top::{aligned, readable};

/// What stands where there is no bound.
const NONE: &str = "-";
/// So much of anything there is nowhere: the quotas of every cluster have ceilings like this.
const UNBOUND: i64 = 1 << 60;
/// By how much those below a quota are further in.
const INDENT: usize = 2;
/// The resources that come first.
const PLAIN: [&str; 2] = ["cpu", "memory"];

impl Shares {
    /// Tables for people. Their headers are the same whatever there is.
    #[must_use]
    pub fn text(&self) -> String {
        let header =
            ["QUOTA", "RESOURCE", "MIN", "MAX", "RUNTIME", "REQUEST", "USED", "LENT", "BORROWED"];
        let mut rows = vec![header.map(str::to_owned).to_vec()];
        rows.extend(self.quotas.iter().flat_map(Share::rows));
        let mut text = aligned(&rows);
        let users = self.quotas.iter().filter(|own| own.pods.all > 0);
        let mut users: Vec<Vec<String>> = users.flat_map(Share::users).collect();
        if !users.is_empty() {
            let header = ["QUOTA", "POD", "NODE", "PRIORITY", "REQUESTS"].map(str::to_owned);
            users.insert(0, header.to_vec());
            text = format!("{text}\n\n{}", aligned(&users));
        }
        text
    }
}

impl Share {
    fn name(&self) -> String {
        match (&*self.quota, &*self.tree) {
            (ROOT_QUOTA, "") => "(cluster)".to_owned(),
            (ROOT_QUOTA, tree) => format!("(tree {tree})"),
            (name, _) => format!("{:indent$}{name}", "", indent = self.depth * INDENT),
        }
    }

    fn rows(&self) -> impl Iterator<Item = Vec<String>> {
        let mut resources: Vec<(&String, &Figures)> = self.resources.iter().collect();
        let rank = |name: &str| PLAIN.iter().position(|own| *own == name).unwrap_or(PLAIN.len());
        resources.sort_by_key(|(name, _)| (rank(name), *name));
        let row = |(name, own): (&String, &Figures)| {
            let is_bound = |own: &i64| *own < UNBOUND;
            let bound = |own: Option<i64>| {
                own.filter(is_bound).map_or(NONE.to_owned(), |own| readable(name, own))
            };
            let share = own.runtime.filter(|most| *most > 0 && *most < UNBOUND && own.used != 0);
            let share = share.map(|most| i128::from(own.used) * 100 / i128::from(most));
            let used = readable(name, own.used);
            vec![
                self.name(),
                name.clone(),
                bound(own.min),
                bound(own.max),
                bound(own.runtime),
                readable(name, own.request),
                share.map_or(used.clone(), |share| format!("{used} ({share}%)")),
                readable(name, own.lent),
                readable(name, own.borrowed),
            ]
        };
        resources.into_iter().map(row).collect::<Vec<_>>().into_iter()
    }

    fn users(&self) -> impl Iterator<Item = Vec<String>> {
        let row = |own: &QuotaHolder| {
            let counted = own.amounts.names().filter(|name| self.resources.contains_key(*name));
            let requests = counted
                .filter(|name| own.amounts.of(name) != 0)
                .map(|name| format!("{name} {}", readable(name, own.amounts.of(name))));
            vec![
                own.quota.to_string(),
                format!("{}/{}", own.pod.namespace, own.pod.name),
                own.node.as_ref().map_or(NONE.to_owned(), ToString::to_string),
                own.priority.to_string(),
                requests.collect::<Vec<_>>().join(", "),
            ]
        };
        let left_out = self.pods.all - self.pods.first.len();
        let more = (left_out > 0).then(|| {
            let words = format!("and {left_out} more");
            vec![self.quota.clone(), words, String::new(), String::new(), String::new()]
        });
        self.pods.first.iter().map(row).chain(more).collect::<Vec<_>>().into_iter()
    }
}
