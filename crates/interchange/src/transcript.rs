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
mod encoding;
mod fields;
mod gemini_cli;
mod json;
mod messenger;
mod openai;
mod pieces;
mod several;
mod shape;
mod sharegpt;
mod slack;
mod source;
mod telegram;
mod text;
mod unisono;
mod write;

use std::collections::BTreeMap;
use std::fmt;
use std::io::{self, BufRead, BufReader, Read};

use unisono_context::{Digest, Timestamp};
use unisono_session::machine::Import;

pub use attachment::unfit;
pub use chatgpt::group_chats;
pub use several::{Conversation, list};
pub use slack::join_channel;
pub use write::{Export, WriteError, write};

/// The label of an imported session with the digest of its source.
pub const SOURCE_DIGEST: &str = "source.blake3";
/// The label with the name of its source file.
pub const SOURCE_NAME: &str = "source.name";

/// The format of a conversation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Format {
    /// One object per line: the session, its messages, branches and checkpoints. Lossless.
    Unisono,
    /// OpenAI chat messages: an array, an object with `messages`, or one message per line.
    OpenAi,
    /// ShareGPT: `{"conversations": [{"from", "value"}]}`.
    ShareGpt,
    /// Anthropic's messages: like OpenAI's, with a separate `system` and blocks as content.
    Anthropic,
    /// ChatGPT's export: conversations with a `mapping` of messages.
    ChatGpt,
    /// Claude's export: conversations with `chat_messages`.
    Claude,
    /// A session of Claude Code, one line per block of a message.
    ClaudeCode,
    /// A session of Codex, one event per line.
    Codex,
    /// A session or checkpoint of Gemini CLI.
    GeminiCli,
    /// Messages of a channel in Slack's export.
    Slack,
    /// A chat in the JSON export of Telegram.
    Telegram,
    /// A chat in the JSON export of Messenger, Facebook or Instagram.
    Messenger,
    /// A text in which lines name the speaker.
    Text,
}

unisono_context::names!(Format {
    Unisono = "unisono",
    OpenAi = "openai",
    ShareGpt = "sharegpt",
    Anthropic = "anthropic",
    ChatGpt = "chatgpt",
    Claude = "claude",
    ClaudeCode = "claude-code",
    Codex = "codex",
    GeminiCli = "gemini-cli",
    Slack = "slack",
    Telegram = "telegram",
    Messenger = "messenger",
    Text = "text",
});

impl Format {
    /// The formats that can be written.
    pub const WRITTEN: [Format; 4] = [
        Format::Unisono,
        Format::OpenAi,
        Format::ShareGpt,
        Format::Anthropic,
    ];
}

impl fmt::Display for Format {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// Options for reading.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// The file's name, for errors; its stem is the title of a conversation that has none.
    pub name: String,
    /// The format; `None`: it is detected.
    pub format: Option<Format>,
    /// Skips bad lines and bad parts of messages instead of rejecting the file.
    pub skip_bad: bool,
    /// The maximum number of messages; `None`: no limit.
    pub most: Option<usize>,
    /// Line and column, from 1, of the conversation in its file; `None`: at the beginning.
    pub begins: Option<(u32, u32)>,
}

/// Ids and times for messages that have none.
pub struct Stamps<'i> {
    /// Makes ascending ids: UUIDv7.
    pub ids: &'i mut dyn FnMut() -> u128,
    /// The time of the newest message of a conversation without times; `None`: they stay unknown.
    pub now: Option<Timestamp>,
}

impl fmt::Debug for Stamps<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stamps")
            .field("now", &self.now)
            .finish_non_exhaustive()
    }
}

/// A parsed conversation.
#[derive(Clone, Debug)]
pub struct Parsed {
    /// The conversation. It has a session id only if the file has one.
    pub import: Import,
    /// Its format.
    pub format: Format,
    /// The skipped bad lines.
    pub skipped: Vec<LineError>,
    /// The number of these that are parts of messages, whose other parts were kept.
    pub skipped_parts: usize,
    /// Possible mistakes in the file.
    pub warnings: Vec<LineError>,
    /// The omitted items by kind, in the singular, with their number: `reasoning block`.
    pub dropped_content: BTreeMap<String, u64>,
    /// The digest of the conversation's text, if it is an element of the file.
    digest: Option<Digest>,
}

