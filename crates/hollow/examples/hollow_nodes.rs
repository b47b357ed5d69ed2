//! Hollow nodes against any API server: `hollow_nodes KUBECONFIG NODES...`.

use std::time::{Duration, Instant};

use chassis::client::{self, Client, Source};
use chassis::clock::Clock;
use chassis::logging;
use chassis::shutdown::Shutdown;
use hollow::{Hollow, NodeGroup, Options};

#[tokio::main(flavor = "current_thread")]
async fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let path = arguments.next().ok_or("usage: hollow_nodes KUBECONFIG NODES...")?;
    logging::init(logging::Format::for_stderr(), "info")?;
    let mut options = Options::default();
    let groups: Vec<NodeGroup> = arguments.map(|value| value.parse()).collect::<Result<_, _>>()?;
    if !groups.is_empty() {
        options.setup.groups = groups;
    }
    let metrics = options.metrics.clone();
    let source = Source::File { path: path.into(), context: None };
    let client = Client::connect(&source, &client::Options::new("hollow-nodes")).await?;
    let shutdown = Shutdown::new();
    shutdown.listen_for_signals()?;
    let hollow = Hollow::new(client, options)?;
    let mut progress = hollow.progress();
    let started = Instant::now();
    shutdown.spawn("progress", async move {
        if let Ok(ready) = progress.wait_for(|progress| progress.is_ready()).await {
            println!("{} nodes after {:?}", ready.total, started.elapsed());
        }
    });
    let outcome = hollow.run(&shutdown).await;
    shutdown.begin();
    shutdown.join(&Clock::system(), Duration::from_secs(5)).await?;
    print!("{}", metrics.render());
    Ok(outcome?)
}
