//! The list of an owner has exactly the owner's sessions, and reads no others.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicUsize, Ordering};

use proptest::prelude::*;
use unisono_context::Timestamp;
use unisono_session::{Event, Fact};

use super::*;
use crate::engine::{Append, Engine, EngineFuture, Event as Stored, SessionsFuture};
use crate::memory::Memory;

/// An engine that counts the sessions in its answers.
#[derive(Default)]
struct Counting {
    memory: Memory,
    seen: AtomicUsize,
}

impl Counting {
    async fn counted<T>(&self, answer: EngineFuture<'_, Vec<T>>) -> Result<Vec<T>> {
        let answer = answer.await?;
        self.seen.fetch_add(answer.len(), Ordering::SeqCst);
        Ok(answer)
    }
}

impl Engine for Counting {
    crate::forward_engine!(
        memory: claim, append, put_checkpoint, latest_checkpoint, session, delete_session, health,
        close
    );

    fn read(
        &self,
        session: engine::SessionId,
        from: u64,
        limit: usize,
    ) -> EngineFuture<'_, Vec<Stored>> {
        Box::pin(self.counted(self.memory.read(session, from, limit)))
    }

    fn existing(&self, sessions: Vec<engine::SessionId>) -> SessionsFuture<'_> {
        Box::pin(self.counted(self.memory.existing(sessions)))
    }

    fn sessions(&self, after: Option<engine::SessionId>, limit: usize) -> SessionsFuture<'_> {
        Box::pin(self.counted(self.memory.sessions(after, limit)))
    }

    fn newest_sessions(
        &self,
        before: Option<engine::SessionId>,
        limit: usize,
    ) -> SessionsFuture<'_> {
        Box::pin(self.counted(self.memory.newest_sessions(before, limit)))
    }
}

fn created(session: SessionId, owner: Option<&str>) -> Event {
    let owner = owner.map(|owner| ("owner".into(), owner.into()));
    let fact = Fact::Created {
        session,
        title: "".into(),
        system: "".into(),
        labels: owner.into_iter().collect(),
    };
    Event {
        at: Timestamp(1),
        fact,
    }
}

async fn create(journal: &Journal, session: SessionId, owner: Option<&str>) {
    let epoch = journal.claim(session).await.unwrap().epoch;
    let first = [created(session, owner)];
    journal.append(session, epoch, 0, &first, 0).await.unwrap();
}

fn id(number: u128) -> SessionId {
    SessionId::from_u128(number)
}

async fn listed(journal: &Journal) -> Vec<SessionId> {
    let all = journal.sessions(None, usize::MAX).await.unwrap();
    all.iter().map(id_of).collect()
}

#[tokio::test]
async fn a_page_of_an_owner_reads_no_sessions_of_others() {
    let engine = Arc::new(Counting::default());
    let journal = Journal::new(engine.clone());
    for number in 0..240 {
        let owner = if number % 12 == 0 { "ada" } else { "bob" };
        create(&journal, id(number), Some(owner)).await;
    }
    let ada = journal.of_owner("ada".into());
    assert_eq!(ada.newest_sessions(None, 20).await.unwrap().len(), 20);
    let read = |engine: &Counting| engine.seen.swap(0, Ordering::SeqCst);
    read(&engine);
    let page = ada.newest_sessions(None, 5).await.unwrap();
    let before = page.last().map(id_of);
    assert_eq!(before, Some(id(180)));
    let next = ada.newest_sessions(before, 5).await.unwrap();
    assert_eq!(next.first().map(id_of), Some(id(168)));
    assert_eq!(ada.sessions(Some(id(180)), 5).await.unwrap().len(), 4);
    assert_eq!(read(&engine), 14);
    // Of a new one the first event is read once, whoever has it.
    create(&journal, id(241), Some("bob")).await;
    create(&journal, id(242), Some("ada")).await;
    assert_eq!(listed(&ada).await.last(), Some(&id(242)));
    assert_eq!(read(&engine), 2 + 2 + 21);
    assert_eq!(listed(&ada).await.len(), 21);
    assert_eq!(read(&engine), 21);
}

