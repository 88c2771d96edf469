//! `unisono completions`: a script for a shell.

use clap_complete::Shell;
use clap_complete::env::Shells;

use crate::app::App;
use crate::problem::{Problem, Result};

/// The variable of a completion request; its value is the name of the shell.
pub(crate) const VARIABLE: &str = "COMPLETE";
pub(crate) const PROGRAM: &str = "unisono";

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
    let script = registration(&shell);
    let script =
        script.ok_or_else(|| Problem::failed(format!("{shell} cannot ask this program")))?;
    app.out.bytes(&script);
    Ok(())
}

/// The script that registers completion in a shell; none for an unknown shell.
fn registration(shell: &str) -> Option<Vec<u8>> {
    let shells = Shells::builtins();
    let mut script = Vec::new();
    let shell = shells.completer(shell)?;
    shell
        .write_registration(VARIABLE, PROGRAM, PROGRAM, PROGRAM, &mut script)
        .ok()?;
    Some(script)
}
