//! Tests of the PostgreSQL engine with a real server: fences, crashes, lost answers, and refusals.

use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use tokio_postgres::{Client, NoTls, Transaction};
use unisono_store::postgres::{Options, Postgres};
use unisono_store::{
    Append, Checkpoint, Deletion, Engine, Error, Event, Health, SessionId, archive,
};
use unisono_test_postgres::Server;

const A: SessionId = SessionId::from_u128(0xA);
/// How long a program waits for a database that is away, in tests that wait for the end of that time. On
/// a busy machine a commit may take a second.
pub(crate) const SHORT_PATIENCE: Duration = Duration::from_secs(2);

/// Connects as the server's owner.
pub(crate) async fn client(server: &Server, schema: &str) -> Client {
    let connected = tokio_postgres::connect(&server.url(schema), NoTls).await;
    let (client, connection) = connected.unwrap();
    tokio::spawn(connection);
    client
}

/// Runs statements as the server's owner.
pub(crate) async fn sql(server: &Server, schema: &str, statements: &str) {
    let client = client(server, schema).await;
    client.batch_execute(statements).await.unwrap();
}

/// Creates a role, if an earlier run on the same server has not.
pub(crate) async fn role(server: &Server, name: &str, more: &str) {
    let made = format!(
        "DO $$ BEGIN CREATE ROLE {name} LOGIN {more}; \
         EXCEPTION WHEN duplicate_object THEN NULL; END $$"
    );
    sql(server, "public", &made).await;
}

fn options(url: &str) -> Options {
    Options::new(url, None).unwrap()
}

/// A store in a new schema of the shared server; `None` if PostgreSQL is not installed.
pub(crate) async fn store(schema: &str) -> Option<Postgres> {
    let server = tokio::task::spawn_blocking(Server::shared).await.unwrap()?;
    sql(server, "public", &format!("CREATE SCHEMA {schema}")).await;
    Some(Postgres::open(options(&server.url(schema))).await.unwrap())
}

/// A separate server for the test, with a schema for the store.
pub(crate) async fn own_server(settings: &'static [&'static str]) -> Option<Arc<Server>> {
    let started = tokio::task::spawn_blocking(move || Server::start(settings));
    let server = started.await.unwrap()?;
    sql(&server, "public", "CREATE SCHEMA talks").await;
    Some(Arc::new(server))
}

/// Starts a server again.
pub(crate) async fn up(server: &Arc<Server>) {
    let server = server.clone();
    let started = tokio::task::spawn_blocking(move || server.up());
    started.await.unwrap();
}

/// Crashes a server and starts it again.
pub(crate) async fn restart(server: &Arc<Server>) {
    server.crash();
    up(server).await;
}

fn append(epoch: u64, expected_seq: u64, payload: &[u8]) -> Append {
    Append::new(A, epoch, expected_seq, vec![payload.to_vec()])
}

