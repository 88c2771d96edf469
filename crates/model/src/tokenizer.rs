//! Exact token counts with the tokens of tiktoken-rs, made safe for any text.
//!
//! An encoding's tables take some milliseconds to build: [`Tokenizer::load`] builds them once per
//! process and blocks meanwhile, so it belongs on a separate thread. A count blocks too. Special
//! tokens in a text are plain text.
//!
//! Counting is done here and not by tiktoken-rs, whose pattern may fail on a text and whose threads
//! wait for each other (see `split`): a text is split into pieces (`split`), and the bytes of each
//! are merged into tokens (`merge`, `vocabulary`). The tests compare the counts with those of
//! tiktoken-rs.
//!
//! Long texts are cut at positions where the encoding's own splitting pattern certainly cuts (see
//! `chunk`), so that the sum equals the count of the whole. A chunk on which the tokenizer panics
//! is estimated instead of failing: a quarter of its bytes, flagged approximate.

mod chunk;
mod merge;
mod split;
mod vocabulary;

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, OnceLock, PoisonError};
use std::thread;

use regex_automata::hybrid::dfa::Cache;
use unisono_context::tokens::{Count, Encoding};

use merge::Merger;
use split::Splitter;
use vocabulary::Vocabulary;

/// Shorter texts are counted on the calling thread: for them starting threads takes longer than it
/// saves.
const PARALLEL_FROM_BYTES: usize = 64 * 1024;

/// Work is handed to threads in batches of about this many bytes.
const BATCH_BYTES: usize = 16 * 1024;

/// The number of scratch spaces kept for each encoding.
const SPARE_SCRATCH: usize = 8;

/// Why an encoding is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Its tables could not be built.
    #[error("could not load the encoding {}: {reason}", .encoding.name())]
    Load {
        /// The encoding.
        encoding: Encoding,
        /// The reason.
        reason: String,
    },
}

/// The tables of each requested encoding.
static LOADED: [OnceLock<Result<Tables, Error>>; Encoding::ALL.len()] =
    [const { OnceLock::new() }; Encoding::ALL.len()];

/// A loaded encoding. Cheap to copy; all copies share the tables.
#[derive(Clone, Copy)]
pub struct Tokenizer {
    tables: &'static Tables,
    encoding: Encoding,
}

struct Tables {
    splitter: Splitter,
    vocabulary: Vocabulary,
    /// Reused by later counts: an automaton that has seen text is faster.
    spare: Mutex<Vec<Scratch>>,
}

/// The scratch space of a count.
struct Scratch {
    cache: Cache,
    merger: Merger,
}

impl Tokenizer {
    /// Loads an encoding, or returns the one already loaded. Blocks for some milliseconds the first
    /// time.
    ///
    /// # Errors
    /// The encoding's tables cannot be built; every later call returns the same error.
    pub fn load(encoding: Encoding) -> Result<Tokenizer, Error> {
        LOADED[encoding.index()]
            .get_or_init(|| Tables::build(encoding))
            .as_ref()
            .map(|tables| Tokenizer { tables, encoding })
            .map_err(Error::clone)
    }

    /// The tokenizer, if it is loaded already. Never blocks.
    pub fn loaded(encoding: Encoding) -> Option<Tokenizer> {
        let tables = LOADED[encoding.index()].get()?.as_ref().ok()?;
        Some(Tokenizer { tables, encoding })
    }

    /// The encoding.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Counts one text; a long one on several threads.
    pub fn count(&self, text: &str) -> Count {
        if text.len() < PARALLEL_FROM_BYTES {
            return self.count_here(text);
        }
        self.count_many(&[text]).into_iter().sum()
    }

    /// Counts each text, in order; long texts on as many threads as the machine has.
    pub fn count_many<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Vec<Count> {
        let bytes: usize = texts.iter().map(|text| text.as_ref().len()).sum();
        let threads = if bytes < PARALLEL_FROM_BYTES {
            1
        } else {
            cores()
        };
        if threads < 2 {
            let mut scratch = self.tables.scratch();
            let mut count = |text| self.tables.count(&mut scratch, text);
            let counts = texts.iter().map(|text| count(text.as_ref())).collect();
            self.tables.recycle(scratch);
            return counts;
        }
        self.count_on(threads, texts)
    }

    /// Counts on the calling thread.
    fn count_here(&self, text: &str) -> Count {
        let mut scratch = self.tables.scratch();
        let count = self.tables.count(&mut scratch, text);
        self.tables.recycle(scratch);
        count
    }

