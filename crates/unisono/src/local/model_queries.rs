//! Queries about models before a turn uses them.

use unisono_session::agent::Team;

use super::Local;
use crate::models::notices;
use unisono_config::setup::Setup;

impl Local {
    /// Asks the user's own servers for the windows of a team's models without a catalogue entry,
    /// unless it was done recently. Takes two seconds at most.
    pub async fn ask_servers(&self, setup: &Setup, team: &Team) {
        let learnt = self.calibrations();
        self.shared
            .servers
            .ask(setup, team, learnt, &self.shared.warmth)
            .await;
    }

    /// Logs notices about the models of later turns: for a daemon without an observer.
    pub fn log_notices(&self) {
        self.shared.logged_notices.begin();
    }

    /// Logs the notices about a team's models, each once.
    pub(super) fn log_notices_of(&self, setup: &Setup, team: &Team) {
        let learnt = self.calibrations();
        self.shared
            .logged_notices
            .log(|| notices::of_team(setup, team, learnt, notices::today()));
    }
}
