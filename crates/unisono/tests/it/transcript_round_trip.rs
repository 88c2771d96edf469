//! import(export(x)) is x.

use std::sync::Arc;

use proptest::prelude::*;
use unisono_context::alteration::{Alteration, Form};
use unisono_context::attachment::Files;
use unisono_context::checkpoint::{
    Body, Checkpoint, FactCoverage, KeyFact, Kind, Span, Tier, Writer,
};
use unisono_context::message::{NewMessage, Part, ReportedUsage};
use unisono_context::policy::Preset;
use unisono_context::snapshot::Preamble;
use unisono_context::tokens::Count;
use unisono_context::topic::{EndedBy, TopicEnd, Topics};
use unisono_context::{
    AgentId, CheckpointId, Encoding, MessageId, Ordinal, Role, SessionId, Snapshot, SnapshotId,
    Timestamp, Tokens, Tree,
};
use unisono_interchange::transcript::{self, Format, Options};
use unisono_session::machine::{Import, ImportNotes, Input, Machine};

use crate::arbitrary::cases;
use crate::transcript::read;

const COUNT: Count = Count {
    tokens: Tokens(3),
    at_most: Tokens(9),
};

type Drawn = (
    usize,
    Role,
    Vec<Part>,
    Option<AgentId>,
    i64,
    Option<ReportedUsage>,
);

fn text() -> impl Strategy<Value = Arc<str>> {
    prop_oneof![
        Just(Arc::from("")),
        "\\PC{0,30}".prop_map(Arc::from),
        r#"["\\\n\r\t\u{0}\u{2028}a-z🦀]{0,20}"#.prop_map(Arc::from),
    ]
}

fn arguments() -> impl Strategy<Value = Arc<str>> {
    const TABLE: [&str; 10] = [
        "{}",
        "{\"b\": 1, \"a\":12345678901234567890.10}",
        "{ \"x\":\n1 }",
        "\"text\"",
        "null",
        "",
        "{broken",
        " {} ",
        "[1,2]",
        "{}{}",
    ];
    prop_oneof![prop::sample::select(&TABLE).prop_map(Arc::from), text()]
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        4 => text().prop_map(Part::Text),
        2 => (text(), text(), arguments())
            .prop_map(|(id, name, arguments)| Part::ToolCall { id, name, arguments }),
        2 => (text(), text(), any::<bool>())
            .prop_map(|(call_id, content, is_error)| Part::ToolResult { call_id, content, is_error }),
        1 => (text(), text(), any::<u64>())
            .prop_map(|(filename, mime, size_bytes)| Part::Attachment { filename, mime, size_bytes, content: None }),
    ]
}

fn message() -> impl Strategy<Value = Drawn> {
    let role = prop::sample::select(&[Role::System, Role::User, Role::Assistant, Role::Tool]);
    let author = prop::option::of("[a-z0-9][a-z0-9_-]{0,8}".prop_map(|name| AgentId::from(&*name)));
    let usage = (any::<u64>(), any::<u64>()).prop_map(|(input, output)| ReportedUsage {
        input: Tokens(input),
        output: Tokens(output),
    });
    (
        0..8usize,
        role,
        prop::collection::vec(part(), 1..4),
        author,
        any::<i64>(),
        prop::option::of(usage),
    )
}

