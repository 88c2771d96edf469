//! `/v1/imports`: imports conversations from a file.

use std::io::{self, Write};
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::StatusCode;
use futures_util::StreamExt;
use serde::Deserialize;
use unisono_api::service::{self, Sessions as _};
use unisono_api::session::{
    Content, ConversationImport, FileConversation, ImportFile, ImportResult,
};
use unisono_api::{Code, Page};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::problem::ApiError;
use super::{Shared, bodies, off_thread};
use unisono::spool::{Spool, SpooledData};

/// Bytes of a body per write.
const PART_BYTES: usize = 256 * 1024;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(import))
        .routes(routes!(import_conversations))
        .routes(routes!(conversations))
}

/// The parameters of an import.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct File {
    /// The name of the file.
    name: String,
    /// The format, such as `openai`; detected by default.
    format: Option<String>,
    /// The conversation of a file with several: its number from 1, or its id.
    pick: Option<String>,
    /// Whether bad lines are left out.
    #[serde(default)]
    skip_bad: bool,
    /// Imports a copy even if the file names a session.
    #[serde(default)]
    copy: bool,
}

/// Creates a session from a file.
#[utoipa::path(
    post, path = "/v1/imports", tag = "sessions", params(File),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, description = "It is on disk", body = ImportResult))
)]
async fn import(
    State(shared): State<Arc<Shared>>,
    Query(file): Query<File>,
    body: Body,
) -> Result<(StatusCode, Json<ImportResult>), ApiError> {
    let file = ImportFile {
        name: file.name,
        format: file.format,
        pick: file.pick,
        skip_bad: file.skip_bad,
        copy: file.copy,
        bounded: true,
        content: content(&shared, body).await?,
    };
    let made = shared.local.import_file(file).await.map_err(refusal)?;
    Ok((StatusCode::CREATED, Json(made)))
}

/// The parameters of an import of several conversations.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Selection {
    /// The name of the file.
    name: String,
    /// The format, such as `chatgpt`; detected by default.
    format: Option<String>,
    /// The conversations: numbers or ids, separated by commas; all by default.
    picks: Option<String>,
    /// Whether bad lines are left out.
    #[serde(default)]
    skip_bad: bool,
    /// Imports conversations again that were imported before.
    #[serde(default)]
    copy: bool,
}

/// Creates a session from each conversation in a file, unless it was imported before. A conversation
/// that cannot be read has an `error`; the others are imported.
#[utoipa::path(
    post, path = "/v1/imports/conversations", tag = "sessions", params(Selection),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "The outcome for each conversation; the sessions are on disk", body = Page<ConversationImport>))
)]
async fn import_conversations(
    State(shared): State<Arc<Shared>>,
    Query(selection): Query<Selection>,
    body: Body,
) -> Result<Json<Page<ConversationImport>>, ApiError> {
    let file = ImportFile {
        name: selection.name,
        format: selection.format,
        pick: None,
        skip_bad: selection.skip_bad,
        copy: selection.copy,
        bounded: true,
        content: content(&shared, body).await?,
    };
    let picks = selection.picks.as_deref().unwrap_or_default().split(',');
    let picks = picks.map(str::trim).filter(|pick| !pick.is_empty());
    let picks: Vec<String> = picks.map(str::to_owned).collect();
    let items = shared.local.import_conversations(file, &picks).await;
    let mut items = items.map_err(refusal)?;
    for item in items.iter_mut().filter(|item| item.bad_lines.is_some()) {
        item.error.iter_mut().for_each(|error| *error += SKIP_BAD);
    }
    Ok(Json(Page { items, next: None }))
}

/// The parameters of a list of conversations.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Listing {
    /// The name of the file.
    name: String,
    /// The format, such as `chatgpt`; detected by default.
    format: Option<String>,
    /// Whether bad lines are left out.
    #[serde(default)]
    skip_bad: bool,
}

/// The conversations in a file. Nothing is imported.
#[utoipa::path(
    post, path = "/v1/imports/dry-run", tag = "sessions", params(Listing),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 200, description = "All of them, in the order of the file", body = Page<FileConversation>))
)]
async fn conversations(
    State(shared): State<Arc<Shared>>,
    Query(listing): Query<Listing>,
    body: Body,
) -> Result<Json<Page<FileConversation>>, ApiError> {
    let file = ImportFile {
        name: listing.name,
        format: listing.format,
        pick: None,
        skip_bad: listing.skip_bad,
        copy: false,
        bounded: true,
        content: content(&shared, body).await?,
    };
    let items = shared.local.conversations(file).await.map_err(refusal)?;
    Ok(Json(Page { items, next: None }))
}

/// The advice behind an error about lines that cannot be read.
const SKIP_BAD: &str = "; correct the lines, or skip them with `skip_bad=true`";

/// Why a file is refused, with the parameter for lines that cannot be read.
fn refusal(error: service::Error) -> ApiError {
    match error {
        service::Error::Problem(mut problem) if problem.bad_lines.is_some() => {
            problem.detail += SKIP_BAD;
            (*problem).into()
        }
        error => error.into(),
    }
}

async fn content(shared: &Shared, body: Body) -> Result<Content, ApiError> {
    Ok(match spooled(shared, body).await? {
        SpooledData::Memory(memory) => Content::Bytes(memory.into_inner()),
        SpooledData::File(file) => Content::File(file),
    })
}

/// Writes a body to a spool, which keeps large bodies on disk.
async fn spooled(shared: &Shared, body: Body) -> Result<SpooledData, ApiError> {
    let limit = u64::from(shared.local.setup().loaded.config.server.body_limit_bytes);
    let mut spool = Spool::new(shared.local.directory());
    let (mut parts, mut part) = (body.into_data_stream(), Vec::new());
    while let Some(more) = parts.next().await {
        let more = more.map_err(|error| ApiError::new(Code::InvalidRequest, error.to_string()))?;
        part.extend_from_slice(&more);
        if spool.bytes() + part.len() as u64 > limit {
            return Err(bodies::too_large());
        }
        if part.len() >= PART_BYTES {
            (spool, part) = append_part(spool, part).await?;
        }
    }
    let (spool, _) = append_part(spool, part).await?;
    spool.finish().map_err(|error| not_kept(&error))
}

/// Appends a part to the spool, outside the async threads.
async fn append_part(mut spool: Spool, mut part: Vec<u8>) -> Result<(Spool, Vec<u8>), ApiError> {
    let written = off_thread(move || {
        spool.write_all(&part)?;
        part.clear();
        Ok((spool, part))
    });
    written.await?.map_err(|error| not_kept(&error))
}

fn not_kept(error: &io::Error) -> ApiError {
    let code = match unisono_store::is_full(error) {
        true => Code::DiskFull,
        false => Code::Failed,
    };
    ApiError::new(
        code,
        format!("the body cannot be kept in the store's directory: {error}"),
    )
}
