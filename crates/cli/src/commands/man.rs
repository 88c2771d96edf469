//! `unisono man`: manual pages.

use std::path::PathBuf;

use clap_mangen::Man;

use crate::app::App;
use crate::problem::{Problem, Result};

use super::help;

const HELP: &str = "\
Examples:
  unisono man | man -l -
  unisono man --to ~/.local/share/man/man1";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Writes a page for the program and each command into this directory
    #[arg(long, value_name = "DIR")]
    to: Option<PathBuf>,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let failed =
        |error: std::io::Error| Problem::failed(format!("cannot write the manual: {error}"));
    if let Some(directory) = args.to {
        std::fs::create_dir_all(&directory).map_err(failed)?;
        clap_mangen::generate_to(help::command(), &directory).map_err(failed)?;
        app.out
            .message(format_args!("written to {}", directory.display()));
        return Ok(());
    }
    let mut page = Vec::new();
    Man::new(help::command())
        .render(&mut page)
        .map_err(failed)?;
    app.out.bytes(&page);
    Ok(())
}