impl From<Parsed> for Import {
    fn from(parsed: Parsed) -> Import {
        parsed.import
    }
}

/// A problem in a line.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct LineError {
    /// The line, from 1.
    pub line: u32,
    /// The column, from 1, in characters.
    pub column: u32,
    /// The problem.
    pub reason: String,
}

impl fmt::Display for LineError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}:{}: {}", self.line, self.column, self.reason)
    }
}

/// Why a conversation was not read. The message does not say how lines are skipped or conversations
/// are picked: each user interface has its own way.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// The file cannot be read.
    #[error("cannot read {name}: {reason}")]
    Unreadable {
        /// The file.
        name: String,
        /// The reason.
        reason: String,
    },
    /// The file is empty.
    #[error("{name}: the file is empty; a conversation has at least one message")]
    Empty {
        /// The file.
        name: String,
    },
    /// It has no conversation in a known format.
    #[error(
        "{name}: this is not a conversation in a known format: {reason}; known are unisono JSONL, OpenAI chat messages (JSON array or JSONL), ShareGPT, Anthropic messages, exports of ChatGPT, Claude, Slack, Telegram and Messenger, sessions of Claude Code, Codex and Gemini CLI, and texts whose lines say who speaks: if it is one of these, name its format"
    )]
    Unrecognised {
        /// The file.
        name: String,
        /// Why it is not recognised.
        reason: String,
    },
    /// It has several conversations.
    #[error("{name}: the file has {conversations} conversations")]
    Several {
        /// The file.
        name: String,
        /// Their number.
        conversations: usize,
    },
    /// It has no valid message.
    #[error("{name}: the conversation has no message{}", left_out(.skipped))]
    NoMessage {
        /// The file.
        name: String,
        /// The skipped bad lines.
        skipped: Vec<LineError>,
    },
    /// It has more messages than the limit.
    #[error("{name}: the conversation has more than {most} messages; nothing was imported")]
    TooMany {
        /// The file.
        name: String,
        /// The limit.
        most: usize,
    },
    /// Some lines are bad; nothing was read.
    #[error("{}", bad_lines(.name, .lines))]
    Bad {
        /// The file.
        name: String,
        /// The bad lines, in order.
        lines: Vec<LineError>,
    },
}

/// The number of listed bad lines; the others are counted.
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
    text.push_str("nothing was imported");
    text
}

fn left_out(skipped: &[LineError]) -> String {
    match skipped.first() {
        Some(only) if skipped.len() == 1 => format!(" besides a bad line at {only}"),
        Some(first) => format!(" besides {} bad lines, the first at {first}", skipped.len()),
        None => String::new(),
    }
}

/// Reads a conversation from memory.
///
/// # Errors
/// The file is empty, its format is unknown, or it has bad lines that are not skipped.
pub fn read(mut bytes: &[u8], options: &Options, stamps: Stamps<'_>) -> Result<Parsed, Error> {
    read_from(&mut bytes, options, stamps)
}

/// Reads a conversation as [`read_from`] does, and computes the digest of its bytes. A conversation
/// that is an element of a list has the digest of that element.
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

/// Reads a conversation from a stream; only the result is kept in memory.
///
/// # Errors
/// As [`read`], or the file cannot be read.
pub fn read_from(
    input: &mut dyn BufRead,
    options: &Options,
    stamps: Stamps<'_>,
) -> Result<Parsed, Error> {
    let name = || options.name.clone();
    let builder = draft::ConversationBuilder::new(stamps, options.most);
    let mut reader = detect::Reader::new(builder, options.format);
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
    let detect::ReadOutcome {
        mut builder,
        format,
        bad,
        skipped_parts,
        warnings,
        digest,
    } = found.ok_or_else(|| Error::Empty { name: name() })?;
    if let (true, Some(most)) = (builder.is_full, options.most) {
        return Err(Error::TooMany { name: name(), most });
    }
    if !bad.is_empty() && !options.skip_bad {
        return Err(Error::Bad {
            name: name(),
            lines: bad,
        });
    }
    let dropped_content = std::mem::take(&mut builder.dropped_content);
    let import = builder.finish(&options.name);
    // An exported session without messages is valid too.
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
        dropped_content,
        digest,
    })
}

#[cfg(test)]
mod tests;
