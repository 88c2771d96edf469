//! Every weight of the extractive model, in one table.
//!
//! The summary's were fitted on two conversations (a database migration and the design of an
//! appointment system) by the facts that a tenth and a quarter of them keep, and checked on a
//! third, which they were not fitted on (`examples/probes`). The answer's were set by reading
//! answers. A weight without a unit multiplies; 1 changes nothing.

use super::select::Preference;

/// How the units of a summary are chosen. Siblings are welcome: they share a line, and the
/// second sentence of a message often completes the first.
pub(super) const SUMMARY: Preference = Preference {
    decay: 0.4,
    sibling: 1.08,
    line: 5.0,
    power: 1.0,
    per_source: 12,
    per_tool: 4,
};
/// How quotes of an answer are chosen: from many messages, long sentences not avoided.
pub(super) const ANSWER: Preference = Preference {
    decay: 0.4,
    sibling: 0.8,
    line: 8.0,
    power: 0.5,
    per_source: 3,
    per_tool: 2,
};
/// How key facts are chosen: each is a line of its own.
pub(super) const FACTS: Preference = Preference {
    decay: 0.4,
    sibling: 0.8,
    line: 4.0,
    power: 1.0,
    per_source: 6,
    per_tool: 0,
};

/// What a term is worth, by class.
pub(super) const WORD: f32 = 1.0;
pub(super) const NUMBER: f32 = 1.8;
pub(super) const IDENTIFIER: f32 = 2.0;
/// A term's worth is `rarity^RARE × frequency^OFTEN`: what a conversation is about comes back.
pub(super) const RARE: f32 = 0.2;
pub(super) const OFTEN: f32 = 0.8;
/// What is left of the worth of a term that every message has.
pub(super) const RARITY_LEAST: f32 = 0.02;
/// A term that the reader asked to have kept.
pub(super) const WANTED: f32 = 2.0;

/// Points of a cue: what must outlive the conversation, and what is of substance.
pub(super) const STRONG_CUE: f32 = 3.7;
pub(super) const MEDIUM_CUE: f32 = 1.1;
/// What a point adds: as a share of the unit's terms, and by itself.
pub(super) const CUE_SHARE: f32 = 0.07;
pub(super) const CUE_ALONE: f32 = 0.3;

/// Who says it, and in what form.
pub(super) const USER: f32 = 1.4;
pub(super) const OTHERS: f32 = 1.0;
pub(super) const TOOL_RESULT: f32 = 0.25;
pub(super) const TOOL_CALL: f32 = 0.2;
pub(super) const ATTACHMENT: f32 = 0.5;
pub(super) const CODE_OR_TABLE: f32 = 0.6;
pub(super) const QUESTION: f32 = 0.75;
/// `Feel free to ask.`
pub(super) const OFFER: f32 = 0.3;
/// `Here is what I found:` announces what the next unit says.
pub(super) const LEAD_IN: f32 = 0.35;
/// So many terms make a full statement; with fewer, the root of the share counts.
pub(super) const FULL_TERMS: f32 = 3.0;
/// The first message, and the last two per cent.
pub(super) const AT_THE_ENDS: f32 = 1.2;
pub(super) const LAST_PART: usize = 50;
/// A line of the summary so far: it was chosen before.
pub(super) const PRIOR: f32 = 1.3;

/// A fact joins something named with a value or a date.
pub(super) const NAME_AND_VALUE: f32 = 1.15;
pub(super) const NAME_OR_VALUE: f32 = 0.9;

/// How well a unit reads away from its place, see `standing`.
pub(super) mod reading {
    /// It only announces something.
    pub(in super::super) const LEAD_IN: f32 = 0.05;
    /// It begins with a pronoun, and what that stands for can be quoted with it, or not.
    pub(in super::super) const DANGLING_JOINED: f32 = 0.8;
    pub(in super::super) const DANGLING: f32 = 0.4;
    /// `Feel free to ask`, and thanks, praise, apologies.
    pub(in super::super) const OFFER: f32 = 0.2;
    pub(in super::super) const FILLER: f32 = 0.6;
    /// So many terms make a full statement; with fewer, the root of the share counts.
    pub(in super::super) const FULL_TERMS: f32 = 4.0;
    /// Code and tables.
    pub(in super::super) const CODE_OR_TABLE: f32 = 0.6;
    /// What a tool was asked, what it answered, and what is known of a file.
    pub(in super::super) const TOOL_CALL: f32 = 0.1;
    pub(in super::super) const TOOL_RESULT: f32 = 0.4;
    pub(in super::super) const ATTACHMENT: f32 = 0.5;
}

/// What makes a quote a good answer, see `answer`.
pub(super) mod relevance {
    /// The task's own words, and those of the agent's instructions.
    pub(in super::super) const TASK: f32 = 1.0;
    pub(in super::super) const PERSONA: f32 = 0.2;
    /// Likeness to the task, and serving what the agent looks for, or what the task asks for.
    pub(in super::super) const LIKENESS: f32 = 1.5;
    pub(in super::super) const FIRST_FOCUS: f32 = 1.2;
    pub(in super::super) const OTHER_FOCUS: f32 = 0.3;
    /// A statement that changes an earlier one.
    pub(in super::super) const CHANGE: f32 = 1.3;
    /// What every unit has, so that worth alone decides where nothing is asked for.
    pub(in super::super) const BASE: f32 = 0.1;
    /// How little a unit's general worth matters.
    pub(in super::super) const WORTH_BASE: f32 = 0.3;
    /// A unit that serves no focus needs so much likeness to be quoted at all.
    pub(in super::super) const UNSOUGHT_LEAST: f32 = 0.75;
    /// Quotes worth less than this share of the best one are left out.
    pub(in super::super) const OF_THE_BEST: f32 = 0.18;
    /// A question or an offer where no question is looked for.
    pub(in super::super) const ASIDE: f32 = 0.15;
    /// A decision, as the assistant words it: often a proposal.
    pub(in super::super) const PROPOSED: f32 = 0.6;
    /// A question that is old was most likely answered, an open point perhaps.
    pub(in super::super) const OLD_OPEN_POINT: f32 = 0.7;
    pub(in super::super) const OLD_QUESTION: f32 = 0.4;
    /// An action: that it is one, that somebody has it, that it is due.
    pub(in super::super) const ACTION: f32 = 0.4;
    pub(in super::super) const OWNER: f32 = 0.3;
    pub(in super::super) const DUE: f32 = 0.3;
    /// So many names and values make a full fact.
    pub(in super::super) const FULL_FACT: f32 = 4.0;
}
