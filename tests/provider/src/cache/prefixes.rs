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
    /// Blocks that were marked.
    pub(super) breakpoints: usize,
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
    let openai = matches!(dialect, Dialect::OpenAiChat | Dialect::OpenAiResponses);
    let mut hasher = DefaultHasher::new();
    hasher.write_u8(dialect as u8);
    // Gemini has the model in its path; the others have it in the body.
    hasher.write(
        gemini_method(path)
            .map_or("", |(model, _)| model)
            .as_bytes(),
    );
    if openai && settings.openai_keys {
        let keyed = serde_json::from_slice::<Keyed>(body).ok();
        let key = keyed.and_then(|keyed| keyed.prompt_cache_key);
        hasher.write(key.unwrap_or_default().as_bytes());
    }
    let by_breakpoints = dialect == Dialect::Anthropic || (openai && settings.openai_breakpoints);
    let mut found = Prefixes {
        tells_writes: by_breakpoints,
        ..Prefixes::default()
    };
    if by_breakpoints {
        if let Ok(request) = serde_json::from_slice::<Request<'_>>(body) {
            let blocks = request.blocks(hasher);
            found.breakpoints = blocks.points.iter().filter(|point| point.writes).count();
            found.points = match dialect {
                Dialect::Anthropic => blocks.anthropic(request.cache_control.is_some()),
                _ => blocks.openai(request.implicit()),
            };
        }
    } else {
        found.points = steps(hasher, body, settings);
    }
    let minimum = usize::try_from(settings.minimum).unwrap_or(usize::MAX);
    found.points.retain(|point| point.bytes / TOKEN >= minimum);
    found
}

/// Every step of a body, whatever is in it.
fn steps(mut hasher: DefaultHasher, body: &[u8], settings: &CacheSettings) -> Vec<Point> {
    let unit = usize::try_from(settings.unit).unwrap_or(usize::MAX);
    let unit = unit.saturating_mul(TOKEN).max(TOKEN);
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

/// What of a request chooses among caches.
#[derive(Deserialize)]
struct Keyed {
    prompt_cache_key: Option<String>,
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
    /// Whether OpenAI adds a breakpoint of its own.
    fn implicit(&self) -> bool {
        let options = self.prompt_cache_options.map_or("", RawValue::get);
        !options.contains("\"explicit\"")
    }

    /// All blocks, in the order in which the model sees them.
    fn blocks(&self, hasher: DefaultHasher) -> Blocks {
        let mut blocks = Blocks {
            hasher,
            bytes: 0,
            points: Vec::new(),
            newest: None,
        };
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
        blocks
    }
}

/// An object whose fields are not looked into.
type Fields<'a> = BTreeMap<String, &'a RawValue>;

/// The blocks of a request so far.
struct Blocks {
    hasher: DefaultHasher,
    bytes: usize,
    points: Vec<Point>,
    /// The last block of the newest message that is not the model's own.
    newest: Option<usize>,
}

impl Blocks {
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
        // An input that is only a text is the user's.
        let only_text = fields.is_empty();
        if only_text || is("role", ["user", "tool"]) || is("type", ["function_call_output"; 2]) {
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

#[cfg(test)]
mod tests {
    //! Where prefixes of each dialect's requests end.

    use super::*;

    /// One letter for each point: `W` is written, `r` is only read, `-` neither.
    fn points(dialect: Dialect, body: &str) -> String {
        let settings = CacheSettings {
            minimum: 0,
            unit: 4,
            openai_breakpoints: true,
            ..CacheSettings::default()
        };
        let found = of(
            dialect,
            "/v1/models/m:generateContent",
            body.as_bytes(),
            &settings,
        );
        let letters = found
            .points
            .iter()
            .map(|point| match (point.writes, point.reads) {
                (true, _) => 'W',
                (false, true) => 'r',
                (false, false) => '-',
            });
        letters.collect()
    }

    #[test]
    fn points_are_where_blocks_end() {
        use Dialect::{Anthropic, Gemini, OpenAiChat, OpenAiResponses};
        const ANTHROPIC: &str = r#"{
            "messages": [
                {"role": "user", "content": [{"text": "a"}, {"text": "b"}]},
                {"role": "assistant", "content": "c"}
            ],
            "system": "s",
            "tools": [{"name": "t", "cache_control": {"type": "ephemeral"}}]MORE
        }"#;
        const CHAT: &str = r#"{
            "messages": [
                {"role": "system", "content": [{"text": "s", "prompt_cache_breakpoint": {}}]},
                {"role": "user", "content": "a"},
                {"role": "assistant", "content": "b"},
                {"role": "tool", "tool_call_id": "1", "content": "c"},
                {"role": "system", "content": "d"}
            ]MORE
        }"#;
        const RESPONSES: &str = r#"{
            "instructions": "i",
            "input": [
                {"role": "user", "content": [{"type": "input_text", "text": "a"}]},
                {"type": "function_call", "call_id": "1"},
                {"type": "function_call_output", "call_id": "1", "output": "x"}
            ]
        }"#;
        let explicit = r#", "prompt_cache_options": {"mode": "explicit"}"#;
        let automatic = r#", "cache_control": {"type": "ephemeral"}"#;
        let cases = [
            (Anthropic, ANTHROPIC.replace("MORE", ""), "W----"),
            (Anthropic, ANTHROPIC.replace("MORE", automatic), "WrrrW"),
            (OpenAiChat, CHAT.replace("MORE", ""), "WrrWr"),
            (OpenAiChat, CHAT.replace("MORE", explicit), "Wrrrr"),
            (OpenAiResponses, RESPONSES.to_owned(), "rrrW"),
            (OpenAiResponses, r#"{"input": "text"}"#.to_owned(), "W"),
            (Gemini, "x".repeat(40), "WW"),
            (Anthropic, "not json".to_owned(), ""),
        ];
        for (dialect, body, expected) in cases {
            assert_eq!(points(dialect, &body), expected, "{dialect:?} {body}");
        }
    }

    #[test]
    fn a_mark_is_not_part_of_what_is_said() {
        let body = |mark: &str| format!(r#"{{"system":[{{"text":"s"{mark}}}],"messages":[]}}"#);
        let settings = CacheSettings {
            minimum: 0,
            ..CacheSettings::default()
        };
        let hash = |body: String| {
            of(
                Dialect::Anthropic,
                "/v1/messages",
                body.as_bytes(),
                &settings,
            )
            .points[0]
                .hash
        };
        let marked = body(r#","cache_control":{"type":"ephemeral"}"#);
        assert_eq!(hash(body("")), hash(marked));
        assert_ne!(hash(body("")), hash(body(r#","other":1"#)));
    }
}
