//! The sections of a rolling summary, and the section of each unit.

use unisono_context::Role;

use super::cues::Cues;
use super::passage::PassageKind;
use super::pool::Unit;
use super::split::Block;

/// The sections, in order.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) enum Section {
    Context,
    KeyPoints,
    Technical,
    Decisions,
    Work,
    Pending,
    Constraints,
    Questions,
}

/// The heading of each section, in order, and the weight of a unit's vote if several share a line.
const TITLES: [(Section, &str, usize); 8] = [
    (Section::Context, "Context", 4),
    (Section::KeyPoints, "Key points", 1),
    (Section::Technical, "Technical details", 2),
    (Section::Decisions, "Decisions and outcomes", 3),
    (Section::Work, "Work done (with evidence)", 2),
    (Section::Pending, "Pending work and next step", 2),
    (Section::Constraints, "Constraints (verbatim)", 3),
    (Section::Questions, "Unresolved questions", 3),
];

impl Section {
    pub(super) fn title(self) -> &'static str {
        TITLES[self as usize].1
    }

    pub(super) fn weight(self) -> usize {
        TITLES[self as usize].2
    }

    /// The section with this heading, possibly written by a model.
    pub(super) fn from_title(title: &str) -> Option<Section> {
        let title = title.trim().trim_end_matches(':').to_lowercase();
        let mut all = TITLES.into_iter();
        let found = all.find(|(_, known, _)| known.to_lowercase() == title);
        found.map(|(section, ..)| section)
    }

    /// The section of a unit. A question before the last quarter of the conversation was most
    /// likely answered, so it is not an open one.
    pub(super) fn classify(unit: &Unit<'_>, sources: usize) -> Section {
        if let Some(section) = unit.section.filter(|one| *one != Section::KeyPoints) {
            return section;
        }
        let cues = unit.cues;
        let has = |cue: Cues| cues.intersects(cue);
        // A request in the form of a question is not an open question.
        let asks = has(Cues::QUESTION) && !has(Cues::GOAL.with(Cues::OFFER));
        let is_settled = has(Cues::DECISION.with(Cues::DONE));
        let is_due = has(Cues::PENDING) && has(Cues::DATE.with(Cues::PROMISE)) && !is_settled;
        let is_open = has(Cues::OPEN) && !is_due || asks && is_recent(unit, sources);
        let is_data = matches!(unit.block, Block::Code | Block::Row);
        let is_demanded = has(Cues::CONSTRAINT) && matches!(unit.role, Role::User | Role::System);
        match unit.kind {
            _ if is_open => Section::Questions,
            PassageKind::ToolResult if has(Cues::DONE) => Section::Work,
            PassageKind::ToolCall | PassageKind::ToolResult | PassageKind::Attachment => {
                Section::Technical
            }
            PassageKind::Text if unit.source == 0 => Section::Context,
            PassageKind::Text if is_due => Section::Pending,
            PassageKind::Text if has(Cues::DECISION) => Section::Decisions,
            PassageKind::Text if is_demanded => Section::Constraints,
            PassageKind::Text if has(Cues::DONE) => Section::Work,
            PassageKind::Text if has(Cues::PENDING) => Section::Pending,
            PassageKind::Text if is_data => Section::Technical,
            PassageKind::Text => Section::KeyPoints,
        }
    }
}

/// The headings of a rolling summary's sections, in order.
pub fn section_titles() -> [&'static str; 8] {
    TITLES.map(|(_, title, _)| title)
}

/// Whether it is in the last quarter of the conversation.
pub(super) fn is_recent(unit: &Unit<'_>, sources: usize) -> bool {
    unit.source + sources / 4 >= sources
}
