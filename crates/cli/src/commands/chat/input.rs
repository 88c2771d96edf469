//! The input lines of a chat: from an editor on a terminal, or from any other standard input.
//!
//! Reads block, so a thread reads one requested line at a time. During a turn nobody reads, and the
//! terminal has its normal state.

use std::io::{self, BufRead, IsTerminal};
use std::sync::mpsc as blocking;
use std::thread;

use rustyline::completion::{Completer, Pair};
use rustyline::error::ReadlineError;
use rustyline::highlight::Highlighter;
use rustyline::hint::Hinter;
use rustyline::history::{History, MemHistory};
use rustyline::validate::Validator;
use rustyline::{Config, Context, Editor, Helper};
use tokio::sync::mpsc;

use super::ORDERS;
use crate::live::{Lines, Reply, prompt_text};
use crate::output::Out;
use crate::problem::{Problem, Result};
use crate::terminal::is_typed_ahead;

#[derive(Debug)]
pub(super) enum InputEvent {
    /// A line, without its end.
    Line(String),
    /// The person interrupted.
    Nothing,
    End,
}

/// The prompt of a line, without and with colours.
#[derive(Debug)]
pub(super) struct Prompt {
    pub(super) plain: String,
    pub(super) painted: String,
}

impl Prompt {
    /// Without colours.
    pub(super) fn plain(text: impl Into<String>) -> Prompt {
        let plain = text.into();
        Prompt {
            painted: plain.clone(),
            plain,
        }
    }
}

impl rustyline::Prompt for Prompt {
    fn raw(&self) -> &str {
        &self.plain
    }

    fn styled(&self) -> &str {
        &self.painted
    }
}

/// Lines, one at a time.
#[derive(Debug)]
pub(super) struct Input {
    prompts: blocking::Sender<InputRequest>,
    lines: mpsc::Receiver<io::Result<InputEvent>>,
    /// Whether a requested line is outstanding.
    asked: bool,
    terminal: Option<Terminal>,
}

#[derive(Debug)]
enum InputRequest {
    Line(Prompt),
    /// The answer to a question: one line, which is not added to the history.
    Answer(Prompt),
    /// Earlier lines, for the arrow keys.
    Recall(Vec<String>),
}

impl Input {
    pub(super) fn open(out: &Out) -> Result<Input> {
        let terminal = io::stdin().is_terminal() && io::stdout().is_terminal() && out.watched;
        let terminal = terminal.then(Terminal::remember).flatten();
        let (prompts, wanted) = blocking::channel();
        let (send, lines) = mpsc::channel(1);
        let read = if terminal.is_some() { edited } else { plain };
        let thread = thread::Builder::new().name("lines".to_owned());
        let started = thread.spawn(move || read(&wanted, &send));
        started.map_err(|error| Problem::failed(format!("cannot start a thread: {error}")))?;
        Ok(Input {
            prompts,
            lines,
            asked: false,
            terminal,
        })
    }

    pub(super) fn is_terminal(&self) -> bool {
        self.terminal.is_some()
    }

    /// Adds lines to the history.
    pub(super) async fn recall(&self, lines: Vec<String>) {
        // If the thread has ended, the next read fails.
        let _ = self.prompts.send(InputRequest::Recall(lines));
    }

    /// Waits for the next line. If it is dropped and repeated, it waits for the same line.
    pub(super) async fn line(&mut self, prompt: Prompt) -> Result<InputEvent> {
        if !self.asked && self.prompts.send(InputRequest::Line(prompt)).is_ok() {
            self.asked = true;
        }
        let line = self.lines.recv().await;
        self.asked = false;
        line.unwrap_or(Ok(InputEvent::End))
            .map_err(|error| Problem::failed(format!("cannot read the input: {error}")))
    }

    /// Whether a requested line is outstanding.
    pub(super) fn is_asked(&self) -> bool {
        self.asked
    }
}

/// Asks a question between messages, but only a person at a terminal; the lines of a file are
/// messages.
impl Lines for Input {
    fn is_person(&self) -> bool {
        self.is_terminal()
    }

    fn ask(&mut self, question: &str) -> bool {
        let prompt = Prompt::plain(prompt_text(question));
        // An earlier request for a line gets this one as its answer.
        if self.asked {
            return true;
        }
        self.asked = self.prompts.send(InputRequest::Answer(prompt)).is_ok();
        false
    }

    async fn reply(&mut self) -> Reply {
        if !self.asked {
            return std::future::pending().await;
        }
        let line = self.lines.recv().await;
        self.asked = false;
        match line {
            Some(Ok(InputEvent::Line(line))) => Reply::Line(line),
            Some(Ok(InputEvent::Nothing | InputEvent::End) | Err(_)) | None => Reply::Interrupted,
        }
    }
}

/// Lines of a standard input without a terminal.
fn plain(wanted: &blocking::Receiver<InputRequest>, lines: &mpsc::Sender<io::Result<InputEvent>>) {
    while let Ok(wanted) = wanted.recv() {
        if let InputRequest::Line(_) | InputRequest::Answer(_) = wanted
            && lines.blocking_send(read_plain()).is_err()
        {
            return;
        }
    }
}

