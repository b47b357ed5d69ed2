//! Messages for a thread that waits for them, or for a time, and never on a runtime.

use std::sync::Arc;
use std::task::{Context, Poll, Wake, Waker};
use std::thread::Thread;
use std::time::{Duration, Instant};

use tokio::sync::mpsc;

struct Unpark(Thread);

impl Wake for Unpark {
    fn wake(self: Arc<Self>) {
        self.0.unpark();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.0.unpark();
    }
}

/// What came of waiting.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Heard<T> {
    /// A message.
    Message(T),
    /// None, in time.
    Nothing,
    /// None, ever: nobody is left to send one.
    Closed,
}

/// The receiving end of a bounded line, on the thread that made it.
pub(crate) struct Inbox<T> {
    line: mpsc::Receiver<T>,
    waker: Waker,
}

impl<T> Inbox<T> {
    /// The inbox of this thread: no other may wait on it.
    pub(crate) fn of_this_thread(line: mpsc::Receiver<T>) -> Self {
        let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
        Self { line, waker }
    }

    /// The next message that is there already.
    pub(crate) fn next(&mut self) -> Heard<T> {
        match self.line.poll_recv(&mut Context::from_waker(&self.waker)) {
            Poll::Ready(Some(message)) => Heard::Message(message),
            Poll::Ready(None) => Heard::Closed,
            Poll::Pending => Heard::Nothing,
        }
    }

    /// The next message, for which it waits no longer than `limit`.
    pub(crate) fn wait(&mut self, limit: Option<Duration>) -> Heard<T> {
        let begun = Instant::now();
        loop {
            let heard = self.next();
            if !matches!(heard, Heard::Nothing) {
                return heard;
            }
            match limit.map(|limit| limit.saturating_sub(begun.elapsed())) {
                None => std::thread::park(),
                Some(Duration::ZERO) => return Heard::Nothing,
                Some(left) => std::thread::park_timeout(left),
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_thread_waits_for_a_message_a_time_or_the_end() {
        let (sender, line) = mpsc::channel(1);
        let mut inbox = Inbox::of_this_thread(line);
        assert_eq!(inbox.next(), Heard::Nothing);
        assert_eq!(inbox.wait(Some(Duration::from_millis(2))), Heard::Nothing);
        let other = std::thread::spawn(move || {
            for message in 0..1000 {
                sender.blocking_send(message).unwrap();
            }
        });
        for message in 0..1000 {
            assert_eq!(inbox.wait(None), Heard::Message(message));
        }
        assert_eq!(inbox.wait(None), Heard::Closed);
        other.join().unwrap();
    }
}
