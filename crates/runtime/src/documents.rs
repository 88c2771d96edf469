//! Reads the texts of documents with a limit of time.
//!
//! A hostile file can keep its reader busy for ever, and a thread cannot be stopped. So each document
//! gets its own thread. The thread holds one of a few permits until it ends. A caller waits for it at
//! most until the time limit.

use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot};
use tokio::time::{Instant, timeout_at};
use unisono_context::{Digest, Encoding, Tokens};
use unisono_model::media::document::{self, Error};
use unisono_model::tokenizer::Tokenizer;

/// Maximum number of documents that are read at the same time: each can take much memory.
const READERS: u32 = 2;
/// Maximum number of texts that are kept: a request with a document may be repeated.
const KEPT: usize = 16;

static READER: LazyLock<Reader> = LazyLock::new(|| Reader::new(document::TIME, document::text));

/// The text of a document, or a note if it was not read in time. None: it has no text.
pub(crate) async fn text(digest: Digest, bytes: Arc<[u8]>) -> Option<Arc<str>> {
    READER.text(digest, bytes).await
}

/// The tokens of a text in the encoding that needs most, at most.
pub(crate) async fn tokens(text: Arc<str>) -> Tokens {
    let bytes = Tokens(text.len() as u64);
    let counting = tokio::task::spawn_blocking(move || {
        let counts = Encoding::ALL.into_iter().map(|encoding| {
            let tokenizer = Tokenizer::load(encoding).ok()?;
            Some(tokenizer.count(&text).at_most)
        });
        counts.collect::<Option<Vec<Tokens>>>()?.into_iter().max()
    });
    counting.await.ok().flatten().unwrap_or(bytes)
}

type Read = dyn Fn(&[u8]) -> Result<String, Error> + Send + Sync;

struct Reader {
    /// The maximum time that a caller waits for a document.
    limit: Duration,
    read: Arc<Read>,
    permits: Arc<Semaphore>,
    running: Arc<Running>,
    /// The texts of the newest documents; none: it has no text.
    kept: Mutex<VecDeque<(Digest, Option<Arc<str>>)>>,
}

/// The running readers and their deadlines.
#[derive(Default)]
struct Running(Mutex<BTreeMap<u64, Instant>>);

/// Held by the thread of a reader until it ends.
struct Place {
    number: u64,
    running: Arc<Running>,
    _permit: OwnedSemaphorePermit,
}

impl Drop for Place {
    fn drop(&mut self) {
        lock(&self.running.0).remove(&self.number);
    }
}

impl Running {
    /// Whether all readers are beyond their deadlines.
    fn all_overdue(&self) -> bool {
        let now = Instant::now();
        let running = lock(&self.0);
        running.len() == READERS as usize && running.values().all(|until| *until <= now)
    }

    fn begin(self: &Arc<Self>, until: Instant, permit: OwnedSemaphorePermit) -> Place {
        let mut running = lock(&self.0);
        let number = running.last_key_value().map_or(0, |(last, _)| last + 1);
        running.insert(number, until);
        Place {
            number,
            running: self.clone(),
            _permit: permit,
        }
    }
}

impl Reader {
    fn new(
        limit: Duration,
        read: impl Fn(&[u8]) -> Result<String, Error> + Send + Sync + 'static,
    ) -> Reader {
        Reader {
            limit,
            read: Arc::new(read),
            permits: Arc::new(Semaphore::new(READERS as usize)),
            running: Arc::default(),
            kept: Mutex::default(),
        }
    }

    fn known(&self, digest: &Digest) -> Option<Option<Arc<str>>> {
        let kept = lock(&self.kept);
        let found = kept.iter().find(|(known, _)| known == digest);
        found.map(|(_, text)| text.clone())
    }

    async fn text(&self, digest: Digest, bytes: Arc<[u8]>) -> Option<Arc<str>> {
        if let Some(text) = self.known(&digest) {
            return text;
        }
        let read = self.read(digest, bytes).await;
        let text = match &read {
            Ok(text) => return text.clone(),
            Err(why @ (Error::Slow | Error::Busy)) => Some(format!("[left out: {why}]").into()),
            Err(_) => None,
        };
        if let Err(reason) = &read {
            tracing::debug!(%digest, %reason, "a document has no text for models");
        }
        // A later message may find a free reader.
        if !matches!(read, Err(Error::Busy)) {
            self.keep(digest, text.clone());
        }
        text
    }

