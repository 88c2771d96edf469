//! Creates a session from a conversation. Only as the first input, which may be repeated.

use std::sync::Arc;

use unisono_context::alteration::Alteration;
use unisono_context::checkpoint::Checkpoint;
use unisono_context::message::NewMessage;
use unisono_context::topic::DecidedTopics;
use unisono_context::{CheckpointId, MessageId, SessionId, Tokens, Tree, tree};

use crate::event::{Fact, ImportNotes, Settings};
use crate::input::{EPHEMERAL, Import};
use crate::refusal::Refusal;
use crate::state::{MAIN, RESERVED_LABELS, State};

use super::{Recorder, complete_counts, fork, step_done};

/// Checks the whole conversation before anything is recorded. A repeated import records the part
/// that a crash lost, which is nothing if the journal is complete.
pub(super) fn handle(recorder: &mut Recorder<'_>, mut import: Import) -> Result<(), Refusal> {
    let session = import.session.ok_or(Refusal::NoSessionId)?;
    set_labels(&mut import)?;
    let branches = heads(&import);
    check(&import, &branches)?;
    create(recorder, session, &import, &branches)?;
    record_settings(recorder, import.settings)?;
    record_messages(recorder, import.messages)?;
    record_pins(recorder, import.pinned, &branches)?;
    record_branches(recorder, branches)?;
    let mut alterations = import.alterations.into_iter().peekable();
    for checkpoint in import.checkpoints {
        let number = checkpoint.number;
        let before = std::iter::from_fn(|| alterations.next_if(|(after, _)| *after < number));
        record_alterations(recorder, before.collect())?;
        record_checkpoint(recorder, checkpoint, &import.retired)?;
    }
    record_alterations(recorder, alterations.collect())?;
    record_topics(recorder, import.topics, import.sealed, import.notes)
}

/// Creates the session, unless it is a result of this import.
fn create(
    recorder: &mut Recorder<'_>,
    session: SessionId,
    import: &Import,
    branches: &[(Arc<str>, MessageId)],
) -> Result<(), Refusal> {
    if recorder.state.id.is_some() {
        return match is_begun(recorder.state, import, branches) {
            true => Ok(()),
            false => Err(Refusal::AlreadyCreated),
        };
    }
    Ok(recorder.record(Fact::Created {
        session,
        title: import.title.clone(),
        system: import.system.clone(),
        labels: import.labels.clone(),
    })?)
}

fn record_settings(recorder: &mut Recorder<'_>, settings: Settings) -> Result<(), Refusal> {
    // This is the second event, so nothing else says whether a crash lost it.
    if settings.is_empty() || recorder.state.events != 1 {
        return Ok(());
    }
    Ok(recorder.record(Fact::SettingsSet { settings })?)
}

fn record_messages(
    recorder: &mut Recorder<'_>,
    messages: Vec<(Option<MessageId>, NewMessage)>,
) -> Result<(), Refusal> {
    for (parent, message) in messages {
        let branch = None;
        if recorder.state.tree.get(message.id).is_none() {
            recorder.record(Fact::Appended {
                branch,
                parent,
                message,
            })?;
        }
    }
    Ok(())
}

/// Records the pins before the branches: an existing branch shows that the pins were recorded.
fn record_pins(
    recorder: &mut Recorder<'_>,
    messages: Vec<MessageId>,
    branches: &[(Arc<str>, MessageId)],
) -> Result<(), Refusal> {
    let set = |(name, _): &(Arc<str>, MessageId)| recorder.state.tree.head(name).is_some();
    if messages.is_empty() || !recorder.state.pinned.is_empty() || branches.iter().all(set) {
        return Ok(());
    }
    Ok(recorder.record(Fact::Pinned { messages })?)
}

fn record_branches(
    recorder: &mut Recorder<'_>,
    branches: Vec<(Arc<str>, MessageId)>,
) -> Result<(), Refusal> {
    for (branch, head) in branches {
        if recorder.state.tree.head(&branch).is_none() {
            recorder.record(Fact::BranchSet { branch, head })?;
        }
    }
    Ok(())
}

/// Records a checkpoint, and that it was reverted.
fn record_checkpoint(
    recorder: &mut Recorder<'_>,
    checkpoint: Arc<Checkpoint>,
    retired: &[CheckpointId],
) -> Result<(), Refusal> {
    let id = checkpoint.id;
    if recorder.state.checkpoints.get(id).is_none() {
        let (turn, checkpoint) = (None, with_all_counts(checkpoint));
        recorder.record(Fact::Compacted { turn, checkpoint })?;
    }
    // A revert is final.
    if retired.contains(&id) && !recorder.state.checkpoints.is_retired(id) {
        recorder.record(Fact::Reverted {
            turn: None,
            checkpoint: id,
            before: Tokens::ZERO,
        })?;
    }
    Ok(())
}

fn record_topics(
    recorder: &mut Recorder<'_>,
    decided: Vec<DecidedTopics>,
    sealed: Vec<MessageId>,
    notes: Box<ImportNotes>,
) -> Result<(), Refusal> {
    let state = &*recorder.state;
    if knows_topics(state, &decided, &sealed) && knows_notes(state, &notes) {
        return Ok(());
    }
    Ok(recorder.record(Fact::TopicsImported {
        decided,
        sealed,
        notes,
    })?)
}

