//! `/v1/cluster`: the members of a cluster; takeover and handover of sessions.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use axum::Json;
use axum::extract::State;
use unisono::Local;
use unisono_api::cluster::{ClusterMember, Drain};
use unisono_api::service::Cluster as _;
use unisono_api::session::SessionListItem;
use unisono_api::{Page, PageQuery};
use unisono_context::SessionId;
use unisono_store::{Beat, SessionInfo};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use super::extract::{self, Path, Query};
use super::login;
use super::problem::ApiError;
use super::token::Token;
use crate::a2a::A2a;

/// Sessions per takeover.
const AT_A_TIME: usize = 64;

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list))
        .routes(routes!(sessions))
        .routes(routes!(drain))
}

/// The programs that use the database, in the order in which they joined; empty if the store is a
/// directory.
#[utoipa::path(
    get, path = "/v1/cluster", tag = "cluster",
    params(PageQuery),
    responses((status = 200, description = "A part of the list", body = Page<ClusterMember>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<ClusterMember>>, ApiError> {
    Ok(Json(shared.local.members(&query).await?))
}

/// The sessions that a program owns, the newest first. A session on which no program works is
/// in no list.
#[utoipa::path(
    get, path = "/v1/cluster/{member}/sessions", tag = "cluster",
    params(("member" = String, Path, description = "The program's id"), PageQuery),
    responses((status = 200, description = "A part of the list", body = Page<SessionListItem>))
)]
async fn sessions(
    State(shared): State<Arc<Shared>>,
    Path(member): Path<String>,
    Query(query): Query<PageQuery>,
) -> Result<Json<Page<SessionListItem>>, ApiError> {
    Ok(Json(shared.local.member_sessions(&member, &query).await?))
}

/// Drains a program, or lets it take sessions again. A drained program takes no new sessions and
/// hands over its own; its turns have `server.drain_seconds` to end, and open turns then continue
/// elsewhere.
#[utoipa::path(
    post, path = "/v1/cluster/{member}", tag = "cluster",
    params(("member" = String, Path, description = "The program's id")),
    request_body = Drain,
    responses((status = 200, description = "The member, with its new state requested", body = ClusterMember))
)]
async fn drain(
    State(shared): State<Arc<Shared>>,
    Path(member): Path<String>,
    extract::Json(asked): extract::Json<Drain>,
) -> Result<Json<ClusterMember>, ApiError> {
    Ok(Json(shared.local.drain(&member, asked.drain).await?))
}

/// The address at which other daemons reach this one. Without a setting it is derived from
/// `listens`; a wildcard address becomes the host name of the machine.
pub(super) fn address(set: Option<&str>, listens: SocketAddr) -> String {
    match set {
        Some(set) => set.trim_end_matches('/').to_owned(),
        None if listens.ip().is_unspecified() => {
            let name = rustix::system::uname();
            let name = name.nodename().to_string_lossy().into_owned();
            format!("http://{name}:{}", listens.port())
        }
        None => format!("http://{listens}"),
    }
}

pub(super) fn host(address: &str) -> Option<String> {
    let address: axum::http::Uri = address.parse().ok()?;
    Some(address.host()?.to_ascii_lowercase())
}

/// Joins the other daemons, which reach this one at an address. The first requests and the turns that are
/// resumed have the settings that others have changed.
pub(super) async fn join(
    local: &Local,
    address: &str,
    token: &Token,
) -> Result<(), unisono::Error> {
    take_settings(local, &mut None).await;
    local.announce(address, &token.public()).await?;
    local.wait_until_known().await;
    Ok(())
}

/// Follows the other programs, and shares the pauses of providers with them. Never ends.
pub(super) async fn follow(shared: Arc<Shared>, a2a: Arc<A2a>, address: String) {
    let local = shared.local.clone();
    tokio::join!(
        follow_beats(shared.clone(), a2a, address),
        follow_shared(shared),
        local.tell_holds()
    );
}

/// Applies the limits, settings and browsers that programs share, also while [`follow_beats`] waits for
/// turns of a drained daemon.
async fn follow_shared(shared: Arc<Shared>) {
    let Some(mut beats) = shared.local.beats() else {
        return;
    };
    let (mut taken, mut refused) = ((0, 0), None);
    // A closed channel means that the store is closed.
    while beats.changed().await.is_ok() {
        let beat = beats.borrow_and_update().clone();
        shared.local.share_limits(&beat);
        // After a lapse the database may have been set back, and changed again since.
        let current = (beat.documents, beat.lapses);
        if current != taken && take_documents(&shared, &mut refused).await {
            taken = current;
        }
    }
}

/// Takes over sessions of lost members, and hands over its own sessions when it is drained.
async fn follow_beats(shared: Arc<Shared>, a2a: Arc<A2a>, address: String) {
    let local = &shared.local;
    let Some(mut beats) = local.beats() else {
        return;
    };
    let mut reloads = local.reloads();
    let (mut has_handed_over, mut has_taken) = (false, true);
    let (mut lapses, mut owned) = (0, 0);
    loop {
        tokio::select! {
            // A closed channel means that the store is closed.
            beat = beats.changed() => if beat.is_err() { return },
            news = reloads.changed() => if news.is_ok() {
                announce(&shared, &address).await;
                continue;
            }
        }
        let beat = beats.borrow_and_update().clone();
        // After it is undrained, it can be drained again.
        has_handed_over &= beat.is_draining;
        if beat.lapses > std::mem::replace(&mut lapses, beat.lapses) {
            // Other members may own its sessions now; those members deliver to the callbacks.
            a2a.leave_callbacks();
            if !has_handed_over {
                a2a.clone().resume_callbacks(None).await;
            }
        }
        // It may have been let in, and drained again, between two beats.
        if beat.is_draining && (!has_handed_over || beat.owned > 0) {
            has_handed_over = hand_over(&shared).await;
            if has_handed_over {
                a2a.leave_callbacks();
            }
        }
        if (beat.has_gone || !has_taken) && !beat.is_draining {
            has_taken = take_over(&shared, &a2a, has_taken).await;
        }
        let owned_before = std::mem::replace(&mut owned, beat.owned);
        if resumes_callbacks(&beat, owned_before) {
            a2a.clone().resume_callbacks(None).await;
        }
    }
}

