//! `/v1/journal`: the store as it is on disk, to be looked at by programs of the same kind while
//! the daemon holds it; and `/v1/imports`, which keeps a conversation as it stands in a file.

use std::io::{self, Write};
use std::num::NonZeroUsize;
use std::sync::Arc;

use axum::Json;
use axum::body::Body;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use futures_util::StreamExt;
use serde::Deserialize;
use unisono_api::journal::{EventBlock, Info};
use unisono_api::session::Session;
use unisono_api::{Code, Page};
use unisono_context::SessionId;
use unisono_runtime::clock;
use unisono_store::SessionInfo;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{self, Path, Query};
use super::part::{self, after};
use super::problem::Fault;
use unisono::service::sessions::too_many;
use unisono::spool::{Spool, Spooled};
use unisono_interchange::transcript::{self, Format, SOURCE_DIGEST, SOURCE_NAME, Stamps};

/// Sessions and events of an answer at most.
const MOST: usize = 4_096;
/// Bytes of a body that are written at a time.
const PART_BYTES: usize = 256 * 1024;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(show))
        .routes(routes!(events))
        .routes(routes!(import))
}

/// Which sessions.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Sessions {
    /// `next` of the part before.
    cursor: Option<String>,
    /// How many at most: 4,096.
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

/// Which events.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct Events {
    /// The number of the first one.
    #[serde(deserialize_with = "part::number")]
    from: u64,
    /// How many at most: 4,096.
    #[param(value_type = Option<usize>, minimum = 1)]
    limit: Option<NonZeroUsize>,
}

/// What the store knows of its sessions, in the order of their ids.
#[utoipa::path(
    get, path = "/v1/journal", tag = "journal", params(Sessions),
    responses((status = 200, description = "A part of the list", body = Page<Info>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Query(part): Query<Sessions>,
) -> Result<Json<Page<Info>>, Fault> {
    let limit = part.limit.map_or(MOST, NonZeroUsize::get).min(MOST);
    let journal = shared.local.journal();
    let after: Option<SessionId> = after(part.cursor.as_deref())?;
    // One more tells whether there are more.
    let found = journal.sessions(after, limit + 1).await?;
    let found = found.into_iter().map(info);
    Ok(Json(Page::first(found, limit, |last| last.session.clone())))
}

/// What the store knows of a session.
#[utoipa::path(
    get, path = "/v1/journal/{session}", tag = "journal",
    params(("session" = String, Path, description = "The session's id")),
    responses((status = 200, description = "The session", body = Info))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Info>, Fault> {
    let session: SessionId = extract::id("session", &id)?;
    let engine = shared.local.journal().engine();
    let found = engine.session(session.into()).await?;
    let found = found.ok_or_else(|| Fault::not_found("session", session))?;
    Ok(Json(info(found)))
}

fn info(found: SessionInfo) -> Info {
    Info {
        session: found.session.to_string(),
        last_seq: found.last_seq,
        epoch: found.epoch,
        payload_bytes: found.payload_bytes,
        created_unix_ms: found.created_unix_ms,
        updated_unix_ms: found.updated_unix_ms,
    }
}

/// Events of a session as they are on disk. Fewer than asked for come back at the end, or where
/// they would be too large together.
#[utoipa::path(
    get, path = "/v1/journal/{session}/events", tag = "journal",
    params(("session" = String, Path, description = "The session's id"), Events),
    responses((status = 200, description = "For each its number and length as 64 bits, little-endian, then its bytes",
               body = Vec<u8>, content_type = "application/octet-stream"))
)]
async fn events(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(which): Query<Events>,
) -> Result<([(HeaderName, &'static str); 1], Vec<u8>), Fault> {
    let session: SessionId = extract::id("session", &id)?;
    let limit = which.limit.map_or(MOST, NonZeroUsize::get).min(MOST);
    let engine = shared.local.journal().engine();
    let found = engine.read(session.into(), which.from, limit).await?;
    if found.is_empty() && engine.session(session.into()).await?.is_none() {
        return Err(Fault::not_found("session", session));
    }
    let block = EventBlock(
        found
            .into_iter()
            .map(|event| (event.seq, event.payload))
            .collect(),
    );
    Ok((
        [(header::CONTENT_TYPE, "application/octet-stream")],
        block.write(),
    ))
}

/// How a file is read.
#[derive(Debug, Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
#[serde(deny_unknown_fields)]
struct File {
    /// What it is called.
    name: String,
    /// `unisono`, `openai` or `sharegpt`; without it, that is recognised.
    format: Option<String>,
    /// Whether bad lines are left out.
    #[serde(default)]
    skip_bad: bool,
    /// Whether it becomes another session where it says which one it is.
    #[serde(default)]
    copy: bool,
}

/// Keeps a conversation as it stands in a file.
#[utoipa::path(
    post, path = "/v1/imports", tag = "sessions", params(File),
    request_body(content = Vec<u8>, content_type = "application/octet-stream"),
    responses((status = 201, description = "It is on disk", body = Session))
)]
async fn import(
    State(shared): State<Arc<Shared>>,
    Query(file): Query<File>,
    body: Body,
) -> Result<(StatusCode, Json<Session>), Fault> {
    let format = match &file.format {
        Some(name) => Some(Format::from_name(name).ok_or_else(|| {
            Fault::new(Code::InvalidRequest, format!("there is no format {name:?}"))
        })?),
        None => None,
    };
    let options = transcript::Options {
        name: file.name.clone(),
        format,
        skip_bad: file.skip_bad,
        most: usize::try_from(shared.local.setup().loaded.config.server.import_messages).ok(),
    };
    let spooled = spooled(&shared, body).await?;
    // A large file takes a while to read.
    let reading = tokio::task::spawn_blocking(move || {
        let stamps = Stamps {
            ids: &mut clock::new_id,
            now: clock::now(),
        };
        transcript::read_digested(spooled, &options, stamps)
    });
    let read = reading
        .await
        .map_err(|error| Fault::new(Code::Failed, error.to_string()))?;
    let (parsed, digest) = read.map_err(|error| match error {
        transcript::Error::TooMany { .. } => too_many(&error).into(),
        error => Fault::new(Code::Refused, error.to_string()),
    })?;
    let digest = digest.to_string();
    let mut import = parsed.import;
    if file.copy {
        import.session = None;
    }
    import.labels.insert(SOURCE_DIGEST.into(), digest.into());
    import.labels.insert(SOURCE_NAME.into(), file.name.into());
    let session = shared.local.import(import).await?;
    let id = session.id().to_string();
    let described = session
        .inspect(move |state| unisono::service::sessions::describe(&id, state))
        .await?;
    Ok((StatusCode::CREATED, Json(described)))
}

