//! The background tasks of the daemon: resuming turns, schedules, reloads of agents, deletion of
//! old sessions, vacuum.

use std::sync::Arc;
use std::time::Duration;

use tokio::task::JoinHandle;
use unisono::{automation, retention, vacuum};

use super::{Shared, cluster, people};
use crate::a2a::A2a;

/// Starts all tasks; none of them ends by itself. Other daemons reach this one at `reached`.
pub(super) fn begin(shared: &Arc<Shared>, a2a: &Arc<A2a>, reached: String) -> Vec<JoinHandle<()>> {
    vec![
        tokio::spawn(resume(shared.clone())),
        tokio::spawn(a2a.clone().resume_callbacks(None)),
        tokio::spawn(cluster::follow(shared.clone(), a2a.clone(), reached)),
        tokio::spawn(people::follow(shared.clone())),
        tokio::spawn(follow_agents(shared.clone())),
        tokio::spawn(prune(shared.clone())),
        tokio::spawn(follow_schedules(shared.clone())),
        tokio::spawn(vacuum::follow(shared.local.clone())),
    ]
}

/// Checks for changed agent definitions, at the configured interval.
async fn follow_agents(shared: Arc<Shared>) {
    let seconds = shared.local.setup().loaded.config.server.reload_seconds;
    if seconds > 0 {
        let every = Duration::from_secs(seconds);
        shared.local.follow_agents(every).await;
    }
}

/// Deletes sessions that are older than the settings allow.
async fn prune(shared: Arc<Shared>) {
    let times = retention::hourly(shared.local.journal());
    retention::follow(&shared.local, times).await;
}

/// Begins the due turns of schedules.
async fn follow_schedules(shared: Arc<Shared>) {
    // A store that was opened on a full disk becomes writable later; until then no turn can begin.
    if shared.local.journal().writable().await.is_ok() {
        automation::follow(&shared.local).await;
    }
}

/// Opens every session with unfinished work, so that its turns continue, and removes orphaned
/// ephemeral sessions. Those of lost daemons are left to the takeover.
async fn resume(shared: Arc<Shared>) {
    let local = &shared.local;
    // A store that was opened on a full disk becomes writable later; until then no turn can
    // continue.
    if local.journal().writable().await.is_err() {
        return;
    }
    let unfinished = async {
        let unfinished = local.unfinished_here().await?;
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
