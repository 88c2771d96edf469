//! What several programs on one database share besides sessions: documents, holds, callbacks, budget.

use std::sync::Arc;
use std::time::{Duration, Instant};

use unisono_context::{Digest, Timestamp};
use unisono_session::{Event, Fact};
use unisono_store::postgres::Postgres;
use unisono_store::tokens::{Scope, Token, TokenFact, Tokens};
use unisono_store::{
    Announcement, Cluster, Deletion, Engine, EngineFuture, Error, Journal, Memory, ProviderPause,
    SessionId, SessionInfo, archive,
};
use unisono_test_postgres::Server;

use crate::members::{append, beat, close, cluster, own_id, two};
use crate::postgres::sql;

const A: SessionId = SessionId::from_u128(0xA);

#[tokio::test(flavor = "multi_thread")]
async fn a_document_is_replaced_only_as_it_was_read() {
    let engines = needs!(two("documents").await);
    let [one, other] = engines.each_ref().map(cluster);
    assert_eq!(one.document("d").await.unwrap(), None);
    let put = async |by: &dyn Cluster, text: &str, before| {
        by.put_document("d", text.to_owned(), before).await.unwrap()
    };
    let (by_one, by_other) = tokio::join!(put(one, "of one", 0), put(other, "of other", 0));
    assert!(by_one != by_other, "one of both was there first");
    let read = other.document("d").await.unwrap().unwrap();
    assert_eq!(read.version, 1);
    assert_eq!(read.text == "of one", by_one);
    assert!(!put(one, "late", 0).await && !put(one, "early", 2).await);
    assert!(put(one, "next", 1).await && !put(other, "next", 1).await);
    let read = other.document("d").await.unwrap().unwrap();
    assert_eq!((read.text.as_str(), read.version), ("next", 2));
    // Many at once: each one's addition is there.
    let add = async |by: &dyn Cluster, word: String| {
        loop {
            let read = by.document("d").await.unwrap().unwrap();
            let text = format!("{} {word}", read.text);
            if by.put_document("d", text, read.version).await.unwrap() {
                return;
            }
        }
    };
    let adding = (0..10).map(|n| async move {
        tokio::join!(add(one, format!("a{n}")), add(other, format!("b{n}")));
    });
    for adding in adding {
        adding.await;
    }
    let text = one.document("d").await.unwrap().unwrap().text;
    assert_eq!(text.split(' ').count(), 21, "{text}");
    close(engines).await;
}

