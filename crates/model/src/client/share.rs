//! What the clients of one program share with those of other programs: by how many of them a
//! provider's limits are divided, and which providers and models are left alone for a while because one of
//! them was told to wait.

use std::collections::BTreeMap;
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use tokio::sync::Notify;
use tokio::time::Instant;

/// Holds that are known at a time; more are not told.
const HOLDS_MAX: usize = 256;
/// Clocks of two programs differ by less: a hold that ends so much later is the same one.
const SAME: Duration = Duration::from_millis(250);

/// What is shared; clones share it.
#[derive(Clone, Debug, Default)]
pub struct LimitShare(Arc<Shared>);

#[derive(Debug)]
struct Shared {
    programs: AtomicU32,
    /// Grows when another program tells a hold that was not known.
    told: AtomicU64,
    holds: Mutex<Holds>,
    news: Notify,
}

impl Default for Shared {
    fn default() -> Shared {
        Shared {
            programs: AtomicU32::new(1),
            told: AtomicU64::new(0),
            holds: Mutex::default(),
            news: Notify::new(),
        }
    }
}

/// When holds end, by provider and model.
#[derive(Debug, Default)]
struct Holds {
    /// Of other programs.
    others: BTreeMap<Held, Instant>,
    /// Of this one, which the others are not told yet.
    own: BTreeMap<Held, Instant>,
}

/// A provider that is left alone, or one of its models.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Held {
    /// The provider's name.
    pub provider: Arc<str>,
    /// The model, as its provider knows it; none: all of them.
    pub model: Option<Arc<str>>,
}

/// A model of a provider, or all of them (none), and how much longer it is left alone.
pub type Hold = (Option<Arc<str>>, Duration);

impl LimitShare {
    /// From now on the limits are shared by so many programs, this one included: each takes an equal
    /// part.
    pub fn set(&self, programs: u32) {
        self.0.programs.store(programs.max(1), Ordering::Relaxed);
    }

    /// The number of programs, at least 1.
    #[must_use]
    pub fn programs(&self) -> u32 {
        self.0.programs.load(Ordering::Relaxed)
    }

    /// Takes what other programs were told, as of now. What they said before and do not say again ends at
    /// its time.
    pub fn take(&self, holds: impl IntoIterator<Item = (Held, Duration)>) {
        let now = Instant::now();
        let mut known = self.holds();
        known.others.retain(|_, until| *until > now);
        let mut is_new = false;
        for (held, wait) in holds {
            let until = now + wait;
            let before = known.others.get(&held);
            let is_known = before.is_some_and(|before| until <= *before + SAME);
            if !is_known && (before.is_some() || known.others.len() < HOLDS_MAX) {
                known.others.insert(held, until);
                is_new = true;
            }
        }
        if is_new {
            self.0.told.fetch_add(1, Ordering::Release);
        }
    }

    /// Waits until there is something to tell the other programs, and takes it: how much longer what is
    /// left alone.
    pub async fn next(&self) -> Vec<(Held, Duration)> {
        loop {
            let news = self.0.news.notified();
            let own = std::mem::take(&mut self.holds().own);
            let now = Instant::now();
            let own = own.into_iter().map(|(held, until)| (held, until - now));
            let own: Vec<_> = own.filter(|(_, wait)| !wait.is_zero()).collect();
            if !own.is_empty() {
                return own;
            }
            news.await;
        }
    }

    /// This program leaves a provider or a model alone. The longest hold counts.
    pub(super) fn hold(&self, held: Held, wait: Duration) {
        let until = Instant::now() + wait;
        let mut known = self.holds();
        if known.own.len() < HOLDS_MAX || known.own.contains_key(&held) {
            let own = known.own.entry(held).or_insert(until);
            *own = until.max(*own);
        }
        self.0.news.notify_one();
    }

    /// What other programs were told of a provider, and the number of their news; none: that is `seen`.
    pub(super) fn news_of(&self, provider: &str, seen: u64) -> Option<(u64, Vec<Hold>)> {
        let told = self.0.told.load(Ordering::Acquire);
        if told == seen {
            return None;
        }
        let (now, known) = (Instant::now(), self.holds());
        let of = known.others.iter();
        let of = of.filter(|(held, until)| &*held.provider == provider && **until > now);
        let of = of.map(|(held, until)| (held.model.clone(), *until - now));
        Some((told, of.collect()))
    }

    fn holds(&self) -> MutexGuard<'_, Holds> {
        // Nothing in it can be half done.
        self.0.holds.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn held(provider: &str, model: Option<&str>) -> Held {
        Held {
            provider: provider.into(),
            model: model.map(Arc::from),
        }
    }

    const fn s(seconds: u64) -> Duration {
        Duration::from_secs(seconds)
    }

    #[tokio::test(start_paused = true)]
    async fn what_others_were_told_is_news_once_and_for_its_provider() {
        let share = LimitShare::default();
        assert_eq!(share.news_of("a", 0), None);
        let said = || [(held("a", None), s(10)), (held("b", Some("m")), s(5))];
        share.take(said());
        assert_eq!(share.news_of("a", 0), Some((1, vec![(None, s(10))])));
        assert_eq!(share.news_of("b", 0).unwrap().1, [(Some("m".into()), s(5))]);
        assert_eq!(share.news_of("c", 0), Some((1, Vec::new())));
        assert_eq!(share.news_of("a", 1), None);
        // Said again at the next beat: the same, whatever the clocks make of it.
        tokio::time::advance(s(1)).await;
        share.take([(held("a", None), Duration::from_millis(9_050))]);
        assert_eq!(share.news_of("a", 1), None);
        share.take([(held("a", None), s(20))]);
        assert_eq!(share.news_of("a", 1), Some((2, vec![(None, s(20))])));
        tokio::time::advance(s(20)).await;
        assert_eq!(share.news_of("a", 0), Some((2, Vec::new())));
    }

    #[tokio::test(start_paused = true)]
    async fn the_longest_hold_is_told_and_bounded_is_how_many() {
        let share = LimitShare::default();
        // The other program is not known yet.
        share.hold(held("a", None), s(9));
        share.set(2);
        for wait in [3, 5, 4] {
            share.hold(held("a", None), s(wait));
        }
        tokio::time::advance(s(1)).await;
        assert_eq!(share.next().await, [(held("a", None), s(8))]);
        for n in 0..2 * HOLDS_MAX {
            share.hold(held("a", Some(&n.to_string())), s(9));
        }
        assert_eq!(share.next().await.len(), HOLDS_MAX);
        let many = (0..2 * HOLDS_MAX).map(|n| (held("a", Some(&n.to_string())), s(9)));
        share.take(many);
        assert_eq!(share.news_of("a", 0).unwrap().1.len(), HOLDS_MAX);
        // What is over by the time that it would be told is not told.
        share.hold(held("b", None), s(1));
        tokio::time::advance(s(2)).await;
        let waiting = tokio::time::timeout(s(1), share.next()).await;
        assert!(waiting.is_err(), "{waiting:?}");
    }
}
