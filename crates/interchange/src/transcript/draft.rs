//! A conversation while it is read: each message is placed on a real tree, so that a message that a
//! session would reject is rejected here, with its line.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};
use std::ops::{Deref, DerefMut};
use std::path::Path;
use std::sync::Arc;

use unisono_context::message::{NewMessage, Part, ReportedUsage};
use unisono_context::tree::Error;
use unisono_context::{AgentId, MessageId, Role, Timestamp, Tree};
use unisono_session::machine::Import;
use unisono_session::state::MAIN;

use super::Stamps;
use super::source::{Problem, Problems};

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Parent {
    #[default]
    Previous,
    Root,
    Message(MessageId),
}

/// A message of the file; missing fields are added later.
#[derive(Clone, Debug)]
pub(super) struct DraftMessage {
    pub(super) id: Option<MessageId>,
    pub(super) parent: Parent,
    pub(super) role: Role,
    pub(super) parts: Vec<Part>,
    pub(super) author: Option<AgentId>,
    pub(super) at: Option<Timestamp>,
    pub(super) usage: Option<ReportedUsage>,
    pub(super) pinned: bool,
    /// Whether calls without ids are numbered, and results without a call are kept as text.
    pub(super) is_loose: bool,
}

impl DraftMessage {
    pub(super) fn new(role: Role, parts: Vec<Part>) -> DraftMessage {
        DraftMessage {
            id: None,
            parent: Parent::Previous,
            role,
            parts,
            author: None,
            at: None,
            usage: None,
            pinned: false,
            is_loose: false,
        }
    }
}

/// The conversion of a message that may be repeated later in the file.
pub(super) struct Pending {
    pub(super) id: String,
    pub(super) messages: Vec<DraftMessage>,
    /// The items omitted before it.
    pub(super) dropped_content: BTreeMap<String, u64>,
}

/// Context from earlier lines, in formats whose lines refer to each other.
#[derive(Default)]
pub(super) struct LineContext {
    /// The names of users by their ids.
    pub(super) names: HashMap<String, String>,
    /// The real names of users by their ids, where these are not part of the names.
    pub(super) real_names: HashMap<String, String>,
    /// The names of users so far, in formats in which two may have the same.
    pub(super) taken_names: HashSet<String>,
    /// The number and author of each message that others may answer, by its time or id as text.
    pub(super) threads: HashMap<String, String>,
    /// The turn of each line, in sessions whose lines name the previous line.
    pub(super) turns: HashMap<String, usize>,
    /// The lines with a message, in sessions whose lines may be repeated.
    pub(super) said: HashSet<String>,
    /// The last message of each turn.
    pub(super) turn_ends: Vec<Option<MessageId>>,
    /// Whether the lines are a sub-agent's, once known.
    pub(super) is_sub_agent: Option<bool>,
    /// The texts that wait until the model can take them, in formats that tell.
    pub(super) queued: Vec<String>,
    /// Those that it took while it worked, each with its time, until they are placed.
    pub(super) typed: Vec<(String, Option<Timestamp>)>,
    /// Those that were removed without being sent.
    pub(super) unsent: Vec<String>,
    /// Whether a line was an attachment.
    pub(super) has_attachments: bool,
    /// Summaries as titles, each with the last line of its conversation, in formats whose files have
    /// those of other conversations.
    pub(super) summaries: Vec<(Option<String>, String)>,
    /// Whether a person gave the title.
    pub(super) has_given_title: bool,
    /// The message that may be repeated.
    pub(super) pending: Option<Pending>,
    pub(super) next: Parent,
    /// The time of the session until its first message has it, in sessions whose messages have none.
    pub(super) begun: Option<Timestamp>,
    /// The request of the previous line, and the index of its first message.
    pub(super) request: Option<(String, usize)>,
}

pub(super) struct ConversationBuilder<'i> {
    stamps: Stamps<'i>,
    pub(super) tree: Tree,
    pub(super) import: Import,
    /// The omitted items by kind, with their number.
    pub(super) dropped_content: BTreeMap<String, u64>,
    /// The number of calls without ids.
    pub(super) calls: u32,
    system: Vec<String>,
    untimed: Vec<usize>,
    last: Option<MessageId>,
    /// The last message of the active branch, in formats with branches.
    pub(super) main: Option<MessageId>,
    pub(super) line_context: LineContext,
    most: Option<usize>,
    /// Whether the limit is exceeded: further messages are dropped.
    pub(super) is_full: bool,
}

/// The conversation while a piece of the file is read.
pub(super) struct Draft<'t, 'k, 'i> {
    text: &'t str,
    builder: &'k mut ConversationBuilder<'i>,
    bad: Problems,
    /// The number of these that are parts of messages, whose other parts are kept.
    bad_parts: usize,
    warnings: Problems,
}

