//! `unisono completions`: a script for a shell.

use clap::CommandFactory;
use clap_complete::Shell;

use crate::app::App;
use crate::args::Cli;
use crate::problem::Result;

const HELP: &str = "\
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
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut Cli::command(), "unisono", &mut script);
    app.out.bytes(&script);
    Ok(())
}
