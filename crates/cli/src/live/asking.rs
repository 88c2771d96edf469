//! A person who is asked about calls of tools while they watch.

use std::future::{Future, pending};
use std::io::{self, BufRead as _, IsTerminal as _};

use tokio::sync::oneshot;
use unisono_context::{CallId, SessionId};
use unisono_session::run::calls::{Status, Waiting};

use super::follow::{Interrupt, Show};
use super::watch::Watch;
use crate::approvals;
use crate::host::Host;

/// What came back of a question.
#[derive(Debug)]
pub(crate) enum Reply {
    /// What was written.
    Line(String),
    /// The person broke off.
    Interrupted,
}

/// A question as it stands in front of its answer.
pub(crate) fn shown(question: &str) -> String {
    format!("{:<10} {question}: ", "")
}

/// Where a person writes who may be asked.
pub(crate) trait Lines {
    /// Whether there is one.
    fn is_person(&self) -> bool;

    /// Wants a line for a question; whether the question is still to be shown.
    fn ask(&mut self, question: &str) -> bool;

    /// The line; for ever where none was asked for or comes. May be dropped and asked again.
    fn reply(&mut self) -> impl Future<Output = Reply> + Send;
}

/// Standard input, where nobody else reads it.
#[derive(Debug, Default)]
pub(crate) struct Terminal(Option<oneshot::Receiver<String>>);

impl Lines for Terminal {
    fn is_person(&self) -> bool {
        io::stdin().is_terminal()
    }

    fn ask(&mut self, _: &str) -> bool {
        let (send, line) = oneshot::channel();
        // A thread of its own: the program does not wait for it to end.
        std::thread::spawn(move || {
            let mut line = String::new();
            let read = io::stdin().lock().read_line(&mut line);
            if read.is_ok_and(|n| n > 0) {
                // Whoever asked may have gone.
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
            // The input is closed.
            Err(_) => pending().await,
        }
    }
}

/// The question that is put, if one is.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    asked: Option<Waiting>,
    /// Calls that were answered, of which what comes of that may not have been heard yet.
    answered: Vec<CallId>,
}

impl Answers {
    /// Asks about the first call that waits, where there is a person to ask. One question at a
    /// time; a line that is being waited for belongs to the question it was asked for.
    pub(crate) fn ask(&mut self, watch: &Watch, screen: &mut impl Show) {
        if self.asked.is_some() {
            return;
        }
        let mut open = watch.waiting();
        let Some(waiting) = open.find(|waiting| !self.answered.contains(&waiting.id)) else {
            return;
        };
        let question = match waiting.call.status {
            Status::InDoubt => "was it done? [d]one TEXT, [f]ailed TEXT, [r]epeat",
            _ => "may it be made? [y]es, [n]o REASON",
        };
        self.asked = screen.asks(question).then_some(waiting);
    }

    /// Does what the person wrote; what is no answer is asked again. Some: they broke off.
    pub(crate) async fn take(
        &mut self,
        reply: Reply,
        host: &Host,
        session: SessionId,
    ) -> Option<Interrupt> {
        let waiting = self.asked.take();
        let line = match reply {
            Reply::Line(line) => line,
            Reply::Interrupted => return Some(Interrupt::Person),
        };
        let waiting = waiting?;
        let decision = approvals::read(&waiting.call.status, &line)?;
        self.answered.push(waiting.id);
        if let Err(problem) = host.decide(session, waiting.id, decision).await {
            // Somebody else was faster, or its time was over.
            tracing::info!(error = problem.message, "the answer is not taken");
        }
        None
    }
}
