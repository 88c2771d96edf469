//! Reading sessions straight from the journal, without starting anything.

use std::cmp::Reverse;

use unisono::labels::MCP_CHANNEL;
pub(crate) use unisono::service::sessions::is_meant;
use unisono_context::SessionId;
use unisono_session::{Event, Fact, State};
use unisono_store::{Journal, SessionInfo};

use crate::problem::{Problem, Result};

/// Events and sessions read at a time.
const PAGE: usize = 1_024;
/// Sessions whose labels are read at a time, the newest first.
const NEWEST: usize = 32;

/// The sessions of a store.
#[derive(Debug)]
pub(crate) struct Sessions {
    journal: Journal,
}

/// A session as a list shows it.
#[derive(Debug)]
pub(crate) struct Listed {
    pub(crate) id: SessionId,
    /// Its first event, which says what it is.
    pub(crate) created: Fact,
}

impl Sessions {
    pub(crate) fn new(journal: Journal) -> Sessions {
        Sessions { journal }
    }

    /// The ids of all of them, the oldest first.
    pub(crate) async fn ids(&self) -> Result<Vec<(SessionId, SessionInfo)>> {
        let mut all: Vec<(SessionId, SessionInfo)> = Vec::new();
        loop {
            let after = all.last().map(|(id, _)| *id);
            let page = self.journal.sessions(after, PAGE).await?;
            if page.is_empty() {
                // A session that was claimed but never written is none.
                all.retain(|(_, info)| info.last_seq > 0);
                return Ok(all);
            }
            all.extend(
                page.into_iter()
                    .map(|info| (SessionId::from(info.session), info)),
            );
        }
    }

    async fn described(&self, part: &[(SessionId, SessionInfo)]) -> Result<Vec<Listed>> {
        let ids: Vec<SessionId> = part.iter().map(|(id, _)| *id).collect();
        let firsts = self.journal.first_events(&ids).await?;
        let each = part.iter().zip(firsts).filter_map(|((id, _), first)| {
            let created = first?.fact;
            matches!(created, Fact::Created { .. }).then(|| Listed { id: *id, created })
        });
        Ok(each.collect())
    }

    /// What a list shows of so many sessions, the one that grew last first.
    pub(crate) async fn newest(&self, many: usize) -> Result<Vec<Listed>> {
        let mut all = self.ids().await?;
        all.sort_by_key(|(id, info)| Reverse((info.updated_unix_ms, *id)));
        all.truncate(many);
        self.described(&all).await
    }

    /// The newest session with that label.
    pub(crate) async fn labelled(&self, label: &str, value: &str) -> Result<Option<SessionId>> {
        for part in self.ids().await?.rchunks(NEWEST) {
            let mut newest = self.described(part).await?.into_iter().rev();
            let found = newest.find(|session| match &session.created {
                Fact::Created { labels, .. } => labels.get(label).is_some_and(|it| &**it == value),
                _ => false,
            });
            if let Some(session) = found {
                return Ok(Some(session.id));
            }
        }
        Ok(None)
    }

    /// The session a person means: an id, a unique start or end of one, or `latest`.
    pub(crate) async fn find(&self, name: &str) -> Result<SessionId> {
        if name == "latest" {
            return self.latest().await;
        }
        let all = self.ids().await?;
        choose(name, all.into_iter().map(|(id, _)| id))
    }

    /// The session that grew last, of those that people made: a client's of the Model Context
    /// Protocol is the client's.
    async fn latest(&self) -> Result<SessionId> {
        let mut all = self.ids().await?;
        all.sort_by_key(|(id, info)| Reverse((info.updated_unix_ms, *id)));
        for part in all.chunks(NEWEST) {
            let ids: Vec<SessionId> = part.iter().map(|(id, _)| *id).collect();
            let firsts = self.journal.first_events(&ids).await?;
            let mut each = ids.into_iter().zip(firsts);
            let own = each.find(|(_, first)| !first.as_ref().is_some_and(is_of_client));
            if let Some((id, _)) = own {
                return Ok(id);
            }
        }
        let (what, hint) = match all.len() {
            0 => (
                "there is no session in this store yet".to_owned(),
                "`unisono run FILE` or `unisono import FILE` makes one",
            ),
            many => (
                format!("all sessions of this store ({many}) are those of MCP clients"),
                "name one by its id: `unisono sessions list` shows them",
            ),
        };
        Err(Problem::not_found(what).hint(hint))
    }

