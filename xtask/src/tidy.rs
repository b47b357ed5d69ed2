//! `cargo xtask tidy`: the rules of the house that no compiler holds.
//!
//! Each rule is a function from plain data to findings, so that a table can show it fail.

mod layers;
mod licences;
mod sources;

use anyhow::{Result, ensure};

use crate::{coverage, repository};

/// Check the rules of the house
///
/// Layers of crates, licences of dependencies, names and lengths of files, lints of every
/// crate, and words that do not belong in a repository.
#[derive(clap::Args)]
#[command(after_help = "Example:\n  cargo xtask tidy")]
pub struct Arguments {}

/// Runs the chore.
pub fn run(_arguments: &Arguments) -> Result<()> {
    check()?;
    println!("tidy");
    Ok(())
}

/// An error that lists all findings, where there are any.
pub fn check() -> Result<()> {
    let metadata = repository::metadata()?;
    let files = repository::files()?;
    let mut findings = Vec::new();
    let packages = layers::packages(&metadata);
    findings.extend(layers::forbidden_edges(&packages));
    findings.extend(licences::forbidden_licences(&metadata));
    findings.extend(sources::forbidden_names(&files));
    findings.extend(sources::long_files(&files));
    findings.extend(sources::unfinished_comments(&files));
    findings.extend(sources::forbidden_words(&files));
    findings.extend(sources::side_doors(&files));
    findings.extend(sources::missing_lints(&files));
    findings.extend(sources::impure_crates(&files));
    findings.extend(sources::missing_licence(&files));
    findings.extend(coverage::stale_differences(&files));
    ensure!(
        findings.is_empty(),
        "{} rules of the house are broken:\n{}",
        findings.len(),
        findings.join("\n")
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    #[test]
    fn the_house_is_tidy() {
        super::check().unwrap();
    }
}
