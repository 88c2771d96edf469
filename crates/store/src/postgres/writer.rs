//! A task that appends. The appends that arrive while a statement runs are combined in the next one.

use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::sync::{Arc, PoisonError, RwLock};
use std::time::Duration;

use tokio::sync::{Mutex, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::{Instant, sleep, timeout};
use tokio_postgres::types::ToSql;
use uuid::Uuid;

use super::batch::{self, SessionRow, UnansweredAppend, checksum};
use super::error_kind::{ErrorKind, failed, refused_write};
use super::link::{Link, Session};
use super::write_gate::WriteGate;
use crate::engine::Append;
use crate::error::{Error, Result};

/// Largest number of queued appends.
const QUEUE_MAX: usize = 4_096;
/// The maximum number of times that other tasks run before the next statement.
const GATHER_ROUNDS: u32 = 8;
/// A statement without an answer for this long is abandoned, and its connection closed.
const STUCK_AFTER: Duration = Duration::from_secs(25);
/// The pause before a statement that was undone is sent again.
const AGAIN: Duration = Duration::from_millis(10);

/// Updates each session that is as its writer expects, and inserts the events of those. The time is
/// computed once, not for each session: `extract` computes with decimal numbers. The answer is one row,
/// because both sides spend more time on a row than on an element of an array. The server reads arrays in
/// a list of columns as it goes; it copies those in `FROM` first, and payloads above its `work_mem` into a
/// temporary file.
const APPEND: &str = "\
WITH wanted AS (
    SELECT unnest($1::uuid[]) AS session, unnest($2::bigint[]) AS epoch,
        unnest($3::bigint[]) AS expected_seq, unnest($4::bigint[]) AS events,
        unnest($5::bigint[]) AS bytes
), moved AS (
    UPDATE unisono_sessions AS known
    SET last_seq = known.last_seq + wanted.events,
        payload_bytes = known.payload_bytes + wanted.bytes,
        updated_unix_ms = (SELECT (extract(epoch FROM clock_timestamp()) * 1000)::bigint)
    FROM wanted
    WHERE known.session = wanted.session AND known.epoch = wanted.epoch
        AND known.last_seq = wanted.expected_seq AND NOT known.deleted
    RETURNING known.session
), written AS (
    INSERT INTO unisono_events (session, seq, checksum, payload)
    SELECT event.session, event.seq, event.checksum, event.payload
    FROM (SELECT unnest($6::uuid[]) AS session, unnest($7::bigint[]) AS seq,
              unnest($8::bigint[]) AS checksum, unnest($9::bytea[]) AS payload) AS event
    JOIN moved ON moved.session = event.session
)
SELECT array_agg(session) FROM moved";

const FOUND: &str = "\
SELECT session, CASE WHEN deleted THEN 0 ELSE epoch END, last_seq
FROM unisono_sessions WHERE session = ANY($1)";

const CHECKSUMS: &str = "\
SELECT checksum FROM unisono_events
WHERE session = $1 AND seq > $2 AND seq <= $3 ORDER BY seq";

/// A committed append: the number of its last event, and its payloads.
pub(super) struct Written {
    pub(super) last: u64,
    pub(super) payloads: Vec<Vec<u8>>,
}

/// An append, and the caller that waits for it.
pub(super) struct Job {
    append: Append,
    reply: oneshot::Sender<Result<Written>>,
    /// When the append fails if the database is still unavailable.
    until: Instant,
    /// Number of statements in which it was sent.
    sent: u32,
    /// Whether it is sent alone, because a statement with it was refused or undone.
    is_alone: bool,
}

impl Job {
    pub(super) fn new(
        append: Append,
        patience: Duration,
    ) -> (Job, oneshot::Receiver<Result<Written>>) {
        let (reply, answer) = oneshot::channel();
        let job = Job {
            append,
            reply,
            until: Instant::now() + patience,
            sent: 0,
            is_alone: false,
        };
        (job, answer)
    }

