//! `/v1/sessions`: conversations.

use std::collections::BTreeMap;
use std::sync::Arc;
use unisono::values;

use axum::Json;
use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use serde_json::{Value, json};
use unisono_api::session::{Branch, EndedTurn, Few, Listed, NewSession, Session};
use unisono_api::store::LostEvents;
use unisono_api::turn::Fault as Failed;
use unisono_api::{Code, Page};
use unisono_context::{MessageId, SessionId};
use unisono_runtime::{Handle, clock};
use unisono_session::event::Outcome;
use unisono_session::machine::Import;
use unisono_session::{Fact, State as SessionState};
use unisono_store::SessionInfo;
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;
use uuid::Uuid;

use super::extract::{self, Path, Query};
use super::part::Labelled;
use super::problem::Fault;
use super::{Shared, settings};
use unisono::Daemon;
use unisono::labels::Label;
use unisono_interchange::transcript::{self, Format, Stamps};

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new()
        .routes(routes!(list, create))
        .routes(routes!(show, delete))
}

/// A session of the store.
pub(crate) struct Found {
    pub(crate) id: SessionId,
    pub(crate) info: SessionInfo,
}

/// A part of the store's sessions, the oldest first; those without an event are none.
pub(crate) async fn page(
    daemon: &Daemon,
    after: Option<SessionId>,
    limit: usize,
) -> Result<Vec<Found>, unisono_store::Error> {
    let page = daemon.runtime().journal().sessions(after, limit).await?;
    Ok(found(page))
}

fn found(page: Vec<SessionInfo>) -> Vec<Found> {
    let found = page.into_iter().map(|info| Found {
        id: SessionId::from(info.session),
        info,
    });
    found.collect()
}

/// At most `limit` sessions of the store, the newest first, that were made before that one; those
/// without an event are none.
pub(crate) async fn newest(
    daemon: &Daemon,
    before: Option<SessionId>,
    limit: usize,
) -> Result<Vec<Found>, unisono_store::Error> {
    let journal = daemon.runtime().journal();
    Ok(found(journal.newest_sessions(before, limit).await?))
}

/// The session of an address.
pub(super) async fn open(shared: &Shared, id: &str) -> Result<Handle, Fault> {
    let id: SessionId = extract::id("session", id)?;
    Ok(shared.daemon.open(id).await?)
}

/// All sessions, the newest first.
#[utoipa::path(
    get, path = "/v1/sessions", tag = "sessions",
    params(Labelled),
    responses((status = 200, description = "A part of the list", body = Page<Listed>))
)]
async fn list(
    State(shared): State<Arc<Shared>>,
    Query(which): Query<Labelled>,
) -> Result<Json<Page<Listed>>, Fault> {
    let (label, part) = which.split();
    let limit = part.limit();
    if let Some(label) = label {
        let label = self::label(&label)?;
        return Ok(Json(
            labelled(&shared.daemon, part.after()?, limit, &label).await?,
        ));
    }
    // One more tells whether there are more.
    let found = newest(&shared.daemon, part.after()?, limit + 1).await?;
    let found = Page::first(found, limit, |last| last.id.to_string());
    Ok(Json(Page {
        items: listed(&shared.daemon, found.items).await?,
        next: found.next,
    }))
}

/// Sessions that are looked at for one part of a list with a label.
const LOOKED_AT: usize = 4_096;

/// The label that is asked for.
pub(crate) fn label(text: &str) -> Result<Label, Fault> {
    let label = text.parse::<Label>();
    label.map_err(|wrong| Fault::new(Code::InvalidRequest, wrong))
}

