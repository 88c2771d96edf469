//! Callbacks (push notifications): addresses that receive the states of a task.
//!
//! Each delivery has the whole task, so a repeated or missed one does no harm. Callbacks are stored
//! until their task has ended, or the token that registered them is revoked or expires: in a file of
//! the store's directory, or in the database of a cluster, where the new owner of a session continues
//! the deliveries. After a start, the current state is delivered.

mod storage;

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex, PoisonError};

use a2a::{
    ListTaskPushNotificationConfigsRequest, ListTaskPushNotificationConfigsResponse,
    TaskPushNotificationConfig,
};
use axum::http::HeaderValue;
use serde::{Deserialize, Serialize};
use tokio_util::sync::CancellationToken;
use tokio_util::task::TaskTracker;
use unisono::Callback;
use unisono::tasks::TaskId;
use unisono_api::token::Scope;
use unisono_context::digest::Hasher;

use super::A2a;
use super::deliver::{self, Delivery};
use super::error::{Error, Kind};
use super::operations::{check_tenant, non_empty, task_ended};

/// The file in the store's directory.
const FILE: &str = "callbacks";
/// Callbacks of one task, and of all tasks, at most.
const OF_TASK: usize = 8;
const IN_ALL: usize = 1_024;
/// Bytes of the longest id, token and credentials.
const ID_BYTES: usize = 64;
const TOKEN_BYTES: usize = 1_024;
const CREDENTIALS_BYTES: usize = 8_192;
/// Hex digits of an id that this server creates.
const ID_DIGITS: usize = 32;

/// A callback by its task and its id.
type Name = (TaskId, String);

/// A stored callback.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
struct Registration {
    config: TaskPushNotificationConfig,
    /// Whether this server made the token. Such a token signs deliveries and is not sent.
    is_token_made: bool,
    /// The digest of the token that registered it; none: the daemon's own token, or a user of a proxy.
    /// A callback of an earlier version has none, and its stored text must stay the same.
    #[serde(skip_serializing_if = "Option::is_none")]
    registrant: Option<String>,
}

impl Registration {
    fn name(&self) -> Option<Name> {
        let task = self.config.task_id.parse().ok()?;
        Some((task, self.config.id.clone()?))
    }
}

#[derive(Debug)]
pub(super) struct Callbacks {
    hosts: Vec<String>,
    file: PathBuf,
    registrations: Mutex<BTreeMap<Name, (Registration, CancellationToken)>>,
    /// The removed callbacks that the file may still have: it could not be written.
    removed: Mutex<BTreeSet<Name>>,
    /// The stored callbacks that cannot be resumed, and are logged.
    not_resumed: Mutex<BTreeSet<Name>>,
    /// Held while a callback changes in memory and in the store, and while stored ones are read and
    /// resumed.
    changing: tokio::sync::Mutex<()>,
    work: TaskTracker,
    stop: CancellationToken,
}

impl Callbacks {
    /// Opens the callbacks; none if no host is allowed or there is no directory for callbacks.
    pub(super) fn open(hosts: &[String], directory: Option<&Path>) -> Option<Callbacks> {
        let directory = directory.filter(|_| !hosts.is_empty())?;
        Some(Callbacks {
            hosts: hosts.to_vec(),
            file: directory.join(FILE),
            registrations: Mutex::default(),
            removed: Mutex::default(),
            not_resumed: Mutex::default(),
            changing: tokio::sync::Mutex::default(),
            work: TaskTracker::new(),
            stop: CancellationToken::new(),
        })
    }

    fn with_registrations<T>(
        &self,
        look: impl FnOnce(&mut BTreeMap<Name, (Registration, CancellationToken)>) -> T,
    ) -> T {
        // No panic leaves the map inconsistent.
        look(
            &mut self
                .registrations
                .lock()
                .unwrap_or_else(PoisonError::into_inner),
        )
    }

