//! The guard against a scripted API server.

use http::Request;
use jiff::Timestamp;
use rcgen::{
    BasicConstraints, CertificateParams, DnType, ExtendedKeyUsagePurpose, IsCa, Issuer, KeyPair,
};
use serde_json::{Value, json};

use super::*;
use crate::client::Options;
use crate::clock::{Clock, Hand};
use crate::fake::{Reply, Script};

struct World {
    script: Script,
    guard: Guard,
    hand: Hand,
}

fn world(replies: impl IntoIterator<Item = (u16, Value)>) -> World {
    let replies = replies.into_iter().map(|(code, body)| Reply::new(code, &body.to_string()));
    let script = Script::new(replies);
    let (clock, hand) = Clock::manual(Timestamp::from_second(1_800_000_000).unwrap());
    let client = script.client(&Options { clock, ..Options::new("test") });
    World { guard: Guard::new(&client, GuardOptions::default()), script, hand }
}

fn request(path: &str, token: Option<&str>) -> Parts {
    let mut request = Request::get(path);
    if let Some(token) = token {
        request = request.header("Authorization", format!("bearer {token}"));
    }
    request.body(()).unwrap().into_parts().0
}

impl World {
    /// `ok`, or the code and the message.
    async fn asked(&self, path: &str, token: Option<&str>) -> String {
        shown(self.guard.admit(&request(path, token), &[]).await)
    }

    fn bodies(&self) -> Vec<Value> {
        let asked = self.script.asked();
        asked.iter().map(|asked| serde_json::from_str(&asked.body).unwrap_or_default()).collect()
    }
}

fn shown(answer: Result<Caller, Denial>) -> String {
    match answer {
        Ok(_) => "ok".to_owned(),
        Err(denial) => {
            let status = denial.status();
            assert_eq!(status["code"], denial.code().as_u16());
            format!("{} {}", denial.code().as_u16(), status["message"].as_str().unwrap())
        }
    }
}

fn jane() -> (u16, Value) {
    let user =
        json!({ "username": "jane", "uid": "7", "groups": ["dev"], "extra": { "a": ["b"] } });
    (201, json!({ "status": { "authenticated": true, "user": user } }))
}

fn verdict(allowed: bool) -> (u16, Value) {
    (
        201,
        json!({ "status": { "allowed": allowed, "reason": if allowed { "" } else { "no role" } } }),
    )
}

const CANNOT: &str = "403 forbidden: User \"jane\" cannot get path \"/metrics\": no role";

#[tokio::test]
async fn open_paths_are_open_and_nothing_is_asked() {
    let mut world = world([]);
    world.guard.options.open_paths.push("/debug/*".to_owned());
    for path in ["/healthz", "/readyz", "/livez?verbose", "/debug/queue"] {
        let answer = world.guard.admit(&request(path, Some("any")), &[]).await;
        assert_eq!(answer, Ok(Caller::Stranger), "{path}");
    }
    assert_eq!(world.script.lines().len(), 0);
}

#[tokio::test]
async fn a_token_is_reviewed_and_so_is_access_and_both_are_remembered_for_ten_seconds() {
    let world = world([jane(), verdict(true), jane(), verdict(false), jane(), verdict(true)]);
    let lines = || world.script.lines().len();
    assert_eq!(world.asked("/metrics", Some("secret")).await, "ok");
    let [review, access] = &world.bodies()[..] else { panic!("{:?}", world.script.lines()) };
    let want = json!({ "apiVersion": "authentication.k8s.io/v1", "kind": "TokenReview",
        "spec": { "token": "secret" } });
    assert_eq!(*review, want);
    let want = json!({
        "apiVersion": "authorization.k8s.io/v1", "kind": "SubjectAccessReview",
        "spec": {
            "user": "jane", "uid": "7", "groups": ["dev", "system:authenticated"],
            "extra": { "a": ["b"] },
            "nonResourceAttributes": { "path": "/metrics", "verb": "get" } },
    });
    assert_eq!(*access, want);
    world.hand.advance(Duration::from_millis(9999));
    assert_eq!(world.asked("/metrics", Some("secret")).await, "ok");
    assert_eq!(lines(), 2);
    world.hand.advance(Duration::from_millis(1));
    assert_eq!(world.asked("/metrics", Some("secret")).await, CANNOT);
    assert_eq!(world.asked("/metrics", Some("secret")).await, CANNOT);
    assert_eq!(lines(), 4);
    world.hand.advance(Duration::from_secs(10));
    assert_eq!(world.asked("/metrics", Some("secret")).await, "ok");
}