/// A part of the sessions with a label: as many as are asked for, or those among the next that are
/// looked at.
async fn labelled(
    daemon: &Daemon,
    mut before: Option<SessionId>,
    limit: usize,
    label: &Label,
) -> Result<Page<Listed>, Fault> {
    let (mut items, mut looked_at) = (Vec::new(), 0);
    while looked_at < LOOKED_AT {
        let found = newest(daemon, before, LOOKED_AT / 4).await?;
        let Some(last) = found.last() else {
            return Ok(Page { items, next: None });
        };
        before = Some(last.id);
        looked_at += found.len();
        let fits = |session: &Listed| label.is_of(&session.labels);
        items.extend(listed(daemon, found).await?.into_iter().filter(fits));
        if items.len() > limit {
            items.truncate(limit);
            let next = items.last().map(|last: &Listed| last.session.clone());
            return Ok(Page { items, next });
        }
    }
    let next = before.map(|before| before.to_string());
    Ok(Page { items, next })
}

/// What a list has of sessions, but of those whose first event is not their creation.
pub(crate) async fn listed(daemon: &Daemon, found: Vec<Found>) -> Result<Vec<Listed>, Fault> {
    let ids: Vec<SessionId> = found.iter().map(|found| found.id).collect();
    let firsts = daemon.runtime().journal().first_events(&ids).await?;
    let each = found.into_iter().zip(firsts).filter_map(|(found, first)| {
        let Fact::Created { title, labels, .. } = first?.fact else {
            return None;
        };
        Some(Listed {
            session: found.id.to_string(),
            title: title.to_string(),
            labels: plain(&labels),
            events: found.info.last_seq,
            created: values::unix_ms(found.info.created_unix_ms),
            updated: values::unix_ms(found.info.updated_unix_ms),
        })
    });
    Ok(each.collect())
}

fn plain(labels: &BTreeMap<Arc<str>, Arc<str>>) -> BTreeMap<String, String> {
    let each = labels.iter();
    each.map(|(key, value)| (key.to_string(), value.to_string()))
        .collect()
}

/// Keeps a conversation.
#[utoipa::path(
    post, path = "/v1/sessions", tag = "sessions",
    request_body = NewSession,
    responses((status = 201, description = "It is on disk", body = Session))
)]
async fn create(
    State(shared): State<Arc<Shared>>,
    extract::Json(new): extract::Json<NewSession>,
) -> Result<(StatusCode, [(HeaderName, String); 1], Json<Session>), Fault> {
    let import = import(new)?;
    let session = shared.daemon.import(import).await?;
    let id = session.id().to_string();
    let body = session.inspect(move |state| describe(&id, state)).await?;
    let location = format!("/v1/sessions/{}", body.session);
    Ok((
        StatusCode::CREATED,
        [(header::LOCATION, location)],
        Json(body),
    ))
}

/// The title of a session that was given none, nor says anything.
const UNTITLED: &str = "untitled";

/// The conversation of a request.
pub(super) fn import(new: NewSession) -> Result<Import, Fault> {
    let title = new.title.filter(|title| !title.trim().is_empty());
    let mut import = if new.messages.is_empty() {
        Import::default()
    } else {
        conversation(new.messages)?
    };
    if let Some(title) = title.or_else(|| import.title.is_empty().then(|| UNTITLED.to_owned())) {
        import.title = title.into();
    }
    if let Some(system) = new.system {
        import.system = system.into();
    }
    let labels = new.labels.into_iter();
    import
        .labels
        .extend(labels.map(|(key, value)| (key.into(), value.into())));
    import.settings = settings::of_new(&new.settings)?;
    Ok(import)
}

/// OpenAI's chat messages as a conversation.
fn conversation(messages: Vec<Value>) -> Result<Import, Fault> {
    let text = json!({"messages": messages}).to_string();
    let options = transcript::Options {
        name: UNTITLED.to_owned(),
        format: Some(Format::OpenAi),
        skip_bad: false,
    };
    let mut ids = || Uuid::now_v7().as_u128();
    let stamps = Stamps {
        ids: &mut ids,
        now: clock::now(),
    };
    match transcript::read(text.as_bytes(), &options, stamps) {
        Ok(parsed) => Ok(parsed.import),
        Err(transcript::Error::Bad { lines, .. }) => {
            let reasons: Vec<&str> = lines.iter().map(|line| line.reason.as_str()).collect();
            Err(Fault::new(
                Code::Refused,
                format!("messages: {}", reasons.join("; ")),
            ))
        }
        Err(error) => Err(Fault::new(Code::Refused, error.to_string())),
    }
}

