//! For tests: settings that are in no file, a process with them, and a store that counts what is read.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use unisono_config::paths::Home;
use unisono_config::settings::{Override, Sources};
use unisono_config::setup::Setup;
use unisono_context::{AgentId, Digest, RunId, SessionId, Timestamp, TurnId};
use unisono_runtime::Extensions;
use unisono_session::event::{OpenedRun, RunRole};
use unisono_session::machine::Import;
use unisono_session::{Input, Machine};
use unisono_store::{
    Engine, EngineFuture, Event, Journal, Memory, SessionId as StoredId, SessionInfo,
};

use crate::Local;
use crate::local::OpenedStore;

/// These settings alone. Nothing is read or made in the directories.
pub(crate) fn sources<const N: usize>(settings: [(&str, &str); N]) -> Sources {
    let nowhere = || Some("/nowhere".into());
    Sources {
        directory: "/nowhere".into(),
        home: Home {
            home: nowhere(),
            config: nowhere(),
            data: nowhere(),
        },
        overrides: settings
            .map(|(key, value)| Override::new("set", key, value))
            .into(),
        ..Sources::default()
    }
}

/// A process with these settings alone, and a store in memory.
pub(crate) async fn local<const N: usize>(settings: [(&str, &str); N]) -> Local {
    let local = Local::builder().sources(sources(settings)).in_memory();
    local.start().await.unwrap()
}

pub(crate) fn opened_run(id: RunId, turn: TurnId, role: RunRole) -> OpenedRun {
    OpenedRun {
        id,
        turn,
        role,
        agent: AgentId::new("any"),
        definition: Digest::of_bytes(b"definition"),
        snapshot: None,
        prefix: Digest::of_bytes(b"prefix"),
    }
}

/// A store in memory that counts the reads of journals, and the lists and look-ups of sessions.
#[derive(Default)]
pub(crate) struct Counting {
    memory: Memory,
    pub(crate) reads: AtomicUsize,
    pub(crate) lists: AtomicUsize,
    pub(crate) lookups: AtomicUsize,
}

impl Counting {
    /// A store with the sessions 1 to 3, and a program that only reads it.
    pub(crate) async fn with_three_sessions() -> (Arc<Counting>, Local) {
        let engine = Arc::new(Counting::default());
        for n in 1..=3 {
            engine.add(SessionId::from_u128(n)).await;
        }
        let local = engine.reader();
        (engine, local)
    }

    /// A program that only reads the store.
    fn reader(self: &Arc<Counting>) -> Local {
        let opened = OpenedStore {
            journal: Journal::new(self.clone()),
            ..OpenedStore::nothing()
        };
        let setup = Setup::load(sources([("models.default", "extractive")])).unwrap();
        Local::reader(opened, setup, Extensions::default()).unwrap()
    }

    /// Adds a session without messages.
    pub(crate) async fn add(self: &Arc<Counting>, session: SessionId) {
        self.add_with(session, 0).await;
    }

    /// [`Counting::add`] whose journal says that so many turns are open.
    pub(crate) async fn add_with(self: &Arc<Counting>, session: SessionId, open_turns: usize) {
        let import = Import {
            session: Some(session),
            ..Import::default()
        };
        let made = Machine::new().handle(Input::Import(import), Timestamp(0));
        let events = made.unwrap().events;
        let journal = Journal::new(self.clone());
        let claim = journal.claim(session).await.unwrap();
        let appended = journal.append(session, claim.epoch, 0, &events, open_turns);
        appended.await.unwrap();
    }
}

impl Engine for Counting {
    unisono_store::forward_engine!(
        memory: claim, append, put_checkpoint, latest_checkpoint, delete_session, health, close
    );

    fn session(&self, session: StoredId) -> EngineFuture<'_, Option<SessionInfo>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.memory.session(session)
    }

    fn existing(&self, sessions: Vec<StoredId>) -> EngineFuture<'_, Vec<SessionInfo>> {
        self.lookups.fetch_add(1, Ordering::Relaxed);
        self.memory.existing(sessions)
    }

    fn read(&self, session: StoredId, from: u64, limit: usize) -> EngineFuture<'_, Vec<Event>> {
        self.reads.fetch_add(1, Ordering::Relaxed);
        self.memory.read(session, from, limit)
    }

    fn sessions(
        &self,
        after: Option<StoredId>,
        limit: usize,
    ) -> EngineFuture<'_, Vec<SessionInfo>> {
        self.lists.fetch_add(1, Ordering::Relaxed);
        self.memory.sessions(after, limit)
    }
}
