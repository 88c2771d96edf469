//! What a task is expected to use, before it is sent.

use std::sync::Arc;

use unisono_api::turn::{RunEstimate, TurnEstimate};
use unisono_context::tokens::Count;
use unisono_context::{Cost, Tokens};
use unisono_model::calibration::Calibrations;
use unisono_session::agent::{AgentKind, ContextMode};
use unisono_session::reserve::TeamNeeds;
use unisono_session::{Definition, State};

use super::super::{measure, tokenizer};
use super::budget_warnings::{self, MaximumUse};
use super::{Error, input, next_turn};
use crate::ask::{Ask, ContextInputs};
use crate::models;
use unisono_config::setup::Setup;

/// What the first requests of a turn are expected to use, without session and branch. Missing
/// counts are made in `state`; nothing is written.
///
/// # Errors
/// The branch or an agent is unknown, or something cannot be counted.
pub fn turn(
    setup: &Setup,
    learnt: &Calibrations,
    (ask, task): (&Ask, &str),
    state: &mut State,
) -> Result<TurnEstimate, Error> {
    let by = ask.context_inputs(setup, learnt)?;
    let head = state.tree().head(ask.on_branch());
    let measured = measure(state, head, &by)?;
    let overflow = input::problem(setup, &by, (ask.on_branch(), task), state)?;
    let next = head.map(|head| next_turn::measured(setup, by.clone(), head, state));
    let next = next.transpose()?;
    let next_before = next.as_ref().map_or(0, |next| next.tokens_before);
    let next_after = next.as_ref().map_or(0, |next| next.estimated_tokens_after);
    let digests: Vec<_> = by.team.definitions().map(|agent| agent.digest()).collect();
    let needs = TeamNeeds::new(&by.team, digests, &measured.preamble, None, by.delegation);
    let said = TurnInputs {
        setup,
        state,
        needs: &needs,
        preamble: &measured.preamble,
        before: next_before,
        after: next_after,
        head,
        task,
    };
    let task_tokens = said.counted(&by.team.lead, task)?;
    let mut runs: Vec<RunEstimate> = Vec::new();
    for delegate in &by.team.delegates {
        let own = delegate.task.as_deref();
        runs.push(said.run(&delegate.agent, "delegate", own, &runs)?);
    }
    runs.push(said.run(&by.team.lead, "lead", None, &runs)?);
    let refused = models::check(setup, &by.team)
        .err()
        .map(|error| error.to_string());
    let unpriced = models::check_prices(setup, &by.team).err();
    let problem = refused.or(unpriced.map(|error| error.to_string()));
    let needed = MaximumUse::of_runs(&runs);
    Ok(TurnEstimate {
        warnings: budget_warnings::of_session((setup, &by.team), state, &runs, needed),
        session: String::new(),
        branch: String::new(),
        task_tokens: task_tokens.tokens.0,
        context_tokens: next_before,
        context_tokens_after: next_after,
        problem: next
            .as_ref()
            .and_then(|next| next.problem.clone())
            .or(overflow)
            .or(problem),
        steps: next.map(|next| next.steps).unwrap_or_default(),
        input_tokens: runs.iter().map(|run| run.input_tokens).sum(),
        max_output_tokens: runs.iter().map(|run| run.max_output_tokens).sum(),
        input_cost_usd: total(runs.iter().map(|run| run.input_cost_usd)),
        max_cost_usd: needed.cost_usd,
        approximate: is_estimated(setup, &by),
        runs,
    })
}

/// The sum of costs; one that is unknown makes it unknown. An empty sum is -0.0.
fn total(costs: impl Iterator<Item = Option<f64>>) -> Option<f64> {
    costs.sum::<Option<f64>>().map(|sum| sum + 0.0)
}

/// Whether the tokens of a model of the team are only estimated.
fn is_estimated(setup: &Setup, by: &ContextInputs) -> bool {
    let mut models = by.team.definitions().map(|agent| &*agent.model);
    let catalogue = &setup.loaded.catalogue;
    models.any(|model| {
        catalogue
            .get(None, model)
            .is_ok_and(|entry| entry.estimated)
    })
}

