//! Collects the audit entry of a request.
//!
//! The guard creates a [`Note`] for each request and records it when the request is answered or its
//! client disconnects, so no route can omit it. Later stages add the caller, the route, and the tool
//! or operation. A note has names and ids, never content.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use axum::http::Extensions;
use unisono::caller::Caller;
use unisono_api::audit::{DAEMON, is_short_name};
use unisono_runtime::clock;
use unisono_store::audit::Action;
use uuid::Uuid;

/// The collected data of a request, in its extensions.
#[derive(Clone, Debug, Default)]
pub(crate) struct Note(Arc<Mutex<Fields>>);

#[derive(Debug, Default)]
struct Fields {
    caller: Option<Arc<str>>,
    owner: Option<Arc<str>>,
    route: Option<Arc<str>>,
    operation: Option<&'static str>,
    object: Vec<(&'static str, String)>,
    is_refused: bool,
    is_passed_on: bool,
    is_dry_run: bool,
}

impl Note {
    /// The note of a request; a new one that is never recorded if the request has none.
    pub(crate) fn from_extensions(extensions: &Extensions) -> Note {
        extensions.get::<Note>().cloned().unwrap_or_default()
    }

    fn fields(&self) -> MutexGuard<'_, Fields> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn set_caller(&self, caller: &Caller) {
        let mut known = self.fields();
        known.caller = Some(caller.name().cloned().unwrap_or_else(|| DAEMON.into()));
        known.owner = caller.owner().cloned();
    }

    pub(crate) fn set_route(&self, route: &str) {
        self.fields().route = Some(route.into());
    }

    /// Sets the MCP tool or A2A operation that makes a change, with the ids in its arguments.
    pub(crate) fn operation(&self, name: &'static str, object: Vec<(&'static str, String)>) {
        let mut known = self.fields();
        known.operation = Some(name);
        known.object = object;
    }

    /// Sets the names of the object that a request concerns, besides those in its path.
    pub(crate) fn set_object(&self, object: Vec<(&'static str, String)>) {
        self.fields().object = object;
    }

    /// Marks the operation as refused; the HTTP status does not show it.
    pub(crate) fn refused(&self) {
        self.fields().is_refused = true;
    }

    /// Marks the request as forwarded: the other daemon records it.
    pub(crate) fn passed_on(&self) {
        self.fields().is_passed_on = true;
    }

    /// Marks the request as a dry run: it changes nothing.
    pub(crate) fn dry_run(&self) {
        self.fields().is_dry_run = true;
    }

    pub(crate) fn route(&self) -> Option<Arc<str>> {
        self.fields().route.clone()
    }

    /// The entry; none if nothing was changed or refused. `status` is the HTTP status of the answer;
    /// none if the client disconnected before it.
    pub(crate) fn entry(
        &self,
        method: &str,
        path: &str,
        status: Option<u16>,
        changes: Changes,
    ) -> Option<Action> {
        let known = self.fields();
        let status = if known.is_refused { Some(403) } else { status };
        let is_refused = matches!(status, Some(401 | 403 | 429));
        let is_change = match changes {
            Changes::Always => known.route.is_some() && !known.is_dry_run,
            Changes::ByOperation => known.operation.is_some(),
            Changes::Never => false,
        };
        if known.is_passed_on || !(is_change || is_refused) {
            return None;
        }
        let route = known.route.as_deref().unwrap_or_default();
        let named = known.object.iter();
        let named = named.map(|(kind, id)| (*kind, id.as_str()));
        let object = path_ids(route, path).chain(named);
        let object = object.filter(|(_, id)| is_loggable(id, status));
        Some(Action {
            at: clock::now(),
            caller: known.caller.clone(),
            owner: known.owner.clone(),
            method: method.into(),
            route: route.into(),
            operation: known.operation.map(Into::into),
            object: object
                .map(|(kind, id)| (kind.into(), id.into()))
                .collect::<BTreeMap<Arc<str>, Arc<str>>>(),
            status,
        })
    }
}

