//! The environment that all actors share.

use std::sync::atomic::{AtomicBool, Ordering};

use tokio::sync::Semaphore;
use unisono_context::SessionId;
use unisono_model::language::Models;
use unisono_search::Search;
use unisono_store::Journal;

use crate::concurrency::ConcurrencyLimit;
use crate::extensions::Extensions;
use crate::hook::Hooks;
use crate::mcp::Servers;
use crate::mcp::client_servers::ClientServers;
use crate::options::Options;
use crate::pool_port::Pools;
use crate::residence::Total;

/// The maximum number of followers that read the journal at the same time.
const CATCHING_UP: usize = 4;

/// The shared environment of all actors.
#[derive(Debug)]
pub(crate) struct Env {
    pub(crate) journal: Journal,
    pub(crate) search: Search,
    pub(crate) extensions: Extensions,
    pub(crate) models: Models,
    pub(crate) options: Options,
    pub(crate) pools: Pools,
    pub(crate) servers: Servers,
    pub(crate) client_servers: ClientServers,
    pub(crate) hooks: Hooks,
    /// The limit of active runs, if there is one.
    pub(crate) concurrency: Option<ConcurrencyLimit>,
    /// The totals of sessions in memory.
    pub(crate) resident: Total,
    /// Permits of followers that have fallen behind and read the journal.
    pub(crate) catching_up: Semaphore,
    /// The tree is being stopped.
    stopping: AtomicBool,
}

impl Env {
    pub(crate) fn new(
        journal: Journal,
        search: Search,
        extensions: Extensions,
        models: Models,
        options: Options,
        servers: Servers,
    ) -> Env {
        Env {
            journal,
            search,
            extensions,
            models,
            pools: Pools::default(),
            servers,
            client_servers: ClientServers::default(),
            hooks: Hooks::new(&options.hooks),
            concurrency: options.live_runs.daemon.map(ConcurrencyLimit::new),
            resident: Total::default(),
            catching_up: Semaphore::new(CATCHING_UP),
            stopping: AtomicBool::new(false),
            options,
        }
    }

    /// The servers among which the server of a tool is: those that a client holds for the session,
    /// otherwise the configured ones.
    pub(crate) fn servers_for(&self, session: SessionId, tool: &str) -> Servers {
        let held = self.client_servers.with_tool(session, tool);
        held.unwrap_or_else(|| self.servers.clone())
    }

    /// From now on, ends are consequences of the shutdown.
    pub(crate) fn stop(&self) {
        self.stopping.store(true, Ordering::Release);
    }

    pub(crate) fn is_stopping(&self) -> bool {
        self.stopping.load(Ordering::Acquire)
    }
}
