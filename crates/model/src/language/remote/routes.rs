//! Which of a provider's machines a request is sent to, so that it finds its prefix there.
//!
//! OpenAI sends requests with the same `prompt_cache_key` to the same machine, up to about 15 a
//! minute ("Prompt caching", developers.openai.com); beyond that they spill over to machines
//! that do not have the prefix. Keys therefore have a number, the same for sixteen neighbours of
//! a fan-out: the requests of one number share a cache, and a run stays with the machine that has
//! its own exchange. The number follows from the run's place alone, so that a request that is
//! made again, after a crash too, has the same bytes.

use unisono_context::Digest;

/// Neighbours of a fan-out that share a key.
const PER_KEY: u32 = 16;
/// Hex digits of the prefix's digest in a key, of which OpenAI takes 64 characters.
const DIGITS: usize = 48;

/// The key of one shard of a prefix.
pub(super) fn cache_key(prefix: Digest, shard: u32) -> String {
    let mut key = prefix.to_string();
    key.truncate(DIGITS);
    format!("{key}-{shard}")
}

/// The shard of a run in that place.
pub(super) const fn shard(place: u32) -> u32 {
    place / PER_KEY
}

#[cfg(test)]
mod tests {
    //! Which shard a request goes to.

    use super::*;

    #[test]
    fn a_key_fits_and_names_prefix_and_shard() {
        let prefix = |n: u32| Digest::of_bytes(&n.to_le_bytes());
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
    fn sixteen_neighbours_share_a_key() {
        for (place, expected) in [(0, 0), (15, 0), (16, 1), (33, 2), (u32::MAX, 0x0fff_ffff)] {
            assert_eq!(shard(place), expected, "place {place}");
        }
    }
}
