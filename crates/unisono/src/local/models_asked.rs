//! What is found out about models before a turn asks them.

use unisono_session::agent::Team;

use super::Local;
use crate::models::notices;
use unisono_config::setup::Setup;

impl Local {
    /// Asks servers of one's own for the windows of a team's models that no catalogue has, where
    /// that was not done lately. Takes two seconds at most.
    pub async fn ask_servers(&self, setup: &Setup, team: &Team) {
        let learnt = self.calibrations();
        self.servers.ask(setup, team, learnt, &self.warmth).await;
    }

    /// From now on it logs what is to be known of the models of turns that begin: for a daemon
    /// that nobody watches.
    pub fn log_notices(&self) {
        self.noticed.begin();
    }

    /// Logs that of a team's models, each notice once.
    pub(super) fn log_notices_of(&self, setup: &Setup, team: &Team) {
        let learnt = self.calibrations();
        self.noticed
            .log(|| notices::of_team(setup, team, learnt, notices::today()));
    }
}
