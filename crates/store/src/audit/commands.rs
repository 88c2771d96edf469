//! Entries of the audit log about commands that change a store without a daemon.
//!
//! A command has no HTTP response, and a kill may end it at any time. Its engine is therefore wrapped:
//! before the command first claims or deletes a session, or writes to the journal of tokens or of
//! schedules, the wrapper appends an entry with the user and the command.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;

use tokio::sync::Mutex;
use unisono_context::Timestamp;

use super::{Action, Audit, Entry, Retention};
use crate::engine::is_of_a_session;
use crate::engine::{
    Append, Claim, Deletion, Engine, EngineFuture, STARTS, SessionId, TOKENS, Vacuumed, now_unix_ms,
};
use crate::journal::Journal;

/// The method of such an entry.
pub const METHOD: &str = "CLI";
/// The method of an entry about a change that the program made in the store when it opened it.
pub const OPENING: &str = "OPEN";
/// Maximum number of recorded sessions in memory; a full list is cleared.
const REMEMBERED: usize = 65_536;

/// A command that works on the store itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Command {
    /// The name of the user of the operating system.
    pub caller: Arc<str>,
    /// The words of the command without its arguments, such as `sessions delete`.
    pub name: Arc<str>,
    /// The ids among its arguments, by kind, such as `token`.
    pub object: BTreeMap<Arc<str>, Arc<str>>,
}

/// The same journal, with an entry in the audit log for each change by the command.
#[must_use]
pub fn with_audit(journal: &Journal, command: Command, retention: Retention) -> Journal {
    let engine = Recorded {
        engine: journal.engine().clone(),
        log: Mutex::new(Log::new(journal, command, retention)),
    };
    journal.on(Arc::new(engine))
}

/// Records a command that has changed the store as a whole.
pub async fn record(journal: &Journal, command: Command, retention: Retention) {
    let mut log = Log::new(journal, command, retention);
    log.write(None).await;
}

/// Records a change that opening the store made in it, such as a repair. If the log cannot be
/// written, there is a warning only.
pub async fn record_opening(
    journal: &Journal,
    name: &str,
    object: BTreeMap<Arc<str>, Arc<str>>,
    retention: Retention,
) {
    let action = Action {
        at: now(),
        caller: None,
        owner: None,
        method: OPENING.into(),
        route: name.into(),
        operation: None,
        object,
        status: None,
    };
    append(&mut Audit::new(journal, retention), action).await;
}

async fn append(audit: &mut Audit, action: Action) {
    let (at, method) = (action.at, action.method.clone());
    if let Err(error) = audit.append(&[Entry::Action { action }], at).await {
        tracing::warn!(%error, %method, "an entry is missing in the audit log");
    }
}

fn now() -> Timestamp {
    Timestamp(i64::try_from(now_unix_ms()).unwrap_or(i64::MAX))
}

struct Log {
    audit: Audit,
    command: Command,
    recorded: HashSet<SessionId>,
}

impl Log {
    fn new(journal: &Journal, command: Command, retention: Retention) -> Log {
        Log {
            audit: Audit::new(journal, retention),
            command,
            recorded: HashSet::new(),
        }
    }

    /// Writes an entry. The command continues if the log cannot be written: on a full disk, it may be
    /// the command that frees space.
    async fn write(&mut self, session: Option<SessionId>) {
        let mut object = self.command.object.clone();
        if let Some(session) = session {
            object.insert("session".into(), session.to_string().into());
        }
        let action = Action {
            at: now(),
            caller: Some(self.command.caller.clone()),
            owner: None,
            method: METHOD.into(),
            route: self.command.name.clone(),
            operation: None,
            object,
            status: None,
        };
        append(&mut self.audit, action).await;
    }
}

/// An engine whose changes by a command are recorded.
struct Recorded {
    engine: Arc<dyn Engine>,
    log: Mutex<Log>,
}

impl Recorded {
    /// Records the first change of a session, of the tokens or of the schedules.
    async fn record(&self, changed: SessionId) {
        let is_of_a_session = is_of_a_session(changed);
        if !is_of_a_session && ![TOKENS, STARTS].contains(&changed) {
            return;
        }
        let mut log = self.log.lock().await;
        if log.recorded.len() >= REMEMBERED {
            log.recorded.clear();
        }
        if !log.recorded.insert(changed) {
            return;
        }
        log.write(is_of_a_session.then_some(changed)).await;
    }
}

impl Engine for Recorded {
    crate::forward_engine!(
        engine: read, first_events, last_events, put_checkpoint, latest_checkpoint, session,
        existing, sessions, newest_sessions, space, check_vacuum, cluster, health, check_writes,
        writable, close
    );

    fn claim(&self, session: SessionId) -> EngineFuture<'_, Claim> {
        Box::pin(async move {
            self.record(session).await;
            self.engine.claim(session).await
        })
    }

    fn append(&self, append: Append) -> EngineFuture<'_, u64> {
        // A session was claimed before; several processes write to the store's own without a claim.
        if is_of_a_session(append.session) {
            return self.engine.append(append);
        }
        Box::pin(async move {
            self.record(append.session).await;
            self.engine.append(append).await
        })
    }

    fn delete_session(&self, deletion: Deletion) -> EngineFuture<'_, bool> {
        Box::pin(async move {
            self.record(deletion.session).await;
            self.engine.delete_session(deletion).await
        })
    }

    fn vacuum(&self, bytes_per_second: Option<u64>) -> EngineFuture<'_, Vacuumed> {
        Box::pin(async move {
            self.log.lock().await.write(None).await;
            self.engine.vacuum(bytes_per_second).await
        })
    }
}
