//! Tests of several programs on one database: which owns a session, which takes over, and which is
//! fenced.

use std::sync::Arc;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use tokio_postgres::Transaction;
use unisono_store::postgres::{Options, Postgres};
use unisono_store::{
    Announcement, Append, Beat, Cluster, Deletion, Engine, Error, SessionId, SessionInfo,
};
use unisono_test_postgres::Server;

use crate::postgres::{Proxy, client, sql, store};

const A: SessionId = SessionId::from_u128(0xA);
/// Lease time in tests that wait for a program to be gone; its beats must arrive in time on a busy
/// machine.
const SOON: Duration = Duration::from_secs(5);
/// Lease time in other tests, which do not wait for it: a program is made to look as if it had not
/// sent a beat for longer.
pub(crate) const LATE: Duration = Duration::from_secs(600);

/// Creates a program that uses that schema.
pub(crate) async fn member(schema: &str, takeover_after: Duration) -> Postgres {
    let url = Server::shared().unwrap().url(schema);
    let options = Options::new(&url, None).unwrap().member(takeover_after);
    Postgres::open(options).await.unwrap()
}

/// Two programs in a new schema; none where PostgreSQL is not installed.
pub(crate) async fn two(schema: &str) -> Option<[Postgres; 2]> {
    store(schema).await?.close().await.unwrap();
    Some([member(schema, LATE).await, member(schema, LATE).await])
}

pub(crate) async fn close(engines: [Postgres; 2]) {
    for engine in engines {
        engine.close().await.unwrap();
    }
}

pub(crate) fn cluster(engine: &Postgres) -> &dyn Cluster {
    engine.cluster().unwrap()
}

pub(crate) fn append(epoch: u64, expected_seq: u64) -> Append {
    Append::new(A, epoch, expected_seq, vec![b"said".to_vec()])
}

/// Announces an address: claims wait for a program without one.
async fn announce(engine: &Postgres) {
    let announcement = Announcement {
        address: Some("http://127.0.0.1:1".to_owned()),
        ..Announcement::default()
    };
    cluster(engine).announce(announcement).await.unwrap();
}

/// Waits until the state at a beat satisfies the condition.
pub(crate) async fn beat(engine: &Postgres, is_so: impl Fn(&Beat) -> bool) {
    let mut beats = cluster(engine).beats();
    let so = tokio::time::timeout(Duration::from_secs(30), beats.wait_for(|beat| is_so(beat)));
    let _beat = so.await.unwrap().unwrap();
}

/// Makes a program look as if it had not sent a beat for long; it sends no more.
async fn stop_beating(schema: &str, engine: &Postgres) {
    let id = own_id(engine).await;
    sql(
        Server::shared().unwrap(),
        schema,
        &format!(
            "CREATE OR REPLACE FUNCTION silent() RETURNS trigger AS \
             $$ BEGIN NEW.beat_unix_ms := 0; RETURN NEW; END $$ LANGUAGE plpgsql; \
             CREATE TRIGGER silent BEFORE INSERT OR UPDATE ON unisono_members FOR EACH ROW \
             WHEN (NEW.member = '{id}') EXECUTE FUNCTION silent(); \
             UPDATE unisono_members SET beat_unix_ms = 0 WHERE member = '{id}'"
        ),
    )
    .await;
}

