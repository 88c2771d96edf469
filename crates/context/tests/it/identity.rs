//! S2: equal content has an equal snapshot id whatever its ids and times are, and any single
//! change of content another.

use crate::chat::{Chat, GOOD, cases, usable};
use proptest::prelude::*;
use unisono_context::alteration::{Alteration, Form};
use unisono_context::budget::Budgets;
use unisono_context::compaction::Mode;
use unisono_context::message::NewMessage;
use unisono_context::policy::{Keep, Policy, Preset};
use unisono_context::snapshot::{Preamble, RebuildError, ToolSpec};
use unisono_context::tokens::Counts;
use unisono_context::{
    AgentId, MessageId, Ordinal, Part, Role, Snapshot, SnapshotId, Timestamp, Tokens,
};

/// One message by its content; `ids` and `times` stand apart.
#[derive(Clone, Debug, PartialEq)]
struct Content {
    role: Role,
    author: Option<&'static str>,
    parts: Vec<Part>,
}

/// All that a snapshot's id depends on, before anything is compacted.
#[derive(Clone, Debug)]
struct Context {
    system: String,
    tools: Vec<ToolSpec>,
    messages: Vec<Content>,
}

/// What it must not depend on.
#[derive(Clone, Copy, Debug)]
struct Circumstances {
    first_id: u128,
    at: i64,
    call_ids: &'static str,
}

fn tool(name: &str, description: &str) -> ToolSpec {
    ToolSpec::new(name, description, "{}")
}

fn words() -> impl Strategy<Value = String> {
    "[a-z ]{1,12}"
}

/// Two calls, answered in either order, in one message each or in one together.
fn tool_unit() -> impl Strategy<Value = Vec<Content>> {
    (words(), words(), any::<bool>(), any::<bool>()).prop_map(|(first, second, swap, one)| {
        let call = |id: &str, arguments: &str| Part::tool_call(id, "search", arguments);
        let result = |id: &str, content: &str| Part::tool_result(id, content, false);
        let mut results = vec![result("1", &first), result("2", &second)];
        if swap {
            results.reverse();
        }
        let content = |role, parts| Content {
            role,
            author: None,
            parts,
        };
        let calls = content(Role::Assistant, vec![call("1", &second), call("2", &first)]);
        let mut unit = vec![calls];
        if one {
            unit.push(content(Role::Tool, results));
        } else {
            unit.extend(results.into_iter().map(|r| content(Role::Tool, vec![r])));
        }
        unit
    })
}

fn plain() -> impl Strategy<Value = Vec<Content>> {
    let role = prop::sample::select(&[Role::User, Role::Assistant, Role::System][..]);
    let author = prop::option::of(prop::sample::select(&["lead", "critic"][..]));
    let attachment = (words(), 0u64..9_999)
        .prop_map(|(name, size_bytes)| Part::attachment(name, "text/plain", size_bytes, None));
    let part = prop_oneof![4 => words().prop_map(Part::text), 1 => attachment];
    (role, author, prop::collection::vec(part, 1..4)).prop_map(|(role, author, parts)| {
        vec![Content {
            role,
            author,
            parts,
        }]
    })
}

fn context() -> impl Strategy<Value = Context> {
    let unit = prop_oneof![3 => plain(), 1 => tool_unit()];
    let names = prop::collection::btree_set("[a-c]", 0..3);
    (words(), names, prop::collection::vec(unit, 1..8)).prop_map(|(system, names, units)| Context {
        system,
        tools: names.iter().map(|name| tool(name, "does things")).collect(),
        messages: units.concat(),
    })
}

const DAY_MS: i64 = 86_400_000;

fn circumstances() -> impl Strategy<Value = Circumstances> {
    let call_ids = prop::sample::select(&["call_", "toolu_", "x"][..]);
    // Any time of one day: the day itself is seen.
    (1u128..1 << 100, 0..DAY_MS / 2, call_ids).prop_map(|(first_id, at, call_ids)| Circumstances {
        first_id,
        at,
        call_ids,
    })
}

fn chat_of(context: &Context, around: Circumstances) -> Chat {
    let mut chat = Chat::default();
    for (n, content) in context.messages.iter().enumerate() {
        let mut parts = content.parts.clone();
        for part in &mut parts {
            if let Part::ToolCall { id, .. } | Part::ToolResult { call_id: id, .. } = part {
                *id = format!("{}{id}", around.call_ids).into();
            }
        }
        let new = NewMessage {
            id: MessageId::from_u128(around.first_id + n as u128 * 3),
            role: content.role,
            parts,
            author: content.author.map(AgentId::from),
            at: Timestamp(around.at + n as i64),
            usage: None,
        };
        chat.append_new(new);
    }
    chat
}

