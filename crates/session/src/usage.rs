//! The usage of a session's model calls, by source and model.

use std::collections::BTreeMap;
use std::sync::Arc;

use unisono_context::call::Usage;
use unisono_context::checkpoint::Writer;
use unisono_context::cost::Cost;
use unisono_context::{AgentId, Digest, RunId, Timestamp};

use crate::event::{Event, Fact, LateOutput};
use crate::run::{Ending, RunCause};

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
    used: BTreeMap<(UsageSource, Arc<str>), UsageEntry>,
    /// The same by day.
    by_day: BTreeMap<Day, BTreeMap<(UsageSource, Arc<str>), UsageEntry>>,
    /// The day of the newest event.
    day: Day,
}

/// A day in UTC: days since 1970-01-01.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Day(pub i64);

impl Day {
    /// The day of an instant.
    pub const fn from_timestamp(at: Timestamp) -> Day {
        Day(at.0.div_euclid(86_400_000))
    }
}

/// A run that is open, or may have late output.
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
        self.day = Day::from_timestamp(event.at);
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
                if !may_have_late_output(ending) {
                    self.runs.remove(run);
                }
            }
            Fact::LateOutputReceived { run, late, .. } => match late {
                LateOutput::Reply(reply) => {
                    let by = reply.fallback.as_ref().map(|by| by.model.clone());
                    self.charge(*run, by, reply.usage);
                }
                LateOutput::Answer { usage, .. } => self.charge_rest(*run, *usage),
                LateOutput::Spent(spent) => self.charge(*run, spent.fallback.clone(), spent.usage),
                LateOutput::Named { .. } | LateOutput::Incomplete { .. } => {}
            },
            Fact::SummariserUsed { model, usage, .. } => {
                self.note(UsageSource::Summaries, model.clone(), 0, *usage);
            }
            // An imported summary has no turn: another session paid for it.
            Fact::Compacted {
                turn: Some(_),
                checkpoint,
            } if checkpoint.writer == Writer::Model => {
                let model = checkpoint.model.clone();
                self.note(UsageSource::Summaries, model, 1, Usage::NONE);
            }
            _ => {}
        }
    }

    /// Adds the usage of another session.
    pub fn add(&mut self, other: &Ledger) {
        add(&mut self.used, &other.used);
        for (day, used) in &other.by_day {
            add(self.by_day.entry(*day).or_default(), used);
        }
    }

    /// The usage of the days from `from` to `to`, inclusive.
    #[must_use]
    pub fn between(&self, from: Option<Day>, to: Option<Day>) -> Ledger {
        let mut part = Ledger::default();
        let first = from.unwrap_or(Day(i64::MIN));
        let last = to.unwrap_or(Day(i64::MAX));
        if first > last {
            return part;
        }
        for (day, used) in self.by_day.range(first..=last) {
            part.by_day.insert(*day, used.clone());
            add(&mut part.used, used);
        }
        part
    }

    /// The usage by the sources and models that `keeps` selects, of all days.
    #[must_use]
    pub fn filtered(&self, keeps: impl Fn(&UsageSource, &str) -> bool) -> Ledger {
        let of = |used: &BTreeMap<(UsageSource, Arc<str>), UsageEntry>| {
            let kept = used
                .iter()
                .filter(|((source, model), _)| keeps(source, model));
            kept.map(|(key, used)| (key.clone(), *used))
                .collect::<BTreeMap<_, _>>()
        };
        let days = self.by_day.iter().map(|(day, used)| (*day, of(used)));
        Ledger {
            used: of(&self.used),
            by_day: days.filter(|(_, used)| !used.is_empty()).collect(),
            ..Ledger::default()
        }
    }

    /// The usage of each day, the oldest first. Usage of deleted sessions has no day and is missing.
    pub fn days(&self) -> impl DoubleEndedIterator<Item = (Day, UsageEntry)> {
        self.by_day
            .iter()
            .map(|(day, used)| (*day, sum(used.values())))
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
        self.note(asker, model, u64::from(first), usage);
    }

    /// Adds what was used on the day of the newest event.
    fn note(&mut self, asker: UsageSource, model: Arc<str>, jobs: u64, usage: Usage) {
        let used = [((asker, model), UsageEntry { jobs, usage })].into();
        add(&mut self.used, &used);
        add(self.by_day.entry(self.day).or_default(), &used);
    }
}

/// Whether late output, which must be paid for, may follow: the run was cancelled, or its time was up.
fn may_have_late_output(ending: &Ending) -> bool {
    match ending {
        Ending::Cancelled => true,
        Ending::Failed { cause, .. } => *cause == RunCause::Budget,
        Ending::Finished { partial, .. } => partial.is_some(),
    }
}

