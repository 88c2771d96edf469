//! What happened since the program started, in numbers: a fold of the events that sessions commit.
//!
//! Labels take few values: kinds, outcomes, causes; never an id, an agent or a model.

use std::collections::{BTreeMap, HashMap};
use std::sync::{Arc, Mutex, PoisonError};

use unisono_context::call::Usage;
use unisono_context::{RunId, Tokens};
use unisono_runtime::{Load, Observer};
use unisono_session::event::{Late, Outcome};
use unisono_session::run::Ending;
use unisono_session::{Event, Fact};

/// Numbers of a running daemon.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    counts: Arc<Mutex<Counts>>,
    /// What works and waits now.
    pub load: Load,
}

impl Metrics {
    /// Counts what it is told.
    pub fn observer(&self) -> Observer {
        let counts = self.counts.clone();
        Observer::new(move |_, events| {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.appends += 1;
            events.iter().for_each(|event| counts.take(event));
        })
    }

    /// What was counted so far.
    pub(crate) fn read<T>(&self, look: impl FnOnce(&Counts) -> T) -> T {
        look(&self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// Who used tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum By {
    Agents,
    Summaries,
}

impl By {
    pub(crate) const fn name(self) -> &'static str {
        match self {
            By::Agents => "agents",
            By::Summaries => "summaries",
        }
    }
}

/// The numbers themselves.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Counts {
    pub(crate) appends: u64,
    pub(crate) events: u64,
    pub(crate) sessions: u64,
    pub(crate) turns_accepted: u64,
    /// By outcome.
    pub(crate) turns_ended: BTreeMap<&'static str, u64>,
    pub(crate) runs_opened: u64,
    /// By state, and the cause of a failure.
    pub(crate) runs_ended: BTreeMap<(&'static str, &'static str), u64>,
    pub(crate) runs_retried: u64,
    pub(crate) run_ms: u64,
    pub(crate) used: BTreeMap<By, Used>,
    pub(crate) compactions: u64,
    pub(crate) compactions_failed: u64,
    pub(crate) compaction_ms: u64,
    pub(crate) tokens_summarised: u64,
    pub(crate) messages_shortened: u64,
    /// What the recorded steps of open runs used: an ending tells of all together.
    open: HashMap<RunId, Usage>,
}

/// What was used.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct Used {
    pub(crate) calls: u64,
    pub(crate) input: u64,
    pub(crate) output: u64,
    pub(crate) cache_read: u64,
    pub(crate) cache_write: u64,
    pub(crate) micro_dollars: u64,
    /// Calls whose price is not known.
    pub(crate) unpriced: u64,
}

impl Counts {
    fn take(&mut self, event: &Event) {
        self.events += 1;
        match &event.fact {
            Fact::Created { .. } => self.sessions += 1,
            Fact::TurnAccepted { .. } => self.turns_accepted += 1,
            Fact::TurnEnded { outcome, .. } => {
                *self.turns_ended.entry(outcome_name(outcome)).or_default() += 1;
            }
            Fact::RunOpened { run } => {
                self.runs_opened += 1;
                self.open.insert(run.id, Usage::NONE);
            }
            Fact::RunRetried { .. } => self.runs_retried += 1,
            Fact::RunStepped { run, step } => {
                let usage = step.usage();
                if step.reply().is_some() || usage != Usage::NONE {
                    if let Some(stepped) = self.open.get_mut(run) {
                        *stepped = *stepped + usage;
                    }
                    self.charge(By::Agents, &usage);
                }
            }
            Fact::RunEnded { run, ending } => self.run_ended(*run, ending),
            Fact::CameLate {
                late: Late::Reply(reply),
                ..
            } => {
                self.charge(By::Agents, &reply.usage);
            }
            Fact::CameLate {
                late: Late::Spent(spent),
                ..
            } => self.charge(By::Agents, &spent.usage),
            Fact::SummariserUsed { usage, .. } => self.charge(By::Summaries, usage),
            Fact::Compacted { checkpoint, .. } => {
                self.compactions += 1;
                self.compaction_ms += checkpoint.duration_ms;
                self.tokens_summarised += checkpoint.original.0;
            }
            Fact::CompactionFailed { .. } => self.compactions_failed += 1,
            Fact::Altered { alterations, .. } => {
                self.messages_shortened += alterations.len() as u64;
            }
            _ => {}
        }
    }

    fn run_ended(&mut self, run: RunId, ending: &Ending) {
        let stepped = self.open.remove(&run);
        let (state, cause, ms) = match ending {
            Ending::Finished {
                usage,
                partial,
                duration_ms,
                ..
            } => {
                // A run of an earlier process has counted its steps there.
                if let Some(rest) = stepped.and_then(|stepped| rest(usage, &stepped)) {
                    self.charge(By::Agents, &rest);
                }
                let state = if partial.is_some() {
                    "partial"
                } else {
                    "finished"
                };
                (state, "", *duration_ms)
            }
            Ending::Failed {
                cause, duration_ms, ..
            } => ("failed", cause.code(), *duration_ms),
            Ending::Cancelled => ("cancelled", "", 0),
        };
        self.run_ms += ms;
        *self.runs_ended.entry((state, cause)).or_default() += 1;
    }

    fn charge(&mut self, by: By, usage: &Usage) {
        let used = self.used.entry(by).or_default();
        used.calls += 1;
        used.input += usage.input.0;
        used.output += usage.output.0;
        used.cache_read += usage.cache_read.0;
        used.cache_write += usage.cache_write.0;
        match usage.cost {
            Some(cost) => used.micro_dollars += cost.micro_dollars(),
            None => used.unpriced += 1,
        }
    }
}

/// What a run used besides its recorded steps: an agent that asks a model by itself.
pub(crate) fn rest(all: &Usage, stepped: &Usage) -> Option<Usage> {
    let rest = Usage {
        input: all.input.minus(stepped.input),
        output: all.output.minus(stepped.output),
        cache_expected: Tokens::ZERO,
        cache_read: all.cache_read.minus(stepped.cache_read),
        cache_write: all.cache_write.minus(stepped.cache_write),
        cost: match (all.cost, stepped.cost) {
            (Some(all), Some(stepped)) => Some(unisono_context::Cost::from_micro_dollars(
                all.micro_dollars().saturating_sub(stepped.micro_dollars()),
            )),
            _ => None,
        },
    };
    let used = rest.input != Tokens::ZERO || rest.output != Tokens::ZERO;
    used.then_some(rest)
}

fn outcome_name(outcome: &Outcome) -> &'static str {
    match outcome {
        Outcome::Answered => "answered",
        Outcome::Compacted { .. } => "compacted",
        Outcome::Failed { .. } => "failed",
        Outcome::Cancelled => "cancelled",
        Outcome::Restored { .. } => "restored",
    }
}
