//! The automatic compaction of the next turn of a branch.

use unisono_api::compaction::{NextTurn, ratio};
use unisono_context::budget::{Budget, Budgets};
use unisono_context::compaction::Mode;
use unisono_context::policy::{Keep, Policy, Preset};
use unisono_context::topic::DecidedTopics;
use unisono_context::{MessageId, Tokens};
use unisono_model::calibration::Calibrations;
use unisono_runtime::clock;
use unisono_session::{Fact, State};

use super::super::{measure, note};
use super::Error;
use super::simulation::SimulationInput;
use crate::ask::{self, Ask, ContextInputs};
use crate::fmt;
use unisono_config::setup::Setup;

/// The compaction of a turn of the configured agents that begins now on the branch of `ask`, before
/// its context is frozen. Its input is unknown. Missing counts are made in `state`.
pub(super) fn simulate(
    (setup, learnt): (&Setup, &Calibrations),
    ask: &Ask,
    state: &mut State,
) -> Result<NextTurn, Error> {
    let branch = ask.on_branch();
    let unknown = || Error::Branch(branch.to_owned());
    let head = state.tree().head(branch).ok_or_else(unknown)?;
    let by = Ask::new("").branch(branch).context_inputs(setup, learnt)?;
    measured(setup, by, head, state)
}

/// The same for the branch that ends in `head` and a measured team.
pub(super) fn measured(
    setup: &Setup,
    by: ContextInputs,
    head: MessageId,
    state: &mut State,
) -> Result<NextTurn, Error> {
    let unknown = || Error::Branch(head.to_string());
    let measured = measure(state, Some(head), &by)?;
    let (policy, budget) = (&by.policy, &measured.budget);
    let mut state = state.clone();
    let view = state.view(head, false).ok_or_else(unknown)?;
    let before = view.effective(budget).unwrap_or_default().tokens;
    decide_topics(&mut state, head, &by, (setup, &measured.budgets))?;
    let rests = state.checkpoints().rests(state.tree(), head);
    let outlook = SimulationInput {
        head,
        pending: false,
        budgets: &measured.budgets,
        fallbacks: &measured.shares.fallback_budgets(),
        policy,
        mode: if rests { Mode::Rest } else { Mode::Check },
        now: clock::now(),
    };
    let simulation = outlook.simulate(&state, true)?;
    let view = simulation.state.view(head, false);
    let after = view.as_ref().and_then(|view| view.effective(budget));
    let after = after.unwrap_or_default().tokens;
    let kept = view.map_or(0, |view| view.items().len());
    let starts = policy.trigger_amount(budget);
    let tightened = simulation.plans.iter().any(|plan| plan.tightened);
    let steps = simulation.plans.iter().map(|plan| fmt::step(&plan.step));
    Ok(NextTurn {
        preset: policy.preset.name().to_owned(),
        starts_above_tokens: starts
            .filter(|_| policy.tiers().is_none())
            .map(|starts| starts.0),
        keeps: match policy.keep {
            Keep::Messages(asked) if tightened => {
                format!("the newest {kept} messages, {asked} are requested")
            }
            _ => keeps(policy, budget),
        },
        tokens_before: before.0,
        estimated_tokens_after: after.0,
        estimated_compression_ratio: ratio(before.0, after.0),
        steps: steps.collect(),
        tightened,
        problem: simulation.stuck.map(|error| error.to_string()),
    })
}

/// Decides the topic ends, as a turn does before it compacts. `state` is a copy.
pub(super) fn decide_topics(
    state: &mut State,
    head: MessageId,
    by: &ContextInputs,
    (setup, budgets): (&Setup, &Budgets),
) -> Result<(), Error> {
    let phrases = ask::phrases(setup, &by.team.lead);
    let view = state.view(head, false);
    let ends = view.and_then(|view| state.undecided_topics(&view, &by.policy, budgets, &phrases));
    let Some(ends) = ends else { return Ok(()) };
    let through = head;
    let decided = vec![DecidedTopics { through, ends }];
    let fact = Fact::TopicsImported {
        decided,
        sealed: Vec::new(),
        notes: Box::default(),
    };
    note(state, fact)?;
    Ok(())
}

/// The messages that a policy keeps verbatim.
fn keeps(policy: &Policy, budget: &Budget) -> String {
    let number = |tokens: Tokens| fmt::number(tokens.0);
    if policy.preset == Preset::Off {
        return "everything".to_owned();
    }
    let target = policy.target_amount(budget);
    let newest = |most| format!("the newest messages of up to {} tokens", number(most));
    match policy.keep.scaled(budget.window, target) {
        Keep::Messages(u32::MAX) => newest(target.half()),
        Keep::Messages(messages) => format!("the newest {messages} messages"),
        Keep::MessagesByWindow(messages) => {
            let more = number(Keep::least(budget.window, target));
            format!("the newest {messages} messages, and more of up to {more} tokens")
        }
        Keep::Tokens { amount, .. } | Keep::TokensByWindow { amount, .. } => newest(amount),
        Keep::ShareOfHistory(share) => {
            format!("the newest {} % of the history", f64::from(share.0) / 1e4)
        }
        Keep::UpToTarget => newest(target),
        Keep::Tiers(tiers) => {
            let amount = policy.trigger_amount(budget).unwrap_or(budget.usable);
            let [topic, topics, bulks] = tiers.shares(amount).map(number);
            format!(
                "the current topic of up to {topic} tokens; up to {topics} tokens of older topics, \
                 summarised where there are more; {bulks} of bulks, and what the others leave"
            )
        }
    }
}
