//! `unisono eval`: measurements.

mod chart;
mod compaction;
mod report;
mod table;

use crate::app::App;
use crate::problem::Result;

#[derive(Debug, clap::Subcommand)]
pub(crate) enum Command {
    /// Measures what each preset and summariser keeps, compared with simple baselines
    Compaction(compaction::Args),
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::Compaction(args) => compaction::run(app, args).await,
    }
}