    fn check(&self, config: &TaskPushNotificationConfig, field: &str) -> Result<Callback, Error> {
        let field = |name: &str| match field.is_empty() {
            true => name.to_owned(),
            false => format!("{field}.{name}"),
        };
        let id = non_empty(&config.id).unwrap_or_default();
        let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._".contains(&byte);
        if id.len() > ID_BYTES || !id.bytes().all(is_plain) {
            let why = format!("has at most {ID_BYTES} letters, digits, and -._");
            return Err(Error::field(field("id"), why));
        }
        let token = non_empty(&config.token).unwrap_or_default();
        if token.len() > TOKEN_BYTES || HeaderValue::from_str(token).is_err() {
            let why = format!("must be {TOKEN_BYTES} bytes at most that a header can have");
            return Err(Error::field(field("token"), why));
        }
        if let Some(how) = &config.authentication {
            let credentials = non_empty(&how.credentials).unwrap_or_default();
            let is_scheme = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+".contains(&byte);
            let is_short = how.scheme.len() <= ID_BYTES && credentials.len() <= CREDENTIALS_BYTES;
            let is_scheme = !how.scheme.is_empty() && how.scheme.bytes().all(is_scheme);
            if !is_short || !is_scheme || HeaderValue::from_str(credentials).is_err() {
                let why = "must be a scheme of HTTP with its credentials";
                return Err(Error::field(field("authentication"), why));
            }
        }
        let url = Callback::new(&config.url, &self.hosts);
        url.map_err(|why| Error::field(field("url"), why))
    }

    /// Stores a callback, replacing one with the same id. The caller starts its delivery.
    fn keep(&self, name: &Name, registration: Registration) -> Result<CancellationToken, Error> {
        self.with_registrations(|all| {
            let of_task = all.keys().filter(|(task, _)| *task == name.0).count();
            if !all.contains_key(name) && (of_task >= OF_TASK || all.len() >= IN_ALL) {
                return Err(too_many());
            }
            let stop = self.stop.child_token();
            let before = all.insert(name.clone(), (registration, stop.clone()));
            if let Some((_, before)) = before {
                before.cancel();
            }
            Ok(stop)
        })
    }

    /// Refuses a further callback if there are too many.
    fn check_count(&self) -> Result<(), Error> {
        match self.with_registrations(|all| all.len() < IN_ALL) {
            true => Ok(()),
            false => Err(too_many()),
        }
    }

    /// Whether there are deliveries for this stored registration already.
    fn delivers(&self, name: &Name, stored: &Registration) -> bool {
        // A field may be empty or missing.
        let text = |of: &Registration| serde_json::to_string(of).ok();
        self.with_registrations(|all| {
            let known = all.get(name);
            known.is_some_and(|(known, _)| text(known) == text(stored))
        })
    }

    /// Whether it is new that a stored callback cannot be resumed.
    fn is_news(&self, name: Name) -> bool {
        let mut known = self
            .not_resumed
            .lock()
            .unwrap_or_else(PoisonError::into_inner);
        known.len() < IN_ALL && known.insert(name)
    }

    /// Removes a callback; with `only`, only if it is still this registration.
    fn forget(&self, name: &Name, only: Option<&Registration>) {
        self.with_registrations(|all| {
            let is_it = |registration: &Registration| only.is_none_or(|only| only == registration);
            if all
                .get(name)
                .is_some_and(|(registration, _)| is_it(registration))
                && let Some((_, stop)) = all.remove(name)
            {
                stop.cancel();
            }
        });
    }
}

fn too_many() -> Error {
    let message = format!("too many callbacks: at most {OF_TASK} per task and {IN_ALL} in all");
    Error::new(Kind::Busy, message)
}

/// A callback for the client that registers it.
fn without_credentials(registration: &Registration) -> TaskPushNotificationConfig {
    let mut config = registration.config.clone();
    if let Some(how) = &mut config.authentication {
        how.credentials = None;
    }
    config
}

impl A2a {
    /// The callbacks, if there can be any.
    pub(super) fn callbacks(&self) -> Result<&Callbacks, Error> {
        let none = || {
            let message = "this server sends no callbacks; set the allowed hosts in \
                           `server.callback_hosts`";
            Error::new(Kind::PushNotificationNotSupported, message)
        };
        self.callbacks.as_deref().ok_or_else(none)
    }

