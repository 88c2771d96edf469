//! Pinned messages, which always stay verbatim, and their tokens.

use std::sync::Arc;

use unisono_context::{Message, MessageId, Tokens};
use unisono_model::calibration::Calibrations;
use unisono_session::State;

use super::estimate::Error;
use super::{measure, tip};
use crate::ask::Ask;
use unisono_config::setup::Setup;

/// The pinned messages of a branch.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Pins {
    /// The messages with their tokens, oldest first.
    pub messages: Vec<(Arc<Message>, Tokens)>,
    /// Usable tokens.
    pub usable: Tokens,
}

impl Pins {
    /// The pinned messages of a branch, measured for the configured lead. Missing counts are made
    /// in `state`; nothing is written.
    ///
    /// # Errors
    /// The branch is unknown, or something cannot be counted.
    pub fn load(
        setup: &Setup,
        learnt: &Calibrations,
        state: &mut State,
        branch: &str,
    ) -> Result<Pins, Error> {
        let unknown = || Error::Branch(branch.to_owned());
        let head = tip(state, branch).ok_or_else(unknown)?;
        let by = Ask::new("").context_inputs(setup, learnt)?;
        let budget = measure(state, head, &by)?.budget;
        let cost = |message: &Message| {
            let node = state.tree().get(message.id);
            let count = node.and_then(|node| node.count(&budget));
            count.unwrap_or_default().tokens + budget.per_message
        };
        let pinned = head.map_or_else(Vec::new, |head| pinned(state, head));
        let messages = pinned.into_iter().map(|message| {
            let tokens = cost(&message);
            (message, tokens)
        });
        Ok(Pins {
            messages: messages.collect(),
            usable: budget.usable,
        })
    }

    /// Their tokens together.
    pub fn tokens(&self) -> Tokens {
        self.messages.iter().map(|(_, tokens)| *tokens).sum()
    }
}

/// The pinned messages of the branch that ends in `head`, oldest first.
pub fn pinned(state: &State, head: MessageId) -> Vec<Arc<Message>> {
    let tree = state.tree();
    let nodes = state.pinned().iter().filter_map(|id| tree.get(*id));
    let on_branch = nodes.filter(|node| {
        let there = tree.node_at(head, node.ordinal());
        there.is_some_and(|there| there.message.id == node.message.id)
    });
    let mut messages: Vec<Arc<Message>> = on_branch.map(|node| node.message.clone()).collect();
    messages.sort_by_key(|message| message.ordinal);
    messages
}
