//! Who works on sessions: this process, or the daemon that has the store open. Verbs say what is to
//! be done; here it is given to whoever does it.

mod taken;

use std::time::Duration;

use futures_util::StreamExt as _;
use unisono::ask::Ask;
use unisono::local::Opened;
use unisono::models;
use unisono::service::sessions::lost_of;
use unisono::{Local, Service};
use unisono_api::Code;
use unisono_api::agent::{Agent, AgentQuery};
use unisono_api::context::{Context, ContextQuery};
use unisono_api::service::{Messages as _, Sessions as _};
use unisono_api::session::{NewBranch, NewSession};
use unisono_api::store::LostEvents;
use unisono_api::turn::Asked;
use unisono_client::{Client, File};
use unisono_config::settings::Override;
use unisono_config::setup::Setup;
use unisono_context::{MessageId, SessionId, TurnId};
use unisono_model::calibration::Calibrations;
use unisono_session::State;
use unisono_session::machine::Import;
use unisono_session::state::MAIN;

use crate::commands::sessions::branch::unknown_branch;
use crate::live::{End, Followed, Watch};
use crate::problem::{Problem, Result};
use crate::remote;
use crate::sessions::Sessions;

use taken::content;
pub(crate) use taken::{Imported, Taken};

/// Where a store is open.
#[derive(Clone, Debug)]
pub(crate) enum Where {
    /// In this process.
    Here(Opened),
    /// In a daemon, which answers.
    There(Client),
}

impl Where {
    /// Its sessions, to be looked at.
    pub(crate) fn sessions(&self) -> Sessions {
        Sessions::new(match self {
            Where::Here(opened) => opened.journal.clone(),
            Where::There(client) => remote::journal(client.clone()),
        })
    }

    /// What a repair of the store has lost of a session, until that is acknowledged.
    pub(crate) async fn lost(&self, session: SessionId) -> Result<Option<LostEvents>> {
        Ok(match self {
            Where::Here(opened) => {
                let losses = opened.losses.as_ref().map(|losses| losses.now());
                lost_of(&losses.unwrap_or_default(), session)
            }
            Where::There(client) => client.session(&session.to_string()).await?.lost,
        })
    }

    /// Whether a daemon has it.
    pub(crate) fn is_there(&self) -> bool {
        matches!(self, Where::There(_))
    }

    /// Deletes a session for good; false: there was none.
    pub(crate) async fn delete(&self, session: SessionId, purge: bool) -> Result<bool> {
        match self {
            Where::Here(opened) => Ok(opened.journal.delete(session).await?),
            Where::There(client) => {
                client.delete_session(&session.to_string(), purge).await?;
                Ok(true)
            }
        }
    }
}

/// The settings among the flags of this call that another process can follow.
pub(crate) fn flags(setup: &Setup) -> Vec<Override> {
    let mut flags = setup.loaded.sources().overrides.clone();
    // Those concern this process.
    flags.retain(|flag| flag.key != "store.path" && !flag.key.starts_with("log."));
    flags
}

/// Who works on sessions.
#[derive(Debug)]
pub(crate) enum Host {
    /// This process.
    Here(Box<Local>),
    /// A daemon.
    There(Client),
}

impl Host {
    /// The sessions it has, to be looked at.
    pub(crate) fn sessions(&self) -> Sessions {
        Sessions::new(match self {
            Host::Here(local) => local.journal().clone(),
            Host::There(client) => remote::journal(client.clone()),
        })
    }

    /// All that can be asked of it.
    pub(crate) fn service(&self) -> &dyn Service {
        match self {
            Host::Here(local) => &**local,
            Host::There(client) => client,
        }
    }

    /// What those who would be asked see of a branch.
    pub(crate) async fn context(&self, session: SessionId, ask: &Ask) -> Result<Context> {
        let AgentQuery { lead, agents, .. } = asked_agents(ask);
        let query = ContextQuery {
            branch: ask.on_branch().to_owned(),
            lead,
            agents,
            ..ContextQuery::default()
        };
        let service = self.service();
        Ok(service.context(&session.to_string(), &query).await?)
    }

    /// All agents, and the part each takes in what is asked. Without a session, it is a new one.
    pub(crate) async fn agents(&self, session: Option<SessionId>, ask: &Ask) -> Result<Vec<Agent>> {
        let query = AgentQuery {
            session: session.map(|session| session.to_string()),
            ..asked_agents(ask)
        };
        Ok(self.service().agents(&query).await?)
    }

    /// Takes over what happened in a session since its state was looked at.
    pub(crate) async fn look(&self, session: SessionId, state: &mut State) -> Result<()> {
        match self {
            Host::Here(local) => {
                let session = local.open(session).await?;
                *state = session.inspect(Clone::clone).await?;
                Ok(())
            }
            Host::There(_) => self.sessions().catch_up(session, state).await,
        }
    }

    /// The state of a session.
    pub(crate) async fn state(&self, session: SessionId) -> Result<State> {
        let mut state = State::default();
        self.look(session, &mut state).await?;
        Ok(state)
    }