    fn count_on<S: AsRef<str> + Sync>(&self, threads: usize, texts: &[S]) -> Vec<Count> {
        let jobs: Vec<(usize, &str)> = texts
            .iter()
            .enumerate()
            .flat_map(|(index, text)| chunk::chunks(text.as_ref()).map(move |c| (index, c)))
            .collect();
        let batches = batches(&jobs);
        let next = AtomicUsize::new(0);
        let work = || {
            let (mut counted, mut scratch) = (Vec::new(), self.tables.scratch());
            let mut count = |chunk| self.tables.count_chunk(&mut scratch, chunk);
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                counted.extend(batch.iter().map(|&(i, chunk)| (i, count(chunk))));
            }
            self.tables.recycle(scratch);
            counted
        };
        let mut totals = vec![Count::default(); texts.len()];
        thread::scope(|scope| {
            // If a thread cannot be started, the others do its share.
            let helpers: Vec<_> = (1..threads)
                .filter_map(|_| thread::Builder::new().spawn_scoped(scope, work).ok())
                .collect();
            let mut add = |counted: Vec<(usize, Count)>| {
                for (index, count) in counted {
                    totals[index] += count;
                }
            };
            add(work());
            for helper in helpers {
                match helper.join() {
                    Ok(counted) => add(counted),
                    Err(panic) => std::panic::resume_unwind(panic),
                }
            }
        });
        totals
    }
}

impl std::fmt::Debug for Tokenizer {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Tokenizer({})", self.encoding.name())
    }
}

/// The number of parallel threads of the machine. Cached, since the query reads several files.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

impl Tables {
    fn build(encoding: Encoding) -> Result<Tables, Error> {
        let load = |reason| Error::Load { encoding, reason };
        let damaged = || load("its built-in table of tokens is damaged".to_owned());
        Ok(Tables {
            splitter: Splitter::new(encoding).map_err(load)?,
            vocabulary: Vocabulary::load(encoding).ok_or_else(damaged)?,
            spare: Mutex::default(),
        })
    }

    fn count(&self, scratch: &mut Scratch, text: &str) -> Count {
        chunk::chunks(text)
            .map(|chunk| self.count_chunk(scratch, chunk))
            .sum()
    }

    fn count_chunk(&self, scratch: &mut Scratch, chunk: &str) -> Count {
        let count = catching_panics(chunk, |text| {
            let Scratch { cache, merger } = scratch;
            let pieces = self.splitter.pieces(cache, text);
            pieces
                .map(|piece| merger.count(&self.vocabulary, piece.as_bytes()))
                .sum()
        });
        if count.is_approximate() {
            *scratch = self.new_scratch();
        }
        count
    }

    fn scratch(&self) -> Scratch {
        let spare = self.spare().pop();
        spare.unwrap_or_else(|| self.new_scratch())
    }

    fn new_scratch(&self) -> Scratch {
        Scratch {
            cache: self.splitter.cache(),
            merger: Merger::default(),
        }
    }

    fn recycle(&self, mut scratch: Scratch) {
        scratch.merger.shrink();
        let mut spare = self.spare();
        if spare.len() < SPARE_SCRATCH {
            spare.push(scratch);
        }
    }

    /// The spare scratch spaces. Changes of them are atomic, so a poisoned lock is harmless.
    fn spare(&self) -> MutexGuard<'_, Vec<Scratch>> {
        self.spare.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Runs a count and turns a panic into an estimate. No input is known to panic: this is the last
/// line of defence and does not change the process's panic hook.
fn catching_panics(text: &str, count: impl FnOnce(&str) -> usize) -> Count {
    match catch_unwind(AssertUnwindSafe(|| count(text))) {
        Ok(tokens) => Count::exact(tokens as u64),
        Err(_) => Count::approximate(text.len() as u64),
    }
}

/// Splits jobs into consecutive batches of about [`BATCH_BYTES`].
fn batches<'j, 't>(jobs: &'j [(usize, &'t str)]) -> Vec<&'j [(usize, &'t str)]> {
    let mut batches = Vec::new();
    let (mut start, mut bytes) = (0, 0);
    for (index, (_, chunk)) in jobs.iter().enumerate() {
        bytes += chunk.len();
        if bytes >= BATCH_BYTES {
            batches.push(&jobs[start..=index]);
            (start, bytes) = (index + 1, 0);
        }
    }
    if start < jobs.len() {
        batches.push(&jobs[start..]);
    }
    batches
}

#[cfg(test)]
mod tests;
