//! The turns that programs on one database take with what is free.

use std::time::Instant;

use super::{HolderState, State, YIELDED_BEATS};

impl State {
    /// Reads the grants of other programs, if requests wait.
    pub(super) async fn refresh(&mut self) {
        if !self.waiting.is_empty()
            && let Err(error) = self.grants.refresh(&mut self.broker).await
        {
            tracing::warn!(%error, "the grants of other programs are unknown");
        }
    }

    /// Decides again about what waits, and asks for what another program needs. After a grant the others
    /// go first: what is free is left to them for some beats.
    pub(super) async fn on_beat(&mut self, is_wanted: bool, since: Option<Instant>) {
        (self.is_wanted, self.others_wait_since) = (is_wanted, since);
        if !is_wanted {
            self.yielded_beats = 0;
            self.answer_waiting().await;
            return;
        }
        if self.yielded_beats > 0 && self.could_grant().await {
            self.yielded_beats -= 1;
        } else if self.answer_waiting().await {
            self.yielded_beats = YIELDED_BEATS;
        }
        // What is granted here comes back as soon as it is not used.
        self.recall(|_, _| true);
    }

    /// Whether the budget suffices for a waiting request.
    async fn could_grant(&mut self) -> bool {
        self.refresh().await;
        let mut all = self.waiting.requests();
        all.any(|request| self.raise(request).is_ok())
    }

    /// Tells the other programs whether sessions of this one will release a part of their grants.
    pub(super) fn tell_spending(&self) {
        let mut holders = self.holders.values();
        let is_so = self.is_wanted && holders.any(|of| of.known == HolderState::Spending);
        if let Some(cluster) = self.journal.cluster() {
            cluster.will_free_budget(is_so);
        }
    }
}
