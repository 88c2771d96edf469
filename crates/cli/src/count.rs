//! Counting what a session's journal has no count of yet, for verbs that only look.

use unisono_context::budget::{Budget, Budgets};
use unisono_context::snapshot::Preamble;
use unisono_context::tokens::{Count, Ppm};
use unisono_context::{Encoding, MessageId, Timestamp};
use unisono_daemon::ask;
use unisono_model::Tokenizer;
use unisono_session::agent::{ContextMode, Team};
use unisono_session::{Event, Fact, State};

use crate::problem::{Problem, Result};

/// What a team leaves for a conversation, everything counted.
#[derive(Debug)]
pub(crate) struct Measured {
    pub(crate) preamble: Preamble,
    /// What system text costs, and what tools cost, in the lead's encoding.
    pub(crate) system: Count,
    pub(crate) tools: Count,
    pub(crate) budgets: Budgets,
    /// The lead's, or the tightest in its encoding.
    pub(crate) budget: Budget,
}

/// Counts the branch that ends in `head` in every encoding of the team. The tokenizer is loaded
/// only where something is not counted. Nothing is written.
pub(crate) fn measure(
    state: &mut State,
    head: MessageId,
    team: &Team,
    safety: Ppm,
) -> Result<Measured> {
    let preamble = Preamble::new(state.system().clone(), ask::tools_of(team));
    let shared = |agent: &&std::sync::Arc<_>| -> bool {
        let agent: &unisono_session::Definition = agent;
        agent.context == ContextMode::Snapshot
    };
    let lead = team.lead.limits;
    let delegates = team.delegates.iter().map(|d| &d.agent).filter(shared);
    let limits: Vec<_> = std::iter::once(lead)
        .chain(delegates.map(|agent| agent.limits))
        .collect();
    for limits in &limits {
        count_branch(state, head, limits.encoding)?;
        count_preamble(state, &preamble, limits.encoding)?;
    }
    let fixed = |encoding| {
        state
            .preamble_counts(&preamble)
            .get(encoding)
            .unwrap_or_default()
    };
    let each = limits
        .iter()
        .map(|l| Budget::new(*l, safety, fixed(l.encoding).at_most));
    let mut each = each.collect::<Vec<_>>().into_iter();
    let first = each
        .next()
        .unwrap_or_else(|| Budget::new(lead, safety, fixed(lead.encoding).at_most));
    let budgets = Budgets::new(first, each);
    let budget = budgets.iter().next().copied().unwrap_or(first);
    let whole = fixed(lead.encoding);
    let system = system_share(state, &preamble, whole, lead.encoding)?;
    Ok(Measured {
        system,
        tools: whole.minus(system),
        preamble,
        budgets,
        budget,
    })
}

fn count_branch(state: &mut State, head: MessageId, encoding: Encoding) -> Result<()> {
    let missing = state.tree().uncounted(head, encoding);
    if missing.is_empty() {
        return Ok(());
    }
    let ids: Vec<MessageId> = missing.iter().map(|message| message.id).collect();
    let texts: Vec<String> = missing
        .iter()
        .map(|message| message.countable_text())
        .collect();
    let counts = tokenizer(encoding)?.count_many(&texts);
    let counts = ids.into_iter().zip(counts).collect();
    note(state, Fact::Counted { encoding, counts })
}

fn count_preamble(state: &mut State, preamble: &Preamble, encoding: Encoding) -> Result<()> {
    if state.preamble_counts(preamble).get(encoding).is_some() {
        return Ok(());
    }
    let count = tokenizer(encoding)?.count(&preamble.countable_text());
    let preamble = preamble.digest();
    note(
        state,
        Fact::PreambleCounted {
            preamble,
            encoding,
            count,
        },
    )
}

/// What of the preamble's cost is the system text's.
fn system_share(
    state: &mut State,
    preamble: &Preamble,
    whole: Count,
    encoding: Encoding,
) -> Result<Count> {
    if preamble.tools().is_empty() {
        return Ok(whole);
    }
    if preamble.system().is_empty() {
        return Ok(Count::default());
    }
    let alone = Preamble::new(preamble.system().clone(), Vec::new());
    count_preamble(state, &alone, encoding)?;
    let count = state
        .preamble_counts(&alone)
        .get(encoding)
        .unwrap_or_default();
    Ok(if count.tokens > whole.tokens {
        whole
    } else {
        count
    })
}

fn tokenizer(encoding: Encoding) -> Result<Tokenizer> {
    Tokenizer::load(encoding).map_err(Problem::failed)
}

/// Folds a fact that is not written anywhere.
fn note(state: &mut State, fact: Fact) -> Result<()> {
    let event = Event {
        at: Timestamp(0),
        fact,
    };
    state
        .apply(&event)
        .map_err(|error| Problem::failed(format!("cannot count: {error}")))
}
