//! The audit log.

use async_trait::async_trait;
use unisono_api::audit::{AuditEntry, AuditQuery, DAEMON};
use unisono_api::service::{self, Audit};
use unisono_api::token::{Scope, is_name};
use unisono_api::{Code, Page};
use unisono_context::Timestamp;
use unisono_runtime::clock;
use unisono_search::{Bound, instant};
use unisono_store::audit::{Action, Cause, Entry, Position, read};

use super::no_cursor;
use crate::Local;
use crate::audit::retention;
use crate::error::Error;
use crate::values;

#[async_trait]
impl Audit for Local {
    async fn audit(&self, query: &AuditQuery) -> service::Result<Page<AuditEntry>> {
        self.check_scope(Scope::Admin)?;
        let now = clock::now();
        let retention = retention(&self.setup().loaded.config.audit);
        let since = parse_since(query, now)?.max(retention.oldest(now));
        let before = query.cursor.as_deref().map(position).transpose()?;
        let caller = query.caller.as_deref();
        if let Some(caller) = caller.filter(|caller| !is_name(caller)) {
            let detail = format!(
                "`caller`: {caller:?} is not a valid name of a token or a person; the daemon's own token is {DAEMON:?}"
            );
            return Err(service::Error::new(Code::Refused, detail));
        }
        self.audit_log().flush().await;
        let matches = |entry: &Entry| match (caller, entry) {
            (None, _) => true,
            (Some(caller), Entry::Action { action }) => action.caller.as_deref() == Some(caller),
            (Some(_), _) => false,
        };
        let limit = Page::<()>::size(query.limit);
        let journal = self.whole_journal();
        let part = read(&journal, before, since, limit, matches).await;
        let part = part.map_err(Error::from)?;
        let entries = part.entries.into_iter();
        Ok(Page {
            items: entries.map(|(_, entry)| to_api(entry)).collect(),
            next: part
                .next
                .map(|next| format!("{}:{}", next.generation, next.seq)),
        })
    }
}

fn parse_since(query: &AuditQuery, now: Timestamp) -> Result<Timestamp, Error> {
    let Some(since) = query.since.as_deref() else {
        return Ok(Timestamp(0));
    };
    let since = instant(since, now, Bound::Since);
    since.map_err(|reason| Error::new(Code::Refused, format!("`since`: {reason}")))
}

fn position(cursor: &str) -> Result<Position, Error> {
    let parts = cursor.split_once(':');
    let parts = parts.and_then(|(generation, seq)| {
        Some(Position {
            generation: generation.parse().ok()?,
            seq: seq.parse().ok()?,
        })
    });
    parts.ok_or_else(|| no_cursor(cursor))
}

fn to_api(entry: Entry) -> AuditEntry {
    let at = values::instant(entry.time());
    let text = |text: std::sync::Arc<str>| text.to_string();
    match entry {
        Entry::Action { action } => {
            let Action {
                caller,
                owner,
                method,
                route,
                operation,
                object,
                status,
                ..
            } = action;
            let object = object.into_iter();
            AuditEntry {
                at,
                caller: caller.map(text),
                owner: owner.map(text),
                method: Some(method.to_string()),
                route: Some(route.to_string()).filter(|route| !route.is_empty()),
                operation: operation.map(text),
                object: object.map(|(kind, id)| (text(kind), text(id))).collect(),
                status,
                omitted: None,
                cause: None,
            }
        }
        Entry::Omitted { count, cause, .. } => AuditEntry {
            omitted: Some(count),
            cause: Some(cause_name(cause).to_owned()),
            ..nothing(at)
        },
        // Reads do not return it.
        Entry::Began { .. } => nothing(at),
    }
}

const fn cause_name(cause: Cause) -> &'static str {
    match cause {
        Cause::Refusals => "refusals",
        Cause::Queue => "queue",
    }
}

fn nothing(at: String) -> AuditEntry {
    AuditEntry {
        at,
        ..AuditEntry::default()
    }
}
