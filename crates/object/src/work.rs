//! Counts of work for tests: how much was done, where a clock would tell how busy the machine is.

use std::cell::Cell;

thread_local! {
    static DONE: Cell<usize> = const { Cell::new(0) };
}

/// Counts one more piece of work of this thread.
pub(crate) fn note() {
    DONE.set(DONE.get() + 1);
}

/// What `job` returns, and how many pieces of work it took.
pub(crate) fn counted<T>(job: impl FnOnce() -> T) -> (T, usize) {
    let before = DONE.get();
    let made = job();
    (made, DONE.get() - before)
}
