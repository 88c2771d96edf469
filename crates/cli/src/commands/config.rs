//! `unisono config`: settings and their origins.

pub(crate) mod check;
mod set;
mod show;

use clap::Subcommand;

use crate::app::App;
use crate::problem::Result;

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Shows every setting with its value and origin
    Show(show::Args),
    /// Changes a setting of all sessions, or of one, at run time
    Set(set::Args),
    /// Checks settings and agents; unknown keys are errors
    Check(check::Args),
}

pub(crate) fn run(app: &App, command: Command) -> Result<()> {
    match command {
        Command::Show(args) => app.wait_for(show::run(app, args)),
        Command::Set(args) => app.wait_for(set::run(app, args)),
        Command::Check(args) => check::run(app, args),
    }
}
