//! The event itself: when, and what was decided.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use unisono_context::Timestamp;
use unisono_session::event;

use super::Invalid;
use super::agent::{Definition, Stage};
use super::budget::{Amount, Reservation, TurnCaps};
use super::checkpoint::Checkpoint;
use super::compaction::Plan;
use super::ending::{Ending, Late};
use super::message::NewMessage;
use super::run::{DelegatedCall, OpenedRun, Step, Usage};
use super::snapshot::{Alteration, Manifest};
use super::text_map::TextMap;
use super::tokens::{Count, Encoding};
use super::tool::{CallPlace, Decision, Output, PlannedCall, Rules};
use super::topic::{DecidedTopics, TopicEnd};
use super::turn::{AcceptedTurn, Calibration, Outcome, Work};

mod read;
mod write;

/// One entry of the journal.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Event {
    pub(super) at: i64,
    pub(super) fact: Fact,
}

/// What was decided. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(super) enum Fact {
    Created {
        session: u128,
        title: Arc<str>,
        system: Arc<str>,
        labels: TextMap,
    },
    Appended {
        branch: Option<Arc<str>>,
        parent: Option<u128>,
        message: NewMessage,
    },
    BranchSet {
        branch: Arc<str>,
        head: u128,
    },
    Counted {
        encoding: Encoding,
        counts: Vec<(u128, Count)>,
    },
    PreambleCounted {
        preamble: [u8; 32],
        encoding: Encoding,
        count: Count,
    },
    Defined {
        definition: Box<Definition>,
    },
    TurnAccepted {
        turn: Box<AcceptedTurn>,
    },
    TurnStarted {
        turn: u128,
    },
    CompactionPlanned {
        turn: u128,
        plan: Plan,
    },
    Altered {
        turn: u128,
        alterations: Vec<Alteration>,
    },
    Compacted {
        turn: Option<u128>,
        checkpoint: Box<Checkpoint>,
    },
    CompactionFailed {
        turn: u128,
        reason: Arc<str>,
    },
    Frozen {
        turn: u128,
        snapshot: [u8; 32],
        manifest: Manifest,
    },
    RunOpened {
        run: OpenedRun,
    },
    RunStepped {
        run: u128,
        step: Step,
    },
    RunRetried {
        run: u128,
        attempt: u32,
        not_before: i64,
        reason: Arc<str>,
    },
    RunEnded {
        run: u128,
        ending: Ending,
    },
    TurnEnded {
        turn: u128,
        outcome: Outcome,
    },
    Delegated {
        run: u128,
        round: u32,
        calls: Vec<DelegatedCall>,
    },
    // Since version 3.
    AlteredByImport {
        alterations: Vec<Alteration>,
    },
    CameLate {
        run: u128,
        attempt: u32,
        late: Late,
    },
    SummariserUsed {
        turn: u128,
        model: Arc<str>,
        usage: Usage,
    },
    Pinned {
        messages: Vec<u128>,
    },
    Unpinned {
        messages: Vec<u128>,
    },
    Restored {
        turn: Option<u128>,
        checkpoint: u128,
        before_tokens: u64,
    },
    PhrasesSet {
        phrases: Vec<Arc<str>>,
    },
    TopicsDecided {
        turn: u128,
        through: u128,
        ends: Vec<TopicEnd>,
    },
    TopicSealed {
        branch: Arc<str>,
        last: u128,
    },
    TurnKeyed {
        turn: u128,
        name: Arc<str>,
        request: [u8; 32],
    },
    ToolRulesSet {
        rules: Rules,
    },
    ToolsCalled {
        run: u128,
        round: u32,
        calls: Vec<PlannedCall>,
    },
    ToolStarted {
        call: CallPlace,
    },
    ToolEnded {
        call: CallPlace,
        output: Output,
    },
    ToolInDoubt {
        call: CallPlace,
    },
    ToolDecided {
        call: CallPlace,
        decision: Decision,
    },
    TopicsImported {
        decided: Vec<DecidedTopics>,
        sealed: Vec<u128>,
    },
    Measured {
        turn: u128,
        calibration: Calibration,
    },
    Capped {
        turn: u128,
        caps: Box<TurnCaps>,
    },
    Reserved {
        run: u128,
        reservation: Reservation,
    },
    CallSettled {
        run: u128,
        call: u32,
        used: Amount,
        told: bool,
    },
    // With a limit of the turn's time.
    CappedWithin {
        turn: u128,
        caps: Box<TurnCaps>,
        limit_ms: u64,
    },
    // With a pipeline.
    DefinedWith {
        definition: Box<Definition>,
        pipeline: Vec<Stage>,
    },
    SettingsSet {
        settings: TextMap,
    },
    Posted {
        branch: Arc<str>,
        message: NewMessage,
        // Name and digest of the request.
        key: Option<(Arc<str>, [u8; 32])>,
    },
    CallCapSet {
        calls: u32,
    },
    // With a share of its own for results of delegates.
    TurnAcceptedSharing {
        turn: Box<AcceptedTurn>,
        results_ppm: u32,
    },
    ImportNoted {
        opened: Vec<(u128, i64)>,
        sealed: Vec<(u128, i64)>,
        tightened: Vec<u128>,
    },
}

