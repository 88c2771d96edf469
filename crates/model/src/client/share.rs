//! The state that clients of several programs share: the number of programs that divide a
//! provider's limits, and the holds: the providers and models that all programs pause.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Maximum number of holds; further ones are not shared.
const HOLDS_MAX: usize = 256;
/// Tolerance between the clocks of programs: a hold that ends this much later is the same hold.
const SAME: Duration = Duration::from_millis(250);

/// The shared state. Clones share it.
#[derive(Clone, Debug, Default)]
pub struct LimitShare(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    programs: AtomicU32,
    /// The version of the other programs' holds; it grows with each new one.
    version: AtomicU64,
    holds: Mutex<ProviderPauses>,
    news: Notify,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            programs: AtomicU32::new(1),
            version: AtomicU64::new(0),
            holds: Mutex::default(),
            news: Notify::new(),
        }
    }
}

/// The ends of holds, by provider and model.
#[derive(Debug, Default)]
struct ProviderPauses {
    /// Holds of other programs.
    others: BTreeMap<PauseTarget, Instant>,
    /// New holds of this program, which the others do not know yet.
    own: BTreeMap<PauseTarget, Instant>,
}

/// A paused provider, or one paused model of it.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct PauseTarget {
    /// The provider's name.
    pub provider: Arc<str>,
    /// The provider's name of the model; `None` for all models.
    pub model: Option<Arc<str>>,
}

/// A paused model (`None`: all models of the provider), and the remaining time of the pause.
pub type ProviderPause = (Option<Arc<str>>, Duration);

impl LimitShare {
    /// Sets the number of programs, this one included. Each program gets an equal part of the limits.
    pub fn set(&self, programs: u32) {
        self.0.programs.store(programs.max(1), Ordering::Relaxed);
    }

    /// The number of programs, at least 1.
    #[must_use]
    pub fn programs(&self) -> u32 {
        self.0.programs.load(Ordering::Relaxed)
    }

    /// Adds holds of other programs, with their remaining times. Earlier holds stay until they end.
    pub fn take(&self, holds: impl IntoIterator<Item = (PauseTarget, Duration)>) {
        let now = Instant::now();
        let mut known = self.holds();
        known.others.retain(|_, until| *until > now);
        let mut is_new = false;
        for (target, wait) in holds {
            let until = now + wait;
            let before = known.others.get(&target);
            let is_known = before.is_some_and(|before| until <= *before + SAME);
            if !is_known && (before.is_some() || known.others.len() < HOLDS_MAX) {
                known.others.insert(target, until);
                is_new = true;
            }
        }
        if is_new {
            self.0.version.fetch_add(1, Ordering::Release);
        }
    }

    /// Waits for new holds of this program, and takes them with their remaining times.
    pub async fn next(&self) -> Vec<(PauseTarget, Duration)> {
        loop {
            let news = self.0.news.notified();
            let own = std::mem::take(&mut self.holds().own);
            let now = Instant::now();
            let own = own.into_iter().map(|(target, until)| (target, until - now));
            let own: Vec<_> = own.filter(|(_, wait)| !wait.is_zero()).collect();
            if !own.is_empty() {
                return own;
            }
            news.await;
        }
    }

    /// Adds a hold of this program. The longest hold of a provider or model applies.
    pub(super) fn hold(&self, target: PauseTarget, wait: Duration) {
        let until = Instant::now() + wait;
        let mut known = self.holds();
        if known.own.len() < HOLDS_MAX || known.own.contains_key(&target) {
            let own = known.own.entry(target).or_insert(until);
            *own = until.max(*own);
        }
        self.0.news.notify_one();
    }

    /// The other programs' holds of a provider and their version; `None` if the version is `seen`.
    pub(super) fn holds_since(
        &self,
        provider: &str,
        seen: u64,
    ) -> Option<(u64, Vec<ProviderPause>)> {
        let version = self.0.version.load(Ordering::Acquire);
        if version == seen {
            return None;
        }
        let (now, known) = (Instant::now(), self.holds());
        let of = known.others.iter();
        let of = of.filter(|(target, until)| &*target.provider == provider && **until > now);
        let of = of.map(|(target, until)| (target.model.clone(), *until - now));
        Some((version, of.collect()))
    }

    fn holds(&self) -> MutexGuard<'_, ProviderPauses> {
        // No panic leaves the maps inconsistent.
        self.0.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn target(provider: &str, model: Option<&str>) -> PauseTarget {
        PauseTarget {
            provider: provider.into(),
            model: model.map(Arc::from),
        }
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn a_hold_of_another_program_is_new_once_and_for_its_provider() {
        let share = LimitShare::default();
        assert_eq!(share.holds_since("a", 0), None);
        let holds = || [(target("a", None), s(10)), (target("b", Some("m")), s(5))];
        share.take(holds());
        assert_eq!(share.holds_since("a", 0), Some((1, vec![(None, s(10))])));
        assert_eq!(
            share.holds_since("b", 0).unwrap().1,
            [(Some("m".into()), s(5))]
        );
        assert_eq!(share.holds_since("c", 0), Some((1, Vec::new())));
        assert_eq!(share.holds_since("a", 1), None);
        // The next beat repeats the hold; a small difference of the clocks makes no new one.
        tokio::time::advance(s(1)).await;
        share.take([(target("a", None), Duration::from_millis(9_050))]);
        assert_eq!(share.holds_since("a", 1), None);
        share.take([(target("a", None), s(20))]);
        assert_eq!(share.holds_since("a", 1), Some((2, vec![(None, s(20))])));
        tokio::time::advance(s(20)).await;
        assert_eq!(share.holds_since("a", 0), Some((2, Vec::new())));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_hold_is_shared_and_their_number_is_bounded() {
        let share = LimitShare::default();
        // The other program is not known yet.
        share.hold(target("a", None), s(9));
        share.set(2);
        for wait in [3, 5, 4] {
            share.hold(target("a", None), s(wait));
        }
        tokio::time::advance(s(1)).await;
        assert_eq!(share.next().await, [(target("a", None), s(8))]);
        for n in 0..2 * HOLDS_MAX {
            share.hold(target("a", Some(&n.to_string())), s(9));
        }
        assert_eq!(share.next().await.len(), HOLDS_MAX);
        let many = (0..2 * HOLDS_MAX).map(|n| (target("a", Some(&n.to_string())), s(9)));
        share.take(many);
        assert_eq!(share.holds_since("a", 0).unwrap().1.len(), HOLDS_MAX);
        // A hold that has ended is not shared.
        share.hold(target("b", None), s(1));
        tokio::time::advance(s(2)).await;
        let waiting = tokio::time::timeout(s(1), share.next()).await;
        assert!(waiting.is_err(), "{waiting:?}");
    }
}
