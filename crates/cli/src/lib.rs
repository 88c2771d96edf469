#![doc = include_str!("../README.md")]
//!
//! A program gets the whole of it, with agents of its own, in one line:
//!
//! ```no_run
//! use std::process::ExitCode;
//! use unisono_cli::Extensions;
//! # struct Words;
//! # impl unisono::Agent for Words {
//! #     async fn run(&self, task: unisono::Task, _: unisono::Ctx) -> Result<unisono::Answer, unisono::Failure> {
//! #         Ok(unisono::Answer::text(task.text.split_whitespace().count().to_string()))
//! #     }
//! # }
//!
//! fn main() -> ExitCode {
//!     unisono_cli::main(Extensions::default().agent("words", Words))
//! }
//! ```
//!
//! An agent of that kind is defined in `agents/<id>.md` with `kind: words`.

/// A table of a test: a row a line.
#[cfg(test)]
macro_rules! rows {
    ($($row:expr),+ $(,)?) => {
        [$($row),+]
    };
}

mod app;
mod approvals;
mod ask;
mod attach;
mod caller;
mod commands;
mod completing;
mod conversation;
mod live;
mod markdown;
mod options;
mod output;
mod place;
mod port;
mod problem;
#[cfg(test)]
mod reference;
mod service;
mod show;
mod team;
mod terminal;
mod turn_service;

use std::process::ExitCode;

use unisono::reaper;

pub use unisono::Extensions;

/// Runs the program: parses the command line and executes it, with the agents, tools and models of `extensions`.
pub fn main(extensions: Extensions) -> ExitCode {
    if let Some(ended) = reaper::main() {
        return ended;
    }
    quiet_engine();
    if let Some(done) = completing::answer(&extensions) {
        return done;
    }
    let (cli, verb) = match commands::help::parse() {
        Ok(parsed) => parsed,
        Err(error) => return output::usage(&error),
    };
    let app = app::App::new(cli.global, verb, extensions);
    let done = commands::carry_out(&app, cli.command);
    app.out.finish(done)
}

/// The storage engine panics if the disk fails while it closes. The store converts the panic to an
/// error of the disk, so the panic itself only goes to the log.
fn quiet_engine() {
    let shown = std::panic::take_hook();
    std::panic::set_hook(Box::new(move |panic| {
        let file = panic.location().map(|at| at.file());
        match file.is_some_and(|file| file.contains("sled-0.34")) {
            true => tracing::debug!(%panic, "the storage engine panicked"),
            false => shown(panic),
        }
    }));
}
