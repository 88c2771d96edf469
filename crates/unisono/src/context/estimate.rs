//! The expected outcome of a requested compaction, of the next turn's automatic one, or of
//! reverting a checkpoint, without carrying it out.

pub(crate) mod budget_warnings;
mod input;
mod next_turn;
mod revert;
mod simulation;
mod turn;

use std::collections::BTreeSet;

use unisono_api::compaction as api;
use unisono_context::checkpoint::{Body, Writer, block_text};
use unisono_context::compaction::{self, ContextPart, Mode, Plan, Step};
use unisono_context::policy::Policy;
use unisono_context::view::{MessageStatus, View};
use unisono_context::{Cost, MessageId, Ordinal, Tokens};
use unisono_model::Tokenizer;
use unisono_model::calibration::Calibrations;
use unisono_model::catalogue::EXTRACTIVE;
use unisono_runtime::clock;
use unisono_session::State;
use unisono_session::event::Work;

use super::{measure, tokenizer};
use crate::ask::{Ask, ContextInputs, check_chosen};
use crate::fmt;
use budget_warnings::MaximumUse;
use next_turn::decide_topics;
pub(crate) use revert::revert;
use simulation::SimulationInput;
pub use turn::turn;
use unisono_config::agents;
use unisono_config::setup::Setup;
use unisono_config::summarisers::{self, SummariserUnavailable};

