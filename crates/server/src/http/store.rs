//! `/v1/vacuum`, `/v1/losses` and `/v1/archive`: the store itself.

use std::fs::{self, File};
use std::io::{self, Read as _};
use std::path::Path;
use std::sync::Arc;

use axum::Json;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, header};
use futures_util::stream;
use unisono::Local;
use unisono_api::service::Store;
use unisono_api::store::{
    ARCHIVED, AcknowledgedLosses, ArchiveCounts, HealthCheck, Loss, LossQuery, VacuumResult,
};
use unisono_api::{Code, Page};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::extract::Query;
use super::problem::ApiError;
use super::{Shared, off_thread};

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
/// The beginning of the names of directories with archives that are being written.
const UNFINISHED: &str = ".archive-";

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
    let mut place = tempfile::Builder::new();
    let place = place.prefix(UNFINISHED).tempdir_in(directory);
    let place = place.map_err(unkept)?;
    let path = place.path().join("archive");
    let archived = shared.local.archive(&path).await?;
    let file = File::open(&path).map_err(unkept)?;
    place.close().map_err(unkept)?;
    Ok((file, archived))
}

/// Removes the archives that a killed process left in the directory of the store. They are as large as the
/// store, and have the sessions that were deleted since.
pub(super) async fn remove_unfinished(local: &Local) {
    let Some(directory) = local.directory().map(Path::to_owned) else {
        return;
    };
    let removed = off_thread(move || remove_unfinished_in(&directory)).await;
    let failed = |error: ApiError| Err(io::Error::other(error.to_string()));
    if let Err(error) = removed.unwrap_or_else(failed) {
        tracing::warn!(%error, "an archive that an earlier process did not finish cannot be removed");
    }
}

fn remove_unfinished_in(directory: &Path) -> io::Result<()> {
    let entries = match fs::read_dir(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        entries => entries?,
    };
    for entry in entries {
        let entry = entry?;
        if entry.file_name().to_string_lossy().starts_with(UNFINISHED) {
            fs::remove_dir_all(entry.path())?;
        }
    }
    Ok(())
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_that_a_killed_process_left_is_removed() {
        let store = tempfile::tempdir().unwrap();
        let path = |name: &str| store.path().join(name);
        let mut place = tempfile::Builder::new();
        let place = place.prefix(UNFINISHED).tempdir_in(store.path()).unwrap();
        fs::write(place.path().join("archive"), "deleted since").unwrap();
        fs::create_dir(path("data")).unwrap();
        remove_unfinished_in(store.path()).unwrap();
        assert!(!place.path().exists() && path("data").exists());
    }
}
