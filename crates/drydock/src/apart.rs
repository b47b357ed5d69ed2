//! Work that may take long, done where no other request waits for its turn.

/// Does work where it keeps no other task waiting, if the runtime has such a place: one with
/// several threads has.
///
/// # Panics
/// In a task of a `LocalSet` on a runtime with several threads, where tokio has no such place and
/// no way to tell.
pub(crate) fn apart<T>(work: impl FnOnce() -> T) -> T {
    #[cfg(test)]
    tests::went_apart();
    let runtime = tokio::runtime::Handle::try_current();
    let many = |runtime: tokio::runtime::Handle| {
        runtime.runtime_flavor() == tokio::runtime::RuntimeFlavor::MultiThread
    };
    if runtime.is_ok_and(many) { tokio::task::block_in_place(work) } else { work() }
}

#[cfg(test)]
mod tests {
    use std::cell::{Cell, RefCell};
    use std::sync::mpsc::{Sender, channel};

    use bytes::Bytes;
    use http::{Method, Request, StatusCode};
    use http_body_util::Full;
    use serde_json::{Value, json};

    use crate::env::ManualEnv;
    use crate::request::Identity;
    use crate::{Config, Drydock};

    thread_local! {
        /// How often this thread went apart.
        static APART: Cell<usize> = const { Cell::new(0) };
        /// Who is told when this thread goes apart.
        static TOLD: RefCell<Option<Sender<()>>> = const { RefCell::new(None) };
    }

    pub(super) fn went_apart() {
        APART.with(|count| count.set(count.get() + 1));
        TOLD.with_borrow(|told| told.iter().for_each(|told| told.send(()).unwrap()));
    }

    const DEFINITIONS: &str = "/apis/apiextensions.k8s.io/v1/customresourcedefinitions";
    const MAPS: &str = "/api/v1/namespaces/default/configmaps";

    async fn ask(
        server: &Drydock,
        (method, path): (Method, &str),
        media_type: &str,
        body: String,
    ) -> StatusCode {
        let mut request = Request::new(Full::from(Bytes::from(body)));
        (*request.method_mut(), *request.uri_mut()) = (method, path.parse().unwrap());
        let media_type = media_type.parse().unwrap();
        request.headers_mut().insert(http::header::CONTENT_TYPE, media_type);
        let identity = Identity { user: "test".to_owned(), groups: Vec::new() };
        request.extensions_mut().insert(identity);
        server.answer(request).await.status()
    }

    fn definition(plural: &str, kind: &str, spec: &Value) -> String {
        let schema = json!({"type": "object", "properties": {"spec": spec}});
        let version = json!({"name": "v1", "served": true, "storage": true,
            "schema": {"openAPIV3Schema": schema}});
        json!({"metadata": {"name": format!("{plural}.x.io")}, "spec": {"group": "x.io",
            "scope": "Namespaced", "names": {"plural": plural, "kind": kind},
            "versions": [version]}})
        .to_string()
    }

    /// Holds that a request ends well, and apart exactly if it may take long.
    async fn check(server: &Drydock, at: (Method, &str), media_type: &str, body: String, is: bool) {
        let shown = format!("{} {} {media_type}", at.0, at.1);
        APART.set(0);
        let status = ask(server, at, media_type, body).await;
        assert!(status.is_success(), "{shown}: {status}");
        assert_eq!(APART.get() > 0, is, "{shown}");
    }

    #[tokio::test]
    async fn what_may_take_long_is_done_apart_however_small_its_body_is() {
        const JSON: &str = "application/json";
        const MERGE: &str = "application/merge-patch+json";
        let server =
            Drydock::new(Config::default(), ManualEnv::new(jiff::Timestamp::UNIX_EPOCH, 1));
        let map = |name: &str, text: &str| {
            json!({"metadata": {"name": name}, "data": {"a": text}}).to_string()
        };
        let label = || json!({"metadata": {"labels": {"a": "b"}}}).to_string();
        let (small, large) = (format!("{MAPS}/small"), format!("{MAPS}/large"));
        check(&server, (Method::POST, MAPS), JSON, map("small", "b"), false).await;
        check(&server, (Method::PATCH, &small), MERGE, label(), false).await;
        check(&server, (Method::PUT, &small), JSON, map("small", "c"), false).await;
        let heavy = "b".repeat(40_000);
        check(&server, (Method::POST, MAPS), JSON, map("large", &heavy), true).await;
        // What is there is worked on, too.
        check(&server, (Method::PATCH, &large), MERGE, label(), true).await;
        check(&server, (Method::PUT, &large), JSON, map("large", "c"), true).await;
        check(&server, (Method::PUT, &large), JSON, map("large", "d"), false).await;
        // A few aliases, or operations, can stand for many values.
        let yaml = "metadata: {name: yaml}\n".to_owned();
        check(&server, (Method::POST, MAPS), "application/yaml", yaml, true).await;
        let patch = r#"[{"op": "add", "path": "/data/b", "value": "c"}]"#.to_owned();
        check(&server, (Method::PATCH, &small), "application/json-patch+json", patch, true).await;
        // So can rules, of objects and of definitions.
        let (plain, ruled) = (
            json!({"type": "string"}),
            json!({"type": "string",
            "x-kubernetes-validations": [{"rule": "self != ''"}]}),
        );
        let definitions = [("as", "A", &plain, false), ("bs", "B", &ruled, true)];
        for (plural, kind, spec, is) in definitions {
            let path = format!("{DEFINITIONS}/{plural}.x.io");
            let body = definition(plural, kind, spec);
            check(&server, (Method::POST, DEFINITIONS), JSON, body, true).await;
            check(&server, (Method::PATCH, &path), MERGE, label(), true).await;
            let objects = format!("/apis/x.io/v1/namespaces/default/{plural}");
            let body = json!({"apiVersion": "x.io/v1", "kind": kind, "metadata": {"name": "a"},
                "spec": "a"});
            check(&server, (Method::POST, &objects), JSON, body.to_string(), is).await;
            check(&server, (Method::PATCH, &format!("{objects}/a")), MERGE, label(), is).await;
            check(&server, (Method::DELETE, &path), JSON, String::new(), true).await;
        }
    }

    #[tokio::test]
    async fn who_waits_for_definitions_to_change_waits_apart() {
        let server =
            Drydock::new(Config::default(), ManualEnv::new(jiff::Timestamp::UNIX_EPOCH, 1));
        let server = &server.server;
        APART.set(0);
        drop(server.defining());
        assert_eq!(APART.get(), 0, "nobody has it");
        let held = server.defining();
        std::thread::scope(|scope| {
            let (tell, told) = channel();
            scope.spawn(move || {
                TOLD.set(Some(tell));
                drop(server.defining());
            });
            told.recv().unwrap();
            drop(held);
        });
    }
}
