//! Runs: their tasks, outcomes and requests.

mod list;
mod lookup;
mod rebuilt;

use std::sync::Arc;

use async_trait::async_trait;
use unisono_api::Page;
use unisono_api::blob::Blob;
use unisono_api::run::{
    Attempt, Call, CallDecision, ListedRun, LookupQuery, LookupResult, OutputFile, Replay,
    RunDetail, RunQuery, RunStep, StepContent, ToolOutput, Why, WhyQuery,
};
use unisono_api::service::{Result as Answer, Runs};
use unisono_api::turn::Run;
use unisono_context::attachment::AttachedFile;
use unisono_context::{RunId, SessionId};
use unisono_session::Trace;
use unisono_session::run::{AuxiliaryUsage, FallbackUsed, Step};
use unisono_session::state::StepLocation;
use unisono_session::trace::{DecidedCall, Moment, RunTrace, decisions};

use super::id;
use crate::Local;
use crate::error::Error;
use crate::history::{self, Lookup};
use crate::turn_budgets::TurnBudgets;
use crate::turn_view;
use crate::values;

#[async_trait]
impl Runs for Local {
    async fn runs(&self, query: &RunQuery) -> Answer<Page<ListedRun>> {
        Ok(list::runs(self, query).await?)
    }

    async fn run(&self, session: &str, run: &str) -> Answer<RunDetail> {
        let found = FoundRun::new(self, session, run).await?;
        let mut detail = found.detail()?;
        found.budgets(self).await?.add_to_run(&mut detail.run);
        Ok(detail)
    }

    async fn why(&self, session: &str, run: &str, query: &WhyQuery) -> Answer<Why> {
        let found = FoundRun::new(self, session, run).await?;
        Ok(rebuilt::why(self, &found, query).await?)
    }

    async fn replay(&self, session: &str, turn: &str) -> Answer<Replay> {
        let (session, turn) = (id("session", session)?, id("turn", turn)?);
        Ok(rebuilt::replay(self, session, turn).await?)
    }

    async fn lookup(&self, query: &LookupQuery) -> Answer<LookupResult> {
        Ok(lookup::lookup(self, query).await?)
    }
}

/// A run of a session, from its journal.
struct FoundRun {
    session: SessionId,
    id: RunId,
    trace: Trace,
}

impl FoundRun {
    async fn new(local: &Local, session: &str, run: &str) -> Result<FoundRun, Error> {
        let session = id("session", session)?;
        let id: RunId = id("run", run)?;
        let view = local.view(session).await?;
        let trace = history::turn(local.journal(), &view, Lookup::Run(id)).await?;
        let trace = trace.ok_or_else(|| Error::not_found("run", id))?;
        Ok(FoundRun { session, id, trace })
    }

    fn traced(&self) -> Result<&RunTrace, Error> {
        let found = self.trace.run(self.id);
        found.ok_or_else(|| Error::not_found("run", self.id))
    }

    async fn budgets(&self, local: &Local) -> Result<TurnBudgets, Error> {
        let turn = self.traced()?.opened.1.turn;
        let session = local.view(self.session).await?;
        Ok(TurnBudgets::read(&session, &self.trace, turn).await?)
    }

    /// The run in the types of the API, with its task.
    fn run(&self) -> Result<Run, Error> {
        let turn = self.traced()?.opened.1.turn;
        let turn = turn_view::of_turn(&self.trace, self.session, turn);
        let id = self.id.to_string();
        let mut runs = turn.into_iter().flat_map(|turn| turn.runs);
        let run = runs.find(|run| run.run == id);
        let run = run.ok_or_else(|| Error::not_found("run", self.id))?;
        let task = self.trace.task(self.id).map(|task| task.to_string());
        Ok(Run { task, ..run })
    }

