//! A provider in memory. It caches a prefix from the first event of a reply on, and its tokens have
//! four bytes.

use std::collections::{BTreeMap, HashSet};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use tokio::time::sleep;
use unisono_context::Tokens;

use super::super::Transport;
use crate::client::Call;
use crate::dialect::{Dialect, Mode};
use crate::language::{Class, Error, Reply, Usage};

/// The time from a request's arrival to its first event, and from there to its end.
pub(super) const FIRST_EVENT: Duration = Duration::from_millis(700);
pub(super) const REST: Duration = Duration::from_millis(300);

/// The failure of a request: `None` for a reply.
type Mishap = Option<Class>;
type Script = dyn Fn(usize, &Sent) -> Mishap + Send + Sync;

/// A request that arrived.
#[derive(Clone, Debug)]
pub(super) struct Sent {
    pub(super) mode: Mode,
    pub(super) model: Arc<str>,
    pub(super) name: Arc<str>,
    pub(super) head: Bytes,
    pub(super) tail: String,
    pub(super) tokens: Tokens,
}

impl Sent {
    /// The key that routes it, where it has one.
    pub(super) fn cache_key(&self) -> Option<&str> {
        let (_, after) = self.tail.split_once(r#""prompt_cache_key":""#)?;
        after.split_once('"').map(|(key, _)| key)
    }
}

#[derive(Default)]
struct State {
    sent: Vec<Sent>,
    /// The cached prefixes by routing key.
    cached: HashSet<(Option<String>, Bytes)>,
}

/// The provider. Clones share their state.
#[derive(Clone)]
pub(super) struct Provider {
    dialect: Dialect,
    script: Arc<Script>,
    state: Arc<Mutex<State>>,
}

impl Provider {
    pub(super) fn new(dialect: Dialect) -> Provider {
        Provider {
            dialect,
            script: Arc::new(|_, _| None),
            state: Arc::default(),
        }
    }

    /// Decides by a request's index, from 0, and by its content.
    pub(super) fn by(
        self,
        script: impl Fn(usize, &Sent) -> Mishap + Send + Sync + 'static,
    ) -> Provider {
        Provider {
            script: Arc::new(script),
            ..self
        }
    }

    pub(super) fn sent(&self) -> Vec<Sent> {
        self.state.lock().unwrap().sent.clone()
    }

    /// How often each key was used.
    pub(super) fn keys(&self) -> BTreeMap<String, usize> {
        let mut keys = BTreeMap::new();
        for sent in self.sent() {
            let key = sent.cache_key().unwrap_or("none");
            *keys.entry(key.to_owned()).or_default() += 1;
        }
        keys
    }

    pub(super) fn forget(&self) {
        self.state.lock().unwrap().cached.clear();
    }

    fn arrive(&self, call: &Call) -> (Sent, Mishap) {
        let sent = Sent {
            mode: call.mode,
            model: call.model.clone(),
            name: call.name.clone(),
            head: call.body[0].clone(),
            tail: String::from_utf8(call.body[1].to_vec()).unwrap(),
            tokens: call.tokens,
        };
        let mut state = self.state.lock().unwrap();
        let mishap = (self.script)(state.sent.len(), &sent);
        state.sent.push(sent.clone());
        (sent, mishap)
    }

    fn length(bytes: usize) -> Tokens {
        Tokens(bytes as u64 / 4)
    }
}

fn error(call: &Call, class: Class) -> Error {
    Error::new(call.model.clone(), class, "said the provider")
}

impl Transport for Provider {
    fn dialect(&self) -> Dialect {
        self.dialect
    }

    async fn reply(&self, call: Call) -> Result<Reply, Error> {
        let (sent, mishap) = self.arrive(&call);
        let place = (sent.cache_key().map(str::to_owned), sent.head.clone());
        let cached = self.state.lock().unwrap().cached.contains(&place);
        sleep(FIRST_EVENT).await;
        if let Some(class) = mishap {
            return Err(error(&call, class));
        }
        self.state.lock().unwrap().cached.insert(place);
        if let Some(on_first_event) = &call.on_first_event {
            on_first_event();
        }
        call.listener.report_text("an ");
        sleep(REST).await;
        call.listener.report_text("answer");
        let prefix = Provider::length(sent.head.len());
        let (cache_read, cache_write) = match cached {
            true => (prefix, Tokens::ZERO),
            false => (Tokens::ZERO, prefix),
        };
        Ok(Reply {
            text: "an answer".into(),
            usage: Usage {
                cache_read,
                cache_write,
                ..Usage::free(prefix + Provider::length(sent.tail.len()), Tokens(10))
            },
            ..Reply::default()
        })
    }

    async fn count(&self, call: Call) -> Result<Tokens, Error> {
        let (sent, mishap) = self.arrive(&call);
        match mishap {
            Some(class) => Err(error(&call, class)),
            None => Ok(Provider::length(sent.head.len() + sent.tail.len())),
        }
    }
}
