//! Counters since the start of the program: a fold of the committed events of sessions.
//!
//! Labels have few values: kinds, outcomes, causes; never an id, an agent or a model.

use std::collections::{BTreeMap, HashMap, VecDeque};
use std::sync::{Arc, Mutex, PoisonError};

use unisono_context::call::Usage;
use unisono_context::{CheckpointId, Cost, RunId, Tokens};
use unisono_runtime::{Load, Observer};
use unisono_session::event::LateOutput;
use unisono_session::run::Ending;
use unisono_session::{Event, Fact, ids};

/// Maximum runs and prepared summaries that are remembered: the end of those of deleted sessions is
/// not observed.
const REMEMBERED: usize = 4_096;

/// The counters of a running daemon.
#[derive(Clone, Debug, Default)]
pub struct Metrics {
    counts: Arc<Mutex<Counts>>,
    /// The current load.
    pub load: Load,
}

impl Metrics {
    /// Counts observed events.
    pub fn observer(&self) -> Observer {
        let counts = self.counts.clone();
        Observer::new(move |_, events| {
            let mut counts = counts.lock().unwrap_or_else(PoisonError::into_inner);
            counts.appends += 1;
            events.iter().for_each(|event| counts.take(event));
        })
    }

    /// The current counters.
    pub fn read<T>(&self, look: impl FnOnce(&Counts) -> T) -> T {
        look(&self.counts.lock().unwrap_or_else(PoisonError::into_inner))
    }
}

/// The consumer of tokens.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Consumer {
    /// Runs of agents.
    Agents,
    /// Calls that wrote summaries.
    Summaries,
}

unisono_context::names!(Consumer.name {
    Agents = "agents",
    Summaries = "summaries",
});

/// The counters.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Counts {
    /// Appends to the store.
    pub appends: u64,
    /// Events of those appends.
    pub events: u64,
    /// Sessions that were created.
    pub sessions: u64,
    /// Turns that were accepted.
    pub turns_accepted: u64,
    /// By outcome.
    pub turns_ended: BTreeMap<&'static str, u64>,
    /// Runs that were opened.
    pub runs_opened: u64,
    /// By state, and the cause of a failure.
    pub runs_ended: BTreeMap<(&'static str, &'static str), u64>,
    /// Attempts after the first one of a run.
    pub runs_retried: u64,
    /// Total milliseconds from the opening to the end of runs.
    pub run_ms: u64,
    /// The usage, by consumer.
    pub used: BTreeMap<Consumer, Used>,
    /// Successful compactions.
    pub compactions: u64,
    /// Failed compactions.
    pub compactions_failed: u64,
    /// Summaries that were written ahead, by outcome.
    pub prepared: BTreeMap<&'static str, u64>,
    /// Total milliseconds of compactions.
    pub compaction_ms: u64,
    /// Tokens of summarised messages.
    pub tokens_summarised: u64,
    /// Messages that were masked or cut.
    pub messages_shortened: u64,
    /// The usage of the recorded steps of open runs, and of cancelled runs that may still answer:
    /// the event of a run's end has the total.
    open: HashMap<RunId, Usage>,
    /// The runs in `open` in the order of their openings, and some that have ended.
    newest_runs: VecDeque<RunId>,
    /// The newest checkpoints of prepared summaries that are neither used nor dropped, the oldest
    /// first.
    prepared_ids: VecDeque<CheckpointId>,
}

/// A usage.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
#[non_exhaustive]
pub struct Used {
    /// Calls of a model.
    pub calls: u64,
    /// Tokens of requests.
    pub input: u64,
    /// Tokens of replies.
    pub output: u64,
    /// Tokens read from a provider's cache.
    pub cache_read: u64,
    /// Tokens written to a provider's cache.
    pub cache_write: u64,
    /// The cost of calls with a known price.
    pub cost: Cost,
    /// Calls with an unknown price.
    pub unpriced: u64,
}

impl Counts {
    fn take(&mut self, event: &Event) {
        self.events += 1;
        match &event.fact {
            Fact::Created { .. } => self.sessions += 1,
            Fact::TurnAccepted { .. } => self.turns_accepted += 1,
            Fact::TurnEnded { outcome, .. } => {
                *self.turns_ended.entry(outcome.name()).or_default() += 1;
            }
            Fact::RunOpened { run } => {
                self.runs_opened += 1;
                self.remember_run(run.id);
            }
            Fact::RunRetried { .. } => self.runs_retried += 1,
            Fact::RunStepped { run, step } => {
                let usage = step.usage();
                if step.reply().is_some() || usage != Usage::NONE {
                    self.stepped(*run, &usage);
                }
            }
            Fact::RunEnded { run, ending } => self.run_ended(*run, ending),
            Fact::LateOutputReceived { run, late, .. } => match late {
                LateOutput::Reply(reply) => self.stepped(*run, &reply.usage),
                LateOutput::Spent(spent) => self.stepped(*run, &spent.usage),
                LateOutput::Answer { usage, .. } => self.answered(*run, usage),
                LateOutput::Named { .. } | LateOutput::Incomplete { .. } => {}
            },
            Fact::SummariserUsed { usage, .. } => self.charge(Consumer::Summaries, usage),
            // Imported checkpoints and alterations have no turn.
            Fact::Compacted {
                turn: Some(_),
                checkpoint,
            } => {
                self.compactions += 1;
                if self.forget_prepared(checkpoint.id) {
                    *self.prepared.entry("used").or_default() += 1;
                }
                self.compaction_ms += checkpoint.duration_ms;
                self.tokens_summarised += checkpoint.original.0;
            }
            Fact::CompactionFailed { .. } => self.compactions_failed += 1,
            Fact::SummaryPrepared { turn, .. } => {
                self.remember_prepared(ids::prepared(*turn));
                *self.prepared.entry("written").or_default() += 1;
            }
            Fact::PreparationDropped { turn, reason, .. } => {
                self.forget_prepared(ids::prepared(*turn));
                *self.prepared.entry(reason.name()).or_default() += 1;
            }
            Fact::Altered {
                turn: Some(_),
                alterations,
            } => {
                self.messages_shortened += alterations.len() as u64;
            }
            _ => {}
        }
    }

