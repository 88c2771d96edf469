//! The tokens of an encoding: the bytes of each, and their merge order.

use unisono_context::tokens::Encoding;

/// The tokens as `build.rs` writes them.
const O200K_BASE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k_base.tokens"));
const CL100K_BASE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cl100k_base.tokens"));

/// A token's position in the order of merges.
pub(super) type Rank = u32;

/// All tokens of an encoding in an immutable hash table.
pub(super) struct Vocabulary {
    /// The tokens' bytes, concatenated by rank.
    bytes: &'static [u8],
    /// The start of each token in `bytes`, and the end of the last one.
    starts: Vec<u32>,
    /// By the hash of a token's bytes, with linear probing.
    slots: Vec<Slot>,
}

#[derive(Clone, Copy, Default)]
struct Slot {
    /// The part of the hash that did not select the slot: for most strings that are not tokens, no
    /// bytes need to be compared.
    check: u32,
    /// The token's rank plus 1; 0 if the slot is free.
    rank_plus_one: u32,
}

impl Vocabulary {
    /// The tokens of an encoding; `None` if the built-in table is damaged.
    pub(super) fn load(encoding: Encoding) -> Option<Vocabulary> {
        let built_in = match encoding {
            Encoding::O200kBase => O200K_BASE,
            Encoding::Cl100kBase => CL100K_BASE,
        };
        let (count, rest) = built_in.split_first_chunk()?;
        let tokens = u32::from_le_bytes(*count) as usize;
        let (lengths, bytes) = rest.split_at_checked(tokens)?;
        let mut starts = Vec::with_capacity(tokens + 1);
        let mut end = 0;
        starts.push(end);
        for length in lengths {
            end += u32::from(*length);
            starts.push(end);
        }
        if end as usize != bytes.len() {
            return None;
        }
        let slots = vec![Slot::default(); (2 * tokens).next_power_of_two().max(2)];
        let mut vocabulary = Vocabulary {
            bytes,
            starts,
            slots,
        };
        for rank in 0..tokens {
            vocabulary.insert(rank);
        }
        Some(vocabulary)
    }

    pub(super) fn rank(&self, bytes: &[u8]) -> Option<Rank> {
        let (first, check) = self.hash(bytes);
        for place in self.slots[first..].iter().chain(&self.slots) {
            let rank = place.rank_plus_one.checked_sub(1)?;
            if place.check == check && self.token(rank as usize) == bytes {
                return Some(rank);
            }
        }
        None
    }

    fn token(&self, rank: usize) -> &[u8] {
        &self.bytes[self.starts[rank] as usize..self.starts[rank + 1] as usize]
    }

    fn insert(&mut self, rank: usize) {
        let (first, check) = self.hash(self.token(rank));
        let (before, from) = self.slots.split_at_mut(first);
        let free = from
            .iter_mut()
            .chain(before)
            .find(|place| place.rank_plus_one == 0);
        if let Some(place) = free {
            let rank_plus_one = u32::try_from(rank + 1).unwrap_or(0);
            *place = Slot {
                check,
                rank_plus_one,
            };
        }
    }

    /// The first slot of these bytes, and the check.
    fn hash(&self, bytes: &[u8]) -> (usize, u32) {
        let hash = hash(bytes);
        let place = hash as usize & (self.slots.len() - 1);
        (place, (hash >> 32) as u32)
    }
}

/// A hash of few bytes: each eight are multiplied into 128 bits and folded. The table is fixed, so
/// deliberate collisions cost at most its longest run of used slots.
fn hash(bytes: &[u8]) -> u64 {
    const FACTOR: u64 = 0x9E37_79B9_7F4A_7C15;
    let mix = |hash: u64, word: [u8; 8]| {
        let product = u128::from(hash ^ u64::from_le_bytes(word)) * u128::from(FACTOR);
        (product as u64) ^ (product >> 64) as u64
    };
    let (words, rest) = bytes.as_chunks::<8>();
    let hash = words
        .iter()
        .fold(bytes.len() as u64 ^ FACTOR, |hash, word| mix(hash, *word));
    let mut last = [0; 8];
    last[..rest.len()].copy_from_slice(rest);
    mix(mix(hash, last), [0; 8])
}

#[cfg(test)]
mod tests {
    //! Tests that the table has every token of the encodings, and no others.

    use unisono_context::tokens::Encoding;

    use super::*;
    use crate::tokenizer::Tokenizer;

    #[test]
    fn every_token_is_in_the_vocabulary() {
        for (encoding, published, tokens) in rows! {
            (Encoding::O200kBase, tiktoken_rs::o200k_base_singleton(), 199_998),
            (Encoding::Cl100kBase, tiktoken_rs::cl100k_base_singleton(), 100_256),
        } {
            let vocabulary = &Tokenizer::load(encoding).unwrap().tables.vocabulary;
            assert_eq!(vocabulary.starts.len(), tokens + 1, "{}", encoding.name());
            for rank in 0..tokens as Rank {
                let token = published.decode_bytes(&[rank]).unwrap();
                assert_eq!(vocabulary.rank(&token), Some(rank));
            }
            for other in ["", "<|endoftext|>", "no such token, surely"] {
                assert_eq!(vocabulary.rank(other.as_bytes()), None);
            }
        }
    }
}
