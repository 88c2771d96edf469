//! Asks the user's own servers for windows that are missing in the catalogue, and for their caches.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use futures_util::future::join_all;
use tokio::time::Instant;
use unisono_model::cache_warming::CacheWarmth;
use unisono_model::calibration::Calibrations;
use unisono_model::catalogue::Entry;
use unisono_model::client::Client;
use unisono_model::provider;
use unisono_session::agent::{AgentKind, Team};

use unisono_config::setup::Setup;

/// The time for which an answer of a server is valid.
const FRESH: Duration = Duration::from_secs(600);
/// The pause after a server gave no answer: it may be starting.
const SILENT: Duration = Duration::from_secs(60);
/// Maximum remembered models: more than any program uses.
const MAX_MODELS: usize = 256;

/// The queried models, and the times until which they are not queried again.
#[derive(Debug, Default)]
pub(crate) struct Servers(Mutex<BTreeMap<Arc<str>, Instant>>);

impl Servers {
    /// Queries the models of a team in parallel. The answers apply to turns that begin later. A
    /// window in the catalogue overrides the server's answer.
    pub(crate) async fn ask(
        &self,
        setup: &Setup,
        team: &Team,
        learnt: &Calibrations,
        warmth: &CacheWarmth,
    ) {
        let asks = team
            .definitions()
            .filter(|agent| agent.kind == AgentKind::Llm);
        let names: BTreeSet<&Arc<str>> = asks.map(|agent| &agent.model).collect();
        for name in &names {
            if let Some(slots) = slots_of(setup, name) {
                warmth.set_serial(name, slots > 1);
            }
        }
        let due = names.into_iter().filter_map(|name| {
            let (entry, settings) = server_of(setup, name)?;
            self.is_due(name).then_some((name, entry, settings))
        });
        let asked = due.map(|(name, entry, settings)| async move {
            let Ok(client) = Client::new(settings) else {
                return;
            };
            let served = client.query_model(&entry.model.model).await;
            let is_known = served.window.is_some() || served.slots.is_some();
            self.rest(name, if is_known { FRESH } else { SILENT });
            if let Some(window) = served.window.filter(|_| entry.assumed) {
                learnt.record_stated_window(name, entry.window, window);
            }
            let slots = slots_of(setup, name).or(served.slots);
            if let Some(serial) = is_serial(slots, is_known) {
                warmth.set_serial(name, serial);
            }
            tracing::debug!(model = %name, ?served, "a server was asked about its model");
        });
        join_all(asked).await;
    }

    /// Whether a model must be queried now. It then counts as queried.
    fn is_due(&self, name: &Arc<str>) -> bool {
        let now = Instant::now();
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.retain(|_, until| now < *until);
        if asked.contains_key(name) || asked.len() >= MAX_MODELS {
            return false;
        }
        asked.insert(name.clone(), now + SILENT);
        true
    }

    /// Suspends queries of a model for this time.
    fn rest(&self, name: &Arc<str>, time: Duration) {
        let mut asked = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        asked.insert(name.clone(), Instant::now() + time);
    }
}

/// The number of slots of a model's server, if it is configured.
fn slots_of(setup: &Setup, name: &str) -> Option<u32> {
    let (provider, _) = name.split_once('/')?;
    setup.loaded.config.providers.get(provider)?.slots
}

/// Whether requests with one prefix go to a server one after the other; none: a server that did not
/// answer may be busy, and has the slots that it had.
fn is_serial(slots: Option<u32>, has_answered: bool) -> Option<bool> {
    match slots {
        Some(slots) => Some(slots > 1),
        None => has_answered.then_some(false),
    }
}

/// How the server of a model is queried, if it can be.
fn server_of(setup: &Setup, name: &str) -> Option<(Entry, provider::Settings)> {
    let loaded = &setup.loaded;
    let entry = loaded.catalogue.get(None, name).ok()?;
    let access = loaded.providers.get(&entry.model.provider)?;
    let is_own = access.kind == provider::Kind::Compatible;
    let settings = access.settings.as_ref().ok().filter(|_| is_own)?;
    Some((entry, settings.clone()))
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::fixture::sources;

    #[test]
    fn the_settings_say_how_many_slots_a_server_has_that_does_not_tell() {
        let sources = sources([
            ("providers.own.like", "openai-compatible"),
            ("providers.own.base_url", "http://127.0.0.1:9/v1"),
            ("providers.own.slots", "4"),
        ]);
        let setup = Setup::load(sources).unwrap();
        assert_eq!(slots_of(&setup, "own/a-model"), Some(4));
        assert_eq!(slots_of(&setup, "openai/a-model"), None);
    }

    #[test]
    fn a_server_without_an_answer_keeps_its_slots() {
        for (slots, has_answered, serial) in [
            (Some(4), true, Some(true)),
            (Some(4), false, Some(true)),
            (Some(1), true, Some(false)),
            (None, true, Some(false)),
            (None, false, None),
        ] {
            assert_eq!(is_serial(slots, has_answered), serial, "{slots:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_silent_server_is_queried_again_after_a_minute() {
        let (servers, silent, known) = (Servers::default(), "own/a".into(), "own/b".into());
        assert!(servers.is_due(&silent) && servers.is_due(&known));
        servers.rest(&silent, SILENT);
        servers.rest(&known, FRESH);
        assert!(!servers.is_due(&silent), "it was asked just now");
        advance(SILENT).await;
        assert!(servers.is_due(&silent) && !servers.is_due(&known));
        advance(FRESH - SILENT).await;
        assert!(servers.is_due(&known));
    }
}