    /// Makes a session without messages.
    pub(crate) async fn create(&self, title: &str) -> Result<SessionId> {
        match self {
            Host::Here(local) => {
                let import = Import {
                    title: title.into(),
                    ..Import::default()
                };
                Ok(local.import(import).await?.id())
            }
            Host::There(client) => {
                let new = NewSession {
                    title: Some(title.to_owned()),
                    ..NewSession::default()
                };
                id("session", &client.create_session(new).await?.session)
            }
        }
    }

    /// Makes a session of a conversation.
    pub(crate) async fn import(&self, taken: Taken<'_>) -> Result<Imported> {
        match self {
            Host::Here(local) => {
                let mut import = taken.import;
                if taken.copy {
                    import.session = None;
                }
                let session = local.import(import).await?;
                let id = session.id();
                Ok(session
                    .inspect(move |state| Imported::of(id, state))
                    .await?)
            }
            Host::There(client) => {
                // The daemon makes its own of the file.
                drop(taken.import);
                let file = File {
                    name: &taken.source.file_name(),
                    format: taken.format,
                    skip_bad: taken.skip_bad,
                    copy: taken.copy,
                    content: content(taken.source.held)?,
                };
                let made = client.import(file).await?;
                let session = id("session", &made.session)?;
                if made.branches.has_more {
                    return Ok(Imported::of(session, &self.state(session).await?));
                }
                let branches = made.branches.items.into_iter();
                Ok(Imported {
                    session,
                    title: made.title,
                    messages: made.messages,
                    branches: branches.map(|branch| branch.name).collect(),
                })
            }
        }
    }

    /// Hands a turn in and follows it from its acceptance on.
    pub(crate) async fn begin(&self, session: SessionId, ask: &Ask) -> Result<Followed<'_>> {
        let asked = ask.request();
        let id = session.to_string();
        let turn = match self.service().begin(&id, &asked, None).await {
            Ok(turn) => turn.turn,
            Err(error) if error.code() == Code::NotFound => {
                let (state, branch) = (self.state(session).await?, ask.on_branch());
                let known = state.tree().head(branch).is_some();
                return Err(match known {
                    true => error.into(),
                    false => unknown_branch(&state, branch),
                });
            }
            Err(error) => return Err(error.into()),
        };
        self.follow(id, turn, Some(0)).await
    }

    /// Follows a turn that has begun: as it is, then on.
    pub(crate) async fn join(&self, session: SessionId, turn: TurnId) -> Result<Followed<'_>> {
        let (session, turn) = (session.to_string(), turn.to_string());
        let mut followed = self.follow(session, turn, None).await?;
        if let Some(state) = followed.updates.next().await {
            followed.watch.apply(&state?.event);
        }
        Ok(followed)
    }

    async fn follow(
        &self,
        session: String,
        turn: String,
        after: Option<u64>,
    ) -> Result<Followed<'_>> {
        let updates = self.service().follow(&session, &turn, after).await?;
        let mut watch = Watch::new(session, turn);
        watch.elsewhere = matches!(self, Host::There(_));
        Ok(Followed { watch, updates })
    }

    /// Starts a branch at a message, or sets it there.
    pub(crate) async fn fork(&self, session: SessionId, name: &str, at: MessageId) -> Result<()> {
        match self {
            Host::Here(local) => Ok(local.open(session).await?.fork(name, at).await?),
            Host::There(client) => {
                let new = NewBranch {
                    name: name.to_owned(),
                    at: at.to_string(),
                    from: MAIN.to_owned(),
                };
                client.fork(&session.to_string(), &new).await?;
                Ok(())
            }
        }
    }

    /// Stops what runs here. After an interruption nobody wants to wait for it. A daemon goes on.
    pub(crate) async fn stop(self, end: End) {
        let Host::Here(local) = self else { return };
        let patience = match end {
            End::Interrupted => Duration::from_secs(2),
            End::Ended | End::TimedOut => Duration::from_secs(10),
        };
        if tokio::time::timeout(patience, local.shutdown())
            .await
            .is_err()
        {
            tracing::warn!("not everything stopped in time; what is on disk is whole");
        }
    }
}

/// Who is asked: of an agent its name alone.
fn asked_agents(ask: &Ask) -> AgentQuery {
    let (lead, agents) = match ask.request() {
        Asked::Task(new) => (new.lead, new.agents),
        _ => (None, None),
    };
    let names = agents.map(|agents| {
        let names = agents.iter().map(|agent| match agent.split_once('=') {
            Some((name, _)) => name,
            None => agent,
        });
        names.collect::<Vec<_>>().join(",")
    });
    AgentQuery {
        lead,
        agents: names,
        ..AgentQuery::default()
    }
}

/// An id as the daemon names it.
pub(crate) fn id<T: std::str::FromStr>(what: &str, text: &str) -> Result<T> {
    let wrong = |_| Problem::failed(format!("the daemon names {text:?}, which is no {what}"));
    text.parse().map_err(wrong)
}

/// What is known of models' tokens in the store that is configured here.
pub(crate) fn learnt_here(setup: &Setup) -> Calibrations {
    models::learnt(&setup.loaded.config.store.path)
}
