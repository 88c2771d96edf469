//! What an agent reads besides its context: messages, what was behind them, and results.

use std::sync::Arc;

use unisono_context::{Message, Ordinal};
use unisono_session::run::Step;

use super::{Ctx, Failure};
use crate::session::MessagePlace;
use crate::session_port::Recalled;

impl Ctx {
    /// A message of the conversation by its ordinal, whole, whether or not it is in the context.
    ///
    /// # Errors
    /// The session is gone.
    pub async fn read_message(&self, ordinal: Ordinal) -> Result<Option<Arc<Message>>, Failure> {
        match self.assignment().head {
            Some(head) => self.port().read_message(head, ordinal).await,
            None => Ok(None),
        }
    }

    /// The whole of a result that it was handed, by the name that is said where only the beginning of
    /// it was; none where it was handed no such result.
    ///
    /// # Errors
    /// The session is gone.
    pub async fn read_result(&self, name: &str) -> Result<Option<Arc<str>>, Failure> {
        self.port().read_result(self.run(), name.to_owned()).await
    }

    /// What the agent did that wrote a message: replies of its model, and what its calls came back
    /// with. Nothing where no agent of this session wrote it.
    ///
    /// # Errors
    /// The session is gone, or its journal cannot be read.
    pub async fn read_steps(&self, ordinal: Ordinal) -> Result<Vec<Arc<Step>>, Failure> {
        match self.assignment().head {
            Some(head) => self.port().read_steps(head, ordinal).await,
            None => Ok(Vec::new()),
        }
    }

    /// The messages of the conversation, up to where its context was frozen, that fit a text best.
    /// What was said since, or on other branches, changes nothing there; it is found beside them as
    /// far as the runtime lets agents see. Or why it cannot be searched.
    ///
    /// # Errors
    /// The session is gone.
    pub(crate) async fn recall(
        &self,
        text: &str,
        limit: usize,
    ) -> Result<Result<Recalled, String>, Failure> {
        match self.assignment().head {
            Some(head) => self.port().recall(head, text.to_owned(), limit).await,
            None => Ok(Ok(Recalled::default())),
        }
    }

    /// The message at a place that is not on its branch; or why it is not given.
    ///
    /// # Errors
    /// The session is gone.
    pub(crate) async fn read_outside_message(
        &self,
        place: MessagePlace,
    ) -> Result<Result<Arc<Message>, String>, Failure> {
        self.port().read_outside_message(place).await
    }
}
