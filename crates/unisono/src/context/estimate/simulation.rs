//! The outcome of planned steps. Each is applied to a copy of the session's state, with summaries
//! of maximum length; no model is called and nothing is written.

use unisono_context::alteration::{Alteration, altered_parts};
use unisono_context::budget::Budgets;
use unisono_context::checkpoint::{Body, Checkpoint, Writer};
use unisono_context::compaction::{self, Mode, NewSummary, Plan};
use unisono_context::message::Part;
use unisono_context::policy::Policy;
use unisono_context::tokens::{Count, Counts};
use unisono_context::view::View;
use unisono_context::{CheckpointId, Encoding, MessageId, Timestamp};
use unisono_session::turn::COMPACTION_STEPS_MAX;
use unisono_session::{Fact, State};

use super::super::{note, tokenizer};
use super::{Error, most};

pub(super) struct Simulation {
    /// In this order.
    pub(super) plans: Vec<Plan>,
    /// The state after them.
    pub(super) state: State,
    /// Why there is no further step, if that is a failure.
    pub(super) stuck: Option<compaction::Error>,
}

pub(super) struct SimulationInput<'o> {
    pub(super) head: MessageId,
    /// Whether `head` is an input that waits for its answer.
    pub(super) pending: bool,
    pub(super) budgets: &'o Budgets,
    /// The budgets that are tried in this order if the context cannot satisfy these.
    pub(super) fallbacks: &'o [Budgets],
    pub(super) policy: &'o Policy,
    pub(super) mode: Mode,
    pub(super) now: Timestamp,
}

impl SimulationInput<'_> {
    /// The steps up to the first that makes a checkpoint, as in a compaction on request, or all of
    /// them.
    pub(super) fn simulate(&self, state: &State, all: bool) -> Result<Simulation, Error> {
        let mut simulation = Simulation {
            plans: Vec::new(),
            state: state.clone(),
            stuck: None,
        };
        let mut mode = self.mode;
        while simulation.plans.len() < COMPACTION_STEPS_MAX as usize {
            let Some(view) = simulation.state.view(self.head, self.pending) else {
                break;
            };
            let plan = match self.plan(&view, mode) {
                Ok(plan) => {
                    let first = all && simulation.plans.is_empty();
                    match first
                        .then(|| self.masks(&view, plan.is_some()))
                        .flatten()
                        .or(plan)
                    {
                        Some(plan) => plan,
                        None => break,
                    }
                }
                Err(error) => {
                    simulation.stuck = Some(error);
                    break;
                }
            };
            let before = view.effective(&plan.budget);
            let fact = self.carried_out(&view, &plan)?;
            note(&mut simulation.state, fact)?;
            let view = simulation.state.view(self.head, self.pending);
            let after = view.and_then(|view| view.effective(&plan.budget));
            let last = !all && plan.step.cover().is_some();
            let budget = plan.budget;
            simulation.plans.push(plan);
            // A step that does not shrink the context is not committed.
            let shrinks = before.zip(after).is_some_and(|(before, after)| {
                compaction::shrinks(before, after) || before.tokens <= budget.usable
            });
            if last || !shrinks {
                break;
            }
            if matches!(mode, Mode::Check | Mode::Rest) {
                mode = Mode::Continue;
            }
        }
        Ok(simulation)
    }

    /// The next step under the first budgets that the context can satisfy, as in a turn.
    fn plan(&self, view: &View<'_>, mode: Mode) -> Result<Option<Plan>, compaction::Error> {
        let plan = |budgets: &Budgets| compaction::plan(view, budgets, self.policy, mode, self.now);
        let mut planned = plan(self.budgets);
        for budgets in self.fallbacks {
            if !matches!(planned, Err(compaction::Error::Overflow { .. })) {
                break;
            }
            planned = plan(budgets);
        }
        planned
    }

    /// The masks of delegates' results with which a turn begins: instead of a compaction that is `due`
    /// and that they make unnecessary, or where neither a compaction nor a repair is due.
    fn masks(&self, view: &View<'_>, due: bool) -> Option<Plan> {
        let begins = match due {
            true => matches!(self.mode, Mode::Check),
            false => {
                let repair = compaction::repair(view, self.budgets, self.policy, self.now);
                !matches!(self.mode, Mode::Rest) && repair.is_none()
            }
        };
        begins
            .then(|| compaction::mask_delegated(view, self.budgets, self.policy))
            .flatten()
    }

    /// The fact that a turn would record for a step.
    fn carried_out(&self, view: &View<'_>, plan: &Plan) -> Result<Fact, Error> {
        let number = view.checkpoints().next_number();
        let Some(cover) = plan.step.cover() else {
            return Ok(Fact::Altered {
                turn: None,
                alterations: self.alterations(view, plan)?,
            });
        };
        let tokens = most(plan)?;
        let summary = !matches!(plan.step, compaction::Step::Drop { .. });
        let made = NewSummary {
            // An id that no session has: it is temporary.
            id: CheckpointId::from_u128(u128::from(number)),
            writer: Writer::Deterministic,
            model: "none".into(),
            body: match summary {
                true => Body::Summary("".into()),
                false => Body::Tombstone,
            },
            key_facts: Vec::new(),
            counts: Encoding::ALL
                .into_iter()
                .map(|encoding| (encoding, Count::exact(tokens.0)))
                .collect(),
            cost_micros: None,
            duration_ms: 0,
            degraded: false,
            at: self.now,
            coverage: None,
        };
        let (kind, preset) = (self.mode.kind(), self.policy.preset);
        let made = Checkpoint::from_step(&plan.step, view, kind, preset, made);
        let beside = || compaction::Error::Overflow {
            needed: cover.original,
            usable: plan.budget.usable,
            window: plan.budget.window,
        };
        Ok(Fact::Compacted {
            turn: None,
            checkpoint: made.ok_or_else(beside)?.into(),
        })
    }

    fn alterations(&self, view: &View<'_>, plan: &Plan) -> Result<Vec<Alteration>, Error> {
        let mut made = Vec::new();
        for (message, ordinal, form) in plan.step.forms() {
            let Some(node) = view.tree().get(message) else {
                continue;
            };
            let parts = altered_parts(&node.message, form);
            let texts: Vec<_> = parts.iter().map(|part| part.countable_text()).collect();
            let text = texts.join("\n");
            let beside: Count = parts.iter().map(Part::tokens_beside_text).sum();
            let mut counts = Counts::default();
            for budget in self.budgets.iter() {
                let count = tokenizer(budget.encoding)?.count(&text);
                counts.set(budget.encoding, count + beside);
            }
            made.push(Alteration {
                message,
                ordinal,
                form,
                counts,
            });
        }
        Ok(made)
    }
}
