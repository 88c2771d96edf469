//! `unisono checkpoints`: stored summaries.

mod edit;
mod list;
mod regenerate;
mod restore;
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
    /// Has a summary written anew, by another model or with other instructions
    Regenerate(regenerate::Args),
    /// Puts a text of one's own in place of a summary's
    Edit(edit::Args),
    /// Takes a checkpoint back: the context is what it was before it, with what was said since
    Restore(restore::Args),
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(app, args).await,
        Command::Show(args) => show::run(app, args).await,
        Command::Regenerate(args) => regenerate::run(app, args).await,
        Command::Edit(args) => edit::run(app, args).await,
        Command::Restore(args) => restore::run(app, args).await,
    }
}
