//! The length of a model's requests, in its local encoding: the prefix is counted once for all that
//! share it, the rest only if it matters.

use std::sync::{Arc, Mutex, PoisonError};

use tokio::sync::OnceCell;
use tokio::task::spawn_blocking;
use unisono_context::tokens::Count;
use unisono_context::{Digest, Encoding};

use crate::catalogue::Entry;
use crate::dialect::Dialect;
use crate::estimate::{Attachments, Estimator, Overheads};
use crate::language::Request;
use crate::language::recent::Recent;
use crate::tokenizer::Tokenizer;

/// The number of prefixes with a cached length.
const PREFIXES: usize = 64;
/// A tail of at most 1/50 of its prefix is estimated: the error does not matter.
const SMALL: u64 = 50;
/// Texts up to this length are counted faster here than on another thread.
const FEW_BYTES: usize = 1024;

type Part = fn(&Estimator<'_>, &Request) -> Count;

#[derive(Debug)]
pub(super) struct Sizes {
    encoding: Encoding,
    overheads: Overheads,
    attachments: Attachments,
    prefixes: Mutex<Recent<Digest, Arc<OnceCell<Count>>>>,
}

impl Sizes {
    pub(super) fn new(entry: &Entry, dialect: Dialect) -> Sizes {
        Sizes {
            encoding: entry.encoding,
            overheads: Overheads::for_dialect(dialect, entry.per_message()),
            attachments: Attachments::for_dialect(dialect, entry.accepts),
            prefixes: Mutex::new(Recent::new(PREFIXES)),
        }
    }

    /// The tokens of a request's prefix.
    pub(super) async fn prefix(&self, request: &Request) -> Count {
        let digest = request.prefix.digest();
        let cell = {
            let mut prefixes = self.prefixes.lock().unwrap_or_else(PoisonError::into_inner);
            prefixes.get_or(digest, Arc::default)
        };
        let bytes = request.prefix.bytes().len();
        let count = || self.count(request, bytes, |by, request| by.prefix(&request.shared()));
        *cell.get_or_init(count).await
    }

    /// The tokens of the tail, estimated from its bytes and from the files in it.
    pub(super) fn guess(&self, request: &Request, tail: &[u8]) -> Count {
        let (tokens, written) = self.attachments.in_exchange(&request.exchange);
        let texts = (tail.len() as u64).saturating_sub(written);
        Count::approximate(texts) + Count::exact(tokens.0)
    }

    /// The tokens of the tail: the estimate if it is small relative to its prefix, an exact count
    /// if `wanted`, else `None`.
    pub(super) async fn tail(
        &self,
        request: &Request,
        prefix: Count,
        guess: Count,
        wanted: bool,
    ) -> Option<Count> {
        if guess.tokens.times(SMALL) <= prefix.tokens {
            return Some(guess);
        }
        if !wanted {
            return None;
        }
        let bytes = usize::try_from(guess.at_most.0).unwrap_or(usize::MAX);
        Some(
            self.count(request, bytes, |by, request| by.tail(request))
                .await,
        )
    }

    /// Counts a part of a request with this many bytes: a few directly, more on a separate thread.
    /// If that fails, the prefix's bytes give an estimate.
    async fn count(&self, request: &Request, bytes: usize, part: Part) -> Count {
        let (encoding, overheads) = (self.encoding, self.overheads);
        let attachments = self.attachments;
        let counted = move |tokenizer: Option<&Tokenizer>, request: &Request| {
            let count = |text: &str| match tokenizer {
                Some(tokenizer) => tokenizer.count(text),
                None => Count::approximate(text.len() as u64),
            };
            let estimator = Estimator {
                encoding,
                overheads,
                attachments,
                count: &count,
            };
            part(&estimator, request)
        };
        if let Some(tokenizer) = Tokenizer::loaded(encoding).filter(|_| bytes <= FEW_BYTES) {
            return counted(Some(&tokenizer), request);
        }
        let shared = request.clone();
        let counting = spawn_blocking(move || {
            let tokenizer = Tokenizer::load(encoding).ok();
            counted(tokenizer.as_ref(), &shared)
        });
        let guess = || Count::approximate(request.prefix.bytes().len() as u64);
        counting.await.unwrap_or_else(|_| guess())
    }
}

#[cfg(test)]
mod tests {
    //! Tests of which sizes are counted, which are estimated, and which are omitted.

    use super::*;
    use crate::catalogue::Catalogue;
    use crate::fixture;

    #[tokio::test]
    async fn a_tail_is_counted_only_if_it_matters() {
        let entry = Catalogue::built_in().unwrap().get(None, "gpt-4o").unwrap();
        let sizes = Sizes::new(&entry, Dialect::OpenAiChat);
        let request = fixture::request();
        let guess = sizes.guess(&request, &[b'x'; 400]);
        assert_eq!((guess.tokens.0, guess.at_most.0), (100, 400));
        for (prefix, wanted, tokens) in [
            (5_000, false, Some(100)),
            (5_000, true, Some(100)),
            (4_999, false, None),
            // The persona, the task, the phrases around them and the overhead of a message.
            (4_999, true, Some(46)),
        ] {
            let prefix = Count::exact(prefix);
            let tail = sizes.tail(&request, prefix, guess, wanted).await;
            assert_eq!(
                tail.map(|tail| tail.tokens.0),
                tokens,
                "{prefix:?} {wanted}"
            );
        }
    }

    #[tokio::test]
    async fn a_prefix_is_counted_once() {
        let entry = Catalogue::built_in().unwrap().get(None, "gpt-4o").unwrap();
        let sizes = Sizes::new(&entry, Dialect::OpenAiChat);
        let request = fixture::request();
        let counted = sizes.prefix(&request).await;
        assert_eq!(
            counted,
            Count::exact(3),
            "what starts a reply, and no context"
        );
        // The same bytes are the same prefix, whatever the rest of the request is.
        let other = Request {
            output_schema: Some("{\"type\":\"object\"}".into()),
            ..request
        };
        assert_eq!(sizes.prefix(&other).await, counted);
    }
}