    fn detail(&self) -> Result<RunDetail, Error> {
        let traced = self.traced()?;
        let (moment, opened) = &traced.opened;
        let attempts = traced.retries.iter();
        let attempts = attempts.map(|(moment, attempt, reason)| Attempt {
            attempt: *attempt,
            event: moment.seq,
            at: values::instant(moment.at),
            reason: reason.to_string(),
        });
        Ok(RunDetail {
            session: self.session.to_string(),
            turn: opened.turn.to_string(),
            run: self.run()?,
            event: moment.seq,
            definition: opened.definition.to_string(),
            steps: traced.steps.iter().map(step).collect(),
            attempts: attempts.collect(),
            decisions: decisions(traced).iter().map(decision).collect(),
        })
    }
}

/// The steps of a run, read from their location in the journal.
pub(super) async fn steps_at(
    local: &Local,
    session: SessionId,
    location: StepLocation,
) -> Result<Vec<RunStep>, Error> {
    let (first, last) = (location.first, location.last);
    let events = history::span(local.journal(), session, first, last).await;
    let events = events.map_err(history::Error::from)?;
    let mut trace = Trace::after(first - 1, []);
    for (_, event) in &events {
        trace.take(event);
    }
    let steps = trace.run(location.run).into_iter();
    Ok(steps.flat_map(|run| &run.steps).map(step).collect())
}

fn decision(decided: &DecidedCall) -> CallDecision {
    let by = decided.decision.by.as_ref();
    CallDecision {
        event: decided.moment.seq,
        at: values::instant(decided.moment.at),
        tool: decided.tool.to_string(),
        decision: decided.decision.name.to_owned(),
        by: by.map(ToString::to_string),
    }
}

fn output_file(file: &AttachedFile) -> OutputFile {
    OutputFile {
        filename: file.filename.to_string(),
        blob: Blob {
            digest: file.content.digest.to_string(),
            mime: file.mime.to_string(),
            size_bytes: file.size_bytes,
            extent: values::extent(file.content.extent),
        },
    }
}

fn step((moment, step): &(Moment, Arc<Step>)) -> RunStep {
    let fallback = step.reply().and_then(|reply| reply.fallback.as_ref());
    let done = match &**step {
        Step::Model(reply) => StepContent::Model {
            text: reply.text.to_string(),
            calls: reply
                .calls
                .iter()
                .map(|call| Call {
                    id: call.id.to_string(),
                    name: call.name.to_string(),
                    arguments: call.arguments.to_string(),
                })
                .collect(),
            fallback: fallback.map(|by| by.model.to_string()),
            fallback_prefix: fallback
                .and_then(FallbackUsed::prefix)
                .map(|prefix| prefix.to_string()),
            input_tokens: reply.usage.input.0,
            output_tokens: reply.usage.output.0,
            cost_usd: values::dollars(reply.usage.cost),
        },
        Step::Tools(results) => StepContent::Tools {
            results: results
                .iter()
                .map(|result| ToolOutput {
                    call_id: result.call_id.to_string(),
                    content: result.content.to_string(),
                    is_error: result.is_error,
                    files: result.files.iter().map(output_file).collect(),
                })
                .collect(),
        },
        Step::Named { name, result } => StepContent::Named {
            name: name.to_string(),
            result: result.to_string(),
        },
        Step::Narrowed { room, output } => StepContent::Narrowed {
            room_tokens: room.0,
            output_tokens: output.map(|tokens| tokens.0),
        },
        Step::Summarised { replaced, text } => StepContent::Summarised {
            steps: *replaced,
            text: text.to_string(),
        },
        Step::Spent(AuxiliaryUsage { usage, fallback }) => StepContent::Spent {
            fallback: fallback.as_ref().map(ToString::to_string),
            input_tokens: usage.input.0,
            output_tokens: usage.output.0,
            cost_usd: values::dollars(usage.cost),
        },
    };
    RunStep {
        event: moment.seq,
        at: values::instant(moment.at),
        done,
    }
}