    fn keep(&self, digest: Digest, text: Option<Arc<str>>) {
        let mut kept = lock(&self.kept);
        kept.push_front((digest, text));
        kept.truncate(KEPT);
    }

    /// Reads a document. The text may be known when a permit is free.
    async fn read(&self, digest: Digest, bytes: Arc<[u8]>) -> Result<Option<Arc<str>>, Error> {
        if self.running.all_overdue() {
            return Err(Error::Busy);
        }
        let until = Instant::now() + self.limit;
        let permit = timeout_at(until, self.permits.clone().acquire_owned()).await;
        let permit = permit.map_err(|_| Error::Busy)?;
        let permit = permit.map_err(|_| Error::Busy)?;
        if let Some(text) = self.known(&digest) {
            return Ok(text);
        }
        let left = until.saturating_duration_since(Instant::now());
        let place = self.running.begin(until, permit);
        let (sender, answer) = oneshot::channel();
        let read = self.read.clone();
        let thread = std::thread::Builder::new().name("document".to_owned());
        let begun = thread.spawn(move || {
            let text = read(&bytes);
            drop(bytes);
            // Nobody waits any more if it is late.
            let _ = sender.send(text);
            drop(place);
        });
        begun.map_err(|error| Error::Unreadable(error.to_string()))?;
        let answer = timeout_at(until, answer).await;
        let answer = answer.map_err(|_| late(left, self.limit))?;
        let broke = |_| Error::Unreadable("it broke the reader".to_owned());
        let text: Arc<str> = answer.map_err(broke)??.into();
        self.keep(digest, Some(text.clone()));
        Ok(Some(text))
    }
}

/// Why a document has no text after the time that was left for its reader. If others took most of the
/// time, it may be read in time later.
fn late(left: Duration, limit: Duration) -> Error {
    match left < limit / 2 {
        true => Error::Busy,
        false => Error::Slow,
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc;

    use tokio::time;

    use super::*;

    const SLOW: &str = "[left out: it was not read within 20 s]";

    async fn text(reader: &Reader, content: &str) -> Option<Arc<str>> {
        let bytes: Arc<[u8]> = content.as_bytes().into();
        reader.text(Digest::of_bytes(&bytes), bytes).await
    }

    #[test]
    fn a_document_that_waited_for_others_is_not_slow() {
        let limit = document::TIME;
        for (left, expected) in [
            (limit, Error::Slow),
            (limit / 2, Error::Slow),
            (limit / 3, Error::Busy),
            (Duration::ZERO, Error::Busy),
        ] {
            let error = late(left, limit);
            assert_eq!(error.to_string(), expected.to_string(), "{left:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn readers_that_do_not_end_stop_nobody() {
        let (release, blocked) = mpsc::channel::<()>();
        let blocked = Mutex::new(blocked);
        let reader = Reader::new(document::TIME, move |bytes| match bytes {
            b"broken" => panic!("the reader broke"),
            b"encrypted" => Err(Error::Encrypted),
            _ if bytes.starts_with(b"endless") => {
                let _ = lock(&blocked).recv();
                Ok("too late".to_owned())
            }
            _ => Ok(String::from_utf8_lossy(bytes).into_owned()),
        });
        let began = Instant::now();
        assert_eq!(text(&reader, "endless 1").await.as_deref(), Some(SLOW));
        assert_eq!(Instant::now() - began, document::TIME);

        // The other permit is free.
        time::resume();
        assert_eq!(text(&reader, "plan").await.as_deref(), Some("plan"));
        assert_eq!(text(&reader, "broken").await, None);
        assert_eq!(text(&reader, "encrypted").await, None);

        // The thread of the last one has ended.
        drop(reader.permits.acquire().await.unwrap());

        // Now all permits are taken for ever: known texts are there, others are notes at once.
        time::pause();
        assert_eq!(text(&reader, "endless 2").await.as_deref(), Some(SLOW));
        let began = Instant::now();
        let busy = text(&reader, "other").await.unwrap();
        assert!(busy.starts_with("[left out: other documents"), "{busy}");
        assert_eq!(text(&reader, "plan").await.as_deref(), Some("plan"));
        assert_eq!(text(&reader, "endless 1").await.as_deref(), Some(SLOW));
        assert_eq!(Instant::now(), began);

        // They end: others are read again.
        drop(release);
        let both = reader.permits.acquire_many(READERS).await.unwrap();
        drop(both);
        assert!(lock(&reader.running.0).is_empty());
        time::resume();
        assert_eq!(text(&reader, "other").await.as_deref(), Some("other"));
    }
}
