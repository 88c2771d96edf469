//! `unisono agents check`.

use crate::app::App;
use crate::commands::config::check::{self, report};
use crate::problem::Result;

#[derive(Debug, clap::Args)]
#[command(after_help = check::HELP)]
pub(crate) struct Args {}

/// Definitions cannot be read without the settings they refer to, so both are checked.
pub(crate) fn run(app: &App, _: Args) -> Result<()> {
    report(app)
}
