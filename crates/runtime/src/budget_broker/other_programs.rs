//! The unused grants of sessions in other programs.
//!
//! A program without enough budget announces it in its beats. The others then ask their sessions to
//! return unused grants, and the program decides again at each beat, for a bounded number of beats.

use ractor::ActorRef;
use tokio::sync::watch;
use unisono_store::{Beat, Journal};

use super::Msg;

/// Number of beats to wait: one until the others read the announcement, one until their returns are
/// visible, and two more for a busy database.
const BEATS: u64 = 4;

/// The state of the requests to other programs.
pub(super) struct OtherPrograms {
    /// `None` if no other program can use the store.
    beats: Option<watch::Receiver<Beat>>,
    /// The beat at which the current wait began.
    since: Option<u64>,
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
        let Some((count, alive)) = self.beats.as_ref().map(|beats| {
            let beat = beats.borrow();
            (beat.count, beat.alive)
        }) else {
            return false;
        };
        let waits = decide(
            count,
            alive,
            self.since,
            self.last_without_return == Some(last),
        );
        match waits {
            true => self.since = self.since.or(Some(count)),
            false => {
                self.last_without_return = self.since.map(|_| last).or(self.last_without_return)
            }
        }
        self.announce(journal, waits);
        waits
    }

    /// Withdraws the announcement: no request waits any more.
    pub(super) fn satisfied(&mut self, journal: &Journal) {
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

/// Whether to wait for other programs at that beat. Pure.
fn decide(count: u64, alive: usize, since: Option<u64>, is_useless: bool) -> bool {
    let is_over = since.is_some_and(|since| count >= since + BEATS);
    alive > 1 && !is_over && !(is_useless && since.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_wait_is_bounded_and_is_not_repeated_without_a_new_grant() {
        let rows = [
            // beat, alive, waited since, nothing came back, waits
            (7, 1, None, false, false),
            (7, 2, None, false, true),
            (7, 2, None, true, false),
            (9, 2, Some(7), false, true),
            // A change since the wait began counts at its end.
            (9, 2, Some(7), true, true),
            (7 + BEATS, 2, Some(7), false, false),
            (9, 1, Some(7), false, false),
        ];
        for (count, alive, since, is_useless, waits) in rows {
            let decided = decide(count, alive, since, is_useless);
            assert_eq!(decided, waits, "{count} {alive} {since:?} {is_useless}");
        }
    }
}
