//! The division of a summariser's window: prompt, summary so far, messages, reply.

use unisono_context::Tokens;

use super::prompt::{Prompt, PromptValues};
use super::{persona, words};
use crate::extractive::CountTokens;

/// Tokens of a request besides the prompt and the persona: the overhead of a dialect, and
/// inaccuracies of joined texts.
pub(super) const OVERHEAD: u64 = 96;
/// The minimum tokens for the messages of a part.
const ROOM_LEAST: u64 = 128;
/// The maximum tokens of messages for context only, and their part of the window.
const RECENT_MOST: u64 = 2_000;
const RECENT_PART: u64 = 8;
/// The part of the window for the previous summary.
const CARRIED_PART: u64 = 4;
/// The part of the window for the reply, and the tokens for reasoning besides twice the summary.
pub(super) const REPLY_PART: u64 = 3;
pub(super) const REASONING: u64 = 2_048;
/// Models write more than requested, so this percentage of the cap is requested.
pub(super) const TARGET_PERCENT: u64 = 80;

/// The limits of a summariser and of a summary.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Input and output together, in counted tokens.
    pub window: Tokens,
    /// The maximum output.
    pub max_output: Tokens,
    /// The maximum tokens of the summary's text.
    pub cap: Tokens,
}

/// The prompt leaves no room in the summariser's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the prompt takes {prompt} of the {window} tokens of the summariser's window and leaves no \
     room for messages; shorten it or choose a summariser with a larger window"
)]
pub struct TooSmall {
    /// Tokens of the prompt.
    pub prompt: Tokens,
    /// The window.
    pub window: Tokens,
}

/// Checks that the prompt leaves room for messages.
///
/// # Errors
/// It leaves no room.
pub fn check_window(
    prompt: &Prompt,
    limits: Limits,
    count: CountTokens<'_>,
) -> Result<(), TooSmall> {
    Shares::new(prompt, "", limits, count).map(|_| ())
}

/// The division of a summariser's window, in tokens.
pub(super) struct Shares {
    pub(super) reply: u64,
    pub(super) target: u64,
    pub(super) carried: u64,
    pub(super) recent: u64,
    /// For the messages of a part that also has the previous summary and the recent messages.
    pub(super) room: u64,
}

impl Shares {
    pub(super) fn new(
        prompt: &Prompt,
        instructions: &str,
        limits: Limits,
        count: CountTokens<'_>,
    ) -> Result<Shares, TooSmall> {
        let recent = format!("{}\n{}", words::followed(""), words::GOES_ON);
        let frame = prompt.fill(&PromptValues {
            conversation: "",
            prior: &words::so_far(""),
            recent: &recent,
            instructions,
            target_tokens: limits.cap.0,
        });
        let persona = persona();
        let who = format!("{}\n{}", persona.description, persona.instructions);
        let frame = count(&frame) + count(&who) + OVERHEAD;
        let free = limits.window.0.saturating_sub(frame);
        let reply = limits
            .max_output
            .0
            .min(free / REPLY_PART)
            .min(2 * limits.cap.0 + REASONING);
        let carried = (free / CARRIED_PART).min(limits.cap.0);
        let target = carried.min(reply) * TARGET_PERCENT / 100;
        let recent = (free / RECENT_PART).min(RECENT_MOST);
        let room = free - reply - carried - recent;
        if room < ROOM_LEAST || target == 0 {
            return Err(TooSmall {
                prompt: Tokens(frame),
                window: limits.window,
            });
        }
        Ok(Shares {
            reply,
            target,
            carried,
            recent,
            room,
        })
    }
}