#[tokio::test]
async fn who_says_nothing_is_anonymous_and_who_lies_is_nobody() {
    let no = (201, json!({ "status": { "user": {} } }));
    let bare = (201, json!({ "spec": { "token": "lie" } }));
    let world = world([verdict(false), no, bare]);
    let want = "403 forbidden: User \"system:anonymous\" cannot get path \"/metrics\": no role";
    assert_eq!(world.asked("/metrics", None).await, want);
    assert_eq!(world.bodies()[0]["spec"]["groups"], json!(["system:unauthenticated"]));
    assert_eq!(world.asked("/metrics", Some("lie")).await, "401 Unauthorized");
    assert_eq!(world.asked("/metrics", Some("lie")).await, "401 Unauthorized");
    // A server that stores the review as plain data says nothing of the token.
    assert_eq!(world.asked("/metrics", Some("other lie")).await, "401 Unauthorized");
    assert_eq!(world.script.lines().len(), 3);
}

#[tokio::test]
async fn where_nobody_reviews_nobody_is_let_in() {
    let failure = |code: u16| (code, json!({ "status": "Failure", "code": code }));
    let world = world([
        failure(404),
        failure(403),
        failure(500),
        failure(404),
        failure(503),
        jane(),
        (201, json!({})),
        verdict(true),
    ]);
    let unreviewed = "401 Unauthorized: the API server does not review tokens for this server";
    let silent = "401 Unauthorized: the API server, which reviews tokens, gives no answer";
    for want in [unreviewed, unreviewed, silent] {
        assert_eq!(world.asked("/metrics", Some("secret")).await, want);
    }
    let anonymous = "403 forbidden: User \"system:anonymous\" cannot get path \"/metrics\": \
        the API server does not review access for this server";
    assert_eq!(world.asked("/metrics", None).await, anonymous);
    let silent = "500 Internal Server Error: \"/metrics\": the API server, which reviews access, \
        gives no answer";
    assert_eq!(world.asked("/metrics", None).await, silent);
    // What is not an answer is not remembered; one without a verdict is a no.
    let bare = "403 forbidden: User \"jane\" cannot get path \"/metrics\"";
    assert_eq!(world.asked("/metrics", Some("secret")).await, bare);
    assert_eq!(world.asked("/metrics", None).await, "ok");
}

struct Authority {
    pem: String,
    issuer: Issuer<'static, KeyPair>,
}

fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let key = KeyPair::generate().unwrap();
    let pem = params.self_signed(&key).unwrap().pem();
    Authority { pem, issuer: Issuer::new(params, key) }
}

fn certificate(authority: &Authority, user: &str, group: &str) -> Vec<CertificateDer<'static>> {
    let mut params = CertificateParams::default();
    params.distinguished_name.push(DnType::CommonName, user);
    params.distinguished_name.push(DnType::OrganizationName, group);
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    let key = KeyPair::generate().unwrap();
    vec![params.signed_by(&key, &authority.issuer).unwrap().der().clone()]
}

#[tokio::test]
async fn a_certificate_of_the_clusters_clients_says_who_it_is() {
    let (own, other) = (authority(), authority());
    let map = (200, json!({ "data": { "client-ca-file": own.pem } }));
    let world = world([map, verdict(true), jane(), verdict(true)]);
    let check = async |certificates: &[CertificateDer<'static>], token, want: &str| {
        let answer = world.guard.admit(&request("/metrics", token), certificates).await;
        assert_eq!(shown(answer), want);
    };
    let path = "/api/v1/namespaces/kube-system/configmaps/extension-apiserver-authentication";
    check(&certificate(&own, "root", "system:masters"), None, "ok").await;
    assert_eq!(world.script.lines(), [format!("GET {path}")]);
    check(&certificate(&own, "joe", "ops"), None, "ok").await;
    let spec = &world.bodies()[1]["spec"];
    assert_eq!((&spec["user"], &spec["groups"][0]), (&json!("joe"), &json!("ops")));
    let wrong = "401 Unauthorized: the certificate is not one of the cluster's clients";
    let stranger = certificate(&other, "root", "system:masters");
    check(&stranger, None, wrong).await;
    // A token still counts.
    check(&stranger, Some("secret"), "ok").await;
}

