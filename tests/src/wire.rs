//! A model behind the scripted provider's Anthropic dialect, and agents that are driven by it.

use std::sync::Arc;

use unisono_model::Catalogue;
use unisono_model::client::Client;
use unisono_model::provider::{Kind, Settings};
use unisono_model::remote::Remote;
use unisono_session::agent::Definition;

use crate::scenario::model_driven;

/// As definitions write it.
pub const CLAUDE: &str = "anthropic/claude-sonnet-4-5";

/// That model, where the provider is at that address.
pub fn claude(url: &str) -> Remote<Client> {
    let settings = Settings::new("anthropic", Kind::Anthropic, Some(url), None);
    let client = Client::new(settings.expect("settings")).expect("a client");
    let catalogue = Arc::new(Catalogue::built_in().expect("a catalogue"));
    let entry = catalogue.get(None, CLAUDE).expect("an entry");
    Remote::new(entry, client, catalogue)
}

/// A definition carried out by that model, without tools.
pub fn asking_claude(id: &str) -> Definition {
    Definition {
        model: CLAUDE.into(),
        ..model_driven(id, &[])
    }
}
