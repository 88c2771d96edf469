//! `/v1/sessions/{session}/context`: what a model sees of a branch.

use std::sync::Arc;

use axum::Json;
use axum::extract::State;
use serde::Deserialize;
use unisono_api::Problem;
use unisono_api::context::{Context, Entry, Summary, Tool};
use unisono_api::session::main_branch;
use unisono_context::alteration::Form;
use unisono_context::snapshot::Preamble;
use unisono_context::{Encoding, Snapshot, Tokens as Amount};
use unisono_runtime::Handle;
use unisono_session::State as SessionState;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::{Path, Query};
use super::messages::unknown_branch;
use super::problem::Fault;
use super::{Shared, sessions};
use crate::ask::{self, Ask};
use crate::context::{Shown, entry_count, entry_text};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Of which branch.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[serde(deny_unknown_fields)]
struct Of {
    /// The branch: `main`.
    #[serde(default = "main_branch")]
    branch: String,
}

/// The context of a branch for the configured lead, by section.
#[utoipa::path(
    get, path = "/v1/sessions/{session}/context", tag = "context", security(("token" = [])),
    params(("session" = String, Path, description = "The session's id"), Of),
    responses((status = 200, description = "The context", body = Context),
              (status = "default", description = "A problem", body = Problem))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(of): Query<Of>,
) -> Result<Json<Context>, Fault> {
    let session = sessions::open(&shared, &id).await?;
    of_branch(&shared, &session, &of.branch).await.map(Json)
}

/// The context of a branch for the configured lead.
pub(super) async fn of_branch(
    shared: &Shared,
    session: &Handle,
    branch: &str,
) -> Result<Context, Fault> {
    let setup = shared.daemon.setup();
    let team = Ask::new("")
        .team(&setup)
        .map_err(crate::daemon::Error::from)?;
    let (_, safety) = ask::policy(&setup, &team);
    let mut state = session.inspect(Clone::clone).await?;
    let head = state.tree().head(branch);
    let head = head.ok_or_else(|| unknown_branch(branch))?;
    let (id, branch) = (session.id().to_string(), branch.to_owned());
    // Counting takes a tokenizer, and time.
    let look = move || {
        let shown = Shown::new(&mut state, head, &team, safety)?;
        Ok::<_, crate::context::Error>(described(&shown, &state, id, branch))
    };
    Ok(super::off_thread(look).await??)
}

fn described(shown: &Shown, state: &SessionState, session: String, branch: String) -> Context {
    let (budget, preamble) = (&shown.measured.budget, &shown.measured.preamble);
    let tokens = Tokens {
        state,
        encoding: shown.encoding,
        overhead: budget.per_message,
    };
    Context {
        session,
        branch,
        snapshot: shown.snapshot.id().to_string(),
        encoding: shown.encoding.name().to_owned(),
        window_tokens: budget.window.0,
        usable_tokens: budget.usable.0,
        used_tokens: shown.used.tokens.0,
        occupancy_percent: shown.percent(),
        approximate: shown.used.is_approximate(),
        system: preamble.system().to_string(),
        tools: tools(preamble),
        summaries: summaries(&shown.snapshot, &tokens),
        messages: entries(&shown.snapshot, &tokens),
    }
}

/// What parts of a context take.
pub(super) struct Tokens<'s> {
    /// The session, counted.
    pub(super) state: &'s SessionState,
    /// What it is counted in.
    pub(super) encoding: Encoding,
    /// What each message takes besides.
    pub(super) overhead: Amount,
}

pub(super) fn tools(preamble: &Preamble) -> Vec<Tool> {
    let tools = preamble.tools().iter().map(|tool| Tool {
        name: tool.name.to_string(),
        description: tool.description.to_string(),
    });
    tools.collect()
}

pub(super) fn summaries(snapshot: &Snapshot, tokens: &Tokens<'_>) -> Vec<Summary> {
    let summaries = snapshot.blocks().iter().map(|block| {
        let checkpoint = block.checkpoint();
        let count = checkpoint.counts.get(tokens.encoding).unwrap_or_default();
        Summary {
            checkpoint: checkpoint.number,
            first: checkpoint.first().0,
            last: checkpoint.cutoff.0,
            messages: checkpoint.messages_included,
            tokens: (count.tokens + tokens.overhead).0,
            model: checkpoint.model.to_string(),
            text: block.text().to_string(),
        }
    });
    summaries.collect()
}

pub(super) fn entries(snapshot: &Snapshot, tokens: &Tokens<'_>) -> Vec<Entry> {
    let messages = snapshot.entries().iter().map(|entry| {
        let message = entry.message();
        let form = entry.form().map(|form| match form {
            Form::Masked { .. } => "masked",
            Form::Cut { .. } | Form::Truncated { .. } => "cut",
        });
        let count = entry_count(tokens.state, entry, tokens.encoding);
        Entry {
            ordinal: message.ordinal.0,
            role: message.role.name().to_owned(),
            author: message.author.as_ref().map(ToString::to_string),
            tokens: (count.tokens + tokens.overhead).0,
            form: form.map(str::to_owned),
            text: entry_text(entry),
        }
    });
    messages.collect()
}
