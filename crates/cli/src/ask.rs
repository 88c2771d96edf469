//! Asking the person at the terminal.

use std::io::{BufRead, IsTerminal};

use crate::output::Out;
use crate::problem::{Problem, Result};

/// Whether a person says yes. Where nobody can be asked, a flag has to say so.
pub(crate) fn confirmed(out: &Out, question: &str) -> Result<bool> {
    if !std::io::stdin().is_terminal() || !out.watched {
        let problem = Problem::usage("this needs a yes, and there is no terminal to ask on");
        return Err(problem.hint("say so with --yes"));
    }
    out.ask(format_args!("{question} [y/N] "));
    let mut answer = String::new();
    let read = std::io::stdin().lock().read_line(&mut answer);
    read.map_err(|error| Problem::failed(format!("no answer could be read: {error}")))?;
    Ok(matches!(answer.trim().to_lowercase().as_str(), "y" | "yes"))
}
