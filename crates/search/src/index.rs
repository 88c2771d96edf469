//! The index on disk: its fields, its opening, and its contents for each session.
//!
//! There is one document per message, and one per session, its cursor, which records the indexed
//! part of the journal. Both are committed together, so the cursor is correct after a kill at any
//! instant. The index does not store the text: a reader takes it from the journal.

use std::path::{Path, PathBuf};

use tantivy::collector::DocSetCollector;
use tantivy::query::TermQuery;
use tantivy::schema::{
    BytesOptions, Field, IndexRecordOption, NumericOptions, STORED, Schema, TantivyDocument,
    TextFieldIndexing, TextOptions, Value,
};
use tantivy::{IndexBuilder, IndexReader, IndexSettings, ReloadPolicy, Searcher, Term};
use unisono_context::{MessageId, Ordinal, SessionId};
use unisono_store::private;

use crate::committed::PlacedMessage;
use crate::directory::remove;
use crate::error::{Error, Result};
use crate::guarded::guarded;
use crate::named::{day_of, named_days};
use crate::private_directory::PrivateDirectory;
use crate::words::{ANALYSIS, analyzer, name_key};

/// The term of all cursors.
const ALL: &str = "all";
/// The name of [`Fields::named`].
pub(crate) const NAMED: &str = "named";

/// The fields of messages and cursors.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Fields {
    /// The text of the message, including tool calls, results and names of attachments.
    pub(crate) text: Field,
    /// The day of the message in words and numbers, `Sunday 7 May 2023 2023-05-07`, for the queries
    /// of agents.
    pub(crate) day: Field,
    /// The days that the text names, except the message's own: values of [`crate::named::NamedDay`].
    pub(crate) named: Field,
    /// The words of the author's name.
    pub(crate) author: Field,
    /// The session of a message.
    pub(crate) session: Field,
    pub(crate) role: Field,
    /// The author's name as [`name_key`] compares it.
    pub(crate) agent: Field,
    /// The owner of its session, if it has one.
    pub(crate) owner: Field,
    /// The time of the message, in milliseconds since 1970 UTC.
    pub(crate) at: Field,
    pub(crate) ordinal: Field,
    /// The strand of the message tree that has the message.
    pub(crate) strand: Field,
    /// The position of the message: a [`Place`].
    pub(crate) place: Field,
    /// The session of a cursor.
    pub(crate) cursor_of: Field,
    /// A [`Cursor`].
    pub(crate) cursor: Field,
}

impl Fields {
    fn schema() -> (Schema, Fields) {
        let mut schema = Schema::builder();
        let text = TextFieldIndexing::default()
            .set_tokenizer(ANALYSIS)
            .set_index_option(IndexRecordOption::WithFreqsAndPositions);
        let heading = TextFieldIndexing::default()
            .set_tokenizer(ANALYSIS)
            .set_fieldnorms(false)
            .set_index_option(IndexRecordOption::Basic);
        let heading = TextOptions::default().set_indexing_options(heading);
        let name = TextFieldIndexing::default()
            .set_tokenizer("raw")
            .set_fieldnorms(false)
            .set_index_option(IndexRecordOption::Basic);
        let name = TextOptions::default().set_indexing_options(name);
        let number = NumericOptions::default().set_fast();
        let fields = Fields {
            text: schema.add_text_field("text", TextOptions::default().set_indexing_options(text)),
            day: schema.add_text_field("day", heading.clone()),
            named: schema.add_i64_field(NAMED, number.clone()),
            author: schema.add_text_field("author", heading),
            session: schema.add_text_field("session", name.clone()),
            role: schema.add_text_field("role", name.clone()),
            agent: schema.add_text_field("agent_key", name.clone()),
            owner: schema.add_text_field("owner", name.clone()),
            at: schema.add_i64_field("at", number.clone()),
            ordinal: schema.add_u64_field("ordinal", number.clone()),
            strand: schema.add_u64_field("strand", number),
            place: schema.add_bytes_field("place", BytesOptions::from(STORED)),
            cursor_of: schema.add_text_field("cursor_of", name),
            cursor: schema.add_bytes_field("cursor", BytesOptions::from(STORED)),
        };
        (schema.build(), fields)
    }

    pub(crate) fn of_session(self, session: SessionId) -> Term {
        Term::from_field_text(self.session, &key(session))
    }

    pub(crate) fn cursors(self) -> Term {
        Term::from_field_text(self.cursor_of, ALL)
    }

