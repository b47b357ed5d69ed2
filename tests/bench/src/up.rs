//! `gantry up` as a newcomer starts it: how soon it is ready and how large it is then.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::drydock::median;
use crate::subjects::Gantry;

/// How often it is started.
#[derive(clap::Args)]
pub struct Arguments {
    /// Starts; the median counts.
    #[arg(long, default_value_t = 5)]
    starts: usize,
}

/// After this long nothing of the start is still under way.
const SETTLED: Duration = Duration::from_secs(5);
/// The bars: a second, and sixty megabytes.
const READY_SECONDS_MAX: f64 = 1.0;
const MEMORY_BYTES_MAX: f64 = 60.0 * 1e6;

/// Runs the measurement and says whether the bars are met.
///
/// # Errors
/// When the program does not start.
pub async fn run(gantry: &Path, arguments: &Arguments) -> Result<bool> {
    let (mut ready, mut memory) = (Vec::new(), Vec::new());
    for _ in 0..arguments.starts {
        let up = Gantry::start(gantry, &[])?;
        ready.push(up.ready_after().as_secs_f64());
        tokio::time::sleep(SETTLED).await;
        memory.push(up.cost()?.memory_bytes as f64);
    }
    let (ready, memory) = (median(&ready), median(&memory));
    println!("| gantry up, median of {} starts | measured | bar |", arguments.starts);
    println!("|---|---|---|");
    println!("| seconds until it is ready | {ready:.2} | under {READY_SECONDS_MAX:.0} |");
    println!("| resident MB | {:.1} | under {:.0} |", memory / 1e6, MEMORY_BYTES_MAX / 1e6);
    Ok(ready < READY_SECONDS_MAX && memory < MEMORY_BYTES_MAX)
}
