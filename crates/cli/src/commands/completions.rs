//! `unisono completions`: a script for a shell.

use clap_complete::Shell;

use crate::app::App;
use crate::completing;
use crate::problem::{Problem, Result};

const HELP: &str = "\
The shell then asks this program for candidates: commands, flags, and the sessions, agents and
models in the current directory.

Examples:
  unisono completions bash > ~/.local/share/bash-completion/completions/unisono
  unisono completions zsh > ~/.zfunc/_unisono
  unisono completions fish > ~/.config/fish/completions/unisono.fish";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The shell
    shell: Shell,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let shell = args.shell.to_string();
    let script = completing::registration(&shell);
    let script =
        script.ok_or_else(|| Problem::failed(format!("{shell} cannot ask this program")))?;
    app.out.bytes(&script);
    Ok(())
}
