//! Programs that are cut off from the database for longer than a lease, or whose database is set back.

use std::sync::Arc;
use std::time::{Duration, Instant};

use unisono_context::{Digest, Timestamp};
use unisono_store::postgres::{Options, Postgres};
use unisono_store::tokens::{Scope, Token, TokenFact, Tokens};
use unisono_store::{Engine, Journal, SessionId};

use crate::members::{append, beat, cluster, own_id};
use crate::postgres::{own_server, restart, sql, up};

const A: SessionId = SessionId::from_u128(0xA);
const LEASE: Duration = Duration::from_secs(3);

/// Adds a program with a session, whose last beat was when that of this one was.
fn with_another(id: &str) -> String {
    format!(
        "INSERT INTO unisono_members SELECT '00000000-0000-0000-0000-00000000000b', instance, 'other', \
         version, 'http://127.0.0.1:1', token, agents, false, joined_unix_ms, beat_unix_ms \
         FROM unisono_members WHERE member = '{id}'; \
         INSERT INTO unisono_sessions SELECT '00000000-0000-0000-0000-00000000000b', 1, 0, 0, false, \
         0, 0, '00000000-0000-0000-0000-00000000000b'"
    )
}

#[tokio::test(flavor = "multi_thread")]
async fn who_was_cut_off_keeps_its_sessions_and_gives_the_others_time_to_come_back() {
    let server = needs!(own_server(&[]).await);
    let options = Options::new(&server.url("talks"), None).unwrap();
    let options = options.patience(Duration::from_secs(1));
    let one = Postgres::open(options.member(LEASE)).await.unwrap();
    let claim = one.claim(A).await.unwrap();
    one.append(append(claim.epoch, 0)).await.unwrap();
    // Another program that is alive, with a session, and does not come back. One that left before.
    let statements = with_another(&own_id(&one).await);
    sql(&server, "talks", &statements).await;
    let crashed = server.clone();
    tokio::task::spawn_blocking(move || crashed.crash())
        .await
        .unwrap();
    while cluster(&one).holds_lease() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    let back = Instant::now();
    up(&server).await;
    beat(&one, |beat| beat.lapses > 0).await;
    assert!(cluster(&one).is_own(A) && cluster(&one).holds_lease());
    // No other program had it meanwhile, so the claim holds.
    assert_eq!(one.append(append(claim.epoch, 1)).await.unwrap(), 2);
    beat(&one, |beat| beat.has_gone).await;
    assert!(back.elapsed() >= LEASE, "{:?}", back.elapsed());
    let taken = cluster(&one).take_over(9).await.unwrap();
    let taken: Vec<SessionId> = taken.iter().map(|info| info.session).collect();
    assert_eq!(taken, [SessionId::from_u128(0xB)]);
    one.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_starts_after_an_outage_gives_the_others_time_to_come_back() {
    let server = needs!(own_server(&[]).await);
    let options = || {
        let options = Options::new(&server.url("talks"), None).unwrap();
        options.patience(Duration::from_secs(1)).member(LEASE)
    };
    let one = Postgres::open(options()).await.unwrap();
    let claim = one.claim(A).await.unwrap();
    one.append(append(claim.epoch, 0)).await.unwrap();
    // Its beats end, and the server is away for longer than a lease.
    let id = own_id(&one).await;
    one.close().await.unwrap();
    let age = LEASE.as_millis() * 3;
    let statement = format!(
        "UPDATE unisono_members SET beat_unix_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint \
         - {age} WHERE member = '{id}'; \
         UPDATE unisono_sessions SET owner = '{id}'"
    );
    sql(&server, "talks", &statement).await;
    restart(&server).await;
    let started = Instant::now();
    let two = Postgres::open(options()).await.unwrap();
    assert_eq!(cluster(&two).take_over(9).await.unwrap(), []);
    beat(&two, |beat| beat.has_gone).await;
    assert!(started.elapsed() >= LEASE / 2, "{:?}", started.elapsed());
    let taken = cluster(&two).take_over(9).await.unwrap();
    assert_eq!(
        taken.iter().map(|info| info.session).collect::<Vec<_>>(),
        [A]
    );
    two.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_the_database_set_back_reads_its_sessions_again() {
    let server = needs!(own_server(&[]).await);
    let options = Options::new(&server.url("talks"), None).unwrap();
    let one = Postgres::open(options.member(LEASE)).await.unwrap();
    let claim = one.claim(A).await.unwrap();
    for seq in 0..2 {
        one.append(append(claim.epoch, seq)).await.unwrap();
    }
    // The first beat does not show what it wrote.
    beat(&one, |beat| beat.count > 2).await;
    // A minute ago there was one event, and another program.
    let statements = format!(
        "UPDATE unisono_sessions SET last_seq = 1; DELETE FROM unisono_events WHERE seq = 2; \
         UPDATE unisono_members SET beat_unix_ms = beat_unix_ms - 60000; {}",
        with_another(&own_id(&one).await)
    );
    let back = Instant::now();
    sql(&server, "talks", &statements).await;
    beat(&one, |beat| beat.lapses > 0).await;
    assert!(cluster(&one).holds_lease() && !cluster(&one).is_own(A));
    assert_eq!(one.read(A, 1, 9).await.unwrap().len(), 1);
    let again = one.claim(A).await.unwrap();
    assert_eq!((again.epoch, again.last_seq), (claim.epoch + 1, 1));
    assert_eq!(one.append(append(again.epoch, 1)).await.unwrap(), 2);
    // The other program has time to come back.
    beat(&one, |beat| beat.has_gone).await;
    assert!(back.elapsed() >= LEASE, "{:?}", back.elapsed());
    assert_eq!(cluster(&one).take_over(9).await.unwrap().len(), 1);
    one.close().await.unwrap();
}

fn created(name: &str) -> TokenFact {
    TokenFact::Created {
        token: Token {
            name: name.into(),
            digest: Digest::of_bytes(name.as_bytes()),
            scope: Scope::Read,
            owner: None,
            created: Timestamp(1),
            expires: None,
        },
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn who_finds_the_database_set_back_reads_the_journals_of_all_programs_again() {
    let server = needs!(own_server(&[]).await);
    let options = || {
        let options = Options::new(&server.url("talks"), None).unwrap();
        options.member(LEASE)
    };
    let one = Arc::new(Postgres::open(options()).await.unwrap());
    let journal = Journal::new(one.clone());
    let mut tokens = Tokens::open(&journal).await.unwrap();
    tokens.claim().await.unwrap();
    for name in ["a", "b", "c"] {
        tokens.append(created(name)).await.unwrap();
    }
    beat(&one, |beat| beat.count > 2).await;
    // A minute ago there was one token. Another program writes as many entries as were lost.
    let statements = "\
        UPDATE unisono_sessions SET last_seq = 1; DELETE FROM unisono_events WHERE seq > 1; \
        UPDATE unisono_members SET beat_unix_ms = beat_unix_ms - 60000";
    sql(&server, "talks", statements).await;
    let other = Journal::new(Arc::new(Postgres::open(options()).await.unwrap()));
    let mut theirs = Tokens::open(&other).await.unwrap();
    theirs.claim().await.unwrap();
    let revoked = TokenFact::Revoked {
        name: "a".into(),
        at: Timestamp(2),
    };
    theirs.append(revoked).await.unwrap();
    theirs.append(created("d")).await.unwrap();
    beat(&one, |beat| beat.lapses > 0).await;
    assert!(tokens.refresh().await.unwrap());
    let names: Vec<&str> = tokens.known().keys().map(|name| &**name).collect();
    assert_eq!(names, ["d"]);
    tokens.claim().await.unwrap();
    tokens.append(created("e")).await.unwrap();
    assert!(theirs.refresh().await.unwrap() && theirs.known().contains_key("e"));
    other.close().await.unwrap();
    journal.close().await.unwrap();
}
