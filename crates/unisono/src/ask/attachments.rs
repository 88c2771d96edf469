//! Attachments of tasks.

use unisono_context::message::Part;

use super::{Ask, Purpose};

impl Ask {
    /// Makes a task of text parts and attachments.
    pub fn from_parts(parts: Vec<Part>) -> Ask {
        let texts = parts.iter().map(|part| part.countable_text().into_owned());
        let texts: Vec<String> = texts.collect();
        Ask {
            parts: Some(parts),
            ..Ask::new(texts.join("\n"))
        }
    }

    /// Adds attachments after the text of the task.
    #[must_use]
    pub fn with_attachments(self, attachments: Vec<Part>) -> Ask {
        let parts = match (self.parts, &self.work) {
            (Some(parts), _) => parts,
            (None, Purpose::Task(task)) if !task.trim().is_empty() => {
                vec![Part::text(task.as_str())]
            }
            (None, _) => Vec::new(),
        };
        Ask {
            parts: Some(parts.into_iter().chain(attachments).collect()),
            ..self
        }
    }

    /// The parts of a task; its text alone if it has no attachments.
    pub(super) fn parts(&self, task: &str) -> Vec<Part> {
        let parts = self.parts.clone();
        parts.unwrap_or_else(|| vec![Part::text(task)])
    }
}