    fn events(&self) -> impl Iterator<Item = (u64, &[u8])> {
        let first = self.append.expected_seq.saturating_add(1);
        let payloads = self.append.payloads.iter().map(Vec::as_slice);
        (0..).map(move |n| first.saturating_add(n)).zip(payloads)
    }

    fn checksums(&self) -> Vec<i64> {
        let session = self.append.session;
        let events = self.events();
        events
            .map(|(seq, payload)| checksum(session, seq, payload))
            .collect()
    }

    fn answer(self, result: Result<u64>) {
        let payloads = self.append.payloads;
        // The caller may no longer be waiting; the write is not undone.
        let _ = self
            .reply
            .send(result.map(|last| Written { last, payloads }));
    }

    fn fail(self, error: &Error) {
        self.answer(Err(match error {
            Error::Unreachable { reason } => Error::Unreachable {
                reason: reason.clone(),
            },
            error => Error::Database {
                reason: error.to_string(),
            },
        }));
    }
}

/// The task, and its queue.
pub(super) struct Writer {
    jobs: RwLock<Option<mpsc::Sender<Job>>>,
    task: Mutex<Option<JoinHandle<()>>>,
}

impl Writer {
    pub(super) fn start(link: Link, gate: Arc<WriteGate>) -> Writer {
        let (jobs, asked) = mpsc::channel(QUEUE_MAX);
        Writer {
            jobs: RwLock::new(Some(jobs)),
            task: Mutex::new(Some(tokio::spawn(run(link, gate, asked)))),
        }
    }

    /// The queue, until the writer is closed.
    pub(super) fn queue(&self) -> Result<mpsc::Sender<Job>> {
        let jobs = self.jobs.read().unwrap_or_else(PoisonError::into_inner);
        jobs.clone().ok_or(Error::Closed)
    }

    /// Ends the task when all queued appends are answered.
    pub(super) async fn close(&self) {
        *self.jobs.write().unwrap_or_else(PoisonError::into_inner) = None;
        if let Some(task) = self.task.lock().await.take()
            && let Err(error) = task.await
        {
            tracing::error!(%error, "a writer of the store failed");
        }
    }
}

/// Appends until all senders are dropped.
async fn run(link: Link, gate: Arc<WriteGate>, mut jobs: mpsc::Receiver<Job>) {
    let mut queue = VecDeque::new();
    loop {
        if queue.is_empty() {
            match jobs.recv().await {
                Some(job) => queue.push_back(job),
                None => break,
            }
        }
        gather(&mut jobs, &mut queue).await;
        let mut batch = next_batch(&mut queue);
        carry_out(&link, &gate, &mut batch, &mut queue).await;
        put_back(&mut queue, batch);
    }
    link.close().await;
}

/// Takes the appends of the next statement: the first one if it is sent alone, or those before such a one.
fn next_batch(queue: &mut VecDeque<Job>) -> Vec<Job> {
    let alone = queue.iter().position(|job| job.is_alone);
    if alone == Some(0) {
        return queue.pop_front().into_iter().collect();
    }
    let mut later = queue.split_off(alone.unwrap_or(queue.len()));
    let batch = batch::next(queue, |job: &Job| &job.append);
    queue.append(&mut later);
    batch
}

/// Puts back what was not written: before the newer ones, so that the order within a session is kept. One that
/// was sent alone holds up no other session.
fn put_back(queue: &mut VecDeque<Job>, mut batch: Vec<Job>) {
    if let [job] = batch.as_slice()
        && job.is_alone
        && queue
            .iter()
            .all(|other| other.append.session != job.append.session)
    {
        queue.extend(batch.pop());
    }
    for job in batch.into_iter().rev() {
        queue.push_front(job);
    }
}

