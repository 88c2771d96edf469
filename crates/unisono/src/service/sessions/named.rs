//! Finds sessions by name: an id, its beginning or its end, or `latest`.

use std::cmp::Reverse;

use unisono_api::Code;
use unisono_context::SessionId;
use unisono_session::{Event, Fact};
use unisono_store::SessionInfo;

use crate::Local;
use crate::error::Error;
use crate::history;
use crate::labels::MCP_CHANNEL;

/// Minimum number of characters of an id's end that identify it.
const LEAST_END: usize = 4;
/// Sessions whose first events are read at a time.
const FIRSTS: usize = 32;

/// The sessions that match a name: an id, its beginning or its end, or `latest`. A complete id needs no
/// list of the sessions.
pub(super) async fn find_named(local: &Local, name: &str) -> Result<Vec<SessionInfo>, Error> {
    if let Ok(id) = name.parse::<SessionId>() {
        let found = local.journal().session(id).await?;
        return Ok(found.into_iter().collect());
    }
    let mut all = history::all_sessions(local.journal()).await?;
    all.retain(|found| name == "latest" || is_meant(name, &found.id()));
    if name != "latest" {
        return Ok(all);
    }
    all.sort_by_key(|found| Reverse((found.updated_unix_ms, found.id())));
    for part in all.chunks(FIRSTS) {
        let ids: Vec<SessionId> = part.iter().map(SessionInfo::id).collect();
        let firsts = local.journal().first_events(&ids).await?;
        let own = firsts
            .iter()
            .position(|first| !first.as_ref().is_some_and(is_of_client));
        if let Some(own) = own {
            return Ok(vec![part[own]]);
        }
    }
    Ok(Vec::new())
}

/// The session with this id, or the only one whose id begins or ends with it.
///
/// # Errors
/// No session or several sessions match.
pub async fn find_only(local: &Local, name: &str) -> Result<SessionId, Error> {
    if let Ok(whole) = name.parse() {
        return Ok(whole);
    }
    let found = find_named(local, name).await?;
    match found[..] {
        [one] => Ok(one.id()),
        [] => {
            let detail = format!("no id of a session begins or ends with {name:?}");
            Err(Error::new(Code::NotFound, detail))
        }
        _ => {
            let detail = format!("{name:?} is a part of several session ids: write more of it");
            Err(Error::new(Code::Refused, detail))
        }
    }
}

/// Whether an id begins or ends with the name, ignoring hyphens.
pub fn is_meant(name: &str, id: &impl ToString) -> bool {
    let plain = |text: &str| text.replace('-', "").to_lowercase();
    let (name, id) = (plain(name), plain(&id.to_string()));
    let end = name.len() >= LEAST_END && id.ends_with(&name);
    !name.is_empty() && (id.starts_with(&name) || end)
}

/// Whether this is the first event of a session that an MCP client created.
pub(in crate::service) fn is_of_client(first: &Event) -> bool {
    let (key, value) = MCP_CHANNEL;
    match &first.fact {
        Fact::Created { labels, .. } => labels.get(key).is_some_and(|label| **label == *value),
        _ => false,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::Ordering;

    use super::*;
    use crate::fixture::Counting;

    #[tokio::test]
    async fn a_session_with_a_complete_id_is_found_without_a_list() {
        let (engine, local) = Counting::with_three_sessions().await;
        let whole = SessionId::from_u128(2).to_string();
        let plain = whole.replace('-', "");
        let missing = SessionId::from_u128(9).to_string();
        for (name, found, lists) in [
            (&*whole, 1, false),
            (&*plain, 1, false),
            (&*missing, 0, false),
            (&whole[..13], 3, true),
        ] {
            engine.lists.store(0, Ordering::Relaxed);
            let named = find_named(&local, name).await.unwrap();
            assert_eq!(named.len(), found, "{name}");
            let listed = engine.lists.load(Ordering::Relaxed) > 0;
            assert_eq!(listed, lists, "{name}");
        }
    }
}
