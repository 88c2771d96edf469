//! What was decided, as it was written.

use std::sync::Arc;

use unisono_context::{
    CheckpointId, Digest, MessageId, Ppm, RunId, SessionId, SnapshotId, Timestamp, Tokens, TurnId,
    alteration,
};
use unisono_session::agent::Definition;
use unisono_session::budget;
use unisono_session::event::{self, RequestKey};

use super::Fact;
use crate::record::Invalid;
use crate::record::snapshot::Alteration;

impl TryFrom<Fact> for event::Fact {
    type Error = Invalid;

    fn try_from(fact: Fact) -> Result<Self, Invalid> {
        Ok(match fact {
            Fact::Created {
                session,
                title,
                system,
                labels,
            } => Self::Created {
                session: SessionId::from_u128(session),
                title,
                system,
                labels: labels.try_into()?,
            },
            Fact::Appended {
                branch,
                parent,
                message,
            } => Self::Appended {
                branch,
                parent: parent.map(MessageId::from_u128),
                message: message.into(),
            },
            Fact::BranchSet { branch, head } => Self::BranchSet {
                branch,
                head: MessageId::from_u128(head),
            },
            Fact::Counted { encoding, counts } => Self::Counted {
                encoding: encoding.into(),
                counts: counts
                    .into_iter()
                    .map(|(id, count)| (MessageId::from_u128(id), count.into()))
                    .collect(),
            },
            Fact::PreambleCounted {
                preamble,
                encoding,
                count,
            } => Self::PreambleCounted {
                preamble: Digest(preamble),
                encoding: encoding.into(),
                count: count.into(),
            },
            Fact::Defined { definition } => Self::Defined {
                definition: Arc::new((*definition).try_into()?),
            },
            Fact::DefinedWith { pipeline, .. } if pipeline.is_empty() => {
                return Err(Invalid::Stageless);
            }
            Fact::DefinedWith {
                definition,
                pipeline,
            } => Self::Defined {
                definition: Arc::new(Definition {
                    pipeline: pipeline.into_iter().map(Into::into).collect(),
                    ..(*definition).try_into()?
                }),
            },
            Fact::TurnAccepted { turn } => Self::TurnAccepted {
                turn: Box::new((*turn).try_into()?),
            },
            Fact::TurnAcceptedSharing { turn, results_ppm } => Self::TurnAccepted {
                turn: Box::new(turn.sharing(Ppm(results_ppm))?),
            },
            Fact::TurnStarted { turn } => Self::TurnStarted {
                turn: TurnId::from_u128(turn),
            },
            Fact::CompactionPlanned { turn, plan } => Self::CompactionPlanned {
                turn: TurnId::from_u128(turn),
                plan: plan.try_into()?,
            },
            Fact::Altered { turn, alterations } => Self::Altered {
                turn: Some(TurnId::from_u128(turn)),
                alterations: altered(alterations)?,
            },
            Fact::AlteredByImport { alterations } => Self::Altered {
                turn: None,
                alterations: altered(alterations)?,
            },
            Fact::CameLate { run, attempt, late } => Self::CameLate {
                run: RunId::from_u128(run),
                attempt,
                late: late.try_into()?,
            },
            Fact::Compacted { turn, checkpoint } => Self::Compacted {
                turn: turn.map(TurnId::from_u128),
                checkpoint: Arc::new((*checkpoint).try_into()?),
            },
            Fact::CompactionFailed { turn, reason } => Self::CompactionFailed {
                turn: TurnId::from_u128(turn),
                reason,
            },
            Fact::Frozen {
                turn,
                snapshot,
                manifest,
            } => Self::Frozen {
                turn: TurnId::from_u128(turn),
                snapshot: SnapshotId(Digest(snapshot)),
                manifest: manifest.try_into()?,
            },
            Fact::RunOpened { run } => Self::RunOpened { run: run.into() },
            Fact::RunStepped { run, step } => Self::RunStepped {
                run: RunId::from_u128(run),
                step: Arc::new(step.try_into()?),
            },
            Fact::RunRetried {
                run,
                attempt,
                not_before,
                reason,
            } => Self::RunRetried {
                run: RunId::from_u128(run),
                attempt,
                not_before: Timestamp(not_before),
                reason,
            },
            Fact::RunEnded { run, ending } => Self::RunEnded {
                run: RunId::from_u128(run),
                ending: Arc::new(ending.try_into()?),
            },
            Fact::Delegated { run, round, calls } => Self::Delegated {
                run: RunId::from_u128(run),
                round,
                calls: calls.into_iter().map(Into::into).collect(),
            },
            Fact::PhrasesSet { phrases } => Self::PhrasesSet { phrases },
            Fact::TopicsDecided {
                turn,
                through,
                ends,
            } => Self::TopicsDecided {
                turn: TurnId::from_u128(turn),
                through: MessageId::from_u128(through),
                ends: ends.into_iter().map(Into::into).collect(),
            },
            Fact::TopicSealed { branch, last } => Self::TopicSealed {
                branch,
                last: MessageId::from_u128(last),
            },
            Fact::TurnKeyed {
                turn,
                name,
                request,
            } => Self::TurnKeyed {
                turn: TurnId::from_u128(turn),
                key: RequestKey {
                    name,
                    request: Digest(request),
                },
            },
            Fact::ToolRulesSet { rules } => Self::ToolRulesSet {
                rules: Arc::new(rules.into()),
            },
            Fact::ToolsCalled { run, round, calls } => Self::ToolsCalled {
                run: RunId::from_u128(run),
                round,
                calls: calls.into_iter().map(Into::into).collect(),
            },
            Fact::ToolStarted { call } => Self::ToolStarted { call: call.into() },
            Fact::ToolEnded { call, output } => Self::ToolEnded {
                call: call.into(),
                output: output.into(),
            },
            Fact::ToolInDoubt { call } => Self::ToolInDoubt { call: call.into() },
            Fact::ToolDecided { call, decision } => Self::ToolDecided {
                call: call.into(),
                decision: decision.into(),
            },
            Fact::Measured { turn, calibration } => Self::Measured {
                turn: TurnId::from_u128(turn),
                calibration: calibration.into(),
            },
            Fact::TopicsImported { decided, sealed } => Self::TopicsImported {
                decided: decided.into_iter().map(Into::into).collect(),
                sealed: message_ids(sealed),
            },
            Fact::Capped { turn, caps } => Self::Capped {
                turn: TurnId::from_u128(turn),
                caps: Box::new((*caps).into()),
            },
            Fact::CappedWithin {
                turn,
                caps,
                limit_ms,
            } => Self::Capped {
                turn: TurnId::from_u128(turn),
                caps: Box::new(budget::TurnCaps {
                    limit_ms: Some(limit_ms),
                    ..(*caps).into()
                }),
            },
            Fact::Reserved { run, reservation } => Self::Reserved {
                run: RunId::from_u128(run),
                reservation: reservation.into(),
            },
            Fact::SettingsSet { settings } => Self::SettingsSet {
                settings: settings.try_into()?,
            },
            Fact::CallSettled {
                run,
                call,
                used,
                told,
            } => Self::CallSettled {
                run: RunId::from_u128(run),
                call,
                used: used.into(),
                told,
            },
            Fact::TurnEnded { turn, outcome } => Self::TurnEnded {
                turn: TurnId::from_u128(turn),
                outcome: outcome.into(),
            },
            Fact::SummariserUsed { turn, model, usage } => Self::SummariserUsed {
                turn: TurnId::from_u128(turn),
                model,
                usage: usage.into(),
            },
            Fact::Posted {
                branch,
                message,
                key,
            } => Self::Posted {
                branch,
                message: message.into(),
                key: key.map(|(name, request)| RequestKey {
                    name,
                    request: Digest(request),
                }),
            },
            Fact::CallCapSet { calls } => Self::CallCapSet { calls },
            Fact::ImportNoted {
                opened,
                sealed,
                tightened,
            } => Self::ImportNoted {
                opened: message_times(opened),
                sealed: message_times(sealed),
                tightened: tightened.into_iter().map(CheckpointId::from_u128).collect(),
            },
            Fact::Pinned { messages } => Self::Pinned {
                messages: message_ids(messages),
            },
            Fact::Unpinned { messages } => Self::Unpinned {
                messages: message_ids(messages),
            },
            Fact::Restored {
                turn,
                checkpoint,
                before_tokens,
            } => Self::Restored {
                turn: turn.map(TurnId::from_u128),
                checkpoint: CheckpointId::from_u128(checkpoint),
                before: Tokens(before_tokens),
            },
        })
    }
}

fn altered(alterations: Vec<Alteration>) -> Result<Vec<alteration::Alteration>, Invalid> {
    alterations.into_iter().map(TryInto::try_into).collect()
}

fn message_times(times: Vec<(u128, i64)>) -> Vec<(MessageId, Timestamp)> {
    let times = times.into_iter();
    times
        .map(|(id, at)| (MessageId::from_u128(id), Timestamp(at)))
        .collect()
}

fn message_ids(ids: Vec<u128>) -> Vec<MessageId> {
    ids.into_iter().map(MessageId::from_u128).collect()
}
