//! `/v1/vacuum`, `/v1/losses` and `/v1/archive`: the store itself.

use std::fs::File;
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use futures_util::stream;
use unisono_api::service::Store;
use unisono_api::store::{
    ARCHIVED, AcknowledgedLosses, ArchiveCounts, HealthCheck, Loss, LossQuery, VacuumResult,
};
use unisono_api::{Code, Page};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::Query;
use super::problem::ApiError;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(vacuum))
        .routes(routes!(losses))
        .routes(routes!(acknowledge))
        .routes(routes!(archive))
        .routes(routes!(health))
}

/// Frees the disk space of deleted and outdated data, and responds when that data has left the
/// disk. Other requests are answered meanwhile.
#[utoipa::path(
    post, path = "/v1/vacuum", tag = "about", operation_id = "vacuum",
    responses((status = 200, description = "The data has left the disk", body = VacuumResult))
)]
async fn vacuum(State(shared): State<Arc<Shared>>) -> Result<Json<VacuumResult>, ApiError> {
    Ok(Json(shared.local.vacuum().await?))
}

/// The unacknowledged losses of repairs of the store, the most recently found first.
#[utoipa::path(
    get, path = "/v1/losses", tag = "about", operation_id = "list_losses",
    params(LossQuery),
    responses((status = 200, description = "A part of the list", body = Page<Loss>))
)]
async fn losses(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<LossQuery>,
) -> Result<Json<Page<Loss>>, ApiError> {
    Ok(Json(Store::losses(&*shared.local, &query).await?))
}

/// The condition of providers, models, settings, tool servers and the store. It does not read all
/// records.
#[utoipa::path(
    get, path = "/v1/health", tag = "about", operation_id = "health_checks",
    responses((status = 200, description = "The checks", body = Vec<HealthCheck>))
)]
async fn health(State(shared): State<Arc<Shared>>) -> Result<Json<Vec<HealthCheck>>, ApiError> {
    Ok(Json(shared.local.health().await?))
}

/// Acknowledges the losses of repairs of the store: sessions no longer report them.
#[utoipa::path(
    post, path = "/v1/losses/acknowledge", tag = "about", operation_id = "acknowledge_losses",
    responses((status = 200, description = "The losses are acknowledged", body = AcknowledgedLosses))
)]
async fn acknowledge(
    State(shared): State<Arc<Shared>>,
) -> Result<Json<AcknowledgedLosses>, ApiError> {
    Ok(Json(Store::acknowledge_losses(&*shared.local).await?))
}

/// Bytes of an archive per part.
const PART_BYTES: usize = 256 * 1024;

/// All sessions with their journals as one file, which `unisono import` reads into another store.
/// The headers `unisono-archive-sessions`, `-events` and `-checkpoints` have its numbers of
/// sessions, events and state checkpoints.
#[utoipa::path(
    get, path = "/v1/archive", tag = "about", operation_id = "archive",
    responses((status = 200, description = "The archive", body = Vec<u8>,
               content_type = "application/octet-stream"))
)]
async fn archive(State(shared): State<Arc<Shared>>) -> Result<(HeaderMap, Body), ApiError> {
    let system = std::env::temp_dir();
    let own = shared.local.directory();
    let own = own.unwrap_or(&system);
    let kept = match archive_in(&shared, own).await {
        // The disk of the store is full or read-only: the store is moved because of that.
        Err(error) if own != system && is_unwritable(&error) => archive_in(&shared, &system).await,
        kept => kept,
    };
    let (file, archived) = kept?;
    let ArchiveCounts {
        sessions,
        events,
        checkpoints,
    } = archived;
    let mut headers = HeaderMap::new();
    let binary = HeaderValue::from_static("application/octet-stream");
    headers.insert(header::CONTENT_TYPE, binary);
    for (name, many) in ARCHIVED.into_iter().zip([sessions, events, checkpoints]) {
        headers.insert(name, HeaderValue::from(many));
    }
    Ok((headers, Body::from_stream(stream::try_unfold(file, part))))
}

/// An archive in a new directory of this one. The file has no name, so it is removed when the
/// request ends.
async fn archive_in(shared: &Shared, directory: &Path) -> Result<(File, ArchiveCounts), ApiError> {
    let unkept = |error| unkept(directory, &error);
    // Only this user may read it.
    let place = tempfile::tempdir_in(directory).map_err(unkept)?;
    let path = place.path().join("archive");
    let archived = shared.local.archive(&path).await?;
    let file = File::open(&path).map_err(unkept)?;
    place.close().map_err(unkept)?;
    Ok((file, archived))
}

fn is_unwritable(error: &ApiError) -> bool {
    matches!(error.problem().code, Code::DiskFull | Code::Unavailable)
}

/// The next part of a file, with the rest of the file.
async fn part(mut file: File) -> io::Result<Option<(Bytes, File)>> {
    let read = move || {
        let mut part = Vec::with_capacity(PART_BYTES);
        let limit = PART_BYTES as u64;
        let count = (&mut file).take(limit).read_to_end(&mut part)?;
        Ok((count > 0).then(|| (part.into(), file)))
    };
    let done = tokio::task::spawn_blocking(read).await;
    done.unwrap_or_else(|error| Err(io::Error::other(error)))
}

fn unkept(directory: &Path, error: &io::Error) -> ApiError {
    let code = match error.kind() {
        _ if unisono_store::is_full(error) => Code::DiskFull,
        io::ErrorKind::ReadOnlyFilesystem | io::ErrorKind::PermissionDenied => Code::Unavailable,
        _ => Code::Failed,
    };
    let directory = directory.display();
    let detail = format!("the archive cannot be kept in {directory}: {error}");
    ApiError::new(code, detail)
}