    fn stepped(&mut self, run: RunId, usage: &Usage) {
        if let Some(stepped) = self.open.get_mut(&run) {
            *stepped = *stepped + *usage;
        }
        self.charge(Consumer::Agents, usage);
    }

    /// The total usage of a run is known. For a run of an earlier process, its steps were counted
    /// there.
    fn answered(&mut self, run: RunId, all: &Usage) {
        let stepped = self.open.remove(&run);
        if let Some(rest) = stepped.and_then(|stepped| unrecorded_usage(all, &stepped)) {
            self.charge(Consumer::Agents, &rest);
        }
    }

    fn remember_run(&mut self, run: RunId) {
        self.open.insert(run, Usage::NONE);
        self.newest_runs.push_back(run);
        if self.newest_runs.len() > 2 * REMEMBERED {
            let open = &self.open;
            self.newest_runs.retain(|run| open.contains_key(run));
        }
        while self.open.len() > REMEMBERED
            && let Some(oldest) = self.newest_runs.pop_front()
        {
            self.open.remove(&oldest);
        }
    }

    fn remember_prepared(&mut self, summary: CheckpointId) {
        self.prepared_ids.push_back(summary);
        if self.prepared_ids.len() > REMEMBERED {
            self.prepared_ids.pop_front();
        }
    }

    /// Returns whether the summary was prepared.
    fn forget_prepared(&mut self, summary: CheckpointId) -> bool {
        let at = self.prepared_ids.iter().position(|id| *id == summary);
        at.and_then(|at| self.prepared_ids.remove(at)).is_some()
    }

    fn run_ended(&mut self, run: RunId, ending: &Ending) {
        let (state, cause, ms) = match ending {
            Ending::Finished {
                usage,
                partial,
                duration_ms,
                ..
            } => {
                self.answered(run, usage);
                let state = if partial.is_some() {
                    "partial"
                } else {
                    "finished"
                };
                (state, "", *duration_ms)
            }
            Ending::Failed {
                cause, duration_ms, ..
            } => {
                self.open.remove(&run);
                ("failed", cause.code(), *duration_ms)
            }
            // Its remaining usage may arrive late.
            Ending::Cancelled => ("cancelled", "", 0),
        };
        self.run_ms += ms;
        *self.runs_ended.entry((state, cause)).or_default() += 1;
    }

    fn charge(&mut self, by: Consumer, usage: &Usage) {
        let used = self.used.entry(by).or_default();
        used.calls += 1;
        used.input += usage.input.0;
        used.output += usage.output.0;
        used.cache_read += usage.cache_read.0;
        used.cache_write += usage.cache_write.0;
        match usage.cost {
            Some(cost) => used.cost += cost,
            None => used.unpriced += 1,
        }
    }
}

/// The usage of a run besides its recorded steps: of an agent that calls a model by itself.
pub(crate) fn unrecorded_usage(all: &Usage, stepped: &Usage) -> Option<Usage> {
    let rest = Usage {
        input: all.input.minus(stepped.input),
        output: all.output.minus(stepped.output),
        cache_expected: Tokens::ZERO,
        cache_read: all.cache_read.minus(stepped.cache_read),
        cache_write: all.cache_write.minus(stepped.cache_write),
        cost: match (all.cost, stepped.cost) {
            (Some(all), Some(stepped)) => Some(Cost(all.0.saturating_sub(stepped.0))),
            _ => None,
        },
    };
    let used = rest.input != Tokens::ZERO || rest.output != Tokens::ZERO;
    used.then_some(rest)
}

#[cfg(test)]
mod tests {
    //! A late answer is counted once.

    use std::sync::Arc;

    use unisono_context::alteration::{Alteration, Form};
    use unisono_context::{MessageId, Ordinal, Timestamp, TurnId};
    use unisono_session::event::RunRole;
    use unisono_session::run::{AttemptTimes, Reply, Step};

    use super::*;
    use crate::fixture::opened_run;

    fn used(input: u64, output: u64) -> Usage {
        Usage::free(Tokens(input), Tokens(output))
    }

