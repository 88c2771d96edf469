//! The messages to a remote agent in a run's journal.
//!
//! The first message has number 1. A message is over if it was refused, or if its task ended
//! without an answer; the next message has the next number.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_session::run::{Step, named_result};

#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum SendResult {
    /// A task with this id.
    Task(String),
    /// The answer.
    Message(String),
}

/// A message that is about to be sent.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(untagged)]
pub(super) enum Sending {
    /// With the card by which the agent was found.
    ByCard {
        id: String,
        /// The digest of the card.
        card: String,
        /// The address at which the agent gets it.
        url: String,
    },
    /// Of an earlier program: only its id.
    Id(String),
}

impl Sending {
    pub(super) fn id(&self) -> &str {
        match self {
            Sending::ByCard { id, .. } | Sending::Id(id) => id,
        }
    }
}

/// The result of a message, and the address that gave it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(super) struct Begun {
    #[serde(flatten)]
    pub(super) result: SendResult,
    /// None: an earlier program sent the message.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(super) url: Option<String>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct MessageState {
    /// Whether it may have been sent.
    pub(super) is_sent: bool,
    pub(super) begun: Option<Begun>,
}

pub(super) fn sending_step(number: u32) -> String {
    format!("a2a.sending.{number}")
}

pub(super) fn result_step(number: u32) -> String {
    format!("a2a.begun.{number}")
}

pub(super) fn over_step(number: u32) -> String {
    format!("a2a.over.{number}")
}

/// The number of the current message, which may not be sent yet.
pub(super) fn number(steps: &[Arc<Step>]) -> u32 {
    let mut number = 1;
    while named_result(steps, &over_step(number)).is_some() {
        number += 1;
    }
    number
}

impl MessageState {
    pub(super) fn read(steps: &[Arc<Step>], number: u32) -> MessageState {
        let begun = named_result(steps, &result_step(number));
        MessageState {
            is_sent: named_result(steps, &sending_step(number)).is_some(),
            begun: begun.and_then(|json| serde_json::from_str(json).ok()),
        }
    }
}

/// Whether the agent may have got a message.
pub(crate) fn is_message_begun(steps: &[Arc<Step>]) -> bool {
    named_result(steps, &sending_step(1)).is_some()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_steps_determine_the_state_of_a_message() {
        let steps = |names: &[(&str, &str)]| -> Vec<Arc<Step>> {
            let steps = names.iter();
            let steps = steps.map(|(name, result)| Step::named(*name, *result));
            steps.map(Arc::new).collect()
        };
        let begun = |url: Option<&str>| {
            Some(Begun {
                result: SendResult::Task("t".into()),
                url: url.map(str::to_owned),
            })
        };
        type Journal<'j> = &'j [(&'j str, &'j str)];
        let rows: [(Journal<'_>, u32, bool, Option<Begun>); 5] = rows! {
            (&[], 1, false, None),
            (&[("a2a.sending.1", "\"m\"")], 1, true, None),
            (
                &[("a2a.sending.1", "\"m\""), ("a2a.begun.1", "{\"task\":\"t\"}")],
                1,
                true,
                begun(None),
            ),
            (&[("a2a.sending.1", "\"m\""), ("a2a.over.1", "\"no\"")], 2, false, None),
            (
                &[
                    ("a2a.over.1", "\"no\""),
                    ("a2a.sending.2", "\"m\""),
                    ("a2a.begun.2", "{\"task\":\"t\",\"url\":\"u\"}"),
                ],
                2,
                true,
                begun(Some("u")),
            ),
        };
        for (names, expected, is_sent, begun) in rows {
            let steps = steps(names);
            assert_eq!(number(&steps), expected, "{names:?}");
            assert_eq!(
                MessageState::read(&steps, expected),
                MessageState { is_sent, begun }
            );
        }
    }
}
