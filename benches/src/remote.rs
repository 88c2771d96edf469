//! Teams whose agents ask a model at a provider.

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use unisono_context::call::CacheWarm;
use unisono_context::policy::{Policy, Preset};
use unisono_context::{MessageId, SessionId};
use unisono_fake_provider::Keep;
use unisono_model::Catalogue;
use unisono_model::client::Client;
use unisono_model::language::Models;
use unisono_model::provider::{Kind as Provider, Settings};
use unisono_model::remote::Remote;
use unisono_runtime::{Handle, Options, Runtime};
use unisono_session::Input;
use unisono_session::agent::{AgentKind, Definition, Team};
use unisono_session::event::Outcome;
use unisono_store::{Engine, Journal, Memory};

use crate::Conversation;
use crate::stub;
use crate::team;

/// A model that the catalogue does not know, at a server of the machine's own.
const MODEL: &str = "openai-compatible/bench";

/// That model, at the server of that address.
pub fn models(url: &str) -> Models {
    let provider = Provider::Compatible;
    let settings = Settings::new(provider.name(), provider, Some(&format!("{url}/v1")), None);
    let client = Client::new(settings.expect("an address")).expect("no key, no encryption");
    let catalogue = Arc::new(Catalogue::built_in().expect("it is tested"));
    let entry = catalogue.get(None, MODEL).expect("a known provider");
    Models::default().with(MODEL, Remote::new(entry, client, catalogue))
}

/// A runtime on that engine with the model at that address.
pub async fn runtime(engine: Arc<dyn Engine>, url: &str) -> Runtime {
    let journal = Journal::new(engine);
    let runtime = Runtime::start(journal, team::extensions(), models(url), Options::default());
    runtime.await.expect("it starts")
}

/// The definition of an agent that asks the model once. All requests are sent at once: nobody
/// waits for the cache of a server that has none.
pub fn definition(id: &str) -> Definition {
    Definition {
        kind: AgentKind::Llm,
        model: MODEL.into(),
        cache_warm: CacheWarm::Off,
        ..team::definition(id)
    }
}

/// A lead and so many delegates.
pub fn team(delegates: usize) -> Team {
    team::team_of(delegates, definition)
}

/// A session whose turns all begin where its conversation ends, each on a branch of its own.
#[derive(Clone, Debug)]
pub struct Session {
    handle: Handle,
    head: MessageId,
}

impl Session {
    /// Creates it.
    pub async fn create(runtime: &Runtime, id: u128, conversation: &Conversation) -> Session {
        let import = conversation.import(SessionId::from_u128(id));
        Session {
            handle: runtime.create(import).await.expect("a valid import"),
            head: conversation.head,
        }
    }

    /// Begins a branch.
    pub async fn fork(&self, branch: &str) {
        let fork = Input::Fork {
            branch: branch.into(),
            at: self.head,
        };
        self.handle.request(fork).await.expect("a new branch");
    }

    /// A turn on a branch, and how long it took until its end was on disk.
    pub async fn answer(&self, branch: &str, team: Team) -> Duration {
        let policy = Policy::from_preset(Preset::Off);
        let turn = team::turn(branch, team, team::question(), policy);
        let id = turn.id;
        let start = Instant::now();
        self.handle.accept(turn).await.expect("a valid turn");
        let ended = self.handle.wait(id).await.expect("it ends");
        let took = start.elapsed();
        assert_eq!(ended.outcome, Outcome::Answered);
        took
    }
}

/// The bodies that a turn of such a team sends on this conversation, the lead's last.
pub async fn bodies(conversation: &Conversation, delegates: usize) -> Vec<Bytes> {
    let provider = stub::provider(Keep::Everything, 0);
    let runtime = runtime(Arc::new(Memory::default()), &provider.url()).await;
    let session = Session::create(&runtime, 1, conversation).await;
    for branch in ["first", "second"] {
        session.fork(branch).await;
        session.answer(branch, team(delegates)).await;
    }
    runtime.shutdown().await;
    let sent: Vec<Bytes> = provider.requests().into_iter().map(|r| r.body).collect();
    let (first, second) = sent.split_at(delegates + 1);
    let sorted = |bodies: &[Bytes]| {
        let mut bodies = bodies.to_vec();
        bodies.sort();
        bodies
    };
    assert_eq!(
        sorted(first),
        sorted(second),
        "every turn sends the same bytes"
    );
    first.to_vec()
}
