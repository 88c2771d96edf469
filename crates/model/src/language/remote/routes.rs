//! Which of a provider's machines a request is sent to, so that it finds its prefix there.
//!
//! OpenAI sends requests with the same `prompt_cache_key` to the same machine, up to about 15 a
//! minute ("Prompt caching", developers.openai.com); beyond that they spill over to machines
//! that do not have the prefix. Keys therefore have a number: one that was used more than 15 times
//! within a minute makes way for the next, and the requests of one number share a cache.

use std::collections::{HashMap, VecDeque};
use std::time::Duration;

use unisono_context::Digest;

/// How often one key is used in a minute at most.
const PER_MINUTE: usize = 16;
const MINUTE: Duration = Duration::from_secs(60);
/// Beyond this many keys of one prefix the last one takes all.
const MOST_SHARDS: usize = 256;
/// Prefixes that are remembered.
const MOST_PREFIXES: usize = 256;
/// Hex digits of the prefix's digest in a key, of which OpenAI takes 64 characters.
const DIGITS: usize = 48;

/// The key of one shard of a prefix.
pub(super) fn cache_key(prefix: Digest, shard: u32) -> String {
    let mut key = prefix.to_string();
    key.truncate(DIGITS);
    format!("{key}-{shard}")
}

/// When requests went out, by prefix and shard, over the last minute.
#[derive(Debug, Default)]
pub(super) struct Routes {
    sent: HashMap<Digest, Vec<VecDeque<Duration>>>,
}

impl Routes {
    /// The shard of a request that goes out now: the first one that has room.
    pub(super) fn take(&mut self, prefix: Digest, now: Duration) -> u32 {
        if self.sent.len() >= MOST_PREFIXES && !self.sent.contains_key(&prefix) {
            self.make_room(now);
        }
        let shards = self.sent.entry(prefix).or_default();
        for shard in shards.iter_mut() {
            while shard.front().is_some_and(|sent| is_past(*sent, now)) {
                shard.pop_front();
            }
        }
        let free = shards.iter().position(|shard| shard.len() < PER_MINUTE);
        let shard = free.unwrap_or(shards.len()).min(MOST_SHARDS - 1);
        if shard == shards.len() {
            shards.push(VecDeque::with_capacity(PER_MINUTE));
        }
        // The last shard of all may overflow; how often it was used no longer matters then.
        if shards[shard].len() < PER_MINUTE {
            shards[shard].push_back(now);
        }
        shard as u32
    }

    /// Forgets prefixes that were not used within the last minute, then the one used longest
    /// ago.
    fn make_room(&mut self, now: Duration) {
        let last = |shards: &[VecDeque<Duration>]| {
            let newest = shards.iter().filter_map(|shard| shard.back()).max();
            newest.copied().unwrap_or_default()
        };
        self.sent.retain(|_, shards| !is_past(last(shards), now));
        if self.sent.len() < MOST_PREFIXES {
            return;
        }
        let oldest = self.sent.iter().min_by_key(|(_, shards)| last(shards));
        if let Some(prefix) = oldest.map(|(prefix, _)| *prefix) {
            self.sent.remove(&prefix);
        }
    }
}

fn is_past(sent: Duration, now: Duration) -> bool {
    now >= sent.saturating_add(MINUTE)
}

#[cfg(test)]
mod tests {
    //! Which shard a request goes to, from when those before it went out.

    use super::*;

    fn prefix(n: u32) -> Digest {
        Digest::of_bytes(&n.to_le_bytes())
    }

    fn at(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[test]
    fn a_key_fits_and_names_prefix_and_shard() {
        let key = cache_key(prefix(1), u32::MAX);
        assert!(key.len() <= 64, "{key}");
        assert_eq!(
            key,
            format!("{}-{}", &prefix(1).to_string()[..48], u32::MAX)
        );
        assert_ne!(cache_key(prefix(1), 0), cache_key(prefix(2), 0));
        assert_ne!(cache_key(prefix(1), 0), cache_key(prefix(1), 1));
    }

    #[test]
    fn a_key_that_was_used_more_than_fifteen_times_makes_way() {
        let mut routes = Routes::default();
        let shards: Vec<u32> = (0..64).map(|_| routes.take(prefix(1), at(0))).collect();
        let expected: Vec<u32> = (0..64).map(|n| n / 16).collect();
        assert_eq!(shards, expected);
        // Other prefixes have their own keys.
        assert_eq!(routes.take(prefix(2), at(0)), 0);
    }

    #[test]
    fn a_key_is_free_again_a_minute_after_it_was_used() {
        let mut routes = Routes::default();
        for second in 0..16 {
            assert_eq!(routes.take(prefix(1), at(second)), 0);
        }
        for (now, shard) in [(16, 1), (59, 1), (60, 0), (60, 1), (61, 0), (200, 0)] {
            assert_eq!(routes.take(prefix(1), at(now)), shard, "at {now} s");
        }
    }

    #[test]
    fn what_is_remembered_is_bounded() {
        let mut routes = Routes::default();
        let shards = (0..10_000).map(|_| routes.take(prefix(0), at(0)));
        assert_eq!(shards.max(), Some(MOST_SHARDS as u32 - 1));
        for n in 1..2_000 {
            routes.take(prefix(n), at(0));
        }
        assert!(routes.sent.len() <= MOST_PREFIXES);
        for n in 2_000..2_003 {
            routes.take(prefix(n), at(60));
        }
        assert!(
            routes.sent.len() <= 3,
            "what is over a minute old is forgotten"
        );
    }
}
