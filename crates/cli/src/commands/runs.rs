//! `unisono runs`: the runs of agents, with their tasks and outcomes.

mod cancel;
pub(crate) mod list;
mod show;

use clap::Subcommand;

use crate::app::App;
use crate::problem::Result;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists runs, the newest first
    List(list::Args),
    /// Shows one run: its task, steps, usage and result
    Show(show::Args),
    /// Cancels an open run or turn
    Cancel(cancel::Args),
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(app, args).await,
        Command::Show(args) => show::run(app, args).await,
        Command::Cancel(args) => cancel::run(app, args).await,
    }
}
