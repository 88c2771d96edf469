//! The prefixes of a request that a cache may hold.
//!
//! Sources: Anthropic's guide *Prompt caching* (tools, system, messages; breakpoints; what changes
//! invalidate; up to 20 blocks looked back from a breakpoint; one at the request's top marks its
//! last block), OpenAI's guide *Prompt caching*.

use std::collections::BTreeMap;
use std::hash::{DefaultHasher, Hasher};

use serde::Deserialize;
use serde_json::value::RawValue;

use super::{CacheSettings, TOKEN};
use crate::dialect::{Dialect, gemini_method};

/// Blocks that Anthropic looks at from a breakpoint backwards, the marked one included.
const LOOK_BACK: usize = 20;
/// Explicit breakpoints that OpenAI writes besides the implicit one.
const OPENAI_EXPLICIT: usize = 3;

/// The places where a prefix may end.
#[derive(Debug, Default)]
pub(super) struct Prefixes {
    pub(super) points: Vec<Point>,
    /// Whether the provider says what was written.
    pub(super) tells_writes: bool,
}

/// A place where a prefix ends.
#[derive(Clone, Copy, Debug)]
pub(super) struct Point {
    /// Of all before it.
    pub(super) hash: u64,
    /// The prefix's length.
    pub(super) bytes: usize,
    /// Whether it may be read.
    pub(super) reads: bool,
    /// Whether it is written.
    pub(super) writes: bool,
}

/// The prefixes of a request's body. None for a body that is not what its dialect asks for.
pub(super) fn of(dialect: Dialect, path: &str, body: &[u8], settings: &CacheSettings) -> Prefixes {
    let breakpoints = match dialect {
        Dialect::Anthropic => true,
        Dialect::OpenAiChat | Dialect::OpenAiResponses => settings.openai_breakpoints,
        Dialect::Gemini => false,
    };
    let mut points = if breakpoints {
        serde_json::from_slice::<Request<'_>>(body)
            .map(|request| request.points(dialect))
            .unwrap_or_default()
    } else {
        steps(dialect, path, body, settings)
    };
    let minimum = usize::try_from(settings.minimum).unwrap_or(usize::MAX);
    points.retain(|point| point.bytes / TOKEN >= minimum);
    Prefixes {
        points,
        tells_writes: breakpoints,
    }
}

/// Every step of a body, whatever is in it.
fn steps(dialect: Dialect, path: &str, body: &[u8], settings: &CacheSettings) -> Vec<Point> {
    let unit = usize::try_from(settings.unit).unwrap_or(usize::MAX);
    let unit = unit.saturating_mul(TOKEN).max(TOKEN);
    let mut hasher = DefaultHasher::new();
    hasher.write_u8(dialect as u8);
    // Gemini has the model in its path; the others have it in the body.
    hasher.write(
        gemini_method(path)
            .map_or("", |(model, _)| model)
            .as_bytes(),
    );
    let whole = body.chunks_exact(unit).enumerate();
    whole
        .map(|(step, content)| {
            hasher.write(content);
            Point {
                hash: hasher.finish(),
                bytes: (step + 1) * unit,
                reads: true,
                writes: true,
            }
        })
        .collect()
}

/// What of a request decides what a cache with breakpoints holds.
#[derive(Deserialize)]
struct Request<'a> {
    #[serde(borrow, default)]
    model: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tools: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    system: Option<&'a RawValue>,
    #[serde(borrow, default)]
    instructions: Option<&'a RawValue>,
    #[serde(borrow, default)]
    messages: Vec<&'a RawValue>,
    #[serde(borrow, default)]
    input: Option<&'a RawValue>,
    #[serde(borrow, default)]
    tool_choice: Option<&'a RawValue>,
    #[serde(borrow, default)]
    thinking: Option<&'a RawValue>,
    #[serde(borrow, default)]
    output_config: Option<&'a RawValue>,
    #[serde(borrow, default)]
    response_format: Option<&'a RawValue>,
    #[serde(borrow, default)]
    text: Option<&'a RawValue>,
    #[serde(borrow, default)]
    cache_control: Option<&'a RawValue>,
    #[serde(borrow, default)]
    prompt_cache_options: Option<&'a RawValue>,
}

