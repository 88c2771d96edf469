//! A child process that writes to a store until it is killed, and the checks that its parent makes
//! afterwards.
//!
//! The child is this test binary, started with an environment variable so that it runs only
//! [`main`]. It prints every acknowledged write as `ack <session> <seq>`.

use std::collections::BTreeMap;
use std::io::{BufRead, BufReader, Write};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::Arc;

use unisono_store::{Append, Checkpoint, Disk, Engine, Event, SessionId};

const STORE: &str = "UNISONO_TEST_STORE";
const SESSIONS: &str = "UNISONO_TEST_SESSIONS";
const LAST_ACK: u64 = 100_000;

/// The last acknowledged event of every session.
pub(crate) type Acked = BTreeMap<u128, u64>;

/// Deterministic bytes for an event: mostly small, one in 37 large enough to be split into chunks.
pub(crate) fn payload(session: u128, seq: u64) -> Vec<u8> {
    let mut hasher = blake3::Hasher::new();
    hasher
        .update(&session.to_be_bytes())
        .update(&seq.to_be_bytes());
    let mut reader = hasher.finalize_xof();
    let mut size = [0; 2];
    reader.fill(&mut size);
    let size = u16::from_be_bytes(size) as usize;
    let mut bytes = vec![
        0;
        if seq.is_multiple_of(37) {
            100_000 + size
        } else {
            size % 3000
        }
    ];
    reader.fill(&mut bytes);
    bytes
}

/// Starts a child on a store with this many concurrent sessions.
pub(crate) fn spawn(store: &Path, sessions: u32, env: &[(&str, String)]) -> Child {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["child::main", "--exact", "--nocapture", "--test-threads=1"]);
    command
        .env(STORE, store)
        .env(SESSIONS, sessions.to_string());
    command.envs(env.iter().map(|(name, value)| (*name, value)));
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::null())
        .spawn()
        .unwrap()
}

/// Reads the child's acknowledgements, kills it after `acks` of them, and returns all its output.
pub(crate) fn kill_after(mut child: Child, acks: usize) -> Acked {
    let mut acked = Acked::new();
    let mut count = 0;
    for line in BufReader::new(child.stdout.take().unwrap()).split(b'\n') {
        let line = String::from_utf8(line.unwrap()).unwrap();
        if let Some((session, seq)) = parse(&line) {
            acked.insert(session, seq);
            count += 1;
        }
        if count == acks {
            child.kill().unwrap();
        }
    }
    child.wait().unwrap();
    assert!(
        count >= acks,
        "the child ended by itself after {count} acknowledgements"
    );
    acked
}

/// Waits until a child has written something, and leaves it running.
pub(crate) fn await_ack(child: &mut Child) {
    let out = BufReader::new(child.stdout.as_mut().unwrap());
    assert!(
        out.lines()
            .map_while(Result::ok)
            .any(|line| parse(&line).is_some())
    );
}

/// Waits for a child that ends by itself; returns its acknowledgements and its other lines.
pub(crate) fn finish(child: Child) -> (Acked, Vec<String>) {
    let output = child.wait_with_output().unwrap();
    let text = String::from_utf8(output.stdout).unwrap();
    let acked = text.lines().filter_map(parse).collect();
    (
        acked,
        text.lines()
            .filter(|line| parse(line).is_none())
            .map(str::to_owned)
            .collect(),
    )
}

fn parse(line: &str) -> Option<(u128, u64)> {
    let (session, seq) = line.strip_prefix("ack ")?.split_once(' ')?;
    // A line that was cut off by the kill has no line end.
    Some((session.parse().ok()?, seq.strip_suffix(';')?.parse().ok()?))
}

/// Checks that all acknowledged events exist, and that every session is a prefix of what was
/// written. Returns the number of events.
pub(crate) async fn verify(engine: &dyn Engine, acked: &Acked) -> Result<u64, String> {
    let mut events = 0;
    for (&session, &seq) in acked {
        let last = engine
            .session(SessionId::from_u128(session))
            .await
            .map_err(|e| e.to_string())?;
        let last = last.map_or(0, |info| info.last_seq);
        if last < seq {
            return Err(format!(
                "session {session} was acknowledged to {seq} and goes to {last}"
            ));
        }
        // One read returns a limited number of bytes.
        let mut found = 0;
        loop {
            let read = engine.read(SessionId::from_u128(session), found + 1, usize::MAX);
            let read = read.await.map_err(|e| e.to_string())?;
            if read.is_empty() {
                break;
            }
            for event in read {
                found += 1;
                if event.seq != found || event.payload != payload(session, found) {
                    return Err(format!("event {found} of session {session} is wrong"));
                }
            }
        }
        if found != last {
            return Err(format!("session {session} has {found} events of {last}"));
        }
        events += found;
    }
    Ok(events)
}

/// The code of the child. Does nothing unless the parent started it.
#[test]
fn main() {
    let Ok(store) = std::env::var(STORE) else {
        return;
    };
    let sessions: u32 = std::env::var(SESSIONS).unwrap().parse().unwrap();
    let runtime = tokio::runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .unwrap();
    runtime.block_on(async {
        let opened = match Disk::open(store) {
            Ok(opened) => opened,
            Err(error) => return say(&format!("cannot open: {error}")),
        };
        assert_eq!(opened.salvage, None);
        let disk = Arc::new(opened.disk);
        let writers: Vec<_> = (1..=sessions)
            .map(|n| tokio::spawn(write(Arc::clone(&disk), n.into())))
            .collect();
        if std::env::var_os("UNISONO_TEST_VACUUM").is_some() {
            while let Ok(done) = disk.vacuum(None).await {
                assert!(done.after_bytes > 0);
            }
        }
        for writer in writers {
            if let Err(error) = writer.await.unwrap() {
                say(&format!("error {error}"));
            }
        }
        say(&format!("health {:?}", disk.health()));
        // Reads work after a failed write, including those of sessions that another process wrote.
        let all = match disk.sessions(None, usize::MAX).await {
            Ok(all) => all,
            Err(error) => return say(&format!("cannot list: {error}")),
        };
        for session in all {
            let session = session.session.0.as_u128();
            let read = disk
                .read(SessionId::from_u128(session), 1, usize::MAX)
                .await;
            match read {
                Ok(events) => {
                    let good = |e: &Event| e.payload == payload(session, e.seq);
                    say(&format!(
                        "read {session} {} {}",
                        events.len(),
                        events.iter().all(good)
                    ));
                }
                Err(error) => say(&format!("unreadable {session}: {error}")),
            }
        }
    });
}

async fn write(disk: Arc<Disk>, session: u128) -> Result<(), unisono_store::Error> {
    let id = SessionId::from_u128(session);
    let claim = disk.claim(id).await?;
    let mut seq = claim.last_seq;
    while seq < LAST_ACK {
        let payloads: Vec<_> = (seq + 1..=seq + 1 + seq % 3)
            .map(|seq| payload(session, seq))
            .collect();
        seq = disk
            .append(Append::new(id, claim.epoch, seq, payloads))
            .await?;
        say(&format!("ack {session} {seq};"));
        if seq.is_multiple_of(5) {
            let state = payload(session, seq * 37);
            disk.put_checkpoint(id, claim.epoch, Checkpoint { seq, state })
                .await?;
        }
    }
    Ok(())
}

fn say(line: &str) {
    let mut out = std::io::stdout().lock();
    // The parent may have ended.
    if writeln!(out, "{line}").and_then(|()| out.flush()).is_err() {
        std::process::exit(1);
    }
}
