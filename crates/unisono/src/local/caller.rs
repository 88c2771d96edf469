//! A [`Local`] for one caller: what the caller must not see is not there, for whatever asks.
//!
//! The journal and the search index of such a value show the owner's sessions only, and every session
//! is opened through [`Local::check_shown`]. Whatever is built on a `Local` is limited with it.

use std::sync::{Arc, OnceLock};

use unisono_api::Code;
use unisono_api::token::Scope;
use unisono_context::{CallId, SessionId};
use unisono_runtime::{Error as RuntimeError, Handle};
use unisono_search::Search;
use unisono_session::OWNER;
use unisono_session::machine::Import;
use unisono_session::run::calls::CallDecision;
use uuid::Uuid;

use super::{Local, Parts};
use crate::caller::Caller;
use crate::error::Error;

impl From<Parts> for Local {
    fn from(parts: Parts) -> Local {
        Local {
            journal: parts.journal.clone(),
            parts: Arc::new(parts),
            caller: Caller::default(),
            own_search: OnceLock::new(),
        }
    }
}

impl Local {
    /// The same for a caller: sessions of other owners do not exist for it, unless it may see them.
    #[must_use]
    pub fn for_caller(&self, caller: Caller) -> Local {
        let journal = self.parts.journal.clone();
        let journal = match caller.sees_only() {
            Some(owner) => journal.of_owner(owner.clone()),
            None => journal,
        };
        Local {
            parts: self.parts.clone(),
            journal,
            caller,
            own_search: OnceLock::new(),
        }
    }

    /// The journal as nobody is limited in it: for what is the store's own.
    pub(crate) fn parts_journal(&self) -> unisono_store::Journal {
        self.parts.journal.clone()
    }

    /// Who asks.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The search index, as the caller sees it.
    pub fn search(&self) -> &Search {
        match self.journal.owner() {
            None => self.whole_search(),
            Some(owner) => {
                let own = || self.whole_search().of_owner(owner.clone());
                self.own_search.get_or_init(own)
            }
        }
    }

    fn whole_search(&self) -> &Search {
        match &self.runtime {
            Some(runtime) => runtime.search(),
            None => self.search.get_or_init(|| {
                let journal = self.parts.journal.clone();
                match self.search_index.clone() {
                    Some(directory) => Search::on_disk(journal, directory),
                    None => Search::in_memory(journal),
                }
            }),
        }
    }

    /// Whether sessions of others are hidden.
    pub fn is_limited(&self) -> bool {
        self.journal.owner().is_some()
    }

    /// Refuses what the caller's scope does not cover.
    ///
    /// # Errors
    /// `forbidden`.
    pub fn check_scope(&self, needed: Scope) -> Result<(), Error> {
        match self.caller.allows(needed) {
            true => Ok(()),
            false => Err(Error::new(Code::Forbidden, self.caller.refusal(needed))),
        }
    }

    /// A session of somebody else is as unknown as one that does not exist.
    pub(super) async fn check_shown(&self, session: SessionId) -> Result<(), Error> {
        match self.journal.shows(session).await? {
            true => Ok(()),
            false => Err(RuntimeError::UnknownSession(session).into()),
        }
    }

    /// Whether the caller sees a session, or none has that id.
    pub(crate) async fn may_name(&self, session: SessionId) -> Result<bool, Error> {
        Ok(self.journal.shows(session).await? || !self.parts.journal.exists(session).await?)
    }

    /// A new session has the owner of the caller. An id that somebody else's session has is replaced:
    /// a refusal would tell that it exists.
    pub(super) async fn own_import(&self, import: &mut Import) -> Result<(), Error> {
        if let Some(owner) = self.caller.owner() {
            import.labels.insert(OWNER.into(), owner.clone());
        }
        if let Some(named) = import.session
            && !self.may_name(named).await?
        {
            import.session = Some(SessionId::new(Uuid::now_v7()));
        }
        Ok(())
    }

    /// Decides a waiting call of a session, for the caller.
    ///
    /// # Errors
    /// `forbidden`: its scope does not cover that; as [`Handle::decide`].
    pub async fn decide_in(
        &self,
        session: &Handle,
        call: CallId,
        decision: CallDecision,
    ) -> Result<(), Error> {
        self.check_scope(Scope::Approve)?;
        let by = self.caller.name().cloned();
        Ok(session.decide(call, decision, by).await?)
    }
}
