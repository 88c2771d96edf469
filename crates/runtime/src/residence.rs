//! The sessions in memory: limits of their number and bytes, and the choice of sessions that leave.
//! A working session stays.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Duration;

/// The part of a limit that is freed when sessions have to leave, so that this is rare.
const SPARE: usize = 8;
/// A session with more than this part of the limit of bytes is large.
const LARGE: u64 = 16;
/// The part of the idle time after which a large session leaves.
const LARGE_IDLE: u32 = 10;

/// The limits of sessions in memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ResidenceBounds {
    /// The number of sessions.
    pub sessions: usize,
    /// The approximate total size of their messages, in bytes.
    pub bytes: u64,
}

impl Default for ResidenceBounds {
    fn default() -> ResidenceBounds {
        ResidenceBounds {
            sessions: 1_024,
            bytes: 128 << 20,
        }
    }
}

impl ResidenceBounds {
    /// The idle time after which a session of this size leaves memory; `idle` is the one of small
    /// sessions.
    pub(crate) fn idle_time(&self, idle: Duration, bytes: u64) -> Duration {
        match bytes > self.bytes / LARGE {
            true => idle / LARGE_IDLE,
            false => idle,
        }
    }
}

/// The totals of all sessions in memory.
#[derive(Clone, Debug, Default)]
pub(crate) struct Total(Arc<Sums>);

#[derive(Debug, Default)]
struct Sums {
    /// Bytes, approximately.
    bytes: AtomicU64,
    /// The number of uses of all sessions: each use has its own number.
    uses: AtomicU64,
}

impl Total {
    pub(crate) fn bytes(&self) -> u64 {
        self.0.bytes.load(Ordering::Relaxed)
    }

    fn next_use(&self) -> u64 {
        self.0.uses.fetch_add(1, Ordering::Relaxed)
    }
}

/// The size of a session, its last use, and whether it works. Written by its actor, read by the
/// supervisor.
#[derive(Debug)]
pub(crate) struct Residence {
    total: Total,
    bytes: AtomicU64,
    used: AtomicU64,
    works: AtomicBool,
}

impl Residence {
    pub(crate) fn new(total: Total) -> Residence {
        Residence {
            bytes: AtomicU64::new(0),
            used: AtomicU64::new(total.next_use()),
            total,
            works: AtomicBool::new(false),
        }
    }

    pub(crate) fn mark_used(&self) {
        self.used.store(self.total.next_use(), Ordering::Relaxed);
    }

    /// Sets whether it works, so that it cannot leave.
    pub(crate) fn set_working(&self, works: bool) {
        self.works.store(works, Ordering::Relaxed);
    }

    pub(crate) fn is_working(&self) -> bool {
        self.works.load(Ordering::Relaxed)
    }

    pub(crate) fn set_bytes(&self, bytes: u64) {
        let before = self.bytes.swap(bytes, Ordering::Relaxed);
        self.total.0.bytes.fetch_add(bytes, Ordering::Relaxed);
        self.total.0.bytes.fetch_sub(before, Ordering::Relaxed);
    }

    /// A copy of the values, for a decision.
    pub(crate) fn to_resident(&self) -> Resident {
        Resident {
            bytes: self.bytes.load(Ordering::Relaxed),
            used: self.used.load(Ordering::Relaxed),
            works: self.works.load(Ordering::Relaxed),
        }
    }
}

impl Drop for Residence {
    fn drop(&mut self) {
        self.set_bytes(0);
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Resident {
    pub(crate) bytes: u64,
    /// The number of its last use: larger is later.
    pub(crate) used: u64,
    pub(crate) works: bool,
}

/// The sessions that have to leave: the least recently used ones that do not work, until both
/// limits hold with some space to spare. The most recently used session stays, whatever its size.
pub(crate) fn select_leaving<K: Copy>(live: &[(K, Resident)], bounds: ResidenceBounds) -> Vec<K> {
    let mut count = live.len();
    let mut bytes: u64 = live.iter().map(|(_, one)| one.bytes).sum();
    if count <= bounds.sessions && bytes <= bounds.bytes {
        return Vec::new();
    }
    let most = bounds.sessions - bounds.sessions / SPARE;
    let most_bytes = bounds.bytes - bounds.bytes / SPARE as u64;
    let newest = live.iter().map(|(_, one)| one.used).max();
    let mut idle: Vec<_> = live
        .iter()
        .filter(|(_, one)| !one.works && Some(one.used) != newest)
        .collect();
    idle.sort_by_key(|(_, one)| one.used);
    let mut leaving = Vec::new();
    for (key, one) in idle {
        if count <= most && bytes <= most_bytes {
            break;
        }
        leaving.push(*key);
        count -= 1;
        bytes -= one.bytes;
    }
    leaving
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_large_session_leaves_earlier() {
        let bounds = ResidenceBounds {
            sessions: 8,
            bytes: 160,
        };
        let idle = |bytes| bounds.idle_time(Duration::from_secs(300), bytes).as_secs();
        assert_eq!([0, 10, 11, 1_000].map(idle), [300, 300, 30, 30]);
    }

    fn live(sessions: &[(u64, u64, bool)]) -> Vec<(usize, Resident)> {
        let each = sessions.iter().enumerate();
        each.map(|(key, &(bytes, used, works))| {
            let resident = Resident { bytes, used, works };
            (key, resident)
        })
        .collect()
    }

    const BOUNDS: ResidenceBounds = ResidenceBounds {
        sessions: 3,
        bytes: 800,
    };

    #[test]
    fn no_session_leaves_within_the_limits() {
        let three = live(&[(400, 1, false), (300, 2, false), (100, 3, false)]);
        assert_eq!(select_leaving(&three, BOUNDS), [0; 0]);
        assert_eq!(select_leaving::<usize>(&[], BOUNDS), [0; 0]);
    }

    #[test]
    fn the_least_recently_used_session_leaves_first() {
        let four = live(&[(1, 9, false), (1, 2, false), (1, 5, false), (1, 8, false)]);
        assert_eq!(select_leaving(&four, BOUNDS), [1]);
        let large = live(&[(500, 9, false), (300, 2, false), (100, 5, false)]);
        assert_eq!(
            select_leaving(&large, BOUNDS),
            [1],
            "700 are left to be held"
        );
    }

    #[test]
    fn working_and_most_recently_used_sessions_stay() {
        let work = live(&[(900, 1, true), (900, 2, false), (1, 3, false)]);
        assert_eq!(select_leaving(&work, BOUNDS), [1]);
        assert_eq!(select_leaving(&live(&[(9_000, 1, false)]), BOUNDS), [0; 0]);
        let all = live(&[(1, 1, true), (1, 2, true), (1, 3, true), (1, 4, true)]);
        assert_eq!(select_leaving(&all, BOUNDS), [0; 0]);
    }

    #[test]
    fn several_sessions_leave_at_once() {
        let bounds = ResidenceBounds {
            sessions: 80,
            bytes: u64::MAX,
        };
        let many: Vec<_> = (0..81).map(|n| (1, n, false)).collect();
        assert_eq!(
            select_leaving(&live(&many), bounds),
            (0..11).collect::<Vec<_>>()
        );
    }

    #[test]
    fn the_total_follows_sizes_and_departures() {
        let total = Total::default();
        let (one, other) = (Residence::new(total.clone()), Residence::new(total.clone()));
        one.set_bytes(5);
        other.set_bytes(7);
        one.set_bytes(3);
        assert_eq!(total.bytes(), 10);
        drop(one);
        assert_eq!(total.bytes(), 7);
    }
}
