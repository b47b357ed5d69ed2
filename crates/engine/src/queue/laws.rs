//! What always holds of the queue.