impl<'i> Deref for Draft<'_, '_, 'i> {
    type Target = ConversationBuilder<'i>;

    fn deref(&self) -> &ConversationBuilder<'i> {
        self.builder
    }
}

impl DerefMut for Draft<'_, '_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.builder
    }
}

impl<'t, 'k, 'i> Draft<'t, 'k, 'i> {
    pub(super) fn new(
        text: &'t str,
        builder: &'k mut ConversationBuilder<'i>,
    ) -> Draft<'t, 'k, 'i> {
        Draft {
            text,
            builder,
            bad: Problems::default(),
            bad_parts: 0,
            warnings: Problems::default(),
        }
    }

    pub(super) fn bad(&mut self, problem: Problem<'t>) {
        self.bad.add(self.text, problem);
    }

    /// The valid parts of a message; the others are reported. A message without valid parts is bad.
    pub(super) fn parts(
        &mut self,
        parts: Vec<Result<Part, Problem<'t>>>,
    ) -> Result<Vec<Part>, Problem<'t>> {
        let (mut good, mut bad) = (Vec::with_capacity(parts.len()), Vec::new());
        for part in parts {
            match part {
                Ok(part) => good.push(part),
                Err(problem) => bad.push(problem),
            }
        }
        if good.is_empty() && !bad.is_empty() {
            return Err(bad.swap_remove(0));
        }
        for problem in bad {
            self.bad_parts += 1;
            self.bad.add(self.text, problem);
        }
        Ok(good)
    }

    /// Reports a possible mistake.
    pub(super) fn warn(&mut self, problem: Problem<'t>) {
        self.warnings.add(self.text, problem);
    }

    /// Counts an omitted item; `what` is its kind in the singular.
    pub(super) fn omit(&mut self, what: impl Into<String>) {
        *self.dropped_content.entry(what.into()).or_default() += 1;
    }

    /// The problems of the piece, the number of these that are parts of messages, and the warnings.
    pub(super) fn into_problems(self) -> (Problems, usize, Problems) {
        (self.bad, self.bad_parts, self.warnings)
    }

    /// Adds a message like [`Draft::push_or_system`], and returns its id.
    pub(super) fn place(&mut self, at: &'t str, message: DraftMessage) -> Option<MessageId> {
        let before = self.import.messages.len();
        self.push_or_system(at, message);
        let (_, added) = self.import.messages.get(before)?;
        Some(added.id)
    }

    /// Adds a message or reports a problem; a leading system message becomes system text.
    pub(super) fn push_or_system(&mut self, at: &'t str, message: DraftMessage) {
        let leading = message.role == Role::System && self.import.messages.is_empty();
        let text = |part: &Part| match part {
            Part::Text(text) => Some(text.to_string()),
            _ => None,
        };
        match message
            .parts
            .iter()
            .map(text)
            .collect::<Option<Vec<String>>>()
        {
            Some(texts) if leading => self.system.push(texts.join("\n")),
            _ => self.push(at, message),
        }
    }

    /// Adds a message or reports a problem.
    pub(super) fn push(&mut self, at: &'t str, mut message: DraftMessage) {
        if self
            .most
            .is_some_and(|most| self.import.messages.len() >= most)
        {
            self.is_full = true;
            return;
        }
        let calls = message.parts.iter_mut().filter_map(|part| match part {
            Part::ToolCall { id, .. } if id.is_empty() && message.is_loose => Some(id),
            _ => None,
        });
        for id in calls {
            self.builder.calls += 1;
            *id = format!("call_{}", self.builder.calls).into();
        }
        let parent = match message.parent {
            Parent::Previous => self.last,
            Parent::Root => None,
            Parent::Message(id) => Some(id),
        };
        // A message of this program's own format comes back as it went.
        let is_foreign = message.id.is_none();
        let ids = &mut self.builder.stamps.ids;
        let id = message.id.unwrap_or_else(|| MessageId::from_u128(ids()));
        let mut new = NewMessage {
            id,
            role: message.role,
            parts: message.parts,
            author: message.author,
            at: message.at.unwrap_or_default(),
            usage: message.usage,
        };
        if new.parts.is_empty() {
            self.bad(Problem::new(at, "the message has no content"));
            return;
        }
        if let Err(error) = self.add_to_tree(parent, &mut new, message.is_loose) {
            self.bad(Problem::new(at, error.to_string()));
            return;
        }
        if is_foreign {
            self.name_results(&mut new);
        }
        let builder = &mut *self.builder;
        if message.at.is_none() {
            builder.untimed.push(builder.import.messages.len());
        }
        if message.pinned {
            builder.import.pinned.push(id);
        }
        builder.last = Some(id);
        builder.import.messages.push((parent, new));
    }

    /// Adds a message to the tree. Results without a call become text if `is_loose`.
    fn add_to_tree(
        &mut self,
        parent: Option<MessageId>,
        new: &mut NewMessage,
        is_loose: bool,
    ) -> Result<(), Error> {
        let placed = self.tree.append(parent, new.clone()).map(drop);
        if !(is_loose && matches!(placed, Err(Error::ResultWithoutCall { .. }))) {
            return placed;
        }
        for part in &mut new.parts {
            if let Part::ToolResult { content, .. } = part {
                *part = Part::Text(content.clone());
            }
        }
        self.tree.append(parent, new.clone()).map(drop)
    }

    /// Gives each tool result without an id the id of the call that it answers.
    fn name_results(&self, message: &mut NewMessage) {
        let Some(placed) = self.tree.get(message.id) else {
            return;
        };
        let answers = placed.message.answers.iter();
        let results = message.parts.iter_mut().filter_map(|part| match part {
            Part::ToolResult { call_id, .. } => Some(call_id),
            _ => None,
        });
        for (call_id, call) in results.zip(answers) {
            let made = self.tree.node_at(message.id, call.message);
            let id = made.and_then(|made| made.message.tool_calls().nth(call.index.into()));
            if let (true, Some((id, _, _))) = (call_id.is_empty(), id) {
                *call_id = id.clone();
            }
        }
    }
}