#[tokio::test]
async fn a_session_whose_first_event_was_under_way_is_listed_when_it_is_there() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let epoch = journal.claim(id(1)).await.unwrap().epoch;
    let ada = journal.of_owner("ada".into());
    assert_eq!(listed(&ada).await, []);
    // It was appended without a note, as if that had been before the first list.
    let event = created(id(1), Some("ada"));
    let payload = crate::record::encode(&event, crate::record::OpenTurns::from_count(0)).unwrap();
    let append = Append::new(id(1).into(), epoch, 0, vec![payload]);
    journal.engine().append(append).await.unwrap();
    assert_eq!(listed(&ada).await, [id(1)]);
}

#[tokio::test]
async fn visible_sessions_are_looked_up_in_the_given_order() {
    let journal = Journal::new(Arc::new(Memory::new()));
    for (number, owner) in [
        (1, Some("ada")),
        (2, Some("bob")),
        (3, Some("ada")),
        (4, None),
    ] {
        create(&journal, id(number), owner).await;
    }
    // It has no event.
    journal.claim(id(5)).await.unwrap();
    let asked = [3, 5, 4, 9, 2, 1].map(id);
    let ada = journal.of_owner("ada".into());
    for (journal, found) in [(&journal, vec![3, 4, 2, 1]), (&ada, vec![3, 1])] {
        let existing = journal.existing(&asked).await.unwrap();
        assert!(existing.iter().map(id_of).eq(found.into_iter().map(id)));
    }
}

#[tokio::test]
async fn deleted_sessions_leave_nothing_in_memory() {
    let journal = Journal::new(Arc::new(Memory::new()));
    let ada = journal.of_owner("ada".into());
    for number in 0..100 {
        create(&journal, id(number), Some("ada")).await;
        // Of every other one only the note is there.
        if number % 2 == 0 {
            assert_eq!(listed(&ada).await.len(), 1);
        }
        assert!(journal.delete(id(number)).await.unwrap());
    }
    let state = journal.owned.state();
    let new = state.new.as_ref().unwrap();
    let known: usize = state.sessions.values().map(BTreeMap::len).sum();
    assert_eq!((new.len(), known), (0, 0));
}

#[derive(Clone, Debug)]
enum Step {
    Create(u128, Option<&'static str>),
    Claim(u128),
    Delete(u128),
    List,
}

fn step() -> impl Strategy<Value = Step> {
    let owner = prop_oneof![Just(None), Just(Some("ada")), Just(Some("bob"))];
    prop_oneof![
        4 => (0..6u128, owner).prop_map(|(number, owner)| Step::Create(number, owner)),
        1 => (0..6u128).prop_map(Step::Claim),
        2 => (0..6u128).prop_map(Step::Delete),
        2 => Just(Step::List),
    ]
}

proptest! {
    #[test]
    fn each_owner_sees_the_own_sessions_whatever_happened(
        steps in prop::collection::vec(step(), 0..40)
    ) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_time().build().unwrap();
        runtime.block_on(async {
            let journal = Journal::new(Arc::new(Memory::new()));
            let mut model: BTreeMap<SessionId, Option<&str>> = BTreeMap::new();
            for step in steps.into_iter().chain([Step::List]) {
                match step {
                    Step::Create(number, owner) if !model.contains_key(&id(number)) => {
                        create(&journal, id(number), owner).await;
                        model.insert(id(number), owner);
                    }
                    Step::Create(number, _) => {
                        let claim = journal.claim(id(number)).await.unwrap();
                        let first = [created(id(number), Some("eve"))];
                        let refused = journal.append(id(number), claim.epoch, 0, &first, 0).await;
                        assert!(refused.is_err());
                    }
                    Step::Claim(number) => drop(journal.claim(id(number)).await.unwrap()),
                    Step::Delete(number) => {
                        journal.delete(id(number)).await.unwrap();
                        model.remove(&id(number));
                    }
                    Step::List => for owner in ["ada", "bob", "eve"] {
                        let own = model.iter().filter(|(_, of)| **of == Some(owner));
                        let own: Vec<SessionId> = own.map(|(session, _)| *session).collect();
                        let view = journal.of_owner(owner.into());
                        assert_eq!(listed(&view).await, own);
                        let newest = view.newest_sessions(None, usize::MAX).await.unwrap();
                        assert!(newest.iter().rev().map(id_of).eq(own));
                    },
                }
            }
        });
    }
}
