//! The context of a branch, for display.
//!
//! Counts that are missing in a session's journal are made here; nothing is written.

mod counted;
pub mod estimate;
pub mod pins;
pub mod sections;
pub mod sizes;
pub mod topics;
mod usable;

use std::sync::Arc;

use unisono_config::skills::TOOL;
use unisono_context::budget::{Budget, Budgets};
use unisono_context::checkpoint::{Body, Checkpoint, block_text};
use unisono_context::compaction::{self, Mode};
use unisono_context::message::Part;
use unisono_context::snapshot::{Entry, Preamble, Snapshot, ToolSpec};
use unisono_context::tokens::{Count, Counts};
use unisono_context::{Digest, Encoding, MessageId, Ppm, Timestamp, Tokens};
use unisono_model::Tokenizer;
use unisono_runtime::tools;
use unisono_session::agent::ContextMode;
use unisono_session::reserve::TeamNeeds;
use unisono_session::state::{MAIN, full_system_text};
use unisono_session::turn::Phase;
use unisono_session::{Definition, Event, Fact, State};

use crate::ask::{self, ContextInputs};
use crate::skill_tool;
use usable::Share;
pub use usable::Shares;

/// Why it cannot be counted.
#[derive(Debug, thiserror::Error)]
#[error("cannot count: {0}")]
pub struct Error(String);

type Result<T> = std::result::Result<T, Error>;

/// The counted limits of a team for a conversation.
#[derive(Debug)]
#[non_exhaustive]
pub struct TeamLimits {
    /// System text and tools.
    pub preamble: Preamble,
    /// Tokens of the system text, in the lead's encoding.
    pub system: Count,
    /// Tokens of the tools.
    pub tools: Count,
    /// The share of each relevant agent: the lead, and the agents that get the context and can hold
    /// its required part.
    pub shares: Shares,
    /// The budgets that the context must satisfy.
    pub budgets: Budgets,
    /// The lead's budget, or the tightest in its encoding.
    pub budget: Budget,
}

/// The end of a branch, which is absent before its first message; none: there is no such branch.
pub fn tip(state: &State, branch: &str) -> Option<Option<MessageId>> {
    let head = state.tree().head(branch);
    let is_first = state.tree().is_empty() && branch == MAIN;
    (head.is_some() || is_first).then_some(head)
}

/// Counts the branch that ends in `head`, if it has messages, in every encoding of the team. The
/// tokenizer is loaded only if something is not counted. Nothing is written. Agents that are too
/// small for the part that must stay under the policy are ignored, as in a turn.
pub fn measure(
    state: &mut State,
    head: Option<MessageId>,
    by: &ContextInputs,
) -> Result<TeamLimits> {
    let team = &by.team;
    let system = full_system_text(state.system(), &by.instructions);
    let preamble = Preamble::new(system, tools(state, by));
    let lead = team.lead.limits;
    let others = team.definitions().skip(1);
    let shared = others.filter(|agent| agent.context == ContextMode::Snapshot);
    let members: Vec<_> = std::iter::once(&team.lead).chain(shared).collect();
    for agent in &members {
        if let Some(head) = head {
            count_branch(state, head, agent.limits.encoding)?;
        }
        count_preamble(state, &preamble, agent.limits.encoding)?;
    }
    let digests: Vec<Digest> = team.definitions().map(|agent| agent.digest()).collect();
    let needs = TeamNeeds::new(team, digests, &preamble, None, by.delegation);
    count_roles(state, &needs, &members)?;
    let counts = state.preamble_counts(&preamble);
    let fixed = |encoding| counts.get(encoding).unwrap_or_default();
    let share = |agent: &Arc<Definition>| {
        let preamble = fixed(agent.limits.encoding).at_most;
        Share::new(agent, state, (&needs, preamble), by)
    };
    let first = share(&team.lead);
    let each = members.iter().skip(1).map(|agent| share(agent));
    let view = head.and_then(|head| state.view(head, false));
    let holds = |share: &Share| {
        let budget = &share.least;
        let holds = |view| compaction::holds(view, budget, &by.policy, Mode::Check, Timestamp(0));
        view.as_ref().and_then(holds).unwrap_or(true)
    };
    let shares = Shares {
        others: each.filter(holds).collect(),
        lead: first,
    };
    let budgets = shares.budgets();
    let budget = budgets.iter().next().copied();
    let budget = budget.unwrap_or(shares.lead.budget);
    let whole = fixed(lead.encoding);
    let system = system_share(state, &preamble, whole, lead.encoding)?;
    Ok(TeamLimits {
        system,
        tools: whole.minus(system),
        preamble,
        shares,
        budgets,
        budget,
    })
}

