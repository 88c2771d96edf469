//! The frozen context: immutable, content-addressed, the same for every agent.

use std::collections::BTreeSet;
use std::fmt;
use std::str::FromStr;
use std::sync::{Arc, OnceLock};

use crate::alteration::{Alterations, Form};
use crate::attachment::{Content, Files};
use crate::budget::Budget;
use crate::checkpoint::{Checkpoint, Checkpoints, Span};
use crate::digest::{Digest, Hasher};
use crate::ids::{CheckpointId, MessageId, Ordinal};
use crate::message::{Message, Part, prefetch};
use crate::tokens::{Count, Counts, Encoding};
use crate::tree::{MessagesCost, Tree};
use crate::view::View;

mod preamble;
mod shown;

pub use preamble::{Preamble, ToolSpec};
pub use shown::{Block, Entry};

/// Version of the canonical encoding, whose digest is the id of a snapshot.
pub const VERSION: u16 = 1;

/// BLAKE3 of the canonical encoding of the content that a model sees: system text, tools,
/// checkpoint texts, messages in their form. It contains no UUIDs and no times: equal content has
/// an equal id, on every machine and after every restart.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct SnapshotId(pub Digest);

impl SnapshotId {
    /// The first 12 hex digits, for people.
    pub fn short(&self) -> String {
        self.0.short()
    }
}

impl fmt::Display for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(&self.0, f)
    }
}

impl fmt::Debug for SnapshotId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SnapshotId({})", self.short())
    }
}

impl FromStr for SnapshotId {
    type Err = <Digest as FromStr>::Err;

    fn from_str(s: &str) -> Result<Self, Self::Err> {
        s.parse().map(SnapshotId)
    }
}

/// The data from which a snapshot is rebuilt: ids and ranges, never bytes, so that the bytes that a
/// turn writes do not depend on the length of its context.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Manifest {
    /// Version of the canonical encoding.
    pub version: u16,
    /// The branch tip.
    pub head: MessageId,
    /// The active checkpoints, oldest first.
    pub checkpoints: Vec<CheckpointId>,
    /// The messages no checkpoint covers.
    pub spans: Vec<Span>,
    /// The shortened ones among them.
    pub altered: Vec<(Ordinal, Form)>,
    /// Digest of system text and tools.
    pub preamble: Digest,
}

/// The tokens of a frozen context, by its manifest.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ManifestTokens {
    /// Of its summaries.
    pub summaries: Count,
    /// Of its messages, each in its form.
    pub messages: Count,
    /// Number of its messages.
    pub verbatim: u32,
}

impl Manifest {
    /// Its tokens under a budget, with the overhead of each message and summary; none while
    /// something is not counted, or is not in the session. The cost depends on the number of its
    /// ranges, checkpoints and shortened messages.
    pub fn tokens(
        &self,
        tree: &Tree,
        checkpoints: &Checkpoints,
        alterations: &Alterations,
        budget: &Budget,
    ) -> Option<ManifestTokens> {
        let (encoding, overhead) = (budget.encoding, budget.per_message);
        let mut summaries = Count::exact(overhead.times(self.checkpoints.len() as u64).0);
        for id in &self.checkpoints {
            summaries += checkpoints.get(*id)?.counts.get(encoding)?;
        }
        let (mut messages, mut verbatim) = (MessagesCost::default(), 0);
        for span in &self.spans {
            messages += tree.messages_cost(self.head, span.first..=span.last, encoding)?;
            verbatim += span.len();
        }
        for (ordinal, form) in &self.altered {
            let node = tree.node_at(self.head, *ordinal)?;
            let mut made = alterations.ever(*ordinal, node.message.id);
            let made = made.find(|made| made.form == *form)?;
            made.shorten(&mut messages, node, encoding)?;
        }
        Some(ManifestTokens {
            summaries,
            messages: messages.under(budget) + Count::exact(overhead.times(u64::from(verbatim)).0),
            verbatim,
        })
    }
}

