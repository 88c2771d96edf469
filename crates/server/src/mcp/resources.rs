//! Sessions and snapshots as resources.
//!
//! `unisono://sessions/<session>` describes a session, `…/context` is the current context of its
//! main branch, `…/snapshots/<turn>` is the frozen context of a turn.

use std::fmt::Write as _;
use std::num::NonZeroUsize;

use rmcp::ErrorData;
use rmcp::model::{
    ListResourcesResult, PaginatedRequestParams, ReadResourceResult, Resource, ResourceContents,
    ResourceTemplate,
};
use unisono_api::Code;
use unisono_api::service::Sessions as _;
use unisono_api::session::{MAIN_BRANCH, SessionQuery};
use unisono_context::snapshot::Snapshot;
use unisono_context::{SessionId, TurnId};

use super::queries::{TITLE_CHARS, without_headings};
use unisono::ask::Ask;
use unisono::context::{BranchContext, entry_text};
use unisono::history;
use unisono::view::Inspect as _;
use unisono::{Local, fmt};

const SCHEME: &str = "unisono://sessions/";
/// Sessions of a page.
const PAGE: usize = 100;

fn wrong(reason: impl Into<String>) -> ErrorData {
    ErrorData::invalid_params(reason.into(), None)
}

fn failed(error: impl std::fmt::Display) -> ErrorData {
    ErrorData::internal_error(error.to_string(), None)
}

pub(super) fn templates() -> Vec<ResourceTemplate> {
    let template = |path: &str, name: &str, about: &str, kind: &str| {
        ResourceTemplate::new(format!("{SCHEME}{path}"), name)
            .with_description(about)
            .with_mime_type(kind)
    };
    vec![
        template(
            "{session}",
            "session",
            "A session: its title, branches and turns",
            "application/json",
        ),
        template(
            "{session}/context",
            "context",
            "What a model sees of a session now",
            "text/plain",
        ),
        template(
            "{session}/snapshots/{turn}",
            "snapshot",
            "The frozen context of a turn",
            "text/plain",
        ),
    ]
}

/// The sessions, the newest first.
pub(super) async fn list(
    local: &Local,
    page: Option<PaginatedRequestParams>,
) -> Result<ListResourcesResult, ErrorData> {
    let query = SessionQuery {
        cursor: page.and_then(|page| page.cursor),
        limit: NonZeroUsize::new(PAGE),
        ..SessionQuery::default()
    };
    let found = local.sessions(&query).await;
    let found = found.map_err(|error| match error.code() {
        Code::InvalidRequest => wrong(error.to_string()),
        _ => failed(error),
    })?;
    let each = found.items.into_iter().map(|listed| {
        let uri = format!("{SCHEME}{}", listed.session);
        let title = fmt::line(&listed.title, TITLE_CHARS);
        Resource::new(uri, title).with_mime_type("application/json")
    });
    let mut result = ListResourcesResult::with_all_items(each.collect());
    result.next_cursor = found.next;
    Ok(result)
}

pub(super) async fn read(local: &Local, uri: &str) -> Result<ReadResourceResult, ErrorData> {
    let unknown = || ErrorData::resource_not_found(format!("there is no resource {uri}"), None);
    let path = uri.strip_prefix(SCHEME).ok_or_else(unknown)?;
    let mut parts = path.split('/');
    let id = parts
        .next()
        .and_then(|id| id.parse::<SessionId>().ok())
        .ok_or_else(unknown)?;
    let rest: Vec<&str> = parts.collect();
    let known = local.journal().exists(id).await.map_err(failed)?;
    if !known {
        return Err(unknown());
    }
    let contents = match rest[..] {
        [] => {
            let session = local.session(&id.to_string()).await.map_err(failed)?;
            let text = serde_json::to_string_pretty(&session).map_err(failed)?;
            ResourceContents::text(text, uri).with_mime_type("application/json")
        }
        ["context"] => ResourceContents::text(context(local, id).await?, uri),
        ["snapshots", turn] => {
            let turn = turn.parse::<TurnId>().map_err(|_| unknown())?;
            let text = snapshot(local, id, turn).await?.ok_or_else(unknown)?;
            ResourceContents::text(text, uri)
        }
        _ => return Err(unknown()),
    };
    Ok(ReadResourceResult::new(vec![contents]))
}

async fn context(local: &Local, id: SessionId) -> Result<String, ErrorData> {
    let session = local.view(id).await.map_err(failed)?;
    let mut state = session.inspect(Clone::clone).await.map_err(failed)?;
    let Some(head) = state.tree().head(MAIN_BRANCH) else {
        return Ok("there are no messages yet".to_owned());
    };
    let setup = local.setup_of(&session).await.map_err(failed)?;
    let by = Ask::new("").context_inputs(&setup, local.calibrations());
    let by = by.map_err(failed)?;
    // Counting takes a tokenizer, and time.
    let looking =
        tokio::task::spawn_blocking(move || BranchContext::new(&mut state, Some(head), &by));
    let shown = looking.await.map_err(failed)?.map_err(failed)?;
    Ok(text(&shown.snapshot))
}

/// The frozen context of a turn, rebuilt from the journal; none if the turn does not exist or was
/// not frozen.
async fn snapshot(local: &Local, id: SessionId, turn: TurnId) -> Result<Option<String>, ErrorData> {
    let journal = local.journal();
    let replay = history::replay(journal, id, turn).await.map_err(failed)?;
    if let Some(error) = replay.snapshot_error() {
        return Err(failed(error));
    }
    Ok(replay.state().snapshot(turn).map(|snapshot| text(snapshot)))
}

fn text(snapshot: &Snapshot) -> String {
    let mut out = format!("snapshot {}\n", snapshot.id());
    // Writing into a text does not fail.
    let system = snapshot.preamble().system();
    if !system.is_empty() {
        let _ = write!(out, "\n[system]\n{}\n", without_headings(system));
    }
    for block in snapshot.blocks() {
        let checkpoint = block.checkpoint();
        let _ = write!(
            out,
            "\n[summary of {}–{}]\n{}\n",
            checkpoint.first(),
            checkpoint.cutoff,
            without_headings(block.text())
        );
    }
    for entry in snapshot.entries() {
        let message = entry.message();
        let _ = write!(
            out,
            "\n[{} {}]\n{}\n",
            message.ordinal,
            message.role.name(),
            without_headings(&entry_text(entry))
        );
    }
    out
}
