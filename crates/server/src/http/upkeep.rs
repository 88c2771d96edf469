//! What the daemon does by itself: open turns go on, schedules begin turns, agents are read again, what
//! is too old is deleted, free space is given back.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use unisono::{automation, retention, vacuum};

use super::{Shared, cluster, people};
use crate::a2a::Door;

/// Begins all of it; none of it ends by itself. Other daemons reach this one at `reached`.
pub(super) fn begin(
    shared: &Arc<Shared>,
    door: &Arc<Door>,
    reached: String,
) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(resume(shared.clone())),
        tokio::spawn(door.clone().resume_callbacks(None)),
        tokio::spawn(cluster::follow(shared.clone(), door.clone(), reached)),
        tokio::spawn(people::follow(shared.clone())),
        tokio::spawn(follow_agents(shared.clone())),
        tokio::spawn(prune(shared.clone())),
        tokio::spawn(follow_schedules(shared.clone())),
        tokio::spawn(vacuum::follow(shared.local.clone())),
    ]
}

/// Notices agents that are defined anew, as often as it is set.
async fn follow_agents(shared: Arc<Shared>) {
    let seconds = shared.local.setup().loaded.config.server.reload_seconds;
    if seconds > 0 {
        let every = Duration::from_secs(seconds);
        shared.local.follow_agents(every).await;
    }
}

/// Deletes sessions that are older than the settings allow.
async fn prune(shared: Arc<Shared>) {
    retention::follow(&shared.local, retention::hourly()).await;
}

/// Begins the turns of schedules when they are due.
async fn follow_schedules(shared: Arc<Shared>) {
    // A store that was opened on a full disk takes writes later; until then nothing can begin.
    if shared.local.journal().writable().await.is_ok() {
        automation::follow(&shared.local).await;
    }
}

/// Opens each session that was left in the middle of its work, so that its open turns go on; what
/// nobody waits for any more is removed.
async fn resume(shared: Arc<Shared>) {
    let local = &shared.local;
    // A store that was opened on a full disk takes writes later; until then nothing can go on.
    if local.journal().writable().await.is_err() {
        return;
    }
    let unfinished = async {
        let unfinished = local.unfinished().await?;
        shared.ephemeral_sessions.without(local, unfinished).await
    };
    match unfinished.await {
        Ok(unfinished) => local.open_all(unfinished).await,
        Err(error) => {
            tracing::error!(%error, "sessions cannot be listed; open turns wait until they are asked for");
        }
    }
    if let Err(error) = shared.ephemeral_sessions.sweep(local).await {
        tracing::warn!(%error, "sessions for one request are left until the next start");
    }
}
