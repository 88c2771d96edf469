//! What was decided, as it is written.

use unisono_context::{MessageId, Timestamp, TurnId};
use unisono_session::event::{self, DelegationLimits};

use super::Fact;
use crate::record::Invalid;
use crate::record::run::DelegatedCall;
use crate::record::snapshot::Alteration;
use crate::record::tool::PlannedCall;
use crate::record::topic::{DecidedTopics, TopicEnd};

impl TryFrom<&event::Fact> for Fact {
    type Error = Invalid;

    fn try_from(fact: &event::Fact) -> Result<Self, Invalid> {
        use event::Fact as Decided;
        Ok(match fact {
            Decided::Created {
                session,
                title,
                system,
                labels,
            } => Self::Created {
                session: session.as_u128(),
                title: title.clone(),
                system: system.clone(),
                labels: labels.into(),
            },
            Decided::Appended {
                branch,
                parent,
                message,
            } => Self::Appended {
                branch: branch.clone(),
                parent: parent.map(MessageId::as_u128),
                message: message.into(),
            },
            Decided::BranchSet { branch, head } => Self::BranchSet {
                branch: branch.clone(),
                head: head.as_u128(),
            },
            Decided::Counted { encoding, counts } => Self::Counted {
                encoding: (*encoding).into(),
                counts: counts
                    .iter()
                    .map(|(id, count)| (id.as_u128(), (*count).into()))
                    .collect(),
            },
            Decided::PreambleCounted {
                preamble,
                encoding,
                count,
            } => Self::PreambleCounted {
                preamble: preamble.0,
                encoding: (*encoding).into(),
                count: (*count).into(),
            },
            Decided::Defined { definition } if definition.pipeline.is_empty() => Self::Defined {
                definition: Box::new((&**definition).into()),
            },
            Decided::Defined { definition } => Self::DefinedWith {
                definition: Box::new((&**definition).into()),
                pipeline: definition.pipeline.iter().map(Into::into).collect(),
            },
            Decided::TurnAccepted { turn } => match turn.delegation.results {
                DelegationLimits::RESULTS => Self::TurnAccepted {
                    turn: Box::new((&**turn).into()),
                },
                results => Self::TurnAcceptedSharing {
                    turn: Box::new((&**turn).into()),
                    results_ppm: results.0,
                },
            },
            Decided::TurnStarted { turn } => Self::TurnStarted {
                turn: turn.as_u128(),
            },
            Decided::CompactionPlanned { turn, plan } => Self::CompactionPlanned {
                turn: turn.as_u128(),
                plan: plan.try_into()?,
            },
            Decided::Altered { turn, alterations } => {
                let alterations = alterations.iter().map(Alteration::from).collect();
                match turn.map(TurnId::as_u128) {
                    Some(turn) => Self::Altered { turn, alterations },
                    None => Self::AlteredByImport { alterations },
                }
            }
            Decided::Compacted { turn, checkpoint } => Self::Compacted {
                turn: turn.map(TurnId::as_u128),
                checkpoint: Box::new((&**checkpoint).try_into()?),
            },
            Decided::CompactionFailed { turn, reason } => Self::CompactionFailed {
                turn: turn.as_u128(),
                reason: reason.clone(),
            },
            Decided::Frozen {
                turn,
                snapshot,
                manifest,
            } => Self::Frozen {
                turn: turn.as_u128(),
                snapshot: snapshot.0.0,
                manifest: manifest.try_into()?,
            },
            Decided::RunOpened { run } => Self::RunOpened { run: run.into() },
            Decided::RunStepped { run, step } => Self::RunStepped {
                run: run.as_u128(),
                step: (&**step).into(),
            },
            Decided::RunRetried {
                run,
                attempt,
                not_before,
                reason,
            } => Self::RunRetried {
                run: run.as_u128(),
                attempt: *attempt,
                not_before: not_before.0,
                reason: reason.clone(),
            },
            Decided::RunEnded { run, ending } => Self::RunEnded {
                run: run.as_u128(),
                ending: (&**ending).into(),
            },
            Decided::Delegated { run, round, calls } => Self::Delegated {
                run: run.as_u128(),
                round: *round,
                calls: calls.iter().map(DelegatedCall::from).collect(),
            },
            Decided::PhrasesSet { phrases } => Self::PhrasesSet {
                phrases: phrases.clone(),
            },
            Decided::TopicsDecided {
                turn,
                through,
                ends,
            } => Self::TopicsDecided {
                turn: turn.as_u128(),
                through: through.as_u128(),
                ends: ends.iter().map(TopicEnd::from).collect(),
            },
            Decided::TopicSealed { branch, last } => Self::TopicSealed {
                branch: branch.clone(),
                last: last.as_u128(),
            },
            Decided::TurnKeyed { turn, key } => Self::TurnKeyed {
                turn: turn.as_u128(),
                name: key.name.clone(),
                request: key.request.0,
            },
            Decided::ToolRulesSet { rules } => Self::ToolRulesSet {
                rules: (&**rules).into(),
            },
            Decided::ToolsCalled { run, round, calls } => Self::ToolsCalled {
                run: run.as_u128(),
                round: *round,
                calls: calls.iter().map(PlannedCall::from).collect(),
            },
            Decided::ToolStarted { call } => Self::ToolStarted {
                call: (*call).into(),
            },
            Decided::ToolEnded { call, output } => Self::ToolEnded {
                call: (*call).into(),
                output: output.into(),
            },
            Decided::ToolInDoubt { call } => Self::ToolInDoubt {
                call: (*call).into(),
            },
            Decided::ToolDecided { call, decision } => Self::ToolDecided {
                call: (*call).into(),
                decision: decision.into(),
            },
            Decided::Measured { turn, calibration } => Self::Measured {
                turn: turn.as_u128(),
                calibration: calibration.into(),
            },
            Decided::TopicsImported { decided, sealed } => Self::TopicsImported {
                decided: decided.iter().map(DecidedTopics::from).collect(),
                sealed: message_ids(sealed),
            },
            Decided::Capped { turn, caps } => {
                let (turn, limit_ms) = (turn.as_u128(), caps.limit_ms);
                let caps = Box::new((&**caps).into());
                match limit_ms {
                    None => Self::Capped { turn, caps },
                    Some(limit_ms) => Self::CappedWithin {
                        turn,
                        caps,
                        limit_ms,
                    },
                }
            }
            Decided::Reserved { run, reservation } => Self::Reserved {
                run: run.as_u128(),
                reservation: reservation.into(),
            },
            Decided::SettingsSet { settings } => Self::SettingsSet {
                settings: settings.into(),
            },
            Decided::CallSettled {
                run,
                call,
                used,
                told,
            } => Self::CallSettled {
                run: run.as_u128(),
                call: *call,
                used: (*used).into(),
                told: *told,
            },
            Decided::TurnEnded { turn, outcome } => Self::TurnEnded {
                turn: turn.as_u128(),
                outcome: outcome.into(),
            },
            Decided::CameLate { run, attempt, late } => Self::CameLate {
                run: run.as_u128(),
                attempt: *attempt,
                late: late.into(),
            },
            Decided::SummariserUsed { turn, model, usage } => Self::SummariserUsed {
                turn: turn.as_u128(),
                model: model.clone(),
                usage: (*usage).into(),
            },
            Decided::Posted {
                branch,
                message,
                key,
            } => Self::Posted {
                branch: branch.clone(),
                message: message.into(),
                key: key.as_ref().map(|key| (key.name.clone(), key.request.0)),
            },
            Decided::CallCapSet { calls } => Self::CallCapSet { calls: *calls },
            Decided::ImportNoted {
                opened,
                sealed,
                tightened,
            } => Self::ImportNoted {
                opened: message_times(opened),
                sealed: message_times(sealed),
                tightened: tightened.iter().map(|id| id.as_u128()).collect(),
            },
            Decided::Pinned { messages } => Self::Pinned {
                messages: message_ids(messages),
            },
            Decided::Unpinned { messages } => Self::Unpinned {
                messages: message_ids(messages),
            },
            Decided::Restored {
                turn,
                checkpoint,
                before,
            } => Self::Restored {
                turn: turn.map(TurnId::as_u128),
                checkpoint: checkpoint.as_u128(),
                before_tokens: before.0,
            },
        })
    }
}

fn message_times(times: &[(MessageId, Timestamp)]) -> Vec<(u128, i64)> {
    times.iter().map(|(id, at)| (id.as_u128(), at.0)).collect()
}

fn message_ids(ids: &[MessageId]) -> Vec<u128> {
    ids.iter().map(|id| id.as_u128()).collect()
}
