//! Following a turn up to its end: the events of its session's journal as changes of the turn, with
//! progress reports between them.
//!
//! Each follower folds the journal itself, so an update depends only on its event and the earlier
//! ones: a follower that reconnects with the number of its last update gets the next one, also from
//! another process. A follower that has the last event of a turn at work begins with the state of the
//! session instead: nothing is folded again. The small pieces of a reply are joined (`joining`),
//! because a fast model streams hundreds of them in a second.

mod earlier;
mod events;
mod fold;
mod joining;
mod member;
mod stored;

use std::collections::VecDeque;
use std::fmt;
use std::future::Future;
use std::pin::Pin;

use tokio::sync::broadcast;
use tokio::sync::broadcast::error::RecvError;
use tokio::time::{Instant, sleep_until};
use unisono_api::Code;
use unisono_api::turn_event::{ChangedAgent, TurnEvent, TurnState, TurnUpdate};
use unisono_context::{RunId, TurnId};
use unisono_runtime::{
    BegunReplies, Error as RuntimeError, Events, Handle, Progress, ProgressUpdate,
};
use unisono_session::state::EndedTurn;
use unisono_session::turn::Phase;
use unisono_session::{Event, State};
use unisono_store::Journal;

use crate::ask::Ask;
use crate::error::Error;
use crate::view::Inspect;
use crate::{Local, history, turn_view};

pub use events::{event_kinds, event_to_api, progress_to_api};
use fold::{Change, TurnFold};
pub use joining::JoinedText;
pub use member::members;
pub use stored::StoredFollower;

/// A follower of a turn.
pub struct Follower {
    journal: Journal,
    session: Handle,
    turn: TurnId,
    fold: TurnFold,
    /// Updates to return after the pieces of replies that are held.
    ready: VecDeque<TurnUpdate>,
    /// Pieces of replies that are returned together.
    texts: JoinedText,
    events: Events,
    progress: broadcast::Receiver<ProgressUpdate>,
    /// The replies of whose text some was sent before it came, until the events before them are returned.
    begun: BegunReplies,
    /// Whether their texts so far are returned then.
    tells_begun: bool,
    /// A progress report after events that are not returned yet.
    said: Option<ProgressUpdate>,
    /// Resolves with the end of the turn, or of the session.
    gone: Option<Waiting>,
    /// The event that ended the turn, until the ended turn is read.
    ending: Option<u64>,
    ended: bool,
}

/// The events of a session and its progress reports.
type Feed = (Events, broadcast::Receiver<ProgressUpdate>);

type Waiting = Pin<Box<dyn Future<Output = Result<EndedTurn, RuntimeError>> + Send>>;

impl fmt::Debug for Follower {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut this = f.debug_struct("Follower");
        this.field("turn", &self.turn).finish_non_exhaustive()
    }
}

impl Local {
    /// Starts a turn and follows it from its acceptance on. If the request repeats an earlier one,
    /// that one's turn is followed in the same way.
    ///
    /// # Errors
    /// As [`Local::begin`], or the journal cannot be read.
    pub async fn begin_followed(
        &self,
        session: &Handle,
        ask: &Ask,
    ) -> Result<(TurnId, Follower), Error> {
        let before: State = session.inspect(Clone::clone).await?;
        // Before the turn begins, so that no text of it is missed.
        let (feed, _) = feed_of(session, before.events()).await?;
        let turn = self.begin(session, ask).await?;
        if before.turn(turn).is_some() || before.ended_turn(turn).is_some() {
            let follower = self.follower(session.clone(), turn, Some(0)).await?;
            return Ok((turn, follower));
        }
        let fold = TurnFold::new(session.id(), before, turn);
        let follower = Follower::new(self.journal().clone(), session.clone(), (turn, fold), feed);
        Ok((turn, follower))
    }

