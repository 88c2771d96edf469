//! What was decided.

use std::sync::Arc;

use serde::{Deserialize, Serialize};

use super::agent::Definition;
use super::run::{Ending, OpenedRun, Step};
use super::turn::AcceptedTurn;
use crate::record::checkpoint::Checkpoint;
use crate::record::compaction::Plan;
use crate::record::fact as v2;
use crate::record::message::NewMessage;
use crate::record::snapshot::{Alteration, Manifest};
use crate::record::text_map::TextMap;
use crate::record::tokens::{Count, Encoding};
use crate::record::turn::Outcome;

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
}

impl From<Fact> for v2::Fact {
    fn from(fact: Fact) -> Self {
        match fact {
            Fact::Created {
                session,
                title,
                system,
                labels,
            } => Self::Created {
                session,
                title,
                system,
                labels,
            },
            Fact::Appended {
                branch,
                parent,
                message,
            } => Self::Appended {
                branch,
                parent,
                message,
            },
            Fact::BranchSet { branch, head } => Self::BranchSet { branch, head },
            Fact::Counted { encoding, counts } => Self::Counted { encoding, counts },
            Fact::PreambleCounted {
                preamble,
                encoding,
                count,
            } => Self::PreambleCounted {
                preamble,
                encoding,
                count,
            },
            Fact::Defined { definition } => Self::Defined {
                definition: Box::new((*definition).into()),
            },
            Fact::TurnAccepted { turn } => Self::TurnAccepted {
                turn: Box::new((*turn).into()),
            },
            Fact::TurnStarted { turn } => Self::TurnStarted { turn },
            Fact::CompactionPlanned { turn, plan } => Self::CompactionPlanned { turn, plan },
            Fact::Altered { turn, alterations } => Self::Altered { turn, alterations },
            Fact::Compacted { turn, checkpoint } => Self::Compacted { turn, checkpoint },
            Fact::CompactionFailed { turn, reason } => Self::CompactionFailed { turn, reason },
            Fact::Frozen {
                turn,
                snapshot,
                manifest,
            } => Self::Frozen {
                turn,
                snapshot,
                manifest,
            },
            Fact::RunOpened { run } => Self::RunOpened { run: run.into() },
            Fact::RunStepped { run, step } => Self::RunStepped {
                run,
                step: step.into(),
            },
            Fact::RunRetried {
                run,
                attempt,
                not_before,
                reason,
            } => Self::RunRetried {
                run,
                attempt,
                not_before,
                reason,
            },
            Fact::RunEnded { run, ending } => Self::RunEnded {
                run,
                ending: ending.into(),
            },
            Fact::TurnEnded { turn, outcome } => Self::TurnEnded { turn, outcome },
        }
    }
}
