//! Looking back: what a session's journal tells of turns, runs and what they were sent.

pub mod runs;

use std::collections::BTreeMap;

use unisono_context::{SessionId, TurnId};
use unisono_runtime::clock;
use unisono_runtime::replay::{self, Rebuilt};
use unisono_session::budget::Left;
use unisono_session::{Event, Replay, State, Trace};
use unisono_store::{Journal, Leases};

use crate::config::Budget;
use crate::models;
use crate::setup::Setup;

/// Events read at a time.
const PAGE: usize = 1_024;

/// Why a journal cannot be looked back at.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] unisono_store::Error),
    /// An event does not follow from those before it.
    #[error("event {seq} of session {session} does not fit: {error}")]
    Unfit {
        /// The session.
        session: SessionId,
        /// The event.
        seq: u64,
        /// Why not.
        error: String,
    },
}

/// Reads a session's events from the first on, until `take` wants no more.
///
/// # Errors
/// The store's, or that of `take`.
pub async fn read<E: From<unisono_store::Error>>(
    journal: &Journal,
    session: SessionId,
    mut take: impl FnMut(&Event) -> Result<bool, E>,
) -> Result<(), E> {
    let mut next = 1;
    loop {
        let page = journal.read(session, next, PAGE).await?;
        let Some((last, _)) = page.last() else {
            return Ok(());
        };
        next = last + 1;
        for (_, event) in &page {
            if !take(event)? {
                return Ok(());
            }
        }
    }
}

/// The turns and runs of a session.
///
/// # Errors
/// The store fails.
pub async fn trace(journal: &Journal, session: SessionId) -> Result<Trace, Error> {
    let mut trace = Trace::default();
    read(journal, session, |event| {
        trace.take(event);
        Ok::<_, Error>(true)
    })
    .await?;
    Ok(trace)
}

/// A turn up to its end, with its frozen context rebuilt.
///
/// # Errors
/// The store fails, or its journal does not fold.
pub async fn replay(journal: &Journal, session: SessionId, turn: TurnId) -> Result<Replay, Error> {
    let mut replay = Replay::of(turn);
    read(journal, session, |event| {
        let seq = replay.events() + 1;
        let taken = replay.take(event);
        taken.map_err(|error| Error::Unfit {
            session,
            seq,
            error: error.to_string(),
        })
    })
    .await?;
    Ok(replay)
}

/// The requests of a turn, rebuilt without any way to send them. Takes a tokenizer, and time.
pub fn rebuild(setup: &Setup, replay: &Replay) -> Rebuilt {
    let definitions = replay.turn().map(|turn| turn.distinct_definitions());
    let each = definitions
        .iter()
        .flatten()
        .map(|(_, definition)| definition);
    let models = models::on_paper(setup, each);
    replay::rebuild(replay, &models)
}

/// How the bounds of all sessions together stand.
///
/// # Errors
/// The store failed, or what was lent to sessions cannot be read.
pub async fn daemon_budgets(
    journal: &Journal,
    budget: &Budget,
) -> Result<Vec<Left>, unisono_store::Error> {
    let Some(rules) = budget.daemon.rules() else {
        return Ok(Vec::new());
    };
    let house = Leases::read(journal).await?;
    let mut standing = BTreeMap::new();
    for session in house.holders() {
        let (mut state, mut folds) = (State::default(), false);
        read(journal, session, |event| {
            folds = state.apply(event).is_ok();
            Ok::<_, unisono_store::Error>(folds)
        })
        .await?;
        standing.extend(folds.then(|| (session, state.standing())));
    }
    Ok(house.left(&rules, &standing, clock::now()))
}