pub(crate) async fn own_id(engine: &Postgres) -> String {
    let members = cluster(engine).members().await.unwrap();
    let own = members.iter().find(|(member, _)| member.is_self);
    own.unwrap().0.id.to_string()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_belongs_to_the_program_that_claimed_it_while_that_one_lives() {
    let [one, other] = needs!(two("owned").await);
    announce(&one).await;
    let claim = one.claim(A).await.unwrap();
    one.append(append(claim.epoch, 0)).await.unwrap();
    let refused = other.claim(A).await.unwrap_err();
    assert!(refused.is_owned_elsewhere(), "{refused}");
    let text = refused.to_string();
    assert!(
        text.contains("unisono on") && text.contains("http://127.0.0.1:1"),
        "{text}"
    );
    assert!(!cluster(&one).is_of_another(A).await.unwrap());
    assert!(cluster(&other).is_of_another(A).await.unwrap());
    let owner = cluster(&other).owner(A).await.unwrap().unwrap();
    assert_eq!(owner.id.to_string(), own_id(&one).await);
    assert_eq!(cluster(&one).owner(A).await.unwrap(), None);
    assert!(cluster(&one).is_own(A) && !cluster(&other).is_own(A));
    // All programs can read the session, and its owner can claim it again.
    assert_eq!(other.read(A, 1, 9).await.unwrap().len(), 1);
    assert_eq!(one.claim(A).await.unwrap().epoch, claim.epoch + 1);
    // A release with the state before the last claim has no effect.
    let known = one.session(A).await.unwrap().unwrap();
    let before = SessionInfo {
        epoch: known.epoch - 1,
        ..known
    };
    cluster(&one).release(vec![before]).await.unwrap();
    cluster(&one).decline(before).await.unwrap();
    assert!(cluster(&one).is_own(A) && cluster(&other).owner(A).await.unwrap().is_some());
    // After a release it belongs to the first program that claims it.
    cluster(&one).release(vec![known]).await.unwrap();
    assert_eq!(other.claim(A).await.unwrap().epoch, claim.epoch + 2);
    assert!(cluster(&one).owner(A).await.unwrap().is_some());
    // A program that leaves counts as gone at once.
    other.close().await.unwrap();
    beat(&one, |beat| beat.has_gone).await;
    assert!(cluster(&one).is_of_another(A).await.unwrap());
    assert_eq!(one.claim(A).await.unwrap().epoch, claim.epoch + 3);
    assert!(!cluster(&one).is_of_another(A).await.unwrap());
    one.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_that_share_a_database_share_its_clock() {
    let [one, other] = needs!(two("clock").await);
    let ahead = "CREATE FUNCTION ahead() RETURNS trigger AS \
         $$ BEGIN NEW.beat_unix_ms := NEW.beat_unix_ms + 3600000; RETURN NEW; END $$ LANGUAGE plpgsql; \
         CREATE TRIGGER ahead BEFORE INSERT OR UPDATE ON unisono_members FOR EACH ROW \
         EXECUTE FUNCTION ahead()";
    for engine in [&one, &other] {
        assert!(cluster(engine).now_unix_ms().is_some(), "it has joined");
    }
    sql(Server::shared().unwrap(), "clock", ahead).await;
    for engine in [&one, &other] {
        let known = cluster(engine).beats().borrow().count;
        beat(engine, |beat| beat.count > known + 1).await;
        let shared = u128::try_from(cluster(engine).now_unix_ms().unwrap()).unwrap();
        let own = SystemTime::now().duration_since(UNIX_EPOCH).unwrap();
        assert!(shared > own.as_millis() + 3_000_000, "{shared}");
    }
    close([one, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn a_session_of_a_live_program_is_deleted_by_that_one_alone() {
    let [one, other] = needs!(two("deleted_beside").await);
    announce(&one).await;
    let claim = one.claim(A).await.unwrap();
    one.append(append(claim.epoch, 0)).await.unwrap();
    let deletion = || Deletion::of_session(A);
    let refused = other.delete_session(deletion()).await.unwrap_err();
    assert!(refused.is_owned_elsewhere(), "{refused}");
    assert!(
        refused.to_string().contains("http://127.0.0.1:1"),
        "{refused}"
    );
    // Its owner goes on, and may delete it.
    assert_eq!(one.append(append(claim.epoch, 1)).await.unwrap(), 2);
    assert!(one.delete_session(deletion()).await.unwrap());
    assert!(!other.delete_session(deletion()).await.unwrap());
    // So may any program, if the owner is gone.
    let claim = one.claim(A).await.unwrap();
    one.append(append(claim.epoch, 0)).await.unwrap();
    stop_beating("deleted_beside", &one).await;
    assert!(other.delete_session(deletion()).await.unwrap());
    close([one, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn the_newest_events_of_an_own_session_are_read_without_the_database() {
    let plain = needs!(store("recent").await);
    plain.close().await.unwrap();
    let one = member("recent", LATE).await;
    let claim = one.claim(A).await.unwrap();
    for seq in 0..3 {
        one.append(append(claim.epoch, seq)).await.unwrap();
    }
    // Only the program has them now.
    let server = Server::shared().unwrap();
    sql(server, "recent", "DELETE FROM unisono_events").await;
    let count = async |from, limit| one.read(A, from, limit).await.unwrap().len();
    assert_eq!(count(2, 2).await, 2);
    assert_eq!(count(2, 3).await, 0, "the database knows where it ends");
    let known = one.session(A).await.unwrap().unwrap();
    cluster(&one).release(vec![known]).await.unwrap();
    assert_eq!(count(2, 2).await, 0, "another program may own it");
    let claim = one.claim(A).await.unwrap();
    assert_eq!(count(2, 2).await, 0, "it may have been deleted meanwhile");
    one.append(append(claim.epoch, 3)).await.unwrap();
    assert_eq!(count(4, 1).await, 1);
    let gone = Deletion::of_session(A);
    assert!(one.delete_session(gone).await.unwrap());
    assert_eq!(count(4, 1).await, 0, "it is deleted");
    one.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn sessions_of_a_program_that_is_gone_are_taken_over_each_once_and_its_writes_fenced() {
    let plain = needs!(store("gone").await);
    plain.close().await.unwrap();
    let zombie = member("gone", LATE).await;
    let mut claims = Vec::new();
    for n in 0..50 {
        let session = SessionId::from_u128(0xA + n);
        let claim = zombie.claim(session).await.unwrap();
        let mut first = append(claim.epoch, 0);
        first.session = session;
        zombie.append(first).await.unwrap();
        claims.push(claim);
    }
    let living = [member("gone", LATE).await, member("gone", LATE).await];
    for engine in &living {
        announce(engine).await;
    }
    assert!(cluster(&living[0]).take_over(99).await.unwrap().is_empty());
    stop_beating("gone", &zombie).await;
    beat(&living[0], |beat| beat.has_gone && beat.alive == 2).await;
    let taken = async |engine: &Postgres| {
        let mut all = Vec::new();
        loop {
            // Nothing is taken over while a beat of that program is under way.
            all.extend(cluster(engine).take_over(7).await.unwrap());
            let members = cluster(engine).members().await.unwrap();
            let mut gone = members.iter().filter(|(member, _)| !member.is_alive);
            if gone.all(|(_, sessions)| *sessions == 0) {
                return all;
            }
        }
    };
    let (first, second) = tokio::join!(taken(&living[0]), taken(&living[1]));
    let mut all: Vec<SessionId> = first
        .iter()
        .chain(&second)
        .map(|info| info.session)
        .collect();
    all.sort();
    all.dedup();
    assert_eq!((first.len() + second.len(), all.len()), (50, 50));
    // A program that dies or fails before it opens them finds them by this.
    let left = cluster(&living[0]).owned().await.unwrap();
    assert_eq!(left.len(), first.len());
    assert!(
        left.iter()
            .all(|info| !cluster(&living[0]).is_own(info.session))
    );
    // Everybody sees the sessions of each member, a part at a time.
    let members = cluster(&living[1]).members().await.unwrap();
    let mut listed = Vec::new();
    for (member, count) in &members {
        let (mut before, from) = (SessionId::from_u128(u128::MAX), listed.len());
        loop {
            let part = cluster(&living[1]).owned_by(member.id, before, 7);
            let part: Vec<SessionId> = part.await.unwrap().iter().map(|one| one.session).collect();
            assert!(
                part.len() <= 7 && part.is_sorted_by(|a, b| a > b),
                "{part:?}"
            );
            let Some(last) = part.last() else { break };
            before = *last;
            listed.extend(part);
        }
        assert_eq!((listed.len() - from) as u64, *count);
    }
    listed.sort();
    assert_eq!(listed, all);
    // The program that was considered gone continues: its writes are refused, and it learns that it
    // was fenced.
    let fenced = zombie.append(append(claims[0].epoch, 1)).await.unwrap_err();
    assert!(matches!(fenced, Error::Fenced { .. }), "{fenced}");
    beat(&zombie, |beat| beat.lapses > 0).await;
    assert!(!cluster(&zombie).is_own(A));
    assert!(zombie.claim(A).await.is_err());
    let (owner, theirs) = match first.iter().any(|info| info.session == A) {
        true => (&living[0], &living[1]),
        false => (&living[1], &living[0]),
    };
    // Its new owner writes under the claim that took it over.
    let mut all = first.iter().chain(&second);
    let epoch = all.find(|info| info.session == A).unwrap().epoch;
    assert!(!cluster(theirs).take_up(A, epoch) && !cluster(owner).take_up(A, epoch - 1));
    assert!(cluster(owner).is_of_another(A).await.unwrap());
    assert!(cluster(owner).take_up(A, epoch) && cluster(owner).is_own(A));
    assert!(!cluster(owner).is_of_another(A).await.unwrap());
    assert_eq!(owner.append(append(epoch, 1)).await.unwrap(), 2);
    let claim = owner.claim(A).await.unwrap();
    assert_eq!(claim.epoch, epoch + 1);
    assert_eq!(owner.append(append(claim.epoch, 2)).await.unwrap(), 3);
    assert!(cluster(theirs).owner(A).await.unwrap().is_some());
    zombie.close().await.unwrap();
    for engine in living {
        engine.close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_takeover_whose_answer_is_lost_fails_and_its_sessions_are_found() {
    let plain = needs!(store("lost_takeover").await);
    plain.close().await.unwrap();
    let gone = member("lost_takeover", LATE).await;
    let claim = gone.claim(A).await.unwrap();
    gone.append(append(claim.epoch, 0)).await.unwrap();
    let server = Server::shared().unwrap();
    let proxy = Proxy::start(server.port());
    let through = Options::new(&proxy.url(server, "lost_takeover"), None).unwrap();
    let living = Postgres::open(through.member(LATE)).await.unwrap();
    gone.close().await.unwrap();
    beat(&living, |beat| beat.has_gone).await;
    proxy.lose_answer_about(A);
    let lost = cluster(&living).take_over(9).await.unwrap_err();
    assert!(lost.is_transient(), "{lost}");
    let left = cluster(&living).owned().await.unwrap();
    let left: Vec<SessionId> = left.iter().map(|info| info.session).collect();
    assert_eq!(left, [A]);
    assert!(!cluster(&living).is_own(A), "it is not worked on yet");
    living.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_waits_for_an_owner_that_may_be_gone() {
    let plain = needs!(store("silent").await);
    plain.close().await.unwrap();
    let gone = member("silent", SOON).await;
    gone.claim(A).await.unwrap();
    let living = member("silent", SOON).await;
    // It has no address: it is a command that was killed, or that is still working.
    let claiming = Instant::now();
    let refused = living.claim(A).await.unwrap_err();
    assert!(refused.is_owned_elsewhere() && claiming.elapsed() >= SOON);
    let (claimed, ()) = tokio::join!(living.claim(A), stop_beating("silent", &gone));
    assert_eq!(claimed.unwrap().epoch, 2);
    gone.close().await.unwrap();
    living.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_program_that_is_drained_takes_nothing_new_and_hands_over_what_it_has() {
    let plain = needs!(store("drained").await);
    plain.close().await.unwrap();
    let place = tempfile::tempdir().unwrap();
    let url = Server::shared().unwrap().url("drained");
    let options = || {
        Options::new(&url, None)
            .unwrap()
            .member(LATE)
            .directory(place.path())
    };
    let one = Postgres::open(options()).await.unwrap();
    let other = member("drained", LATE).await;
    one.claim(A).await.unwrap();
    let id = own_id(&one).await;
    assert!(
        cluster(&other)
            .drain(id.parse().unwrap(), true)
            .await
            .unwrap()
    );
    assert!(
        !cluster(&other)
            .drain(uuid::Uuid::nil(), true)
            .await
            .unwrap()
    );
    beat(&one, |beat| beat.is_draining).await;
    let b = SessionId::from_u128(0xB);
    assert!(matches!(one.claim(b).await, Err(Error::Draining { .. })));
    one.claim(A).await.unwrap();
    // Its work has stopped: nothing brings a session back before it is handed over.
    cluster(&one).begin_hand_over();
    assert!(matches!(one.claim(A).await, Err(Error::Draining { .. })));
    assert!(!cluster(&one).is_own(A));
    cluster(&one).hand_over().await.unwrap();
    assert!(matches!(one.claim(A).await, Err(Error::Draining { .. })));
    assert_ne!(own_id(&one).await, id);
    assert!(cluster(&one).take_over(9).await.unwrap().is_empty());
    beat(&other, |beat| beat.has_gone).await;
    assert_eq!(cluster(&other).take_over(9).await.unwrap().len(), 1);
    assert!(cluster(&other).take_over(9).await.unwrap().is_empty());
    beat(&other, |beat| !beat.has_gone && beat.alive == 2).await;
    beat(&one, |beat| beat.is_draining && beat.lapses == 0).await;
    // It accepts sessions again, including after a restart.
    let new: uuid::Uuid = own_id(&one).await.parse().unwrap();
    assert!(cluster(&other).drain(new, false).await.unwrap());
    beat(&one, |beat| !beat.is_draining).await;
    one.claim(b).await.unwrap();
    one.close().await.unwrap();
    let again = Postgres::open(options()).await.unwrap();
    assert_eq!(
        own_id(&again).await,
        new.to_string(),
        "in the same directory"
    );
    assert_eq!(again.claim(b).await.unwrap().epoch, 2);
    again.close().await.unwrap();
    other.close().await.unwrap();
}

/// Waits until a statement of another connection waits for this transaction.
async fn until_waited_for(held: &Transaction<'_>) {
    // A transaction sees the backends of its first query in `pg_stat_activity`.
    let waiting = "SELECT count(*) > 0 FROM pg_locks \
                   WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
    let until = Instant::now() + Duration::from_secs(30);
    while !held
        .query_one(waiting, &[])
        .await
        .unwrap()
        .get::<_, bool>(0)
    {
        assert!(Instant::now() < until, "nothing waits");
        tokio::task::yield_now().await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn nobody_has_the_sessions_of_a_program_whose_beat_is_under_way() {
    let plain = needs!(store("comes_back").await);
    plain.close().await.unwrap();
    let gone = member("comes_back", LATE).await;
    let claim = gone.claim(A).await.unwrap();
    gone.append(append(claim.epoch, 0)).await.unwrap();
    let id = own_id(&gone).await;
    gone.close().await.unwrap();
    let living = Arc::new(member("comes_back", LATE).await);
    beat(&living, |beat| beat.has_gone).await;
    let returns = format!(
        "UPDATE unisono_members SET address = 'http://127.0.0.1:1', \
         beat_unix_ms = (extract(epoch FROM clock_timestamp()) * 1000)::bigint + 600000 \
         WHERE member = '{id}'"
    );
    let mut client = client(Server::shared().unwrap(), "comes_back").await;
    for deletes in [false, true] {
        // It returns: its beat is not committed yet.
        let held = client.transaction().await.unwrap();
        held.execute(&returns, &[]).await.unwrap();
        assert_eq!(cluster(&living).take_over(9).await.unwrap(), []);
        let asking = tokio::spawn({
            let living = living.clone();
            async move {
                match deletes {
                    false => living.claim(A).await.map(drop),
                    true => living
                        .delete_session(Deletion::of_session(A))
                        .await
                        .map(drop),
                }
            }
        });
        until_waited_for(&held).await;
        held.commit().await.unwrap();
        let refused = asking.await.unwrap().unwrap_err();
        assert!(refused.is_owned_elsewhere(), "{refused}");
        let leaves = format!("UPDATE unisono_members SET beat_unix_ms = 0 WHERE member = '{id}'");
        client.batch_execute(&leaves).await.unwrap();
    }
    living.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_claim_under_way_during_a_hand_over_is_handed_over_too() {
    let plain = needs!(store("passing").await);
    plain.close().await.unwrap();
    let one = Arc::new(member("passing", LATE).await);
    one.claim(A).await.unwrap();
    let id = own_id(&one).await.parse().unwrap();
    assert!(cluster(&one).drain(id, true).await.unwrap());
    beat(&one, |beat| beat.is_draining).await;
    // The claim waits in the database for another transaction.
    let server = Server::shared().unwrap();
    let mut client = client(server, "passing").await;
    let held = client.transaction().await.unwrap();
    let lock = "SELECT FROM unisono_sessions WHERE session = $1 FOR UPDATE";
    held.query(lock, &[&A.0]).await.unwrap();
    let claiming = tokio::spawn({
        let one = one.clone();
        async move { one.claim(A).await }
    });
    until_waited_for(&held).await;
    cluster(&one).begin_hand_over();
    cluster(&one).hand_over().await.unwrap();
    held.commit().await.unwrap();
    let claimed = claiming.await.unwrap();
    assert!(
        matches!(claimed, Err(Error::Draining { .. })),
        "{claimed:?}"
    );
    assert!(!cluster(&one).is_own(A));
    beat(&one, |beat| beat.is_draining && beat.owned == 0).await;
    let other = member("passing", LATE).await;
    beat(&other, |beat| beat.has_gone).await;
    assert_eq!(cluster(&other).take_over(9).await.unwrap().len(), 1);
    one.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn programs_with_another_token_are_refused_and_other_agents_are_told() {
    let [one, other] = needs!(two("tokens").await);
    let told = |token: u8, agents: u8| Announcement {
        address: Some("http://127.0.0.1:1".to_owned()),
        token: Some(vec![token]),
        agents: Some(vec![agents]),
    };
    cluster(&one).announce(told(1, 1)).await.unwrap();
    let refused = cluster(&other)
        .announce(told(2, 1))
        .await
        .unwrap_err()
        .to_string();
    assert!(
        refused.contains("another token") && refused.contains("server.token_file"),
        "{refused}"
    );
    cluster(&other).announce(told(1, 2)).await.unwrap();
    beat(&one, |beat| beat.differing.len() == 1).await;
    cluster(&other).announce(told(1, 1)).await.unwrap();
    beat(&one, |beat| beat.differing.is_empty()).await;
    close([one, other]).await;
}

#[tokio::test(flavor = "multi_thread")]
async fn tables_of_earlier_versions_are_changed_and_keep_what_they_have() {
    let changes = [
        "DROP TABLE unisono_members, unisono_holds, unisono_callbacks, unisono_begun; \
         ALTER TABLE unisono_sessions DROP COLUMN owner; UPDATE unisono_schema SET version = 1",
        "ALTER TABLE unisono_members DROP COLUMN short_unix_ms, DROP COLUMN refused; \
         UPDATE unisono_schema SET version = 5",
    ];
    for (n, change) in changes.into_iter().enumerate() {
        are_changed(&format!("earlier_{n}"), change).await;
    }
}

/// Opens a schema of an earlier version, which a change makes of a new one.
async fn are_changed(schema: &str, change: &str) {
    let plain = needs!(store(schema).await);
    let claim = plain.claim(A).await.unwrap();
    plain.append(append(claim.epoch, 0)).await.unwrap();
    plain.close().await.unwrap();
    sql(Server::shared().unwrap(), schema, change).await;
    let open = || {
        let schema = schema.to_owned();
        async move { member(&schema, LATE).await }
    };
    let opening = (0..4).map(|_| tokio::spawn(open()));
    let opened: Vec<_> = opening.collect();
    for engine in opened {
        let engine = engine.await.unwrap();
        assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 1);
        engine.close().await.unwrap();
    }
    let again = member(schema, LATE).await;
    assert_eq!(again.claim(A).await.unwrap().epoch, claim.epoch + 1);
    again.close().await.unwrap();
}