/// A session.
#[utoipa::path(
    get, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "Its id")),
    responses((status = 200, description = "The session", body = Session))
)]
async fn show(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
) -> Result<Json<Session>, Fault> {
    let session = open(&shared, &id).await?;
    let id = session.id().to_string();
    let described = session.inspect(move |state| describe(&id, state)).await?;
    Ok(Json(Session {
        lost: lost(&shared.daemon, session.id()),
        ..described
    }))
}

/// What a repair has lost of a session.
pub(super) fn lost(daemon: &Daemon, session: SessionId) -> Option<LostEvents> {
    let loss = daemon.loss_of(session)?;
    Some(LostEvents {
        first: loss.first,
        last: loss.last,
        found: values::unix_ms(loss.at_unix_ms),
        quarantine: loss.quarantine,
    })
}

pub(crate) fn describe(id: &str, state: &SessionState) -> Session {
    let tree = state.tree();
    let names = tree.branches();
    let told = names.map(|(name, head)| branch(state, name, head));
    // Ids of turns follow the clock.
    let ended = state.ended_turns().rev();
    let ended = ended.map(|(turn, ended)| EndedTurn {
        turn: turn.to_string(),
        state: ended.outcome.name().to_owned(),
        error: match &ended.outcome {
            Outcome::Failed { code, reason } => Some(Failed {
                code: code.to_string(),
                reason: reason.to_string(),
            }),
            _ => None,
        },
        answer_message: ended
            .answer
            .and_then(|id| tree.get(id))
            .map(|node| node.ordinal().0),
    });
    let open = state.open_turns().map(|turn| turn.accepted.id.to_string());
    let at = |list: &str| format!("/v1/sessions/{id}/{list}");
    Session {
        session: id.to_owned(),
        title: state.title().to_owned(),
        system: state.system().to_string(),
        labels: plain(state.labels()),
        settings: plain(state.settings()),
        events: state.events(),
        messages: tree.len() as u64,
        branches: Few::of(tree.branches().count(), told, at("branches")),
        checkpoints: state.checkpoints().iter().len() as u64,
        open_turns: Few::of(state.open_turns().count(), open, at("turns")),
        ended_turns: Few::of(state.ended_turns().len(), ended, at("turns")),
        lost: None,
    }
}

/// A branch that ends in a message.
pub(super) fn branch(state: &SessionState, name: &str, head: MessageId) -> Branch {
    Branch {
        name: name.to_owned(),
        head: head.to_string(),
        messages: state.tree().get(head).map_or(0, |node| node.ordinal().0),
    }
}

/// How a session is deleted.
#[derive(Debug, serde::Deserialize, utoipa::IntoParams)]
#[into_params(parameter_in = Query)]
struct Deleting {
    /// Whether nothing of it may be left on disk when this returns: what is live is written anew for
    /// that. Otherwise its bytes leave the disk with the next vacuum.
    #[serde(default)]
    purge: bool,
}

/// Deletes a session for good.
#[utoipa::path(
    delete, path = "/v1/sessions/{session}", tag = "sessions",
    params(("session" = String, Path, description = "Its id"), Deleting),
    responses((status = 204, description = "It is gone"))
)]
async fn delete(
    State(shared): State<Arc<Shared>>,
    Path(id): Path<String>,
    Query(how): Query<Deleting>,
) -> Result<StatusCode, Fault> {
    let session = open(&shared, &id).await?;
    let busy = session.inspect(|state| state.open_turns().count()).await?;
    if busy > 0 {
        let detail = format!("{busy} of its turns have not ended; cancel them first");
        return Err(Fault::new(Code::Conflict, detail));
    }
    shared.daemon.runtime().delete(session.id()).await?;
    if how.purge {
        shared.daemon.runtime().purge().await?;
    }
    Ok(StatusCode::NO_CONTENT)
}
