//! A [`Local`] for one caller: it hides the sessions of other owners.
//!
//! Its journal and its search index show only the owner's sessions, and every session is opened
//! through [`Local::check_shown`]. Every service on a `Local` has the same limits.

use std::sync::{Arc, OnceLock};

use unisono_api::Code;
use unisono_api::token::Scope;
use unisono_context::message::{NewMessage, Role};
use unisono_context::{AgentId, CallId, SessionId};
use unisono_runtime::{Error as RuntimeError, Handle};
use unisono_search::Search;
use unisono_session::OWNER;
use unisono_session::machine::Import;
use unisono_session::run::calls::CallDecision;
use uuid::Uuid;

use super::{Local, Shared};
use crate::ask::Ask;
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
    /// hidden session has, because a refusal would show that the session exists. The messages of an
    /// ephemeral session are those of a request, so they have its caller as their author.
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
        if import.ephemeral.is_some() {
            self.name_authors(import.messages.iter_mut().map(|(_, message)| message))?;
        }
        Ok(())
    }

    /// The author of a user's message that names `named` as its author. A caller with an owner is a
    /// person, who speaks under its own name, and under another one only with the scope `admin`. Any
    /// other caller is a program, which may pass on the messages of several people.
    ///
    /// # Errors
    /// `forbidden`: the caller may not speak as that author.
    pub(crate) fn author_for(&self, named: Option<&AgentId>) -> Result<Option<AgentId>, Error> {
        let (Some(name), Some(owner)) = (self.caller.name(), self.caller.owner()) else {
            return Ok(named.cloned());
        };
        let Some(author) = named else {
            return Ok(Some(AgentId::new(name.clone())));
        };
        let is_own = [name, owner].iter().any(|own| ***own == *author.as_str());
        if is_own || self.caller.allows(Scope::Admin) {
            return Ok(Some(author.clone()));
        }
        let detail = format!(
            "the token {name} may not name {author} as the author of a message: leave the author out, or \
             use a token with the scope `admin`"
        );
        Err(Error::new(Code::Forbidden, detail))
    }

    /// An ask with the author of [`Self::author_for`], also of the users' messages before it.
    pub(crate) fn with_author_of_caller(&self, ask: &Ask) -> Result<Ask, Error> {
        let author = self.author_for(ask.author())?;
        let asked = ask.clone().with_author(author);
        let Some(mut preceding) = ask.preceding().cloned() else {
            return Ok(asked);
        };
        self.name_authors(preceding.messages.iter_mut())?;
        Ok(asked.with_preceding(preceding))
    }

    /// Gives users' messages the authors of [`Self::author_for`].
    fn name_authors<'m>(
        &self,
        messages: impl Iterator<Item = &'m mut NewMessage>,
    ) -> Result<(), Error> {
        for message in messages.filter(|message| message.role == Role::User) {
            message.author = self.author_for(message.author.as_ref())?;
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

#[cfg(test)]
mod tests {
    use unisono_api::service::Store as _;
    use unisono_context::message::NewMessage;
    use unisono_context::{MessageId, Timestamp};
    use unisono_session::machine::PrecedingMessages;

    use super::*;
    use crate::fixture;

    #[tokio::test]
    async fn a_person_deletes_and_archives_no_session_of_another_one() {
        let local = fixture::local([]).await;
        let of = |owner: &str| {
            let caller = Caller::new(owner, Scope::Approve, Some(owner.into()));
            local.for_caller(caller)
        };
        let (ada, bob) = (of("ada"), of("bob"));
        let session = ada.import(Import::default()).await.unwrap().id();
        assert!(!bob.discard(session).await.unwrap());
        assert!(local.journal().exists(session).await.unwrap());
        let dir = tempfile::tempdir().unwrap();
        let archived = bob.archive(&dir.path().join("archive")).await;
        assert_eq!(archived.unwrap_err().code(), Code::Forbidden);
        assert!(ada.discard(session).await.unwrap());
        drop((ada, bob));
        local.shutdown().await;
    }

    #[tokio::test]
    async fn messages_before_a_task_are_of_the_person_who_says_the_task() {
        let local = fixture::local([]).await;
        let person = local.for_caller(Caller::new("phone", Scope::Ask, Some("ada".into())));
        let said = |role, author: Option<&str>| NewMessage {
            author: author.map(AgentId::from),
            ..NewMessage::text(MessageId::from_u128(1), role, "Hello.", Timestamp(0))
        };
        let ask = |messages| {
            let preceding = PrecedingMessages {
                head: None,
                messages,
            };
            person.with_author_of_caller(&Ask::new("Go on.").with_preceding(preceding))
        };
        let messages = vec![
            said(Role::User, None),
            said(Role::User, Some("ada")),
            said(Role::Assistant, None),
        ];
        let Ok(asked) = ask(messages) else {
            panic!("it is refused");
        };
        assert_eq!(asked.author().map(AgentId::as_str), Some("phone"));
        let messages = asked.preceding().unwrap().messages.iter();
        let authors = messages.map(|message| message.author.as_ref().map(AgentId::as_str));
        let authors: Vec<Option<&str>> = authors.collect();
        assert_eq!(authors, [Some("phone"), Some("ada"), None]);
        let forged = ask(vec![said(Role::User, Some("bob"))]);
        let refused = forged.err().map(|error| error.code());
        assert_eq!(refused, Some(Code::Forbidden));
        drop(person);
        local.shutdown().await;
    }

    #[tokio::test]
    async fn a_person_speaks_under_its_own_name_and_a_program_under_any() {
        let local = fixture::local([]).await;
        let owner: Option<Arc<str>> = Some("ada".into());
        let person = |scope| Caller::new("phone", scope, owner.clone());
        let program = Caller::new("bridge", Scope::Ask, None);
        for (caller, named, author) in [
            (Caller::default(), None, Ok(None)),
            (Caller::default(), Some("bob"), Ok(Some("bob"))),
            (program.clone(), None, Ok(None)),
            (program, Some("bob"), Ok(Some("bob"))),
            (person(Scope::Ask), None, Ok(Some("phone"))),
            (person(Scope::Ask), Some("phone"), Ok(Some("phone"))),
            (person(Scope::Approve), Some("ada"), Ok(Some("ada"))),
            (person(Scope::Approve), Some("bob"), Err(Code::Forbidden)),
            (person(Scope::Ask), Some("Ada"), Err(Code::Forbidden)),
            (person(Scope::Admin), None, Ok(Some("phone"))),
            (person(Scope::Admin), Some("bob"), Ok(Some("bob"))),
        ] {
            let local = local.for_caller(caller.clone());
            let found = local.author_for(named.map(AgentId::from).as_ref());
            let found = found.map_err(|error| error.code());
            assert_eq!(
                found,
                author.map(|author| author.map(AgentId::from)),
                "{caller:?}: {named:?}"
            );
        }
        local.shutdown().await;
    }
}