    /// Refuses an invalid callback in a message before the message has any effect; if it `begins` a task,
    /// also one callback too many. A message to a task may repeat its callback.
    pub(super) fn check_callback(
        &self,
        config: &TaskPushNotificationConfig,
        begins: bool,
    ) -> Result<(), Error> {
        let field = "configuration.taskPushNotificationConfig";
        let callbacks = self.callbacks()?;
        callbacks.check(config, field)?;
        match begins {
            true => callbacks.check_count(),
            false => Ok(()),
        }
    }

    /// Registers a callback of a task and starts its delivery. Repeating a registration changes
    /// nothing.
    pub(super) async fn create_callback(
        self: &Arc<A2a>,
        mut config: TaskPushNotificationConfig,
    ) -> Result<TaskPushNotificationConfig, Error> {
        let callbacks = self.callbacks()?;
        check_tenant(config.tenant.as_deref())?;
        let callback = callbacks.check(&config, "")?;
        let look = self.look_for(&config.task_id).await?;
        if look.status().is_ended() {
            return Err(task_ended(&look));
        }
        let id = match non_empty(&config.id) {
            Some(id) => id.to_owned(),
            None => made_id(&config),
        };
        config.id = Some(id.clone());
        config.tenant = None;
        let _change = callbacks.changing.lock().await;
        let is_token_made = non_empty(&config.token).is_none();
        if is_token_made {
            let known = self.registration(callbacks, look.id, &id).await?;
            let known = known.filter(|known| known.is_token_made);
            config.token = Some(match known.and_then(|known| known.config.token) {
                Some(token) => token,
                None => secret()?,
            });
        }
        let (name, registration) = (
            (look.id, id),
            Registration {
                config,
                is_token_made,
                registrant: self.local.caller().token().map(|token| token.to_string()),
            },
        );
        let is_new = !callbacks.delivers(&name, &registration);
        if is_new {
            let stop = callbacks.keep(&name, registration.clone())?;
            // Also if the client goes before it is stored.
            self.deliver(name.clone(), registration.clone(), callback, stop);
        }
        if let Err(error) = self.write_callback(callbacks, &name, &registration).await {
            if is_new {
                callbacks.forget(&name, Some(&registration));
            }
            return Err(error);
        }
        Ok(without_credentials(&registration))
    }

    /// Delivers to a callback until its task has ended or its registrant may not read it any more.
    fn deliver(
        self: &Arc<A2a>,
        name: Name,
        registration: Registration,
        callback: Callback,
        stop: CancellationToken,
    ) {
        let Some(callbacks) = self.callbacks.clone() else {
            return;
        };
        let a2a = self.clone();
        let delivery = Delivery {
            task: name.0,
            callback,
            config: registration.config.clone(),
            is_token_sent: !registration.is_token_made,
            registrant: registration.registrant.clone(),
        };
        let work = callbacks.work.clone();
        work.spawn(async move {
            let deliveries = async {
                deliver::deliver_all(&a2a, delivery).await;
                callbacks.changing.lock().await
            };
            let Some(_change) = stop.run_until_cancelled(deliveries).await else {
                return;
            };
            callbacks.forget(&name, Some(&registration));
            if let Err(error) = a2a.erase_callback(&callbacks, &name, &registration).await {
                tracing::warn!(%error, "a callback that has ended cannot be deleted now");
            }
        });
    }

    /// A callback for the caller. Only a caller who may register callbacks sees the token: it signs
    /// deliveries.
    fn shown(&self, registration: &Registration) -> TaskPushNotificationConfig {
        let mut config = without_credentials(registration);
        if self.local.check_scope(Scope::Ask).is_err() {
            config.token = None;
        }
        config
    }

    pub(super) async fn callback(
        &self,
        task: &str,
        id: &str,
    ) -> Result<TaskPushNotificationConfig, Error> {
        let callbacks = self.callbacks()?;
        let look = self.look_for(task).await?;
        let found = self.registration(callbacks, look.id, id).await?;
        found.map(|one| self.shown(&one)).ok_or_else(|| {
            let message = format!("the task has no callback {id:?}");
            Error::new(Kind::TaskNotFound, message).with_detail("taskId", task)
        })
    }

