//! Where callbacks are kept: in a file of the store's directory, or in the database that several daemons
//! share.

use std::sync::Arc;
use std::{fs, io};

use unisono::replace::replace;
use unisono_context::SessionId;

use super::super::Door;
use super::super::error::{Error, Kind};
use super::{Callbacks, Kept, Name};

impl Callbacks {
    /// Puts all on disk.
    pub(super) async fn write(&self) -> Result<(), Error> {
        let _one = self.writing.lock().await;
        let all: Vec<Kept> = self.kept(|all| all.values().map(|(kept, _)| kept.clone()).collect());
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || {
            let text = serde_json::to_string(&all).map_err(io::Error::other)?;
            replace(&file, &text)
        });
        let written = written.await.map_err(io::Error::other);
        written
            .and_then(|done| done)
            .map_err(|error| unkept(&error))
    }

    /// Those of the file.
    pub(super) fn read(&self) -> Vec<Kept> {
        let text = match fs::read_to_string(&self.file) {
            Ok(text) => text,
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
            Err(error) => {
                tracing::warn!(%error, "callbacks of open tasks are not known");
                return Vec::new();
            }
        };
        serde_json::from_str(&text).unwrap_or_else(|error| {
            tracing::warn!(%error, file = %self.file.display(), "callbacks cannot be read");
            Vec::new()
        })
    }

    /// Tells none of them any more here. Where they are kept they stay.
    fn leave_all(&self) {
        self.kept(|all| {
            for (_, stop) in std::mem::take(all).into_values() {
                stop.cancel();
            }
        });
    }
}

impl Door {
    /// Keeps a callback until its task has ended.
    pub(super) async fn write_callback(
        &self,
        callbacks: &Callbacks,
        name: &Name,
        kept: &Kept,
    ) -> Result<(), Error> {
        if !self.local.is_shared() {
            return callbacks.write().await;
        }
        let (session, row, text) = row(name, kept);
        let put = self.local.keep_callback(session, row, text).await;
        put.map_err(|error| unkept(&error))
    }

    /// Keeps a callback no longer.
    pub(super) async fn erase_callback(
        &self,
        callbacks: &Callbacks,
        name: &Name,
        kept: &Kept,
    ) -> Result<(), Error> {
        if !self.local.is_shared() {
            return callbacks.write().await;
        }
        let (session, row, text) = row(name, kept);
        let forgotten = self.local.forget_callback(session, row, text).await;
        forgotten.map_err(|error| unkept(&error))
    }

    /// Goes on to tell the callbacks that an earlier process had; with sessions, those of sessions that
    /// another daemon left.
    pub(crate) async fn resume_callbacks(self: Arc<Door>, sessions: Option<Vec<SessionId>>) {
        let Ok(callbacks) = self.callbacks() else {
            return;
        };
        if !self.local.is_shared() {
            return self.resume(callbacks, callbacks.read());
        }
        match self.local.kept_callbacks(sessions).await {
            Ok(texts) => {
                let kept = texts.iter().map(|text| serde_json::from_str(text));
                let kept = kept.inspect(|kept: &Result<Kept, _>| {
                    if let Err(error) = kept {
                        tracing::warn!(%error, "a callback cannot be read");
                    }
                });
                self.resume(callbacks, kept.flatten().collect());
            }
            Err(error) => tracing::warn!(%error, "callbacks of open tasks are not known"),
        }
    }

    /// Leaves the callbacks of all sessions to the daemons that take the sessions over.
    pub(crate) fn leave_callbacks(&self) {
        if let Ok(callbacks) = self.callbacks() {
            callbacks.leave_all();
        }
    }
}

/// A callback in the database: its session, its name within that, and its text.
fn row((task, id): &Name, kept: &Kept) -> (SessionId, String, String) {
    // Serialising a callback does not fail.
    let text = serde_json::to_string(kept).unwrap_or_default();
    (task.session, format!("{}/{id}", task.turn), text)
}

fn unkept(error: &dyn std::fmt::Display) -> Error {
    let message = format!("the callback cannot be kept: {error}");
    Error::new(Kind::Unavailable, message)
}