/// The tools of the team. Servers are not queried here: the tools that were offered to the newest
/// turn count. The tool `skill` depends on the current skills.
fn tools(state: &State, by: &ContextInputs) -> Vec<ToolSpec> {
    let is_offered =
        |tool: &&ToolSpec| *tool.name != *TOOL && !tools::BUILT_IN.contains(&&*tool.name);
    let skill = by.reads_skills.then(skill_tool::spec);
    let offered = state.newest_tools().iter().filter(is_offered);
    ask::tools_of(&by.team, by.recall, offered.chain(&skill))
}

fn count_branch(state: &mut State, head: MessageId, encoding: Encoding) -> Result<()> {
    let missing = state.tree().uncounted(head, encoding);
    if missing.is_empty() {
        return Ok(());
    }
    let counts = counted::counts(&missing, encoding)?;
    note(state, Fact::Counted { encoding, counts })
}

fn count_preamble(state: &mut State, preamble: &Preamble, encoding: Encoding) -> Result<()> {
    if state.preamble_counts(preamble).get(encoding).is_some() {
        return Ok(());
    }
    let (digest, text) = (preamble.digest(), preamble.countable_text());
    count_text(state, digest, encoding, &text)
}

fn count_text(state: &mut State, preamble: Digest, encoding: Encoding, text: &str) -> Result<()> {
    let count = tokenizer(encoding)?.count(text);
    note(
        state,
        Fact::PreambleCounted {
            preamble,
            encoding,
            count,
        },
    )
}

/// Counts the roles of agents, which are outside the context.
fn count_roles(state: &mut State, needs: &TeamNeeds, agents: &[&Arc<Definition>]) -> Result<()> {
    for agent in agents {
        let encoding = agent.limits.encoding;
        for (preamble, text) in state.uncounted_roles(needs, encoding) {
            count_text(state, preamble, encoding, &text)?;
        }
    }
    Ok(())
}

/// The system text's part of the preamble's cost.
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

/// Parts that are counted for display alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct ContextExtras {
    /// Tokens of the list of skills, which is a part of the system text.
    pub skills: u64,
    /// Messages and tasks that wait for the end of the current turn of the branch, and their tokens.
    pub pending: (u32, u64),
}

impl ContextExtras {
    /// Counts them.
    ///
    /// # Errors
    /// The tokenizer cannot be loaded.
    pub fn new(
        state: &State,
        branch: &str,
        skills: &str,
        by: &BranchContext,
    ) -> Result<ContextExtras> {
        let posted = state.waiting_messages(branch).iter();
        let posted = posted.map(|message| {
            let texts = message.parts.iter().map(Part::countable_text);
            texts.collect::<Vec<_>>().join("\n")
        });
        let queued = state
            .open_turns()
            .filter(|turn| turn.phase == Phase::Queued && *turn.accepted.branch == *branch);
        let tasks = queued.filter_map(|turn| turn.accepted.work.input_text());
        let texts: Vec<String> = posted.chain(tasks.map(|task| task.to_string())).collect();
        if texts.is_empty() && skills.is_empty() {
            return Ok(ContextExtras::default());
        }
        let tokenizer = tokenizer(by.encoding)?;
        let tokens = |text: &str| tokenizer.count(text).tokens.0;
        let overhead = by.measured.budget.per_message.0;
        let pending = texts.iter().map(|text| tokens(text) + overhead).sum();
        Ok(ContextExtras {
            skills: tokens(skills),
            pending: (u32::try_from(texts.len()).unwrap_or(u32::MAX), pending),
        })
    }
}