fn hold(model: Option<&str>, seconds: u64) -> ProviderPause {
    ProviderPause {
        provider: "openai".to_owned(),
        model: model.map(str::to_owned),
        wait: Duration::from_secs(seconds),
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_one_program_is_told_to_leave_alone_the_others_learn_at_their_beats() {
    let engines = needs!(two("holds").await);
    let [one, other] = engines.each_ref().map(cluster);
    let both = vec![hold(None, 500), hold(Some("m"), 300), hold(None, 100)];
    one.hold(both).await.unwrap();
    let learnt = |provider: u64, model: u64| {
        move |beat: &unisono_store::Beat| {
            let wait = |model: Option<&str>| {
                let mut all = beat.holds.iter();
                let found = all.find(|hold| hold.model.as_deref() == model);
                found.map_or(0, |hold| hold.wait.as_secs())
            };
            let near = |wait: u64, said: u64| wait <= said && wait + 100 > said;
            beat.holds.len() == 2 && near(wait(None), provider) && near(wait(Some("m")), model)
        }
    };
    beat(&engines[1], learnt(500, 300)).await;
    // The longer one stays, whoever says it.
    other.hold(vec![hold(None, 50)]).await.unwrap();
    one.hold(vec![hold(Some("m"), 900)]).await.unwrap();
    beat(&engines[1], learnt(500, 900)).await;
    // Its own it knows, and that of the others it learns.
    let own = one.beats().borrow().holds.clone();
    assert_eq!(own, []);
    other.hold(vec![hold(None, 900)]).await.unwrap();
    beat(&engines[0], |beat| beat.holds.len() == 1).await;
    // Over at once: it is nobody's.
    one.hold(vec![hold(Some("past"), 0)]).await.unwrap();
    beat(&engines[1], |beat| beat.holds.len() == 1).await;
    one.hold(Vec::new()).await.unwrap();
    close(engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_short_of_budget_is_heard_by_the_others() {
    let engines = needs!(two("short").await);
    let [one, _] = engines.each_ref().map(cluster);
    one.want_budget(true, None);
    beat(&engines[1], |beat| {
        beat.is_budget_wanted && beat.budget_wait.is_none()
    })
    .await;
    assert!(!one.beats().borrow().is_budget_wanted);
    // How long it waits is not counted from the announcement.
    const WAITED: Duration = Duration::from_secs(5);
    let since = Instant::now().checked_sub(WAITED);
    one.want_budget(true, since);
    beat(&engines[1], |beat| {
        beat.budget_wait.is_some_and(|waited| waited >= WAITED)
    })
    .await;
    assert_eq!(one.beats().borrow().budget_wait, None);
    one.want_budget(false, None);
    beat(&engines[1], |beat| {
        !beat.is_budget_wanted && beat.budget_wait.is_none()
    })
    .await;
    one.will_free_budget(true);
    beat(&engines[1], |beat| beat.is_budget_coming).await;
    assert!(!one.beats().borrow().is_budget_coming);
    one.will_free_budget(false);
    beat(&engines[1], |beat| !beat.is_budget_coming).await;
    close(engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn callbacks_stay_with_their_session_whoever_works_on_it() {
    let engines = needs!(two("callbacks").await);
    let [one, other] = engines.each_ref().map(cluster);
    let put = async |name: &str, text: &str| {
        let kept = one.put_callback(A, name.to_owned(), text.to_owned());
        kept.await.unwrap();
    };
    put("x", "of no session").await;
    assert_eq!(other.callbacks(Some(vec![A])).await.unwrap(), []);
    let claim = engines[0].claim(A).await.unwrap();
    engines[0].append(append(claim.epoch, 0)).await.unwrap();
    put("a", "1").await;
    put("b", "2").await;
    put("a", "3").await;
    let all = [(A, "3".to_owned()), (A, "2".to_owned())];
    assert_eq!(other.callbacks(Some(vec![A])).await.unwrap(), all);
    assert_eq!(one.callbacks(None).await.unwrap(), all);
    assert_eq!(other.callbacks(None).await.unwrap(), []);
    let forget = async |name: &str, text: &str| {
        let forgotten = other.forget_callback(A, name.to_owned(), text.to_owned());
        forgotten.await.unwrap();
    };
    forget("a", "1").await;
    forget("b", "2").await;
    assert_eq!(one.callbacks(None).await.unwrap(), all[..1]);
    // An idle session is nobody's: whoever starts looks after its callbacks.
    let known = engines[0].session(A).await.unwrap().unwrap();
    one.release(vec![known]).await.unwrap();
    assert_eq!(other.callbacks(None).await.unwrap(), all[..1]);
    let deletion = Deletion::of_session(A);
    assert!(engines[1].delete_session(deletion).await.unwrap());
    assert_eq!(other.callbacks(Some(vec![A])).await.unwrap(), []);
    close(engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_cause_begins_one_session() {
    let engines = needs!(two("begun").await);
    let [one, other] = engines.each_ref().map(cluster);
    for cause in 0..20 {
        assert_eq!(one.begun(cause, None).await.unwrap(), None);
        let [a, b] = [0xA, 0xB].map(SessionId::from_u128);
        let (by_one, by_other) =
            tokio::join!(one.begun(cause, Some(a)), other.begun(cause, Some(b)));
        let first = by_one.unwrap();
        assert_eq!(first, by_other.unwrap());
        assert!(first == Some(a) || first == Some(b));
        assert_eq!(other.begun(cause, None).await.unwrap(), first);
    }
    close(engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_deleted_session_is_not_begun_again() {
    let engines = needs!(two("begun_again").await);
    let [one, other] = engines.each_ref().map(cluster);
    let [deleted, next, later] = [0xC, 0xD, 0xE].map(SessionId::from_u128);
    assert_eq!(one.begun(7, Some(deleted)).await.unwrap(), Some(deleted));
    // It is not made yet.
    assert_eq!(other.begun(7, Some(next)).await.unwrap(), Some(deleted));
    engines[0].claim(deleted).await.unwrap();
    let deletion = Deletion::of_session(deleted);
    assert!(engines[0].delete_session(deletion).await.unwrap());
    assert_eq!(other.begun(7, Some(next)).await.unwrap(), Some(next));
    assert_eq!(one.begun(7, Some(later)).await.unwrap(), Some(next));
    close(engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_let_in_again_while_it_hands_over_is_let_in() {
    let engines = needs!(two("let_in").await);
    let [one, other] = engines.each_ref().map(cluster);
    let id: uuid::Uuid = own_id(&engines[0]).await.parse().unwrap();
    assert!(other.drain(id, true).await.unwrap());
    beat(&engines[0], |beat| beat.is_draining).await;
    // It does not know yet.
    assert!(other.drain(id, false).await.unwrap());
    one.hand_over().await.unwrap();
    engines[0].claim(A).await.unwrap();
    beat(&engines[0], |beat| !beat.is_draining && beat.alive == 2).await;
    assert!(
        !other.drain(id, true).await.unwrap(),
        "it is another one now"
    );
    close(engines).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn two_groups_that_begin_at_the_same_time_are_not_both_there() {
    for round in 0..5 {
        let engines = needs!(two(&format!("groups_{round}")).await);
        let [one, other] = engines.each_ref().map(cluster);
        let announcement = |token: u8| Announcement {
            address: Some("http://127.0.0.1:1".to_owned()),
            token: Some(vec![token]),
            ..Announcement::default()
        };
        let both = tokio::join!(
            one.announce(announcement(1)),
            other.announce(announcement(2))
        );
        let refused = match both {
            (Err(refused), _) | (_, Err(refused)) => refused,
            both => panic!("{both:?}"),
        };
        assert!(matches!(refused, Error::Database { .. }));
        let text = refused.to_string();
        assert!(
            text.contains("another token") && text.contains("schema of its own"),
            "{text}"
        );
        close(engines).await;
    }
}

async fn create(journal: &Journal, number: u128, owner: &str) {
    let id = unisono_context::SessionId::from_u128(number);
    let epoch = journal.claim(id).await.unwrap().epoch;
    let fact = Fact::Created {
        session: id,
        title: "".into(),
        system: "".into(),
        labels: [("owner".into(), owner.into())].into(),
    };
    let at = Timestamp(1);
    let first = [Event { at, fact }];
    journal.append(id, epoch, 0, &first, 0).await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_sees_new_sessions_after_the_clock_of_the_database_was_set_back() {
    let engines = needs!(two("owners_clock").await);
    let journals = engines.map(|engine| Journal::new(Arc::new(engine)));
    let [one, other] = &journals;
    let listed = async || {
        let of_ada = other.of_owner("ada".into()).sessions(None, 9).await;
        let all = of_ada.unwrap().into_iter();
        all.map(|info| info.session.0.as_u128()).collect::<Vec<_>>()
    };
    create(one, 1, "ada").await;
    let ahead = "UPDATE unisono_sessions SET created_unix_ms = created_unix_ms + 86400000";
    sql(Server::shared().unwrap(), "owners_clock", ahead).await;
    assert_eq!(listed().await, [1]);
    create(one, 2, "ada").await;
    assert_eq!(listed().await, [1, 2]);
    for journal in journals {
        journal.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_owner_sees_the_sessions_of_all_programs_at_once() {
    let engines = needs!(two("owners").await);
    let journals = engines.map(|engine| Journal::new(Arc::new(engine)));
    let [one, other] = &journals;
    let of_bob = async |journal: &Journal| {
        let all = journal.of_owner("bob".into()).sessions(None, 9).await;
        let all = all.unwrap().into_iter();
        all.map(|info| info.session.0.as_u128()).collect::<Vec<_>>()
    };
    let listed = async |journal: &Journal| {
        let of_ada = journal.of_owner("ada".into());
        let (all, newest) = tokio::join!(
            of_ada.sessions(None, 9),
            of_ada.newest_sessions(Some(unisono_context::SessionId::from_u128(4)), 9)
        );
        let number = |info: &SessionInfo| info.session.0.as_u128();
        let all: Vec<u128> = all.unwrap().iter().map(number).collect();
        let newest: Vec<u128> = newest.unwrap().iter().map(number).collect();
        let before: Vec<u128> = all.iter().rev().copied().filter(|id| *id < 4).collect();
        assert_eq!(newest, before);
        all
    };
    create(one, 3, "ada").await;
    create(other, 2, "bob").await;
    assert_eq!(listed(other).await, [3]);
    assert_eq!(listed(one).await, [3]);
    for (number, owner) in [(1, "ada"), (4, "ada"), (5, "bob")] {
        create(other, number, owner).await;
        create(one, number + 10, owner).await;
    }
    assert_eq!(listed(one).await, [1, 3, 4, 11, 14]);
    assert_eq!(listed(other).await, [1, 3, 4, 11, 14]);
    // The id of a deleted session may come again, with another owner.
    let four = unisono_context::SessionId::from_u128(4);
    assert!(other.delete(four).await.unwrap());
    assert_eq!(listed(one).await, [1, 3, 11, 14]);
    create(other, 4, "bob").await;
    assert_eq!(listed(one).await, [1, 3, 11, 14]);
    assert_eq!(listed(other).await, [1, 3, 11, 14]);
    assert_eq!(of_bob(one).await, [2, 4, 5, 15]);
    assert_eq!(of_bob(other).await, [2, 4, 5, 15]);
    for journal in journals {
        journal.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_long_journal_of_all_programs_is_read_from_a_checkpoint() {
    let engines = needs!(two("long_journal").await);
    let journals = engines.map(|engine| Journal::new(Arc::new(engine)));
    let mut tokens = Tokens::open(&journals[0]).await.unwrap();
    tokens.claim().await.unwrap();
    for n in 0..1_030_u32 {
        let token = Token {
            name: format!("t{}", n % 10).into(),
            digest: Digest::of_bytes(&n.to_be_bytes()),
            scope: Scope::Read,
            owner: None,
            created: Timestamp(1),
            expires: None,
        };
        tokens.append(TokenFact::Created { token }).await.unwrap();
    }
    tokens.claim().await.unwrap();
    // The entries before the checkpoint are not read.
    let server = Server::shared().unwrap();
    let first = "DELETE FROM unisono_events WHERE seq < 1000";
    sql(server, "long_journal", first).await;
    let theirs = Tokens::open(&journals[1]).await.unwrap();
    assert_eq!(theirs.known().len(), 10);
    assert_eq!(theirs.known(), tokens.known());
    for journal in journals {
        journal.close().await.unwrap();
    }
}

/// A program, and another one that opens the database whenever this one deletes something.
struct Beside {
    engine: Arc<Postgres>,
    other: Journal,
}

impl Engine for Beside {
    unisono_store::forward_engine!(
        engine: claim, append, read, put_checkpoint, latest_checkpoint, session, existing, sessions,
        cluster, health, close
    );

    fn delete_session(&self, deletion: Deletion) -> EngineFuture<'_, bool> {
        Box::pin(async move {
            self.other.sweep().await?;
            self.engine.delete_session(deletion).await
        })
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_joins_during_an_import_of_an_archive_deletes_nothing_of_it() {
    let engines = needs!(two("joins_import").await);
    let place = tempfile::tempdir().unwrap();
    let path = place.path().join("archive");
    let there = Journal::new(Arc::new(Memory::new()));
    let claim = there.engine().claim(A).await.unwrap();
    let append = append(claim.epoch, 0);
    there.engine().append(append).await.unwrap();
    let content: Arc<[u8]> = Arc::from(&b"a picture"[..]);
    let digest = there.put_blob(&content, Some(A.into())).await.unwrap();
    let exported = archive::export(there.engine().as_ref(), &path).await;
    exported.unwrap();
    let [one, other] = engines.map(Arc::new);
    let beside = Beside {
        engine: one.clone(),
        other: Journal::new(other.clone()),
    };
    let moved = archive::import(&beside, &path).await.unwrap();
    assert_eq!(moved.sessions, 1);
    let found = beside.other.blob(digest).await.unwrap();
    assert_eq!(found.as_deref(), Some(&content[..]));
    assert_eq!(other.read(A, 1, 9).await.unwrap().len(), 1);
    for engine in [one, other] {
        engine.close().await.unwrap();
    }
}
