//! The newest few entries of a kind, found by a linear search.

use std::collections::VecDeque;

/// At most `capacity` entries; a new one replaces the oldest.
#[derive(Debug)]
pub(crate) struct Recent<K, V> {
    entries: VecDeque<(K, V)>,
    capacity: usize,
}

impl<K: PartialEq, V: Clone> Recent<K, V> {
    pub(crate) fn new(capacity: usize) -> Recent<K, V> {
        Recent {
            entries: VecDeque::new(),
            capacity,
        }
    }

    pub(crate) fn get(&self, key: &K) -> Option<V> {
        let newest_first = self.entries.iter().rev();
        let mut found = newest_first.filter(|(known, _)| known == key);
        found.next().map(|(_, value)| value.clone())
    }

    /// The entry of the key, made if there is none.
    pub(crate) fn get_or(&mut self, key: K, make: impl FnOnce() -> V) -> V {
        if let Some(known) = self.get(&key) {
            return known;
        }
        let made = make();
        self.insert(key, made.clone());
        made
    }

    pub(crate) fn insert(&mut self, key: K, value: V) {
        if self.entries.len() >= self.capacity {
            self.entries.pop_front();
        }
        self.entries.push_back((key, value));
    }
}

#[cfg(test)]
mod tests {
    //! Tests that the oldest entry is removed first, and that nothing is computed twice.

    use super::*;

    #[test]
    fn the_oldest_entry_is_replaced() {
        let mut recent = Recent::new(3);
        for n in 0..5 {
            assert_eq!(recent.get_or(n, || n * 10), n * 10);
        }
        assert_eq!(
            [0, 1, 2, 3, 4].map(|n| recent.get(&n)),
            [None, None, Some(20), Some(30), Some(40)]
        );
        assert_eq!(recent.get_or(3, || 0), 30);
        recent.insert(3, 31);
        assert_eq!(recent.get(&3), Some(31));
    }
}
