//! Creating, loading and listing sessions; selecting the lead of a session.

use std::collections::{BTreeMap, VecDeque};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use serde_json::{Value, json};
use unisono_api::PageQuery;
use unisono_api::agent::AgentQuery;
use unisono_api::service::{self, Service};
use unisono_api::session::{NewSession as New, SessionListItem, SessionQuery, main_branch};
use unisono_api::settings::Changes;
use unisono_api::turn::Turn;

use crate::client::{Client, Error};
use crate::protocol::{ListSessions, LoadSession, NewSession, SetOption};
use crate::replay;
use crate::tool_servers::{self, ToolServers};

/// The label of a session's working directory.
const DIRECTORY: &str = "cwd";
/// The label for the directory whose instructions a session has.
const INSTRUCTIONS: &str = "instructions_from";
/// The label of sessions that an editor began.
const CHANNEL: (&str, &str) = ("channel", "acp");
/// The option of a session, and its setting, for the lead.
const LEAD: &str = "lead";
const LEAD_SETTING: &str = "turn.lead";
/// The setting for the delegates.
const AGENTS_SETTING: &str = "turn.agents";
/// Sessions of one part of a list.
const PART: usize = 50;
/// Maximum number of closed sessions that are remembered.
const CLOSED: usize = 1_024;

pub(crate) struct Sessions {
    service: Arc<dyn Service>,
    servers: ToolServers,
    /// The working directory of sessions that no editor began.
    directory: PathBuf,
    closed: ClosedSessions,
}

/// The newest sessions that the client has closed, oldest first.
#[derive(Debug, Default)]
struct ClosedSessions(VecDeque<String>);

impl ClosedSessions {
    fn contains(&self, session: &str) -> bool {
        self.0.iter().any(|closed| closed == session)
    }

    fn insert(&mut self, session: &str) {
        if !is_id(session) || self.contains(session) {
            return;
        }
        if self.0.len() == CLOSED {
            self.0.pop_front();
        }
        self.0.push_back(session.to_owned());
    }

    fn remove(&mut self, session: &str) {
        self.0.retain(|closed| closed != session);
    }
}

impl Sessions {
    pub(crate) fn new(service: Arc<dyn Service>, directory: PathBuf) -> Sessions {
        Sessions {
            service,
            servers: ToolServers::default(),
            directory,
            closed: ClosedSessions::default(),
        }
    }

    /// Whether the client may use a session: not after it closed it.
    pub(crate) fn check_open(&self, session: &str) -> Result<(), Error> {
        check_id(session)?;
        match self.closed.contains(session) {
            false => Ok(()),
            true => Err(Error::invalid(format!(
                "session {session} is closed: open it with `session/resume` or `session/load`"
            ))),
        }
    }

    pub(crate) async fn create(&mut self, params: NewSession) -> Result<Value, Error> {
        check_directory(&params.cwd)?;
        let servers = tool_servers::read(params.mcp_servers, &params.cwd)?;
        let labels = [
            (CHANNEL.0.to_owned(), CHANNEL.1.to_owned()),
            (DIRECTORY.to_owned(), plain(&params.cwd)),
            (INSTRUCTIONS.to_owned(), params.cwd.display().to_string()),
        ];
        let new = New {
            title: Some(title(&params.cwd)),
            labels: labels.into(),
            ..New::default()
        };
        let session = self.service.create_session(new).await?.session;
        let connected = self.servers.connect(&self.service, &session, servers);
        if let Err(refused) = connected.await {
            // The editor does not get its id.
            if let Err(error) = self.service.delete_session(&session, false).await {
                tracing::warn!(%session, %error, "a session without an editor is left");
            }
            return Err(refused);
        }
        let options = self.options(&session).await?;
        Ok(json!({"sessionId": session, "configOptions": options}))
    }

