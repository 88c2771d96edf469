//! Counts of messages that were made for display.
//!
//! A turn writes counts to the journal, a view writes nothing. Without these counts, each view of a
//! long conversation that had no turn yet would count it anew.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};

use unisono_context::message::Message;
use unisono_context::tokens::Count;
use unisono_context::{Digest, Encoding, MessageId};

use super::{Result, tokenizer};

/// Maximum number of kept counts.
const MOST: usize = 50_000;

/// The counts by encoding and content.
static KNOWN: Mutex<Known> = Mutex::new(Known(BTreeMap::new()));

#[derive(Default)]
struct Known(BTreeMap<(Encoding, Digest), Count>);

impl Known {
    /// Keeps counts; all others are dropped if there is no room beside them.
    fn keep(&mut self, encoding: Encoding, new: &[(Digest, Count)]) {
        if self.0.len() + new.len() > MOST {
            self.0.clear();
        }
        let new = new.iter().take(MOST);
        let keyed = new.map(|(content, count)| ((encoding, *content), *count));
        self.0.extend(keyed);
    }

    fn get(&self, encoding: Encoding, message: &Message) -> Option<Count> {
        self.0.get(&(encoding, message.content_digest)).copied()
    }
}

/// The counts of messages in an encoding. The tokenizer is loaded only if one is not known.
pub(super) fn counts(
    messages: &[&Arc<Message>],
    encoding: Encoding,
) -> Result<Vec<(MessageId, Count)>> {
    let mut found: Vec<Option<Count>> = {
        let known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        let counts = messages.iter().map(|message| known.get(encoding, message));
        counts.collect()
    };
    let unknown: Vec<usize> = (0..found.len()).filter(|at| found[*at].is_none()).collect();
    if !unknown.is_empty() {
        let texts = unknown.iter().map(|at| messages[*at].countable_text());
        let counted = tokenizer(encoding)?.count_many(&texts.collect::<Vec<_>>());
        let mut new = Vec::with_capacity(counted.len());
        for (at, text) in unknown.into_iter().zip(counted) {
            let count = text + messages[at].tokens_beside_text();
            found[at] = Some(count);
            new.push((messages[at].content_digest, count));
        }
        let mut known = KNOWN.lock().unwrap_or_else(PoisonError::into_inner);
        known.keep(encoding, &new);
    }
    let ids = messages.iter().map(|message| message.id);
    Ok(ids.zip(found.into_iter().flatten()).collect())
}

#[cfg(test)]
mod tests {
    use unisono_context::Tokens;

    use super::*;

    #[test]
    fn the_number_of_kept_counts_is_bounded() {
        let count = |n: usize| Count {
            tokens: Tokens(n as u64),
            at_most: Tokens(n as u64),
        };
        let digest = |n: usize| Digest::of_bytes(&n.to_be_bytes());
        let counts = |range: std::ops::Range<usize>| -> Vec<(Digest, Count)> {
            range.map(|n| (digest(n), count(n))).collect()
        };
        let mut known = Known::default();
        known.keep(Encoding::O200kBase, &counts(0..MOST - 1));
        known.keep(Encoding::Cl100kBase, &counts(0..1));
        assert_eq!(known.0.len(), MOST);
        let kept = |known: &Known, n| known.0.get(&(Encoding::O200kBase, digest(n))).copied();
        assert_eq!(kept(&known, 7), Some(count(7)));
        known.keep(Encoding::O200kBase, &counts(MOST..MOST + 1));
        assert_eq!((known.0.len(), kept(&known, 7)), (1, None));
        known.keep(Encoding::O200kBase, &counts(0..MOST + 9));
        assert_eq!(known.0.len(), MOST);
    }
}