    /// Follows a turn: with `after`, from the update of that number on; without it, the current
    /// state of the turn comes first.
    ///
    /// # Errors
    /// There is no such turn, event `after` has not happened, or the journal cannot be read.
    pub async fn follower(
        &self,
        session: Handle,
        turn: TurnId,
        after: Option<u64>,
    ) -> Result<Follower, Error> {
        let state: State = session.inspect(Clone::clone).await?;
        let (now, ended) = (state.events(), state.ended_turn(turn).is_some());
        if !ended && state.turn(turn).is_none() {
            return Err(Error::not_found("turn", turn));
        }
        check_position(after, now)?;
        let fold = TurnFold::new(session.id(), beginning(state, turn, after), turn);
        let known = self.state_of(&session, &fold).await;
        let (feed, replies) = feed_of(&session, now).await?;
        let mut follower = Follower::new(self.journal().clone(), session, (turn, fold), feed);
        follower.begun = replies;
        match after {
            Some(after) => follower.read(after, now).await?,
            None if ended => follower.read_to_end(now).await?,
            None => follower.ready.push_back(TurnUpdate {
                seq: Some(now),
                event: TurnEvent::State(known),
            }),
        }
        match after {
            // The client has no text of the turn.
            Some(0) => follower.include_texts(),
            // A client without the state takes the next text for the beginning of a reply.
            Some(_) if !follower.fold.has_ended() => follower.note_missed(),
            _ => {}
        }
        Ok(follower)
    }

    /// The current state of a turn, with its agents whose definitions have changed.
    async fn state_of(&self, session: &impl Inspect, fold: &TurnFold) -> TurnState {
        let state = fold.state();
        let Some(turn) = fold.open_turn() else {
            return state;
        };
        // If the settings are invalid, agents are compared without them.
        let setup = self.setup_of(session).await;
        let setup = setup.unwrap_or_else(|_| self.setup());
        let changed = setup.roster.changed(turn).into_iter();
        let changed = changed.map(|(agent, change)| ChangedAgent {
            agent: agent.to_string(),
            change: change.to_string(),
        });
        TurnState {
            changed_agents: changed.collect(),
            ..state
        }
    }
}

impl Follower {
    fn new(
        journal: Journal,
        session: Handle,
        (turn, fold): (TurnId, TurnFold),
        (events, progress): Feed,
    ) -> Follower {
        let waiting = session.clone();
        Follower {
            journal,
            session,
            turn,
            fold,
            ready: VecDeque::new(),
            texts: JoinedText::default(),
            events,
            progress,
            begun: BegunReplies::default(),
            tells_begun: false,
            said: None,
            gone: Some(Box::pin(async move { waiting.wait(turn).await })),
            ending: None,
            ended: false,
        }
    }

    /// The next update, as soon as there is one; none after the end of the turn. It is safe to drop
    /// and repeat.
    ///
    /// # Errors
    /// The session is gone, or its journal cannot be read.
    pub async fn next(&mut self) -> Result<Option<TurnUpdate>, Error> {
        loop {
            if let Some(seq) = self.ending {
                self.end(seq).await?;
            }
            if let Some(update) = self.pop() {
                return Ok(Some(update));
            }
            if self.ended {
                return Ok(None);
            }
            let events = self.fold.events();
            if !self.begun.texts.is_empty() && self.begun.after <= events {
                self.take_begun();
                continue;
            }
            if let Some(said) = self.said.take_if(|said| said.after <= events) {
                self.say(&said.progress);
                continue;
            }
            let due = self.texts.next_due();
            tokio::select! {
                // A progress report before an event is returned before it.
                biased;
                said = self.progress.recv(), if self.said.is_none() => match said {
                    Ok(said) => self.said = Some(said),
                    Err(RecvError::Lagged(_)) => {
                        self.ready.push_back(unnumbered(TurnEvent::Missed));
                    }
                    Err(RecvError::Closed) => self.resubscribe().await?,
                },
                event = self.events.next() => match event? {
                    Some((_, event)) => self.take(&event)?,
                    None => self.resubscribe().await?,
                },
                // Only its error matters: the end itself comes with the events.
                Some(result) = finished(&mut self.gone) => {
                    // A wait that has ended cannot be polled again.
                    self.gone = None;
                    result?;
                }
                () = sleep_until(due.unwrap_or_else(Instant::now)), if due.is_some() => {}
            }
        }
    }

    /// Reports that the first text of the lead's current reply was sent before.
    fn note_missed(&mut self) {
        let mut streaming = self.begun.texts.iter();
        if streaming.any(|(run, _)| self.fold.may_be_lead(*run)) {
            self.ready.push_back(unnumbered(TurnEvent::Missed));
        }
    }

    /// Returns the texts so far of the current replies before their next pieces: the client has no text of
    /// the turn.
    pub fn include_texts(&mut self) {
        self.tells_begun = true;
    }