/// Whether it delivers to stored callbacks after this beat: a request may have claimed a session of a lost
/// member before the takeover. A drained daemon leaves the callbacks to the new owners of its sessions.
fn resumes_callbacks(beat: &Beat, owned_before: usize) -> bool {
    beat.owned != owned_before && !beat.is_draining
}

/// Reads the settings and browsers that other daemons changed. Returns whether all of them are in
/// use now. `refused`: as for [`take_settings`].
async fn take_documents(shared: &Shared, refused: &mut Option<String>) -> bool {
    let taken = login::take(shared).await;
    take_settings(&shared.local, refused).await && taken
}

/// Reads the settings that other daemons changed. Returns whether they are in use now. `refused` has the
/// error of the last try, which is not logged again: each beat tries again.
async fn take_settings(local: &Local, refused: &mut Option<String>) -> bool {
    let error = local.take_shared_settings().await.err();
    let error = error.map(|error| error.to_string());
    if let Some(error) = &error
        && refused.as_ref() != Some(error)
    {
        tracing::error!(%error, "settings that another daemon has changed are not used here");
    }
    *refused = error;
    refused.is_none()
}

async fn announce(shared: &Shared, address: &str) {
    if let Err(error) = shared.local.announce(address, &shared.token.public()).await {
        tracing::warn!(%error, "this daemon cannot announce its address and its agents to the others");
    }
}

/// Returns false if the drain was withdrawn meanwhile or must be retried.
async fn hand_over(shared: &Shared) -> bool {
    let local = &shared.local;
    tracing::info!("this daemon is drained: it hands its sessions over");
    let patience = local.setup().loaded.config.server.drain_seconds;
    match local.hand_over(Duration::from_secs(patience)).await {
        Ok(true) => true,
        Ok(false) => {
            tracing::info!("this daemon is let in again, and keeps its sessions");
            false
        }
        Err(error) => {
            tracing::error!(%error, "the sessions are not handed over yet");
            false
        }
    }
}

/// Takes over sessions. Returns whether all of them were processed; the others are retried.
async fn take_over(shared: &Shared, a2a: &Arc<A2a>, is_clean: bool) -> bool {
    // A damaged list of imports does not keep open turns from being resumed.
    let rolled_back = shared.local.roll_back_imports().await;
    if let Err(error) = &rolled_back
        && is_clean
    {
        tracing::warn!(%error, "the unfinished imports of lost members are not deleted now; it is tried again");
    }
    let taken = async {
        if !is_clean {
            for part in shared.local.taken_and_left().await?.chunks(AT_A_TIME) {
                look_after(shared, a2a, part.to_vec()).await?;
            }
        }
        loop {
            let taken = shared.local.take_over().await?;
            if taken.is_empty() {
                return Ok::<(), unisono::Error>(());
            }
            look_after(shared, a2a, taken).await?;
        }
    };
    match taken.await {
        Ok(()) => rolled_back.is_ok(),
        Err(error) => {
            tracing::warn!(%error, "the sessions of a lost member cannot be taken over now; it is tried again");
            false
        }
    }
}

/// Resumes sessions after a takeover.
async fn look_after(
    shared: &Shared,
    a2a: &Arc<A2a>,
    taken: Vec<SessionInfo>,
) -> Result<(), unisono::Error> {
    let local = &shared.local;
    let count = taken.len();
    shared.taken_over.fetch_add(count as u64, Ordering::Relaxed);
    let ids: Vec<SessionId> = taken.iter().map(|info| info.session.into()).collect();
    a2a.clone().resume_callbacks(Some(ids.clone())).await;
    let kept = shared.ephemeral_sessions.without(local, ids.clone()).await;
    let kept = kept.unwrap_or_else(|error| {
        tracing::warn!(%error, "sessions for one request are left until the next start");
        ids
    });
    let kept = taken
        .into_iter()
        .filter(|info| kept.contains(&info.session.into()));
    let open = local.adopt(kept.collect()).await?;
    tracing::warn!(
        sessions = count,
        open,
        "taking over sessions of a lost program"
    );
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_daemon_is_reached_where_it_listens_or_as_it_is_set() {
        let listens: SocketAddr = "127.0.0.1:7007".parse().unwrap();
        assert_eq!(address(None, listens), "http://127.0.0.1:7007");
        assert_eq!(address(Some("http://ONE:80/"), listens), "http://ONE:80");
        assert_eq!(host("http://ONE:80").as_deref(), Some("one"));
        let all = address(None, "0.0.0.0:7007".parse().unwrap());
        assert!(all.starts_with("http://") && all.ends_with(":7007") && !all.contains("0.0.0.0"));
        assert_eq!(host("one"), Some("one".to_owned()));
        assert_eq!(host("no address"), None);
    }

    #[test]
    fn a_drained_daemon_resumes_no_callbacks() {
        for (owned_before, owned, is_draining, resumes) in [
            (0, 1, false, true),
            (2, 1, false, true),
            (1, 1, false, false),
            (1, 0, true, false),
            (1, 1, true, false),
        ] {
            let beat = Beat {
                owned,
                is_draining,
                ..Beat::default()
            };
            assert_eq!(resumes_callbacks(&beat, owned_before), resumes, "{beat:?}");
        }
    }
}
