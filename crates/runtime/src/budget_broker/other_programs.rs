//! The unused grants of sessions in other programs.
//!
//! A program without enough budget announces the shortage in its beats, and beats more often. The other
//! programs ask their sessions at their next beats to return unused grants. The short program decides
//! again at each of its beats, until a time limit.

use std::time::{Duration, Instant};

use ractor::ActorRef;
use tokio::sync::watch;
use unisono_store::{Beat, Journal};

use super::Msg;

/// Number of usual pauses between beats to wait: one until the others read the announcement, and three
/// for a busy database.
const PAUSES: u32 = 4;

/// The state of the requests to other programs.
pub(super) struct OtherPrograms {
    /// `None` if no other program can use the store.
    beats: Option<watch::Receiver<Beat>>,
    /// The instant at which the current wait began.
    since: Option<Instant>,
    /// The newest grant at the end of a wait without any return.
    last_without_return: Option<u64>,
}

impl OtherPrograms {
    /// Sends each beat to `broker`, as long as it lives.
    pub(super) fn follow(journal: &Journal, broker: ActorRef<Msg>) -> OtherPrograms {
        let beats = journal.cluster().map(|cluster| cluster.beats());
        if let Some(mut beats) = beats.clone() {
            tokio::spawn(async move {
                while beats.changed().await.is_ok() {
                    let is_wanted = beats.borrow_and_update().is_budget_wanted;
                    if broker.send_message(Msg::Beat { is_wanted }).is_err() {
                        return;
                    }
                }
            });
        }
        OtherPrograms {
            beats,
            since: None,
            last_without_return: None,
        }
    }

    /// Whether a request without enough budget waits for the other programs; announces it to them.
    /// `last` is the newest grant.
    pub(super) fn may_give_back(&mut self, journal: &Journal, last: u64) -> bool {
        let (Some(beats), Some(cluster)) = (&self.beats, journal.cluster()) else {
            return false;
        };
        let (alive, patience) = (beats.borrow().alive, cluster.beat_every() * PAUSES);
        let waited = self.since.map(|since| since.elapsed());
        let waits = decide(
            waited,
            patience,
            alive,
            self.last_without_return == Some(last),
        );
        match waits {
            true => self.since = self.since.or_else(|| Some(Instant::now())),
            false => {
                self.last_without_return = self.since.map(|_| last).or(self.last_without_return)
            }
        }
        self.announce(journal, waits);
        waits
    }

    /// Withdraws the announcement: no request waits any more.
    pub(super) fn end_needs(&mut self, journal: &Journal) {
        self.announce(journal, false);
    }

    fn announce(&mut self, journal: &Journal, is_wanted: bool) {
        if !is_wanted {
            self.since = None;
        }
        if let Some(cluster) = journal.cluster() {
            cluster.want_budget(is_wanted);
        }
    }
}

/// Whether to wait for other programs after a wait of `waited`. Pure.
fn decide(waited: Option<Duration>, patience: Duration, alive: usize, is_useless: bool) -> bool {
    let is_over = waited.is_some_and(|waited| waited >= patience);
    alive > 1 && !is_over && !(is_useless && waited.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_bounded_and_is_not_repeated_without_a_new_grant() {
        let rows = [
            // alive, seconds waited, nothing came back, waits
            (1, None, false, false),
            (2, None, false, true),
            (2, None, true, false),
            (2, Some(2), false, true),
            // A change since the wait began counts at its end.
            (2, Some(2), true, true),
            (2, Some(4), false, false),
            (1, Some(2), false, false),
        ];
        for (alive, waited, is_useless, waits) in rows {
            let patience = Duration::from_secs(4);
            let waited = waited.map(Duration::from_secs);
            let decided = decide(waited, patience, alive, is_useless);
            assert_eq!(decided, waits, "{alive} {waited:?} {is_useless}");
        }
    }
}
