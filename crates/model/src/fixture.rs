//! For tests: a conversation and its snapshot.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use unisono_context::alteration::{Alteration, Alterations, Form};
use unisono_context::checkpoint::{Body, Checkpoint, Checkpoints, Kind, Span, Tier, Writer};
use unisono_context::message::NewMessage;
use unisono_context::policy::Preset;
use unisono_context::snapshot::{Preamble, ToolSpec};
use unisono_context::tokens::{Count, Counts};
use unisono_context::view::View;
use unisono_context::{
    AgentId, CheckpointId, Encoding, MessageId, Ordinal, Part, Role, Snapshot, Timestamp, Tokens,
    Tree,
};

use crate::language::Request;
use crate::prompt::{self, Group, Persona};

/// A conversation under construction. `seed` enters every id and time, and nothing else.
pub(crate) struct Chat {
    seed: u128,
    tree: Tree,
    checkpoints: Checkpoints,
    alterations: Alterations,
    system: Arc<str>,
    tools: Vec<ToolSpec>,
}

impl Chat {
    pub(crate) fn new(seed: u64) -> Chat {
        Chat {
            seed: u128::from(seed) << 64,
            tree: Tree::default(),
            checkpoints: Checkpoints::default(),
            alterations: Alterations::default(),
            system: "be brief".into(),
            tools: Vec::new(),
        }
    }

    pub(crate) fn system(mut self, text: &str) -> Chat {
        self.system = text.into();
        self
    }

    pub(crate) fn tool(mut self, name: &str, schema: &str) -> Chat {
        self.tools
            .push(ToolSpec::new(name, format!("does {name}"), schema));
        self
    }

    pub(crate) fn say(self, role: Role, text: &str) -> Chat {
        self.add(role, None, vec![Part::text(text)])
    }

    pub(crate) fn user(self, parts: Vec<Part>) -> Chat {
        self.add(Role::User, None, parts)
    }

    pub(crate) fn assistant(self, parts: Vec<Part>) -> Chat {
        self.add(Role::Assistant, None, parts)
    }

    pub(crate) fn results(self, parts: Vec<Part>) -> Chat {
        self.add(Role::Tool, None, parts)
    }

    pub(crate) fn add(mut self, role: Role, author: Option<&str>, parts: Vec<Part>) -> Chat {
        let id = |n: usize| MessageId::from_u128(self.seed | n as u128);
        let len = self.tree.len();
        let new = NewMessage {
            author: author.map(AgentId::new),
            ..NewMessage::new(id(len + 1), role, parts, self.time(len as i64))
        };
        self.tree.append((len > 0).then(|| id(len)), new).unwrap();
        self
    }

    /// Counts every message so far: one token per byte.
    pub(crate) fn counted(mut self) -> Chat {
        for n in 1..=self.tree.len() {
            let id = MessageId::from_u128(self.seed | n as u128);
            let message = &self.tree.get(id).unwrap().message;
            let bytes = message.countable_text().len();
            let count = Count::exact(bytes as u64) + message.tokens_beside_text();
            self.tree.set_count(id, Encoding::O200kBase, count).unwrap();
        }
        self
    }

    pub(crate) fn alter(mut self, n: u32, form: Form) -> Chat {
        let alteration = Alteration {
            message: MessageId::from_u128(self.seed | u128::from(n)),
            ordinal: Ordinal(n),
            form,
            counts: Counts::default(),
        };
        self.alterations.set(alteration, 0);
        self
    }

    /// Replaces the messages up to `last` by a summary.
    pub(crate) fn summarise(self, last: u32, text: &str) -> Chat {
        self.cover(last, Body::Summary(text.into()))
    }

    /// Drops the messages up to `last` and leaves a note.
    pub(crate) fn drop_up_to(self, last: u32) -> Chat {
        self.cover(last, Body::Tombstone)
    }

    fn cover(mut self, last: u32, body: Body) -> Chat {
        let head = MessageId::from_u128(self.seed | self.tree.len() as u128);
        self.checkpoints.add(Arc::new(Checkpoint {
            id: CheckpointId::from_u128(self.seed | 1),
            number: 1,
            parent: head,
            covers: vec![Span::new(Ordinal::FIRST, Ordinal(last))],
            cutoff: Ordinal(last),
            cutoff_digest: self.tree.path_digest(head, Ordinal(last)).unwrap(),
            supersedes: Vec::new(),
            kind: Kind::Auto,
            tier: Tier::Conversation,
            preset: Preset::Checkpoint,
            writer: Writer::Deterministic,
            model: "extractive".into(),
            body,
            original: Tokens(100),
            counts: Counts::default(),
            messages_included: last,
            key_facts: Vec::new(),
            cost_micros: None,
            duration_ms: self.seed as u64,
            degraded: false,
            at: self.time(0),
            coverage: None,
        }));
        self
    }

    /// A different time for each seed, on one day.
    fn time(&self, ms: i64) -> Timestamp {
        const MORNING: i64 = 1_778_134_000_000;
        Timestamp(MORNING + (self.seed >> 64) as i64 % 10_000_000 + ms)
    }

    pub(crate) fn freeze(&self) -> Snapshot {
        let pinned = BTreeSet::new();
        let head = MessageId::from_u128(self.seed | self.tree.len() as u128);
        let view = View::new(
            &self.tree,
            &self.checkpoints,
            &self.alterations,
            &pinned,
            head,
            false,
        );
        let preamble = Preamble::new(self.system.clone(), self.tools.clone());
        Snapshot::freeze(&view.unwrap(), preamble)
    }
}

pub(crate) fn ms(ms: u64) -> Duration {
    Duration::from_millis(ms)
}

pub(crate) fn call(id: &str, name: &str, arguments: &str) -> Part {
    Part::tool_call(id, name, arguments)
}

pub(crate) fn result(call_id: &str, content: &str) -> Part {
    Part::tool_result(call_id, content, false)
}

pub(crate) fn failed(call_id: &str, content: &str) -> Part {
    Part::tool_result(call_id, content, true)
}

/// A document that is not loaded.
pub(crate) fn plan() -> Part {
    Part::attachment("plan.pdf", "application/pdf", 81_234, None)
}

/// A request for a task without a context; tests change it.
pub(crate) fn request() -> Request {
    let group = Group::TaskOnly;
    let prefix = prompt::render(None, &group);
    let persona = Persona {
        agent: AgentId::new("risks"),
        description: "finds risks".into(),
        instructions: "Name every \"risk\".".into(),
    };
    let task = "list\nthe risks".into();
    Request::new(prefix, group, persona, task, Tokens(4_096))
}
