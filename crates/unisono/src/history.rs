//! The past of a session, read from its journal: turns, runs and their requests.

pub(crate) mod folded;
pub mod run_index;
pub mod runs;
mod settled;
pub mod usage;

use std::fmt::Display;

use unisono_context::attachment::Files;
use unisono_context::{RunId, SessionId, TurnId};
use unisono_runtime::Extensions;
use unisono_runtime::replay::{self, RebuiltTurn};
use unisono_session::{Event, Fact, Replay, State, Trace};
use unisono_store::{Journal, SessionInfo};

use crate::models;
use crate::view::Inspect;
use unisono_config::setup::Setup;

/// Events or sessions read at a time.
const PAGE: usize = 1_024;
/// Number of events in the first read from the newest backwards; each further read doubles it.
const NEWEST: usize = 32;

/// Why a journal cannot be read back.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The store fails.
    #[error(transparent)]
    Store(#[from] unisono_store::Error),
    /// The session cannot be inspected.
    #[error(transparent)]
    Session(#[from] unisono_runtime::Error),
    /// An event does not follow from the earlier events.
    #[error("event {seq} of session {session} does not follow from the events before it: {error}")]
    Unfit {
        /// The session.
        session: SessionId,
        /// The event.
        seq: u64,
        /// The reason.
        error: String,
    },
}

pub(crate) fn unfit(session: SessionId, seq: u64, error: impl Display) -> Error {
    let error = error.to_string();
    Error::Unfit {
        session,
        seq,
        error,
    }
}

/// All sessions of the store, the oldest first.
pub(crate) async fn all_sessions(
    journal: &Journal,
) -> Result<Vec<SessionInfo>, unisono_store::Error> {
    let (mut all, mut after) = (Vec::new(), None);
    loop {
        let page = journal.sessions(after, PAGE).await?;
        let Some(last) = page.last() else {
            return Ok(all);
        };
        after = Some(last.id());
        // A claimed session without events does not exist.
        all.extend(page.into_iter().filter(|info| info.last_seq > 0));
    }
}

/// Reads a session's events from the first on, until `take` stops.
///
/// # Errors
/// The store's error, or that of `take`.
pub async fn read<E: From<unisono_store::Error>>(
    journal: &Journal,
    session: SessionId,
    take: impl FnMut(&Event) -> Result<bool, E>,
) -> Result<(), E> {
    read_from(journal, session, 1, take).await
}

pub(crate) async fn read_from<E: From<unisono_store::Error>>(
    journal: &Journal,
    session: SessionId,
    mut next: u64,
    mut take: impl FnMut(&Event) -> Result<bool, E>,
) -> Result<(), E> {
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

/// The state of a session from its journal; none without events.
///
/// # Errors
/// The store fails, or an event does not follow from the earlier events.
pub async fn state(journal: &Journal, session: SessionId) -> Result<Option<State>, Error> {
    let mut state = State::default();
    catch_up(journal, session, &mut state).await?;
    Ok((state.events() > 0).then_some(state))
}

/// Folds the events of a session up to number `last`, and reads none after it.
///
/// # Errors
/// The store fails, an event is missing, or an event does not follow from the earlier events.
pub async fn state_until(journal: &Journal, session: SessionId, last: u64) -> Result<State, Error> {
    let mut state = State::default();
    for (seq, event) in span(journal, session, 1, last).await? {
        let applied = state.apply(&event);
        applied.map_err(|error| unfit(session, seq, error))?;
    }
    match state.events() == last {
        true => Ok(state),
        false => Err(unfit(session, state.events() + 1, "it is missing")),
    }
}

/// Folds the events of the journal after those that the state of a session already has.
///
/// # Errors
/// The store fails, or an event does not follow from the earlier events.
pub async fn catch_up(
    journal: &Journal,
    session: SessionId,
    state: &mut State,
) -> Result<(), Error> {
    read_from(journal, session, state.events() + 1, |event| {
        let seq = state.events() + 1;
        let applied = state.apply(event);
        applied.map_err(|error| unfit(session, seq, error))?;
        Ok(true)
    })
    .await
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

/// The target of a search in a session's journal.
#[derive(Clone, Copy, Debug)]
#[non_exhaustive]
pub enum Lookup {
    /// A turn.
    Turn(TurnId),
    /// The turn of a run.
    Run(RunId),
}

impl Lookup {
    /// Whether an event is the acceptance of the turn. Called from the newest event backwards; if a
    /// run is searched, its opening names its turn.
    fn begins_at(&mut self, event: &Event) -> bool {
        match (&event.fact, *self) {
            (Fact::TurnAccepted { turn }, Lookup::Turn(sought)) => turn.id == sought,
            (Fact::RunOpened { run }, Lookup::Run(sought)) if run.id == sought => {
                *self = Lookup::Turn(run.turn);
                false
            }
            _ => false,
        }
    }
}

/// A turn with its runs and the events until now; none if the session has no such turn or run.
///
/// # Errors
/// The store fails, or the session cannot be inspected.
pub async fn turn(
    journal: &Journal,
    session: &impl Inspect,
    mut sought: Lookup,
) -> Result<Option<Trace>, Error> {
    let found = since(journal, session, u64::MAX, |_, event| {
        sought.begins_at(event)
    });
    Ok(found.await?.map(|(trace, _)| trace))
}

/// Up to `limit` turns that were accepted before event `before`, newest first. It reads the events
/// from the oldest of these turns on until all of them have ended and no late answer can change
/// their description: no events before that, and none long after.
///
/// # Errors
/// The store fails, or the session cannot be inspected.
pub async fn turns(
    journal: &Journal,
    session: &impl Inspect,
    before: u64,
    many: usize,
) -> Result<Trace, Error> {
    let mut left = many;
    let found = since(journal, session, before.saturating_sub(1), |seq, event| {
        let counts = matches!(event.fact, Fact::TurnAccepted { .. });
        left = left.saturating_sub(usize::from(counts));
        left == 0 || seq == 1
    });
    let Some((mut trace, mut end)) = found.await? else {
        return Ok(Trace::default());
    };
    let (mut now, mut many) = (None, NEWEST);
    while !settled::all_before(&trace, before, now) {
        let part = journal.read(session.id(), end + 1, many).await?;
        let Some((last, newest)) = part.last() else {
            break;
        };
        (end, now) = (*last, Some(newest.at));
        for (_, event) in &part {
            trace.take(event);
        }
        many = (many * 2).min(PAGE);
    }
    Ok(trace)
}

/// The trace from an event on up to event `until`, or the last event, and the number of that; none
/// if it is not found. Searches for the event from there backwards: a near event costs little,
/// however long the session is.
async fn since(
    journal: &Journal,
    session: &impl Inspect,
    until: u64,
    mut begins_at: impl FnMut(u64, &Event) -> bool,
) -> Result<Option<(Trace, u64)>, Error> {
    let look = |state: &State| {
        let each = state.definitions();
        let definitions: Vec<_> = each.map(|(digest, of)| (digest, of.clone())).collect();
        (state.events(), definitions)
    };
    let (last, definitions) = session.inspect(look).await?;
    let top = last.min(until);
    let mut end = top;
    let mut many = NEWEST;
    while end > 0 {
        let first = end.saturating_sub(many as u64 - 1).max(1);
        let part = span(journal, session.id(), first, end).await?;
        let begin = part.iter().rposition(|(seq, event)| begins_at(*seq, event));
        if let Some(begin) = begin {
            let mut trace = Trace::after(first + begin as u64 - 1, definitions);
            for (_, event) in &part[begin..] {
                trace.take(event);
            }
            // The parts behind this one were only searched.
            while end < top {
                let last = (end + PAGE as u64).min(top);
                for (_, event) in span(journal, session.id(), end + 1, last).await? {
                    trace.take(&event);
                }
                end = last;
            }
            return Ok(Some((trace, top)));
        }
        (end, many) = (first - 1, (many * 2).min(PAGE));
    }
    Ok(None)
}

/// The events with these numbers.
pub(crate) async fn span(
    journal: &Journal,
    session: SessionId,
    first: u64,
    last: u64,
) -> Result<Vec<(u64, Event)>, unisono_store::Error> {
    let mut events: Vec<(u64, Event)> = Vec::new();
    loop {
        let next = events.last().map_or(first, |(seq, _)| seq + 1);
        if next > last {
            return Ok(events);
        }
        let part = journal
            .read(session, next, (last + 1 - next) as usize)
            .await?;
        if part.is_empty() {
            return Ok(events);
        }
        events.extend(part);
    }
}

/// A turn up to its end, with its frozen context rebuilt.
///
/// # Errors
/// The store fails, or its journal does not fold.
pub async fn replay(journal: &Journal, session: SessionId, turn: TurnId) -> Result<Replay, Error> {
    let mut replay = Replay::new(turn);
    read(journal, session, |event| {
        let seq = replay.events() + 1;
        let taken = replay.take(event);
        taken.map_err(|error| unfit(session, seq, error))
    })
    .await?;
    Ok(replay)
}

/// The requests of a turn, rebuilt without any way to send them. Needs a tokenizer, and time.
pub fn rebuild(
    setup: &Setup,
    extensions: &Extensions,
    replay: &Replay,
    files: &Files,
) -> RebuiltTurn {
    let definitions = replay.turn().map(|turn| turn.distinct_definitions());
    let named = definitions.iter().flatten().map(|(_, agent)| &agent.model);
    let steps = replay.runs().flat_map(|run| &run.steps);
    let stood_in = steps.filter_map(|step| step.fallback());
    let models = models::models_for_replay(setup, extensions, named.chain(stood_in));
    replay::rebuild(replay, &models, files)
}

#[cfg(test)]
mod tests;
