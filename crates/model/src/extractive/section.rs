//! The sections of a rolling summary, and which unit belongs in which.

use unisono_context::Role;

use super::cues::Cues;
use super::passage::Kind;
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

    /// The heading.
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

    /// What a unit's vote counts where several share a line.
    pub(super) const fn weight(self) -> usize {
        match self {
            Section::KeyPoints => 1,
            Section::Technical | Section::Work | Section::Pending => 2,
            Section::Decisions | Section::Constraints | Section::Questions => 3,
            Section::Context => 4,
        }
    }

    /// The section of that heading, as a model may have written it.
    pub(super) fn from_title(title: &str) -> Option<Section> {
        let title = title.trim().trim_end_matches(':').to_lowercase();
        Section::ALL
            .into_iter()
            .find(|section| section.title().to_lowercase() == title)
    }

    /// Where a unit belongs. A question asked before the last quarter of the conversation has
    /// most likely been answered and is no open one.
    pub(super) fn of(unit: &Unit<'_>, sources: usize) -> Section {
        if let Some(section) = unit
            .section
            .filter(|section| *section != Section::KeyPoints)
        {
            return section;
        }
        let cues = unit.cues;
        let recent = is_recent(unit, sources);
        // A request in the form of a question is not an open one.
        let asks = cues.any(Cues::QUESTION) && !cues.any(Cues::GOAL.with(Cues::OFFER));
        let said = unit.kind == Kind::Text;
        let settled = cues.any(Cues::DECISION.with(Cues::DONE));
        let due = cues.any(Cues::PENDING) && cues.any(Cues::DATE.with(Cues::PROMISE)) && !settled;
        if (cues.any(Cues::OPEN) && !due) || (recent && asks) {
            Section::Questions
        } else if unit.source == 0 && said {
            Section::Context
        } else if !said {
            let done = unit.kind == Kind::ToolResult && cues.any(Cues::DONE);
            if done {
                Section::Work
            } else {
                Section::Technical
            }
        } else if due {
            Section::Pending
        } else if cues.any(Cues::CONSTRAINT) && !cues.any(Cues::DECISION) && by_user(unit) {
            Section::Constraints
        } else if cues.any(Cues::DECISION) {
            Section::Decisions
        } else if cues.any(Cues::DONE) {
            Section::Work
        } else if cues.any(Cues::PENDING) {
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
