//! `unisono checkpoints`: stored summaries.

mod active;
mod edit;
mod list;
mod regenerate;
mod revert;
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
    /// Regenerates a summary, by another model or with other instructions
    Regenerate(regenerate::Args),
    /// Replaces the text of a summary
    Edit(edit::Args),
    /// Reverts a checkpoint: restores the context before it, with all later messages
    Revert(revert::Args),
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(app, args).await,
        Command::Show(args) => show::run(app, args).await,
        Command::Regenerate(args) => regenerate::run(app, args).await,
        Command::Edit(args) => edit::run(app, args).await,
        Command::Revert(args) => revert::run(app, args).await,
    }
}
