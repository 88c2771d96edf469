//! A [`Local`] for one caller: it hides the sessions of other owners.
//!
//! Its journal and its search index show only the owner's sessions, and every session is opened
//! through [`Local::check_shown`]. Every service on a `Local` has the same limits.

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

use super::{Local, Shared};
use crate::caller::Caller;
use crate::error::Error;
use crate::labels::INSTRUCTIONS_FROM;

impl From<Shared> for Local {
    fn from(shared: Shared) -> Local {
        Local {
            journal: shared.journal.clone(),
            shared: Arc::new(shared),
            caller: Caller::default(),
            own_search: OnceLock::new(),
        }
    }
}

impl Local {
    /// Makes a `Local` for a caller. The sessions of other owners do not exist in it, unless the
    /// caller may see all sessions.
    #[must_use]
    pub fn for_caller(&self, caller: Caller) -> Local {
        let journal = self.shared.journal.clone();
        let journal = match caller.sees_only() {
            Some(owner) => journal.of_owner(owner.clone()),
            None => journal,
        };
        Local {
            shared: self.shared.clone(),
            journal,
            caller,
            own_search: OnceLock::new(),
        }
    }

    /// The journal with all sessions, for internal data of the store.
    pub(crate) fn whole_journal(&self) -> unisono_store::Journal {
        self.shared.journal.clone()
    }

    /// The caller.
    pub fn caller(&self) -> &Caller {
        &self.caller
    }

    /// The search index with the sessions that the caller sees.
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
        match &self.shared.runtime {
            Some(runtime) => runtime.search(),
            None => self.shared.search.get_or_init(|| {
                let journal = self.shared.journal.clone();
                match self.shared.search_index.clone() {
                    Some(directory) => Search::on_disk(journal, directory),
                    None => Search::in_memory(journal),
                }
            }),
        }
    }

    /// Whether sessions of other owners are hidden.
    pub fn is_limited(&self) -> bool {
        self.journal.owner().is_some()
    }

    /// Checks that the caller has a scope.
    ///
    /// # Errors
    /// `forbidden`: the caller has a narrower scope.
    pub fn check_scope(&self, required: Scope) -> Result<(), Error> {
        match self.caller.allows(required) {
            true => Ok(()),
            false => Err(Error::new(Code::Forbidden, self.caller.refusal(required))),
        }
    }

    /// Checks that the caller sees a session. A hidden session gives the error of a missing one.
    pub(super) async fn check_shown(&self, session: SessionId) -> Result<(), Error> {
        match self.journal.shows(session).await? {
            true => Ok(()),
            false => Err(RuntimeError::UnknownSession(session).into()),
        }
    }

    /// Whether the caller sees the session with that id, or no session has it.
    pub(crate) async fn may_name(&self, session: SessionId) -> Result<bool, Error> {
        Ok(self.journal.shows(session).await? || !self.shared.journal.exists(session).await?)
    }

    /// Labels a new session with the caller's owner; only a caller with all rights gives it another
    /// one. Removes the label of a directory that the caller may not read, and replaces an id that a
    /// hidden session has, because a refusal would show that the session exists.
    pub(super) async fn label_import(&self, import: &mut Import) -> Result<(), Error> {
        match self.caller.owner() {
            Some(owner) => {
                import.labels.insert(OWNER.into(), owner.clone());
            }
            None if !self.caller.allows(Scope::Admin) => {
                import.labels.remove(OWNER);
            }
            None => {}
        }
        // A limited caller, and one without `admin`, may not read the files of this machine.
        if self.is_limited() || !self.caller.allows(Scope::Admin) {
            import.labels.remove(INSTRUCTIONS_FROM);
        }
        if let Some(named) = import.session
            && !self.may_name(named).await?
        {
            import.session = Some(SessionId::new(Uuid::now_v7()));
        }
        Ok(())
    }

    /// Records the caller's decision about a waiting tool call.
    ///
    /// # Errors
    /// `forbidden` without the scope `approve`; otherwise as [`Handle::decide`].
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