    /// A page of the callbacks of a task, in the order of their ids.
    pub(super) async fn callbacks_of(
        &self,
        asked: &ListTaskPushNotificationConfigsRequest,
    ) -> Result<ListTaskPushNotificationConfigsResponse, Error> {
        let callbacks = self.callbacks()?;
        let size = match asked.page_size.map(usize::try_from) {
            None | Some(Ok(0)) => OF_TASK,
            Some(Ok(size)) => size,
            Some(Err(_)) => return Err(Error::field("pageSize", "must not be below 0")),
        };
        let look = self.look_for(&asked.task_id).await?;
        let all = self.registrations(callbacks, look.id).await?;
        let mut configs: Vec<_> = all.iter().map(|one| self.shown(one)).collect();
        configs.sort_by(|one, other| one.id.cmp(&other.id));
        if let Some(last) = non_empty(&asked.page_token) {
            configs.retain(|one| one.id.as_deref() > Some(last));
        }
        let has_more = configs.len() > size;
        configs.truncate(size);
        let last = configs.last().and_then(|last| last.id.clone());
        Ok(ListTaskPushNotificationConfigsResponse {
            configs,
            next_page_token: Some(last.filter(|_| has_more).unwrap_or_default()),
        })
    }

    /// Deletes a callback of a task, if it exists.
    pub(super) async fn delete_callback(&self, task: &str, id: &str) -> Result<(), Error> {
        let callbacks = self.callbacks()?;
        let look = self.look_for(task).await?;
        let name = (look.id, id.to_owned());
        let _change = callbacks.changing.lock().await;
        if !self.local.is_shared() {
            callbacks.forget(&name, None);
            // The file may have it also if it was not resumed.
            return callbacks.write(Some(&name)).await;
        }
        let Some(registration) = self.registration(callbacks, look.id, id).await? else {
            return Ok(());
        };
        callbacks.forget(&name, None);
        self.erase_callback(callbacks, &name, &registration).await
    }

    /// Resumes the deliveries of an earlier process or of another daemon. Those that go on here are left as
    /// they are.
    fn resume(self: &Arc<A2a>, callbacks: &Callbacks, all: Vec<Registration>) {
        for registration in all {
            let Some(name) = registration.name() else {
                continue;
            };
            let task = name.0;
            if callbacks.delivers(&name, &registration) {
                continue;
            }
            let kept = callbacks.check(&registration.config, "");
            let kept = kept
                .and_then(|callback| Ok((callback, callbacks.keep(&name, registration.clone())?)));
            match kept {
                Ok((callback, stop)) => self.deliver(name, registration, callback, stop),
                Err(error) => {
                    if callbacks.is_news(name) {
                        tracing::warn!(%task, %error, "the deliveries to a callback cannot be resumed");
                    }
                }
            }
        }
    }

    /// Stops the deliveries; the next process continues them.
    pub(crate) async fn stop(&self) {
        if let Some(callbacks) = &self.callbacks {
            callbacks.stop.cancel();
            callbacks.work.close();
            callbacks.work.wait().await;
        }
    }
}

/// The id of a callback that has none: the same for the same address and token.
fn made_id(config: &TaskPushNotificationConfig) -> String {
    let mut hasher = Hasher::new("unisono/a2a-callback", 1);
    hasher
        .bytes(config.url.as_bytes())
        .bytes(non_empty(&config.token).unwrap_or_default().as_bytes());
    let mut id = hasher.finish().to_string();
    id.truncate(ID_DIGITS);
    id
}

/// The secret that signs deliveries.
fn secret() -> Result<String, Error> {
    let mut bytes = [0_u8; 32];
    let filled = getrandom::fill(&mut bytes);
    filled.map_err(|error| Error::new(Kind::Internal, format!("no secret can be had: {error}")))?;
    Ok(bytes.iter().map(|byte| format!("{byte:02x}")).collect())
}

#[cfg(test)]
mod tests {
    use std::fs;

    use serde_json::{Value, json};

    use super::*;

    fn callbacks(directory: &Path) -> Callbacks {
        let hosts = ["hooks.example.com".to_owned()];
        Callbacks::open(&hosts, Some(directory)).unwrap()
    }

    fn config(more: Value) -> TaskPushNotificationConfig {
        let mut config = json!({"url": "https://hooks.example.com/a", "taskId": "t"});
        let fields = config.as_object_mut().unwrap();
        fields.extend(more.as_object().unwrap().clone());
        serde_json::from_value(config).unwrap()
    }