impl<'i> ConversationBuilder<'i> {
    pub(super) fn new(stamps: Stamps<'i>, most: Option<usize>) -> ConversationBuilder<'i> {
        ConversationBuilder {
            stamps,
            tree: Tree::default(),
            import: Import::default(),
            dropped_content: BTreeMap::new(),
            calls: 0,
            system: Vec::new(),
            untimed: Vec::new(),
            last: None,
            main: None,
            line_context: LineContext::default(),
            most,
            is_full: false,
        }
    }

    /// Drops everything read so far.
    pub(super) fn forget(&mut self) {
        self.tree = Tree::default();
        self.import = Import::default();
        self.dropped_content.clear();
        self.calls = 0;
        self.last = None;
        self.main = None;
        self.line_context = LineContext::default();
        self.is_full = false;
        self.system.clear();
        self.untimed.clear();
    }

    /// Adds a system text before those of messages.
    pub(super) fn add_first_system(&mut self, text: &str) {
        self.system.insert(0, text.to_owned());
    }

    /// Completes the conversation; `name` is the file's.
    pub(super) fn finish(mut self, name: &str) -> Import {
        self.fill_times();
        self.name_branches();
        let mut import = self.import;
        drop(self.tree);
        import.messages.shrink_to_fit();
        if !self.system.is_empty() {
            let own = (!import.system.is_empty()).then(|| import.system.to_string());
            let all: Vec<String> = own.into_iter().chain(self.system).collect();
            import.system = all.join("\n\n").into();
        }
        if import.title.is_empty() {
            import.title = title(name);
        }
        import
    }

    /// Names the branches, if there are any besides the active one.
    fn name_branches(&mut self) {
        let Some(main) = self.main else {
            return;
        };
        let messages = &self.import.messages;
        let parents: BTreeSet<MessageId> = messages.iter().filter_map(|(at, _)| *at).collect();
        let ends = messages.iter().map(|(_, message)| message.id);
        let ends = ends.filter(|id| *id != main && !parents.contains(id));
        let others = (2..).zip(ends);
        let others = others.map(|(number, end)| (format!("branch-{number}").into(), end));
        let others: Vec<_> = others.collect();
        if !others.is_empty() {
            self.import.branches = vec![(MAIN.into(), main)];
            self.import.branches.extend(others);
        }
    }

    /// Sets missing times between known ones: a millisecond after the previous message; at the
    /// beginning, up to the first known time. In a conversation without any time, up to now.
    fn fill_times(&mut self) {
        let messages = &mut self.import.messages;
        let untimed = &self.untimed;
        let leading = untimed
            .iter()
            .enumerate()
            .take_while(|(n, at)| n == *at)
            .count();
        let first = messages.get(leading).map(|(_, first)| first.at.plus_ms(-1));
        let Some(end) = first.or(self.stamps.now) else {
            return;
        };
        for (at, (_, message)) in messages.iter_mut().take(leading).enumerate() {
            let before_end = i64::try_from(leading - 1 - at).unwrap_or(i64::MAX);
            message.at = end.plus_ms(-before_end);
        }
        for &at in untimed.iter().skip(leading) {
            messages[at].1.at = messages[at - 1].1.at.plus_ms(1);
        }
    }
}

fn title(name: &str) -> Arc<str> {
    match Path::new(name).file_stem() {
        Some(stem) if name != "-" => stem.to_string_lossy().into(),
        _ => "conversation".into(),
    }
}