impl Fact {
    /// The version that knew it first, of those that differ in nothing else from this one.
    pub(super) fn since(&self) -> u16 {
        match self {
            Self::TurnKeyed { .. } => 3,
            Self::TopicsImported { .. } | Self::Measured { .. } => 3,
            Self::RunStepped { step, .. } => step.since(),
            Self::PhrasesSet { .. } | Self::TopicsDecided { .. } | Self::TopicSealed { .. } => 3,
            Self::ToolRulesSet { .. } | Self::ToolsCalled { .. } | Self::ToolStarted { .. } => 3,
            Self::ToolEnded { .. } | Self::ToolInDoubt { .. } | Self::ToolDecided { .. } => 3,
            Self::AlteredByImport { .. } | Self::CameLate { .. } | Self::SummariserUsed { .. } => 3,
            Self::CompactionPlanned { plan, .. } => plan.since(),
            Self::Capped { .. } | Self::Reserved { .. } | Self::CallSettled { .. } => 3,
            Self::CappedWithin { .. } | Self::DefinedWith { .. } | Self::SettingsSet { .. } => 3,
            Self::Posted { .. } | Self::CallCapSet { .. } => 3,
            Self::Pinned { .. } | Self::Unpinned { .. } | Self::Restored { .. } => 3,
            Self::TurnAcceptedSharing { .. } | Self::ImportNoted { .. } => 3,
            Self::TurnAccepted { turn } => match turn.work {
                Work::Restore { .. } | Work::Regenerate { .. } | Work::Edit { .. } => 3,
                Work::CompactBy { .. }
                | Work::RegenerateBy { .. }
                | Work::AnswerWith { .. }
                | Work::AnswerUntil { .. }
                | Work::CompactPart { .. } => 3,
                Work::Answer { .. } | Work::Compact { .. } => 2,
            },
            Self::RunEnded {
                ending: Ending::HandedOver { .. },
                ..
            } => 3,
            Self::TurnEnded {
                outcome: Outcome::Restored { .. },
                ..
            } => 3,
            Self::Defined { definition } => definition.kind.since(),
            _ => 2,
        }
    }
}

impl TryFrom<&event::Event> for Event {
    type Error = Invalid;

    fn try_from(event: &event::Event) -> Result<Self, Invalid> {
        Ok(Self {
            at: event.at.0,
            fact: (&event.fact).try_into()?,
        })
    }
}

impl TryFrom<Event> for event::Event {
    type Error = Invalid;

    fn try_from(event: Event) -> Result<Self, Invalid> {
        Ok(Self {
            at: Timestamp(event.at),
            fact: event.fact.try_into()?,
        })
    }
}
