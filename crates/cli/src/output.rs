//! The only place that writes: data on stdout, messages on stderr.
//!
//! Every text is made [`harmless`] here.
//!
//! A reader that closes its end (`unisono … | head`) is not an error: the rest is not written.

use std::fmt::Display;
use std::io::{self, IsTerminal, Write};
use std::process::ExitCode;
use std::sync::OnceLock;

use serde::Serialize;
use serde_json::json;
use unisono::telemetry;
use unisono_api::Code;
use unisono_api::harmless;

use crate::markdown::{self, page::Page};
use crate::options::{Colour, Global};
use crate::problem::Problem;
use crate::show;
use crate::terminal::{Paint, columns, terminal_safe};

/// The streams for messages and data, and their style.
#[derive(Debug)]
pub(crate) struct Out {
    pub(crate) json: bool,
    pub(crate) quiet: bool,
    /// Whether somebody watches stderr and can be asked.
    pub(crate) watched: bool,
    /// Whether lines on stderr can be redrawn: progress bars.
    pub(crate) redraws: bool,
    /// Of data on stdout.
    pub(crate) paint: Paint,
    /// Of messages on stderr.
    pub(crate) paint_messages: Paint,
    /// Columns of the terminal on stdout; none if stdout is not a terminal. Data is then written unchanged.
    columns: Option<usize>,
    /// Why stdout takes no more; nothing is written to it afterwards.
    unwritten: OnceLock<io::Error>,
}

impl Out {
    pub(crate) fn new(global: &Global) -> Out {
        let plain = std::env::var_os("NO_COLOR").is_some_and(|value| !value.is_empty());
        let dumb = std::env::var_os("TERM").is_some_and(|term| term == "dumb");
        let paint = |terminal: bool| match global.color {
            Colour::Always => Paint(true),
            Colour::Never => Paint(false),
            Colour::Auto => Paint(terminal && !plain && !dumb),
        };
        let watched = io::stderr().is_terminal();
        Out {
            json: global.json,
            quiet: global.quiet,
            watched,
            redraws: watched && !dumb && !global.quiet,
            paint: paint(io::stdout().is_terminal()),
            paint_messages: paint(watched),
            columns: columns().filter(|_| !dumb),
            unwritten: OnceLock::new(),
        }
    }

    /// Writes a text of an agent: rendered Markdown on a terminal, the source elsewhere.
    pub(crate) fn markdown(&self, text: &str) {
        match self.page() {
            Some(mut page) => {
                let shown = page.push(text) + &page.finish();
                self.safe_data(&shown);
            }
            None => self.data(show::indented(text, "")),
        }
    }

    /// A view that shows a text during its stream; none without a terminal.
    pub(crate) fn page(&self) -> Option<Page> {
        let columns = self.columns.filter(|_| !self.json)?;
        Some(Page::new(markdown::measure(columns), self.paint))
    }

    /// Writes data, with a line break at its end.
    pub(crate) fn data(&self, text: impl Display) {
        self.safe_data(&terminal_safe(&text.to_string()));
    }

    /// Writes data that is already safe for a terminal, with a line break at its end.
    pub(crate) fn safe_data(&self, text: &str) {
        let line_break = if text.ends_with('\n') { "" } else { "\n" };
        self.bytes(format!("{text}{line_break}").as_bytes());
    }

    /// Writes data unchanged: harmless data, or data for programs.
    pub(crate) fn bytes(&self, bytes: &[u8]) {
        if self.unwritten.get().is_some() {
            return;
        }
        let mut stdout = io::stdout().lock();
        if let Err(error) = stdout.write_all(bytes).and_then(|()| stdout.flush()) {
            self.unwritten.get_or_init(|| error);
        }
    }

    /// Writes the pieces of a JSON text byte for byte. On a terminal, control characters are
    /// escaped, which is equivalent in JSON.
    pub(crate) fn exact_json(&self, pieces: &[impl AsRef<[u8]>]) {
        let whole: Vec<u8> = pieces
            .iter()
            .flat_map(|piece| piece.as_ref())
            .copied()
            .collect();
        match io::stdout().is_terminal() {
            true => self.bytes(harmless::for_json(&String::from_utf8_lossy(&whole)).as_bytes()),
            false => self.bytes(&whole),
        }
    }

    /// Writes one JSON value on a line of its own.
    pub(crate) fn json(&self, value: &impl Serialize) {
        match serde_json::to_string(value) {
            Ok(text) => self.data(harmless::for_json(&text)),
            Err(error) => self.warn(format_args!(
                "the result cannot be written as JSON: {error}"
            )),
        }
    }

