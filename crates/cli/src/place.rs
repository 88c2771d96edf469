//! Where a store is open.

use unisono::local::Opened;
use unisono_client::Client;

/// Where a store is open. Verbs that look at it or work on it ask a service and do not know.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    /// In this process.
    Process(Opened),
    /// In a daemon, which answers.
    Daemon(Client),
}

impl Place {
    /// The address of the daemon that has it.
    pub(crate) fn daemon(&self) -> Option<&str> {
        match self {
            Place::Process(_) => None,
            Place::Daemon(client) => Some(client.url()),
        }
    }
}