/// Why a snapshot could not be rebuilt from its manifest.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum RebuildError {
    /// It was written by another version of this program.
    #[error("snapshot manifest has version {0}, this program renders version {VERSION}")]
    Version(u16),
    /// A message or range is missing.
    #[error("snapshot manifest names messages that are not in the session")]
    MissingMessages,
    /// A checkpoint is missing.
    #[error("snapshot manifest names checkpoint {0}, which is not in the session")]
    MissingCheckpoint(CheckpointId),
    /// System text or tools have changed since.
    #[error("system text or tools differ from those the snapshot was frozen with")]
    Preamble,
    /// The id of the content differs from the recorded one.
    #[error("snapshot mismatch: rebuilt {rebuilt}, recorded {recorded}")]
    Mismatch {
        /// The id of the rebuilt content.
        rebuilt: SnapshotId,
        /// The id in the journal.
        recorded: SnapshotId,
    },
}

/// The context of every agent of a turn. Made once, shared by `Arc`, never changed: all fields are
/// private and no method takes `&mut self`. The bytes of attachments are loaded into it later, by
/// their digests.
#[derive(Clone, Debug)]
pub struct Snapshot {
    id: SnapshotId,
    preamble: Preamble,
    blocks: Vec<Block>,
    entries: Vec<Entry>,
    counts: Counts,
    manifest: Manifest,
    files: OnceLock<Files>,
}

impl Snapshot {
    /// Freezes the content of a view. The cost depends on the length of the active context, not on
    /// that of the history.
    pub fn freeze(view: &View<'_>, preamble: Preamble) -> Snapshot {
        let items = view.items();
        prefetch(items.iter().map(|item| &*item.node.message));
        let altered = items
            .iter()
            .filter_map(|i| i.alteration.map(|a| (a.ordinal, a.form)));
        let manifest = Manifest {
            version: VERSION,
            head: view.head(),
            checkpoints: view.active().iter().map(|c| c.id).collect(),
            spans: view.uncovered().to_vec(),
            altered: altered.collect(),
            preamble: preamble.digest(),
        };
        let counts = Encoding::ALL.into_iter().filter_map(|encoding| {
            let summaries: Option<Count> =
                view.active().iter().map(|c| c.counts.get(encoding)).sum();
            let messages: Count = items.iter().map(|item| item.counted(encoding)).sum();
            let counted = items
                .iter()
                .all(|item| item.node.counts.get(encoding).is_some());
            counted.then_some(())?;
            Some((encoding, summaries? + messages))
        });
        let entries = items
            .iter()
            .map(|item| (item.node.message.clone(), item.alteration.map(|a| a.form)))
            .collect();
        Snapshot::assemble(
            view.tree(),
            preamble,
            view.active(),
            entries,
            counts.collect(),
            manifest,
        )
    }

    /// The context of a conversation without messages.
    pub fn empty(preamble: Preamble) -> Snapshot {
        let manifest = Manifest {
            version: VERSION,
            head: MessageId::from_u128(0),
            checkpoints: Vec::new(),
            spans: Vec::new(),
            altered: Vec::new(),
            preamble: preamble.digest(),
        };
        let counts = Encoding::ALL.into_iter();
        let counts = counts.map(|encoding| (encoding, Count::default()));
        let (tree, counts) = (Tree::default(), counts.collect());
        Snapshot::assemble(&tree, preamble, &[], Vec::new(), counts, manifest)
    }

    /// Rebuilds a frozen snapshot and verifies its id against the recorded one.
    ///
    /// # Errors
    /// Something that the manifest names is missing, or the content has another id.
    pub fn rebuild(
        manifest: &Manifest,
        recorded: SnapshotId,
        tree: &Tree,
        checkpoints: &Checkpoints,
        preamble: Preamble,
    ) -> Result<Snapshot, RebuildError> {
        if manifest.version != VERSION {
            return Err(RebuildError::Version(manifest.version));
        }
        if manifest.preamble != preamble.digest() {
            return Err(RebuildError::Preamble);
        }
        let find = |id: &CheckpointId| {
            checkpoints
                .get(*id)
                .cloned()
                .ok_or(RebuildError::MissingCheckpoint(*id))
        };
        let active = manifest
            .checkpoints
            .iter()
            .map(find)
            .collect::<Result<Vec<_>, _>>()?;
        let mut entries = Vec::new();
        for span in &manifest.spans {
            let nodes = tree.range(manifest.head, span.first..=span.last);
            if nodes.len() != span.len() as usize {
                return Err(RebuildError::MissingMessages);
            }
            entries.extend(nodes.iter().map(|node| {
                let at = manifest
                    .altered
                    .binary_search_by_key(&node.ordinal(), |a| a.0);
                (
                    node.message.clone(),
                    at.ok().map(|index| manifest.altered[index].1),
                )
            }));
        }
        let snapshot = Snapshot::assemble(
            tree,
            preamble,
            &active,
            entries,
            Counts::default(),
            manifest.clone(),
        );
        if snapshot.id == recorded {
            Ok(snapshot)
        } else {
            Err(RebuildError::Mismatch {
                rebuilt: snapshot.id,
                recorded,
            })
        }
    }

