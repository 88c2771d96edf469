//! Reading beyond the context: messages, the steps behind them, and results.

use std::sync::Arc;

use unisono_context::{Message, Ordinal};
use unisono_session::run::Step;

use super::{Ctx, Failure};
use crate::session_port::{MessagePlace, RecallResults};

impl Ctx {
    /// A complete message of the conversation by its ordinal, whether or not it is in the context.
    pub async fn read_message(&self, ordinal: Ordinal) -> Result<Option<Arc<Message>>, Failure> {
        match self.assignment().head {
            Some(head) => self.port().read_message(head, ordinal).await,
            None => Ok(None),
        }
    }

    /// The complete result with this name, of which the agent got an excerpt; none if it got no
    /// such result.
    pub async fn read_result(&self, name: &str) -> Result<Option<Arc<str>>, Failure> {
        self.port().read_result(self.run(), name.to_owned()).await
    }

    /// The steps of the agent that wrote a message: replies of its model, and results of its calls.
    /// Empty if no agent of this session wrote it.
    ///
    /// # Errors
    /// The session is gone, or its journal cannot be read.
    pub async fn read_steps(&self, ordinal: Ordinal) -> Result<Vec<Arc<Step>>, Failure> {
        match self.assignment().head {
            Some(head) => self.port().read_steps(head, ordinal).await,
            None => Ok(Vec::new()),
        }
    }

    /// The messages of the conversation, up to the frozen head, that match a text best. Later
    /// messages and other branches do not affect this part; matches there are listed separately, as
    /// far as the recall scope permits. An error says why the search is impossible.
    pub(crate) async fn recall(
        &self,
        text: &str,
        limit: usize,
    ) -> Result<Result<RecallResults, String>, Failure> {
        match self.assignment().head {
            Some(head) => self.port().recall(head, text.to_owned(), limit).await,
            None => Ok(Ok(RecallResults::default())),
        }
    }

    /// The message at a place that is not on its branch; an error says why it cannot be read.
    pub(crate) async fn read_outside_message(
        &self,
        place: MessagePlace,
    ) -> Result<Result<Arc<Message>, String>, Failure> {
        self.port().read_outside_message(place).await
    }
}
