//! The storage of callbacks: a file in the store's directory, or the database of a cluster.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::sync::{Arc, PoisonError};
use std::{fs, io};

use unisono::tasks::TaskId;
use unisono_context::SessionId;
use unisono_store::private::write_atomically;

use super::super::A2a;
use super::super::error::{Error, Kind};
use super::{Callbacks, IN_ALL, Name, Registration};

impl Callbacks {
    /// Writes all callbacks to the file, without a removed one. Those of the file that this process has
    /// not resumed stay.
    pub(super) async fn write(&self, removed: Option<&Name>) -> Result<(), Error> {
        let own: BTreeMap<Name, Registration> = self.with_registrations(|all| {
            let each = all.iter();
            each.map(|(name, (registration, _))| (name.clone(), registration.clone()))
                .collect()
        });
        let gone = self.with_removed(|all| {
            all.extend(removed.cloned());
            all.clone()
        });
        let file = self.file.clone();
        let written = tokio::task::spawn_blocking(move || {
            let is_other = |name: &Name| !gone.contains(name) && !own.contains_key(name);
            let others = read(&file).into_iter();
            let others = others.filter(|stored| stored.name().as_ref().is_some_and(is_other));
            let all = others.take(IN_ALL).chain(own.values().cloned());
            let all: Vec<Registration> = all.collect();
            let text = serde_json::to_string(&all).map_err(io::Error::other)?;
            write_atomically(&file, &text)
        });
        let written = written.await.map_err(io::Error::other);
        let written = written.and_then(|done| done);
        written.map_err(|error| not_stored(&error))?;
        self.with_removed(BTreeSet::clear);
        Ok(())
    }

    fn with_removed<T>(&self, look: impl FnOnce(&mut BTreeSet<Name>) -> T) -> T {
        // No panic leaves the set inconsistent.
        look(&mut self.removed.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Reads the callbacks of the file.
    pub(super) fn read(&self) -> Vec<Registration> {
        read(&self.file)
    }

    /// Stops all deliveries in this process. The stored callbacks stay.
    fn leave_all(&self) {
        self.with_registrations(|all| {
            for (_, stop) in std::mem::take(all).into_values() {
                stop.cancel();
            }
        });
    }
}

impl A2a {
    /// The callbacks of a task. In a cluster only the owner of the session has them in memory.
    pub(super) async fn registrations(
        &self,
        callbacks: &Callbacks,
        task: TaskId,
    ) -> Result<Vec<Registration>, Error> {
        if !self.local.is_shared() {
            return Ok(callbacks.with_registrations(|all| {
                let own = all.iter().filter(|((of, _), _)| *of == task);
                own.map(|(_, (registration, _))| registration.clone())
                    .collect()
            }));
        }
        let kept = self.local.kept_callbacks(Some(vec![task.session])).await?;
        let all = kept.iter().map(|text| serde_json::from_str(text));
        let all = all.filter_map(|read: Result<Registration, _>| read.ok());
        Ok(all
            .filter(|one| one.config.task_id.parse() == Ok(task))
            .collect())
    }

    /// The callback of a task with this id.
    pub(super) async fn registration(
        &self,
        callbacks: &Callbacks,
        task: TaskId,
        id: &str,
    ) -> Result<Option<Registration>, Error> {
        let all = self.registrations(callbacks, task).await?;
        let mut all = all.into_iter();
        Ok(all.find(|one| one.config.id.as_deref() == Some(id)))
    }

    pub(super) async fn write_callback(
        &self,
        callbacks: &Callbacks,
        name: &Name,
        registration: &Registration,
    ) -> Result<(), Error> {
        if !self.local.is_shared() {
            return callbacks.write(None).await;
        }
        let (session, row, text) = row(name, registration);
        let put = self.local.keep_callback(session, row, text).await;
        put.map_err(|error| not_stored(&error))
    }

    pub(super) async fn erase_callback(
        &self,
        callbacks: &Callbacks,
        name: &Name,
        registration: &Registration,
    ) -> Result<(), Error> {
        if !self.local.is_shared() {
            return callbacks.write(Some(name)).await;
        }
        let (session, row, text) = row(name, registration);
        let forgotten = self.local.forget_callback(session, row, text).await;
        forgotten.map_err(|error| not_stored(&error))
    }

    /// Resumes the deliveries of an earlier process, or the deliveries for `sessions` of another
    /// daemon.
    pub(crate) async fn resume_callbacks(self: Arc<A2a>, sessions: Option<Vec<SessionId>>) {
        let Ok(callbacks) = self.callbacks() else {
            return;
        };
        let _change = callbacks.changing.lock().await;
        if !self.local.is_shared() {
            return self.resume(callbacks, callbacks.read());
        }
        match self.local.kept_callbacks(sessions).await {
            Ok(texts) => {
                let registration = texts.iter().map(|text| serde_json::from_str(text));
                let registration = registration.inspect(|registration: &Result<Registration, _>| {
                    if let Err(error) = registration {
                        tracing::warn!(%error, "a stored callback is damaged and gets no notifications");
                    }
                });
                self.resume(callbacks, registration.flatten().collect());
            }
            Err(error) => {
                tracing::warn!(%error, "the callbacks cannot be read from the database; open tasks send no notifications")
            }
        }
    }

    /// Stops all deliveries; the daemons that take over the sessions resume them.
    pub(crate) fn leave_callbacks(&self) {
        if let Ok(callbacks) = self.callbacks() {
            callbacks.leave_all();
        }
    }
}

fn read(file: &Path) -> Vec<Registration> {
    let text = match fs::read_to_string(file) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Vec::new(),
        Err(error) => {
            tracing::warn!(%error, "the file of callbacks cannot be read; open tasks send no notifications");
            return Vec::new();
        }
    };
    serde_json::from_str(&text).unwrap_or_else(|error| {
        tracing::warn!(%error, file = %file.display(), "the file of callbacks is damaged; open tasks send no notifications");
        Vec::new()
    })
}

/// A row of the database: the session, the name of the callback in the session, and its JSON.
fn row((task, id): &Name, registration: &Registration) -> (SessionId, String, String) {
    // Serialisation of a callback does not fail.
    let text = serde_json::to_string(registration).unwrap_or_default();
    (task.session, format!("{}/{id}", task.turn), text)
}

fn not_stored(error: &dyn std::fmt::Display) -> Error {
    let message = format!("the callback cannot be stored: {error}");
    Error::new(Kind::Unavailable, message)
}
