//! A conversation while it is read: each message is placed on a real tree, so that a message that a
//! session would refuse is refused here, with its line.

use std::collections::{BTreeMap, BTreeSet, HashMap};
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

/// What a message follows.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Parent {
    /// The message read before it.
    #[default]
    Previous,
    /// Nothing.
    Root,
    /// That message.
    Message(MessageId),
}

/// A message as it was written; what it lacks is added.
#[derive(Clone, Debug)]
pub(super) struct Drafted {
    pub(super) id: Option<MessageId>,
    pub(super) parent: Parent,
    pub(super) role: Role,
    pub(super) parts: Vec<Part>,
    pub(super) author: Option<AgentId>,
    pub(super) at: Option<Timestamp>,
    pub(super) usage: Option<ReportedUsage>,
    pub(super) pinned: bool,
    /// Whether calls without ids are numbered, and a result that answers no call is kept as a text.
    pub(super) is_loose: bool,
}

impl Drafted {
    /// A message that says nothing but who speaks and what.
    pub(super) fn new(role: Role, parts: Vec<Part>) -> Drafted {
        Drafted {
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

/// What a message became that may be written once more.
pub(super) struct Pending {
    pub(super) id: String,
    pub(super) said: Vec<Drafted>,
    /// What was left behind before it.
    pub(super) left: BTreeMap<String, u64>,
}

/// What later lines need of earlier ones, in formats whose lines name each other.
#[derive(Default)]
pub(super) struct Earlier {
    /// The names that ids of people stand for.
    pub(super) names: HashMap<String, String>,
    /// Of sessions whose lines name the line before them: the turn that each belongs to.
    pub(super) turns: HashMap<String, usize>,
    /// The last message of each turn.
    pub(super) turn_ends: Vec<Option<MessageId>>,
    /// Whether they are a sub-agent's, once that is known.
    pub(super) is_side: Option<bool>,
    /// The message that may be written once more.
    pub(super) pending: Option<Pending>,
    /// What the next message follows.
    pub(super) next: Parent,
    /// The request that the line before came of.
    pub(super) request: Option<String>,
}

/// The conversation so far.
pub(super) struct Kept<'i> {
    stamps: Stamps<'i>,
    pub(super) tree: Tree,
    pub(super) import: Import,
    /// What does not carry over, by kind, and how often.
    pub(super) left_behind: BTreeMap<String, u64>,
    /// Calls without ids, which are numbered.
    pub(super) calls: u32,
    system: Vec<String>,
    untimed: Vec<usize>,
    last: Option<MessageId>,
    /// The last message of the active branch, where there may be several.
    pub(super) main: Option<MessageId>,
    pub(super) earlier: Earlier,
    most: Option<usize>,
    /// Whether there are more messages than are taken: the others are not kept.
    pub(super) is_full: bool,
}

/// The same while a piece of the file is read.
pub(super) struct Draft<'t, 'k, 'i> {
    text: &'t str,
    kept: &'k mut Kept<'i>,
    bad: Problems,
    /// How many of these are parts of messages that can be taken without them.
    bad_parts: usize,
    warnings: Problems,
}

impl<'i> Deref for Draft<'_, '_, 'i> {
    type Target = Kept<'i>;

    fn deref(&self) -> &Kept<'i> {
        self.kept
    }
}

impl DerefMut for Draft<'_, '_, '_> {
    fn deref_mut(&mut self) -> &mut Self::Target {
        self.kept
    }
}

