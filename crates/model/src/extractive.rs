//! The offline model: deterministic, no key, no network. It quotes; it never invents.
//!
//! [`summarise`] condenses a conversation to the sections of a rolling summary, [`answer`]
//! answers a task with ranked quotes, [`synthesise`] joins several agents' answers. All three
//! are pure functions of their input: the same input gives the same bytes.
//!
//! Every quote has its message's ordinal (`#12`); the day and the speaker are written once for the
//! quotes below them.

mod anchors;
mod answer;
pub(crate) mod baseline;
mod bm25;
mod corrections;
mod cues;
mod days;
mod facts;
mod fit;
#[cfg(test)]
mod fixture;
mod focus;
mod json;
mod outcomes;
mod paragraph;
mod passage;
mod pool;
mod prior;
mod question;
mod quote;
mod readability;
mod relative;
mod render;
mod score;
mod section;
mod select;
mod split;
mod summary;
mod synthesis;
mod telegraphic;
mod terms;
mod weights;

use unisono_context::checkpoint::KeyFact;
pub use unisono_context::compaction::EXTRACTIVE;
use unisono_context::{Ordinal, Tokens};

pub use anchors::{NAMED, anchors, coverage, has_name};
pub use answer::answer;
pub use facts::facts_without_room;
pub(crate) use passage::one_word;
pub use passage::{Passage, PassageKind};
pub(crate) use prior::is_call;
pub(crate) use question::is_follow_up;
pub use question::is_question;
pub use section::section_titles;
pub(crate) use split::unit_texts;
pub use summary::{checkpoint, key_facts, summarise};
pub use synthesis::synthesise;

/// Counts the tokens of a text.
pub type CountTokens<'a> = &'a dyn Fn(&str) -> u64;

/// The layout of a summary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum SummaryLayout {
    /// Sections with headings: the rolling summary of a conversation.
    #[default]
    Rolling,
    /// One paragraph: a topic, or several old topics.
    Paragraph,
}

/// The input of a summary.
#[derive(Clone, Copy)]
pub struct SummaryInput<'a> {
    /// The messages, oldest first; see [`Passage::of_messages`].
    pub passages: &'a [Passage<'a>],
    /// The previous summary, by [`summarise`] or a model. Its lines compete with the new messages
    /// for room.
    pub prior: Option<&'a str>,
    /// The previous key facts.
    pub prior_facts: &'a [KeyFact],
    /// The maximum tokens of the text.
    pub cap: Tokens,
    /// The layout.
    pub layout: SummaryLayout,
    /// Whether quotes leave out articles and fillers.
    pub telegraphic: bool,
    /// The user's instructions about what to keep, if any.
    pub instructions: Option<&'a str>,
    /// The tokenizer of the reading model.
    pub count: CountTokens<'a>,
}

impl<'a> SummaryInput<'a> {
    /// The first summary of these messages, with headings, in full sentences.
    pub fn new(
        passages: &'a [Passage<'a>],
        cap: Tokens,
        count: CountTokens<'a>,
    ) -> SummaryInput<'a> {
        SummaryInput {
            passages,
            prior: None,
            prior_facts: &[],
            cap,
            layout: SummaryLayout::Rolling,
            telegraphic: false,
            instructions: None,
            count,
        }
    }
}

/// A summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryDraft {
    /// Markdown, at most the cap. Empty if nothing fits the cap.
    pub text: String,
    /// Its tokens.
    pub tokens: Tokens,
    /// The previous facts and new ones, limited by [`KeyFact::carried`]; oldest first.
    pub key_facts: Vec<KeyFact>,
    /// The quoted messages, in order.
    pub quoted: Vec<Ordinal>,
}

/// A summary that replaces older messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SummaryText<'a> {
    /// The first message it covers.
    pub first: Ordinal,
    /// The last message it covers.
    pub last: Ordinal,
    /// Its text.
    pub text: &'a str,
}

/// A task for an agent without a language model.
#[derive(Clone, Copy)]
pub struct AnswerInput<'a> {
    /// The messages in the agent's context, oldest first.
    pub passages: &'a [Passage<'a>],
    /// The summaries in its context.
    pub summaries: &'a [SummaryText<'a>],
    /// The agent's instructions, which determine what it looks for (decisions, risks, actions …).
    pub persona: &'a str,
    /// The task.
    pub task: &'a str,
    /// The maximum tokens of the answer.
    pub cap: Tokens,
    /// The tokenizer of the reader.
    pub count: CountTokens<'a>,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Markdown, at most the cap.
    pub text: String,
    /// Its tokens.
    pub tokens: Tokens,
    /// The quoted messages, in order.
    pub quotes: Vec<Ordinal>,
}

/// The answer of one delegate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DelegateAnswer<'a> {
    /// Its agent.
    pub agent: &'a str,
    /// Its answer.
    pub text: &'a str,
}

/// The answers that a lead combines into one.
#[derive(Clone, Copy)]
pub struct SynthesisInput<'a> {
    /// The delegated task.
    pub task: &'a str,
    /// The answers, in the order of delegation.
    pub results: &'a [DelegateAnswer<'a>],
    /// The maximum tokens of the answer.
    pub cap: Tokens,
    /// The tokenizer of the reader.
    pub count: CountTokens<'a>,
}