/// Whether a request to a route changes something.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Changes {
    Always,
    /// Only if an operation was noted.
    ByOperation,
    Never,
}

/// The parameters of a route's pattern with their values in a path.
fn path_ids<'r>(route: &'r str, path: &'r str) -> impl Iterator<Item = (&'r str, &'r str)> {
    let names = route.split('/').map(|part| {
        let name = part.strip_prefix('{')?.strip_suffix('}')?;
        Some(name.trim_start_matches('*'))
    });
    let each = names.zip(path.split('/'));
    // An action may follow the id of an A2A task.
    each.filter_map(|(name, part)| Some((name?, part.split(':').next().unwrap_or(part))))
}

/// Whether a value may be logged: an id, or a short name of an existing object. Other values may be
/// secrets.
fn is_loggable(value: &str, status: Option<u16>) -> bool {
    let is_id = value.split('.').all(|part| {
        part.len() == 36 && part.parse::<Uuid>().is_ok()
            || part.len() <= 10 && !part.is_empty() && part.bytes().all(|b| b.is_ascii_digit())
    });
    let is_known = status.is_some_and(|status| ![400, 401, 404, 405, 415, 422].contains(&status));
    is_id || is_known && is_short_name(value)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ID: &str = "0192f0c1-2b3c-7d4e-8f50-616263646566";

    #[test]
    fn ids_stand_in_the_log_and_what_could_be_a_secret_does_not() {
        let secret = format!("unisono_{}", "a".repeat(10));
        let hex = "0123456789abcdef".repeat(4);
        for (value, status, expected) in [
            (ID, 404, true),
            (&format!("{ID}.{ID}"), 200, true),
            ("17", 404, true),
            ("ada", 200, true),
            ("ada", 403, true),
            ("ada", 404, false),
            ("ada", 401, false),
            (&secret, 200, false),
            (&hex, 200, false),
            ("a%20b", 200, false),
            ("", 200, false),
        ] {
            assert_eq!(
                is_loggable(value, Some(status)),
                expected,
                "{value} {status}"
            );
        }
    }

    #[test]
    fn an_entry_has_the_ids_of_the_path_and_no_more() {
        let note = Note::default();
        note.set_caller(&Caller::default());
        let path = format!("/v1/sessions/{ID}/turns");
        let done = |changes| note.entry("POST", &path, Some(200), changes);
        assert_eq!(done(Changes::Always), None, "there is no such route");
        note.set_route("/v1/sessions/{session}/turns");
        assert_eq!(
            (done(Changes::Never), done(Changes::ByOperation)),
            (None, None)
        );
        let entry = done(Changes::Always).unwrap();
        assert_eq!(entry.caller.as_deref(), Some(DAEMON));
        assert_eq!(
            entry.object,
            BTreeMap::from([("session".into(), ID.into())])
        );
        note.passed_on();
        assert_eq!(done(Changes::Always), None);
        let note = Note::default();
        note.set_route("/v1/settings");
        note.dry_run();
        let entry = |status| note.entry("PATCH", "/v1/settings", Some(status), Changes::Always);
        assert!(entry(200).is_none() && entry(403).is_some());
    }

    #[test]
    fn an_object_in_the_body_is_named_if_it_exists() {
        let note = Note::default();
        note.set_route("/v1/tokens");
        let secret = format!("unisono_{}", "a".repeat(64));
        note.set_object(vec![("token", "ada".into()), ("owner", secret)]);
        let object = |status| {
            let entry = note.entry("POST", "/v1/tokens", Some(status), Changes::Always);
            entry.unwrap().object
        };
        assert_eq!(
            object(201),
            BTreeMap::from([("token".into(), "ada".into())])
        );
        assert_eq!(object(422), BTreeMap::new());
    }

    #[test]
    fn a_task_is_found_before_what_is_done_with_it() {
        let path = format!("/a2a/tasks/{ID}.{ID}:cancel");
        let ids: Vec<_> = path_ids("/a2a/tasks/{task}", &path).collect();
        assert_eq!(ids, [("task", &*format!("{ID}.{ID}"))]);
    }
}