/// Why there is no estimate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The branch does not exist.
    #[error("there is no branch {0:?}")]
    Branch(String),
    /// The message that names the part to compact does not exist.
    #[error("the branch has no message {message}: its last message is {last}")]
    Message {
        /// The named message.
        message: Ordinal,
        /// The newest message.
        last: Ordinal,
    },
    /// A requested agent does not fit.
    #[error(transparent)]
    Agents(#[from] agents::Error),
    /// Something cannot be counted.
    #[error(transparent)]
    Count(#[from] super::Error),
    /// The requested summariser is unavailable.
    #[error(transparent)]
    Summariser(#[from] SummariserUnavailable),
    /// The context cannot be made to fit.
    #[error(transparent)]
    Plan(#[from] compaction::Error),
}

/// The expected outcome of the requested compaction, without session and branch, and its maximum
/// use. Missing counts are made in `state`; nothing is written.
///
/// # Errors
/// The branch or an agent is unknown, something cannot be counted, or nothing would fit.
pub(crate) fn simulate(
    setup: &Setup,
    learnt: &Calibrations,
    ask: &Ask,
    state: &mut State,
) -> Result<(api::Estimate, MaximumUse), Error> {
    let unknown = || Error::Branch(ask.on_branch().to_owned());
    let head = head(state, ask)?;
    let by = ask.context_inputs(setup, learnt)?;
    check_chosen(setup, ask, &by.team, &by.policy)?;
    let measured = measure(state, Some(head), &by)?;
    let next_turn = next_turn::simulate((setup, learnt), ask, state)?;
    let mut state = state.clone();
    if let Mode::Part(_) = ask.mode() {
        decide_topics(&mut state, head, &by, (setup, &measured.budgets))?;
    }
    let ContextInputs { team, policy, .. } = by;
    let view = state.view(head, false).ok_or_else(unknown)?;
    let before = view.effective(&measured.budget).unwrap_or_default().tokens;
    // As a turn does: up to the step that makes a checkpoint.
    let policy = Policy {
        masking: None,
        ..policy
    };
    let outlook = SimulationInput {
        head,
        pending: false,
        budgets: &measured.budgets,
        fallbacks: &measured.shares.fallback_budgets(),
        policy: &policy,
        mode: ask.mode(),
        now: clock::now(),
    };
    let simulation = outlook.simulate(&state, false)?;
    if let (true, Some(error)) = (simulation.plans.is_empty(), simulation.stuck) {
        return Err(error.into());
    }
    let after = simulation.state.view(head, false).ok_or_else(unknown)?;
    let after = after.effective(&measured.budget).unwrap_or_default().tokens;
    let chosen = (&*team.lead.model, ask.summariser());
    let needed = maximum_use(setup, chosen, &simulation.plans)?;
    let (summarised, shortened) = affected(&simulation.plans);
    let step = steps(&simulation.plans);
    let estimate = api::Estimate {
        session: String::new(),
        branch: String::new(),
        total_messages: view.len().0,
        messages_to_summarise: summarised,
        messages_to_shorten: shortened,
        tokens_before: before.0,
        estimated_tokens_after: after.0,
        estimated_compression_ratio: api::ratio(before.0, after.0),
        estimated_cost_usd: needed.cost_usd,
        no_change_reason: step.is_none().then(|| no_change_reason(&view, ask.mode())),
        warnings: budget_warnings::of_session((setup, &team), &state, &[], needed),
        step,
        next_turn,
    };
    Ok((estimate, needed))
}

/// The newest message of the requested branch.
///
/// # Errors
/// There is no such branch, or it does not have the message that names the part to compact.
pub(crate) fn head(state: &State, ask: &Ask) -> Result<MessageId, Error> {
    let unknown = || Error::Branch(ask.on_branch().to_owned());
    let head = state.tree().head(ask.on_branch()).ok_or_else(unknown)?;
    let last = state.tree().get(head).ok_or_else(unknown)?.ordinal();
    match ask.mode() {
        Mode::Part(ContextPart::Topic { message })
            if !(Ordinal::FIRST..=last).contains(&message) =>
        {
            Err(Error::Message { message, last })
        }
        _ => Ok(head),
    }
}

/// Why an ended compaction on request changed nothing on its branch.
pub fn reason_for_no_step(state: &State, branch: &str, work: &Work) -> Option<String> {
    let mode = match work {
        Work::Compact { keep, .. } => Mode::Manual { keep: *keep },
        Work::CompactPart { part, .. } => Mode::Part(*part),
        _ => return None,
    };
    let view = state.view(state.tree().head(branch)?, false)?;
    Some(no_change_reason(&view, mode))
}

/// Why nothing can be made smaller, if so.
fn no_change_reason(view: &View<'_>, mode: Mode) -> String {
    match mode {
        Mode::Part(ContextPart::Topic { message }) => {
            let is_covered = || matches!(view.status(message), Some(MessageStatus::Covered(_)));
            let why = match view.topic_of(message) == view.current_topic() {
                true => "still open: seal it first",
                false if is_covered() => "already summarised",
                false => "as short as a summary of it",
            };
            format!("the topic of {message} is {why}")
        }
        Mode::Part(ContextPart::Attention) => {
            "too little lies between the first and the last message of the current topic".to_owned()
        }
        Mode::Part(ContextPart::Large { .. }) => "no verbatim message is too large".to_owned(),
        Mode::Manual { .. } | Mode::Check | Mode::Rest | Mode::Continue | Mode::Requested => {
            "all remaining messages must stay".to_owned()
        }
    }
}

/// The steps for people; none without a plan.
fn steps(plans: &[Plan]) -> Option<String> {
    let steps = plans.iter().map(|plan| fmt::step(&plan.step));
    let steps: Vec<String> = steps.collect();
    (!steps.is_empty()).then(|| steps.join("; "))
}

/// The numbers of messages that plans summarise for the first time, and that they mask or cut.
fn affected(plans: &[Plan]) -> (u64, u64) {
    let covers = plans.iter().filter_map(|plan| plan.step.cover());
    let fresh = covers.flat_map(|cover| &cover.fresh);
    let forms = plans.iter().map(|plan| plan.step.forms());
    let shortened: BTreeSet<_> = forms.flatten().map(|(message, ..)| message).collect();
    let summarised = fresh.map(|span| u64::from(span.len())).sum();
    (summarised, shortened.len() as u64)
}

/// The maximum use of the first summariser.
fn maximum_use(
    setup: &Setup,
    chosen: (&str, Option<&str>),
    plans: &[Plan],
) -> Result<MaximumUse, Error> {
    let (original, written) = summary_tokens(plans)?;
    let tokens = (original + written).times(asks_model(setup, chosen).into());
    let cost = cost(setup, chosen, original, written);
    Ok(MaximumUse::of_summary(tokens, cost))
}

/// The tokens that summarisers read, and the most that they write.
fn summary_tokens(plans: &[Plan]) -> Result<(Tokens, Tokens), Error> {
    let (mut read, mut written) = (Tokens::ZERO, Tokens::ZERO);
    for plan in plans {
        let (Step::Summarise {
            cover,
            writer: Writer::Model,
            ..
        }
        | Step::Regenerate { cover, .. }) = &plan.step
        else {
            continue;
        };
        read += cover.original;
        written += most(plan)?;
    }
    Ok((read, written))
}

/// Maximum tokens of the text of a plan's block.
fn most(plan: &Plan) -> Result<Tokens, Error> {
    match &plan.step {
        Step::Summarise { cover, cap, .. } => Ok((*cap).min(cover.original)),
        Step::Regenerate { cap, .. } => Ok(*cap),
        Step::Drop { cover } => {
            let note = block_text(&cover.spans, &Body::Tombstone, &[]);
            let tokenizer: Tokenizer = tokenizer(plan.budget.encoding)?;
            Ok(tokenizer.count(&note).at_most)
        }
        Step::Mask(_) | Step::Cut { .. } | Step::Truncate { .. } => Ok(Tokens::ZERO),
    }
}

/// Whether a model writes the summary.
fn asks_model(setup: &Setup, (lead, chosen): (&str, Option<&str>)) -> bool {
    match chosen {
        Some(name) => name != EXTRACTIVE,
        None => !summarisers::models(&setup.loaded, lead).is_empty(),
    }
}

/// The cost of the first summariser; none if its price is unknown.
fn cost(
    setup: &Setup,
    (lead, chosen): (&str, Option<&str>),
    input: Tokens,
    output: Tokens,
) -> Option<Cost> {
    let catalogue = &setup.loaded.catalogue;
    let first = match chosen {
        Some(name) => catalogue.get(None, name).ok(),
        None => summarisers::models(&setup.loaded, lead).into_iter().next(),
    };
    let quotes = || catalogue.get(None, EXTRACTIVE).ok();
    let prices = first.or_else(quotes)?.prices;
    Some(prices.input?.cost_of(input) + prices.output?.cost_of(output))
}
