//! The offline model: deterministic, no key, no network. It quotes; it never invents.
//!
//! [`summarise`] condenses a conversation to the sections of a rolling summary, [`answer`]
//! answers a task with ranked quotes, [`synthesise`] joins several agents' answers. All three
//! are pure functions of their input: the same input gives the same bytes.
//!
//! Every quote carries its message's ordinal (`#12`); the day and the speaker are written once
//! for the quotes under them.

mod anchors;
mod answer;
pub(crate) mod baseline;
mod bm25;
mod cues;
mod days;
mod facts;
mod fit;
mod focus;
mod json;
mod paragraph;
mod passage;
mod pool;
mod prior;
mod question;
mod quote;
mod relative;
mod render;
mod score;
mod section;
mod select;
mod split;
mod standing;
mod summary;
mod synthesis;
mod terms;
mod weights;

use unisono_context::checkpoint::{FactCoverage, KeyFact, Span};
use unisono_context::{Ordinal, Tokens};

pub use passage::{Kind, Passage};

/// Counts the tokens of a text.
pub type CountTokens<'a> = &'a dyn Fn(&str) -> u64;

/// How a summary is laid out.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Style {
    /// Sections with headings: the running summary of a conversation.
    #[default]
    Rolling,
    /// One paragraph: a topic, or several old topics.
    Paragraph,
}

/// What is to be summarised.
#[derive(Clone, Copy)]
pub struct SummaryInput<'a> {
    /// The messages, oldest first; see [`Passage::of_message`].
    pub passages: &'a [Passage<'a>],
    /// The summary so far, as [`summarise`] or a model wrote it. Its lines compete with the new
    /// messages for room.
    pub prior: Option<&'a str>,
    /// The key facts so far.
    pub prior_facts: &'a [KeyFact],
    /// The most tokens the text may have.
    pub cap: Tokens,
    /// Its layout.
    pub style: Style,
    /// What the reader asked to have kept, if anything.
    pub instructions: Option<&'a str>,
    /// The tokenizer of the model that will read it.
    pub count: CountTokens<'a>,
}

/// A summary.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct SummaryDraft {
    /// Markdown, at most the cap. Empty when nothing could be said within the cap.
    pub text: String,
    /// What it costs.
    pub tokens: Tokens,
    /// The facts so far and new ones, as [`KeyFact::carried`] limits them; oldest first.
    pub key_facts: Vec<KeyFact>,
    /// The messages it quotes, in order.
    pub quoted: Vec<Ordinal>,
}

/// Whether a task names what it asks about. "Sum up decisions and risks" does not: it only names what
/// agents look for.
pub fn is_question(task: &str) -> bool {
    question::is_question(task)
}

/// Condenses a conversation.
pub fn summarise(input: &SummaryInput<'_>) -> SummaryDraft {
    summary::summarise(input)
}

/// Condenses a conversation to a checkpoint's block: summary, key facts and the marking around
/// them have at most the cap together, and no quote stands in both. `covers` are the messages
/// that the block stands for.
///
/// The text is empty where the cap leaves no room for a word of any message.
pub fn checkpoint(input: &SummaryInput<'_>, covers: &[Span]) -> SummaryDraft {
    summary::checkpoint(input, covers)
}

/// The key facts of a checkpoint whose summary somebody else writes: what [`checkpoint`] would
/// carry, in the part of the cap that it gives them.
pub fn key_facts(input: &SummaryInput<'_>) -> Vec<KeyFact> {
    summary::key_facts(input)
}

/// What a summary that somebody else wrote lost of its input: a line of days, and one of names and
/// ids with digits, the weightiest as far as the cap holds them. Empty where it lost nothing, or the
/// cap holds nothing. `text` is the summary with all that stands beside it.
pub fn anchors(input: &SummaryInput<'_>, text: &str) -> String {
    anchors::anchors(input, text)
}

/// How many of the days, names and ids of its input a block that somebody else wrote gives, and how
/// many [`checkpoint`] would within the cap, which is the block's own size. None where the input has
/// none.
pub fn coverage(input: &SummaryInput<'_>, covers: &[Span], block: &str) -> Option<FactCoverage> {
    anchors::coverage(input, covers, block)
}

/// The headings of a running summary's sections, in order.
pub fn section_titles() -> [&'static str; 8] {
    section::Section::ALL.map(section::Section::title)
}

/// A summary that stands for older messages.
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
    /// The messages the agent sees, oldest first.
    pub passages: &'a [Passage<'a>],
    /// The summaries it sees in place of older ones.
    pub summaries: &'a [SummaryText<'a>],
    /// The agent's instructions; they say what it looks for (decisions, risks, actions …).
    pub persona: &'a str,
    /// The task.
    pub task: &'a str,
    /// The most tokens the answer may have.
    pub cap: Tokens,
    /// The tokenizer of the reader.
    pub count: CountTokens<'a>,
}

/// An answer.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Answer {
    /// Markdown, at most the cap.
    pub text: String,
    /// What it costs.
    pub tokens: Tokens,
    /// The messages it quotes, in order.
    pub quotes: Vec<Ordinal>,
}

/// Answers a task with quotes from the conversation.
pub fn answer(input: &AnswerInput<'_>) -> Answer {
    answer::answer(input)
}

/// What one delegate brought back.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Delegated<'a> {
    /// Its agent.
    pub agent: &'a str,
    /// Its answer, or why there is none.
    pub result: Result<&'a str, &'a str>,
}

/// What a lead has to join to one answer.
#[derive(Clone, Copy)]
pub struct SynthesisInput<'a> {
    /// The task that was delegated.
    pub task: &'a str,
    /// The results, in the order of delegation.
    pub results: &'a [Delegated<'a>],
    /// The most tokens the answer may have.
    pub cap: Tokens,
    /// The tokenizer of the reader.
    pub count: CountTokens<'a>,
}

/// Joins the delegates' answers: each quote once, by agent, and what is missing.
pub fn synthesise(input: &SynthesisInput<'_>) -> Answer {
    synthesis::synthesise(input)
}