#[tokio::test(flavor = "multi_thread")]
async fn many_open_a_new_schema_at_once() {
    let Some(server) = tokio::task::spawn_blocking(Server::shared).await.unwrap() else {
        return;
    };
    sql(server, "public", "CREATE SCHEMA crowded").await;
    let opening: Vec<_> = (0..8)
        .map(|_| tokio::spawn(Postgres::open(options(&server.url("crowded")))))
        .collect();
    for opened in opening {
        opened.await.unwrap().unwrap().close().await.unwrap();
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn another_machine_fences_this_one() {
    let one = needs!(store("two_machines").await);
    let server = Server::shared().unwrap();
    let other = Postgres::open(options(&server.url("two_machines")))
        .await
        .unwrap();
    let claim = one.claim(A).await.unwrap();
    one.append(append(claim.epoch, 0, b"1")).await.unwrap();
    let theirs = other.claim(A).await.unwrap();
    assert_eq!((theirs.epoch, theirs.last_seq), (claim.epoch + 1, 1));
    let fenced = one.append(append(claim.epoch, 1, b"2")).await.unwrap_err();
    assert!(
        matches!(fenced, Error::Fenced { current, .. } if current == theirs.epoch),
        "{fenced}"
    );
    other.append(append(theirs.epoch, 1, b"2")).await.unwrap();
    let seen = one.read(A, 1, 9).await.unwrap();
    assert_eq!(seen.len(), 2, "both see what either wrote");
    one.close().await.unwrap();
    other.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn what_was_acknowledged_outlives_a_crash_of_the_server_and_is_there_once() {
    let server = needs!(own_server(&[]).await);
    let engine = Arc::new(Postgres::open(options(&server.url("talks"))).await.unwrap());
    let (written, mut progress) = tokio::sync::watch::channel(0_u64);
    let mut writing = Vec::new();
    for n in 1..=8_u128 {
        let session = SessionId::from_u128(n);
        let claim = engine.claim(session).await.unwrap();
        let (engine, written) = (engine.clone(), written.clone());
        writing.push(tokio::spawn(async move {
            let mut acknowledged = 0;
            for seq in 0..200_u64 {
                let append =
                    Append::new(session, claim.epoch, seq, vec![seq.to_be_bytes().to_vec()]);
                match engine.append(append).await {
                    Ok(last) => acknowledged = last,
                    Err(Error::Unreachable { .. }) => break,
                    Err(error) => panic!("{error}"),
                }
                written.send_modify(|written| *written += 1);
            }
            (session, acknowledged)
        }));
    }
    drop(written);
    for crash in 1..=3 {
        // Also goes on when every writer has ended.
        let _ = progress.wait_for(|written| *written >= crash * 100).await;
        restart(&server).await;
    }
    for writer in writing {
        let (session, acknowledged) = writer.await.unwrap();
        let events = engine.read(session, 1, 1_000).await.unwrap();
        assert!(events.len() as u64 >= acknowledged, "{session}");
        for (seq, event) in events.iter().enumerate() {
            assert_eq!(
                event.payload,
                (seq as u64).to_be_bytes(),
                "{session}: once, in order"
            );
        }
    }
    assert_eq!(engine.health(), Health::Ok);
    engine.close().await.unwrap();
}

/// Forwards bytes to the server, and drops its next answer on request.
pub(crate) struct Proxy {
    address: SocketAddr,
    lose: Arc<AtomicBool>,
    /// The session that the lost answer names; none: any answer.
    about: Arc<Mutex<Option<SessionId>>>,
}

impl Proxy {
    /// Drops the next answer that names this session.
    pub(crate) fn lose_answer_about(&self, session: SessionId) {
        *self.about.lock().unwrap() = Some(session);
        self.lose.store(true, Ordering::SeqCst);
    }

    /// The address of the tables in that schema, through the proxy.
    pub(crate) fn url(&self, server: &Server, schema: &str) -> String {
        let direct = format!("127.0.0.1:{}", server.port());
        let url = server.url(schema);
        url.replace(&direct, &self.address.to_string())
    }

    pub(crate) fn start(port: u16) -> Proxy {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let (lose, about) = (Arc::new(AtomicBool::new(false)), Arc::new(Mutex::new(None)));
        let proxy = Proxy {
            address,
            lose: lose.clone(),
            about: about.clone(),
        };
        thread::spawn(move || {
            for client in listener.incoming().map_while(Result::ok) {
                let server = TcpStream::connect(("127.0.0.1", port)).unwrap();
                let (from, to) = (client.try_clone().unwrap(), server.try_clone().unwrap());
                thread::spawn(move || pass(from, to, |_| false));
                let (lose, about) = (lose.clone(), about.clone());
                let is_lost = move |answer: &[u8]| {
                    let about: Option<SessionId> = *about.lock().unwrap();
                    let mut parts = answer.windows(16);
                    about.is_none_or(|session| parts.any(|part| part == session.0.as_bytes()))
                        && lose.swap(false, Ordering::SeqCst)
                };
                thread::spawn(move || pass(server, client, is_lost));
            }
        });
        proxy
    }
}

/// Forwards bytes until one side ends, or an answer is to be dropped.
fn pass(mut from: TcpStream, mut to: TcpStream, is_lost: impl Fn(&[u8]) -> bool) {
    let mut bytes = [0; 64 * 1024];
    while let Ok(read) = from.read(&mut bytes) {
        let answer = &bytes[..read];
        if read == 0 || is_lost(answer) || to.write_all(answer).is_err() {
            break;
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_commit_whose_answer_was_lost_is_not_written_twice() {
    let direct = needs!(store("lost_answers").await);
    let server = Server::shared().unwrap();
    let proxy = Proxy::start(server.port());
    let through = proxy.url(server, "lost_answers");
    let engine = Postgres::open(options(&through)).await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    engine.append(append(claim.epoch, 0, b"0")).await.unwrap();
    for seq in 1..40_u64 {
        proxy.lose.store(seq % 2 == 0, Ordering::SeqCst);
        let payload = seq.to_be_bytes();
        let last = engine
            .append(append(claim.epoch, seq, &payload))
            .await
            .unwrap();
        assert_eq!(last, seq + 1);
    }
    let events = direct.read(A, 1, 99).await.unwrap();
    assert_eq!(events.len(), 40);
    assert_eq!(events[39].payload, 39_u64.to_be_bytes());
    engine.close().await.unwrap();
    direct.close().await.unwrap();
}

/// The compression of large values that the server should use, and those of the event and the state.
const COMPRESSION: &str = "\
SELECT (SELECT CASE WHEN 'lz4' = ANY(enumvals) THEN 'lz4' ELSE 'pglz' END FROM pg_settings
        WHERE name = 'default_toast_compression'),
    (SELECT pg_column_compression(payload) FROM unisono_events),
    (SELECT pg_column_compression(state) FROM unisono_checkpoints)";

#[tokio::test(flavor = "multi_thread")]
async fn large_events_and_states_are_compressed_by_lz4_if_the_server_has_it() {
    let engine = needs!(store("compressed").await);
    let claim = engine.claim(A).await.unwrap();
    let large = b"the same words ".repeat(1_000);
    engine.append(append(claim.epoch, 0, &large)).await.unwrap();
    let state = Checkpoint {
        seq: 1,
        state: large.clone(),
    };
    engine.put_checkpoint(A, claim.epoch, state).await.unwrap();
    let client = client(Server::shared().unwrap(), "compressed").await;
    let row = client.query_one(COMPRESSION, &[]).await.unwrap();
    let [best, event, state]: [String; 3] = [0_usize, 1, 2].map(|column| row.get(column));
    assert_eq!((&event, &state), (&best, &best));
    assert_eq!(engine.read(A, 1, 9).await.unwrap()[0].payload, large);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_large_append_needs_no_temporary_file_of_the_server() {
    let server = needs!(own_server(&["temp_file_limit=0", "work_mem=1MB"]).await);
    let engine = Postgres::open(options(&server.url("talks"))).await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    let large = vec![7_u8; 8 << 20];
    let last = engine.append(append(claim.epoch, 0, &large)).await;
    assert_eq!(last.unwrap(), 1);
    assert_eq!(engine.read(A, 1, 9).await.unwrap()[0].payload, large);
    engine.close().await.unwrap();
}

/// Cancels each statement that inserts events, as `statement_timeout` does.
const CANCEL: &str = "\
CREATE FUNCTION cancel() RETURNS trigger AS $$ BEGIN
    RAISE EXCEPTION 'canceling statement due to statement timeout' USING ERRCODE = '57014';
END $$ LANGUAGE plpgsql;
CREATE TRIGGER cancel BEFORE INSERT ON unisono_events EXECUTE FUNCTION cancel()";

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_append_is_tried_again_and_its_failure_is_temporary() {
    let made = needs!(store("cancelled").await);
    made.close().await.unwrap();
    let server = Server::shared().unwrap();
    let patient = options(&server.url("cancelled")).patience(SHORT_PATIENCE);
    let engine = Postgres::open(patient).await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    engine.append(append(claim.epoch, 0, b"1")).await.unwrap();
    sql(server, "cancelled", CANCEL).await;
    let refused = engine.append(append(claim.epoch, 1, b"2")).await;
    let refused = refused.unwrap_err();
    assert!(
        matches!(refused, Error::Unreachable { .. }) && refused.is_transient(),
        "{refused}"
    );
    assert_eq!(engine.health(), Health::Ok);
    sql(server, "cancelled", "DROP TRIGGER cancel ON unisono_events").await;
    let last = engine.append(append(claim.epoch, 1, b"2")).await.unwrap();
    assert_eq!(last, 2);
    assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 2);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_the_database_cancels_holds_up_no_other_session() {
    const B: SessionId = SessionId::from_u128(0xB);
    let made = needs!(store("cancelled_alone").await);
    made.close().await.unwrap();
    let server = Server::shared().unwrap();
    // It does not end before the test has it succeed.
    let patient = options(&server.url("cancelled_alone")).patience(Duration::from_secs(60));
    let engine = Arc::new(Postgres::open(patient).await.unwrap());
    let (a, b) = (
        engine.claim(A).await.unwrap(),
        engine.claim(B).await.unwrap(),
    );
    let rows_of_a = format!("FOR EACH ROW WHEN (NEW.session = '{}') EXECUTE", A.0);
    let cancel = CANCEL.replace("EXECUTE", &rows_of_a);
    sql(server, "cancelled_alone", &cancel).await;
    let cancelled = tokio::spawn({
        let (engine, append) = (engine.clone(), append(a.epoch, 0, b"1"));
        async move { engine.append(append).await }
    });
    for n in 0..5 {
        let append = Append {
            session: B,
            ..append(b.epoch, n, b"1")
        };
        assert_eq!(engine.append(append).await.unwrap(), n + 1);
    }
    assert!(!cancelled.is_finished());
    let end = "DROP TRIGGER cancel ON unisono_events";
    sql(server, "cancelled_alone", end).await;
    assert_eq!(cancelled.await.unwrap().unwrap(), 1);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_that_the_database_undoes_costs_no_connection() {
    let made = needs!(store("undone").await);
    made.close().await.unwrap();
    let server = Server::shared().unwrap();
    let url = server.url("undone") + "&application_name=undone";
    let patient = options(&url).patience(SHORT_PATIENCE);
    let engine = Postgres::open(patient).await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    engine.append(append(claim.epoch, 0, b"1")).await.unwrap();
    let cancel = CANCEL.replace("unisono_events", "unisono_checkpoints");
    sql(server, "undone", &cancel).await;
    let client = client(server, "undone").await;
    let connections = async || {
        let asked = "SELECT pid FROM pg_stat_activity WHERE application_name = 'undone'";
        let rows = client.query(asked, &[]).await.unwrap();
        rows.iter().map(|row| row.get(0)).collect::<Vec<i32>>()
    };
    let before = connections().await;
    let state = Checkpoint {
        seq: 1,
        state: b"state".to_vec(),
    };
    let undone = engine.put_checkpoint(A, claim.epoch, state).await;
    assert!(
        matches!(undone, Err(Error::Unreachable { .. })),
        "{undone:?}"
    );
    for one in connections().await {
        assert!(before.contains(&one));
    }
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_append_that_the_database_refuses_fails_no_other_one_of_its_statement() {
    const B: SessionId = SessionId::from_u128(0xB);
    let engine = needs!(store("refused_alone").await);
    let mut client = client(Server::shared().unwrap(), "refused_alone").await;
    let (a, b) = (
        engine.claim(A).await.unwrap(),
        engine.claim(B).await.unwrap(),
    );
    // A row in the way of an event.
    let stray = "INSERT INTO unisono_events VALUES ($1, 1, 0, 'x')";
    client.execute(stray, &[&B.0]).await.unwrap();
    // While this statement waits for the table, further appends gather for the next one.
    let locked = client.transaction().await.unwrap();
    let lock = "LOCK TABLE unisono_events IN SHARE MODE";
    locked.batch_execute(lock).await.unwrap();
    let engine = Arc::new(engine);
    let first = tokio::spawn({
        let (engine, append) = (engine.clone(), append(a.epoch, 0, b"1"));
        async move { engine.append(append).await }
    });
    let waiting = "SELECT count(*) FROM pg_locks \
                   WHERE relation = 'unisono_events'::regclass AND NOT granted";
    while locked
        .query_one(waiting, &[])
        .await
        .unwrap()
        .get::<_, i64>(0)
        == 0
    {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
    let in_the_way = Append {
        session: B,
        ..append(b.epoch, 0, b"1")
    };
    let (refused, written, unlocked) = tokio::join!(
        engine.append(in_the_way),
        engine.append(append(a.epoch, 1, b"2")),
        locked.commit()
    );
    unlocked.unwrap();
    assert_eq!(first.await.unwrap().unwrap(), 1);
    assert_eq!(written.unwrap(), 2);
    let refused = refused.unwrap_err();
    assert!(
        matches!(&refused, Error::Database { reason } if reason.contains("23505")),
        "{refused}"
    );
    // The session is as it was.
    assert_eq!(engine.session(B).await.unwrap().unwrap().last_seq, 0);
    engine.close().await.unwrap();
}

/// Returns when a statement of another connection waits for this transaction.
async fn is_waited_for(held: &Transaction<'_>) {
    let waiting = "SELECT count(*) FROM pg_locks \
                   WHERE NOT granted AND pg_backend_pid() = ANY(pg_blocking_pids(pid))";
    let count = async || held.query_one(waiting, &[]).await.unwrap().get::<_, i64>(0);
    while count().await == 0 {
        tokio::time::sleep(Duration::from_millis(5)).await;
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_statement_locks_its_journals_in_the_order_of_their_ids_in_a_new_table_too() {
    const B: SessionId = SessionId::from_u128(0xB);
    const C: SessionId = SessionId::from_u128(0xC);
    let engine = needs!(store("lock_order").await);
    // The table has their rows in another order.
    let (b, a, c) = (
        engine.claim(B).await.unwrap(),
        engine.claim(A).await.unwrap(),
        engine.claim(C).await.unwrap(),
    );
    let server = Server::shared().unwrap();
    let mut another = client(server, "lock_order").await;
    let mut client = client(server, "lock_order").await;
    let lock = "SELECT epoch FROM unisono_sessions WHERE session = $1 FOR UPDATE NOWAIT";
    let first = client.transaction().await.unwrap();
    first.query_one(lock, &[&C.0]).await.unwrap();
    let second = another.transaction().await.unwrap();
    second.query_one(lock, &[&A.0]).await.unwrap();
    let engine = Arc::new(engine);
    let append_to = |session, epoch| Append {
        session,
        ..append(epoch, 0, b"1")
    };
    // While the statement with this one waits, those of the next statement gather.
    let waiting = tokio::spawn({
        let (engine, append) = (engine.clone(), append_to(C, c.epoch));
        async move { engine.append(append).await }
    });
    is_waited_for(&first).await;
    let (to_b, to_a, ()) = tokio::join!(
        engine.append(append_to(B, b.epoch)),
        engine.append(append_to(A, a.epoch)),
        async {
            first.commit().await.unwrap();
            is_waited_for(&second).await;
            // The statement that waits for the first of its journals has not locked the next one.
            second.query_one(lock, &[&B.0]).await.unwrap();
            second.commit().await.unwrap();
        }
    );
    assert_eq!((to_a.unwrap(), to_b.unwrap()), (1, 1));
    assert_eq!(waiting.await.unwrap().unwrap(), 1);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_with_a_stricter_isolation_fails_no_statement_that_waits() {
    let owner = needs!(store("isolated").await);
    owner.close().await.unwrap();
    let server = Server::shared().unwrap();
    role(server, "isolated", "IN ROLE unisono").await;
    let strict = "ALTER ROLE isolated SET default_transaction_isolation = 'serializable'";
    sql(server, "public", strict).await;
    let url = server.url("isolated").replace("unisono@", "isolated@");
    let engine = Arc::new(Postgres::open(options(&url)).await.unwrap());
    let claim = engine.claim(A).await.unwrap();
    engine.append(append(claim.epoch, 0, b"1")).await.unwrap();
    let mut client = client(server, "isolated").await;
    let held = client.transaction().await.unwrap();
    let change = "UPDATE unisono_sessions SET updated_unix_ms = 0 WHERE session = $1";
    held.execute(change, &[&A.0]).await.unwrap();
    let deleting = tokio::spawn({
        let engine = engine.clone();
        async move { engine.delete_session(Deletion::of_session(A)).await }
    });
    is_waited_for(&held).await;
    held.commit().await.unwrap();
    assert!(deleting.await.unwrap().unwrap());
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_journal_that_another_program_has_locked_delays_no_session() {
    /// A journal of the store's own.
    const OWN: SessionId = SessionId::from_u128((0xff_ffff << 104) + 0xA);
    let engine = needs!(store("locked_journal").await);
    let (own, a) = (
        engine.claim(OWN).await.unwrap(),
        engine.claim(A).await.unwrap(),
    );
    let mut client = client(Server::shared().unwrap(), "locked_journal").await;
    let locked = client.transaction().await.unwrap();
    let lock = "SELECT epoch FROM unisono_sessions WHERE session = $1 FOR UPDATE";
    locked.query_one(lock, &[&OWN.0]).await.unwrap();
    let engine = Arc::new(engine);
    let waiting = tokio::spawn({
        let engine = engine.clone();
        let append = Append {
            session: OWN,
            ..append(own.epoch, 0, b"1")
        };
        async move { engine.append(append).await }
    });
    is_waited_for(&locked).await;
    let written = engine.append(append(a.epoch, 0, b"1")).await;
    assert_eq!(written.unwrap(), 1);
    assert!(!waiting.is_finished());
    locked.commit().await.unwrap();
    assert_eq!(waiting.await.unwrap().unwrap(), 1);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_database_that_is_away_is_waited_for_and_then_said_to_be() {
    let server = needs!(own_server(&[]).await);
    let patient = options(&server.url("talks")).patience(SHORT_PATIENCE);
    let engine = Postgres::open(patient).await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    engine.append(append(claim.epoch, 0, b"1")).await.unwrap();
    server.crash();
    for _ in 0..2 {
        let error = engine
            .append(append(claim.epoch, 1, b"2"))
            .await
            .unwrap_err();
        assert!(
            matches!(error, Error::Unreachable { .. }) && error.is_transient(),
            "{error}"
        );
    }
    assert!(matches!(
        engine.read(A, 1, 9).await,
        Err(Error::Unreachable { .. })
    ));
    assert!(matches!(
        engine.claim(A).await,
        Err(Error::Unreachable { .. })
    ));
    assert!(matches!(engine.health(), Health::Unreachable { .. }));
    up(&server).await;
    engine.append(append(claim.epoch, 1, b"2")).await.unwrap();
    assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 2);
    assert_eq!(engine.health(), Health::Ok);
    // A server that hangs is treated as unavailable.
    server.pause(true);
    let bounded = Duration::from_secs(20);
    let hangs = tokio::time::timeout(bounded, engine.read(A, 1, 9)).await;
    assert!(matches!(hangs.unwrap(), Err(Error::Unreachable { .. })));
    // These need a connection of their own.
    let deletion = engine.delete_session(Deletion::of_session(A));
    let hangs = tokio::time::timeout(bounded, deletion).await;
    assert!(matches!(hangs.unwrap(), Err(Error::Unreachable { .. })));
    let another = Postgres::open(options(&server.url("talks")).patience(SHORT_PATIENCE));
    let hangs = tokio::time::timeout(bounded, another).await;
    assert!(matches!(hangs.unwrap(), Err(Error::Unreachable { .. })));
    server.pause(false);
    assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 2);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_standby_that_is_not_promoted_yet_is_waited_for_and_refused_at_the_start() {
    let server = needs!(own_server(&[]).await);
    let url = server.url("talks");
    let patient = options(&url).patience(SHORT_PATIENCE);
    let engine = Postgres::open(patient).await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    engine.append(append(claim.epoch, 0, b"1")).await.unwrap();
    server.stand_by();
    restart(&server).await;
    let away = engine.append(append(claim.epoch, 1, b"2")).await;
    let away = away.unwrap_err();
    assert!(
        matches!(away, Error::Unreachable { .. }) && away.to_string().contains("replica"),
        "{away}"
    );
    assert!(matches!(engine.health(), Health::Unreachable { .. }));
    let refused = Postgres::open(options(&url)).await.unwrap_err();
    assert!(
        matches!(refused, Error::Database { .. }) && refused.to_string().contains("primary"),
        "{refused}"
    );
    sql(&server, "public", "SELECT pg_promote()").await;
    engine.append(append(claim.epoch, 1, b"2")).await.unwrap();
    assert_eq!(engine.read(A, 1, 9).await.unwrap().len(), 2);
    assert_eq!(engine.health(), Health::Ok);
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn of_several_hosts_the_one_that_can_be_written_is_used() {
    let (Some(primary), Some(standby)) = (own_server(&[]).await, own_server(&[]).await) else {
        return;
    };
    standby.stand_by();
    restart(&standby).await;
    let host = format!("127.0.0.1:{}", primary.port());
    let hosts = format!("127.0.0.1:{},{host}", standby.port());
    let url = primary.url("talks").replace(&host, &hosts);
    let engine = Postgres::open(options(&url)).await.unwrap();
    engine.claim(A).await.unwrap();
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn it_is_known_whether_the_database_is_there_where_nobody_asks() {
    let server = needs!(own_server(&[]).await);
    let engine = Postgres::open(options(&server.url("talks")).member(Duration::from_secs(10)))
        .await
        .unwrap();
    let becomes = async |is_there: bool| {
        for _ in 0..600 {
            if (engine.health() == Health::Ok) == is_there {
                return;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        panic!("health is {:?}", engine.health());
    };
    becomes(true).await;
    server.crash();
    becomes(false).await;
    up(&server).await;
    becomes(true).await;
    // A server that hangs does not delay a claim for ever.
    server.pause(true);
    let hangs = tokio::time::timeout(Duration::from_secs(20), engine.claim(A)).await;
    assert!(matches!(hangs.unwrap(), Err(Error::Unreachable { .. })));
    becomes(false).await;
    server.pause(false);
    becomes(true).await;
    engine.claim(A).await.unwrap();
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_connection_that_the_database_has_no_room_for_is_no_outage() {
    let owner = needs!(store("few_connections").await);
    owner.close().await.unwrap();
    let server = Server::shared().unwrap();
    role(server, "few", "IN ROLE unisono CONNECTION LIMIT 3").await;
    let url = server.url("few_connections").replace("unisono@", "few@");
    let few = options(&url).member(Duration::from_secs(10));
    let engine = Postgres::open(few.patience(SHORT_PATIENCE)).await.unwrap();
    // With that of the beats all connections are in use.
    let claim = engine.claim(A).await.unwrap();
    engine.append(append(claim.epoch, 0, b"1")).await.unwrap();
    let refused = engine.session(A).await.unwrap_err();
    assert!(refused.to_string().contains("too many"), "{refused}");
    let latest = Instant::now() + Duration::from_secs(30);
    while engine.health() != Health::Ok {
        assert!(Instant::now() < latest, "{:?}", engine.health());
        tokio::time::sleep(Duration::from_millis(50)).await;
    }
    engine.append(append(claim.epoch, 1, b"2")).await.unwrap();
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_server_that_cannot_hold_a_store_is_refused_with_what_to_do() {
    let refused = async |url: String| match Postgres::open(options(&url)).await {
        Ok(_) => panic!("it is not refused"),
        Err(error) => error.to_string(),
    };
    let server = needs!(own_server(&["fsync=off"]).await);
    let error = refused(server.url("talks")).await;
    assert!(error.contains("`fsync = off`"), "{error}");
    drop(server);
    let engine = needs!(store("refusals").await);
    engine.close().await.unwrap();
    let server = Server::shared().unwrap();
    let base = format!("postgres://unisono@127.0.0.1:{}", server.port());
    let none = refused(format!("{base}/nowhere?sslmode=disable")).await;
    assert!(none.contains("\"nowhere\" does not exist"), "{none}");
    let latin = format!("latin{}", std::process::id());
    let make = format!(
        "CREATE DATABASE {latin} ENCODING 'LATIN1' LC_COLLATE 'C' LC_CTYPE 'C' TEMPLATE template0"
    );
    sql(server, "public", &make).await;
    let other = refused(format!("{base}/{latin}?sslmode=disable")).await;
    assert!(other.contains("`ENCODING 'UTF8'"), "{other}");
    sql(server, "refusals", "UPDATE unisono_schema SET version = 9").await;
    let newer = refused(server.url("refusals")).await;
    assert!(
        newer.contains("version 9") && newer.contains("newer version"),
        "{newer}"
    );
    role(server, "guest", "").await;
    let schema = "CREATE SCHEMA guests; GRANT USAGE ON SCHEMA guests TO guest";
    sql(server, "public", schema).await;
    let guest = server.url("guests").replace("unisono@", "guest@");
    let error = refused(guest.clone()).await;
    assert!(error.contains("unisono store schema"), "{error}");
    // If the tables exist, no permission to create any is needed.
    sql(server, "guests", Postgres::schema()).await;
    let granted = "GRANT SELECT, INSERT, UPDATE, DELETE ON ALL TABLES IN SCHEMA guests TO guest";
    sql(server, "guests", granted).await;
    let engine = Postgres::open(options(&guest)).await.unwrap();
    let claim = engine.claim(A).await.unwrap();
    engine.append(append(claim.epoch, 0, b"1")).await.unwrap();
    let vacuum = engine.check_vacuum().await.unwrap_err().to_string();
    assert!(vacuum.contains("guest may not vacuum"), "{vacuum}");
    engine.close().await.unwrap();
    let nobody = refused("postgres://u:s3cret@127.0.0.1:1/db?sslmode=disable".to_owned()).await;
    assert!(
        nobody.contains("does not respond") && !nobody.contains("s3cret"),
        "{nobody}"
    );
}

#[tokio::test(flavor = "multi_thread")]
async fn a_role_is_let_in_by_the_password_of_a_file_and_by_no_other() {
    let server = needs!(own_server(&[]).await);
    sql(
        &server,
        "public",
        "CREATE ROLE keeper LOGIN PASSWORD 'right'; GRANT ALL ON SCHEMA talks TO keeper",
    )
    .await;
    server.require_password("keeper");
    restart(&server).await;
    let url = server.url("talks").replace("unisono@", "keeper@");
    let place = tempfile::tempdir().unwrap();
    let file = place.path().join("password");
    std::fs::write(&file, "wr0ng\n").unwrap();
    let refused = Postgres::open(Options::new(&url, Some(&file)).unwrap()).await;
    let refused = refused.unwrap_err();
    let text = refused.to_string();
    assert!(matches!(refused, Error::Database { .. }), "{text}");
    assert!(
        text.contains("it refused the login of user `keeper`: password authentication failed")
            && !text.contains("wr0ng"),
        "{text}"
    );
    let none = Postgres::open(options(&url)).await.unwrap_err();
    let text = none.to_string();
    assert!(matches!(none, Error::Database { .. }), "{text}");
    assert!(
        text.contains("wants a password") && text.contains("`store.password_file`"),
        "{text}"
    );
    std::fs::write(&file, "right\n").unwrap();
    let right = Options::new(&url, Some(&file)).unwrap();
    let engine = Postgres::open(right.patience(SHORT_PATIENCE))
        .await
        .unwrap();
    let claim = engine.claim(A).await.unwrap();
    engine.append(append(claim.epoch, 0, b"1")).await.unwrap();
    let end = "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE usename = 'keeper'";
    let change = async |password: &str| {
        let change = format!("ALTER ROLE keeper PASSWORD '{password}'");
        sql(&server, "public", &change).await;
        sql(&server, "public", end).await;
    };
    // A program that was let in before waits until it is let in again.
    change("other").await;
    let away = engine.append(append(claim.epoch, 1, b"2")).await;
    let away = away.unwrap_err();
    assert!(
        matches!(away, Error::Unreachable { .. })
            && away.to_string().contains("password authentication failed"),
        "{away}"
    );
    change("right").await;
    engine.append(append(claim.epoch, 1, b"2")).await.unwrap();
    // The file is read again.
    std::fs::write(&file, "newer\n").unwrap();
    change("newer").await;
    engine.append(append(claim.epoch, 2, b"3")).await.unwrap();
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn a_changed_event_is_named_and_never_given() {
    let engine = needs!(store("changed").await);
    let claim = engine.claim(A).await.unwrap();
    for seq in 0..3 {
        engine
            .append(append(claim.epoch, seq, b"said"))
            .await
            .unwrap();
    }
    let server = Server::shared().unwrap();
    sql(
        server,
        "changed",
        "UPDATE unisono_events SET payload = 'sad' WHERE seq = 2",
    )
    .await;
    let error = engine.read(A, 1, 9).await.unwrap_err().to_string();
    assert!(
        error.contains("event 2 of session") && error.contains("checksum"),
        "{error}"
    );
    let checkup = unisono_store::check(&engine).await.unwrap();
    let found: Vec<String> = checkup
        .findings
        .iter()
        .map(|one| one.record.to_string())
        .collect();
    assert_eq!(
        (checkup.sessions, checkup.events),
        (1, 2),
        "the others are whole"
    );
    assert_eq!(found, [format!("event 2 of session {A}")]);
    sql(
        server,
        "changed",
        "DELETE FROM unisono_events WHERE seq = 2",
    )
    .await;
    let error = engine.read(A, 1, 9).await.unwrap_err().to_string();
    assert!(
        error.contains("event 2 of session") && error.contains("missing"),
        "{error}"
    );
    engine.close().await.unwrap();
}

#[tokio::test(flavor = "multi_thread")]
async fn an_archive_of_a_directory_becomes_the_same_journals_and_back() {
    let engine = needs!(store("moved").await);
    let place = tempfile::tempdir().unwrap();
    let disk = unisono_store::Disk::open(place.path().join("store"))
        .unwrap()
        .disk;
    for n in 1..=5_u128 {
        let session = SessionId::from_u128(n);
        let claim = disk.claim(session).await.unwrap();
        let payloads = (0..n as u8 * 3)
            .map(|byte| vec![byte; 40_000 * n as usize])
            .collect();
        let append = Append::new(session, claim.epoch, 0, payloads);
        disk.append(append).await.unwrap();
    }
    disk.delete_session(Deletion::of_session(SessionId::from_u128(3)))
        .await
        .unwrap();
    let (there, back) = (place.path().join("there"), place.path().join("back"));
    archive::export(&disk, &there).await.unwrap();
    let moved = archive::import(&engine, &there).await.unwrap();
    assert_eq!(moved.sessions, 4);
    let journal = async |engine: &dyn Engine, session| -> Vec<Event> {
        engine.read(session, 1, 99).await.unwrap()
    };
    for info in disk.sessions(None, 9).await.unwrap() {
        let ours = journal(&disk, info.session).await;
        assert!(!ours.is_empty() && ours == journal(&engine, info.session).await);
    }
    archive::export(&engine, &back).await.unwrap();
    let again = unisono_store::Memory::new();
    assert_eq!(
        archive::import(&again, &back).await.unwrap().events,
        moved.events
    );
    engine.close().await.unwrap();
}
