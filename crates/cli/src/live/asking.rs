//! Approval of tool calls by the person at the terminal.

use std::future::{Future, pending};
use std::io::{self, BufRead as _, IsTerminal as _};

use tokio::sync::oneshot::{self, error::TryRecvError};
use unisono::Service;
use unisono_api::Code;
use unisono_api::approval::{Approval, Decide, Verdict};

use super::follow::{Interrupt, Show};
use super::watch::Watch;
use crate::output::Out;
use crate::problem::Result;
use crate::show;
use crate::terminal::discard_input;
use unisono::fmt::end;

/// Characters of the arguments by which a question names one of several calls.
const NAME_CHARS: usize = 60;

#[derive(Debug)]
pub(crate) enum Reply {
    Line(String),
    /// By Ctrl-C, or by the end of the input: Ctrl-D.
    Interrupted,
}

/// Drops the lines that were typed before a question, and says so.
pub(super) fn drop_typed(out: &Out) {
    if discard_input() {
        out.message("what was typed before this question is dropped");
    }
}

pub(crate) fn prompt_text(question: &str) -> String {
    format!("{:<10} {question}: ", "")
}

/// The input of a person.
pub(crate) trait Lines {
    fn is_person(&self) -> bool;

    /// Requests a line for a question. Returns whether the caller must show the question.
    fn ask(&mut self, question: &str) -> bool;

    /// Waits for the line; forever without a request. It is safe to drop and repeat.
    fn reply(&mut self) -> impl Future<Output = Reply> + Send;
}

/// Standard input, if nothing else reads it.
#[derive(Debug, Default)]
pub(crate) struct Terminal(Option<oneshot::Receiver<String>>);

impl Lines for Terminal {
    fn is_person(&self) -> bool {
        io::stdin().is_terminal()
    }

    fn ask(&mut self, _: &str) -> bool {
        // An earlier request, whose question was settled elsewhere, gets this line.
        let outstanding = self.0.as_mut().map(oneshot::Receiver::try_recv);
        if let Some(Err(TryRecvError::Empty)) = outstanding {
            return true;
        }
        let (send, line) = oneshot::channel();
        // A separate thread, so that the program does not wait for its end.
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line);
            if read.is_ok_and(|n| n > 0) {
                // The receiver may be closed.
                let _ = send.send(line);
            }
        });
        self.0 = Some(line);
        true
    }

    async fn reply(&mut self) -> Reply {
        let Some(line) = &mut self.0 else {
            return pending().await;
        };
        let line = line.await;
        self.0 = None;
        match line {
            Ok(line) => Reply::Line(line),
            // The input has ended.
            Err(_) => Reply::Interrupted,
        }
    }
}

pub(super) fn is_in_doubt(call: &Approval) -> bool {
    call.kind == "in_doubt"
}

/// The commands that decide about a call.
pub(super) fn how(call: &Approval) -> String {
    let id = end(&call.call);
    match is_in_doubt(call) {
        true => format!("unisono approvals settle {id} --done TEXT, --failed TEXT, or --repeat"),
        false => format!("unisono approvals approve {id}, or deny {id} --reason TEXT"),
    }
}

/// Parses an answer; none if it is invalid and the question is repeated.
fn read(in_doubt: bool, line: &str) -> Option<Decide> {
    let line = line.trim();
    let (word, rest) = line.split_once(char::is_whitespace).unwrap_or((line, ""));
    let said = Some(rest.trim()).filter(|text| !text.is_empty());
    let text = |otherwise: &str| Some(said.unwrap_or(otherwise).to_owned());
    let (decision, text) = match (in_doubt, word.to_lowercase().as_str()) {
        (true, "d" | "done") => (Verdict::Done, text("it was done")),
        (true, "f" | "failed") => (Verdict::Failed, text("it failed")),
        (true, "r" | "repeat") => (Verdict::Repeat, None),
        (false, "y" | "yes") => (Verdict::Approve, None),
        (false, "n" | "no") => (Verdict::Deny, said.map(ToOwned::to_owned)),
        _ => return None,
    };
    Some(Decide { decision, text })
}

/// The current question, if any.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    question: Option<Approval>,
    /// Calls that were decided; the effect may not have been reported yet.
    answered: Vec<String>,
}

impl Answers {
    /// Asks a person, if there is one, about the first waiting call. There is one question at a time;
    /// an outstanding line answers the question that requested it.
    pub(crate) fn ask(&mut self, watch: &Watch, screen: &mut impl Show) {
        if self.question.is_some() {
            return;
        }
        let mut open = watch.waiting.iter();
        let Some(call) = open.find(|call| !self.answered.contains(&call.call)) else {
            return;
        };
        let question = match is_in_doubt(call) {
            true => "was it done? [d]one TEXT, [f]ailed TEXT, [r]epeat",
            false => "may it be made? [y]es, [n]o REASON",
        };
        let question = match watch.waiting.len() {
            1 => question.to_owned(),
            // Each of several calls was shown before.
            _ => {
                let arguments = show::line(&call.arguments.to_string(), NAME_CHARS);
                format!("{} {arguments}: {question}", call.tool)
            }
        };
        self.question = screen.show_question(&question).then(|| call.clone());
    }

    /// Executes the answer; an invalid one repeats the question. Some: the person interrupted.
    ///
    /// # Errors
    /// The decision has no effect, and the call still waits.
    pub(crate) async fn take(
        &mut self,
        reply: Reply,
        service: &dyn Service,
    ) -> Result<Option<Interrupt>> {
        let call = self.question.take();
        let line = match reply {
            Reply::Line(line) => line,
            Reply::Interrupted => return Ok(Some(Interrupt::Person)),
        };
        let Some(call) = call else { return Ok(None) };
        let Some(decision) = read(is_in_doubt(&call), &line) else {
            return Ok(None);
        };
        self.answered.push(call.call.clone());
        match service.decide(&call.call, &decision).await {
            // Another client decided, or the call timed out.
            Err(error) if matches!(error.code(), Code::Conflict | Code::NotFound) => {
                tracing::info!(%error, "the decision is too late");
                Ok(None)
            }
            decided => Ok(decided.map(|_| None)?),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_outstanding_line_answers_the_next_question() {
        let (send, line) = oneshot::channel();
        let mut terminal = Terminal(Some(line));
        assert!(terminal.ask("may it be made?"));
        send.send("y\n".to_owned()).unwrap();
        let line = terminal.0.as_mut().unwrap().try_recv();
        assert_eq!(line.as_deref(), Ok("y\n"));
    }

    #[test]
    fn a_line_at_the_terminal_is_a_decision_or_asked_again() {
        let said = |decision, text: Option<&str>| {
            let text = text.map(str::to_owned);
            Some(Decide { decision, text })
        };
        let (held, doubt) = (false, true);
        let cases = rows! {
            (held, "y", said(Verdict::Approve, None)),
            (held, " Yes \n", said(Verdict::Approve, None)),
            (held, "n", said(Verdict::Deny, None)),
            (held, "no not on Friday", said(Verdict::Deny, Some("not on Friday"))),
            (held, "", None),
            (held, "done", None),
            (doubt, "r", said(Verdict::Repeat, None)),
            (doubt, "done it is there", said(Verdict::Done, Some("it is there"))),
            (doubt, "f", said(Verdict::Failed, Some("it failed"))),
            (doubt, "y", None),
        };
        for (in_doubt, line, expected) in cases {
            assert_eq!(read(in_doubt, line), expected, "{line:?}");
        }
    }
}
