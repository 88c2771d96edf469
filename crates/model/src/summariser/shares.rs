//! The division of a summariser's window: prompt, summary so far, messages, reply.

use unisono_context::Tokens;

use super::prompt::{Filling, Prompt};
use super::{persona, words};
use crate::extractive::CountTokens;

/// Tokens of a request besides the prompt and the persona's words: what a dialect adds, and what
/// counts of texts may miss where these are joined.
pub(super) const OVERHEAD: u64 = 96;
/// A window that leaves fewer tokens for the messages of a part is too small.
const ROOM_LEAST: u64 = 128;
/// The most tokens of messages that are shown for context only, and their part of the window.
const RECENT_MOST: u64 = 2_000;
const RECENT_PART: u64 = 8;
/// The part of the window that the summary so far may take.
const CARRIED_PART: u64 = 4;
/// The part of the window that is kept for the reply, and what is kept besides twice the summary
/// for a model that reasons before it writes.
pub(super) const REPLY_PART: u64 = 3;
pub(super) const REASONING: u64 = 2_048;
/// Models write more than they are asked for: they are asked for so many percent of the cap.
pub(super) const TARGET_PERCENT: u64 = 80;

/// What a summariser can take and should give.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Input and output together, in the tokens that are counted.
    pub window: Tokens,
    /// The longest reply.
    pub max_output: Tokens,
    /// The most tokens of the summary's text.
    pub cap: Tokens,
}

/// The prompt leaves no room in the summariser's window.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "the prompt takes {prompt} of the {window} tokens of the summariser's window and leaves no \
     room for messages; shorten it or choose a summariser with a larger window"
)]
pub struct TooSmall {
    /// Tokens of the prompt itself.
    pub prompt: Tokens,
    /// The window.
    pub window: Tokens,
}

/// Checks that the prompt leaves room for messages.
///
/// # Errors
/// It does not.
pub fn check_window(
    prompt: &Prompt,
    limits: Limits,
    count: CountTokens<'_>,
) -> Result<(), TooSmall> {
    Shares::of(prompt, "", limits, count).map(|_| ())
}

/// How a summariser's window is shared out, in tokens.
pub(super) struct Shares {
    pub(super) reply: u64,
    pub(super) target: u64,
    pub(super) carried: u64,
    pub(super) recent: u64,
    /// For the messages of a part that also has the summary so far and what follows.
    pub(super) room: u64,
}

impl Shares {
    pub(super) fn of(
        prompt: &Prompt,
        instructions: &str,
        limits: Limits,
        count: CountTokens<'_>,
    ) -> Result<Shares, TooSmall> {
        let recent = format!("{}\n{}", words::followed(""), words::GOES_ON);
        let frame = prompt.fill(&Filling {
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