    /// Sends the conversation of a session, then answers. `has_open_turn`: the updates of an open
    /// turn follow.
    pub(crate) async fn load(
        &mut self,
        params: LoadSession,
        has_open_turn: bool,
        client: &Client,
    ) -> Result<Value, Error> {
        check_directory(&params.cwd)?;
        check_id(&params.session_id)?;
        replay::replay(&*self.service, &params.session_id, has_open_turn, client).await?;
        self.resume(params).await
    }

    /// The open turns of a session, in their order. Unknown sessions have none.
    pub(crate) async fn open_turns(&self, session: &str) -> Vec<Turn> {
        let query = PageQuery::default();
        let turns = self.service.turns(session, &query).await;
        let turns = turns.map_or_else(|_| Vec::new(), |page| page.items);
        let is_open = |turn: &Turn| {
            turn.branch == main_branch()
                && matches!(&*turn.state, "queued" | "preparing" | "working")
        };
        turns.into_iter().rev().filter(is_open).collect()
    }

    pub(crate) async fn resume(&mut self, params: LoadSession) -> Result<Value, Error> {
        check_directory(&params.cwd)?;
        check_id(&params.session_id)?;
        let servers = tool_servers::read(params.mcp_servers, &params.cwd)?;
        let options = self.options(&params.session_id).await?;
        let session = params.session_id.as_str();
        self.servers
            .connect(&self.service, session, servers)
            .await?;
        self.closed.remove(session);
        Ok(json!({"configOptions": options}))
    }

    pub(crate) fn close(&mut self, session: &str) {
        self.servers.disconnect(session);
        self.closed.insert(session);
    }

    pub(crate) async fn list(&self, params: ListSessions) -> Result<Value, Error> {
        params.cwd.as_deref().map_or(Ok(()), check_directory)?;
        // Sessions that no editor began have no label, and belong to the working directory.
        let labelled = params.cwd.as_deref().filter(|cwd| *cwd != self.directory);
        let query = SessionQuery {
            label: labelled.map(|cwd| format!("{DIRECTORY}={}", plain(cwd))),
            cursor: params.cursor,
            limit: NonZeroUsize::new(PART),
            ..SessionQuery::default()
        };
        let page = self.service.sessions(&query).await?;
        let with_place = page.items.into_iter().map(|listed| {
            let directory = listed.labels.get(DIRECTORY).map(PathBuf::from);
            (directory.unwrap_or_else(|| self.directory.clone()), listed)
        });
        let wanted = |place: &Path| params.cwd.as_deref().is_none_or(|cwd| cwd == place);
        let listed = with_place.filter(|(place, _)| wanted(place));
        let listed = listed.map(|(place, listed)| info(&place, &listed));
        let sessions: Vec<Value> = listed.collect();
        let mut answer = json!({"sessions": sessions});
        if let Some(next) = page.next {
            answer["nextCursor"] = next.into();
        }
        Ok(answer)
    }

    /// Changes the lead of a session, for later prompts.
    pub(crate) async fn set(&self, params: SetOption) -> Result<Value, Error> {
        self.check_open(&params.session_id)?;
        let id = params.config_id;
        let Some(lead) = params.value.as_str() else {
            return Err(Error::invalid(format!("option {id:?} takes a text")));
        };
        if id != LEAD {
            return Err(Error::invalid(format!("there is no option {id:?}")));
        }
        let settings = self.service.settings().await?;
        let mut settings = settings.iter();
        let agents = settings.find(|setting| setting.key == AGENTS_SETTING);
        let others = agents.and_then(|setting| without(&setting.value, lead));
        let changes = BTreeMap::from([
            (LEAD_SETTING.to_owned(), Some(lead.into())),
            (AGENTS_SETTING.to_owned(), others),
        ]);
        let (session, changes) = (
            &params.session_id,
            Changes {
                changes,
                dry_run: false,
            },
        );
        self.service
            .change_session_settings(session, &changes)
            .await?;
        Ok(json!({"configOptions": self.options(session).await?}))
    }