impl Request<'_> {
    fn points(&self, dialect: Dialect) -> Vec<Point> {
        let mut blocks = Blocks::new(dialect);
        let settings = |raw: Option<&RawValue>| raw.map_or("", RawValue::get).to_owned();
        blocks.setting(&settings(self.model));
        for schema in [self.output_config, self.response_format, self.text] {
            blocks.setting(&settings(schema));
        }
        for tool in &self.tools {
            blocks.block(tool.get());
        }
        for part in [self.system, self.instructions].into_iter().flatten() {
            blocks.content(part);
        }
        // A change of these leaves what is cached of tools and system as it is.
        blocks.setting(&settings(self.tool_choice));
        blocks.setting(&settings(self.thinking));
        let items: Vec<&RawValue> = match self.input {
            Some(input) => serde_json::from_str(input.get()).unwrap_or_else(|_| vec![input]),
            None => self.messages.clone(),
        };
        for item in items {
            blocks.message(item);
        }
        match dialect {
            Dialect::Anthropic => blocks.anthropic(self.cache_control.is_some()),
            _ => {
                let options = self.prompt_cache_options.map_or("", RawValue::get);
                blocks.openai(!options.contains("\"explicit\""))
            }
        }
    }
}

/// An object whose fields are not looked into.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// The blocks of a request, in the order in which the model sees them.
struct Blocks {
    hasher: DefaultHasher,
    bytes: usize,
    points: Vec<Point>,
    /// The last block of the newest message that is not the model's own.
    newest: Option<usize>,
}

impl Blocks {
    fn new(dialect: Dialect) -> Blocks {
        let mut hasher = DefaultHasher::new();
        hasher.write_u8(dialect as u8);
        Blocks {
            hasher,
            bytes: 0,
            points: Vec::new(),
            newest: None,
        }
    }

    /// Something that no prefix ends at, and that all after it depends on.
    fn setting(&mut self, raw: &str) {
        self.hasher.write(raw.as_bytes());
        self.hasher.write_u8(0);
    }

    /// A list of blocks, or one block.
    fn content(&mut self, raw: &RawValue) {
        match serde_json::from_str::<Vec<&RawValue>>(raw.get()) {
            Ok(blocks) => blocks.iter().for_each(|block| self.block(block.get())),
            Err(_) => self.block(raw.get()),
        }
    }

    /// A message: its content's blocks, after all else that it says.
    fn message(&mut self, raw: &RawValue) {
        let fields: Fields<'_> = serde_json::from_str(raw.get()).unwrap_or_default();
        let listed = fields
            .get("content")
            .filter(|content| content.get().starts_with('['));
        match listed {
            Some(content) => {
                let others = fields.iter().filter(|(key, _)| *key != "content");
                for (key, value) in others {
                    self.setting(key);
                    self.setting(value.get());
                }
                self.content(content);
            }
            None => self.block(raw.get()),
        }
        let is = |key: &str, known: [&str; 2]| {
            let value = fields.get(key).map_or("", |value| value.get());
            known.contains(&value.trim_matches('"'))
        };
        if is("role", ["user", "tool"]) || is("type", ["function_call_output"; 2]) {
            self.newest = self.points.len().checked_sub(1);
        }
    }

    /// A block. Whether it is marked is not part of what it says.
    fn block(&mut self, raw: &str) {
        let fields: Fields<'_> = serde_json::from_str(raw).unwrap_or_default();
        let is_mark = |key: &str| ["cache_control", "prompt_cache_breakpoint"].contains(&key);
        let marked = fields.keys().any(|key| is_mark(key));
        match fields.is_empty() {
            true => self.setting(raw),
            false => {
                for (key, value) in fields.iter().filter(|(key, _)| !is_mark(key)) {
                    self.setting(key);
                    self.setting(value.get());
                }
            }
        }
        self.bytes += raw.len();
        self.points.push(Point {
            hash: self.hasher.finish(),
            bytes: self.bytes,
            reads: false,
            writes: marked,
        });
    }

    fn anthropic(mut self, automatic: bool) -> Vec<Point> {
        if let Some(last) = self.points.last_mut() {
            last.writes |= automatic;
        }
        let mut left = 0;
        for point in self.points.iter_mut().rev() {
            if point.writes {
                left = LOOK_BACK;
            }
            point.reads = left > 0;
            left = left.saturating_sub(1);
        }
        self.points
    }

    fn openai(mut self, implicit: bool) -> Vec<Point> {
        let marked = self.points.iter_mut().filter(|point| point.writes);
        for older in marked.rev().skip(OPENAI_EXPLICIT + usize::from(!implicit)) {
            older.writes = false;
        }
        let newest = self.newest.filter(|_| implicit);
        if let Some(point) = newest.and_then(|place| self.points.get_mut(place)) {
            point.writes = true;
        }
        self.points.iter_mut().for_each(|point| point.reads = true);
        self.points
    }
}