/// A body, which is not held in memory where it is large.
async fn spooled(shared: &Shared, body: Body) -> Result<Spooled, Fault> {
    let limit = u64::from(shared.local.setup().loaded.config.server.body_limit_bytes);
    let mut spool = Spool::new(shared.local.directory());
    let (mut parts, mut part) = (body.into_data_stream(), Vec::new());
    while let Some(more) = parts.next().await {
        let more = more.map_err(|error| Fault::new(Code::InvalidRequest, error.to_string()))?;
        part.extend_from_slice(&more);
        if spool.bytes() + part.len() as u64 > limit {
            let detail = "the body is larger than `server.body_limit_bytes`";
            return Err(Fault::new(Code::TooLarge, detail));
        }
        if part.len() >= PART_BYTES {
            (spool, part) = kept(spool, part).await?;
        }
    }
    let (spool, _) = kept(spool, part).await?;
    spool.finish().map_err(|error| not_kept(&error))
}

/// Puts a part of a body where the others are, off the async threads.
async fn kept(mut spool: Spool, mut part: Vec<u8>) -> Result<(Spool, Vec<u8>), Fault> {
    let writing = tokio::task::spawn_blocking(move || {
        spool.write_all(&part)?;
        part.clear();
        Ok((spool, part))
    });
    let written = writing
        .await
        .map_err(|error| Fault::new(Code::Failed, error.to_string()))?;
    written.map_err(|error| not_kept(&error))
}

fn not_kept(error: &io::Error) -> Fault {
    let code = match unisono_store::is_full(error) {
        true => Code::DiskFull,
        false => Code::Failed,
    };
    Fault::new(
        code,
        format!("the body cannot be kept in the store's directory: {error}"),
    )
}
