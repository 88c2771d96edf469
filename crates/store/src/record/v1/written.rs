//! What version 1 wrote: for tests, which read it.

use unisono_session::event;

use super::fact::Fact;
use super::{Event, agent, run, turn};
use crate::codec;
use crate::record::agent as agent2;
use crate::record::ending as ending2;
use crate::record::fact as v2;
use crate::record::run as run2;
use crate::record::turn as turn2;

/// The payload of an event as version 1 wrote it, without what it did not know.
pub(in crate::record) fn encode(event: &event::Event) -> Vec<u8> {
    let v2::Event { at, fact } = event.try_into().unwrap();
    let record = Event {
        at,
        fact: fact.into(),
    };
    [vec![0, 1], codec::encode(&record).unwrap()].concat()
}

impl From<v2::Fact> for Fact {
    fn from(fact: v2::Fact) -> Self {
        match fact {
            v2::Fact::Created {
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
            v2::Fact::Appended {
                branch,
                parent,
                message,
            } => Self::Appended {
                branch,
                parent,
                message,
            },
            v2::Fact::BranchSet { branch, head } => Self::BranchSet { branch, head },
            v2::Fact::Counted { encoding, counts } => Self::Counted { encoding, counts },
            v2::Fact::PreambleCounted {
                preamble,
                encoding,
                count,
            } => Self::PreambleCounted {
                preamble,
                encoding,
                count,
            },
            v2::Fact::Defined { definition } => Self::Defined {
                definition: Box::new((*definition).into()),
            },
            v2::Fact::TurnAccepted { turn } => Self::TurnAccepted {
                turn: Box::new((*turn).into()),
            },
            v2::Fact::TurnStarted { turn } => Self::TurnStarted { turn },
            v2::Fact::CompactionPlanned { turn, plan } => Self::CompactionPlanned { turn, plan },
            v2::Fact::Altered { turn, alterations } => Self::Altered { turn, alterations },
            v2::Fact::Compacted { turn, checkpoint } => Self::Compacted { turn, checkpoint },
            v2::Fact::CompactionFailed { turn, reason } => Self::CompactionFailed { turn, reason },
            v2::Fact::Frozen {
                turn,
                snapshot,
                manifest,
            } => Self::Frozen {
                turn,
                snapshot,
                manifest,
            },
            v2::Fact::RunOpened { run } => Self::RunOpened { run: run.into() },
            v2::Fact::RunStepped { run, step } => Self::RunStepped {
                run,
                step: step.into(),
            },
            v2::Fact::RunRetried {
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
            v2::Fact::RunEnded { run, ending } => Self::RunEnded {
                run,
                ending: ending.into(),
            },
            v2::Fact::TurnEnded { turn, outcome } => Self::TurnEnded { turn, outcome },
            v2::Fact::Delegated { .. }
            | v2::Fact::AlteredByImport { .. }
            | v2::Fact::PhrasesSet { .. }
            | v2::Fact::TopicsDecided { .. }
            | v2::Fact::TopicSealed { .. }
            | v2::Fact::TopicsImported { .. }
            | v2::Fact::Measured { .. }
            | v2::Fact::TurnKeyed { .. }
            | v2::Fact::Capped { .. }
            | v2::Fact::CappedWithin { .. }
            | v2::Fact::DefinedWith { .. }
            | v2::Fact::SettingsSet { .. }
            | v2::Fact::Posted { .. }
            | v2::Fact::CallCapSet { .. }
            | v2::Fact::ImportNoted { .. }
            | v2::Fact::TurnAcceptedSharing { .. }
            | v2::Fact::Reserved { .. }
            | v2::Fact::CallSettled { .. }
            | v2::Fact::Pinned { .. }
            | v2::Fact::Unpinned { .. }
            | v2::Fact::Restored { .. }
            | v2::Fact::CameLate { .. }
            | v2::Fact::ToolRulesSet { .. }
            | v2::Fact::ToolsCalled { .. }
            | v2::Fact::ToolStarted { .. }
            | v2::Fact::ToolEnded { .. }
            | v2::Fact::ToolInDoubt { .. }
            | v2::Fact::ToolDecided { .. }
            | v2::Fact::SummariserUsed { .. } => panic!("version 1 knew no such fact"),
        }
    }
}

impl From<agent2::Definition> for agent::Definition {
    fn from(d: agent2::Definition) -> Self {
        Self {
            id: d.id,
            description: d.description,
            instructions: d.instructions,
            kind: d.kind,
            model: d.model,
            limits: d.limits,
            tools: d.tools,
            max_turns: d.max_turns,
            timeout_ms: d.timeout_ms,
            retries: d.retries,
            max_concurrent: d.max_concurrent,
            context: d.context,
            prefix: d.prefix,
            on_failure: d.on_failure,
            delegates: d.delegates,
            tags: d.tags,
        }
    }
}

impl From<turn2::AcceptedTurn> for turn::AcceptedTurn {
    fn from(turn: turn2::AcceptedTurn) -> Self {
        Self {
            id: turn.id,
            branch: turn.branch,
            work: turn.work,
            policy: turn.policy,
            safety_ppm: turn.safety_ppm,
            lead: turn.lead,
            delegates: turn.delegates,
            tools: turn.tools,
        }
    }
}

impl From<run2::OpenedRun> for run::OpenedRun {
    fn from(run: run2::OpenedRun) -> Self {
        Self {
            id: run.id,
            turn: run.turn,
            role: match run.role {
                run2::RunRole::Delegate { index } => run::RunRole::Delegate { index },
                run2::RunRole::Lead | run2::RunRole::Child { .. } => run::RunRole::Lead,
            },
            agent: run.agent,
            definition: run.definition,
            snapshot: run.snapshot,
            prefix: run.prefix,
        }
    }
}

impl From<run2::Step> for run::Step {
    fn from(step: run2::Step) -> Self {
        match step {
            run2::Step::Model(reply) => Self::Model(run::Reply {
                text: reply.text,
                calls: reply.calls,
                usage: reply.usage.into(),
            }),
            run2::Step::Tools(results) => Self::Tools(results),
            run2::Step::Named { name, result } => Self::Named { name, result },
            run2::Step::Narrowed { .. }
            | run2::Step::Spent(_)
            | run2::Step::SpentInstead { .. }
            | run2::Step::NarrowedReply { .. }
            | run2::Step::StoodIn(..) => {
                panic!("version 1 knew no such step")
            }
        }
    }
}

impl From<run2::Usage> for run::Usage {
    fn from(usage: run2::Usage) -> Self {
        Self {
            input: usage.input,
            output: usage.output,
        }
    }
}

impl From<ending2::Ending> for run::Ending {
    fn from(ending: ending2::Ending) -> Self {
        match ending {
            ending2::Ending::Finished {
                text,
                partial,
                usage,
                duration_ms,
            } => Self::Finished {
                text,
                partial,
                usage: usage.into(),
                duration_ms,
            },
            ending2::Ending::Failed {
                cause,
                reason,
                duration_ms,
            } => Self::Failed {
                cause: cause.into(),
                reason,
                duration_ms,
            },
            ending2::Ending::HandedOver { .. } => panic!("version 1 knew no such ending"),
            ending2::Ending::Cancelled => Self::Cancelled,
        }
    }
}

impl From<run2::Cause> for run::Cause {
    fn from(cause: run2::Cause) -> Self {
        match cause {
            run2::Cause::Panic => Self::Panic,
            run2::Cause::Timeout => Self::Timeout,
            run2::Cause::Spawn => Self::Spawn,
            run2::Cause::Exit => Self::Exit,
            run2::Cause::BadOutput => Self::BadOutput,
            run2::Cause::Busy => Self::Busy,
            run2::Cause::BadInput => Self::BadInput,
            run2::Cause::SnapshotMismatch => Self::SnapshotMismatch,
            run2::Cause::Model
            | run2::Cause::Unavailable
            | run2::Cause::Rejected
            | run2::Cause::Overflow
            | run2::Cause::Refused
            | run2::Cause::Budget
            | run2::Cause::Stuck => Self::Model,
        }
    }
}
