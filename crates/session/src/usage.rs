//! The usage of a session's model calls, by source and model.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unisono_context::call::Usage;
use unisono_context::checkpoint::{Checkpoint, Writer};
use unisono_context::cost::Cost;
use unisono_context::{AgentId, Digest, RunId, TurnId};

use crate::event::{Event, Fact, LateOutput};
use crate::run::Ending;

/// The source of model calls.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum UsageSource {
    /// An agent.
    Agent(AgentId),
    /// Summarisers.
    Summaries,
}

/// The usage of one model by one source.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct UsageEntry {
    /// The number of runs that it took part in, or of its summaries that were used.
    pub jobs: u64,
    /// Tokens and cost.
    pub usage: Usage,
}

/// The usage of models, folded from the events of a journal.
#[derive(Clone, Debug, Default)]
pub struct Ledger {
    models: BTreeMap<Digest, Arc<str>>,
    runs: BTreeMap<RunId, OpenRun>,
    /// Turns whose summarisers reported their usage, reply by reply.
    reported_turns: BTreeSet<TurnId>,
    used: BTreeMap<(UsageSource, Arc<str>), UsageEntry>,
}

/// A run that is open, or was cancelled.
#[derive(Clone, Debug)]
struct OpenRun {
    agent: AgentId,
    model: Arc<str>,
    /// The usage of its recorded steps; its ending has the usage of the whole run.
    stepped: Usage,
    /// The models that took part in it.
    asked: Vec<Arc<str>>,
}

/// The usage of deleted sessions.
#[derive(Clone, Debug, Default)]
pub struct DeletedUsage {
    /// The number of sessions.
    pub sessions: u64,
    /// The sum of their usage.
    pub ledger: Ledger,
}

impl DeletedUsage {
    /// Adds other deleted sessions.
    pub fn add(&mut self, others: &DeletedUsage) {
        self.sessions += others.sessions;
        self.ledger.add(&others.ledger);
    }
}

/// A stored sum; no run of it is open.
impl FromIterator<(UsageSource, Arc<str>, UsageEntry)> for Ledger {
    fn from_iter<I: IntoIterator<Item = (UsageSource, Arc<str>, UsageEntry)>>(rows: I) -> Self {
        let rows = rows
            .into_iter()
            .map(|(asker, model, used)| ((asker, model), used));
        Self {
            used: rows.collect(),
            ..Self::default()
        }
    }
}

impl Ledger {
    /// Takes the next event of a session.
    pub fn take(&mut self, event: &Event) {
        match &event.fact {
            Fact::Defined { definition } => {
                let model = definition.model.clone();
                self.models.insert(definition.digest(), model);
            }
            Fact::RunOpened { run } => {
                let model = self.models.get(&run.definition).cloned();
                let run_of = OpenRun {
                    agent: run.agent.clone(),
                    model: model.unwrap_or_else(|| "?".into()),
                    stepped: Usage::NONE,
                    asked: Vec::new(),
                };
                self.runs.insert(run.id, run_of);
            }
            Fact::RunStepped { run, step } => {
                self.charge(*run, step.fallback().cloned(), step.usage());
            }
            Fact::RunEnded { run, ending } => {
                if let Ending::Finished { usage, .. } = &**ending {
                    self.charge_rest(*run, *usage);
                }
                // A cancelled run may still have late output, which must be paid for.
                if **ending != Ending::Cancelled {
                    self.runs.remove(run);
                }
            }
            Fact::CameLate { run, late, .. } => match late {
                LateOutput::Reply(reply) => {
                    let by = reply.fallback.as_ref().map(|by| by.model.clone());
                    self.charge(*run, by, reply.usage);
                }
                LateOutput::Answer { usage, .. } => self.charge_rest(*run, *usage),
                LateOutput::Spent(spent) => self.charge(*run, spent.fallback.clone(), spent.usage),
            },
            Fact::SummariserUsed { turn, model, usage } => {
                self.reported_turns.insert(*turn);
                let used = self.summaries(model.clone());
                used.usage = used.usage + *usage;
            }
            Fact::Compacted { turn, checkpoint } => self.summary(*turn, checkpoint),
            Fact::TurnEnded { turn, .. } => {
                self.reported_turns.remove(turn);
            }
            _ => {}
        }
    }

