//! `unisono checkpoints`: stored summaries.

mod list;
mod show;

use clap::Subcommand;

use crate::app::App;
use crate::problem::Result;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists the checkpoints of a session
    List(list::Args),
    /// Shows one checkpoint with its text
    Show(show::Args),
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(app, args).await,
        Command::Show(args) => show::run(app, args).await,
    }
}
