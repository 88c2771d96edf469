//! The message tree against a model that walks parent pointers, pairing of tool calls, and the
//! exact length of cuts.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;

use crate::chat::cases;
use proptest::prelude::*;
use unisono_context::alteration::{Alteration, Alterations, Form, cut};
use unisono_context::attachment::{Content, DocumentText, Extent, FileRules, Rule};
use unisono_context::budget::Budget;
use unisono_context::checkpoint::Checkpoints;
use unisono_context::message::{CallRef, NewMessage};
use unisono_context::snapshot::Preamble;
use unisono_context::tokens::Count;
use unisono_context::tree::{Error, Node};
use unisono_context::view::View;
use unisono_context::{
    Digest, Encoding, MessageId, Ordinal, Part, Role, Snapshot, Timestamp, Tokens, Tree,
};

const O200K: Encoding = Encoding::O200kBase;

fn id(n: usize) -> MessageId {
    MessageId::from_u128(n as u128 + 1)
}

fn message(n: usize, parts: Vec<Part>) -> NewMessage {
    NewMessage::new(id(n), Role::Assistant, parts, Timestamp(n as i64))
}

fn call(id: &str) -> Part {
    Part::tool_call(id, "f", "{}")
}

fn result(call_id: &str) -> Part {
    Part::tool_result(call_id, "ok", false)
}

/// A branch of messages; gives the tree and its tip.
fn branch(messages: &[Vec<Part>]) -> Result<(Tree, MessageId), Error> {
    let mut tree = Tree::default();
    let mut head = None;
    for (n, parts) in messages.iter().enumerate() {
        head = Some(tree.append(head, message(n, parts.clone()))?.id);
    }
    Ok((tree, head.unwrap()))
}

fn at(tree: &Tree, head: MessageId, ordinal: u32) -> &Node {
    tree.node_at(head, Ordinal(ordinal)).unwrap()
}

fn answer(message: u32, index: u16) -> CallRef {
    CallRef {
        message: Ordinal(message),
        index,
    }
}

#[test]
fn results_are_paired_by_id_and_else_by_position() {
    let messages = [
        vec![call("a"), call("b"), call("c")],
        vec![result("b")],
        vec![result("unknown")],
        vec![result("c")],
    ];
    let (tree, head) = branch(&messages).unwrap();
    assert_eq!(at(&tree, head, 2).message.answers, [answer(1, 1)]);
    assert_eq!(at(&tree, head, 3).message.answers, [answer(1, 0)]);
    assert_eq!(at(&tree, head, 4).message.answers, [answer(1, 2)]);
    assert!((2..=4).all(|n| at(&tree, head, n).unit_start == Ordinal(1)));
    assert_eq!(tree.open_calls_at(head, Ordinal(1)), [] as [u16; 0]);
}

fn attachment(extent: Extent, text: Option<DocumentText>) -> Part {
    Part::Attachment {
        filename: "a".into(),
        mime: "b".into(),
        size_bytes: 5,
        content: Some(Content {
            text,
            ..Content::new(Arc::from(&b"bytes"[..]), extent)
        }),
    }
}

/// A branch of messages of one part, each with ten tokens besides its attachment.
fn counted(messages: &[Vec<Part>]) -> (Tree, MessageId) {
    let (mut tree, head) = branch(messages).unwrap();
    for (n, parts) in messages.iter().enumerate() {
        let count = Count::exact(10) + parts[0].tokens_beside_text();
        tree.set_count(id(n), O200K, count).unwrap();
    }
    (tree, head)
}

fn budget(files: FileRules) -> Budget {
    Budget {
        encoding: O200K,
        window: Tokens(128_000),
        usable: Tokens(100_000),
        per_message: Tokens::ZERO,
        files,
    }
}

const TEXT: DocumentText = DocumentText {
    digest: Digest([1; 32]),
    tokens: Tokens(900),
};

const SIZE: Extent = Extent::Pixels {
    width: 640,
    height: 480,
};