    /// Reports the texts so far of the replies that began before, or drops them. They belong behind one
    /// event: an event after it may have ended the reply.
    fn take_begun(&mut self) {
        let begun = std::mem::take(&mut self.begun);
        if !self.tells_begun {
            return;
        }
        let is_current = begun.after == self.fold.events();
        for (run, text) in begun.texts {
            let is_whole = text.len() <= BegunReplies::WHOLE_BYTES;
            if is_current && is_whole && !self.fold.is_of_other(run) {
                self.ready.push_back(text_update((run, text.to_string())));
            } else if self.fold.may_be_lead(run) {
                self.ready.push_back(unnumbered(TurnEvent::Missed));
            }
        }
    }

    /// Adds to the current state of an open turn, which is not returned yet, what happened in the turn
    /// before: its calls and summaries, and the texts so far of its replies. No event before the turn
    /// is read.
    ///
    /// # Errors
    /// As [`Local::follower`].
    pub async fn rewind(&mut self) -> Result<(), Error> {
        let sought = history::Lookup::Turn(self.turn);
        let trace = history::turn(&self.journal, &self.session, sought).await?;
        let accepted = trace.as_ref().and_then(|trace| trace.turn(self.turn));
        let Some(mut seq) = accepted.map(|turn| turn.accepted.0.seq) else {
            return Ok(());
        };
        let (mut events, now) = (self.session.events(seq).await?, self.fold.events());
        let mut earlier = Vec::new();
        while seq < now
            && let Some((at, event)) = events.next().await?
        {
            earlier.extend(self.fold.earlier(&event));
            seq = at;
        }
        if let Some(TurnUpdate {
            event: TurnEvent::State(state),
            ..
        }) = self.ready.front_mut()
            && !state.waiting.is_empty()
        {
            let calls = std::mem::take(&mut state.waiting);
            earlier.push(TurnEvent::Waiting { calls });
        }
        self.ready.extend(earlier.into_iter().map(unnumbered));
        self.include_texts();
        Ok(())
    }

    /// What can be returned now. Pieces of a reply come before the updates after them.
    fn pop(&mut self) -> Option<TurnUpdate> {
        let text = match self.ready.is_empty() {
            true => self.texts.pop(Instant::now()),
            false => self.texts.pop_any(),
        };
        text.map(text_update).or_else(|| self.ready.pop_front())
    }

    /// Reads the journal of an ended turn: its state and its end are returned.
    async fn read_to_end(&mut self, now: u64) -> Result<(), Error> {
        self.read(0, now).await?;
        self.ready.clear();
        // Without a number: a client that reconnects after it must get the end as well.
        let state = TurnEvent::State(self.fold.state());
        self.ready.push_front(unnumbered(state));
        Ok(())
    }

    /// Reads the rest of the journal up to event `to`. Updates up to `after` are known.
    async fn read(&mut self, after: u64, to: u64) -> Result<(), Error> {
        let (journal, id) = (self.journal.clone(), self.session.id());
        let mut found = Vec::new();
        history::read_from(&journal, id, self.fold.events() + 1, |event| {
            if self.fold.events() == to {
                return Ok(false);
            }
            let change = self.apply(event)?;
            if self.fold.events() > after {
                found.extend(change.map(|change| (self.fold.events(), change)));
            }
            Ok::<_, Error>(self.fold.events() < to)
        })
        .await?;
        for (seq, change) in found {
            self.changed(seq, change);
        }
        // A client that had the end and reconnects.
        self.ended = self.fold.has_ended() && self.ending.is_none();
        if self.fold.events() < to {
            // The latest data of the session is not on disk yet.
            let (feed, _) = feed_of(&self.session, self.fold.events()).await?;
            self.events = feed.0;
        }
        Ok(())
    }

    fn apply(&mut self, event: &Event) -> Result<Option<Change>, history::Error> {
        let (session, seq) = (self.session.id(), self.fold.events() + 1);
        let applied = self.fold.apply(event);
        applied.map_err(|error| history::unfit(session, seq, error))
    }

    fn take(&mut self, event: &Event) -> Result<(), Error> {
        if let Some(change) = self.apply(event)? {
            self.changed(self.fold.events(), change);
        }
        Ok(())
    }