fn preamble(context: &Context) -> Preamble {
    Preamble::new(context.system.as_str(), context.tools.clone())
}

fn freeze(context: &Context, around: Circumstances) -> SnapshotId {
    let chat = chat_of(context, around);
    Snapshot::freeze(&chat.view(), preamble(context)).id()
}

/// Changes one thing, chosen by two numbers.
fn change(context: &mut Context, which: usize, how: usize) {
    let count = context.messages.len();
    match which % (count + 2) {
        0 => context.system.push('!'),
        1 => match how % 3 {
            0 => context.tools.push(tool("zz", "new")),
            1 if !context.tools.is_empty() => context.tools[0].description = "other".into(),
            _ => context.tools.push(tool("yy", "new")),
        },
        n => change_message(context, n - 2, how),
    }
}

fn change_message(context: &mut Context, at: usize, how: usize) {
    let content = &mut context.messages[at];
    let part = how / 4 % content.parts.len();
    let others = [Role::System, Role::User, Role::Assistant, Role::Tool];
    match how % 4 {
        0 => content.role = *others.iter().find(|r| **r != content.role).unwrap(),
        1 => {
            content.author = if content.author == Some("other") {
                None
            } else {
                Some("other")
            };
        }
        2 => content.parts.push(Part::text("more")),
        _ => match &mut content.parts[part] {
            Part::Text(text) => *text = format!("{text}.").into(),
            Part::ToolCall { arguments, .. } => *arguments = format!("{arguments}.").into(),
            Part::ToolResult { is_error, .. } => *is_error = !*is_error,
            Part::Attachment { size_bytes, .. } => *size_bytes += 1,
        },
    }
}

#[test]
fn the_day_of_a_message_matters() {
    let context = Context {
        system: "".into(),
        tools: Vec::new(),
        messages: vec![Content {
            role: Role::User,
            author: None,
            parts: vec![Part::text("a")],
        }],
    };
    let on_day = |day: i64| {
        let around = Circumstances {
            first_id: 1,
            at: day * DAY_MS,
            call_ids: "x",
        };
        freeze(&context, around)
    };
    assert_eq!(on_day(20_000), on_day(20_000));
    assert_ne!(on_day(20_000), on_day(20_001));
}

proptest! {
    #![proptest_config(cases(500))]

    #[test]
    fn ids_and_times_do_not_matter(
        context in context(),
        here in circumstances(),
        there in circumstances(),
    ) {
        prop_assert_eq!(freeze(&context, here), freeze(&context, there));
    }

    #[test]
    fn any_single_change_gives_another_id(
        context in context(),
        around in circumstances(),
        which in any::<usize>(),
        how in any::<usize>(),
    ) {
        let mut changed = context.clone();
        change(&mut changed, which, how);
        prop_assert_ne!(freeze(&context, around), freeze(&changed, around));
    }

    #[test]
    fn losing_doubling_or_swapping_messages_gives_another_id(
        context in context(),
        around in circumstances(),
        at in any::<prop::sample::Index>(),
    ) {
        let before = freeze(&context, around);
        let at = at.index(context.messages.len());
        let is_plain = |content: &Content| {
            let tool = |p: &Part| matches!(p, Part::ToolCall { .. } | Part::ToolResult { .. });
            !content.parts.iter().any(tool)
        };
        if is_plain(&context.messages[at]) {
            let mut doubled = context.clone();
            doubled.messages.insert(at, context.messages[at].clone());
            prop_assert_ne!(before, freeze(&doubled, around));
            if context.messages.len() > 1 {
                let mut lost = context.clone();
                lost.messages.remove(at);
                prop_assert_ne!(before, freeze(&lost, around));
            }
            if at > 0 && is_plain(&context.messages[at - 1])
                && context.messages[at] != context.messages[at - 1]
            {
                let mut swapped = context.clone();
                swapped.messages.swap(at, at - 1);
                prop_assert_ne!(before, freeze(&swapped, around));
            }
        }
    }

    #[test]
    fn a_compacted_context_has_one_id_too(context in context(), here in circumstances(), there in circumstances()) {
        let mut long = context.clone();
        for n in 0..30 {
            let parts = vec![Part::text(format!("padding {n} ").repeat(20))];
            long.messages.push(Content { role: Role::User, author: None, parts });
        }
        let ids = [here, there].map(|around| {
            let mut chat = chat_of(&long, around);
            let mode = Mode::Manual { keep: Some(Keep::Messages(4)) };
            let policy = Policy::from_preset(Preset::Checkpoint);
            chat.now = Timestamp(around.at);
            chat.compact(&usable(100_000).into(), &policy, mode, GOOD).unwrap();
            assert_eq!(chat.view().active().len(), 1);
            Snapshot::freeze(&chat.view(), preamble(&long)).id()
        });
        prop_assert_eq!(ids[0], ids[1]);
    }
}

