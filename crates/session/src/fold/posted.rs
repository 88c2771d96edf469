//! Messages that were appended without a turn: at once, or when the turn at work has ended.

use std::sync::Arc;

use unisono_context::message::NewMessage;

use crate::event::RequestKey;
use crate::state::{KeyTarget, State};

use super::Error;

impl State {
    /// Takes a message. While turns are open on its branch it waits.
    pub(super) fn posted(
        &mut self,
        branch: &Arc<str>,
        message: &NewMessage,
        key: Option<&RequestKey>,
    ) -> Result<(), Error> {
        if let Some(key) = key {
            let keyed = Arc::make_mut(&mut self.keyed);
            let stands_for = KeyTarget::Message(message.id);
            keyed.insert(key.name.clone(), (key.request, stands_for));
        }
        if self.queues.contains_key(branch) {
            let waiting = self.waiting_messages.entry(branch.clone()).or_default();
            waiting.push(message.clone());
            return Ok(());
        }
        let head = self.tree.head(branch);
        self.append(Some(branch), head, message.clone())
    }

    /// Appends what waited on a branch, in the order in which it came.
    pub(super) fn append_waiting(&mut self, branch: &str) -> Result<(), Error> {
        for message in self.waiting_messages.remove(branch).unwrap_or_default() {
            let head = self.tree.head(branch);
            self.append(Some(branch), head, message)?;
        }
        Ok(())
    }
}
