//! That something happened, told to everybody who waits for it in the order in which they wait.
//!
//! The order matters where time is simulated: one seed must give one run, and a channel that wakes
//! its receivers in any order would not.

use std::sync::atomic::{AtomicU64, Ordering};

use tokio::sync::Notify;

/// How often something happened, and who waits for the next time.
#[derive(Debug, Default)]
pub(super) struct News {
    told: AtomicU64,
    waiting: Notify,
}

/// What one listener has heard of.
#[derive(Debug)]
pub(super) struct Listener(u64);

impl News {
    /// A listener to what happens from now on.
    pub(super) fn listener(&self) -> Listener {
        Listener(self.told.load(Ordering::Acquire))
    }

    /// It happened.
    pub(super) fn tell(&self) {
        self.told.fetch_add(1, Ordering::AcqRel);
        self.waiting.notify_waiters();
    }

    /// Waits until it has happened since the listener last heard of it.
    pub(super) async fn heard(&self, listener: &mut Listener) {
        loop {
            // Made before the count is read, so that nothing in between goes unheard.
            let next = self.waiting.notified();
            let told = self.told.load(Ordering::Acquire);
            if told != listener.0 {
                listener.0 = told;
                return;
            }
            next.await;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::{Arc, Mutex};

    use super::*;

    #[tokio::test]
    async fn what_happened_before_one_waits_is_heard_once() {
        let news = News::default();
        let mut listener = news.listener();
        news.tell();
        news.tell();
        news.heard(&mut listener).await;
        let again = std::pin::pin!(news.heard(&mut listener));
        assert!(futures::poll!(again).is_pending(), "nothing has happened since");
    }

    #[tokio::test]
    async fn those_who_wait_are_woken_in_the_order_in_which_they_came() {
        let (news, order) = (Arc::new(News::default()), Arc::new(Mutex::new(Vec::new())));
        let tasks: Vec<_> = (0..50)
            .map(|number| {
                let (news, order) = (news.clone(), order.clone());
                let mut listener = news.listener();
                tokio::spawn(async move {
                    news.heard(&mut listener).await;
                    order.lock().unwrap().push(number);
                })
            })
            .collect();
        tokio::task::yield_now().await;
        news.tell();
        for task in tasks {
            task.await.unwrap();
        }
        assert_eq!(*order.lock().unwrap(), (0..50).collect::<Vec<_>>());
    }
}
