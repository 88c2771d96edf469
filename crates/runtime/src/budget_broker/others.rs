//! The budget that sessions of other programs hold and do not use.
//!
//! A program that is short of budget says so at its beats. The others then ask their sessions to give back
//! what they do not use, and it decides again at each beat, for a bounded number of them.

use ractor::ActorRef;
use tokio::sync::watch;
use unisono_store::{Beat, Journal};

use super::Msg;

/// Beats that are waited for: one until the others learn of it, one until what they give back is seen,
/// and as many again for a busy database.
const BEATS: u64 = 4;

/// What is known of the other programs.
pub(super) struct Others {
    /// None: nobody else may use the store.
    beats: Option<watch::Receiver<Beat>>,
    /// The beat since which it is waited for them.
    since: Option<u64>,
    /// The newest grant when they were waited for and gave nothing back.
    fruitless: Option<u64>,
}

impl Others {
    /// Has `broker` told of each beat, as long as it lives.
    pub(super) fn follow(journal: &Journal, broker: ActorRef<Msg>) -> Others {
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
        Others {
            beats,
            since: None,
            fruitless: None,
        }
    }

    /// Whether a request that is short waits for them, where the newest grant is `last`: they are told
    /// then.
    pub(super) fn may_give_back(&mut self, journal: &Journal, last: u64) -> bool {
        let Some((count, alive)) = self.beats.as_ref().map(|beats| {
            let beat = beats.borrow();
            (beat.count, beat.alive)
        }) else {
            return false;
        };
        let waits = decide(count, alive, self.since, self.fruitless == Some(last));
        match waits {
            true => self.since = self.since.or(Some(count)),
            false => self.fruitless = self.since.map(|_| last).or(self.fruitless),
        }
        self.tell(journal, waits);
        waits
    }

    /// Nothing waits any more.
    pub(super) fn satisfied(&mut self, journal: &Journal) {
        self.tell(journal, false);
    }

    fn tell(&mut self, journal: &Journal, is_wanted: bool) {
        if !is_wanted {
            self.since = None;
        }
        if let Some(cluster) = journal.cluster() {
            cluster.want_budget(is_wanted);
        }
    }
}

/// Whether it is waited for others at that beat. Pure.
fn decide(count: u64, alive: usize, since: Option<u64>, is_fruitless: bool) -> bool {
    let is_over = since.is_some_and(|since| count >= since + BEATS);
    alive > 1 && !is_over && !(is_fruitless && since.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_waited_for_as_long_as_they_need_and_not_again_for_nothing() {
        let rows = [
            // beat, alive, waited since, nothing came back, waits
            (7, 1, None, false, false),
            (7, 2, None, false, true),
            (7, 2, None, true, false),
            (9, 2, Some(7), false, true),
            // What changed since it began to wait is seen at the end.
            (9, 2, Some(7), true, true),
            (7 + BEATS, 2, Some(7), false, false),
            (9, 1, Some(7), false, false),
        ];
        for (count, alive, since, is_fruitless, waits) in rows {
            let decided = decide(count, alive, since, is_fruitless);
            assert_eq!(decided, waits, "{count} {alive} {since:?} {is_fruitless}");
        }
    }
}
