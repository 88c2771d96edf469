//! Exact token counts through tiktoken-rs, made safe for any text.
//!
//! An encoding's tables take a fraction of a second to build: [`Tokenizer::load`] builds them
//! once per process and blocks meanwhile, so it belongs on a thread of its own. A count blocks
//! too. Special tokens in a text are plain text.
//!
//! Long texts are cut where the encoding's own splitting pattern is certain to cut (see
//! `chunk`), so that the sum equals the count of the whole. A chunk on which the tokenizer
//! panics is estimated instead of failing: a quarter of its bytes, flagged approximate.

mod chunk;

use std::num::NonZero;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::thread;

use tiktoken_rs::CoreBPE;
use unisono_context::tokens::{Count, Encoding};

/// Texts that together have fewer bytes are counted on the calling thread: below this, starting
/// threads costs more than it saves.
const PARALLEL_FROM_BYTES: usize = 64 * 1024;

/// Work is handed to threads in batches of about this many bytes.
const BATCH_BYTES: usize = 16 * 1024;

/// Why an encoding is not available.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// Its tables could not be built.
    #[error("could not load the encoding {}: {reason}", .encoding.name())]
    Load {
        /// The encoding.
        encoding: Encoding,
        /// What tiktoken-rs said.
        reason: String,
    },
}

/// A loaded encoding. Cheap to copy; all copies share the tables.
#[derive(Clone, Copy)]
pub struct Tokenizer {
    bpe: &'static CoreBPE,
    encoding: Encoding,
}

impl Tokenizer {
    /// Loads an encoding, or returns the one already loaded. Blocks for up to about half a
    /// second the first time.
    ///
    /// # Errors
    /// When the encoding's tables cannot be built; every later call then says the same.
    pub fn load(encoding: Encoding) -> Result<Tokenizer, Error> {
        static LOADED: [OnceLock<Result<CoreBPE, Error>>; Encoding::ALL.len()] =
            [const { OnceLock::new() }; Encoding::ALL.len()];
        LOADED[encoding.index()]
            .get_or_init(|| build(encoding))
            .as_ref()
            .map(|bpe| Tokenizer { bpe, encoding })
            .map_err(Error::clone)
    }

    /// The encoding it counts in.
    pub const fn encoding(&self) -> Encoding {
        self.encoding
    }

    /// Counts one text. A long one is counted on several threads.
    pub fn count(&self, text: &str) -> Count {
        if text.len() < PARALLEL_FROM_BYTES {
            return self.count_here(text);
        }
        self.count_many(&[text]).into_iter().sum()
    }

    /// Counts each text, in order, on as many threads as the machine offers when there is
    /// enough to count.
    pub fn count_many<S: AsRef<str> + Sync>(&self, texts: &[S]) -> Vec<Count> {
        let bytes: usize = texts.iter().map(|text| text.as_ref().len()).sum();
        let threads = if bytes < PARALLEL_FROM_BYTES {
            1
        } else {
            cores()
        };
        if threads < 2 {
            return texts
                .iter()
                .map(|text| self.count_here(text.as_ref()))
                .collect();
        }
        self.count_on(threads, texts)
    }

    /// Counts on the calling thread.
    fn count_here(&self, text: &str) -> Count {
        chunk::chunks(text)
            .map(|chunk| self.count_chunk(chunk))
            .sum()
    }

    fn count_chunk(&self, chunk: &str) -> Count {
        guarded(chunk, |text| self.bpe.count_ordinary(text))
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
            let mut counted = Vec::new();
            while let Some(batch) = batches.get(next.fetch_add(1, Ordering::Relaxed)) {
                counted.extend(batch.iter().map(|&(i, chunk)| (i, self.count_chunk(chunk))));
            }
            counted
        };
        let mut totals = vec![Count::default(); texts.len()];
        thread::scope(|scope| {
            // A thread that could not be started leaves its share to the others.
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

/// How many threads the machine runs at once. Asking takes several file reads, so once.
fn cores() -> usize {
    static CORES: OnceLock<usize> = OnceLock::new();
    *CORES.get_or_init(|| thread::available_parallelism().map_or(1, NonZero::get))
}

fn build(encoding: Encoding) -> Result<CoreBPE, Error> {
    match encoding {
        Encoding::O200kBase => tiktoken_rs::o200k_base(),
        Encoding::Cl100kBase => tiktoken_rs::cl100k_base(),
    }
    .map_err(|error| Error::Load {
        encoding,
        reason: error.to_string(),
    })
}

/// Runs a count that may panic; the panic becomes an estimate.
///
/// Inputs known to panic (endless runs of white space) are cut apart before they get here, so
/// this is the last line of defence and leaves the process's panic hook alone.
fn guarded(text: &str, count: impl FnOnce(&str) -> usize) -> Count {
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
mod tests {
    use super::*;

    fn o200k() -> Tokenizer {
        Tokenizer::load(Encoding::O200kBase).unwrap()
    }

    #[test]
    fn counts_like_the_reference() {
        for encoding in Encoding::ALL {
            let tokenizer = Tokenizer::load(encoding).unwrap();
            for text in [
                "",
                "hello world",
                "naïve café 日本語 🦀",
                "<|endoftext|>",
                "a\r\n\tb  c",
            ] {
                let expected = Count::exact(tokenizer.bpe.encode_ordinary(text).len() as u64);
                assert_eq!(tokenizer.count(text), expected, "{text:?}");
            }
        }
        assert_eq!(o200k().count("hello world"), Count::exact(2));
    }

    #[test]
    fn a_long_text_counts_like_its_whole() {
        let paragraph = "The billing job (v2.3) runs at 02:30 UTC; it wrote 1,204 rows.\n\
                         - retry: 3x\n\n    let total = rows.iter().sum::<u64>();\n";
        let text = paragraph.repeat(3_000);
        assert!(text.len() > 5 * chunk::MAX_BYTES / 2);
        let whole = o200k().bpe.encode_ordinary(&text).len() as u64;
        assert_eq!(o200k().count(&text), Count::exact(whole));
    }

    #[test]
    fn many_texts_keep_their_order() {
        let texts: Vec<String> = (0..2_000)
            .map(|i| format!("message {i} {}", "x ".repeat(i % 90)))
            .collect();
        let expected: Vec<Count> = texts.iter().map(|text| o200k().count_here(text)).collect();
        assert_eq!(o200k().count_many(&texts), expected);
        assert_eq!(o200k().count_on(2, &texts), expected);
    }

    #[test]
    fn hostile_texts_are_bounded() {
        let hostile = [
            " ".repeat(1_000_000),
            "a".repeat(1_000_000),
            "A".repeat(300_000),
            "\n".repeat(300_000),
            "\u{3000}".repeat(200_000),
            "é".repeat(300_000),
            "🦀".repeat(100_000),
            "!".repeat(300_000),
            "7".repeat(300_000),
            " a".repeat(100_000),
        ];
        for text in hostile {
            let count = o200k().count(&text);
            assert!(count.tokens.0 > 0 && count.at_most.0 <= text.len() as u64);
            assert!(!count.is_approximate(), "{:?}", text.chars().next());
        }
    }

    #[test]
    fn a_panic_becomes_an_estimate() {
        let count = guarded("nine byte", |_| std::panic::resume_unwind(Box::new("boom")));
        assert_eq!(count, Count::approximate(9));
    }
}