#[tokio::test]
async fn without_the_clusters_authority_certificates_say_nothing() {
    let world = world([(403, json!({})), verdict(false)]);
    let shows = certificate(&authority(), "root", "system:masters");
    let answer = world.guard.admit(&request("/metrics", None), &shows).await;
    let want = "403 forbidden: User \"system:anonymous\" cannot get path \"/metrics\": no role";
    assert_eq!(shown(answer), want);
}

#[tokio::test]
async fn where_the_authority_is_not_looked_up_a_certificate_says_nothing_and_nobody_is_asked() {
    let mut world = world([verdict(false)]);
    world.guard.options.skips_lookup = true;
    let shows = certificate(&authority(), "root", "system:masters");
    let answer = world.guard.admit(&request("/metrics", None), &shows).await;
    let want = "403 forbidden: User \"system:anonymous\" cannot get path \"/metrics\": no role";
    assert_eq!(shown(answer), want);
    assert_eq!(world.bodies().len(), 1, "only whether anybody may see it");
}

/// How often a request is polled before it has certainly been sent.
const POLLS: usize = 10;
const BUSY: &str = "429 Too many requests, please try again later.";

#[tokio::test]
async fn who_floods_the_guard_is_told_to_come_again_and_takes_nothing_of_others() {
    let script = Script::new([]);
    let (clock, hand) = Clock::manual(Timestamp::UNIX_EPOCH);
    let options = Options { clock, in_flight_max: 1, ..Options::new("test") };
    let client = script.client(&options);
    let guard = Guard::new(&client, GuardOptions::default());
    let world = World { script, guard, hand };
    let tokens: Vec<String> = (0..REVIEWS_MAX).map(|n| format!("guess{n}")).collect();
    let mut flood: Vec<_> =
        tokens.iter().map(|token| Box::pin(world.asked("/metrics", Some(token)))).collect();
    for _ in 0..POLLS {
        for asked in &mut flood {
            assert!(futures::poll!(asked.as_mut()).is_pending());
        }
    }
    assert_eq!(world.script.lines().len(), REVIEWS_MAX);
    assert_eq!(world.asked("/metrics", Some("one more")).await, BUSY);
    // Neither those who say nothing nor the rest of the process wait for it.
    let mut stranger = Box::pin(world.asked("/metrics", None));
    let mut own = Box::pin(client.call_unread(Call::new(Method::GET, "/own")));
    for _ in 0..POLLS {
        assert!(futures::poll!(stranger.as_mut()).is_pending());
        assert!(futures::poll!(own.as_mut()).is_pending());
    }
    assert_eq!(world.script.lines().len(), REVIEWS_MAX + 2);
    assert!(world.script.lines().contains(&"GET /own".to_owned()));
    world.hand.advance(REVIEW_TIMEOUT);
    let silent = "401 Unauthorized: the API server, which reviews tokens, gives no answer";
    for asked in flood {
        assert_eq!(asked.await, silent);
    }
}

#[tokio::test]
async fn a_stranger_who_names_many_paths_has_few_looked_up() {
    let burst = REVIEWS_OF_STRANGERS.burst as usize;
    let mut replies = vec![verdict(false); burst];
    replies.extend([jane(), verdict(true), verdict(false)]);
    let world = world(replies);
    let ask = async |n: usize| world.asked(&format!("/{n}"), None).await;
    for n in 0..burst {
        assert!(ask(n).await.starts_with("403 "), "{n}");
    }
    assert_eq!(ask(burst).await, BUSY);
    // What is known needs no look, and others are not meant.
    assert!(ask(0).await.starts_with("403 "));
    assert_eq!(world.asked("/metrics", Some("secret")).await, "ok");
    world.hand.advance(Duration::from_millis(200));
    assert!(ask(burst).await.starts_with("403 "));
    assert_eq!(ask(burst + 1).await, BUSY);
    let long = format!("/{}", "x".repeat(PATH_BYTES_MAX));
    assert!(world.asked(&long, None).await.ends_with("the path is too long to be looked up"));
    assert_eq!(world.script.lines().len(), burst + 3);
}

#[tokio::test]
async fn the_authority_is_read_once_for_all_who_show_a_certificate() {
    let own = authority();
    let world = world([(200, json!({ "data": { "client-ca-file": own.pem } }))]);
    let shown_by_all = certificate(&own, "root", "system:masters");
    let parts = request("/metrics", None);
    let all = (0..5).map(|_| world.guard.admit(&parts, &shown_by_all));
    let answers = futures::future::join_all(all).await;
    assert_eq!(answers, vec![Ok(Caller::Known); 5]);
    assert_eq!(world.script.lines().len(), 1);
}
