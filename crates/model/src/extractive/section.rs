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

impl Section {
    pub(super) const ALL: [Section; 8] = [
        Section::Context,
        Section::KeyPoints,
        Section::Technical,
        Section::Decisions,
        Section::Work,
        Section::Pending,
        Section::Constraints,
        Section::Questions,
    ];

    pub(super) const fn title(self) -> &'static str {
        match self {
            Section::Context => "Context",
            Section::KeyPoints => "Key points",
            Section::Technical => "Technical details",
            Section::Decisions => "Decisions and outcomes",
            Section::Work => "Work done (with evidence)",
            Section::Pending => "Pending work and next step",
            Section::Constraints => "Constraints (verbatim)",
            Section::Questions => "Unresolved questions",
        }
    }

    /// The weight of a unit's vote if several share a line.
    pub(super) const fn weight(self) -> usize {
        match self {
            Section::KeyPoints => 1,
            Section::Technical | Section::Work | Section::Pending => 2,
            Section::Decisions | Section::Constraints | Section::Questions => 3,
            Section::Context => 4,
        }
    }

    /// The section with this heading, possibly written by a model.
    pub(super) fn from_title(title: &str) -> Option<Section> {
        let title = title.trim().trim_end_matches(':').to_lowercase();
        Section::ALL
            .into_iter()
            .find(|section| section.title().to_lowercase() == title)
    }

    /// The section of a unit. A question before the last quarter of the conversation was most
    /// likely answered, so it is not an open one.
    pub(super) fn classify(unit: &Unit<'_>, sources: usize) -> Section {
        if let Some(section) = unit
            .section
            .filter(|section| *section != Section::KeyPoints)
        {
            return section;
        }
        let cues = unit.cues;
        let recent = is_recent(unit, sources);
        // A request in the form of a question is not an open question.
        let asks =
            cues.intersects(Cues::QUESTION) && !cues.intersects(Cues::GOAL.with(Cues::OFFER));
        let is_text = unit.kind == PassageKind::Text;
        let settled = cues.intersects(Cues::DECISION.with(Cues::DONE));
        let due = cues.intersects(Cues::PENDING)
            && cues.intersects(Cues::DATE.with(Cues::PROMISE))
            && !settled;
        if (cues.intersects(Cues::OPEN) && !due) || (recent && asks) {
            Section::Questions
        } else if unit.source == 0 && is_text {
            Section::Context
        } else if !is_text {
            let done = unit.kind == PassageKind::ToolResult && cues.intersects(Cues::DONE);
            if done {
                Section::Work
            } else {
                Section::Technical
            }
        } else if due {
            Section::Pending
        } else if cues.intersects(Cues::CONSTRAINT)
            && !cues.intersects(Cues::DECISION)
            && by_user(unit)
        {
            Section::Constraints
        } else if cues.intersects(Cues::DECISION) {
            Section::Decisions
        } else if cues.intersects(Cues::DONE) {
            Section::Work
        } else if cues.intersects(Cues::PENDING) {
            Section::Pending
        } else if matches!(unit.block, Block::Code | Block::Row) {
            Section::Technical
        } else {
            Section::KeyPoints
        }
    }
}

/// Whether it is in the last quarter of the conversation.
pub(super) fn is_recent(unit: &Unit<'_>, sources: usize) -> bool {
    unit.source + sources / 4 >= sources
}

fn by_user(unit: &Unit<'_>) -> bool {
    matches!(unit.role, Role::User | Role::System)
}