/// What is sent to the agents of a turn.
struct TurnInputs<'s> {
    setup: &'s Setup,
    state: &'s State,
    needs: &'s TeamNeeds,
    preamble: &'s unisono_context::snapshot::Preamble,
    /// Tokens of the context before and after its compaction, in the lead's encoding.
    before: u64,
    after: u64,
    head: Option<unisono_context::MessageId>,
    task: &'s str,
}

impl TurnInputs<'_> {
    /// The first request of an agent, after those of other runs.
    fn run(
        &self,
        agent: &Arc<Definition>,
        role: &str,
        own: Option<&str>,
        before: &[RunEstimate],
    ) -> Result<RunEstimate, Error> {
        let estimate = RunEstimate {
            agent: agent.id.to_string(),
            role: role.to_owned(),
            model: None,
            input_tokens: 0,
            shared_tokens: 0,
            max_output_tokens: 0,
            input_cost_usd: None,
            max_cost_usd: None,
        };
        match agent.kind {
            AgentKind::Llm => {}
            // A pipeline without a model uses no tokens. The usage of a program is unknown.
            AgentKind::Pipeline => {
                return Ok(RunEstimate {
                    input_cost_usd: Some(0.0),
                    max_cost_usd: Some(0.0),
                    ..estimate
                });
            }
            _ => return Ok(estimate),
        }
        let shared = match agent.context {
            ContextMode::TaskOnly => Tokens::ZERO,
            ContextMode::Snapshot => self.shared(agent)?,
        };
        let role_and_task = match self.state.assignment_tokens(self.needs, agent.digest()) {
            Some(tokens) => tokens,
            None => {
                let text = format!("{}\n{}", agent.instructions, own.unwrap_or(self.task));
                self.counted(agent, &text)?.tokens
            }
        };
        let input = shared + role_and_task;
        let output = agent.limits.max_output;
        let same = |run: &&RunEstimate| run.model.as_deref() == Some(&*agent.model);
        let is_known = before.iter().any(|run| same(&run));
        let entry = self.setup.loaded.catalogue.get(None, &agent.model).ok();
        let prices = entry.map(|entry| entry.prices);
        let paid = prices.and_then(|prices| Some(prices.input?.cost_of(input)));
        let reply = prices.and_then(|prices| Some(prices.output?.cost_of(output)));
        let usd = |cost: Cost| cost.micro_dollars() as f64 / 1e6;
        Ok(RunEstimate {
            model: Some(agent.model.to_string()),
            input_tokens: input.0,
            shared_tokens: if is_known { shared.0 } else { 0 },
            max_output_tokens: output.0,
            input_cost_usd: paid.map(usd),
            max_cost_usd: paid.zip(reply).map(|(paid, reply)| usd(paid + reply)),
            ..estimate
        })
    }

    /// System text, tools, context and the turn's task, in the encoding of an agent.
    fn shared(&self, agent: &Definition) -> Result<Tokens, Error> {
        let (encoding, overhead) = (agent.limits.encoding, agent.limits.per_message);
        let preamble = self.state.preamble_counts(self.preamble).get(encoding);
        let task = self.counted(agent, self.task)?.tokens + overhead;
        Ok(preamble.unwrap_or_default().tokens + self.context(agent) + task)
    }

    /// The context after its compaction, in the encoding of an agent: what is saved is known in
    /// that of the lead, and taken for the same part of it.
    fn context(&self, agent: &Definition) -> Tokens {
        let budget = unisono_context::budget::Budget {
            encoding: agent.limits.encoding,
            window: agent.limits.window,
            usable: agent.limits.window,
            per_message: agent.limits.per_message,
            files: agent.limits.files,
        };
        let view = self.head.and_then(|head| self.state.view(head, false));
        let now = view.and_then(|view| view.effective(&budget));
        let now = now.unwrap_or_default().tokens;
        match self.after < self.before {
            true => Tokens(
                (u128::from(now.0) * u128::from(self.after) / u128::from(self.before)) as u64,
            ),
            false => now,
        }
    }

    fn counted(&self, agent: &Definition, text: &str) -> Result<Count, Error> {
        if text.is_empty() {
            return Ok(Count::default());
        }
        Ok(tokenizer(agent.limits.encoding)?.count(text))
    }
}