    async fn read_after(
        &self,
        id: SessionId,
        known: u64,
        mut take: impl FnMut(&Event) -> Result<bool>,
    ) -> Result<()> {
        let mut next = known + 1;
        loop {
            let page = self.journal.read(id, next, PAGE).await?;
            for (seq, event) in &page {
                if !take(event)? {
                    return Ok(());
                }
                next = seq + 1;
            }
            if page.is_empty() {
                return Ok(());
            }
        }
    }

    /// The state of a session, as its journal has it.
    pub(crate) async fn state(&self, id: SessionId) -> Result<State> {
        let mut state = State::default();
        self.catch_up(id, &mut state).await?;
        Ok(state)
    }

    /// Takes over what the journal has of a session after what its state knows.
    pub(crate) async fn catch_up(&self, id: SessionId, state: &mut State) -> Result<()> {
        self.read_after(id, state.events(), |event| {
            let seq = state.events() + 1;
            let applied = state.apply(event);
            applied.map_err(|error| unfit(id, seq, &error))?;
            Ok(true)
        })
        .await
    }

    /// Closes the store.
    pub(crate) async fn close(self) -> Result<()> {
        Ok(self.journal.close().await?)
    }

    pub(crate) fn journal(&self) -> &Journal {
        &self.journal
    }
}

/// Whether that is the first event of a session that a client of the Model Context Protocol made.
fn is_of_client(first: &Event) -> bool {
    let (key, value) = MCP_CHANNEL;
    match &first.fact {
        Fact::Created { labels, .. } => labels.get(key).is_some_and(|label| **label == *value),
        _ => false,
    }
}

/// An event that does not follow from those before it.
pub(crate) fn unfit(id: SessionId, seq: u64, error: &impl std::fmt::Display) -> Problem {
    let problem = Problem::failed(format!("event {seq} of session {id} does not fit: {error}"));
    problem.hint("run `unisono doctor` to see the extent")
}

/// The session a person means by a part of its id.
fn choose(name: &str, all: impl Iterator<Item = SessionId>) -> Result<SessionId> {
    let found: Vec<SessionId> = all.filter(|id| is_meant(name, id)).collect();
    only(name, "session", &found).map_err(|problem| match found.len() {
        0 => problem.hint("`unisono sessions list` shows those there are"),
        _ => problem.hint("write more of the id, or `latest`"),
    })
}

/// The only one that was found.
pub(crate) fn only<T: Clone>(name: &str, what: &str, found: &[T]) -> Result<T> {
    match found {
        [one] => Ok(one.clone()),
        [] => Err(Problem::not_found(format!(
            "no {what} `{name}` in this store"
        ))),
        _ => Err(Problem::usage(format!(
            "`{name}` is a part of {} {what} ids",
            found.len()
        ))),
    }
}

/// As much of an id as tells sessions apart that were not made in the same millisecond.
pub(crate) fn short(id: SessionId) -> String {
    id.to_string().chars().take(13).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_session_is_found_by_a_unique_part_of_its_id() {
        let ids = [
            0x0192_0000_0000_7000_8000_0000_0000_0001,
            0x0192_1111_0000_7000_8000_0000_0000_0002,
        ];
        let ids = ids.map(SessionId::from_u128);
        let choose = |name| choose(name, ids.into_iter());
        assert_eq!(choose("01920").unwrap(), ids[0]);
        assert_eq!(choose("01921111-00").unwrap(), ids[1]);
        assert_eq!(choose("0002").unwrap(), ids[1]);
        assert!(choose("002").is_err(), "too little of an end");
        assert!(
            choose("0192")
                .unwrap_err()
                .message
                .contains("2 session ids")
        );
        assert!(
            choose("ff")
                .unwrap_err()
                .message
                .contains("no session `ff`")
        );
        assert!(choose("").is_err());
    }
}
