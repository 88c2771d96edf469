//! Files with several conversations: a list of them, and the text of each.

use std::io::{self, BufReader, Read, Seek, SeekFrom};

use unisono_context::{Digest, Timestamp};

use super::detect::Reader;
use super::draft::ConversationBuilder;
use super::json::Value;
use super::source::Place;
use super::{Error, Options, READ_BYTES, Stamps, fields, pieces, read, shape};

/// One of the conversations in a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Conversation {
    /// Its number, from 1.
    pub number: usize,
    /// Its id in its program.
    pub id: Option<String>,
    /// Its title; may be empty.
    pub title: String,
    /// The time of its beginning.
    pub at: Option<Timestamp>,
    /// The number of its valid messages.
    pub messages: usize,
    /// Whether it has only invalid messages.
    pub is_bad: bool,
    /// Line and column of its beginning, from 1.
    pub place: (u32, u32),
    /// The digest with which a session made of it is labelled.
    pub digest: Digest,
    /// The offset of its first byte in the file.
    begin: u64,
    bytes: u64,
}

impl Conversation {
    /// Whether `wanted` is its number or id.
    pub fn matches(&self, wanted: &str) -> bool {
        wanted.parse() == Ok(self.number) || self.id.as_deref() == Some(wanted)
    }

    /// Its text, which can be read like a file with one conversation.
    pub fn text(&self, file: &mut (impl Read + Seek)) -> io::Result<Vec<u8>> {
        file.seek(SeekFrom::Start(self.begin))?;
        let mut text = Vec::new();
        file.take(self.bytes).read_to_end(&mut text)?;
        Ok(text)
    }
}

/// The conversations of a file with several, reading one at a time; empty if the file is a single
/// conversation or something else.
///
/// # Errors
/// The file cannot be read, or has bad lines that are not skipped.
pub fn list(input: impl Read, options: &Options) -> Result<Vec<Conversation>, Error> {
    let mut found = Vec::new();
    let mut each = |text: &str, place: Place, begin: u64| {
        if let Some(conversation) = conversation(text, options) {
            found.push(Conversation {
                number: found.len() + 1,
                place: (place.line, place.column),
                begin,
                ..conversation
            });
        }
    };
    let mut ids = || 0;
    let stamps = Stamps {
        ids: &mut ids,
        now: None,
    };
    let mut reader = Reader::new(ConversationBuilder::new(stamps, None), None);
    reader.on_piece = Some(&mut each);
    let mut input = BufReader::with_capacity(READ_BYTES, input);
    pieces::read(&mut input, Place::FIRST, &mut reader).map_err(|error| Error::Unreadable {
        name: options.name.clone(),
        reason: error.to_string(),
    })?;
    let bad = match reader.finish() {
        Ok(Some(found)) => found.bad,
        // Reading it as one conversation reports the reason.
        Ok(None) | Err(_) => Vec::new(),
    };
    if bad.is_empty() || options.skip_bad || found.is_empty() {
        return Ok(found);
    }
    Err(Error::Bad {
        name: options.name.clone(),
        lines: bad,
    })
}

/// One of several conversations; `None` if the text is something else.
fn conversation(text: &str, options: &Options) -> Option<Conversation> {
    let object = Value::parse(text).ok()?.object().ok()?;
    if !shape::is_conversation_object(&object) {
        return None;
    }
    let mut next = 0;
    let mut ids = || {
        next += 1;
        next
    };
    let stamps = Stamps {
        ids: &mut ids,
        now: None,
    };
    let options = Options {
        skip_bad: true,
        most: None,
        ..options.clone()
    };
    let parsed = read(text.as_bytes(), &options, stamps);
    let is_bad = matches!(&parsed, Err(Error::NoMessage { skipped, .. }) if !skipped.is_empty());
    let (messages, digest) = match parsed {
        Ok(parsed) => (parsed.import.messages.len(), parsed.digest),
        Err(_) => (0, None),
    };
    Some(Conversation {
        number: 0,
        id: fields::first_text(&object, &["conversation_id", "id", "uuid"]),
        title: fields::first_text(&object, &fields::TITLES).unwrap_or_default(),
        at: fields::seconds(&object, "create_time")
            .or_else(|| fields::instant(&object, "created_at")),
        messages,
        is_bad,
        place: (1, 1),
        digest: digest.unwrap_or_else(|| Digest(*blake3::hash(text.as_bytes()).as_bytes())),
        begin: 0,
        bytes: text.len() as u64,
    })
}