    fn replied(usage: Usage) -> Reply {
        Reply {
            usage,
            ..Reply::default()
        }
    }

    fn opened(run: u128) -> Fact {
        let (run, turn) = (RunId::from_u128(run), TurnId::from_u128(9));
        let run = opened_run(run, turn, RunRole::Lead);
        Fact::RunOpened { run }
    }

    fn late(run: u128, late: LateOutput) -> Fact {
        Fact::LateOutputReceived {
            run: RunId::from_u128(run),
            attempt: 1,
            late,
        }
    }

    fn cancelled(run: u128) -> Fact {
        Fact::RunEnded {
            run: RunId::from_u128(run),
            ending: Arc::new(Ending::Cancelled),
        }
    }

    fn counted(facts: impl IntoIterator<Item = Fact>) -> Counts {
        let mut counts = Counts::default();
        for fact in facts {
            let at = Timestamp(0);
            counts.take(&Event { at, fact });
        }
        counts
    }

    #[test]
    fn the_late_answer_of_a_cancelled_run_was_used() {
        let answer = |usage| LateOutput::Answer {
            text: "too late".into(),
            partial: None,
            usage,
        };
        let stepped = Fact::RunStepped {
            run: RunId::from_u128(1),
            step: Arc::new(Step::Model(replied(used(100, 10)))),
        };
        let counts = counted([
            opened(1),
            stepped,
            cancelled(1),
            late(1, LateOutput::Reply(replied(used(20, 2)))),
            late(1, answer(used(130, 15))),
            // A run of an earlier process: its counts are not known here.
            late(2, answer(used(999, 99))),
        ]);
        let agents = counts.used[&Consumer::Agents];
        assert_eq!((agents.input, agents.output), (130, 15));
        assert_eq!(agents.calls, 3);
        assert!(counts.open.is_empty());
    }

    #[test]
    fn a_cost_below_a_micro_dollar_is_not_rounded_for_each_call() {
        let cheap = |cost| Usage {
            cost: Some(Cost(cost)),
            ..used(2, 0)
        };
        let stepped = |run: u128, cost| Fact::RunStepped {
            run: RunId::from_u128(run),
            step: Arc::new(Step::Model(replied(cheap(cost)))),
        };
        let counts = counted([opened(1), stepped(1, 300_000), stepped(1, 400_000)]);
        assert_eq!(counts.used[&Consumer::Agents].cost, Cost(700_000));
        let rest = unrecorded_usage(&used(9, 0), &cheap(0)).unwrap();
        assert_eq!(rest.cost, Some(Cost::ZERO));
    }

    #[test]
    fn messages_that_were_imported_as_shortened_are_not_counted() {
        for (turn, expected) in [(None, 0), (Some(TurnId::from_u128(9)), 1)] {
            let alteration = Alteration {
                message: MessageId::from_u128(1),
                ordinal: Ordinal(1),
                form: Form::Masked { tokens: Tokens(9) },
                counts: Default::default(),
            };
            let alterations = vec![alteration];
            let counts = counted([Fact::Altered { turn, alterations }]);
            assert_eq!(counts.messages_shortened, expected);
        }
    }

    #[test]
    fn what_is_remembered_of_runs_is_bounded() {
        let runs = 0..2 * REMEMBERED as u128;
        let counts = counted(runs.clone().flat_map(|run| [opened(run), cancelled(run)]));
        assert_eq!(counts.open.len(), REMEMBERED);
        // Their sessions were deleted.
        let counts = counted(runs.map(opened));
        assert_eq!(counts.open.len(), REMEMBERED);
    }

    #[test]
    fn a_run_keeps_its_usage_while_many_others_come_and_go() {
        let finished = |run: u128| Fact::RunEnded {
            run: RunId::from_u128(run),
            ending: Arc::new(Ending::Finished {
                text: "So.".into(),
                partial: None,
                usage: used(10, 1),
                duration_ms: 1,
                calls: Vec::new(),
                attempt_times: AttemptTimes::default(),
            }),
        };
        let others = 1..3 * REMEMBERED as u128;
        let others = others.flat_map(|run| [opened(run), finished(run)]);
        let counts = counted([opened(0)].into_iter().chain(others).chain([finished(0)]));
        let agents = counts.used[&Consumer::Agents];
        assert_eq!(agents.input, 30 * REMEMBERED as u64);
        assert!(counts.open.is_empty() && counts.newest_runs.len() <= 2 * REMEMBERED);
    }

    #[test]
    fn what_is_remembered_of_prepared_summaries_is_bounded() {
        let id = |n: usize| CheckpointId::from_u128(n as u128);
        let mut counts = Counts::default();
        for n in 0..=REMEMBERED {
            counts.remember_prepared(id(n));
        }
        assert_eq!(counts.prepared_ids.len(), REMEMBERED);
        assert!(!counts.forget_prepared(id(0)), "its session was deleted");
        assert!(counts.forget_prepared(id(1)) && counts.forget_prepared(id(REMEMBERED)));
        assert!(!counts.forget_prepared(id(1)));
    }
}
