//! Programs that are cut off from the database for longer than a lease.

use std::time::{Duration, Instant};

use unisono_store::postgres::{Options, Postgres};
use unisono_store::{Engine, SessionId};

use crate::members::{append, beat, cluster, own_id};
use crate::postgres::{own_server, sql};

const A: SessionId = SessionId::from_u128(0xA);
const LEASE: Duration = Duration::from_secs(3);

#[tokio::test(flavor = "multi_thread")]
async fn who_was_cut_off_keeps_its_sessions_and_gives_the_others_time_to_come_back() {
    let Some(server) = own_server(&[]).await else {
        return;
    };
    let options = Options::new(&server.url("talks"), None).unwrap();
    let options = options.patience(Duration::from_secs(1));
    let one = Postgres::open(options.member(LEASE)).await.unwrap();
    let claim = one.claim(A).await.unwrap();
    one.append(append(claim.epoch, 0)).await.unwrap();
    // Another program that is alive, with a session, and does not come back. One that left before.
    let id = own_id(&one).await;
    let statements = format!(
        "INSERT INTO unisono_members SELECT '00000000-0000-0000-0000-00000000000b', instance, 'other', \
         version, 'http://127.0.0.1:1', token, agents, false, joined_unix_ms, beat_unix_ms \
         FROM unisono_members WHERE member = '{id}'; \
         INSERT INTO unisono_sessions SELECT '00000000-0000-0000-0000-00000000000b', 1, 0, 0, false, \
         0, 0, '00000000-0000-0000-0000-00000000000b'"
    );
    sql(&server, "talks", &statements).await;
    let crashed = server.clone();
    tokio::task::spawn_blocking(move || crashed.crash())
        .await
        .unwrap();
    while cluster(&one).holds_lease() {
        tokio::time::sleep(Duration::from_millis(20)).await;
    }
    // The server dies with the thread that started it.
    let back = Instant::now();
    let started = server.clone();
    tokio::task::spawn_blocking(move || started.up())
        .await
        .unwrap();
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
    let Some(server) = own_server(&[]).await else {
        return;
    };
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
    let crashed = server.clone();
    tokio::task::spawn_blocking(move || {
        crashed.crash();
        crashed.up();
    })
    .await
    .unwrap();
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
