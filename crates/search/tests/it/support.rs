//! Sessions written straight to a journal.

use std::path::Path;
use std::sync::Arc;

use unisono_context::message::NewMessage;
use unisono_context::{AgentId, MessageId, Role, SessionId, Timestamp, Tree};
use unisono_search::{Bound, Branch, Query, Search, instant};
use unisono_session::{Event, Fact, State};
use unisono_store::{Disk, Journal, Memory};

pub(crate) fn memory() -> Journal {
    Journal::new(Arc::new(Memory::new()))
}

pub(crate) fn disk(path: &Path) -> Journal {
    Journal::new(Arc::new(Disk::open(path).unwrap().disk))
}

pub(crate) fn session(n: u128) -> SessionId {
    SessionId::from_u128(n << 64 | 0x7000_8000_0000_0000_0000)
}

pub(crate) fn id(n: usize) -> MessageId {
    MessageId::from_u128(n as u128 + 1)
}

/// A message with number, parent (both from 0), role, author, text and time.
#[derive(Clone, Debug)]
pub(crate) struct Said {
    pub(crate) n: usize,
    pub(crate) parent: Option<usize>,
    pub(crate) role: Role,
    pub(crate) author: Option<&'static str>,
    pub(crate) text: String,
    pub(crate) at: Timestamp,
}

impl Said {
    pub(crate) fn new(n: usize, text: impl Into<String>) -> Said {
        Said {
            n,
            parent: n.checked_sub(1),
            role: if n.is_multiple_of(2) {
                Role::User
            } else {
                Role::Assistant
            },
            author: None,
            text: text.into(),
            at: Timestamp(1_772_445_600_000 + n as i64 * 1_000),
        }
    }

    pub(crate) fn at(self, at: &str) -> Said {
        let at = instant(at, Timestamp(0), Bound::Since).unwrap();
        Said { at, ..self }
    }

    pub(crate) fn event(&self) -> Event {
        let at = self.at;
        let message = NewMessage {
            author: self.author.map(AgentId::from),
            ..NewMessage::text(id(self.n), self.role, self.text.as_str(), at)
        };
        let fact = Fact::Appended {
            branch: Some("main".into()),
            parent: self.parent.map(id),
            message,
        };
        Event { at, fact }
    }
}

pub(crate) fn created(session: SessionId) -> Event {
    let fact = Fact::Created {
        session,
        title: "a talk".into(),
        system: "".into(),
        labels: [].into(),
    };
    Event {
        at: Timestamp(0),
        fact,
    }
}

/// A search of a session of these messages, and the branch up to the last of them.
pub(crate) async fn searched(said: &[Said]) -> (Search, Branch) {
    let journal = memory();
    write(&journal, session(1), said).await;
    let head = id(said.len() - 1);
    let branch = Branch::new(session(1), &tree(&journal, session(1)).await, head);
    (Search::in_memory(journal), branch)
}

/// Makes a session of these messages.
pub(crate) async fn write(journal: &Journal, session: SessionId, said: &[Said]) {
    let claim = journal.claim(session).await.unwrap();
    let mut events = vec![created(session)];
    events.extend(said.iter().map(Said::event));
    let appended = journal.append(session, claim.epoch, claim.last_seq, &events, 0);
    appended.await.unwrap();
}

/// Appends messages to it.
pub(crate) async fn go_on(journal: &Journal, session: SessionId, said: &[Said]) {
    let claim = journal.claim(session).await.unwrap();
    let events: Vec<Event> = said.iter().map(Said::event).collect();
    let appended = journal.append(session, claim.epoch, claim.last_seq, &events, 0);
    appended.await.unwrap();
}

pub(crate) async fn tree(journal: &Journal, of: SessionId) -> Tree {
    let mut state = State::default();
    for (_, event) in journal.read(of, 1, 10_000).await.unwrap() {
        state.apply(&event).unwrap();
    }
    state.tree().clone()
}

/// What a person's search finds, as session and ordinal.
pub(crate) async fn find(search: &Search, text: &str) -> Vec<(SessionId, u32)> {
    let query = Query::parse(text, Timestamp(1_772_445_600_000)).unwrap();
    assert_eq!(query.notes, [""; 0], "{text}");
    let answer = search.find(&query, &[], 1_000).await.unwrap();
    assert!(answer.complete);
    answer
        .found
        .iter()
        .map(|f| (f.session, f.ordinal.0))
        .collect()
}

/// The same in the order of the sessions.
pub(crate) async fn found(search: &Search, text: &str) -> Vec<(SessionId, u32)> {
    let mut found = find(search, text).await;
    found.sort_unstable();
    found
}