    #[test]
    fn callbacks_that_cannot_be_sent_are_refused_by_field() {
        let directory = tempfile::tempdir().unwrap();
        let callbacks = callbacks(directory.path());
        let auth = |scheme: &str, credentials: &str| json!({"authentication": {"scheme": scheme, "credentials": credentials}});
        callbacks.check(&config(json!({})), "").unwrap();
        callbacks.check(&config(auth("Bearer", "abc")), "").unwrap();
        for (more, field) in [
            (json!({"url": "https://evil.example/"}), "at.url"),
            (json!({"id": "a/b"}), "at.id"),
            (json!({"id": "a".repeat(65)}), "at.id"),
            (json!({"token": "a\r\nX-Evil: 1"}), "at.token"),
            (json!({"token": "a".repeat(1_025)}), "at.token"),
            (auth("", "x"), "at.authentication"),
            (auth("Bearer x", "x"), "at.authentication"),
            (auth("Bearer", "a\nb"), "at.authentication"),
        ] {
            let refused = callbacks
                .check(&config(more), "at")
                .unwrap_err()
                .to_string();
            assert!(refused.starts_with(field), "{refused}");
        }
        assert!(Callbacks::open(&[], Some(directory.path())).is_none());
        assert!(Callbacks::open(&["a.example".to_owned()], None).is_none());
    }

    #[test]
    fn a_callback_is_erased_by_the_text_with_which_an_earlier_version_stored_it() {
        let stored = serde_json::to_value(config(json!({"id": "a"}))).unwrap();
        let stored = json!({"config": stored, "is_token_made": true});
        let registration: Registration = serde_json::from_value(stored.clone()).unwrap();
        assert_eq!(registration.registrant, None);
        assert_eq!(serde_json::to_value(&registration).unwrap(), stored);
    }

    fn task() -> TaskId {
        TaskId {
            session: unisono_context::SessionId::from_u128(1),
            turn: unisono_context::TurnId::from_u128(2),
        }
    }

    fn registered(more: Value) -> Registration {
        let mut config = config(more);
        config.task_id = task().to_string();
        Registration {
            config,
            is_token_made: false,
            registrant: None,
        }
    }

    /// The door to a service in memory, with these callbacks, until the sender is dropped.
    async fn door(
        directory: &Path,
        callbacks: Arc<Callbacks>,
    ) -> (tokio::sync::watch::Sender<bool>, A2a) {
        let local = unisono::Local::builder()
            .directory(directory)
            .set("models.default", "extractive")
            .in_memory();
        let local = Arc::new(local.start().await.unwrap());
        let streams = Arc::new(tokio::sync::Semaphore::new(1));
        let (stop, stopping) = tokio::sync::watch::channel(false);
        let a2a = A2a {
            callbacks: Some(callbacks),
            ..A2a::new(&local, &streams, &stopping)
        };
        (stop, a2a)
    }

    #[tokio::test]
    async fn a_callback_that_is_replaced_while_stored_ones_are_read_stays_the_new_one() {
        let directory = tempfile::tempdir().unwrap();
        let callbacks = Arc::new(callbacks(directory.path()));
        let (_stop, a2a) = door(directory.path(), callbacks.clone()).await;
        let a2a = Arc::new(a2a);
        let name = (task(), "a".to_owned());
        let [old, new] = ["one", "two"].map(|token| registered(json!({"id": "a", "token": token})));
        callbacks.keep(&name, old).unwrap();
        callbacks.write(None).await.unwrap();
        let change = callbacks.changing.lock().await;
        let mut resuming = std::pin::pin!(a2a.clone().resume_callbacks(None));
        let mut context = std::task::Context::from_waker(std::task::Waker::noop());
        assert!(resuming.as_mut().poll(&mut context).is_pending());
        let stop = callbacks.keep(&name, new.clone()).unwrap();
        callbacks.write(None).await.unwrap();
        drop(change);
        resuming.await;
        assert!(callbacks.delivers(&name, &new) && !stop.is_cancelled());
    }

