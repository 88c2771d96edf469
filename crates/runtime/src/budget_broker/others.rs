//! The budget that sessions of other programs hold and do not use.
//!
//! A program that is short of budget says so at its beats, which follow each other faster then. The others
//! ask their sessions at their next beats to give back what they do not use. The program decides again at
//! each of its own beats, for a bounded time.

use std::time::{Duration, Instant};

use ractor::ActorRef;
use tokio::sync::watch;
use unisono_store::{Beat, Journal};

use super::Msg;

/// Usual pauses between beats that are waited for: one until the others learn of it, and three for a busy
/// database.
const PAUSES: u32 = 4;

/// What is known of the other programs.
pub(super) struct Others {
    /// None: nobody else may use the store.
    beats: Option<watch::Receiver<Beat>>,
    /// Since when it is waited for them.
    since: Option<Instant>,
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
        let (Some(beats), Some(cluster)) = (&self.beats, journal.cluster()) else {
            return false;
        };
        let (alive, patience) = (beats.borrow().alive, cluster.beat_every() * PAUSES);
        let waited = self.since.map(|since| since.elapsed());
        let waits = decide(waited, patience, alive, self.fruitless == Some(last));
        match waits {
            true => self.since = self.since.or_else(|| Some(Instant::now())),
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

/// Whether it is waited for others, after it was for so long. Pure.
fn decide(waited: Option<Duration>, patience: Duration, alive: usize, is_fruitless: bool) -> bool {
    let is_over = waited.is_some_and(|waited| waited >= patience);
    alive > 1 && !is_over && !(is_fruitless && waited.is_none())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn others_are_waited_for_as_long_as_they_need_and_not_again_for_nothing() {
        let rows = [
            // alive, waited for so many seconds, nothing came back, waits
            (1, None, false, false),
            (2, None, false, true),
            (2, None, true, false),
            (2, Some(2), false, true),
            // What changed since it began to wait is seen at the end.
            (2, Some(2), true, true),
            (2, Some(4), false, false),
            (1, Some(2), false, false),
        ];
        for (alive, waited, is_fruitless, waits) in rows {
            let patience = Duration::from_secs(4);
            let waited = waited.map(Duration::from_secs);
            let decided = decide(waited, patience, alive, is_fruitless);
            assert_eq!(decided, waits, "{alive} {waited:?} {is_fruitless}");
        }
    }
}
