//! The tokens of an encoding: the bytes of each, and their merge order.

use unisono_context::tokens::Encoding;

/// The tokens as `build.rs` writes them.
const O200K_BASE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/o200k_base.tokens"));
const CL100K_BASE: &[u8] = include_bytes!(concat!(env!("OUT_DIR"), "/cl100k_base.tokens"));

/// A token's place in the order of merges.
pub(super) type Rank = u32;

/// All tokens of an encoding, in a table that is never changed.
pub(super) struct Vocabulary {
    /// The tokens' bytes, one behind the other by rank.
    bytes: &'static [u8],
    /// Where each token starts in `bytes`, and where the last one ends.
    starts: Vec<u32>,
    /// By the hash of a token's bytes: where it should be, or the first free place behind that.
    places: Vec<Place>,
}

/// A place of the table.
#[derive(Clone, Copy, Default)]
struct Place {
    /// A part of the hash that did not choose the place: most strings that are no token need no
    /// look at the bytes of one.
    check: u32,
    /// The token's rank and 1; 0 where the place is free.
    rank_after: u32,
}

impl Vocabulary {
    /// The tokens of an encoding; none if what was built in is no such table.
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
        let places = vec![Place::default(); (2 * tokens).next_power_of_two().max(2)];
        let mut vocabulary = Vocabulary {
            bytes,
            starts,
            places,
        };
        for rank in 0..tokens {
            vocabulary.put(rank);
        }
        Some(vocabulary)
    }

    /// The rank of these bytes, if they are a token.
    pub(super) fn rank(&self, bytes: &[u8]) -> Option<Rank> {
        let (first, check) = self.hash(bytes);
        for place in self.places[first..].iter().chain(&self.places) {
            let rank = place.rank_after.checked_sub(1)?;
            if place.check == check && self.token(rank as usize) == bytes {
                return Some(rank);
            }
        }
        None
    }

    fn token(&self, rank: usize) -> &[u8] {
        &self.bytes[self.starts[rank] as usize..self.starts[rank + 1] as usize]
    }

    fn put(&mut self, rank: usize) {
        let (first, check) = self.hash(self.token(rank));
        let (before, from) = self.places.split_at_mut(first);
        let free = from
            .iter_mut()
            .chain(before)
            .find(|place| place.rank_after == 0);
        if let Some(place) = free {
            let rank_after = u32::try_from(rank + 1).unwrap_or(0);
            *place = Place { check, rank_after };
        }
    }

    /// The place where these bytes should be, and the check.
    fn hash(&self, bytes: &[u8]) -> (usize, u32) {
        let hash = hash(bytes);
        let place = hash as usize & (self.places.len() - 1);
        (place, (hash >> 32) as u32)
    }
}

/// A hash of few bytes: each eight are multiplied into 128 bits and folded. The table is fixed, so a
/// text that collides on purpose finds no more than its longest run of taken places.
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
    //! The table has every token of the encodings, and nothing else.

    use unisono_context::tokens::Encoding;

    use super::*;
    use crate::tokenizer::Tokenizer;

    #[test]
    fn every_token_is_in_the_vocabulary() {
        for (encoding, published, tokens) in [
            (
                Encoding::O200kBase,
                tiktoken_rs::o200k_base_singleton(),
                199_998,
            ),
            (
                Encoding::Cl100kBase,
                tiktoken_rs::cl100k_base_singleton(),
                100_256,
            ),
        ] {
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