/// A line without an editor.
fn read_plain() -> io::Result<InputEvent> {
    let mut whole = String::new();
    loop {
        let mut line = String::new();
        if io::stdin().lock().read_line(&mut line)? == 0 {
            return Ok(match whole.is_empty() {
                true => InputEvent::End,
                false => InputEvent::Line(whole),
            });
        }
        if !joined(&mut whole, line.trim_end_matches(['\n', '\r'])) {
            return Ok(InputEvent::Line(whole));
        }
    }
}

/// Adds a line; whether another one belongs to it.
fn joined(whole: &mut String, line: &str) -> bool {
    if !whole.is_empty() {
        whole.push('\n');
    }
    match line.strip_suffix('\\') {
        Some(line) => {
            whole.push_str(line);
            true
        }
        None => {
            whole.push_str(line);
            false
        }
    }
}

/// Lines of an editor on a terminal.
fn edited(wanted: &blocking::Receiver<InputRequest>, lines: &mpsc::Sender<io::Result<InputEvent>>) {
    let config = Config::builder()
        .auto_add_history(false)
        .completion_type(rustyline::CompletionType::List)
        .build();
    let history = MemHistory::with_config(&config);
    let editor = Editor::<Orders, MemHistory>::with_history(config, history);
    let mut editor = match editor {
        Ok(editor) => editor,
        Err(error) => {
            // A closed receiver has ended.
            let _ = lines.blocking_send(Err(io::Error::other(error)));
            return;
        }
    };
    editor.set_helper(Some(Orders));
    while let Ok(wanted) = wanted.recv() {
        let line = match wanted {
            InputRequest::Recall(said) => {
                said.iter().for_each(|line| {
                    // An excess line is dropped.
                    let _ = editor.history_mut().add(line);
                });
                continue;
            }
            // An editor would read all lines that were typed ahead, and keep the first one.
            InputRequest::Line(_) if is_typed_ahead() => {
                let read = read_plain();
                if let Ok(InputEvent::Line(line)) = &read {
                    let _ = editor.add_history_entry(line.as_str());
                }
                read
            }
            InputRequest::Line(prompt) => edit(&mut editor, prompt),
            InputRequest::Answer(prompt) => edited_line(editor.readline(&prompt)),
        };
        if lines.blocking_send(line).is_err() {
            return;
        }
    }
}

fn edited_line(line: rustyline::Result<String>) -> io::Result<InputEvent> {
    match line {
        Ok(line) => Ok(InputEvent::Line(line)),
        Err(ReadlineError::Interrupted) => Ok(InputEvent::Nothing),
        Err(ReadlineError::Eof) => Ok(InputEvent::End),
        Err(ReadlineError::Io(error)) => Err(error),
        Err(error) => Err(io::Error::other(error)),
    }
}

fn edit(editor: &mut Editor<Orders, MemHistory>, mut prompt: Prompt) -> io::Result<InputEvent> {
    let mut whole = String::new();
    loop {
        match edited_line(editor.readline(&prompt))? {
            InputEvent::Line(line) if joined(&mut whole, &line) => prompt = Prompt::plain("… "),
            InputEvent::Line(_) => {
                let _ = editor.add_history_entry(whole.as_str());
                return Ok(InputEvent::Line(whole));
            }
            ended => return Ok(ended),
        }
    }
}

/// The state of the terminal. It is restored after an editor is dropped in the middle of a line.
#[derive(Debug)]
struct Terminal(rustix::termios::Termios);

impl Terminal {
    fn remember() -> Option<Terminal> {
        rustix::termios::tcgetattr(io::stdin()).ok().map(Terminal)
    }
}

impl Drop for Terminal {
    fn drop(&mut self) {
        let now = rustix::termios::OptionalActions::Now;
        // A failure here cannot be handled.
        let _ = rustix::termios::tcsetattr(io::stdin(), now, &self.0);
    }
}

struct Orders;

impl Completer for Orders {
    type Candidate = Pair;

    fn complete(
        &self,
        line: &str,
        at: usize,
        _: &Context<'_>,
    ) -> rustyline::Result<(usize, Vec<Pair>)> {
        let begun = line.get(..at).unwrap_or_default();
        let fitting = ORDERS
            .into_iter()
            .filter(|order| begun.starts_with('/') && order.starts_with(begun));
        let pairs = fitting.map(|order| Pair {
            display: order.to_owned(),
            replacement: format!("{order} "),
        });
        Ok((0, pairs.collect()))
    }
}

impl Hinter for Orders {
    type Hint = String;
}

impl Highlighter for Orders {}

impl Validator for Orders {}

impl Helper for Orders {}

#[cfg(test)]
mod tests {
    use super::joined;

    #[test]
    fn a_backslash_at_the_end_goes_on() {
        let mut whole = String::new();
        assert!(joined(&mut whole, "first\\"));
        assert!(joined(&mut whole, "second\\"));
        assert!(!joined(&mut whole, "third"));
        assert_eq!(whole, "first\nsecond\nthird");
    }
}
