//! A prompt cache as providers have it, without their clocks: what a request wrote can be read
//! by others from a moment that the test knows.

mod prefixes;

use std::collections::HashMap;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use bytes::Bytes;

use crate::dialect::Dialect;
use prefixes::Prefixes;

/// Bytes in one token.
const TOKEN: usize = 4;

/// A prompt cache. Four bytes of a request's body are one token. Clones are the same cache.
#[derive(Clone, Debug, Default)]
pub struct CacheSim(Arc<Mutex<State>>);

/// How the cache behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheSettings {
    /// The shortest prefix that is kept, tokens.
    pub minimum: u64,
    /// Where breakpoints do not decide, prefixes are matched in steps of that many tokens.
    pub unit: u64,
    /// When others can read what a request wrote.
    pub visibility: Visibility,
    /// Whether OpenAI's dialects match at breakpoints only, as its newer models do, and say what
    /// was written: at blocks with `prompt_cache_breakpoint`, and, unless
    /// `prompt_cache_options.mode` is `explicit`, at the end of the newest user or tool message.
    /// Otherwise they match the longest common start of bodies.
    pub openai_breakpoints: bool,
    /// Whether in OpenAI's dialects each `prompt_cache_key` has a cache of its own, as if each
    /// were served by another machine.
    pub openai_keys: bool,
}

/// When others can read what a request wrote.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Visibility {
    /// Once the first event of its answer is sent; of a document, once the document is.
    #[default]
    FirstEvent,
    /// The same, and then only after that many further requests have come.
    AfterRequests(u64),
    /// When the test says so: [`CacheSim::make_visible`].
    Manual,
}

/// What the cache did with one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CacheUse {
    /// The request's place among all the server received, from 0.
    pub request: usize,
    /// All of its input, tokens.
    pub input: u64,
    /// What of it was read.
    pub read: u64,
    /// What of it was written, where the provider says so.
    pub write: u64,
    /// Blocks that were marked as breakpoints.
    pub breakpoints: usize,
}

#[derive(Debug, Default)]
struct State {
    settings: CacheSettings,
    /// By hash of the prefix.
    entries: HashMap<u64, Entry>,
    requests: u64,
    uses: Vec<CacheUse>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Entry {
    /// How many requests had come when the answer that wrote it began.
    begun: Option<u64>,
    shown: bool,
}

/// What an answer writes when it begins.
#[derive(Debug)]
pub(crate) struct Writes(Vec<u64>);

impl CacheSim {
    /// A cache that behaves as `settings` say.
    pub fn new(settings: CacheSettings) -> CacheSim {
        CacheSim(Arc::new(Mutex::new(State {
            settings,
            ..State::default()
        })))
    }

    /// All that has been written can be read from now on.
    pub fn make_visible(&self) {
        let mut state = self.lock();
        let begun = state.entries.values_mut().filter(|e| e.begun.is_some());
        begun.for_each(|entry| entry.shown = true);
    }

    /// What it did, in the order in which requests were read.
    pub fn uses(&self) -> Vec<CacheUse> {
        self.lock().uses.clone()
    }

    /// A request has come: what is read for it, and what it will write.
    pub(crate) fn admit(
        &self,
        request: usize,
        dialect: Dialect,
        path: &str,
        body: &Bytes,
    ) -> (CacheUse, Writes) {
        let mut state = self.lock();
        state.requests += 1;
        let prefixes = prefixes::of(dialect, path, body, &state.settings);
        let found = state.account(request, body, &prefixes);
        state.uses.push(found);
        let writes = prefixes.points.iter().filter(|point| point.writes);
        (found, Writes(writes.map(|point| point.hash).collect()))
    }

    /// The answer begins.
    pub(crate) fn begin(&self, writes: &Writes) {
        let mut state = self.lock();
        let now = state.requests;
        for hash in &writes.0 {
            let entry = state.entries.entry(*hash).or_default();
            entry.begun.get_or_insert(now);
        }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn account(&self, request: usize, body: &Bytes, prefixes: &Prefixes) -> CacheUse {
        let points = prefixes.points.iter();
        let readable = points.clone().filter(|point| point.reads);
        let read = readable
            .filter(|point| self.is_visible(point.hash))
            .map(|point| point.bytes)
            .max()
            .unwrap_or(0);
        let written = points.filter(|point| point.writes).map(|point| point.bytes);
        let written = match prefixes.tells_writes {
            true => written.max().unwrap_or(0).max(read),
            false => read,
        };
        let tokens = |bytes: usize| (bytes / TOKEN) as u64;
        CacheUse {
            request,
            input: body.len().div_ceil(TOKEN) as u64,
            read: tokens(read),
            write: tokens(written) - tokens(read),
            breakpoints: prefixes.breakpoints,
        }
    }

    fn is_visible(&self, hash: u64) -> bool {
        let Some(entry) = self.entries.get(&hash) else {
            return false;
        };
        let after = |delay| {
            entry
                .begun
                .is_some_and(|begun| self.requests > begun + delay)
        };
        match self.settings.visibility {
            Visibility::FirstEvent => after(0),
            Visibility::AfterRequests(delay) => after(delay),
            Visibility::Manual => entry.shown,
        }
    }
}

/// A minimum of 1,024 tokens, steps of 128, visible from the first event; breakpoints and keys
/// mean nothing in OpenAI's dialects.
impl Default for CacheSettings {
    fn default() -> CacheSettings {
        CacheSettings {
            minimum: 1_024,
            unit: 128,
            visibility: Visibility::FirstEvent,
            openai_breakpoints: false,
            openai_keys: false,
        }
    }
}
