//! The turns of a session as its journal tells them, also those that ended long ago.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_api::turn::{Fault as Failed, Run, Turn};
use unisono_context::call::Usage;
use unisono_context::{Digest, RunId, SessionId, Timestamp, TurnId};
use unisono_session::event::{AcceptedTurn, DelegatedCall, OpenedRun, Outcome, RunRole, Work};
use unisono_session::run::{Ending, Step};
use unisono_session::{Event, Fact};
use unisono_store::Journal;

use super::words;

/// Events read at a time.
const PAGE: usize = 1_024;

/// A turn, found in its session's journal; none where it is not there.
pub(super) async fn turn(
    journal: &Journal,
    session: SessionId,
    turn: TurnId,
) -> Result<Option<Turn>, unisono_store::Error> {
    let mut records = Records::of(session, Some(turn));
    read(journal, session, |event| {
        records.take(event);
        records.open.is_empty() && !records.ended.is_empty()
    })
    .await?;
    Ok(records.finish().pop())
}

/// All turns of a session, the oldest first.
pub(super) async fn turns(
    journal: &Journal,
    session: SessionId,
) -> Result<Vec<Turn>, unisono_store::Error> {
    let mut records = Records::of(session, None);
    read(journal, session, |event| {
        records.take(event);
        false
    })
    .await?;
    Ok(records.finish())
}

