//! `unisono sessions`: the conversations of the store.

pub(crate) mod branch;
mod delete;
pub(crate) mod list;
mod prune;
mod search;
mod show;
mod tree;

use clap::Subcommand;

use crate::app::App;
use crate::problem::Result;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists all sessions, the newest first
    List(list::Args),
    /// Shows one session: its title, branches, turns and labels
    Show(show::Args),
    /// Shows the message tree and its branches
    Tree(tree::Args),
    /// Starts a branch at a message; copies nothing
    Branch(branch::Args),
    /// Searches all messages, best matches first
    Search(search::Args),
    /// Deletes a session for good
    Delete(delete::Args),
    /// Deletes sessions that have not changed for a time
    Prune(prune::Args),
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::List(args) => list::run(app, args).await,
        Command::Show(args) => show::run(app, args).await,
        Command::Tree(args) => tree::run(app, args).await,
        Command::Branch(args) => branch::run(app, args).await,
        Command::Search(args) => search::run(app, args).await,
        Command::Delete(args) => delete::run(app, args).await,
        Command::Prune(args) => prune::run(app, args).await,
    }
}