    pub(crate) fn cursor_of(self, session: SessionId) -> Term {
        Term::from_field_text(self.cursor_of, &key(session))
    }

    pub(crate) fn message(self, session: SessionId, placed: &PlacedMessage) -> TantivyDocument {
        let message = &placed.message;
        let place = Place {
            session,
            message: message.id,
            ordinal: message.ordinal,
        };
        let mut document = TantivyDocument::new();
        let text = message.countable_text();
        if let Some(day) = day_of(message.at) {
            for named in named_days(&text, day) {
                document.add_i64(self.named, named.value());
            }
            document.add_text(self.day, day.strftime("%A %-d %B %Y %F").to_string());
        }
        document.add_text(self.text, text);
        document.add_text(self.session, key(session));
        document.add_text(self.role, message.role.name());
        if let Some(author) = &message.author {
            document.add_text(self.agent, name_key(author.as_str()));
            document.add_text(self.author, author.as_str());
        }
        if let Some(owner) = &placed.owner {
            document.add_text(self.owner, owner);
        }
        document.add_i64(self.at, message.at.0);
        document.add_u64(self.ordinal, u64::from(message.ordinal.0));
        document.add_u64(self.strand, u64::from(placed.strand.0));
        document.add_bytes(self.place, &place.to_bytes());
        document
    }

    pub(crate) fn cursor(self, session: SessionId, cursor: &Cursor) -> TantivyDocument {
        let mut document = TantivyDocument::new();
        document.add_text(self.cursor_of, key(session));
        document.add_text(self.cursor_of, ALL);
        document.add_bytes(self.cursor, &cursor.to_bytes(session));
        document
    }
}

fn key(session: SessionId) -> String {
    format!("{:032x}", session.as_u128())
}

/// The position of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    pub(crate) session: SessionId,
    pub(crate) message: MessageId,
    pub(crate) ordinal: Ordinal,
}

impl Place {
    fn to_bytes(self) -> Vec<u8> {
        let mut bytes = self.session.as_u128().to_be_bytes().to_vec();
        bytes.extend(self.message.as_u128().to_be_bytes());
        bytes.extend(self.ordinal.0.to_be_bytes());
        bytes
    }

    pub(crate) fn read(mut bytes: &[u8]) -> Option<Place> {
        Some(Place {
            session: SessionId::from_u128(u128::from_be_bytes(take(&mut bytes)?)),
            message: MessageId::from_u128(u128::from_be_bytes(take(&mut bytes)?)),
            ordinal: Ordinal(u32::from_be_bytes(take(&mut bytes)?)),
        })
    }
}

/// The indexed part of a session's journal.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Cursor {
    /// The first claim of the session, in milliseconds since 1970 UTC; it differs for a new session
    /// with the id of a deleted one.
    pub(crate) born: u64,
    /// The last indexed event.
    pub(crate) seq: u64,
    /// The number of indexed messages, from the first of the message tree.
    pub(crate) messages: u64,
    pub(crate) last: Option<MessageId>,
}

impl Cursor {
    /// The cursor before the first event.
    pub(crate) fn start(born: u64) -> Cursor {
        Cursor {
            born,
            seq: 0,
            messages: 0,
            last: None,
        }
    }

    fn to_bytes(self, session: SessionId) -> Vec<u8> {
        let mut bytes = session.as_u128().to_be_bytes().to_vec();
        for number in [self.born, self.seq, self.messages] {
            bytes.extend(number.to_be_bytes());
        }
        let last = self.last.map(MessageId::as_u128);
        bytes.extend(last.unwrap_or_default().to_be_bytes());
        bytes
    }

    fn read(mut bytes: &[u8]) -> Option<(SessionId, Cursor)> {
        let session = SessionId::from_u128(u128::from_be_bytes(take(&mut bytes)?));
        let [born, seq, messages] = [take(&mut bytes)?, take(&mut bytes)?, take(&mut bytes)?];
        let last = u128::from_be_bytes(take(&mut bytes)?);
        let cursor = Cursor {
            born: u64::from_be_bytes(born),
            seq: u64::from_be_bytes(seq),
            messages: u64::from_be_bytes(messages),
            last: (last != 0).then(|| MessageId::from_u128(last)),
        };
        Some((session, cursor))
    }
}

fn take<const N: usize>(bytes: &mut &[u8]) -> Option<[u8; N]> {
    let (first, rest) = bytes.split_first_chunk()?;
    *bytes = rest;
    Some(*first)
}