    /// Adds the usage of another session.
    pub fn add(&mut self, other: &Ledger) {
        for (of, used) in &other.used {
            let sum = self.used.entry(of.clone()).or_default();
            sum.jobs += used.jobs;
            sum.usage = sum.usage + used.usage;
        }
    }

    /// The usage by source and model.
    pub fn entries(&self) -> impl ExactSizeIterator<Item = (&UsageSource, &str, &UsageEntry)> {
        let all = self.used.iter();
        all.map(|((asker, model), used)| (asker, &**model, used))
    }

    /// The number of runs and summaries; a run with several models counts once per model.
    pub fn jobs(&self) -> u64 {
        self.used.values().map(|used| used.jobs).sum()
    }

    /// The total usage.
    pub fn total(&self) -> Usage {
        let all = self.used.values();
        all.fold(Usage::NONE, |sum, used| sum + used.usage)
    }

    /// Charges the usage of a whole run, minus that of its steps.
    fn charge_rest(&mut self, run: RunId, all: Usage) {
        let stepped = self.runs.get(&run).map_or(Usage::NONE, |run| run.stepped);
        self.charge(run, None, subtract(all, stepped));
    }

    fn charge(&mut self, run: RunId, fallback: Option<Arc<str>>, usage: Usage) {
        let Some(run) = self.runs.get_mut(&run) else {
            return;
        };
        if usage == Usage::NONE && fallback.is_none() {
            return;
        }
        run.stepped = run.stepped + usage;
        let model = fallback.unwrap_or_else(|| run.model.clone());
        let first = !run.asked.contains(&model);
        if first {
            run.asked.push(model.clone());
        }
        let asker = UsageSource::Agent(run.agent.clone());
        let used = self.used.entry((asker, model)).or_default();
        used.jobs += u64::from(first);
        used.usage = used.usage + usage;
    }

    fn summaries(&mut self, model: Arc<str>) -> &mut UsageEntry {
        self.used
            .entry((UsageSource::Summaries, model))
            .or_default()
    }

    fn summary(&mut self, turn: Option<TurnId>, checkpoint: &Checkpoint) {
        if checkpoint.writer != Writer::Model {
            return;
        }
        let is_reported = turn.is_some_and(|turn| self.reported_turns.contains(&turn));
        let used = self.summaries(checkpoint.model.clone());
        used.jobs += 1;
        // An earlier version of this program recorded only the cost of a summary.
        if !is_reported {
            let cost = checkpoint.cost_micros.map(Cost::from_micro_dollars);
            used.usage = used.usage
                + Usage {
                    cost,
                    ..Usage::NONE
                };
        }
    }
}

/// The difference of a sum and a part of it.
fn subtract(all: Usage, part: Usage) -> Usage {
    Usage {
        input: all.input.minus(part.input),
        output: all.output.minus(part.output),
        cache_expected: all.cache_expected.minus(part.cache_expected),
        cache_read: all.cache_read.minus(part.cache_read),
        cache_write: all.cache_write.minus(part.cache_write),
        cost: match (all.cost, part.cost) {
            (Some(all), Some(part)) => Some(Cost(all.0.saturating_sub(part.0))),
            // Unknown because the part was unknown; the rest is never reported.
            (None, _) | (_, None) => None,
        },
    }
}

#[cfg(test)]
mod tests {
    //! Sums over a journal.

    use unisono_context::call::Reply;
    use unisono_context::{Timestamp, Tokens};

