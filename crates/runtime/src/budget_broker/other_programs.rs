//! The unused grants of sessions in other programs.
//!
//! A program without enough budget announces the shortage in its beats, and beats more often. The other
//! programs ask their sessions at their next beats to return unused grants, and announce whether one of
//! them will release a part by itself. The short program decides again at each of its beats. Its wait ends
//! if for a while no grant has changed and no program has announced a release.

use std::time::{Duration, Instant};

use ractor::ActorRef;
use tokio::sync::watch;
use unisono_store::{Beat, Journal};

use super::Msg;

/// Number of usual pauses between beats to wait: one until the others read the announcement, one until
/// they say whether they will release a part, and two for a busy database.
const PAUSES: u32 = 4;

/// The state of the requests to other programs.
pub(super) struct OtherPrograms {
    /// `None` if no other program can use the store.
    beats: Option<watch::Receiver<Beat>>,
    wait: Wait,
}

/// A wait for grants of other programs.
#[derive(Debug, Default)]
struct Wait {
    /// When it began, or when a part was last released or announced.
    since: Option<Instant>,
    /// The newest grant at the last decision.
    last: Option<u64>,
    /// The newest grant at the end of a wait without any return.
    last_without_return: Option<u64>,
}

/// The facts for a decision to wait.
#[derive(Clone, Copy, Debug)]
struct Known {
    /// The number of live programs.
    alive: usize,
    /// Whether another program will release a part by itself.
    is_coming: bool,
    /// The newest grant.
    last: u64,
}

impl OtherPrograms {
    /// Sends each beat to `broker`, as long as it lives.
    pub(super) fn follow(journal: &Journal, broker: ActorRef<Msg>) -> OtherPrograms {
        let beats = journal.cluster().map(|cluster| cluster.beats());
        if let Some(mut beats) = beats.clone() {
            tokio::spawn(async move {
                while beats.changed().await.is_ok() {
                    let (is_wanted, waited) = {
                        let beat = beats.borrow_and_update();
                        (beat.is_budget_wanted, beat.budget_wait)
                    };
                    let since = waited.and_then(|waited| Instant::now().checked_sub(waited));
                    if broker.send_message(Msg::Beat { is_wanted, since }).is_err() {
                        return;
                    }
                }
            });
        }
        OtherPrograms {
            beats,
            wait: Wait::default(),
        }
    }

    /// Whether a request without enough budget waits for the other programs; announces it to them.
    /// `last` is the newest grant. `since`: when it began to wait for its turn, if the budget of all
    /// programs is too small for it.
    pub(super) fn may_give_back(
        &mut self,
        journal: &Journal,
        last: u64,
        since: Option<Instant>,
    ) -> bool {
        let (Some(beats), Some(cluster)) = (&self.beats, journal.cluster()) else {
            return false;
        };
        let known = {
            let beat = beats.borrow();
            Known {
                alive: beat.alive,
                is_coming: beat.is_budget_coming,
                last,
            }
        };
        let patience = cluster.beat_every() * PAUSES;
        let waits = self.wait.decide(known, Instant::now(), patience);
        cluster.want_budget(waits, since);
        waits
    }

    /// Leaves the turn to the others: the request that is next here waits for them, or for sessions of this
    /// program. Otherwise they would wait for it, too.
    pub(super) fn leave_turn(&self, journal: &Journal) {
        if let Some(cluster) = journal.cluster() {
            cluster.want_budget(self.wait.since.is_some(), None);
        }
    }

    /// Withdraws the announcement: no request waits any more.
    pub(super) fn end_needs(&mut self, journal: &Journal) {
        self.wait.since = None;
        if let Some(cluster) = journal.cluster() {
            cluster.want_budget(false, None);
        }
    }
}

impl Wait {
    /// Whether to wait, or to continue to wait.
    fn decide(&mut self, known: Known, now: Instant, patience: Duration) -> bool {
        let has_changed = self.last.replace(known.last) != Some(known.last);
        if known.is_coming || has_changed {
            self.since = self.since.map(|_| now);
        }
        let waited = self.since.map(|since| now.saturating_duration_since(since));
        let is_over = waited.is_some_and(|waited| waited >= patience);
        let is_useless =
            waited.is_none() && !known.is_coming && self.last_without_return == Some(known.last);
        if known.alive > 1 && !is_over && !is_useless {
            self.since = self.since.or(Some(now));
            return true;
        }
        if self.since.take().is_some() {
            self.last_without_return = Some(known.last);
        }
        false
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// The decisions after so many tenths of a second, with what is known then.
    fn decisions(rows: &[(u64, Known)]) -> Vec<bool> {
        let (mut wait, begin) = (Wait::default(), Instant::now());
        let patience = Duration::from_secs(4);
        let decided = rows.iter().map(|(tenths, known)| {
            let now = begin + Duration::from_millis(100 * tenths);
            wait.decide(*known, now, patience)
        });
        decided.collect()
    }

    fn known(last: u64) -> Known {
        Known {
            alive: 2,
            is_coming: false,
            last,
        }
    }

    fn coming(last: u64) -> Known {
        Known {
            is_coming: true,
            ..known(last)
        }
    }

    #[test]
    fn a_wait_without_a_return_is_bounded_and_is_not_repeated_without_a_new_grant() {
        let rows = [
            (0, known(7)),
            (20, known(7)),
            (40, known(7)),
            (41, known(7)),
            (42, known(8)),
            (81, known(8)),
            (82, known(8)),
        ];
        let expected = [true, true, false, false, true, true, false];
        assert_eq!(decisions(&rows), expected);
        let alone = Known {
            alive: 1,
            ..known(7)
        };
        assert_eq!(decisions(&[(0, alone)]), [false]);
        assert_eq!(decisions(&[(0, known(7)), (20, alone)]), [true, false]);
    }

    #[test]
    fn a_wait_goes_on_while_grants_change_or_a_release_is_announced() {
        let changing: Vec<_> = (0..10).map(|n| (30 * n, known(n))).collect();
        assert_eq!(decisions(&changing), [true; 10]);
        // A call that takes longer than the patience.
        let rows = [
            (0, known(7)),
            (10, coming(7)),
            (90, coming(7)),
            (129, known(7)),
            (130, known(7)),
            (131, coming(7)),
        ];
        let expected = [true, true, true, true, false, true];
        assert_eq!(decisions(&rows), expected);
    }
}
