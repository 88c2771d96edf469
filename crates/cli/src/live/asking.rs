//! A person at the terminal who is asked about calls of tools while they watch.

use std::io::BufRead as _;

use tokio::sync::oneshot;
use unisono_session::run::calls::{Status, Waiting};

use super::follow::Show;
use super::watch::Watch;
use crate::approvals;

/// The question that is put, if one is.
#[derive(Debug, Default)]
pub(crate) struct Answers {
    asked: Option<(Waiting, oneshot::Receiver<String>)>,
}

impl Answers {
    /// Asks about the first call that waits, where there is a person to ask. One question at a
    /// time; a line that is being waited for belongs to the question it was asked for.
    pub(crate) fn ask(&mut self, watch: &Watch, screen: &mut impl Show) {
        if self.asked.is_some() {
            return;
        }
        let Some(waiting) = watch.waiting().next() else {
            return;
        };
        let question = match waiting.call.status {
            Status::InDoubt => "was it done? [d]one TEXT, [f]ailed TEXT, [r]epeat",
            _ => "may it be made? [y]es, [n]o REASON",
        };
        if !screen.asks(question) {
            return;
        }
        let (send, line) = oneshot::channel();
        // A thread of its own: the program does not wait for it to end.
        std::thread::spawn(move || {
            let mut line = String::new();
            if std::io::stdin()
                .lock()
                .read_line(&mut line)
                .is_ok_and(|n| n > 0)
            {
                let _ = send.send(line);
            }
        });
        self.asked = Some((waiting, line));
    }

    /// The line that was written, and what it answers; for ever where nobody is asked or writes.
    pub(crate) async fn next(&mut self) -> (Waiting, String) {
        let Some((waiting, line)) = &mut self.asked else {
            return std::future::pending().await;
        };
        let (waiting, line) = (waiting.clone(), line.await);
        match line {
            Ok(line) => {
                self.asked = None;
                (waiting, line)
            }
            // The input is closed.
            Err(_) => std::future::pending().await,
        }
    }
}

/// What a line decides; none: it is no answer.
pub(crate) fn decided(
    waiting: &Waiting,
    line: &str,
) -> Option<unisono_session::run::calls::Decision> {
    approvals::read(&waiting.call.status, line)
}