    use super::*;
    use crate::event::{OpenedRun, RunRole};
    use crate::run::{FallbackUsed, Step};

    fn event(fact: Fact) -> Event {
        Event {
            at: Timestamp(0),
            fact,
        }
    }

    fn used(input: u64, output: u64, micro_dollars: u64) -> Usage {
        Usage {
            cost: Some(Cost::from_micro_dollars(micro_dollars)),
            ..Usage::free(Tokens(input), Tokens(output))
        }
    }

    fn opened(run: u128, agent: &str) -> Event {
        event(Fact::RunOpened {
            run: OpenedRun {
                id: RunId::from_u128(run),
                turn: TurnId::from_u128(9),
                role: RunRole::Lead,
                agent: AgentId::new(agent),
                definition: Digest::of_bytes(b"unknown"),
                snapshot: None,
                prefix: Digest::of_bytes(b"prefix"),
            },
        })
    }

    fn stepped(run: u128, fallback: Option<&str>, usage: Usage) -> Event {
        let reply = Reply {
            usage,
            fallback: fallback.map(FallbackUsed::named),
            ..Reply::default()
        };
        event(Fact::RunStepped {
            run: RunId::from_u128(run),
            step: Arc::new(Step::Model(reply)),
        })
    }

    fn finished(run: u128, usage: Usage) -> Event {
        event(Fact::RunEnded {
            run: RunId::from_u128(run),
            ending: Arc::new(Ending::Finished {
                text: "done".into(),
                calls: Vec::new(),
                partial: None,
                usage,
                duration_ms: 1,
            }),
        })
    }

    #[test]
    fn the_usage_of_steps_is_not_counted_again_at_the_end() {
        let mut ledger = Ledger::default();
        for event in [
            opened(1, "risks"),
            stepped(1, None, used(100, 10, 5)),
            stepped(1, Some("b/2"), used(50, 5, 1)),
            finished(1, used(180, 20, 9)),
            opened(2, "risks"),
            stepped(2, None, used(7, 1, 0)),
            event(Fact::RunEnded {
                run: RunId::from_u128(2),
                ending: Arc::new(Ending::Cancelled),
            }),
        ] {
            ledger.take(&event);
        }
        let rows: Vec<_> = ledger
            .entries()
            .map(|(_, model, used)| (model.to_owned(), used.jobs, used.usage))
            .collect();
        assert_eq!(
            rows,
            [
                ("?".to_owned(), 2, used(137, 16, 8)),
                ("b/2".to_owned(), 1, used(50, 5, 1)),
            ]
        );
        assert_eq!(ledger.total(), used(187, 21, 9));
    }

    #[test]
    fn the_late_usage_of_a_cancelled_run_is_counted() {
        let late = |late| {
            event(Fact::CameLate {
                run: RunId::from_u128(1),
                attempt: 1,
                late,
            })
        };
        let mut ledger = Ledger::default();
        for event in [
            opened(1, "risks"),
            stepped(1, None, used(100, 10, 5)),
            event(Fact::RunEnded {
                run: RunId::from_u128(1),
                ending: Arc::new(Ending::Cancelled),
            }),
            late(LateOutput::Reply(Reply {
                usage: used(20, 2, 1),
                ..Reply::default()
            })),
            late(LateOutput::Answer {
                text: "done".into(),
                partial: None,
                usage: used(130, 15, 8),
            }),
        ] {
            ledger.take(&event);
        }
        assert_eq!(ledger.total(), used(130, 15, 8));
    }

    #[test]
    fn an_unknown_price_makes_the_sum_unknown() {
        let mut ledger = Ledger::default();
        ledger.take(&opened(1, "risks"));
        let unknown = Usage {
            cost: None,
            ..used(10, 1, 0)
        };
        ledger.take(&finished(1, unknown));
        assert_eq!(ledger.total().cost, None);
        assert_eq!(ledger.total().input, Tokens(10));
    }
}
