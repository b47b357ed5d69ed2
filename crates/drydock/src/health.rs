//! `/healthz`, `/livez` and `/readyz`: named checks, told as kube-apiserver tells them.
//!
//! The server itself is well whenever it answers. What else readiness means is for those to say
//! who put something on it: they give checks of their own in [`Config`](crate::Config).

use std::fmt;
use std::fmt::Write as _;
use std::sync::Arc;

use http::StatusCode;

use crate::answer::{Answer, body};

/// Checks that every server has, under kube-apiserver's names. The store is in this process.
const OWN: [&str; 3] = ["ping", "log", "etcd"];

/// A check of whoever runs the server; `/readyz` asks for it.
#[derive(Clone)]
pub struct HealthCheck {
    /// One word, which is also the last part of its path.
    pub name: &'static str,
    /// Passes, or says why not.
    pub run: Arc<dyn Fn() -> Result<(), String> + Send + Sync>,
}

impl fmt::Debug for HealthCheck {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("HealthCheck").field(&self.name).finish()
    }
}

/// Whether an endpoint has a check of this name.
pub(crate) fn knows(checks: &[HealthCheck], endpoint: &str, name: &str) -> bool {
    OWN.contains(&name) || endpoint == "readyz" && checks.iter().any(|check| check.name == name)
}

/// The answer of one check.
pub(crate) fn one(checks: &[HealthCheck], name: &str) -> Answer {
    match checks.iter().find(|check| check.name == name).map_or(Ok(()), |check| (check.run)()) {
        Ok(()) => body::text(StatusCode::OK, "ok"),
        Err(why) => {
            let text = format!("internal server error: {why}\n");
            body::text(StatusCode::INTERNAL_SERVER_ERROR, text)
        }
    }
}

/// The answer of an endpoint to a query string.
pub(crate) fn all(checks: &[HealthCheck], endpoint: &str, query: &str) -> Answer {
    let pairs = || form_urlencoded::parse(query.as_bytes());
    let excluded: std::collections::BTreeSet<String> =
        pairs().filter(|(key, _)| key == "exclude").map(|(_, name)| name.into_owned()).collect();
    let mut unknown = excluded.clone();
    let own = OWN.iter().map(|name| (*name, None));
    let more = checks.iter().filter(|_| endpoint == "readyz");
    let more = more.map(|check| (check.name, Some(&check.run)));
    let (mut text, mut failed) = (String::new(), false);
    for (name, run) in own.chain(more) {
        // Writing to a string cannot fail.
        let _ = if excluded.contains(name) {
            unknown.remove(name);
            writeln!(text, "[+]{name} excluded: ok")
        } else if run.is_none_or(|run| run().is_ok()) {
            writeln!(text, "[+]{name} ok")
        } else {
            failed = true;
            writeln!(text, "[-]{name} failed: reason withheld")
        };
    }
    if !unknown.is_empty() {
        let names: Vec<String> = unknown.iter().map(|name| format!("{name:?}")).collect();
        let names = names.join(",");
        let warning = "warn: some health checks cannot be excluded: no matches for";
        let _ = writeln!(text, "{warning} {names}");
    }
    if failed {
        let _ = writeln!(text, "{endpoint} check failed");
        return body::text(StatusCode::INTERNAL_SERVER_ERROR, text);
    }
    if !pairs().any(|(key, _)| key == "verbose") {
        return body::text(StatusCode::OK, "ok");
    }
    let _ = writeln!(text, "{endpoint} check passed");
    body::text(StatusCode::OK, text)
}

#[cfg(test)]
mod tests {
    use http_body_util::BodyExt as _;

    use super::*;

    async fn told(answer: Answer) -> String {
        let code = answer.status().as_u16();
        let bytes = answer.into_body().collect().await.unwrap().to_bytes();
        format!("{code} {}", String::from_utf8(bytes.to_vec()).unwrap())
    }

    #[tokio::test]
    async fn readiness_asks_for_what_was_added_and_life_does_not() {
        let check = |name, result: Result<(), String>| HealthCheck {
            name,
            run: Arc::new(move || result.clone()),
        };
        let waits = Err("2 of 5 registered".to_owned());
        let checks = [check("controllers", Ok(())), check("nodes", waits)];
        let own = "[+]ping ok\n[+]log ok\n[+]etcd ok\n";
        assert_eq!(told(all(&checks, "livez", "")).await, "200 ok");
        let lively = format!("200 {own}livez check passed\n");
        assert_eq!(told(all(&checks, "livez", "verbose")).await, lively);
        let failed = format!(
            "500 {own}[+]controllers ok\n[-]nodes failed: reason withheld\nreadyz check failed\n"
        );
        assert_eq!(told(all(&checks, "readyz", "")).await, failed);
        let without = format!(
            "200 {own}[+]controllers ok\n[+]nodes excluded: ok\nwarn: some health checks cannot be \
             excluded: no matches for \"other\"\nreadyz check passed\n"
        );
        let query = "exclude=nodes&exclude=other&verbose=1";
        assert_eq!(told(all(&checks, "readyz", query)).await, without);
        let one_of = "500 internal server error: 2 of 5 registered\n";
        assert_eq!(told(one(&checks, "nodes")).await, one_of);
        assert_eq!(told(one(&checks, "controllers")).await, "200 ok");
        assert!(knows(&checks, "readyz", "nodes") && !knows(&checks, "livez", "nodes"));
    }
}