/// Reads a journal until `take` has enough.
async fn read(
    journal: &Journal,
    session: SessionId,
    mut take: impl FnMut(&Event) -> bool,
) -> Result<(), unisono_store::Error> {
    let mut next = 1;
    loop {
        let page = journal.read(session, next, PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        next = last + 1;
        if page.iter().any(|(_, event)| take(event)) {
            return Ok(());
        }
    }
}

/// The turns of a session, told apart: an event is offered to those that have not ended.
#[derive(Debug)]
struct Records {
    session: SessionId,
    /// The only one that is wanted; none: all are.
    only: Option<TurnId>,
    models: BTreeMap<Digest, Arc<str>>,
    open: Vec<Record>,
    ended: Vec<Record>,
}

impl Records {
    fn of(session: SessionId, only: Option<TurnId>) -> Records {
        Records {
            session,
            only,
            models: BTreeMap::new(),
            open: Vec::new(),
            ended: Vec::new(),
        }
    }

    fn take(&mut self, event: &Event) {
        match &event.fact {
            Fact::Defined { definition } => {
                let model = definition.model.clone();
                self.models.insert(definition.digest(), model);
            }
            Fact::TurnAccepted { turn } if self.only.is_none_or(|only| only == turn.id) => {
                let mut record = Record::of(self.session, turn.id);
                record.accepted(turn, event.at);
                self.open.push(record);
            }
            _ => {}
        }
        for record in &mut self.open {
            record.take(event, &self.models);
        }
        self.ended
            .extend(self.open.extract_if(.., |record| record.ended));
    }

    /// The turns, in the order in which they were accepted.
    fn finish(self) -> Vec<Turn> {
        let all = self.ended.into_iter().chain(self.open);
        let mut turns: Vec<Turn> = all.filter_map(Record::finish).collect();
        turns.sort_by(|a, b| (&a.accepted, &a.turn).cmp(&(&b.accepted, &b.turn)));
        turns
    }
}

/// What is known of one turn so far.
#[derive(Debug)]
struct Record {
    session: SessionId,
    id: TurnId,
    turn: Option<Turn>,
    tasks: Vec<Option<Arc<str>>>,
    runs: BTreeMap<RunId, usize>,
    calls: BTreeMap<(RunId, u32), Vec<DelegatedCall>>,
    used: BTreeMap<RunId, Usage>,
    lead: Option<RunId>,
    ended: bool,
}

impl Record {
    fn of(session: SessionId, id: TurnId) -> Record {
        Record {
            session,
            id,
            turn: None,
            tasks: Vec::new(),
            runs: BTreeMap::new(),
            calls: BTreeMap::new(),
            used: BTreeMap::new(),
            lead: None,
            ended: false,
        }
    }

    fn take(&mut self, event: &Event, models: &BTreeMap<Digest, Arc<str>>) {
        match &event.fact {
            Fact::TurnStarted { turn } if *turn == self.id => self.state("preparing"),
            Fact::Compacted {
                turn: Some(turn),
                checkpoint,
            } if *turn == self.id => {
                if let Some(turn) = &mut self.turn {
                    turn.checkpoints.push(checkpoint.number);
                }
            }
            Fact::Frozen { turn, snapshot, .. } if *turn == self.id => {
                self.state("working");
                if let Some(turn) = &mut self.turn {
                    turn.snapshot = Some(snapshot.to_string());
                }
            }
            Fact::RunOpened { run } if run.turn == self.id => self.opened(run, event.at, models),
            Fact::Delegated { run, round, calls } => {
                self.calls.insert((*run, *round), calls.clone());
            }
            Fact::RunStepped { run, step } => {
                if let (Step::Model(reply), Some(used)) = (&**step, self.used.get_mut(run)) {
                    *used = *used + reply.usage;
                }
            }
            Fact::RunRetried { run, attempt, .. } => {
                if let Some(run) = self.run(*run) {
                    run.attempt = *attempt;
                }
            }
            Fact::RunEnded { run, ending } => self.run_ended(*run, ending),
            Fact::TurnEnded { turn, outcome } if *turn == self.id => {
                self.turn_ended(outcome, event.at);
            }
            _ => {}
        }
    }

    fn state(&mut self, state: &str) {
        if let Some(turn) = &mut self.turn {
            state.clone_into(&mut turn.state);
        }
    }

    fn run(&mut self, id: RunId) -> Option<&mut Run> {
        let index = *self.runs.get(&id)?;
        self.turn.as_mut()?.runs.get_mut(index)
    }

    fn accepted(&mut self, turn: &AcceptedTurn, at: Timestamp) {
        let task = match &turn.work {
            Work::Answer { input } => {
                let texts: Vec<_> = input
                    .parts
                    .iter()
                    .map(|part| part.countable_text())
                    .collect();
                Some(texts.join("\n"))
            }
            _ => None,
        };
        self.tasks = turn
            .delegates
            .iter()
            .map(|(_, task)| task.clone())
            .collect();
        self.turn = Some(Turn {
            session: self.session.to_string(),
            turn: turn.id.to_string(),
            branch: turn.branch.to_string(),
            task,
            state: "queued".to_owned(),
            error: None,
            answer: None,
            snapshot: None,
            snapshot_agents: 0,
            checkpoints: Vec::new(),
            runs: Vec::new(),
            cost_usd: None,
            accepted: words::instant(at),
            ended: None,
        });
    }

    fn opened(&mut self, run: &OpenedRun, at: Timestamp, models: &BTreeMap<Digest, Arc<str>>) {
        let (role, parent, task) = match run.role {
            RunRole::Lead => ("lead", None, None),
            RunRole::Delegate { index } => {
                let task = self.tasks.get(index as usize).cloned().flatten();
                ("delegate", None, task)
            }
            RunRole::Child {
                parent,
                round,
                index,
            } => {
                let calls = self.calls.get(&(parent, round));
                let call = calls.and_then(|calls| calls.get(index as usize));
                ("child", Some(parent), call.map(|call| call.task.clone()))
            }
        };
        if run.role == RunRole::Lead {
            self.lead = Some(run.id);
        }
        self.used.insert(run.id, Usage::NONE);
        let Some(turn) = &mut self.turn else { return };
        turn.snapshot_agents += u32::from(run.snapshot.is_some());
        self.runs.insert(run.id, turn.runs.len());
        turn.runs.push(Run {
            run: run.id.to_string(),
            agent: run.agent.to_string(),
            model: models.get(&run.definition).map(ToString::to_string),
            role: role.to_owned(),
            parent: parent.map(|parent| parent.to_string()),
            task: task.map(|task| task.to_string()),
            state: "running".to_owned(),
            attempt: 1,
            snapshot: run.snapshot.map(|snapshot| snapshot.to_string()),
            prefix: run.prefix.to_string(),
            text: None,
            error: None,
            usage: words::amounts(&Usage::NONE),
            opened: words::instant(at),
            duration_ms: None,
        });
    }

    fn run_ended(&mut self, id: RunId, ending: &Ending) {
        if let (Ending::Finished { usage, .. }, Some(used)) = (ending, self.used.get_mut(&id)) {
            *used = *usage;
        }
        let Some(run) = self.run(id) else { return };
        match ending {
            Ending::Finished {
                text,
                partial,
                duration_ms,
                ..
            } => {
                let whole = partial.is_none();
                run.state = if whole { "done" } else { "partial" }.to_owned();
                run.text = Some(text.to_string());
                run.error = partial.as_ref().map(|reason| Failed {
                    code: "partial".to_owned(),
                    reason: reason.to_string(),
                });
                run.duration_ms = Some(*duration_ms);
            }
            Ending::Failed {
                cause,
                reason,
                duration_ms,
            } => {
                "failed".clone_into(&mut run.state);
                run.error = Some(Failed {
                    code: cause.code().to_owned(),
                    reason: reason.to_string(),
                });
                run.duration_ms = Some(*duration_ms);
            }
            Ending::Cancelled => "cancelled".clone_into(&mut run.state),
        }
    }

    fn turn_ended(&mut self, outcome: &Outcome, at: Timestamp) {
        let answer = self.lead.and_then(|lead| self.run(lead)?.text.clone());
        self.ended = true;
        let Some(turn) = &mut self.turn else { return };
        turn.ended = Some(words::instant(at));
        turn.state = match outcome {
            Outcome::Answered => {
                turn.answer = answer;
                "answered"
            }
            Outcome::Compacted { .. } => "compacted",
            Outcome::Failed { code, reason } => {
                turn.error = Some(Failed {
                    code: code.to_string(),
                    reason: reason.to_string(),
                });
                "failed"
            }
            Outcome::Cancelled => "cancelled",
            Outcome::Restored { .. } => "restored",
        }
        .to_owned();
    }

    /// The turn, with what follows from all of its runs together.
    fn finish(mut self) -> Option<Turn> {
        for (id, used) in std::mem::take(&mut self.used) {
            if let Some(run) = self.run(id) {
                run.usage = words::amounts(&used);
            }
        }
        let mut turn = self.turn?;
        let waited_for: Vec<String> = turn
            .runs
            .iter()
            .filter(|run| run.state == "running")
            .filter_map(|run| run.parent.clone())
            .collect();
        for run in &mut turn.runs {
            if run.state == "running" && waited_for.contains(&run.run) {
                "waiting".clone_into(&mut run.state);
            }
        }
        let costs = turn.runs.iter().map(|run| run.usage.cost_usd);
        turn.cost_usd = costs.sum();
        Some(turn)
    }
}