/// Takes what has arrived, and what the callers of the last statement append next: they run first.
/// A statement of more appends takes less time of both sides.
async fn gather(jobs: &mut mpsc::Receiver<Job>, queue: &mut VecDeque<Job>) {
    for round in 0..GATHER_ROUNDS {
        let before = queue.len();
        while queue.len() < QUEUE_MAX
            && let Ok(job) = jobs.try_recv()
        {
            queue.push_back(job);
        }
        if round > 0 && queue.len() == before {
            break;
        }
        tokio::task::yield_now().await;
    }
}

/// Runs one statement and answers the appends whose result is known; the others stay in the batch.
async fn carry_out(
    link: &Link,
    gate: &Arc<WriteGate>,
    batch: &mut Vec<Job>,
    queue: &mut VecDeque<Job>,
) {
    let until = batch.iter().map(|job| job.until).min();
    let session = match link.session(until.unwrap_or_else(Instant::now)).await {
        Ok(session) => session,
        Err(error) => return give_up(batch, &error),
    };
    let error = match timeout(STUCK_AFTER, append(&session, batch)).await {
        Ok(Ok(())) => return,
        Ok(Err(error)) => error,
        Err(_) => {
            link.abandon(&session).await;
            let reason = format!("it has not answered for {} s", STUCK_AFTER.as_secs());
            return give_up(batch, &Error::Unreachable { reason });
        }
    };
    match ErrorKind::from(&error) {
        ErrorKind::Connection | ErrorKind::LostStatement => {
            link.failed(&session, &error).await;
            give_up(batch, &failed("append events")(error));
        }
        ErrorKind::Again => {
            // One of them may be the cause, such as a large one that takes longer than a timeout.
            batch.iter_mut().for_each(|job| job.is_alone = true);
            let error = failed("append events")(error);
            give_up(batch, &error);
            give_up_alone(queue, &error);
            sleep(AGAIN).await;
        }
        // One of them may be the cause, and the others are not refused with it.
        ErrorKind::Refused if batch.len() > 1 && !is_of_database(&error) => {
            batch.iter_mut().for_each(|job| job.is_alone = true);
        }
        ErrorKind::Refused => {
            let payloads = batch.iter().flat_map(|job| &job.append.payloads);
            let bytes = payloads.map(Vec::len).sum();
            for job in batch.drain(..) {
                let refused = refused_write("append events", &error);
                let answer = Err(link.refused(&session, refused).await);
                gate.record(&answer, bytes);
                job.answer(answer);
            }
        }
    }
}

/// Whether a statement was refused because the database takes no writes.
fn is_of_database(error: &tokio_postgres::Error) -> bool {
    !matches!(
        refused_write("append events", error),
        Error::Database { .. }
    )
}

/// Fails the appends whose time is over.
fn give_up(batch: &mut Vec<Job>, error: &Error) {
    let now = Instant::now();
    let (over, left): (Vec<Job>, Vec<Job>) = batch.drain(..).partition(|job| job.until <= now);
    *batch = left;
    over.into_iter().for_each(|job| job.fail(error));
}

/// Fails the appends whose time is over and that wait to be sent alone: the database may undo all of them, one
/// after the other.
fn give_up_alone(queue: &mut VecDeque<Job>, error: &Error) {
    let now = Instant::now();
    let is_over = |job: &Job| job.is_alone && job.until <= now;
    let (over, left): (VecDeque<Job>, VecDeque<Job>) = queue.drain(..).partition(is_over);
    *queue = left;
    over.into_iter().for_each(|job| job.fail(error));
}

