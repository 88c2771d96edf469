//! Every weight of the extractive model, in one table.
//!
//! The summary's were fitted on the talks of `examples/retained`, half `tune`, and on the three
//! shipped conversations (`examples/probes`). The half `report` was looked at to compare variants.
//! The answer's were set by reading answers. A weight without a unit multiplies; 1 changes nothing.

use super::select::Preference;

/// How the units of a summary are chosen.
pub(super) const SUMMARY: Preference = Preference {
    decay: 0.2,
    sibling: 1.0,
    line: 6.0,
    power: 1.05,
    per_source: 12,
    per_tool: 6,
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
pub(super) const NUMBER: f32 = 1.5;
pub(super) const IDENTIFIER: f32 = 1.8;
/// A term's worth is `rarity^RARE × frequency^OFTEN`: what a conversation is about comes back.
pub(super) const RARE: f32 = 0.25;
pub(super) const OFTEN: f32 = 0.8;
/// A term that the reader asked to have kept.
pub(super) const WANTED: f32 = 2.0;

/// What was said in another form than prose. Of tools the requests that name a record tell most:
/// what was done, to which order, with which amount.
pub(super) const TOOL_RESULT: f32 = 0.45;
pub(super) const TOOL_CALL: f32 = 0.15;
pub(super) const RECORD_CALL: f32 = 5.0;
pub(super) const ATTACHMENT: f32 = 0.5;
pub(super) const CODE_OR_TABLE: f32 = 0.6;
/// `I`, `we`; `you` without them; something happened; it is said when.
pub(super) const FIRST_PERSON: f32 = 1.1;
pub(super) const SECOND_PERSON: f32 = 0.5;
pub(super) const PAST: f32 = 1.1;
pub(super) const TIME: f32 = 1.1;
/// Thanks, praise, apologies.
pub(super) const FILLER: f32 = 0.6;
pub(super) const QUESTION: f32 = 0.45;
/// `Feel free to ask.`
pub(super) const OFFER: f32 = 0.3;
/// `Here is what I found:` announces what the next unit says.
pub(super) const LEAD_IN: f32 = 0.35;
/// So many terms make a full statement; with fewer, this power of the share counts.
pub(super) const FULL_TERMS: f32 = 2.5;
pub(super) const THIN: f32 = 1.5;
/// The mean length of all messages, divided by that of a speaker's.
pub(super) const BREVITY_LEAST: f32 = 0.7;
pub(super) const BREVITY_MOST: f32 = 1.35;
/// What each cue of a decision, a constraint or a change adds, as a share.
pub(super) const STRONG_CUE: f32 = 0.05;
/// A fact joins something named with a value or a date.
pub(super) const NAME_AND_VALUE: f32 = 1.1;
/// A line of the summary so far: it was chosen before.
pub(super) const PRIOR: f32 = 1.3;

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

/// What makes a unit answer a question, see `question`.
pub(super) mod question {
    /// A word that asks for a focus, beside one that names what is asked about.
    pub(in super::super) const ASKING: f32 = 0.3;
    /// How much of its neighbours' relevance a message has.
    pub(in super::super) const BESIDE: f32 = 0.3;
    /// The part of the relevance that the unit decides; its message decides the rest.
    pub(in super::super) const OWN: f32 = 0.7;
    /// A unit that asks itself.
    pub(in super::super) const ASKS: f32 = 0.3;
    /// What answers less well than this share of the best is left out.
    pub(in super::super) const OF_THE_BEST: f32 = 0.15;
    /// The most tokens of what answers first; the rest of the cap is for what the agent looks for.
    pub(in super::super) const TOKENS: u64 = 350;
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
