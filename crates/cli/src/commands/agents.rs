//! `unisono agents`: the agents, and imports of further ones.

mod import;
mod list;
mod reload;
mod show;

use clap::Subcommand;

use crate::app::App;
use crate::commands::config::check;
use crate::problem::Result;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists all agents
    List(list::Args),
    /// Shows one agent with its instructions
    Show(show::Args),
    /// Checks every definition; unknown keys are errors
    Check(check::Args),
    /// Reloads all definitions in a running daemon
    Reload(reload::Args),
    /// Imports agents of other programs, and lists unsupported keys
    Import(import::Args),
}

pub(crate) fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::List(args) => app.wait_for(list::run(app, args)),
        Command::Show(args) => show::run(app, args),
        // Definitions cannot be read without the settings they refer to, so both are checked.
        Command::Check(args) => check::run(app, args),
        Command::Reload(args) => app.wait_for(reload::run(app, args)),
        Command::Import(args) => import::run(app, args),
    }
}