impl<'t, 'k, 'i> Draft<'t, 'k, 'i> {
    pub(super) fn new(text: &'t str, kept: &'k mut Kept<'i>) -> Draft<'t, 'k, 'i> {
        Draft {
            text,
            kept,
            bad: Problems::default(),
            bad_parts: 0,
            warnings: Problems::default(),
        }
    }

    /// A line that cannot be taken.
    pub(super) fn bad(&mut self, problem: Problem<'t>) {
        self.bad.add(self.text, problem);
    }

    /// The parts that can be taken of a message; the others are bad. A message none of whose parts
    /// can be taken is bad itself.
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

    /// Something that may not be meant.
    pub(super) fn warn(&mut self, problem: Problem<'t>) {
        self.warnings.add(self.text, problem);
    }

    /// Something that has no place in a conversation of ours, in the singular.
    pub(super) fn leave(&mut self, what: impl Into<String>) {
        *self.left_behind.entry(what.into()).or_default() += 1;
    }

    /// What is bad of the piece, how many of that are parts of messages, and what may not be meant.
    pub(super) fn into_problems(self) -> (Problems, usize, Problems) {
        (self.bad, self.bad_parts, self.warnings)
    }

    /// Adds a message as [`Draft::push_or_system`] does, and says which it is.
    pub(super) fn place(&mut self, at: &'t str, message: Drafted) -> Option<MessageId> {
        let before = self.import.messages.len();
        self.push_or_system(at, message);
        let (_, added) = self.import.messages.get(before)?;
        Some(added.id)
    }

    /// Adds a message, or reports why not; a leading system message becomes system text.
    pub(super) fn push_or_system(&mut self, at: &'t str, message: Drafted) {
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

    /// Adds a message, or reports why not.
    pub(super) fn push(&mut self, at: &'t str, mut message: Drafted) {
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
            self.kept.calls += 1;
            *id = format!("call_{}", self.kept.calls).into();
        }
        let parent = match message.parent {
            Parent::Previous => self.last,
            Parent::Root => None,
            Parent::Message(id) => Some(id),
        };
        let ids = &mut self.kept.stamps.ids;
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
        let mut placed = self.tree.append(parent, new.clone()).map(drop);
        if let (Err(Error::ResultWithoutCall { .. }), true) = (&placed, message.is_loose) {
            for part in &mut new.parts {
                if let Part::ToolResult { content, .. } = part {
                    *part = Part::Text(content.clone());
                }
            }
            placed = self.tree.append(parent, new.clone()).map(drop);
        }
        if let Err(error) = placed {
            self.bad(Problem::new(at, error.to_string()));
            return;
        }
        let kept = &mut *self.kept;
        if message.at.is_none() {
            kept.untimed.push(kept.import.messages.len());
        }
        if message.pinned {
            kept.import.pinned.push(id);
        }
        kept.last = Some(id);
        kept.import.messages.push((parent, new));
    }
}

impl<'i> Kept<'i> {
    pub(super) fn new(stamps: Stamps<'i>, most: Option<usize>) -> Kept<'i> {
        Kept {
            stamps,
            tree: Tree::default(),
            import: Import::default(),
            left_behind: BTreeMap::new(),
            calls: 0,
            system: Vec::new(),
            untimed: Vec::new(),
            last: None,
            main: None,
            earlier: Earlier::default(),
            most,
            is_full: false,
        }
    }

    /// Forgets all of it.
    pub(super) fn forget(&mut self) {
        self.tree = Tree::default();
        self.import = Import::default();
        self.left_behind.clear();
        self.calls = 0;
        self.last = None;
        self.main = None;
        self.earlier = Earlier::default();
        self.is_full = false;
        self.system.clear();
        self.untimed.clear();
    }

    /// A system text that stands before those of messages.
    pub(super) fn add_first_system(&mut self, text: &str) {
        self.system.insert(0, text.to_owned());
    }

    /// The conversation; `name` is the file's.
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

    /// Gives the ends of branches beside the active one names, if there are any.
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

    /// Gives each message without a time one: a millisecond after the message before it; at the
    /// beginning, before the first that has one, or up to now.
    fn fill_times(&mut self) {
        let messages = &mut self.import.messages;
        let untimed = &self.untimed;
        let leading = untimed
            .iter()
            .enumerate()
            .take_while(|(n, at)| n == *at)
            .count();
        let end = match messages.get(leading) {
            Some((_, first)) => first.at.plus_ms(-1),
            None => self.stamps.now,
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
