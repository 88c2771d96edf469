//! Decides when a session leaves memory: it has been idle for some time, or others need the space.

use std::time::Duration;

use ractor::ActorRef;

use super::{Msg, Phase, State, supervision};

impl State {
    pub(super) fn on_check_idle(&mut self, myself: &ActorRef<Msg>) {
        if self.is_idle(self.idle_time()) && !self.is_tried_again() {
            self.yield_permits(myself)
        } else {
            self.schedule_idle_check(myself)
        }
    }

    pub(super) fn on_leave(&mut self, myself: &ActorRef<Msg>) {
        if self.is_idle(Duration::ZERO) {
            self.yield_permits(myself);
        }
    }

    pub(super) fn yield_permits(&mut self, myself: &ActorRef<Msg>) {
        tracing::debug!(session = %self.args.id, "a session leaves memory");
        if let Phase::Live(live) = &mut self.phase {
            live.budget_queue.forget_request();
        }
        self.give_back();
        myself.stop(None);
    }

    pub(super) fn is_idle(&self, limit: Duration) -> bool {
        match &self.phase {
            Phase::Live(live) => live.is_idle(limit),
            Phase::ReadOnly(shown) => !shown.is_kept(),
            Phase::Broken(_) => true,
            Phase::Loading => false,
        }
    }

    /// The idle time after which it leaves memory.
    pub(super) fn idle_time(&self) -> Duration {
        let options = &self.args.env.options;
        let bytes = self.args.residence.to_resident().bytes;
        options.resident.idle_time(options.passivate_after, bytes)
    }

    /// Updates its size; if all sessions together are too large, some have to leave.
    pub(super) fn weigh(&mut self, myself: &ActorRef<Msg>) {
        let before = self.idle_time();
        let Phase::Live(live) = &mut self.phase else {
            return;
        };
        let residence = &self.args.residence;
        residence.set_bytes(live.weight.update(live.machine.state().tree()));
        residence.set_working(live.machine.state().has_work());
        let env = &self.args.env;
        if env.resident.bytes() > env.options.resident.bytes {
            // A stopping tree makes no space.
            let _ = self
                .args
                .supervisor
                .send_message(supervision::Msg::MakeRoom);
        }
        if self.idle_time() < before {
            self.schedule_idle_check(myself);
        }
    }

    /// Starts the timer of the next check, in place of an earlier one.
    pub(super) fn schedule_idle_check(&mut self, myself: &ActorRef<Msg>) {
        self.idle_checks.abort_all();
        // Removes timers that have ended.
        while self.idle_checks.try_join_next().is_some() {}
        let (myself, after) = (myself.clone(), self.idle_time());
        self.idle_checks.spawn(async move {
            tokio::time::sleep(after).await;
            // Already gone: nothing to check.
            let _ = myself.send_message(Msg::CheckIdle);
        });
    }
}
