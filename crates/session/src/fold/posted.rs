//! Messages that are appended without a turn: at once, or at the end of the current turn.

use std::sync::Arc;

use unisono_context::message::NewMessage;

use crate::event::RequestKey;
use crate::state::{KeyTarget, State};

use super::Error;

impl State {
    /// Takes a message. It waits while turns are open on its branch.
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

    /// Appends the waiting messages of a branch, in order of arrival.
    pub(super) fn append_waiting(&mut self, branch: &str) -> Result<(), Error> {
        for message in self.waiting_messages.remove(branch).unwrap_or_default() {
            let head = self.tree.head(branch);
            self.append(Some(branch), head, message)?;
        }
        Ok(())
    }
}
