//! Follows a turn that a daemon works on: it says when there is something new, and the journal says
//! what.

use std::sync::Arc;

use tokio::time::Instant;
use unisono_api::client::{Client, Told};
use unisono_api::event::Progress as Said;
use unisono_context::SessionId;
use unisono_runtime::Progress;
use unisono_store::Journal;

use super::follow::{CANCELLED_WITHIN, End, Limits, Show, at};
use super::watch::Watch;
use crate::problem::{Problem, Result};

/// Events read at a time.
const PAGE: usize = 1_024;

/// Follows the turn and shows it. Interrupted, the daemon goes on with it.
pub(crate) async fn follow_there(
    client: &Client,
    journal: &Journal,
    session: SessionId,
    watch: &mut Watch,
    screen: &mut impl Show,
    limits: Limits<'_>,
) -> Result<End> {
    let Limits {
        timeout,
        interrupts,
        ..
    } = limits;
    let id = session.to_string();
    let mut told = client.events(&id, watch.events()).await?;
    let (mut end, mut late) = (End::Ended, timeout.map(|timeout| Instant::now() + timeout));
    while watch.outcome.is_none() {
        tokio::select! {
            biased;
            _ = interrupts.next() => return Ok(End::Interrupted),
            next = told.next() => match next? {
                Some(Told { seq: Some(seq), .. }) => if seq > watch.events() {
                    catch_up(journal, session, watch, screen).await?;
                },
                Some(Told { name, data, .. }) => if let Some(said) = said(&name, &data) {
                    screen.said(&said, watch);
                },
                None => told = client.events(&id, watch.events()).await?,
            },
            () = at(late) => {
                if end == End::TimedOut {
                    return Err(Problem::failed("the turn was cancelled but did not stop"));
                }
                end = End::TimedOut;
                late = Some(Instant::now() + CANCELLED_WITHIN);
                // One that ended meanwhile needs no cancelling.
                if let Err(error) = client.cancel(&id, &watch.turn.to_string()).await {
                    tracing::debug!(%error, "the turn is not cancelled");
                }
            }
        }
    }
    Ok(end)
}

async fn catch_up(
    journal: &Journal,
    session: SessionId,
    watch: &mut Watch,
    screen: &mut impl Show,
) -> Result<()> {
    for (_, event) in journal.read(session, watch.events() + 1, PAGE).await? {
        let news = watch.apply(&event)?;
        screen.event(&event, news.as_ref(), watch);
    }
    Ok(())
}

/// What is being done, as the daemon tells it.
fn said(name: &str, data: &str) -> Option<Progress> {
    let Said { run, turn, text } = serde_json::from_str(data).ok()?;
    let text: Arc<str> = text.into();
    match (name, run, turn) {
        ("piece", Some(run), _) => Some(Progress::Piece {
            run: run.parse().ok()?,
            text,
        }),
        ("progress", Some(run), _) => Some(Progress::Run {
            run: run.parse().ok()?,
            text,
        }),
        ("progress", None, Some(turn)) => Some(Progress::Compaction {
            turn: turn.parse().ok()?,
            text,
            trouble: false,
        }),
        _ => None,
    }
}