    #[tokio::test]
    async fn a_message_to_a_task_may_have_its_callback_also_if_there_are_too_many() {
        let directory = tempfile::tempdir().unwrap();
        let callbacks = callbacks(directory.path());
        for turn in 0..IN_ALL {
            let turn = unisono_context::TurnId::from_u128(turn as u128);
            let name = (TaskId { turn, ..task() }, "a".to_owned());
            callbacks
                .keep(&name, registered(json!({"id": "a"})))
                .unwrap();
        }
        let (_stop, a2a) = door(directory.path(), Arc::new(callbacks)).await;
        let callback = config(json!({"id": "a"}));
        a2a.check_callback(&callback, false).unwrap();
        let refused = a2a.check_callback(&callback, true).unwrap_err();
        assert_eq!(refused.kind, Kind::Busy);
    }

    #[tokio::test]
    async fn callbacks_that_a_process_has_not_resumed_stay_stored() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = ["a", "b"].map(|id| (task(), id.to_owned()));
        let before = callbacks(directory.path());
        before.keep(&first, registered(json!({"id": "a"}))).unwrap();
        before.write(None).await.unwrap();
        // Such as that of an editor, which resumes none.
        let other = callbacks(directory.path());
        other.keep(&second, registered(json!({"id": "b"}))).unwrap();
        other.write(None).await.unwrap();
        assert_eq!(other.read().len(), 2);
        other.forget(&second, None);
        other.write(Some(&second)).await.unwrap();
        let left = other.read();
        let left: Vec<Option<Name>> = left.iter().map(Registration::name).collect();
        assert_eq!(left, [Some(first)]);
    }

    #[tokio::test]
    async fn a_callback_that_could_not_be_removed_is_removed_later() {
        let directory = tempfile::tempdir().unwrap();
        let mut callbacks = callbacks(directory.path());
        let [first, second] = ["a", "b"].map(|id| (task(), id.to_owned()));
        callbacks
            .keep(&first, registered(json!({"id": "a"})))
            .unwrap();
        callbacks.write(None).await.unwrap();
        // Nothing can be written below a file.
        let below = callbacks.file.join(FILE);
        let file = std::mem::replace(&mut callbacks.file, below);
        callbacks.forget(&first, None);
        callbacks.write(Some(&first)).await.unwrap_err();
        callbacks.file = file;
        callbacks
            .keep(&second, registered(json!({"id": "b"})))
            .unwrap();
        callbacks.write(None).await.unwrap();
        let left = callbacks.read();
        let left: Vec<Option<Name>> = left.iter().map(Registration::name).collect();
        assert_eq!(left, [Some(second)]);
    }

    #[tokio::test]
    async fn callbacks_are_kept_and_bounded() {
        let directory = tempfile::tempdir().unwrap();
        let before = callbacks(directory.path());
        let task = task();
        let registration = |n: usize| registered(json!({"id": n.to_string()}));
        for n in 0..OF_TASK {
            before
                .keep(&(task, n.to_string()), registration(n))
                .unwrap();
        }
        let more = before
            .keep(&(task, "more".into()), registration(9))
            .unwrap_err();
        assert_eq!(more.kind, Kind::Busy);
        // Another one of the same id stops the first.
        let name = (task, "0".to_owned());
        assert!(before.delivers(&name, &registration(0)));
        assert!(!before.delivers(&name, &registration(1)));
        assert!(before.is_news(name.clone()) && !before.is_news(name));
        let first = before.keep(&(task, "0".into()), registration(0)).unwrap();
        let second = before.keep(&(task, "0".into()), registration(0)).unwrap();
        assert!(first.is_cancelled() && !second.is_cancelled());
        before.write(None).await.unwrap();
        let after = callbacks(directory.path());
        assert_eq!(after.read().len(), OF_TASK);
        for turn in 0..IN_ALL {
            after.check_count().unwrap();
            let turn = unisono_context::TurnId::from_u128(turn as u128);
            let name = (TaskId { turn, ..task }, "0".to_owned());
            after.keep(&name, registration(0)).unwrap();
        }
        assert_eq!(after.check_count().unwrap_err().kind, Kind::Busy);
        let name = (task, "0".to_owned());
        before.forget(&name, None);
        assert!(second.is_cancelled());
        before.write(Some(&name)).await.unwrap();
        assert_eq!(after.read().len(), OF_TASK - 1);
        fs::write(directory.path().join(FILE), "nonsense").unwrap();
        assert!(after.read().is_empty());
    }
}
