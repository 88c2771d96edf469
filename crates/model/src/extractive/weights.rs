//! Every weight of the extractive model, in one table.
//!
//! The weights of summaries were fitted on the conversations of `examples/retained`, half `tune`,
//! on the three shipped conversations (`examples/probes`), and on public chats, meetings and
//! bookings that are not in the repository. The half `report` was used to compare variants. The
//! weights of answers were set by reading answers and by half of the questions of `tests/it/asked.rs`. A
//! weight without a unit is a factor; 1 has no effect.

use super::select::Preference;

/// How the units of a summary are chosen.
pub(super) const SUMMARY: Preference = Preference {
    decay: 0.1,
    line: 7.0,
    power: 0.95,
    spread: 0.7,
    per_source: 12,
    per_tool: 6,
    earlier: 1.0,
    new: 0.0,
};
/// [`Preference::spread`] beside an earlier summary, and the largest part of the room that is kept for
/// messages after it.
pub(super) const ROLLING_SPREAD: f32 = 1.4;
pub(super) const NEW_PART: f32 = 0.5;
/// How quotes of an answer are chosen: from many messages, without avoiding long sentences.
pub(super) const ANSWER: Preference = Preference {
    decay: 0.4,
    line: 8.0,
    power: 0.5,
    spread: 0.0,
    per_source: 3,
    per_tool: 2,
    ..SUMMARY
};
/// The worth of a term, by class.
pub(super) const WORD: f32 = 1.0;
pub(super) const NAME: f32 = 1.5;
pub(super) const NUMBER: f32 = 2.0;
pub(super) const IDENTIFIER: f32 = 2.0;
/// A term's worth is `rarity^RARE × frequency^OFTEN`: the subject of a conversation is repeated.
pub(super) const RARE: f32 = 0.5;
pub(super) const OFTEN: f32 = 0.8;
/// The messages that a line of the previous summary stands for.
pub(super) const PRIOR: u32 = 3;
/// A term in the user's instructions.
pub(super) const WANTED: f32 = 2.0;

/// Text that is not prose: the outcomes of tool calls, what tools are asked and answer, as records or
/// not, and files.
pub(super) const OUTCOME: f32 = 0.7;
pub(super) const RECORD: f32 = 1.5;
pub(super) const TOOL: f32 = 0.2;
pub(super) const ATTACHMENT: f32 = 0.5;
/// `I`, `we`; past tense; a time: each, in the words of somebody with a name.
pub(super) const PERSONAL: f32 = 1.2;
/// The share that each cue of a decision, a constraint or a change adds, in other words.
pub(super) const STRONG_CUE: f32 = 0.15;
/// The bounds of a ratio: the mean length of all messages to the mean length of one side's.
pub(super) const BREVITY_MIN: f32 = 0.7;
pub(super) const BREVITY_MAX: f32 = 1.35;
/// Thanks, praise, apologies.
pub(super) const FILLER: f32 = 0.8;
pub(super) const QUESTION: f32 = 0.6;
/// A message that demands to be kept, and one that commands the program that summarises.
pub(super) const DEMANDS_TO_BE_KEPT: f32 = 0.4;
pub(super) const COMMAND: f32 = 0.15;
/// `Here is what I found:` announces the next unit.
pub(super) const LEAD_IN: f32 = 0.4;
/// A text that people said more often than this is a formula. The worth of formulas, and of repeated
/// texts of tools, is divided by the root of the number of copies.
pub(super) const FEW_COPIES: f32 = 4.0;
/// The number of terms of a full statement; with fewer, the share applies.
pub(super) const FULL_TERMS: f32 = 3.0;
/// A fact: a name together with a value or a date.
pub(super) const NAME_AND_VALUE: f32 = 1.1;

/// The relevance of a unit to a question, see `question`.
pub(super) mod question {
    /// The weight of a focus keyword relative to a word of the subject.
    pub(in super::super) const FOCUS_WORD: f32 = 0.15;
    /// How much a word that is related to a word of the question counts.
    pub(in super::super) const RELATED: f32 = 0.6;
    /// A unit without the kind of answer that the question expects.
    pub(in super::super) const OTHER_KIND: f32 = 0.35;
    /// The weight of the speaker's name relative to a word in the text.
    pub(in super::super) const SPEAKER: f32 = 0.8;
    /// The weight of the day that the question names, or of its people if no message has its other words,
    /// relative to a word in the text.
    pub(in super::super) const DAY: f32 = 3.0;
    /// The share of its neighbours' relevance that a message gets.
    pub(in super::super) const NEIGHBOUR: f32 = 0.3;
    /// The part of the relevance that depends on the unit; the rest depends on its message.
    pub(in super::super) const UNIT_SHARE: f32 = 0.7;
    /// A unit of a long message that is not beside words of the question. It is no answer, but may be in
    /// another section.
    pub(in super::super) const FAR_FROM_WORDS: f32 = 0.1;
    /// A message without the id that the question names, if neither the message before it nor the one after
    /// it has the id.
    pub(in super::super) const WITHOUT_ID: f32 = 0.2;
    /// A unit that is itself a question.
    pub(in super::super) const ASKS_ITSELF: f32 = 0.1;
    /// Units below this share of the best relevance are left out.
    pub(in super::super) const OF_THE_BEST: f32 = 0.15;
    /// Units below this share do not bear on the question: neither they nor the messages beside them have
    /// its words. They are in no other section.
    pub(in super::super) const BEARING: f32 = 0.03;
    /// The maximum tokens of the first section; the rest of the cap is for the agent's focus.
    pub(in super::super) const TOKENS: u64 = 350;
}

/// The worth of a quote in an answer, see `answer`.
pub(super) mod relevance {
    /// The words of the task, and of the agent's instructions.
    pub(in super::super) const TASK: f32 = 1.0;
    pub(in super::super) const PERSONA: f32 = 0.2;
    /// Similarity to the task, match with the agent's first focus, and with another one.
    pub(in super::super) const LIKENESS: f32 = 1.5;
    pub(in super::super) const FIRST_FOCUS: f32 = 1.2;
    pub(in super::super) const OTHER_FOCUS: f32 = 0.3;
    /// A statement that changes an earlier one.
    pub(in super::super) const CHANGE: f32 = 1.3;
    /// The base of every unit, so that worth alone decides without a focus.
    pub(in super::super) const BASE: f32 = 0.1;
    /// The base of a unit's general worth.
    pub(in super::super) const WORTH_BASE: f32 = 0.3;
    /// The minimum similarity of a unit that matches no focus.
    pub(in super::super) const UNFOCUSED_MIN: f32 = 0.75;
    /// Quotes worth less than this share of the best one are left out.
    pub(in super::super) const OF_THE_BEST: f32 = 0.18;
    /// A unit that is not understandable alone.
    pub(in super::super) const UNREADABLE: f32 = 0.2;
    /// A question if questions are not looked for.
    pub(in super::super) const UNASKED_QUESTION: f32 = 0.15;
    /// A decision in the words of the assistant, which is often a proposal.
    pub(in super::super) const PROPOSED: f32 = 0.6;
    /// An old question was most likely answered, an old open point perhaps.
    pub(in super::super) const OLD_OPEN_POINT: f32 = 0.7;
    pub(in super::super) const OLD_QUESTION: f32 = 0.4;
    /// An action: the base, an owner, a due date.
    pub(in super::super) const ACTION: f32 = 0.4;
    pub(in super::super) const OWNER: f32 = 0.3;
    pub(in super::super) const DUE: f32 = 0.3;
    /// The number of names and values of a full fact.
    pub(in super::super) const FULL_FACT: f32 = 4.0;
}
