//! `gantry up` as a newcomer starts it: how soon it is ready and how large it is then.

use std::path::Path;
use std::time::Duration;

use anyhow::Result;

use crate::report::{self, Bar, median};
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
const READY_SECONDS: Bar = Bar::Under(1.0);
const MEMORY_MB: Bar = Bar::Under(60.0);

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
        memory.push(up.cost()?.memory_bytes as f64 / 1e6);
    }
    let title = format!("gantry up, median of {} starts", arguments.starts);
    report::head(&[&title, "measured", "bar"]);
    let ready = report::amount("seconds until it is ready", median(&ready), READY_SECONDS);
    let memory = report::amount("resident MB", median(&memory), MEMORY_MB);
    Ok(ready && memory)
}
