//! Decoding JSON bodies: duplicates, depth, and exact errors.
