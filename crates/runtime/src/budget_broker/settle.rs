//! Returns unused grants of sessions, by the usage in their journals.

use unisono_context::SessionId;
use unisono_session::budget::broker::DaemonBudget;
use unisono_session::budget::{Broker, Grant, SessionUse};
use unisono_session::{Event, State as SessionState};
use unisono_store::Journal;

use crate::clock;

/// Events per read.
const PAGE: usize = 4_096;

/// Lowers the grants of sessions to the usage in their journals. It skips sessions that another
/// program owns.
pub(super) async fn settle(
    journal: &Journal,
    rules: &DaemonBudget,
    broker: &Broker,
) -> Result<Vec<Grant>, unisono_store::Error> {
    let (now, mut lowered) = (clock::store_now(journal), Vec::new());
    for session in broker.holders() {
        if let Some(cluster) = journal.cluster()
            && cluster.owner(session.into()).await?.is_some()
        {
            continue;
        }
        lowered.extend(match session_use(journal, session).await? {
            Some(session_use) => broker.lower(rules, session, session_use, now),
            // The session is deleted or cannot be folded.
            None => broker.close(rules, session, now),
        });
    }
    Ok(lowered)
}

/// The budget use in a session's journal, if the journal has events.
pub(super) async fn session_use(
    journal: &Journal,
    session: SessionId,
) -> Result<Option<SessionUse>, unisono_store::Error> {
    let (mut state, mut next) = (SessionState::default(), 1);
    loop {
        let page = journal.read(session, next, PAGE).await?;
        let Some((last, _)) = page.last() else { break };
        next = last + 1;
        let folds = |(_, event): &(u64, Event)| state.apply(event).is_ok();
        if !page.iter().all(folds) {
            return Ok(None);
        }
    }
    Ok((next > 1).then(|| state.session_use()))
}
