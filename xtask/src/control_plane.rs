//! `cargo xtask control-plane`: a real control plane to try things on.

use std::io::Read;

use anyhow::{Context, Result};
use progress::Progress;
use truth::{Binaries, Companion, ControlPlane, Program};

/// Run a real control plane in the foreground and print its kubeconfig
///
/// Starts etcd and kube-apiserver 1.35 on free ports of the loopback address, with their data
/// in a temporary folder. Builds them first where that has not been done. Ends, and takes all
/// its data along, on Ctrl-C or when standard input closes.
#[derive(clap::Args)]
#[command(after_help = "Examples:
  cargo xtask control-plane
  cargo xtask control-plane --controllers deployment-controller,replicaset-controller --scheduler")]
pub struct Arguments {
    /// Run kube-controller-manager with these controllers
    #[arg(long, value_name = "NAMES", value_delimiter = ',')]
    controllers: Vec<String>,

    /// Run kube-scheduler
    #[arg(long)]
    scheduler: bool,
}

/// Runs the chore.
pub fn run(arguments: &Arguments) -> Result<()> {
    let progress = Progress::new();
    let report = |line: &str| progress.say(line);
    let binaries = Binaries::locate(&report);
    report("starting etcd and kube-apiserver");
    let plane = ControlPlane::start(&binaries, 1)?;
    let server = &plane.servers()[0];
    let mut companions = Vec::new();
    if !arguments.controllers.is_empty() {
        report("starting kube-controller-manager");
        let names: Vec<&str> = arguments.controllers.iter().map(String::as_str).collect();
        companions.push(Companion::kube_controller_manager(
            &binaries,
            server.kubeconfig(),
            &names,
        )?);
    }
    if arguments.scheduler {
        report("starting kube-scheduler");
        let extra = serde_json::Value::Null;
        companions.push(Companion::kube_scheduler(&binaries, server.kubeconfig(), &extra)?);
    }
    progress.clear();
    println!("export KUBECONFIG={}", server.kubeconfig().display());
    println!("export PATH={}:$PATH", folder_of(&binaries)?);
    println!("log of kube-apiserver: {}", server.log().display());
    for companion in &companions {
        println!("log: {}", companion.log().display());
    }
    println!("Ctrl-C ends it.");
    // Ctrl-C ends this process, and the programs end with it.
    std::io::stdin().read_to_end(&mut Vec::new()).context("cannot read standard input")?;
    Ok(())
}

fn folder_of(binaries: &Binaries<'_>) -> Result<String> {
    let kubectl = binaries.path(Program::Kubectl)?;
    let folder = kubectl.parent().context("a program lies in a folder")?;
    Ok(folder.display().to_string())
}