    fn assemble(
        tree: &Tree,
        preamble: Preamble,
        active: &[Arc<Checkpoint>],
        messages: Vec<(Arc<Message>, Option<Form>)>,
        counts: Counts,
        manifest: Manifest,
    ) -> Snapshot {
        let blocks: Vec<Block> = active.iter().cloned().map(Block::new).collect();
        let entries: Vec<Entry> = messages
            .into_iter()
            .map(|(message, form)| Entry::new(message, form, tree, manifest.head, &manifest.spans))
            .collect();
        let id = identity(&manifest.preamble, &blocks, &entries);
        Snapshot {
            id,
            preamble,
            blocks,
            entries,
            counts,
            manifest,
            files: OnceLock::new(),
        }
    }

    /// Its id: equal for equal content.
    pub fn id(&self) -> SnapshotId {
        self.id
    }

    /// System text and tools.
    pub fn preamble(&self) -> &Preamble {
        &self.preamble
    }

    /// The summaries, oldest first.
    pub fn blocks(&self) -> &[Block] {
        &self.blocks
    }

    /// The messages, oldest first.
    pub fn entries(&self) -> &[Entry] {
        &self.entries
    }

    /// The contents of the attachments that it shows. Each is there once.
    pub fn contents(&self) -> BTreeSet<Digest> {
        let contents = self.shown_contents().map(|content| content.digest);
        contents.collect()
    }

    /// The digests of the texts of the documents that it shows. Each is there once.
    pub fn texts(&self) -> BTreeSet<Digest> {
        let texts = self.entries.iter().flat_map(|entry| entry.texts());
        texts.map(|(_, text)| text).collect()
    }

    /// The contents of the attachments that it shows, oldest first.
    pub fn shown_contents(&self) -> impl Iterator<Item = &Content> {
        let messages = self.entries.iter().filter(|entry| entry.shows_files());
        let parts = messages.flat_map(|entry| &entry.message().parts);
        parts.filter_map(Part::content)
    }

    /// Adds the bytes of its contents and the texts of its documents, once; they follow from its id.
    /// Without them the attachments are rendered as notes.
    pub fn load(&self, files: Files) {
        // Bytes that are set already are the same: they follow from the id.
        let _ = self.files.set(files);
    }

    /// Whether its contents need not be loaded, or are.
    pub fn is_loaded(&self) -> bool {
        self.files.get().is_some()
    }

    /// The bytes of its contents, as far as they are loaded.
    pub fn file(&self, digest: &Digest) -> Option<&Arc<[u8]>> {
        self.files.get()?.get(digest)
    }

    /// The text of one of its documents, as far as it is loaded and has one.
    pub fn file_text(&self, content: &Content) -> Option<&Arc<str>> {
        let digest = content.text?.digest;
        self.files.get()?.text(&digest)
    }

    /// Tokens of summaries and messages, per encoding; empty after a rebuild.
    pub fn counts(&self) -> Counts {
        self.counts
    }

    /// The manifest from which it can be rebuilt.
    pub fn manifest(&self) -> &Manifest {
        &self.manifest
    }
}

/// The digest of the canonical encoding.
fn identity(preamble: &Digest, blocks: &[Block], entries: &[Entry]) -> SnapshotId {
    let mut hasher = Hasher::new("unisono/snapshot", VERSION);
    hasher.digest(preamble).u64(blocks.len() as u64);
    for block in blocks {
        hasher.str(block.text());
    }
    hasher.u64(entries.len() as u64);
    for entry in entries {
        entry.digest_into(&mut hasher);
    }
    let mut texts = Vec::new();
    for (number, entry) in entries.iter().enumerate() {
        texts.extend(entry.texts().map(|(part, text)| (number, part, text)));
    }
    // Without any, nothing is added: such snapshots have the ids they had.
    if !texts.is_empty() {
        hasher.u64(texts.len() as u64);
    }
    for (number, part, text) in texts {
        hasher.u64(number as u64).u64(part as u64).digest(&text);
    }
    SnapshotId(hasher.finish())
}
