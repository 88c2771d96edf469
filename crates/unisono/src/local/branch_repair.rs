//! Sessions that lost the events of their branches in a repair of the store: their messages would
//! belong to no branch, so nobody could read or continue them.

use unisono_context::SessionId;
use unisono_runtime::clock;
use unisono_session::Event;
use unisono_store::{Journal, LostData, Salvage};

use crate::Error;
use crate::history;

/// Sets the main branch of each session that lost all its branches to its last message. It appends
/// an event, and changes no other.
pub async fn repair_branches(journal: &Journal, salvage: &Salvage) {
    for lost in &salvage.lost {
        let LostData::Events { session, .. } = lost else {
            continue;
        };
        let session = SessionId::from(*session);
        match repair(journal, session).await {
            Ok(true) => {
                tracing::warn!(%session, "the session has lost its branches; `main` is at its last message")
            }
            Ok(false) => {}
            Err(error) => {
                tracing::warn!(%session, %error, "the branches of a session that lost events cannot be checked")
            }
        }
    }
}

async fn repair(journal: &Journal, session: SessionId) -> Result<bool, Error> {
    // Journals of the store itself are no sessions.
    if journal.session(session).await?.is_none() {
        return Ok(false);
    }
    let Some(state) = history::state(journal, session).await? else {
        return Ok(false);
    };
    let Some(fact) = state.missing_branch() else {
        return Ok(false);
    };
    let at = clock::now();
    let claim = journal.claim(session).await?;
    let events = [Event { at, fact }];
    let (epoch, last) = (claim.epoch, state.events());
    journal
        .append(session, epoch, last, &events, state.work_left())
        .await?;
    Ok(true)
}

#[cfg(test)]
mod tests {
    //! Tests with a session that lost its last event, which set its branch.

    use std::sync::Arc;

    use unisono_context::message::{NewMessage, Part, Role};
    use unisono_context::{MessageId, Timestamp};
    use unisono_session::Fact;
    use unisono_store::Memory;

    use super::*;

    fn appended(n: u128, parent: Option<u128>) -> Fact {
        Fact::Appended {
            branch: None,
            parent: parent.map(MessageId::from_u128),
            message: NewMessage {
                id: MessageId::from_u128(n),
                role: Role::User,
                parts: vec![Part::text("We ship on Friday.")],
                author: None,
                at: Timestamp(n as i64),
                usage: None,
            },
        }
    }

    #[tokio::test]
    async fn a_session_without_branches_gets_the_main_one_once() {
        let journal = Journal::new(Arc::new(Memory::new()));
        let session = SessionId::from_u128(7);
        let created = Fact::Created {
            session,
            title: "Move".into(),
            system: "".into(),
            labels: Default::default(),
        };
        let facts = [created, appended(1, None), appended(2, Some(1))];
        let at = Timestamp(0);
        let events = facts.map(|fact| Event { at, fact });
        let claim = journal.claim(session).await.unwrap();
        let append = journal.append(session, claim.epoch, 0, &events, 0);
        append.await.unwrap();
        let salvage = Salvage {
            reason: "test".to_owned(),
            quarantine: Default::default(),
            sessions: 1,
            events: 3,
            lost: vec![LostData::Events {
                session: session.into(),
                first: 4,
                last: 4,
            }],
        };
        for _ in 0..2 {
            repair_branches(&journal, &salvage).await;
            let state = history::state(&journal, session).await.unwrap().unwrap();
            let branches: Vec<_> = state.tree().branches().collect();
            assert_eq!(branches, [("main", MessageId::from_u128(2))]);
            assert_eq!(state.events(), 4);
        }
    }
}
