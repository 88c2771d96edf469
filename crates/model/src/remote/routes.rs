//! The routing of a request to one of a provider's machines, so that it finds its prefix there.
//!
//! OpenAI sends requests with the same `prompt_cache_key` to the same machine, up to about 15 a
//! minute ("Prompt caching", developers.openai.com); further ones go to machines without the
//! prefix. Keys therefore have a number, which is equal for neighbours in a fan-out and, in the
//! first group, the lead: fifteen runs that begin in the same minute. The requests of one number
//! share a cache, and a run stays with the machine that has its own exchange. The number depends
//! only on the position of the run and not on the time, so that a repeated request, also after a
//! crash, has the same bytes (`docs/adr/0013-cache-keys-by-place.md`).

use unisono_context::Digest;

/// The number of runs of a turn that share a key.
const PER_KEY: u32 = 15;
/// Hex digits of the prefix's digest in a key; OpenAI accepts keys of 64 characters.
const DIGITS: usize = 48;

pub(super) fn cache_key(prefix: Digest, shard: u32) -> String {
    let mut key = prefix.to_string();
    key.truncate(DIGITS);
    format!("{key}-{shard}")
}

/// The shard of a run at this index. The lead shares the first one with the first of its delegates.
pub(super) const fn shard(place: u32) -> u32 {
    place.saturating_add(1) / PER_KEY
}

#[cfg(test)]
mod tests {
    //! Tests of the shard to which a request is routed.

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
    fn fifteen_runs_share_a_key() {
        for (place, expected) in [(0, 0), (13, 0), (14, 1), (28, 1), (29, 2), (44, 3)] {
            assert_eq!(shard(place), expected, "place {place}");
        }
        let of = |n: u32| (0..200).filter(|place| shard(*place) == n).count();
        assert_eq!(
            (of(0) + 1, of(1), of(2)),
            (15, 15, 15),
            "the lead is one of the first"
        );
    }
}
