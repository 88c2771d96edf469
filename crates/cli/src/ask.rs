//! Asking the person at the terminal.

use std::io::{BufRead, IsTerminal};

use unisono_api::turn::OnFailure;

use crate::live::Interrupts;
use crate::output::Out;
use crate::problem::{Exit, Problem, Result};

/// Asks for confirmation. Without a terminal, a flag must confirm. An interruption ends the program,
/// unless it listens for signals.
pub(crate) fn confirmed(out: &Out, question: &str) -> Result<bool> {
    if !can_ask(out) {
        let problem = Problem::usage("this needs a confirmation, but there is no terminal");
        return Err(problem.hint("confirm with --yes"));
    }
    out.ask(format_args!("{question} [y/N] "));
    Ok(matches!(answer()?.as_str(), "y" | "yes"))
}

/// Asks a person how to continue if no summary could be written.
pub(crate) async fn ask_fallback(
    out: &Out,
    reason: &str,
    interrupts: &mut Interrupts,
) -> Result<OnFailure> {
    out.warn(format_args!("no summary was written: {reason}"));
    loop {
        out.ask("[r]etry, take quotes ([e]xtractive), or [l]eave it? ");
        let said = tokio::select! {
            said = tokio::task::spawn_blocking(answer) => said.map_err(Problem::failed)??,
            _ = interrupts.next() => return Err(Problem::silent(Exit::Interrupted)),
        };
        let fits = |way: &OnFailure| way.name().starts_with(&said);
        match OnFailure::ALL.into_iter().find(fits) {
            Some(_) if said.is_empty() => return Ok(OnFailure::Leave),
            Some(way) => return Ok(way),
            None => out.message(format_args!("{said:?} is not an answer: type r, e or l")),
        }
    }
}

pub(crate) fn can_ask(out: &Out) -> bool {
    std::io::stdin().is_terminal() && out.watched
}

/// A line of the person's, in small letters; empty at the end of input.
fn answer() -> Result<String> {
    let mut line = String::new();
    let read = std::io::stdin().lock().read_line(&mut line);
    read.map_err(|error| Problem::failed(format!("cannot read the answer: {error}")))?;
    Ok(line.trim().to_lowercase())
}