/// Sends one statement. The appends whose result is known are answered.
async fn append(session: &Session, batch: &mut Vec<Job>) -> Result<(), tokio_postgres::Error> {
    let statement = session.statement(APPEND).await?;
    for job in &mut *batch {
        job.sent += 1;
    }
    let moved: BTreeSet<Uuid> = {
        let columns = Columns::new(batch);
        let parameters = columns.parameters();
        let rows = session.client.query(&statement, &parameters).await?;
        let moved = rows
            .first()
            .and_then(|row| row.get::<_, Option<Vec<Uuid>>>(0));
        moved.unwrap_or_default().into_iter().collect()
    };
    let (written, others): (Vec<Job>, Vec<Job>) = batch
        .drain(..)
        .partition(|job| moved.contains(&job.append.session.0));
    *batch = others;
    for job in written {
        let last = job.append.expected_seq + job.append.payloads.len() as u64;
        job.answer(Ok(last));
    }
    settle(session, batch).await
}

/// Determines the results of the appends for which no row was returned.
async fn settle(session: &Session, batch: &mut Vec<Job>) -> Result<(), tokio_postgres::Error> {
    if batch.is_empty() {
        return Ok(());
    }
    let sessions: Vec<Uuid> = batch.iter().map(|job| job.append.session.0).collect();
    let rows = session.query(FOUND, &[&sessions]).await?;
    let known = rows.iter().map(|row| {
        let (epoch, last_seq): (i64, i64) = (row.get(1), row.get(2));
        (row.get::<_, Uuid>(0), (epoch as u64, last_seq as u64))
    });
    let known: BTreeMap<Uuid, (u64, u64)> = known.collect();
    let mut all = Vec::new();
    for job in &*batch {
        let id = job.append.session.0;
        let (epoch, last_seq) = known.get(&id).copied().unwrap_or_default();
        let mut found = SessionRow {
            epoch,
            last_seq,
            checksums: Vec::new(),
        };
        if job.sent > 1
            && let Ok(from) = i64::try_from(job.append.expected_seq)
        {
            let to = from.saturating_add_unsigned(job.append.payloads.len() as u64);
            let rows = session.query(CHECKSUMS, &[&id, &from, &to]).await?;
            found.checksums = rows.iter().map(|row| row.get(0)).collect();
        }
        all.push(found);
    }
    for (job, found) in std::mem::take(batch).into_iter().zip(all) {
        match batch::settle(&job.append, job.sent > 1, &job.checksums(), &found) {
            UnansweredAppend::Written(last) => job.answer(Ok(last)),
            UnansweredAppend::Refused(error) => job.answer(Err(error)),
            UnansweredAppend::Again => batch.push(job),
        }
    }
    Ok(())
}

/// The parameters of [`APPEND`].
#[derive(Default)]
struct Columns<'b> {
    sessions: Vec<Uuid>,
    epochs: Vec<i64>,
    expected: Vec<i64>,
    counts: Vec<i64>,
    bytes: Vec<i64>,
    of: Vec<Uuid>,
    seqs: Vec<i64>,
    checksums: Vec<i64>,
    payloads: Vec<&'b [u8]>,
}

impl<'b> Columns<'b> {
    fn new(batch: &'b [Job]) -> Columns<'b> {
        // A number that no row can have matches no row.
        let number = |number: u64| i64::try_from(number).unwrap_or(-1);
        let mut columns = Columns::default();
        for job in batch {
            let append = &job.append;
            let bytes: usize = append.payloads.iter().map(Vec::len).sum();
            columns.sessions.push(append.session.0);
            columns.epochs.push(number(append.epoch));
            columns.expected.push(number(append.expected_seq));
            columns.counts.push(number(append.payloads.len() as u64));
            columns.bytes.push(number(bytes as u64));
            for (seq, payload) in job.events() {
                columns.of.push(append.session.0);
                columns.seqs.push(number(seq));
                columns
                    .checksums
                    .push(checksum(append.session, seq, payload));
                columns.payloads.push(payload);
            }
        }
        columns
    }

    fn parameters(&self) -> [&(dyn ToSql + Sync); 9] {
        [
            &self.sessions,
            &self.epochs,
            &self.expected,
            &self.counts,
            &self.bytes,
            &self.of,
            &self.seqs,
            &self.checksums,
            &self.payloads,
        ]
    }
}
