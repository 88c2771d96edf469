//! Conversations in and out of files: unisono JSONL (lossless), OpenAI chat messages, ShareGPT.
//!
//! A file is read piece by piece (`pieces`): only the result is kept in memory. The whole file is
//! checked before any of it is used: each bad line is reported with its number, column and reason.
//! Tool arguments keep their original text, so that digests do not depend on a parser's order of
//! keys or on large numbers. Results are paired with calls by position, because real transcripts
//! reuse call ids.

mod anthropic;
mod attachment;
mod branching;
mod chatgpt;
mod claude;
mod claude_code;
mod codex;
mod detect;
mod draft;
mod fields;
mod gemini_cli;
mod json;
mod openai;
mod pieces;
mod several;
mod sharegpt;
mod slack;
mod source;
mod text;
mod unisono;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use unisono_context::{Digest, Timestamp};
use unisono_session::machine::Import;

pub use attachment::unfit;
pub use several::{Conversation, list};
pub use slack::joined;
pub use write::{WriteError, write};

/// The label of a session that says which bytes it was made of.
pub const SOURCE_DIGEST: &str = "source.blake3";
/// The label that says which file they were in.
pub const SOURCE_NAME: &str = "source.name";

/// How a conversation is written down.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// One object a line: the session, its messages, branches and checkpoints. Lossless.
    Unisono,
    /// OpenAI chat messages: an array, an object with `messages`, or one message a line.
    OpenAi,
    /// ShareGPT: `{"conversations": [{"from", "value"}]}`.
    ShareGpt,
    /// Anthropic's messages: as OpenAI's, with `system` beside them and blocks as content.
    Anthropic,
    /// ChatGPT's export: conversations with a `mapping` of messages.
    ChatGpt,
    /// Claude's export: conversations with `chat_messages`.
    Claude,
    /// A session of Claude Code, a line per block of a message.
    ClaudeCode,
    /// A session of Codex, an event a line.
    Codex,
    /// A session or checkpoint of Gemini CLI.
    GeminiCli,
    /// Messages of a channel in Slack's export.
    Slack,
    /// A text in which lines say who speaks.
    Text,
}

impl Format {
    /// All formats.
    pub const ALL: [Format; 11] = [
        Format::Unisono,
        Format::OpenAi,
        Format::ShareGpt,
        Format::Anthropic,
        Format::ChatGpt,
        Format::Claude,
        Format::ClaudeCode,
        Format::Codex,
        Format::GeminiCli,
        Format::Slack,
        Format::Text,
    ];

    /// The formats that can be written.
    pub const WRITTEN: [Format; 4] = [
        Format::Unisono,
        Format::OpenAi,
        Format::ShareGpt,
        Format::Anthropic,
    ];

    /// The name used on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Format::Unisono => "unisono",
            Format::OpenAi => "openai",
            Format::ShareGpt => "sharegpt",
            Format::Anthropic => "anthropic",
            Format::ChatGpt => "chatgpt",
            Format::Claude => "claude",
            Format::ClaudeCode => "claude-code",
            Format::Codex => "codex",
            Format::GeminiCli => "gemini-cli",
            Format::Slack => "slack",
            Format::Text => "text",
        }
    }

    /// The format of that name.
    pub fn from_name(name: &str) -> Option<Format> {
        Format::ALL.into_iter().find(|format| format.name() == name)
    }
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// How to read.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The file's name, for errors; its stem is the title of a conversation that has none.
    pub name: String,
    /// The format; none: it is recognised.
    pub format: Option<Format>,
    /// Leaves bad lines, and bad parts of messages, out instead of refusing the file.
    pub skip_bad: bool,
    /// Messages of the conversation at most; none: as many as there are.
    pub most: Option<usize>,
    /// Line and column, from 1, where the conversation begins in its file; none: it is all of it.
    pub begins: Option<(u32, u32)>,
}

/// Ids and times for messages that have none.
pub struct Stamps<'i> {
    /// Makes a new id, later ones larger: UUIDv7.
    pub ids: &'i mut dyn FnMut() -> u128,
    /// The time of the newest message without one.
    pub now: Timestamp,
}

impl fmt::Debug for Stamps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stamps")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// A conversation that was read.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The conversation. It has a session id only if the file has one.
    pub import: Import,
    /// The format it was in.
    pub format: Format,
    /// Lines that were left out, because they are bad.
    pub skipped: Vec<LineError>,
    /// How many of these are parts of messages that were taken without them.
    pub skipped_parts: usize,
    /// What may not be meant.
    pub warnings: Vec<LineError>,
    /// What does not carry over, by kind in the singular, and how often: `reasoning block`.
    pub left_behind: BTreeMap<String, u64>,
    /// Of the conversation's own text, where that is an element of the file.
    digest: Option<Digest>,
}

impl From<Parsed> for Import {
    fn from(parsed: Parsed) -> Import {
        parsed.import
    }
}

/// What is wrong with a line.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LineError {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// What is wrong.
    pub reason: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.reason)
    }
}

