//! The position of a message that was appended without a turn.

use unisono_context::{MessageId, Ordinal};

use crate::event::RequestKey;
use crate::state::{KeyTarget, State};

/// The position of a message that was appended without a turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct AppendedPosition {
    /// Its id. Under a repeated key, this is the id of the message that was first appended under
    /// it.
    pub message: MessageId,
    /// Its ordinal on its branch; none while it waits for the end of a turn.
    pub ordinal: Option<Ordinal>,
}

impl AppendedPosition {
    /// Finds the message after [`crate::Input::Append`] of `new` under this key.
    pub fn find(state: &State, new: MessageId, key: Option<&RequestKey>) -> AppendedPosition {
        let keyed = key.and_then(|key| state.key_target(&key.name));
        let message = match keyed {
            Some((_, KeyTarget::Message(first))) => first,
            _ => new,
        };
        let node = state.tree().get(message);
        AppendedPosition {
            message,
            ordinal: node.map(|node| node.ordinal()),
        }
    }
}
