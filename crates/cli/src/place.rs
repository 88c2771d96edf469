//! The place of an open store.

use unisono::local::OpenedStore;
use unisono_client::Client;

/// The place of an open store. Commands ask a service and do not depend on the place.
#[derive(Clone, Debug)]
pub(crate) enum Place {
    Process(OpenedStore),
    Daemon(Client),
}

impl Place {
    pub(crate) fn daemon(&self) -> Option<&str> {
        match self {
            Place::Process(_) => None,
            Place::Daemon(client) => Some(client.url()),
        }
    }
}