/// A tree of those messages that a tree takes, with some branches.
fn import(drawn: Vec<Drawn>, labels: Vec<(Arc<str>, Arc<str>)>, system: Arc<str>) -> Import {
    let mut tree = Tree::default();
    let mut messages: Vec<(Option<MessageId>, NewMessage)> = Vec::new();
    for (index, (back, role, parts, author, at, usage)) in drawn.into_iter().enumerate() {
        let parent = match back {
            0 => None,
            back => messages.len().checked_sub(back).map(|at| messages[at].1.id),
        };
        let new = NewMessage {
            id: MessageId::from_u128(0x0192 << 112 | 7 << 76 | 2 << 62 | index as u128),
            role,
            parts,
            author,
            at: Timestamp(at),
            usage,
        };
        if tree.append(parent, new.clone()).is_ok() {
            messages.push((parent, new));
        }
    }
    let heads = messages.iter().rev().step_by(3).take(3).enumerate();
    let branches = heads
        .map(|(n, (_, m))| (["main", "b \"x\"", "ü"][n].into(), m.id))
        .collect();
    let checkpoints = checkpoints(&tree, &messages);
    let shortened = messages.iter().enumerate().skip(1).step_by(3);
    let alterations = shortened.map(|(n, (_, message))| Alteration {
        message: message.id,
        ordinal: tree.get(message.id).unwrap().message.ordinal,
        form: if n % 2 == 0 {
            Form::Masked { tokens: Tokens(7) }
        } else {
            Form::Cut { target_chars: 4 }
        },
        counts: Encoding::ALL
            .map(|encoding| (encoding, COUNT))
            .into_iter()
            .collect(),
    });
    // Some were made before any checkpoint, some after one.
    let after = |n: u32| n % (checkpoints.len() as u32 + 1);
    let mut alterations: Vec<(u32, Alteration)> = (0..).map(after).zip(alterations).collect();
    alterations.sort_by_key(|(after, a)| (*after, a.ordinal));
    let decided = messages.iter().rev().step_by(4).map(|(_, last)| last.id);
    let mut topics = Topics::default();
    for through in decided {
        let ends = ends(&tree, &topics, through);
        topics.decided(&tree, through, &ends, None);
    }
    let sealed: Vec<MessageId> = messages.iter().step_by(5).map(|(_, m)| m.id).collect();
    let timed = sealed.iter().step_by(2).map(|id| (*id, Timestamp(1_700)));
    let notes = ImportNotes {
        opened: Vec::new(),
        sealed: timed.collect(),
        tightened: checkpoints.iter().step_by(2).map(|c| c.id).collect(),
    };
    let pinned = messages.iter().skip(1).step_by(3).map(|(_, m)| m.id);
    let pinned = pinned.collect();
    Import {
        alterations,
        topics: topics.decisions(&tree, tree.iter()),
        sealed,
        notes: notes.into(),
        session: Some(SessionId::from_u128(77)),
        title: "T \u{7f}\n".into(),
        system,
        settings: labels.iter().rev().step_by(2).cloned().collect(),
        labels: labels
            .into_iter()
            .filter(|(name, _)| !name.is_empty())
            .collect(),
        messages,
        branches,
        retired: checkpoints.iter().skip(2).map(|c| c.id).collect(),
        checkpoints,
        pinned,
        ephemeral: None,
    }
}

/// Every third message opens a topic, where nothing was decided before.
fn ends(tree: &Tree, topics: &Topics, through: MessageId) -> Vec<TopicEnd> {
    let path = tree.path(through);
    let fresh = path.take_while(|node| !topics.is_decided(node.message.id));
    let openers = fresh.map(|node| node.message.ordinal);
    let openers = openers.filter(|at| at.0 > 1 && at.0 % 3 == 1);
    let mut ends: Vec<TopicEnd> = openers
        .map(|opener| TopicEnd {
            opener,
            by: EndedBy::ALL[opener.0 as usize % 4],
        })
        .collect();
    ends.reverse();
    ends
}

fn checkpoints(tree: &Tree, messages: &[(Option<MessageId>, NewMessage)]) -> Vec<Arc<Checkpoint>> {
    let mut all: Vec<Arc<Checkpoint>> = Vec::new();
    for (_, message) in messages.iter().step_by(2).take(4) {
        let node = tree.get(message.id).unwrap();
        let cutoff = node.message.ordinal;
        let number = all.len() as u32 + 1;
        let summary = !number.is_multiple_of(3);
        all.push(Arc::new(Checkpoint {
            id: CheckpointId::from_u128(number.into()),
            number,
            parent: message.id,
            covers: vec![Span::new(Ordinal(1), cutoff)],
            cutoff,
            cutoff_digest: node.message.path_digest,
            supersedes: all.last().map(|c| c.id).into_iter().collect(),
            kind: if summary { Kind::Auto } else { Kind::Manual },
            tier: Tier::Conversation,
            preset: Preset::ALL[number as usize % 5],
            writer: if summary {
                Writer::Deterministic
            } else {
                Writer::Model
            },
            model: "openai/x".into(),
            body: if summary {
                Body::Summary("## Key\n\"points\"".into())
            } else {
                Body::Tombstone
            },
            original: Tokens(99),
            counts: Encoding::ALL
                .map(|encoding| (encoding, COUNT))
                .into_iter()
                .collect(),
            messages_included: cutoff.0,
            key_facts: vec![KeyFact {
                text: "fact".into(),
                ordinal: Ordinal(1),
            }],
            cost_micros: summary.then_some(12),
            duration_ms: 5,
            degraded: summary,
            at: Timestamp(i64::from(number)),
            coverage: summary.then_some(FactCoverage {
                facts: 9,
                kept: 4,
                quoted: 6,
            }),
        }));
    }
    all
}

