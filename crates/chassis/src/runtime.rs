//! The one thread of a process that talks to an API server.
//!
//! It keeps up with any server, and costs much less than several that wake each other. While many
//! requests are under way, the server has enough to do and waits for nobody: then it does not look at
//! each answer as it comes, since to wake up for one costs more than to take it in. Nor does it while lists come, of
//! which the server writes one object after the other.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::client::UnderWay;

/// With so many requests under way, all that count there together, other answers come soon after the
/// next.
const MANY: usize = 32;
/// How long answers gather then.
const GATHER: Duration = Duration::from_millis(2);
/// How long lists do.
const GATHER_LISTS: Duration = Duration::from_millis(1);

/// A runtime of one thread, for clients that count their requests there.
///
/// # Errors
/// When the operating system has no room for it.
pub fn of_one_thread(under_way: &UnderWay) -> io::Result<Runtime> {
    let under_way = under_way.clone();
    let gather = move || {
        if let Some(pause) = pause(&under_way) {
            std::thread::sleep(pause);
        }
    };
    Builder::new_current_thread().enable_all().on_thread_park(gather).build()
}

/// How long what comes gathers, where it does.
fn pause(under_way: &UnderWay) -> Option<Duration> {
    match (under_way.count() >= MANY, under_way.lists() > 0) {
        (true, _) => Some(GATHER),
        (false, true) => Some(GATHER_LISTS),
        (false, false) => None,
    }
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::client::{Call, Client, ListOptions, Options, ResourceType};

    /// How long answers gather while so many requests and lists are under way, and how long a turn of a runtime takes
    /// then.
    fn turn(requests: usize, lists: usize) -> (Option<Duration>, Duration) {
        let under_way = UnderWay::default();
        let runtime = of_one_thread(&under_way).unwrap();
        runtime.block_on(async {
            let silent = tower::service_fn(|_| {
                std::future::pending::<Result<http::Response<String>, tower::BoxError>>()
            });
            let options = Options { under_way: under_way.clone(), ..Options::new("test") };
            let client = Client::from_service(silent, &options);
            let asks = (0..requests).map(|_| {
                let client = client.clone();
                tokio::spawn(async move {
                    let _ = client.call_bytes(Call::new(http::Method::GET, "/")).await;
                })
            });
            let lists = (0..lists).map(|_| {
                let pods = client
                    .access::<serde_json::Value>(ResourceType::namespaced("", "v1", "pods"), "");
                tokio::spawn(async move {
                    let _ = pods.fetch(&ListOptions::default()).await;
                })
            });
            let all: Vec<_> = asks.chain(lists).collect();
            while under_way.count() < all.len() {
                tokio::task::yield_now().await;
            }
            let pause = pause(&under_way);
            let begun = Instant::now();
            tokio::time::sleep(Duration::from_micros(1)).await;
            let took = begun.elapsed();
            for one in all {
                one.abort();
                assert!(one.await.unwrap_err().is_cancelled());
            }
            let counts = (under_way.count(), under_way.lists());
            assert_eq!(counts, (0, 0), "one that is given up is under way no longer");
            (pause, took)
        })
    }

    #[test]
    fn answers_gather_while_many_are_awaited_and_while_lists_come() {
        for (requests, lists, expected) in [
            (MANY, 0, Some(GATHER)),
            (MANY - 1, 0, None),
            (0, 1, Some(GATHER_LISTS)),
            (MANY, 1, Some(GATHER)),
        ] {
            let (pause, took) = turn(requests, lists);
            assert_eq!(pause, expected, "{requests} {lists}");
            assert!(pause.is_none_or(|pause| took >= pause), "{took:?}");
        }
    }
}
