//! The service that runs turns: this process, or the daemon that has the store open.

use std::sync::Arc;
use std::time::Duration;

use futures_util::StreamExt as _;
use unisono::Service;
use unisono::local::Local;
use unisono_api::Code;
use unisono_api::agent::{Agent, AgentQuery};
use unisono_api::context::{Context, ContextQuery};
use unisono_api::service::TurnUpdates;
use unisono_api::turn::{NewTurn, TurnRequest};
use unisono_config::settings::SessionOverrides;
use unisono_config::setup::Setup;

use crate::app::App;
use crate::live::{End, FollowedTurn, Watch};
use crate::place::Place;
use crate::problem::Result;
use crate::service::{all_branches, unknown_branch};
use crate::team::{announce_model, team};

/// A store for inspection. [`IdleStore::work`] then starts the runtime or uses the daemon.
#[derive(Debug)]
pub(crate) struct IdleStore {
    place: Place,
    setup: Setup,
    service: Arc<dyn Service>,
    /// Whether this process waits for further turns.
    keeps_running: bool,
}

impl App {
    /// Opens the store to work on it. A missing store counts as empty and is not created.
    pub(crate) async fn idle_store(&self, setup: &Setup) -> Result<IdleStore> {
        self.idle_store_on(self.store_if_exists(setup).await?, setup)
    }

    /// As above, but creates a missing store.
    pub(crate) async fn new_idle_store(&self, setup: &Setup) -> Result<IdleStore> {
        self.idle_store_on(self.store_or_daemon(setup).await?, setup)
    }

    fn idle_store_on(&self, place: Place, setup: &Setup) -> Result<IdleStore> {
        let looked_at = match &place {
            Place::Process(opened) => {
                let mut opened = opened.clone();
                // Inspection does not lock the search index.
                opened.degraded = true;
                opened.salvage = None;
                Place::Process(opened)
            }
            Place::Daemon(client) => Place::Daemon(client.clone()),
        };
        Ok(IdleStore {
            service: self.service_on(looked_at, setup)?,
            place,
            setup: setup.clone(),
            keeps_running: false,
        })
    }
}

impl IdleStore {
    /// The address of the daemon; none if this process runs turns.
    pub(crate) fn daemon(&self) -> Option<&str> {
        self.place.daemon()
    }

    /// The same store, for a process that waits for further turns.
    pub(crate) fn for_many_turns(self) -> IdleStore {
        IdleStore {
            keeps_running: true,
            ..self
        }
    }

    /// The service for inspection, without a runtime.
    pub(crate) fn service(&self) -> &dyn Service {
        &*self.service
    }

    /// Closes the store without any work.
    pub(crate) async fn close(self) {
        drop(self.place);
        self.service.close().await;
    }

    /// Starts to run turns of a session with these settings. With a task, it announces once which models
    /// answer.
    pub(crate) async fn work(
        self,
        app: &App,
        of: Option<(&SessionOverrides, &NewTurn)>,
    ) -> Result<TurnService> {
        let IdleStore {
            place,
            setup,
            service,
            keeps_running,
        } = self;
        let opened = match place {
            Place::Daemon(_) => {
                let elsewhere = true;
                return Ok(TurnService { service, elsewhere });
            }
            Place::Process(opened) => opened,
        };
        drop(service);
        let said = match of {
            Some((own, new)) => {
                let setup = app.setup_with(&setup, own)?;
                let team = team(&setup, new)?;
                Some((setup, team))
            }
            None => None,
        };
        let local = Local::start_on(opened, setup, app.extensions.clone()).await?;
        if !keeps_running {
            local.set_short_lived();
        }
        if let Some((setup, team)) = said {
            announce_model(&app.out, &setup, &team, &local).await;
        }
        Ok(TurnService {
            service: Arc::new(local),
            elsewhere: false,
        })
    }
}

/// The service by which turns of sessions run.
#[derive(Debug)]
pub(crate) struct TurnService {
    service: Arc<dyn Service>,
    /// Whether it is a daemon.
    elsewhere: bool,
}

impl TurnService {
    pub(crate) fn service(&self) -> &dyn Service {
        &*self.service
    }

    pub(crate) async fn context(&self, session: &str, new: &NewTurn) -> Result<Context> {
        let AgentQuery { lead, agents, .. } = agents_of(new);
        let query = ContextQuery {
            branch: new.branch.clone(),
            lead,
            agents,
            ..ContextQuery::default()
        };
        Ok(self.service.context(session, &query).await?)
    }

    /// All agents with their roles in a turn of a session, or of a new one.
    pub(crate) async fn agents(&self, session: Option<&str>, new: &NewTurn) -> Result<Vec<Agent>> {
        let query = AgentQuery {
            session: session.map(str::to_owned),
            ..agents_of(new)
        };
        Ok(self.service.agents(&query).await?)
    }

    /// Starts a turn in a session, and follows it from its acceptance.
    pub(crate) async fn ask(&self, session: &str, new: &NewTurn) -> Result<FollowedTurn<'_>> {
        let request = TurnRequest::Task(new.clone());
        self.begin(session, &request, &new.branch).await
    }

    /// As above, for a complete request on a branch.
    pub(crate) async fn begin(
        &self,
        session: &str,
        request: &TurnRequest,
        branch: &str,
    ) -> Result<FollowedTurn<'_>> {
        let begun = self.service.begin_followed(session, request, None).await;
        let (begun, updates) = match begun {
            Ok(begun) => begun,
            Err(error) if error.code() == Code::NotFound => {
                let branches = all_branches(&*self.service, session).await?;
                let known = branches.iter().any(|one| one.name == branch);
                return Err(match known {
                    true => error.into(),
                    false => unknown_branch(&branches, branch),
                });
            }
            Err(error) => return Err(error.into()),
        };
        let mut followed = self.followed(session, begun.turn, updates);
        // This process reports the notices about its own models when it starts to work.
        if self.elsewhere {
            followed.notices = begun.notices;
        }
        Ok(followed)
    }

    pub(crate) async fn join(&self, session: &str, turn: &str) -> Result<FollowedTurn<'_>> {
        let updates = self.service.follow(session, turn, None).await?;
        let mut followed = self.followed(session, turn.to_owned(), updates);
        if let Some(state) = followed.updates.next().await {
            followed.watch.apply(&state?.event);
        }
        Ok(followed)
    }

    fn followed<'s>(
        &self,
        session: &str,
        turn: String,
        updates: TurnUpdates<'s>,
    ) -> FollowedTurn<'s> {
        let mut watch = Watch::new(session.to_owned(), turn);
        watch.elsewhere = self.elsewhere;
        FollowedTurn {
            watch,
            updates,
            notices: Vec::new(),
        }
    }

    /// Stops the runtime of this process; after an interruption, without waiting. A daemon continues.
    pub(crate) async fn stop(self, end: End) {
        let patience = match end {
            End::Interrupted => Duration::from_secs(2),
            End::Ended | End::TimedOut => Duration::from_secs(10),
        };
        let stopped = tokio::time::timeout(patience, self.service.close()).await;
        if stopped.is_err() {
            tracing::warn!("the program did not stop in time; the data on disk is complete");
        }
    }
}

/// The names of the agents, without tasks.
fn agents_of(new: &NewTurn) -> AgentQuery {
    let names = new.agents.as_ref().map(|agents| {
        let names = agents.iter().map(|agent| match agent.split_once('=') {
            Some((name, _)) => name,
            None => agent,
        });
        names.collect::<Vec<_>>().join(",")
    });
    AgentQuery {
        lead: new.lead.clone(),
        agents: names,
        ..AgentQuery::default()
    }
}
