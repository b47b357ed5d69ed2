//! The core against an API server of a few lines, which checks what it is told.

mod laws;
mod layouts;
mod tables;
mod world;