fn add(
    all: &mut BTreeMap<(UsageSource, Arc<str>), UsageEntry>,
    more: &BTreeMap<(UsageSource, Arc<str>), UsageEntry>,
) {
    for (of, used) in more {
        let entry = all.entry(of.clone()).or_default();
        *entry = sum([&*entry, used].into_iter());
    }
}

fn sum<'u>(all: impl Iterator<Item = &'u UsageEntry>) -> UsageEntry {
    all.fold(UsageEntry::default(), |sum, used| UsageEntry {
        jobs: sum.jobs + used.jobs,
        usage: sum.usage + used.usage,
    })
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
    use unisono_context::{Timestamp, Tokens, TurnId};

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

    fn ended(run: u128, ending: Ending) -> Event {
        event(Fact::RunEnded {
            run: RunId::from_u128(run),
            ending: Arc::new(ending),
        })
    }

    fn finished(run: u128, usage: Usage) -> Event {
        let finished = Ending::Finished {
            text: "done".into(),
            calls: Vec::new(),
            partial: None,
            usage,
            duration_ms: 1,
            attempt_times: crate::run::AttemptTimes::default(),
        };
        ended(run, finished)
    }

    fn ledger(events: impl IntoIterator<Item = Event>) -> Ledger {
        let mut ledger = Ledger::default();
        events.into_iter().for_each(|event| ledger.take(&event));
        ledger
    }

    #[test]
    fn the_usage_of_steps_is_not_counted_again_at_the_end() {
        let ledger = ledger([
            opened(1, "risks"),
            stepped(1, None, used(100, 10, 5)),
            stepped(1, Some("b/2"), used(50, 5, 1)),
            finished(1, used(180, 20, 9)),
            opened(2, "risks"),
            stepped(2, None, used(7, 1, 0)),
            ended(2, Ending::Cancelled),
        ]);
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
            event(Fact::LateOutputReceived {
                run: RunId::from_u128(1),
                attempt: 1,
                late,
            })
        };
        let ledger = ledger([
            opened(1, "risks"),
            stepped(1, None, used(100, 10, 5)),
            ended(1, Ending::Cancelled),
            late(LateOutput::Reply(Reply {
                usage: used(20, 2, 1),
                ..Reply::default()
            })),
            late(LateOutput::Answer {
                text: "done".into(),
                partial: None,
                usage: used(130, 15, 8),
            }),
        ]);
        assert_eq!(ledger.total(), used(130, 15, 8));
    }

    #[test]
    fn what_was_used_is_known_by_day_and_a_run_over_midnight_counts_once() {
        const DAY: i64 = 86_400_000;
        let at = |at: i64, event: Event| Event {
            at: Timestamp(at),
            ..event
        };
        let ledger = ledger([
            at(-1, opened(1, "risks")),
            at(-1, stepped(1, None, used(100, 10, 5))),
            at(0, finished(1, used(150, 20, 9))),
            at(2 * DAY, opened(2, "facts")),
            at(2 * DAY, finished(2, used(7, 1, 0))),
        ]);
        let days_of = |ledger: &Ledger| -> Vec<(i64, u64, Usage)> {
            let days = ledger.days();
            days.map(|(day, used)| (day.0, used.jobs, used.usage))
                .collect()
        };
        let days = [
            (-1, 1, used(100, 10, 5)),
            (0, 0, used(50, 10, 4)),
            (2, 1, used(7, 1, 0)),
        ];
        assert_eq!(days_of(&ledger), days);
        let part = ledger.between(Some(Day(0)), Some(Day(1)));
        assert_eq!(
            (days_of(&part), part.total()),
            (days[1..2].to_vec(), used(50, 10, 4))
        );
        assert_eq!(ledger.between(Some(Day(0)), None).total(), used(57, 11, 4));
        assert_eq!(
            ledger.between(Some(Day(3)), Some(Day(1))).total(),
            Usage::NONE
        );
        let risks = |source: &UsageSource, _: &str| matches!(source, UsageSource::Agent(name) if name.as_str() == "risks");
        let part = ledger.filtered(risks);
        assert_eq!(
            (days_of(&part), part.total()),
            (days[..2].to_vec(), used(150, 20, 9))
        );
        assert_eq!(ledger.filtered(|_, _| false).days().count(), 0);
        let mut all = Ledger::default();
        all.add(&ledger);
        all.add(&ledger);
        assert_eq!(days_of(&all)[0], (-1, 2, used(200, 20, 10)));
    }

    #[test]
    fn an_unknown_price_makes_the_sum_unknown() {
        let unknown = Usage {
            cost: None,
            ..used(10, 1, 0)
        };
        let ledger = ledger([opened(1, "risks"), finished(1, unknown)]);
        assert_eq!(ledger.total().cost, None);
        assert_eq!(ledger.total().input, Tokens(10));
    }
}