/// An open index. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Index {
    pub(crate) fields: Fields,
    pub(crate) index: tantivy::Index,
    reader: IndexReader,
    /// Its directory; none in memory.
    directory: Option<PathBuf>,
}

impl std::fmt::Debug for Index {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Index").finish_non_exhaustive()
    }
}

impl Index {
    pub(crate) fn in_memory() -> Result<Index> {
        guarded("made", || Index::on(builder().create_in_ram()?, None))
    }

    /// Opens or creates the index in a directory and checks every file. It rebuilds a damaged index or
    /// one of another version, and then returns the reason. Blocking.
    pub(crate) fn open(dir: &Path) -> Result<(Index, Option<String>)> {
        if !dir.exists() {
            return Ok((Index::make(dir)?, None));
        }
        match Index::open_whole(dir) {
            Ok(index) => Ok((index, None)),
            // The index may be intact.
            Err(error) if error.is_disk_full() => Err(error),
            Err(error) => {
                let reason = error.to_string();
                tracing::warn!(index = %dir.display(), reason, "the search index is rebuilt");
                remove(dir)?;
                Ok((Index::make(dir)?, Some(reason)))
            }
        }
    }

    fn open_whole(dir: &Path) -> Result<Index> {
        let index = guarded("read", || {
            tantivy::Index::open(PrivateDirectory::open(dir)?)
        })?;
        let (schema, _) = Fields::schema();
        if index.schema() != schema {
            let reason = "another version of unisono made it".to_owned();
            return Err(Error::Damaged { reason });
        }
        let damaged = guarded("read", || index.validate_checksum())?;
        if let Some(file) = damaged.iter().next() {
            let reason = format!("{} differs from the written content", file.display());
            return Err(Error::Damaged { reason });
        }
        let opened = guarded("read", || Index::on(index, Some(dir.to_owned())))?;
        opened.cursors()?;
        Ok(opened)
    }

    fn make(dir: &Path) -> Result<Index> {
        let failed = |source| Error::Directory {
            doing: "made",
            path: dir.to_owned(),
            source,
        };
        private::create_dir_all(dir).map_err(failed)?;
        guarded("made", || {
            let directory = PrivateDirectory::open(dir)?;
            Index::on(builder().open_or_create(directory)?, Some(dir.to_owned()))
        })
    }

    fn on(index: tantivy::Index, directory: Option<PathBuf>) -> tantivy::Result<Index> {
        index.tokenizers().register(ANALYSIS, analyzer());
        let reader = index.reader_builder();
        let reader = reader.reload_policy(ReloadPolicy::Manual).try_into()?;
        let (_, fields) = Fields::schema();
        Ok(Index {
            fields,
            index,
            reader,
            directory,
        })
    }

    /// Removes the permissions of other users from files that an earlier version created.
    pub(crate) fn narrow(&self) {
        let Some(directory) = &self.directory else {
            return;
        };
        if let Err(error) = private::narrow(directory) {
            tracing::warn!(index = %directory.display(), %error, "other users may be able to read the search index; run chmod -R go-rwx on it");
        }
    }

    /// A searcher of the commits before the last [`Self::refresh`].
    pub(crate) fn searcher(&self) -> Searcher {
        self.reader.searcher()
    }

    /// Makes the last commit visible to searches.
    pub(crate) fn refresh(&self) -> Result<()> {
        guarded("read", || self.reader.reload())
    }

    pub(crate) fn cursors(&self) -> Result<Vec<(SessionId, Cursor)>> {
        let searcher = self.searcher();
        guarded("read", || {
            let mut cursors = Vec::new();
            let query = TermQuery::new(self.fields.cursors(), IndexRecordOption::Basic);
            for address in searcher.search(&query, &DocSetCollector)? {
                let document: TantivyDocument = searcher.doc(address)?;
                let bytes = document.get_first(self.fields.cursor);
                let cursor = bytes
                    .and_then(|value| value.as_bytes())
                    .and_then(Cursor::read);
                cursors.extend(cursor);
            }
            Ok(cursors)
        })
    }
}

fn builder() -> IndexBuilder {
    let (schema, _) = Fields::schema();
    let settings = IndexSettings {
        // A compression thread is not worth it for so little data.
        docstore_compress_dedicated_thread: false,
        ..IndexSettings::default()
    };
    tantivy::Index::builder().schema(schema).settings(settings)
}
