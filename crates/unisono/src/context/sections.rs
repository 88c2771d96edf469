//! A context in the types of the API.

use std::sync::Arc;

use unisono_api::context::{Context, ContextMessage, PreparedSummary, Summary, Tool};
use unisono_api::session::Preview;
use unisono_context::alteration::Form;
use unisono_context::budget::Budget;
use unisono_context::checkpoint::Body;
use unisono_context::snapshot::Preamble;
use unisono_context::{Encoding, Snapshot};
use unisono_runtime::mcp::server_of;
use unisono_session::State;
use unisono_session::event::{Preparation, PreparationStatus};
use unisono_session::machine::WrittenSummary;

use super::topics::{self, loads};
use super::{BranchContext, ContextExtras, entry_count, entry_text};
use crate::ask::{ContextInputs, servers_of};
use crate::values::instant;

/// The context of a branch, by section. `state` is the state from which it was made, `by` the
/// inputs with which it was measured.
pub fn to_api(
    shown: &BranchContext,
    extra: &ContextExtras,
    state: &State,
    branch: &str,
    by: &ContextInputs,
) -> Context {
    let (measured, budget) = (&shown.measured, &shown.measured.budget);
    let tokens = Tokens { state, budget };
    let head = state.tree().head(branch);
    let view = head.and_then(|head| state.view(head, false));
    let tiers = view.map_or_else(Vec::new, |view| loads(&view, &by.policy, budget));
    let session = state.id().map(|id| id.to_string()).unwrap_or_default();
    let topics = topics::to_api(state, branch).unwrap_or_default();
    let url = format!("/v1/sessions/{session}/topics");
    Context {
        session,
        branch: branch.to_owned(),
        snapshot: shown.snapshot.id().to_string(),
        encoding: shown.encoding.name().to_owned(),
        window_tokens: budget.window.0,
        usable_tokens: budget.usable.0,
        usable: measured.shares.to_api(),
        used_tokens: shown.used.tokens.0,
        occupancy_percent: shown.percent(),
        approximate: shown.used.is_approximate(),
        system: measured.preamble.system().to_string(),
        system_tokens: measured.system.tokens.0,
        skills_tokens: extra.skills,
        tools: tools(&measured.preamble),
        tools_tokens: measured.tools.tokens.0,
        uncounted_servers: unasked(&measured.preamble, by),
        topics: Preview::new(topics.len(), topics.into_iter().rev(), url),
        tiers,
        summaries: summaries(&shown.snapshot, &tokens),
        messages: entries(&shown.snapshot, &tokens),
        pending_messages: extra.pending.0,
        pending_tokens: extra.pending.1,
        prepared: state
            .preparation(branch)
            .and_then(|of| prepared(of, shown.encoding)),
        exact_tokens: None,
        exact_error: None,
    }
}

/// The summary that is written ahead, or why it is not used.
fn prepared(of: &Preparation, encoding: Encoding) -> Option<PreparedSummary> {
    let cover = of.cover()?;
    let (state, written, reason) = match &of.status {
        PreparationStatus::Writing => ("writing", None, None),
        PreparationStatus::Ready(written) => ("ready", Some(written), None),
        PreparationStatus::Dropped(reason) => ("dropped", None, Some(reason.to_string())),
    };
    let tokens = |written: &Arc<WrittenSummary>| Some(written.counts.get(encoding)?.tokens.0);
    Some(PreparedSummary {
        state: state.to_owned(),
        first: cover.spans.first()?.first.0,
        last: cover.cutoff.0,
        after: of.planned.turn.to_string(),
        tokens: written.and_then(tokens),
        model: written.map(|written| written.model.to_string()),
        reason,
    })
}

/// The servers whose tools the team may call, but which no turn has queried yet.
fn unasked(preamble: &Preamble, by: &ContextInputs) -> Vec<String> {
    let offered = preamble.tools().iter();
    let known: Vec<&str> = offered.filter_map(|tool| server_of(&tool.name)).collect();
    let servers = servers_of(&by.team).into_iter();
    let unasked = servers.filter(|server| !known.contains(server));
    unasked.map(str::to_owned).collect()
}

/// The tokens of the parts of a context.
#[non_exhaustive]
pub struct Tokens<'s> {
    /// The session, counted.
    pub state: &'s State,
    /// The encoding of the counts, the overhead of each message, and how the models get attachments.
    pub budget: &'s Budget,
}

/// The tools of a preamble.
pub fn tools(preamble: &Preamble) -> Vec<Tool> {
    let tools = preamble.tools().iter().map(|tool| Tool {
        name: tool.name.to_string(),
        description: tool.description.to_string(),
    });
    tools.collect()
}

/// The summaries of a snapshot, the oldest first.
pub fn summaries(snapshot: &Snapshot, tokens: &Tokens<'_>) -> Vec<Summary> {
    let summaries = snapshot.blocks().iter().map(|block| {
        let checkpoint = block.checkpoint();
        let count = checkpoint.counts.get(tokens.budget.encoding);
        let takes = (count.unwrap_or_default().tokens + tokens.budget.per_message).0;
        Summary {
            checkpoint: checkpoint.number,
            first: checkpoint.first().0,
            last: checkpoint.cutoff.0,
            messages: checkpoint.messages_included,
            tier: checkpoint.tier.name().to_owned(),
            tokens: takes,
            tokens_before: checkpoint.original.0,
            compression_ratio: unisono_api::compaction::ratio(checkpoint.original.0, takes),
            tightened: tokens.state.checkpoints().is_tightened(checkpoint.id),
            at: instant(checkpoint.at),
            model: checkpoint.model.to_string(),
            note: checkpoint.body == Body::Tombstone,
            text: block.text().to_string(),
        }
    });
    summaries.collect()
}

/// The messages of a snapshot, the oldest first.
pub fn entries(snapshot: &Snapshot, tokens: &Tokens<'_>) -> Vec<ContextMessage> {
    let messages = snapshot.entries().iter().map(|entry| {
        let message = entry.message();
        let form = entry.form().map(|form| match form {
            Form::Masked { .. } => "masked",
            Form::Cut { .. } | Form::Truncated { .. } => "cut",
        });
        let count = entry_count(tokens.state, entry, tokens.budget);
        ContextMessage {
            pinned: tokens.state.pinned().contains(&message.id),
            ordinal: message.ordinal.0,
            role: message.role.name().to_owned(),
            author: message.author.as_ref().map(ToString::to_string),
            tokens: (count.tokens + tokens.budget.per_message).0,
            form: form.map(str::to_owned),
            text: entry_text(entry),
        }
    });
    messages.collect()
}
