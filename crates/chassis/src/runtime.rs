//! The one thread of a process that talks to an API server.
//!
//! It keeps up with any server, and costs much less than several that wake each other. While many
//! requests are under way, the server has enough to do and waits for nobody: then it does not look at
//! each answer as it comes, since to wake up for one costs more than to take it in.

use std::io;
use std::time::Duration;

use tokio::runtime::{Builder, Runtime};

use crate::client::UnderWay;

/// With so many requests under way, all that count there together, other answers come soon after the
/// next.
const MANY: usize = 32;
/// How long answers gather then.
const GATHER: Duration = Duration::from_millis(2);

/// A runtime of one thread, for clients that count their requests there.
///
/// # Errors
/// When the operating system has no room for it.
pub fn of_one_thread(under_way: &UnderWay) -> io::Result<Runtime> {
    let under_way = under_way.clone();
    let gather = move || {
        if are_many(&under_way) {
            std::thread::sleep(GATHER);
        }
    };
    Builder::new_current_thread().enable_all().on_thread_park(gather).build()
}

fn are_many(under_way: &UnderWay) -> bool {
    under_way.count() >= MANY
}

#[cfg(test)]
mod tests {
    use std::time::Instant;

    use super::*;
    use crate::client::{Call, Client, Options};

    /// Whether requests are many, and how long a turn of a runtime takes while they are under way.
    fn turn(requests: usize) -> (bool, Duration) {
        let under_way = UnderWay::default();
        let runtime = of_one_thread(&under_way).unwrap();
        runtime.block_on(async {
            let silent = tower::service_fn(|_| {
                std::future::pending::<Result<http::Response<String>, tower::BoxError>>()
            });
            let options = Options { under_way: under_way.clone(), ..Options::new("test") };
            let client = Client::from_service(silent, &options);
            let asks: Vec<_> = (0..requests)
                .map(|_| {
                    let client = client.clone();
                    let call = Call::new(http::Method::GET, "/");
                    tokio::spawn(async move { client.call_bytes(call).await })
                })
                .collect();
            while under_way.count() < requests {
                tokio::task::yield_now().await;
            }
            let are_many = are_many(&under_way);
            let begun = Instant::now();
            tokio::time::sleep(Duration::from_micros(1)).await;
            let took = begun.elapsed();
            for ask in asks {
                ask.abort();
                assert!(ask.await.unwrap_err().is_cancelled());
            }
            assert_eq!(under_way.count(), 0, "one that is given up is under way no longer");
            (are_many, took)
        })
    }

    #[test]
    fn answers_gather_while_many_are_awaited() {
        let (are_many, took) = turn(MANY);
        assert!(are_many && took >= GATHER, "{took:?}");
        assert!(!turn(MANY - 1).0);
    }
}
