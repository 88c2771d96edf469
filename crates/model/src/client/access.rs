//! The key of a provider, with the connections that send it. If the provider refuses the key, its
//! file is read again: secret managers replace the contents of such files.

use std::sync::{Arc, PoisonError, RwLock};

use tokio::task::spawn_blocking;

use super::secrets::Secrets;
use super::{Error, transport};
use crate::provider::{Auth, Key, KeySource, Settings};

/// A key, and the connections that send it.
pub(super) struct Access {
    auth: Auth,
    pub(super) http: reqwest::Client,
    pub(super) secrets: Secrets,
}

/// The access with the newest known key. Clones share it.
#[derive(Clone)]
pub(super) struct CurrentAccess(Arc<RwLock<Arc<Access>>>);

impl CurrentAccess {
    pub(super) fn new(settings: &Settings) -> Result<CurrentAccess, Error> {
        let access = Access {
            auth: settings.auth.clone(),
            http: transport::connections(settings)?,
            secrets: Secrets::new(settings),
        };
        Ok(CurrentAccess(Arc::new(RwLock::new(Arc::new(access)))))
    }

    pub(super) fn get(&self) -> Arc<Access> {
        let access = self.0.read().unwrap_or_else(PoisonError::into_inner);
        access.clone()
    }

    /// Whether there is another key than the refused one. Reads its file if no other request has
    /// found one.
    pub(super) async fn is_renewed(&self, refused: &Arc<Access>, settings: &Settings) -> bool {
        if !Arc::ptr_eq(refused, &self.get()) {
            return true;
        }
        let provider = &*settings.name;
        let (refused, settings) = (refused.clone(), settings.clone());
        match spawn_blocking(move || refused.renewed(settings)).await {
            Ok(Ok(Some(access))) => {
                tracing::info!(provider, "the key was refused; its file has another one");
                *self.0.write().unwrap_or_else(PoisonError::into_inner) = Arc::new(access);
                true
            }
            Ok(Err(reason)) => {
                tracing::warn!(provider, %reason, "the key was refused and not read again");
                false
            }
            Ok(Ok(None)) | Err(_) => false,
        }
    }
}

impl Access {
    /// The access with the key that the file of this one has now, if it is another key.
    fn renewed(&self, settings: Settings) -> Result<Option<Access>, String> {
        let Some(old) = self.auth.key() else {
            return Ok(None);
        };
        let KeySource::File(path) = old.source() else {
            return Ok(None);
        };
        let key = Key::from_file(path).map_err(|error| error.to_string())?;
        if key.expose() == old.expose() {
            return Ok(None);
        }
        let settings = Settings {
            auth: self.auth.with_key(key),
            ..settings
        };
        // Requests with the old key may still be answered.
        let old = [old.expose().to_owned()];
        Ok(Some(Access {
            http: transport::connections(&settings).map_err(|error| error.to_string())?,
            secrets: Secrets::with_more(&settings, &old),
            auth: settings.auth,
        }))
    }
}