    /// The options of a session: its lead.
    async fn options(&self, session: &str) -> Result<Vec<Value>, Error> {
        let query = AgentQuery {
            session: Some(session.to_owned()),
            ..AgentQuery::default()
        };
        let agents = self.service.agents(&query).await?;
        let leads = |role: &Option<String>| role.as_deref() == Some("lead");
        let Some(lead) = agents.iter().find(|agent| leads(&agent.role)) else {
            return Ok(Vec::new());
        };
        let choices = agents.iter().map(|agent| {
            let (name, about) = (&agent.agent, &agent.description);
            json!({"value": name, "name": name, "description": about})
        });
        let choices: Vec<Value> = choices.collect();
        Ok(vec![json!({"id": LEAD, "name": "Agent", "type": "select",
            "currentValue": lead.agent, "options": choices})])
    }
}

/// Whether a text can be the id of a session. To a client, an id of another form is an id, too: it
/// may have it from another agent. So such a session does not exist; the request is not invalid.
fn check_id(session: &str) -> Result<(), Error> {
    match is_id(session) {
        true => Ok(()),
        false => Err(service::Error::not_found("session", format_args!("{session:?}")).into()),
    }
}

/// Whether a text has the form of an id: hexadecimal digits in groups of 8, 4, 4, 4 and 12.
fn is_id(text: &str) -> bool {
    let is_placed = |(at, byte): (usize, u8)| match at {
        8 | 13 | 18 | 23 => byte == b'-',
        _ => byte.is_ascii_hexdigit(),
    };
    text.len() == 36 && text.bytes().enumerate().all(is_placed)
}

fn check_directory(directory: &Path) -> Result<(), Error> {
    match directory.is_absolute() {
        true => Ok(()),
        false => Err(Error::invalid("`cwd` must be an absolute path")),
    }
}

/// A directory without a slash at its end, so that equal directories are equal texts.
fn plain(directory: &Path) -> String {
    let parts: PathBuf = directory.components().collect();
    parts.display().to_string()
}

fn title(directory: &Path) -> String {
    let name = directory.file_name().map(|name| name.to_string_lossy());
    format!("In {}", name.as_deref().unwrap_or("/"))
}

fn info(place: &Path, listed: &SessionListItem) -> Value {
    json!({"sessionId": listed.session, "cwd": place, "title": listed.title,
        "updatedAt": listed.updated_at})
}

/// The delegates without the lead, if the configured delegates contain it. `agents` is the setting,
/// as TOML.
fn without(agents: &str, lead: &str) -> Option<Value> {
    let table: toml::Table = format!("agents = {agents}").parse().ok()?;
    let agents = table.get("agents")?.as_array()?.iter();
    let agents: Vec<&str> = agents.filter_map(toml::Value::as_str).collect();
    // One may come with its task: `agent=task`.
    let is_lead = |agent: &str| agent.split('=').next() == Some(lead);
    agents.iter().any(|agent| is_lead(agent)).then(|| {
        let others = agents.iter().filter(|agent| !is_lead(agent));
        others.copied().collect()
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: usize) -> String {
        format!("01a00000-0000-7000-8000-{number:012x}")
    }

    #[test]
    fn closed_sessions_are_remembered_up_to_a_limit() {
        let mut closed = ClosedSessions::default();
        for session in 0..CLOSED + 2 {
            closed.insert(&id(session));
            closed.insert(&id(session));
        }
        assert_eq!(closed.0.len(), CLOSED);
        assert!(!closed.contains(&id(1)) && closed.contains(&id(2)));
        closed.remove(&id(2));
        assert!(!closed.contains(&id(2)));
        closed.insert("of another agent");
        assert_eq!(closed.0.len(), CLOSED - 1);
    }

    #[test]
    fn an_id_has_the_digits_of_a_uuid_in_its_groups() {
        let (ours, upper) = (id(10), id(10).to_uppercase());
        assert!(is_id(&ours) && is_id(&upper));
        let longer = format!("{ours}0");
        for other in ["", "sess_1", &ours[1..], &longer, &ours.replace('-', "_")] {
            assert!(!is_id(other), "{other}");
        }
        assert!(!is_id(&ours.replace('a', "g")));
    }
}
