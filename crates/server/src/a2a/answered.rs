//! The messages that have answered calls of tasks. One that is sent again decides about no other call.

use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};

use a2a::Message;
use unisono::tasks::TaskId;
use unisono_context::Digest;
use unisono_context::digest::Hasher;

/// Maximum number of known messages.
const KEPT: usize = 1_024;

/// The newest messages, oldest first.
#[derive(Debug, Default)]
pub(super) struct AnsweredMessages(Mutex<VecDeque<Digest>>);

impl AnsweredMessages {
    pub(super) fn contains(&self, message: Digest) -> bool {
        self.known().contains(&message)
    }

    pub(super) fn insert(&self, message: Digest) {
        let mut known = self.known();
        if known.len() == KEPT {
            known.pop_front();
        }
        known.push_back(message);
    }

    pub(super) fn remove(&self, message: Digest) {
        self.known().retain(|known| *known != message);
    }

    fn known(&self) -> MutexGuard<'_, VecDeque<Digest>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The same for the same message to the same task.
pub(super) fn digest(task: TaskId, message: &Message) -> Digest {
    // Serialising parts does not fail.
    let parts = serde_json::to_vec(&message.parts).unwrap_or_default();
    let mut hasher = Hasher::new("unisono/a2a-answer", 1);
    hasher
        .bytes(task.to_string().as_bytes())
        .bytes(message.message_id.as_bytes())
        .bytes(&parts);
    hasher.finish()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_known_up_to_a_limit() {
        let messages = AnsweredMessages::default();
        let digest = |number: usize| Digest::of_bytes(&number.to_be_bytes());
        for number in 0..=KEPT {
            messages.insert(digest(number));
        }
        assert!(!messages.contains(digest(0)) && messages.contains(digest(1)));
        messages.remove(digest(1));
        assert!(!messages.contains(digest(1)) && messages.contains(digest(KEPT)));
    }
}