#[test]
fn attachments_cost_what_the_models_of_a_budget_get() {
    let messages = [
        vec![Part::text("hello")],
        vec![attachment(Extent::Pages(40), Some(TEXT))],
        vec![Part::text("and")],
        vec![attachment(SIZE, None)],
    ];
    let (tree, head) = counted(&messages);
    for (files, [all, document, rest]) in [
        (FileRules::TEXTS, [940, 910, 20]),
        (
            FileRules::for_model(Rule::Gemini, true, true),
            [10_618, 10_330, 278],
        ),
        (
            FileRules::for_model(Rule::OpenAi, false, true),
            [120_040, 120_010, 20],
        ),
        (FileRules::default(), [120_465, 120_010, 445]),
    ] {
        let budget = budget(files);
        for (first, last, tokens) in [(1, 4, all), (2, 2, document), (3, 4, rest), (3, 2, 0)] {
            let range = Ordinal(first)..=Ordinal(last);
            let cost = tree.cost_under(head, range, &budget);
            assert_eq!(
                cost,
                Some(Count::exact(tokens)),
                "{files:?} {first}..={last}"
            );
        }
        let own = at(&tree, head, 2).count(&budget);
        assert_eq!(own, Some(Count::exact(document)));
    }
}

#[test]
fn a_cut_document_leaves_the_cost_of_the_attachments_beside_it() {
    let messages = [
        vec![attachment(SIZE, None)],
        vec![attachment(Extent::Pages(2), Some(TEXT))],
        vec![Part::text("and")],
    ];
    let (tree, head) = counted(&messages);
    let mut alterations = Alterations::default();
    let cut = Alteration {
        message: id(1),
        ordinal: Ordinal(2),
        form: Form::Cut { target_chars: 9 },
        counts: [(O200K, Count::exact(7))].into_iter().collect(),
    };
    let checkpoints = Checkpoints::default();
    // The texts cost more than the image and the two pages of the other model, until they are cut.
    let budget = budget(FileRules::for_model(Rule::Gemini, true, true).union(FileRules::TEXTS));
    for (is_cut, tokens) in [(false, 30 + 900), (true, 20 + 7 + 258)] {
        if is_cut {
            alterations.set(cut.clone(), 0);
        }
        let pinned = BTreeSet::new();
        let view = View::new(&tree, &checkpoints, &alterations, &pinned, head, false).unwrap();
        assert_eq!(view.effective(&budget), Some(Count::exact(tokens)));
        let snapshot = Snapshot::freeze(&view, Preamble::new("", Vec::new()));
        let frozen = snapshot.manifest();
        let frozen = frozen.tokens(&tree, &checkpoints, &alterations, &budget);
        assert_eq!(frozen.unwrap().messages, Count::exact(tokens));
    }
}

#[test]
fn another_text_of_a_document_makes_no_other_path() {
    let read = |byte| DocumentText {
        digest: Digest([byte; 32]),
        tokens: Tokens(9),
    };
    let digests = [None, Some(read(1)), Some(read(2))].map(|text| {
        let (tree, head) = branch(&[vec![attachment(Extent::Pages(1), text)]]).unwrap();
        tree.path_digest(head, Ordinal(1)).unwrap()
    });
    assert_eq!(digests, [digests[0]; 3]);
}

#[test]
fn reused_call_ids_answer_the_newest_call() {
    let text = vec![Part::text("hello")];
    let messages = [
        vec![call("x"), call("x")],
        text,
        vec![call("x")],
        vec![result("x")],
        vec![result("x"), result("x")],
    ];
    let (tree, head) = branch(&messages).unwrap();
    assert_eq!(at(&tree, head, 4).message.answers, [answer(3, 0)]);
    assert_eq!(
        at(&tree, head, 5).message.answers,
        [answer(1, 0), answer(1, 1)]
    );
    assert_eq!(at(&tree, head, 4).unit_start, Ordinal(3));
    assert_eq!(at(&tree, head, 5).unit_start, Ordinal(1));
}

#[test]
fn a_result_without_any_call_is_refused_and_changes_nothing() {
    let (mut tree, head) = branch(&[vec![call("a")], vec![result("a")]]).unwrap();
    let error = tree.append(Some(head), message(9, vec![result("a")]));
    assert_eq!(
        error.unwrap_err(),
        Error::ResultWithoutCall {
            call_id: "a".to_owned()
        }
    );
    assert_eq!(tree.len(), 2);
}