/// Why nothing was read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// It cannot be read.
    #[error("cannot read {name}: {reason}")]
    Unreadable {
        /// The file.
        name: String,
        /// Why not.
        reason: String,
    },
    /// There is nothing in it.
    #[error("{name}: the file is empty; a conversation has at least one message")]
    Empty {
        /// The file.
        name: String,
    },
    /// It holds no conversation that is known.
    #[error(
        "{name}: this is no conversation in a known format: {reason}; known are unisono JSONL, OpenAI chat messages (JSON array or JSONL), ShareGPT, Anthropic messages, exports of ChatGPT, Claude and Slack, sessions of Claude Code, Codex and Gemini CLI, and texts whose lines say who speaks"
    )]
    Unrecognised {
        /// The file.
        name: String,
        /// What it is.
        reason: String,
    },
    /// It holds several conversations.
    #[error(
        "{name}: the file holds {conversations} conversations; `unisono import` shows them with --list, and takes one with --pick or each with --all"
    )]
    Several {
        /// The file.
        name: String,
        /// How many.
        conversations: usize,
    },
    /// It holds no message, or none that is not bad.
    #[error("{name}: the conversation has no message{}", left_out(.skipped))]
    NoMessage {
        /// The file.
        name: String,
        /// The bad lines that were to be left out.
        skipped: Vec<LineError>,
    },
    /// It holds more messages than are taken.
    #[error("{name}: the conversation has more than {most} messages; nothing of it was taken")]
    TooMany {
        /// The file.
        name: String,
        /// How many are taken.
        most: usize,
    },
    /// Some lines are bad; nothing of the file counts.
    #[error("{}", bad_lines(.name, .lines))]
    Bad {
        /// The file.
        name: String,
        /// The bad lines, in order.
        lines: Vec<LineError>,
    },
}

/// Bad lines that are listed; the rest is counted.
const LISTED: usize = 20;

fn bad_lines(name: &str, lines: &[LineError]) -> String {
    let mut text = String::new();
    for line in lines.iter().take(LISTED) {
        text.push_str(&format!("{name}:{line}\n"));
    }
    if lines.len() > LISTED {
        text.push_str(&format!(
            "{name}: and {} more bad lines\n",
            lines.len() - LISTED
        ));
    }
    text.push_str(
        "nothing of the file was taken; put the lines right, or leave them out with --skip-bad",
    );
    text
}

fn left_out(skipped: &[LineError]) -> String {
    match skipped.first() {
        Some(first) => format!(" besides {} bad lines, the first at {first}", skipped.len()),
        None => String::new(),
    }
}

/// Reads a conversation that is in memory.
///
/// # Errors
/// The file is empty, of no known format, or has bad lines and they are not to be skipped.
pub fn read(mut bytes: &[u8], options: &Options, stamps: Stamps<'_>) -> Result<Parsed, Error> {
    read_from(&mut bytes, options, stamps)
}

/// Reads a conversation as [`read_from`] does, and computes the digest of its bytes. A conversation
/// that is an element of a list has the digest of that element.
///
/// # Errors
/// As [`read_from`].
pub fn read_digested(
    input: impl Read,
    options: &Options,
    stamps: Stamps<'_>,
) -> Result<(Parsed, Digest), Error> {
    let digesting = Digesting {
        input,
        hasher: blake3::Hasher::new(),
    };
    let mut input = BufReader::with_capacity(READ_BYTES, digesting);
    let parsed = read_from(&mut input, options, stamps)?;
    let rest = io::copy(&mut input, &mut io::sink());
    rest.map_err(|error| Error::Unreadable {
        name: options.name.clone(),
        reason: error.to_string(),
    })?;
    let whole = input.get_ref().hasher.finalize();
    let digest = parsed.digest.unwrap_or(Digest(*whole.as_bytes()));
    Ok((parsed, digest))
}

/// A file that is read at so much a time.
const READ_BYTES: usize = 64 * 1024;

struct Digesting<R> {
    input: R,
    hasher: blake3::Hasher,
}

impl<R: Read> Read for Digesting<R> {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        let read = self.input.read(into)?;
        self.hasher.update(into.get(..read).unwrap_or_default());
        Ok(read)
    }
}

/// Reads a conversation, of which only what becomes of it is held.
///
/// # Errors
/// As [`read`], or the file cannot be read.
pub fn read_from(
    input: &mut dyn BufRead,
    options: &Options,
    stamps: Stamps<'_>,
) -> Result<Parsed, Error> {
    let name = || options.name.clone();
    let kept = draft::Kept::new(stamps, options.most);
    let mut reader = detect::Reader::new(kept, options.format);
    let place = options.begins.map_or(source::Place::FIRST, Into::into);
    pieces::read(input, place, &mut reader).map_err(|error| Error::Unreadable {
        name: name(),
        reason: error.to_string(),
    })?;
    let found = reader.finish().map_err(|refusal| match refusal {
        detect::Refusal::Several(conversations) => Error::Several {
            name: name(),
            conversations,
        },
        detect::Refusal::Other(reason) => Error::Unrecognised {
            name: name(),
            reason,
        },
    })?;
    let detect::Found {
        mut kept,
        format,
        bad,
        skipped_parts,
        warnings,
        digest,
    } = found.ok_or_else(|| Error::Empty { name: name() })?;
    if let (true, Some(most)) = (kept.is_full, options.most) {
        return Err(Error::TooMany { name: name(), most });
    }
    if !bad.is_empty() && !options.skip_bad {
        return Err(Error::Bad {
            name: name(),
            lines: bad,
        });
    }
    let left_behind = std::mem::take(&mut kept.left_behind);
    let import = kept.finish(&options.name);
    // A session that was exported before anything was said in it is one as well.
    let says_nothing = format == Format::Unisono && bad.is_empty();
    if import.messages.is_empty() && !says_nothing {
        return Err(Error::NoMessage {
            name: name(),
            skipped: bad,
        });
    }
    Ok(Parsed {
        import,
        format,
        skipped: bad,
        skipped_parts,
        warnings,
        left_behind,
        digest,
    })
}

#[cfg(test)]
mod tests;
