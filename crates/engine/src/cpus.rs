//! CPUs of a node: how they are laid out, who holds which, and which a pod gets.
//!
//! It knows neither pods nor nodes: whoever asks says what is held, and by whom does not matter.

mod take;
mod topology;

pub use take::{Binding, Exclusive, Free, Held, Hold, NotTaken, Strategy, Want, take};
pub use topology::{Cpu, CpuTopology};