    /// Writes a result: as JSON, or as text.
    pub(crate) fn result(&self, value: &impl Serialize, text: impl Display) {
        match self.json {
            true => self.json(value),
            false => self.data(text),
        }
    }

    /// Writes what a change has done: as JSON, or as a message.
    pub(crate) fn outcome(&self, value: &impl Serialize, message: impl Display) {
        match self.json {
            true => self.json(value),
            false => self.message(message),
        }
    }

    /// Writes a list: as JSON, or as a table with a row for each item; `none` is the message for an
    /// empty table.
    pub(crate) fn list<T: Serialize>(
        &self,
        items: &[T],
        none: &str,
        (header, right): (&[&str], &[usize]),
        row: impl Fn(&T) -> Vec<String>,
    ) {
        if self.json {
            self.json(&items);
        } else if items.is_empty() {
            self.message(none);
        } else {
            self.data(show::table(header, right, items.iter().map(row).collect()));
        }
    }

    /// Writes a message to stderr, unless `--quiet` is set.
    pub(crate) fn message(&self, message: impl Display) {
        if !self.quiet {
            write_stderr(&message);
        }
    }

    /// As [`Self::message`]. If standard error is a pipe that nobody reads, the program still ends.
    pub(crate) fn last_message(&self, message: impl Display) {
        if !self.quiet {
            telemetry::write_line(&terminal_safe(&message.to_string()));
        }
    }

    /// Asks something, on a line that the answer ends.
    pub(crate) fn ask(&self, question: impl Display) {
        let mut stderr = io::stderr().lock();
        // A failure cannot be reported anywhere.
        let question = terminal_safe(&question.to_string());
        let _ = write!(stderr, "{question}").and_then(|()| stderr.flush());
    }

    pub(crate) fn warn(&self, message: impl Display) {
        write_stderr(&format_args!(
            "{} {message}",
            self.paint_messages.yellow("warning:")
        ));
    }

    /// Reports a problem and returns its exit code. Data that could not be written is a problem,
    /// unless the reader of a pipe wanted no more.
    pub(crate) fn finish(&self, done: Result<(), Problem>) -> ExitCode {
        let unwritten = self.unwritten.get();
        let unwritten = unwritten.filter(|error| error.kind() != io::ErrorKind::BrokenPipe);
        let unwritten = unwritten.map(|error| {
            Problem::failed(format!("cannot write to standard output: {error}"))
                .hint("the output is incomplete: write it to another place")
        });
        if let (Err(_), Some(unwritten)) = (&done, &unwritten) {
            self.report(unwritten);
        }
        let Err(problem) = done.and(unwritten.map_or(Ok(()), Err)) else {
            return ExitCode::SUCCESS;
        };
        if !problem.message.is_empty() {
            self.report(&problem);
        }
        ExitCode::from(problem.exit as u8)
    }

    pub(crate) fn report(&self, problem: &Problem) {
        let Problem {
            exit,
            code,
            message,
            hint,
        } = problem;
        if self.json {
            let error =
                json!({"code": code, "exit": *exit as u8, "message": message, "hint": hint});
            let error = json!({ "error": error }).to_string();
            write_stderr(&harmless::for_json(&error));
            return;
        }
        let paint = &self.paint_messages;
        write_stderr(&format_args!(
            "{} {}",
            paint.red("error:"),
            message.trim_end()
        ));
        if let Some(hint) = hint {
            write_stderr(&format_args!("{} {hint}", paint.cyan("hint:")));
        }
    }
}

/// Prints the messages of clap: help and version on stdout, usage errors on stderr, as JSON if
/// requested.
pub(crate) fn usage(error: &clap::Error) -> ExitCode {
    let json = std::env::args_os().any(|arg| arg == "--json");
    if json && error.use_stderr() {
        let text = error.render().to_string();
        let (message, hint) = match text.trim_end().split_once("\n\n") {
            Some((message, hint)) => (message, Some(hint.to_owned())),
            None => (text.trim_end(), None),
        };
        let message = message.strip_prefix("error: ").unwrap_or(message);
        let error = json!({
            "code": Code::InvalidRequest.name(), "exit": 2, "message": message, "hint": hint,
        });
        write_stderr(&json!({ "error": error }));
    } else {
        // A failure cannot be reported anywhere.
        let _ = error.print();
    }
    ExitCode::from(u8::try_from(error.exit_code()).unwrap_or(2))
}

fn write_stderr(message: &dyn Display) {
    let message = terminal_safe(&message.to_string());
    // A failure cannot be reported anywhere.
    let _ = writeln!(io::stderr().lock(), "{message}");
}