/// Tokens of the block of a checkpoint with another text, in every encoding.
pub(crate) fn block_counts(checkpoint: &Checkpoint, text: &str) -> Result<Counts> {
    let body = Body::Summary(text.into());
    let block = block_text(&checkpoint.covers, &body, &checkpoint.key_facts);
    let counted = Encoding::ALL.into_iter().map(|encoding| {
        let count = tokenizer(encoding)?.count(&block);
        Ok((encoding, count))
    });
    counted.collect()
}

fn tokenizer(encoding: Encoding) -> Result<Tokenizer> {
    Tokenizer::load(encoding).map_err(|error| Error(error.to_string()))
}

/// Folds a fact without writing it to the journal.
fn note(state: &mut State, fact: Fact) -> Result<()> {
    let event = Event {
        at: Timestamp(0),
        fact,
    };
    state
        .apply(&event)
        .map_err(|error| Error(error.to_string()))
}

/// The context of a branch.
#[derive(Debug)]
#[non_exhaustive]
pub struct BranchContext {
    /// The snapshot that a turn without new input would freeze.
    pub snapshot: Snapshot,
    /// The counted limits for it.
    pub measured: TeamLimits,
    /// Its tokens.
    pub used: Count,
    /// The encoding of these counts.
    pub encoding: Encoding,
}

impl BranchContext {
    /// The context of the branch that ends in `head`, counted; without a head, of a conversation
    /// without messages.
    ///
    /// # Errors
    /// There is no such message, or something cannot be counted.
    pub fn new(
        state: &mut State,
        head: Option<MessageId>,
        by: &ContextInputs,
    ) -> Result<BranchContext> {
        let measured = measure(state, head, by)?;
        let Some(head) = head else {
            return Ok(BranchContext {
                snapshot: Snapshot::empty(measured.preamble.clone()),
                encoding: measured.budget.encoding,
                measured,
                used: Count::default(),
            });
        };
        let missing = || Error(format!("there is no message {head}"));
        let view = state.view(head, false).ok_or_else(missing)?;
        let used = view.effective(&measured.budget);
        let used = used.ok_or_else(|| Error("a summary of this branch is not counted".into()))?;
        Ok(BranchContext {
            snapshot: Snapshot::freeze(&view, measured.preamble.clone()),
            encoding: measured.budget.encoding,
            measured,
            used,
        })
    }

    /// Its tokens as a percentage of the usable tokens.
    pub fn percent(&self) -> u64 {
        self.used.tokens.0.saturating_mul(100) / self.measured.budget.usable.0.max(1)
    }
}

/// The budgets of these agents for counts alone, one per encoding, the first agent's encoding first; none
/// without agents.
pub(crate) fn counting_budgets<'d>(
    agents: impl IntoIterator<Item = &'d Arc<Definition>>,
) -> Option<Budgets> {
    let each = agents.into_iter();
    let mut each = each.map(|agent| Budget::new(agent.limits, Ppm(0), Tokens::ZERO));
    Some(Budgets::new(each.next()?, each))
}

/// The budget under which a frozen context is counted, in the encoding of the turn's lead, with its files as
/// the models of the lead and of these agents get them; none if the lead is not recorded.
pub(crate) fn frozen_budget(
    state: &State,
    lead: Digest,
    others: impl IntoIterator<Item = Digest>,
) -> Option<Budget> {
    let others = others.into_iter();
    let others = others.filter_map(|digest| state.definition(digest));
    let agents = std::iter::once(state.definition(lead)?).chain(others);
    counting_budgets(agents)?.iter().next().copied()
}

/// A message in its form, counted under a budget.
pub(crate) fn entry_count(state: &State, entry: &Entry, budget: &Budget) -> Count {
    let message = entry.message();
    let Some(node) = state.tree().get(message.id) else {
        return Count::default();
    };
    let altered = state.alterations().get(message.ordinal, message.id);
    // A pinned message is complete.
    let altered = altered.filter(|_| entry.form().is_some());
    let altered = altered.and_then(|alteration| alteration.count(node, budget));
    altered.or_else(|| node.count(budget)).unwrap_or_default()
}

/// The text of a message as a model sees it.
pub fn entry_text(entry: &Entry) -> String {
    let parts = entry.parts();
    let texts: Vec<_> = parts.iter().map(|part| part.countable_text()).collect();
    texts.join("\n")
}