    fn changed(&mut self, seq: u64, change: Change) {
        match change {
            Change::Events(events) => self.ready.extend(numbered(seq, events)),
            Change::Ended => self.ending = Some(seq),
        }
    }

    /// Reads the ended turn for the last update.
    async fn end(&mut self, seq: u64) -> Result<(), Error> {
        let turn = turn_view::turn(&self.journal, &self.session, self.turn).await?;
        let turn = turn.ok_or_else(|| Error::not_found("turn", self.turn))?;
        self.ready.push_back(TurnUpdate {
            seq: Some(seq),
            event: TurnEvent::Ended(Box::new(self.fold.end(turn))),
        });
        (self.ending, self.ended) = (None, true);
        Ok(())
    }

    fn say(&mut self, said: &Progress) {
        let event = match said {
            Progress::TextDelta { run, .. }
            | Progress::Run { run, .. }
            | Progress::Pause { run, .. }
                if self.fold.is_of_other(*run) =>
            {
                return;
            }
            Progress::TextDelta { run, text } => {
                return self.texts.push(*run, text, Instant::now());
            }
            Progress::Run { run, text } => TurnEvent::Progress {
                run: run.to_string(),
                text: text.to_string(),
            },
            Progress::Pause { run, until, reason } => {
                let Some(agent) = self.fold.pausing(*run, *until, reason) else {
                    return;
                };
                let reason = reason.to_string();
                TurnEvent::RunRetried { agent, reason }
            }
            Progress::Compaction {
                turn,
                text,
                is_failure,
            } if *turn == self.turn => TurnEvent::CompactionProgress {
                text: text.to_string(),
                is_failure: *is_failure,
            },
            Progress::Compaction { .. } => return,
        };
        self.ready.push_back(unnumbered(event));
    }

    /// The feed has ended if the session is gone permanently.
    async fn resubscribe(&mut self) -> Result<(), Error> {
        let (feed, _) = feed_of(&self.session, self.fold.events()).await?;
        (self.events, self.progress) = feed;
        Ok(())
    }
}

/// The state from which a follower folds the events: the current one if it is enough, or the one before
/// all events.
fn beginning(state: State, turn: TurnId, after: Option<u64>) -> State {
    let is_enough = match (state.turn(turn), after) {
        // The session does not know all of an ended turn.
        (None, _) => false,
        (Some(_), None) => true,
        // The updates of a compaction depend on its earlier steps.
        (Some(turn), Some(after)) => {
            let is_compacted = !matches!(turn.phase, Phase::Preparing | Phase::Compacting(_));
            is_compacted && after == state.events()
        }
    };
    if is_enough { state } else { State::default() }
}

/// Follows a session after an event, and returns the replies that began before.
async fn feed_of(session: &Handle, after: u64) -> Result<(Feed, BegunReplies), RuntimeError> {
    let (mut events, progress) = session.follow(after).await?;
    let begun = events.take_begun();
    Ok(((events, progress), begun))
}

/// Refuses a position after the last event, `now`.
fn check_position(after: Option<u64>, now: u64) -> Result<(), Error> {
    match after.filter(|after| *after > now) {
        Some(after) => {
            let detail = format!("event {after} has not happened; the last one is {now}");
            Err(Error::new(Code::InvalidRequest, detail))
        }
        None => Ok(()),
    }
}

/// The updates that follow from event `seq`. Only the last one has the number: a client that reconnects
/// before it gets all again.
fn numbered(seq: u64, events: Vec<TurnEvent>) -> impl Iterator<Item = TurnUpdate> {
    let last = events.len().saturating_sub(1);
    events.into_iter().enumerate().map(move |(index, event)| {
        let seq = (index == last).then_some(seq);
        TurnUpdate { seq, event }
    })
}

fn text_update((run, text): (RunId, String)) -> TurnUpdate {
    let run = run.to_string();
    unnumbered(TurnEvent::Text { run, text })
}

fn unnumbered(event: TurnEvent) -> TurnUpdate {
    TurnUpdate { seq: None, event }
}

/// The end of a wait; pending if there is nothing to wait for.
async fn finished(waiting: &mut Option<Waiting>) -> Option<Result<EndedTurn, RuntimeError>> {
    match waiting {
        Some(waiting) => Some(waiting.await),
        None => None,
    }
}

#[cfg(test)]
mod tests;