#[test]
fn many_parallel_calls_all_get_their_results() {
    let calls: Vec<Part> = (0..200).map(|n| call(&format!("c{n}"))).collect();
    let results = (0..200).rev().map(|n| vec![result(&format!("c{n}"))]);
    let messages: Vec<Vec<Part>> = std::iter::once(calls).chain(results).collect();
    let (tree, head) = branch(&messages).unwrap();
    assert_eq!(at(&tree, head, 201).message.answers, [answer(1, 0)]);
    assert_eq!(at(&tree, head, 2).message.answers, [answer(1, 199)]);
}

#[test]
fn what_cannot_be_appended() {
    let (mut tree, head) = branch(&[vec![Part::text("hello")]]).unwrap();
    let used = tree.append(Some(head), message(0, vec![Part::text("again")]));
    assert_eq!(used.unwrap_err(), Error::DuplicateId(id(0)));
    let orphan = tree.append(Some(id(7)), message(1, vec![Part::text("?")]));
    assert_eq!(orphan.unwrap_err(), Error::UnknownParent(id(7)));
    let empty = tree.append(Some(head), message(1, Vec::new()));
    assert_eq!(empty.unwrap_err(), Error::Empty(id(1)));
    assert_eq!(
        tree.set_branch("main", id(3)),
        Err(Error::UnknownMessage(id(3)))
    );
    assert_eq!(tree.set_branch("main", head), Ok(()));
    assert_eq!(tree.head("main"), Some(head));
}

#[test]
fn a_count_once_made_stays() {
    let (mut tree, head) = branch(&[vec![Part::text("hello")]]).unwrap();
    tree.set_count(head, O200K, Count::exact(5)).unwrap();
    tree.set_count(head, O200K, Count::exact(9)).unwrap();
    assert_eq!(
        tree.get(head).unwrap().counts.get(O200K),
        Some(Count::exact(5))
    );
    assert_eq!(tree.prefix(head, Ordinal(1), O200K), Some(Count::exact(5)));
}

/// A tree by its messages' parents, each an earlier one or none, and their counts.
fn grown() -> impl Strategy<Value = (Vec<Option<usize>>, Vec<Option<u64>>)> {
    (1usize..120).prop_flat_map(|size| {
        let parent = |n: usize| {
            // Mostly the message before, so that long paths come about.
            let earlier = prop_oneof![
                12 => Just(n.checked_sub(1)),
                3 => (0..n.max(1)).prop_map(move |p| (n > 0).then_some(p)),
                1 => Just(None),
            ];
            earlier.boxed()
        };
        let parents: Vec<_> = (0..size).map(parent).collect();
        let counted = prop::option::weighted(0.97, 0u64..1_000);
        (parents, prop::collection::vec(counted, size))
    })
}