fn session(import: &Import) -> Machine {
    let mut machine = Machine::new();
    machine
        .handle(Input::Import(import.clone()), Timestamp(0))
        .unwrap();
    machine
}

/// What an agent would be given of each branch.
fn snapshots(machine: &Machine) -> Vec<Option<SnapshotId>> {
    let state = machine.state();
    let frozen = state.tree().branches().map(|(_, head)| {
        let view = state.view(head, true)?;
        let preamble = Preamble::new(state.system().clone(), Vec::new());
        Some(Snapshot::freeze(&view, preamble).id())
    });
    frozen.collect()
}

fn sorted(import: &Import) -> Vec<(Arc<str>, MessageId)> {
    let mut branches = import.branches.clone();
    branches.sort();
    branches
}

proptest! {
    #![proptest_config(cases(100))]

    #[test]
    fn unisono_loses_nothing(
        drawn in prop::collection::vec(message(), 1..20),
        labels in prop::collection::vec((text(), text()), 0..3),
        system in text(),
    ) {
        let import = import(drawn, labels, system);
        prop_assume!(!import.messages.is_empty());
        let machine = session(&import);
        let written = transcript::write(machine.state(), None, Format::Unisono, &Files::default()).unwrap();
        let parsed = read(written.as_bytes(), &Options::default()).unwrap();
        prop_assert!(parsed.warnings.is_empty());
        let again = parsed.import;
        prop_assert_eq!(&again.messages, &import.messages);
        prop_assert_eq!(again.session, import.session);
        prop_assert_eq!(&again.title, &import.title);
        prop_assert_eq!(&again.system, &import.system);
        prop_assert_eq!(&again.labels, &import.labels);
        prop_assert_eq!(&again.settings, &import.settings);
        prop_assert_eq!(sorted(&again), sorted(&import));
        prop_assert_eq!(&again.checkpoints, &import.checkpoints);
        prop_assert_eq!(&again.alterations, &import.alterations);
        prop_assert_eq!(&again.pinned, &import.pinned);
        prop_assert_eq!(&again.retired, &import.retired);
        prop_assert_eq!(&again.topics, &import.topics);
        prop_assert_eq!(&again.sealed, &import.sealed);
        prop_assert_eq!(&again.notes.sealed, &import.notes.sealed);
        prop_assert_eq!(&again.notes.tightened, &import.notes.tightened);
        let back = session(&again);
        prop_assert_eq!(snapshots(&back), snapshots(&machine));
        prop_assert_eq!(back.state().topics(), machine.state().topics());
        let rewritten = transcript::write(back.state(), None, Format::Unisono, &Files::default()).unwrap();
        prop_assert_eq!(rewritten, written);
        for (branch, _) in &import.branches {
            for format in Format::WRITTEN {
                let one = transcript::write(machine.state(), Some(branch), format, &Files::default()).unwrap();
                if format == Format::Unisono {
                    prop_assert!(read(one.as_bytes(), &Options::default()).is_ok());
                }
            }
        }
    }
}

#[test]
fn openai_comes_back_as_it_went() {
    let text = concat!(
        "{\"role\":\"system\",\"content\":\"Be brief.\"}\n",
        "{\"role\":\"user\",\"content\":\"Look twice\"}\n",
        "{\"role\":\"assistant\",\"content\":null,\"tool_calls\":[{\"id\":\"c\",\"type\":\"function\",\"function\":{\"name\":\"look\",\"arguments\":\"{\\\"z\\\": 1, \\\"a\\\": 2}\"}}]}\n",
        "{\"role\":\"tool\",\"content\":\"one\",\"tool_call_id\":\"c\"}\n",
        "{\"role\":\"assistant\",\"content\":\"Done.\",\"name\":\"helper\"}\n",
    );
    let mut import = read(text.as_bytes(), &Options::default()).unwrap().import;
    import.session = Some(SessionId::from_u128(1));
    let machine = session(&import);
    assert_eq!(
        transcript::write(machine.state(), None, Format::OpenAi, &Files::default()).unwrap(),
        text
    );
    insta::assert_snapshot!(
        transcript::write(machine.state(), None, Format::ShareGpt, &Files::default()).unwrap()
    );
    let error = transcript::write(
        machine.state(),
        Some("mian"),
        Format::OpenAi,
        &Files::default(),
    )
    .unwrap_err();
    assert_eq!(
        error.to_string(),
        "branch \"mian\" does not exist; did you mean `main`?"
    );
}
