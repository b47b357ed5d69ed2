//! The scheduler: the shell that stands between an API server and the engine.
//!
//! It is apart from the engine because it may touch files, clocks and the network, which the
//! engine must not. It decides nothing about where pods go.
//!
//! What it is told to do is in [`config`]: a file as kube-scheduler takes it, checked as
//! kube-scheduler checks it, and turned into profiles of the engine.

pub mod config;