proptest! {
    #![proptest_config(cases(200))]

    #[test]
    fn positions_ranges_and_costs_are_those_of_a_walk((parents, counts) in grown()) {
        let mut tree = Tree::default();
        let mut paths: HashMap<usize, Vec<usize>> = HashMap::new();
        for (n, parent) in parents.iter().enumerate() {
            tree.append(parent.map(id), message(n, vec![Part::text(format!("m{}", n % 7))])).unwrap();
            let mut path = parent.map(|p| paths[&p].clone()).unwrap_or_default();
            path.push(n);
            paths.insert(n, path);
            if let Some(count) = counts[n] {
                tree.set_count(id(n), O200K, Count::exact(count)).unwrap();
            }
        }
        for (head, path) in &paths {
            check_path(&tree, *head, path, &counts);
        }
    }

    #[test]
    fn equal_paths_have_equal_digests_and_others_do_not((parents, _) in grown()) {
        let mut tree = Tree::default();
        let mut contents: Vec<Vec<usize>> = Vec::new();
        for (n, parent) in parents.iter().enumerate() {
            tree.append(parent.map(id), message(n, vec![Part::text(format!("m{}", n % 3))])).unwrap();
            let mut content = parent.map(|p| contents[p].clone()).unwrap_or_default();
            content.push(n % 3);
            contents.push(content);
        }
        let digest = |n: usize| tree.get(id(n)).unwrap().message.path_digest;
        for a in 0..contents.len() {
            for b in 0..a {
                prop_assert_eq!(digest(a) == digest(b), contents[a] == contents[b]);
            }
        }
    }

    #[test]
    fn a_cut_has_exactly_the_length_it_is_asked_for(
        text in prop_oneof![".{0,300}", "[a-zé🎵]{0,3000}"],
        target in 0usize..400,
    ) {
        let length = text.chars().count();
        let short = cut(&text, target);
        prop_assert_eq!(short.chars().count(), length.min(target));
        if length <= target {
            prop_assert_eq!(short, text);
        } else if let Some((head, tail)) = marked(&short, length) {
            prop_assert!(text.starts_with(head) && text.ends_with(tail));
            let (head, tail) = (head.chars().count(), tail.chars().count());
            prop_assert!(head == tail || head == tail + 1);
        } else {
            prop_assert!(target < 15, "{short}");
            prop_assert!(text.starts_with(&short));
        }
    }
}

/// Head and tail around a marker that names what was removed.
fn marked(short: &str, length: usize) -> Option<(&str, &str)> {
    (0..=length).rev().find_map(|removed| {
        let (head, tail) = short.split_once(&format!("[...{removed}...]"))?;
        let kept = head.chars().count() + tail.chars().count();
        (kept + removed == length && kept >= 2).then_some((head, tail))
    })
}

fn at_path(path: &[usize], ordinal: Ordinal) -> Option<MessageId> {
    path.get(ordinal.0 as usize - 1).map(|n| id(*n))
}

fn check_path(tree: &Tree, head: usize, path: &[usize], counts: &[Option<u64>]) {
    let len = path.len() as u32;
    let head = id(head);
    assert_eq!(tree.node_at(head, Ordinal(0)).map(|n| n.message.id), None);
    assert_eq!(
        tree.node_at(head, Ordinal(len + 1)).map(|n| n.message.id),
        None
    );
    for (index, n) in path.iter().enumerate() {
        assert_eq!(at(tree, head, index as u32 + 1).message.id, id(*n));
    }
    let strands = tree.strands(head);
    let lengths: u32 = strands.iter().map(|(_, span)| span.len()).sum();
    assert_eq!(lengths, len);
    for node in tree.iter() {
        let (strand, ordinal) = (node.strand(), node.ordinal());
        let mut strands = strands.iter().filter(|(of, _)| *of == strand);
        let found = strands.any(|(_, span)| span.contains(ordinal));
        let on_path = at_path(path, ordinal) == Some(node.message.id);
        assert_eq!(found, on_path, "{strand:?} {ordinal}");
    }
    let first_gap = path.iter().position(|n| counts[*n].is_none());
    let counted = first_gap.unwrap_or(path.len());
    let missing: Vec<_> = path[counted..].iter().map(|n| id(*n)).collect();
    let uncounted = tree.uncounted(head, O200K);
    assert_eq!(uncounted.iter().map(|m| m.id).collect::<Vec<_>>(), missing);
    for (first, last) in [
        (1, len),
        (len / 2 + 1, len),
        (len / 3 + 1, len * 2 / 3),
        (len, 1),
    ] {
        let span = Ordinal(first)..=Ordinal(last);
        let expected = path.get(first as usize - 1..last as usize).unwrap_or(&[]);
        let got: Vec<_> = tree
            .range(head, span.clone())
            .iter()
            .map(|n| n.message.id)
            .collect();
        assert_eq!(got, expected.iter().map(|n| id(*n)).collect::<Vec<_>>());
        let cost = tree.cost(head, span, O200K).map(|count| count.tokens.0);
        let known = expected.is_empty() || last as usize <= counted;
        let sum = || expected.iter().filter_map(|n| counts[*n]).sum();
        assert_eq!(cost, known.then(sum), "{first}..={last}");
    }
}
