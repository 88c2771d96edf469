//! A conversation while it is read: each message is placed on a real tree, so that what a
//! session would refuse is refused here, with its line.

use std::path::Path;
use std::sync::Arc;

use unisono_context::message::{NewMessage, Part, ReportedUsage};
use unisono_context::{AgentId, MessageId, Role, Timestamp, Tree};
use unisono_session::machine::Import;

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
        }
    }
}

/// The conversation so far.
pub(super) struct Draft<'t, 'i, 'p> {
    text: &'t str,
    stamps: Stamps<'i>,
    problems: &'p mut Problems,
    pub(super) tree: Tree,
    pub(super) import: Import,
    system: Vec<String>,
    untimed: Vec<usize>,
    last: Option<MessageId>,
}

impl<'t, 'i, 'p> Draft<'t, 'i, 'p> {
    pub(super) fn new(
        text: &'t str,
        stamps: Stamps<'i>,
        problems: &'p mut Problems,
    ) -> Draft<'t, 'i, 'p> {
        Draft {
            text,
            stamps,
            problems,
            tree: Tree::default(),
            import: Import::default(),
            system: Vec::new(),
            untimed: Vec::new(),
            last: None,
        }
    }

    /// A line that cannot be taken.
    pub(super) fn bad(&mut self, problem: Problem<'t>) {
        self.problems.bad(self.text, problem);
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
            self.problems.bad_part(self.text, problem);
        }
        Ok(good)
    }

    /// Something that may not be meant.
    pub(super) fn warn(&mut self, problem: Problem<'t>) {
        self.problems.warn(self.text, problem);
    }

    /// Whether a line before was bad.
    pub(super) fn has_bad(&self) -> bool {
        self.problems.has_bad()
    }

    /// A system text from before the first message.
    pub(super) fn add_system(&mut self, text: &str) {
        self.system.push(text.to_owned());
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
    pub(super) fn push(&mut self, at: &'t str, message: Drafted) {
        let parent = match message.parent {
            Parent::Previous => self.last,
            Parent::Root => None,
            Parent::Message(id) => Some(id),
        };
        let ids = &mut self.stamps.ids;
        let id = message.id.unwrap_or_else(|| MessageId::from_u128(ids()));
        let new = NewMessage {
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
        if let Err(error) = self.tree.append(parent, new.clone()) {
            self.bad(Problem::new(at, error.to_string()));
            return;
        }
        if message.at.is_none() {
            self.untimed.push(self.import.messages.len());
        }
        if message.pinned {
            self.import.pinned.push(id);
        }
        self.last = Some(id);
        self.import.messages.push((parent, new));
    }

    /// The conversation; `name` is the file's.
    pub(super) fn finish(mut self, name: &str) -> Import {
        self.fill_times();
        let mut import = self.import;
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
