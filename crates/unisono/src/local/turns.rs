//! Starting turns, waiting for their ends, and resuming them.

use std::sync::Arc;

use futures_util::future::try_join_all;
use unisono_config::skills;
use unisono_context::compaction::Mode;
use unisono_context::{SessionId, TurnId};
use unisono_runtime::Handle;
use unisono_runtime::mcp::ToolOffer;
use unisono_session::State;
use unisono_session::event::Work;
use unisono_session::machine::NewTurn;

use super::Local;
use crate::ask::{self, Ask, FinishedTurn};
use crate::context::estimate;
use crate::error::Error;
use crate::history;
use crate::models;

impl Local {
    /// Starts a turn. It is on disk when this returns. A repeated call with the same key returns
    /// the first turn, even if agents or servers have changed since.
    ///
    /// # Errors
    /// The caller may not name the author, an agent is unknown, the turn is refused, or the store fails.
    pub async fn begin(&self, session: &Handle, ask: &Ask) -> Result<TurnId, Error> {
        let ask = &self.with_author_of_caller(ask)?;
        if let Some(key) = ask.key()
            && let Some(known) = session.turn_by_key(key).await?
        {
            return Ok(known);
        }
        if let Mode::Part(_) = ask.mode() {
            let asked = ask.clone();
            let look = move |state: &State| estimate::head(state, &asked);
            session.inspect(look).await??;
        }
        let setup = self.setup_for(session, ask).await?;
        self.ask_servers(&setup, &ask.team(&setup)?).await;
        let mut turn = ask::turn(&setup, ask, self.calibrations())?;
        if self.is_short_lived() {
            turn.prepare = None;
        }
        ask::check_chosen(&setup, ask, &turn.team, &turn.policy)?;
        let skills = match turn.work {
            Work::Answer { .. } => self.shared.server_skills.list(&setup).await,
            _ => self.shared.server_skills.cached_lines(&setup),
        };
        if !skills.is_empty() {
            turn.instructions = setup.instructions(&skills).into();
        }
        let has_skills = setup.has_skills() || !skills.is_empty();
        let mut offers = self.offers(&turn, has_skills).await?;
        if matches!(turn.work, Work::Answer { .. }) {
            for (server, held) in self.runtime()?.held_offers(session.id()).await {
                ask::allow_server(&mut turn.team, &server);
                offers.extend(held);
            }
        }
        if !offers.is_empty() {
            let reach = setup.loaded.config.runtime.recall;
            let offered = offers.iter().map(|offer| &offer.spec);
            turn.tools = ask::tools_of(&turn.team, reach, offered);
        }
        if !offers.is_empty() || ask::asks_permission(&turn.team) {
            turn.rules = Arc::new(ask::rules_of(&setup, &turn.team, &offers));
        }
        ask::add_client_tools(ask, &mut turn)?;
        if matches!(turn.work, Work::Answer { .. }) {
            models::check(&setup, &turn.team)?;
            models::check_prices(&setup, &turn.team)?;
            self.log_notices_of(&setup, &turn.team);
        }
        let id = turn.id;
        if let Some(preceding) = ask.preceding() {
            let (preceding, key) = (preceding.clone(), ask.key().cloned());
            return Ok(session.accept_after(preceding, key, turn).await?);
        }
        if let Some(key) = ask.key() {
            return Ok(session.accept_keyed(key.clone(), turn).await?);
        }
        session.accept(turn).await?;
        Ok(id)
    }

    /// The tools of servers and of the program that a turn's agents may call. All servers are asked
    /// in parallel.
    async fn offers(&self, turn: &NewTurn, has_skills: bool) -> Result<Vec<ToolOffer>, Error> {
        if !matches!(turn.work, Work::Answer { .. }) {
            return Ok(Vec::new());
        }
        let servers = ask::servers_of(&turn.team).into_iter();
        let runtime = self.runtime()?;
        let offers = servers.map(|server| runtime.offers(server));
        let mut offers = try_join_all(offers).await?.concat();
        let mut own = self.shared.extensions.offers();
        if !has_skills {
            own.retain(|offer| *offer.spec.name != *skills::TOOL);
        }
        offers.extend(ask::offered_to(&turn.team, own));
        Ok(offers)
    }

    /// Starts a turn and waits for its end.
    ///
    /// # Errors
    /// As [`Local::begin`], or the session is gone.
    pub async fn ask(&self, session: &Handle, ask: &Ask) -> Result<FinishedTurn, Error> {
        let turn = self.begin(session, ask).await?;
        self.wait(session, turn).await
    }

    /// Waits for the end of a turn.
    ///
    /// # Errors
    /// There is no such turn, or the session is gone.
    pub async fn wait(&self, session: &Handle, turn: TurnId) -> Result<FinishedTurn, Error> {
        let ended = session.wait(turn).await?;
        let answer = match ended.answer {
            Some(id) => {
                session
                    .inspect(move |state| ask::text_of(state, id))
                    .await?
            }
            None => None,
        };
        Ok(FinishedTurn {
            turn,
            outcome: ended.outcome,
            answer,
        })
    }

    /// Opens a session with open turns and waits for each of them, oldest first; nothing if none is
    /// open.
    ///
    /// # Errors
    /// The session cannot be opened, or is gone.
    pub async fn resume(&self, session: SessionId) -> Result<Vec<FinishedTurn>, Error> {
        // From the journal: once the session is open, its turns may end at any moment.
        let mut state = State::default();
        history::catch_up(&self.journal, session, &mut state).await?;
        let handle = self.open(session).await?;
        let mut finished = Vec::new();
        for turn in state.open_turns().map(|turn| turn.accepted.id) {
            finished.push(self.wait(&handle, turn).await?);
        }
        Ok(finished)
    }
}