fn knows_notes(state: &State, notes: &ImportNotes) -> bool {
    let topics = &state.topics;
    let (mut opened, mut sealed) = (notes.opened.iter(), notes.sealed.iter());
    let mut tightened = notes.tightened.iter();
    opened.all(|(opener, at)| topics.opened_at(*opener) == Some(*at))
        && sealed.all(|(last, at)| topics.sealed_at(*last) == Some(*at))
        && tightened.all(|id| state.checkpoints.is_tightened(*id))
}

/// Refuses labels of the conversation that are reserved or have no name, and sets those of this
/// program. A session gets labels in no other way.
fn set_labels(import: &mut Import) -> Result<(), Refusal> {
    if import.labels.contains_key("") {
        return Err(Refusal::UnnamedLabel);
    }
    let mut names = import.labels.keys();
    if let Some(name) = names.find(|name| name.starts_with(RESERVED_LABELS)) {
        return Err(Refusal::ReservedLabel(name.clone()));
    }
    let ephemeral = import.ephemeral.take();
    let ephemeral = ephemeral.map(|process| (EPHEMERAL.into(), process));
    import.labels.extend(ephemeral);
    Ok(())
}

/// Records the masks and cuts that were made before the next checkpoint and are not recorded yet.
fn record_alterations(
    recorder: &mut Recorder<'_>,
    made: Vec<(u32, Alteration)>,
) -> Result<(), Refusal> {
    let made = made.into_iter().map(|(_, alteration)| alteration);
    let mut alterations: Vec<Alteration> =
        made.filter(|a| !was_altered(recorder.state, a)).collect();
    for alteration in &mut alterations {
        alteration.counts = step_done::counted(recorder.state, alteration);
    }
    if alterations.is_empty() {
        return Ok(());
    }
    let turn = None;
    Ok(recorder.record(Fact::Altered { turn, alterations })?)
}

/// Whether the message was shortened in this way, even if it is shortened in another way now.
fn was_altered(state: &State, alteration: &Alteration) -> bool {
    let (ordinal, message) = (alteration.ordinal, alteration.message);
    let mut ever = state.alterations.ever(ordinal, message);
    ever.any(|known| known.form == alteration.form)
}

fn knows_topics(state: &State, decided: &[DecidedTopics], sealed: &[MessageId]) -> bool {
    let mut decided = decided.iter().map(|topics| topics.through);
    let mut sealed = sealed.iter();
    decided.all(|through| state.topics.is_decided(through))
        && sealed.all(|last| state.topics.is_sealed(*last))
}

/// Whether the session is a result of this import: complete, or a part of it and nothing else.
fn is_begun(state: &State, import: &Import, branches: &[(Arc<str>, MessageId)]) -> bool {
    let head = state.id == import.session
        && state.title == import.title
        && state.system == import.system
        && state.labels == import.labels;
    let same = |message: &NewMessage| {
        let known = state.tree.get(message.id);
        known.map(|known| known.message.to_new().is_same(message))
    };
    let messages = import.messages.iter();
    let known: Vec<Option<bool>> = messages.map(|(_, message)| same(message)).collect();
    let there = known.iter().flatten().count();
    let all = there == known.len()
        && branches
            .iter()
            .all(|(name, _)| state.tree.head(name).is_some())
        && import
            .checkpoints
            .iter()
            .all(|checkpoint| state.checkpoints.get(checkpoint.id).is_some())
        && import
            .alterations
            .iter()
            .all(|(_, a)| was_altered(state, a))
        && knows_topics(state, &import.topics, &import.sealed)
        && knows_notes(state, &import.notes)
        && import
            .retired
            .iter()
            .all(|id| state.checkpoints.is_retired(*id));
    let untouched = state.turns.is_empty() && state.ended.is_empty() && state.tree.len() == there;
    head && !known.contains(&Some(false)) && (all || untouched)
}

/// Completes the counts in all encodings: a checkpoint without one could never be part of a
/// context.
fn with_all_counts(mut checkpoint: Arc<Checkpoint>) -> Arc<Checkpoint> {
    let counts = complete_counts(checkpoint.counts, || checkpoint.context_text().len());
    if counts != checkpoint.counts {
        Arc::make_mut(&mut checkpoint).counts = counts;
    }
    checkpoint
}

fn heads(import: &Import) -> Vec<(Arc<str>, MessageId)> {
    match import.messages.last() {
        Some((_, last)) if import.branches.is_empty() => vec![(MAIN.into(), last.id)],
        _ => import.branches.clone(),
    }
}

fn check(import: &Import, branches: &[(Arc<str>, MessageId)]) -> Result<(), Refusal> {
    let mut tree = Tree::default();
    for (parent, message) in &import.messages {
        tree.append(*parent, message.clone())?;
    }
    for (branch, head) in branches {
        fork::check_name(branch)?;
        tree.set_branch(branch, *head)?;
    }
    let unknown = |a: &&Alteration| {
        let node = tree.get(a.message);
        node.is_none_or(|node| node.ordinal() != a.ordinal)
    };
    let altered = import.alterations.iter().map(|(_, a)| a).find(unknown);
    let decided = import.topics.iter().map(|topics| &topics.through);
    let times = import.notes.opened.iter().chain(&import.notes.sealed);
    let timed = times.map(|(message, _)| message);
    let named = import.pinned.iter().chain(&import.sealed).chain(decided);
    let mut named = named.chain(timed);
    let missing = named.find(|id| tree.get(**id).is_none());
    match altered.map(|a| a.message).or(missing.copied()) {
        Some(message) => Err(tree::Error::UnknownMessage(message).into()),
        None => Ok(()),
    }
}
