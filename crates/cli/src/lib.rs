//! The unisono binary, and what an author of a custom agent needs.
//!
//! An agent in Rust is a type that implements [`Agent`], registered under a kind. Either ask it
//! from a program of your own:
//!
//! ```no_run
//! # use unisono::{Agent, Answer, Ask, Ctx, Daemon, Failure, Task};
//! # struct Words;
//! # impl Agent for Words {
//! #     async fn run(&self, task: Task, _: Ctx) -> Result<Answer, Failure> {
//! #         Ok(Answer::text(task.text.split_whitespace().count().to_string()))
//! #     }
//! # }
//! # async fn ask() -> Result<(), Box<dyn std::error::Error>> {
//! let daemon = Daemon::builder().agent("words", Words).in_memory().start().await?;
//! let parsed = unisono::read_conversation("talk.jsonl".as_ref())?;
//! let session = daemon.import(parsed.import).await?;
//! let finished = daemon.ask(&session, &Ask::new("Count.").agents(["words"])).await?;
//! daemon.shutdown().await;
//! # Ok(()) }
//! ```
//!
//! or get the whole command line with it: `fn main() -> ExitCode { unisono::main(Kinds::default()
//! .with("words", Words)) }`. An agent of that kind is defined in `agents/<id>.md` with
//! `kind: words`. An agent may also be an actor, registered by [`Kinds::with_actor`]; the guide
//! `docs/extending.md` shows every way.

mod app;
mod approvals;
mod args;
mod ask;
mod commands;
mod completing;
mod conversation;
mod help;
mod host;
mod live;
mod markdown;
mod output;
mod port;
mod problem;
#[cfg(test)]
mod reference;
mod remote;
mod sessions;
mod show;
mod topics;
mod traces;

use std::process::ExitCode;

pub use conversation::read_conversation;
pub use unisono_context::{Message, Ordinal, Part, Role, Snapshot, SnapshotId, Tokens};
pub use unisono_daemon::ask::{Ask, Finished};
pub use unisono_daemon::daemon::{Builder, Daemon, Error};
pub use unisono_runtime::{
    Agent, Answer, Ctx, Failure, Handle, Kinds, Runtime, Task, ractor, reaper, worker,
};
pub use unisono_session::event::Outcome;
pub use unisono_session::run::{Cause, Ending, Usage};
pub use unisono_session::{Definition, State};

/// The program: reads the command line and carries it out. `kinds` are the agent kinds it knows
/// besides the built-in ones.
pub fn main(kinds: Kinds) -> ExitCode {
    if let Some(ended) = reaper::main() {
        return ended;
    }
    quiet_engine();
    if let Some(done) = completing::answer(&kinds) {
        return done;
    }
    let cli = match help::parse() {
        Ok(cli) => cli,
        Err(error) => return output::usage(&error),
    };
    let app = app::App::new(cli.global, kinds);
    let done = commands::carry_out(&app, cli.command);
    app.out.finish(done)
}

/// The storage engine panics where the disk fails under it while it closes. The store catches that and
/// tells it as an error of the disk, so the panic itself goes to the log.
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
