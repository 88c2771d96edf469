//! Reacts to an expired lease, after which other programs may take over.
//!
//! Sessions that other programs may own by then leave memory. Sessions that this program still owns
//! continue. Those with open turns are opened if they are not in memory.

use std::sync::Arc;

use ractor::ActorRef;

use crate::env::Env;
use crate::error::Error;
use crate::session::supervision::{self, Msg};

/// The number of sessions whose last events are read per page.
const LOOKED_AT: usize = 1_024;

/// Follows the beats of this program while the tree works.
pub(super) async fn follow(env: Arc<Env>, supervisor: ActorRef<Msg>) {
    let Some(mut beats) = env.journal.cluster().map(|cluster| cluster.beats()) else {
        return;
    };
    let mut lapses = beats.borrow().lapses;
    // If the sender is gone, so is the store.
    while beats.changed().await.is_ok() {
        let now = beats.borrow_and_update().lapses;
        if now == lapses {
            continue;
        }
        lapses = now;
        if supervisor.send_message(Msg::ForgetLost).is_err() {
            return;
        }
        if let Err(error) = open_own(&env, &supervisor).await {
            tracing::error!(%error, "open turns of own sessions continue when the sessions are opened");
        }
    }
}

async fn open_own(env: &Env, supervisor: &ActorRef<Msg>) -> Result<(), Error> {
    let Some(cluster) = env.journal.cluster() else {
        return Ok(());
    };
    for part in cluster.owned().await?.chunks(LOOKED_AT) {
        let unfinished = env.journal.unfinished_of(part.to_vec()).await?;
        for session in unfinished {
            // It reads its journal by itself.
            if let Err(error) = supervision::activate(supervisor, session).await {
                tracing::error!(%session, %error, "a session cannot be opened");
            }
        }
    }
    Ok(())
}
