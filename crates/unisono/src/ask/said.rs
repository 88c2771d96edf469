//! Tasks with attachments.

use unisono_context::message::Part;

use super::{Ask, What};

impl Ask {
    /// Asks for an answer to parts: texts and attachments.
    pub fn saying(parts: Vec<Part>) -> Ask {
        let texts = parts.iter().map(|part| part.countable_text().into_owned());
        let texts: Vec<String> = texts.collect();
        Ask {
            said: Some(parts),
            ..Ask::new(texts.join("\n"))
        }
    }

    /// Adds attachments behind the task.
    #[must_use]
    pub fn attaching(self, attachments: Vec<Part>) -> Ask {
        let said = match (self.said, &self.work) {
            (Some(said), _) => said,
            (None, What::Task(task)) if !task.trim().is_empty() => vec![Part::text(task.as_str())],
            (None, _) => Vec::new(),
        };
        Ask {
            said: Some(said.into_iter().chain(attachments).collect()),
            ..self
        }
    }

    /// The parts of a task: its text, if they are not given.
    pub(super) fn said(&self, task: &str) -> Vec<Part> {
        let said = self.said.clone();
        said.unwrap_or_else(|| vec![Part::text(task)])
    }
}