#[test]
fn which_call_a_result_answers_is_content() {
    let call = |id: &str| Part::tool_call(id, "f", "{}");
    let result = |id: &str| Part::tool_result(id, "ok", false);
    let ids = [["1", "2"], ["2", "1"]].map(|order| {
        let mut chat = Chat::default();
        chat.append(Role::Assistant, vec![call("1"), call("2")]);
        chat.append(Role::Tool, vec![result(order[0])]);
        chat.append(Role::Tool, vec![result(order[1])]);
        chat.freeze().id()
    });
    assert_ne!(ids[0], ids[1]);
}

#[test]
fn how_a_message_is_shortened_is_content() {
    let chat = Chat::of("U100 A100 T2000 U100");
    let mut ids = vec![chat.freeze().id()];
    let message = chat
        .tree
        .node_at(chat.head(), Ordinal(3))
        .unwrap()
        .message
        .id;
    for form in [
        Form::Masked {
            tokens: Tokens(2_000),
        },
        Form::Masked {
            tokens: Tokens(2_001),
        },
        Form::Cut { target_chars: 100 },
        Form::Cut { target_chars: 101 },
    ] {
        let mut chat = chat.clone();
        let alteration = Alteration {
            message,
            ordinal: Ordinal(3),
            form,
            counts: Counts::default(),
        };
        chat.alterations.set(alteration, 0);
        ids.push(chat.freeze().id());
    }
    let distinct: std::collections::BTreeSet<_> = ids.iter().collect();
    assert_eq!(distinct.len(), ids.len());
}

#[test]
fn the_text_of_a_summary_is_content() {
    let keep = Keep::Messages(2);
    let mode = Mode::Manual { keep: Some(keep) };
    let policy = Policy::from_preset(Preset::Checkpoint);
    let budgets = Budgets::from(usable(100_000));
    let mut chat = Chat::of("U100 A100 U100 A100");
    let before = chat.clone();
    chat.compact(&budgets, &policy, mode, GOOD).unwrap();
    let first = chat.freeze().id();
    assert_ne!(first, before.freeze().id());
    let mut other = (*chat.view().active()[0]).clone();
    other.body = unisono_context::checkpoint::Body::Summary("## Context\nother".into());
    let mut chat = before;
    chat.checkpoints.add(other.into());
    assert_ne!(chat.freeze().id(), first);
}

#[test]
fn the_id_of_a_small_context_is_known() {
    // A change here changes every id that was ever journaled: bump the encoding's version.
    let id = Chat::of("U10 A10 T10 U10").freeze().id();
    insta::assert_snapshot!(id, @"2b635e16245d1caa2ce50815e281bac2613cb105fb1bd15ccf8b24fe479fab5f");
}

#[test]
fn a_manifest_is_refused_where_something_differs() {
    let chat = Chat::of("U100 A100 U100");
    let snapshot = chat.freeze();
    let rebuild = |manifest: &unisono_context::snapshot::Manifest, id, preamble| {
        Snapshot::rebuild(manifest, id, &chat.tree, &chat.checkpoints, preamble).unwrap_err()
    };
    let same = || crate::chat::preamble();
    let (manifest, id) = (snapshot.manifest(), snapshot.id());

    let other = Preamble::new("be verbose", Vec::new());
    assert_eq!(rebuild(manifest, id, other), RebuildError::Preamble);
    let mut newer = manifest.clone();
    newer.version += 1;
    assert_eq!(
        rebuild(&newer, id, same()),
        RebuildError::Version(newer.version)
    );
    let mut longer = manifest.clone();
    longer.spans[0].last = Ordinal(9);
    assert_eq!(rebuild(&longer, id, same()), RebuildError::MissingMessages);
    let mut missing = manifest.clone();
    let unknown = unisono_context::CheckpointId::from_u128(5);
    missing.checkpoints.push(unknown);
    assert_eq!(
        rebuild(&missing, id, same()),
        RebuildError::MissingCheckpoint(unknown)
    );
    let mut shorter = manifest.clone();
    shorter.spans[0].first = Ordinal(2);
    let error = rebuild(&shorter, id, same());
    assert!(matches!(error, RebuildError::Mismatch { recorded, .. } if recorded == id));
}
