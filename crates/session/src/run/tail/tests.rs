//! The masked results of an exchange, and the end of a run.

use proptest::prelude::*;
use unisono_context::attachment::{AttachedFile, Content};

use super::*;
use crate::run::fixture::{ROOM, named};
use crate::run::{Reply, ToolCall};

mod refused;

fn reply(tokens: u64) -> Weight {
    Weight::Reply(Tokens(tokens))
}

fn results(tokens: &[u64]) -> Weight {
    Weight::Results(tokens.iter().copied().map(Tokens).collect())
}

fn shown_as(tail: &Tail) -> String {
    let masked = tail
        .masked
        .iter()
        .map(|m| format!("{}.{}", m.step, m.result));
    let masked = masked.collect::<Vec<_>>().join(" ");
    match tail.call {
        ModelCallKind::Normal => format!("{masked} call"),
        ModelCallKind::Summarise { replaced, cap } => format!("{masked} {replaced} steps to {cap}"),
        ModelCallKind::WrapUp => format!("{masked} wrap up"),
        ModelCallKind::Overflow { needed } => format!("{masked} overflow {needed}"),
    }
}

#[test]
fn old_results_are_masked_before_the_last_call_and_before_an_overflow() {
    let table: [(&str, Vec<Weight>, &str); 11] = rows! {
        ("nothing yet", vec![], " call"),
        ("just fits", vec![reply(100), results(&[700])], " call"),
        ("nothing old", vec![reply(100), results(&[701])], " wrap up"),
        ("the last token", vec![reply(100), results(&[900])], " wrap up"),
        ("too large", vec![reply(100), results(&[901])], " overflow 1001"),
        ("the oldest leaves, and no more",
         vec![reply(10), results(&[300, 300]), reply(10), results(&[300])], "1.0 call"),
        ("both leave", vec![reply(10), results(&[300, 300]), reply(10), results(&[600])],
         "1.0 1.1 call"),
        (
            "a named step is nothing, and results no larger than their note stay",
            vec![
                Weight::Nothing,
                reply(10),
                results(&[20, 21, 500]),
                Weight::Nothing,
                reply(10),
                results(&[700]),
            ],
            "2.1 2.2 call",
        ),
        ("what one reply needed stays out",
         vec![reply(10), results(&[500]), reply(10), results(&[400]), reply(10), results(&[10])],
         "1.0 call"),
        ("the last call needs less room",
         vec![reply(400), results(&[100, 100]), reply(10), results(&[450])], "1.0 wrap up"),
        ("replies do not leave", vec![reply(600), results(&[300]), reply(500), results(&[30])],
         " overflow 1150"),
    };
    for (name, weights, expected) in table {
        assert_eq!(shown_as(&plan_tail(&weights, ROOM)), expected, "{name}");
    }
    let large = vec![reply(u64::MAX), results(&[u64::MAX])];
    assert_eq!(
        plan_tail(&large, Headroom::UNBOUNDED).call,
        ModelCallKind::Normal
    );
}

fn summary(replaced: usize, tokens: u64) -> Weight {
    Weight::Summary {
        replaced,
        tokens: Tokens(tokens),
    }
}

#[test]
fn the_oldest_rounds_are_summarised_if_masks_are_not_enough() {
    let room = Headroom {
        tokens: Tokens(4_000),
        ..ROOM
    };
    let round = |said, result| [reply(said), results(&[result])];
    // Half of what a reply leaves, 1,900, is for the summary and the newest rounds.
    let long = [
        round(900, 100),
        round(900, 100),
        round(900, 100),
        round(800, 300),
    ]
    .concat();
    let table: [(&str, Vec<Weight>, &str); 8] = rows! {
        ("notes are not enough", long.clone(), " 6 steps to 500"),
        ("then it goes on", [&long[..], &[summary(6, 480)]].concat(), " call"),
        ("a summary of the summary and what came since",
         [&long[..], &[summary(6, 480)], &round(1_400, 20), &round(1_300, 20)].concat(),
         " 11 steps to 500"),
        ("the newest round stays, however long it is",
         [round(900, 100), round(800, 2_300)].concat(), " 2 steps to 500"),
        ("without room for a reply it is the last call",
         [round(900, 100), round(800, 2_600)].concat(), " 2 steps to 500"),
        ("a summary as long as what it stands for is none",
         [round(300, 20), round(900, 2_700)].concat(), " wrap up"),
        ("nothing older", round(900, 3_200).to_vec(), " overflow 4100"),
        (
            "results that had left do not come back",
            [
                &round(100, 2_000)[..],
                &round(100, 1_700),
                &[reply(1_900), results(&[100]), summary(4, 480)],
                &round(900, 300),
            ]
            .concat(),
            " call",
        ),
    };
    for (name, weights, expected) in table {
        assert_eq!(shown_as(&plan_tail(&weights, room)), expected, "{name}");
    }
}

#[test]
fn a_step_is_counted_as_it_is_sent() {
    let call = ToolCall::new("1", "recall", "{\"n\":1}");
    let said = Reply {
        text: "let me look".into(),
        calls: vec![call.clone(), call],
        ..Reply::default()
    };
    let plain = "let me look\nrecall{\"n\":1}\nrecall{\"n\":1}";
    let all = |_| true;
    assert_eq!(countable(&Step::Model(said.clone()), all), [plain]);
    let verbatim = Step::Model(Reply {
        verbatim: Some("[1]".into()),
        ..said
    });
    assert_eq!(countable(&verbatim, all), ["[1]"]);
    assert_eq!(
        Weight::of_step(&verbatim, &[Tokens(5)], Tokens(3), |_| Tokens(9)),
        reply(8)
    );

    let result = |content: &str| ToolResult::new("1", content, false);
    let shot = ToolResult {
        files: vec![AttachedFile {
            filename: "shot.png".into(),
            mime: "image/png".into(),
            size_bytes: 3,
            content: Content::new(Arc::from(&b"png"[..]), Extent::Pages(4)),
            text: Some("the plan".into()),
        }],
        ..result("two")
    };
    let both = [result("one"), shot];
    let step = Step::Tools(both.to_vec());
    assert_eq!(countable(&step, all), ["one", "two"]);
    let behind = "two\n[text of attachment shot.png]\nthe plan";
    assert_eq!(countable(&step, |_| false), ["one", behind]);
    let per_page = |extent| match extent {
        Extent::Pages(pages) => Tokens(u64::from(pages) * 25),
        Extent::Pixels { .. } => Tokens(9),
    };
    let weight = Weight::of_step(&step, &[Tokens(5), Tokens(7)], Tokens(3), per_page);
    assert_eq!(weight, results(&[8, 110]));
    // A note in its place has no files.
    let masked = Masked {
        step: 4,
        result: 1,
        tokens: Tokens(110),
    };
    let shown = shown_results(4, &both, &[masked]);
    assert!(shown[1].files.is_empty() && shown[1].content.contains("110 tokens"));
    assert_eq!(countable(&named(), all), [""; 0]);
    assert_eq!(
        Weight::of_step(&named(), &[], Tokens(3), |_| Tokens(9)),
        Weight::Nothing
    );

    let masked = Masked {
        step: 4,
        result: 1,
        tokens: Tokens(1_234),
    };
    let texts = |step| {
        shown_results(step, &both, &[masked])
            .into_iter()
            .map(|r| r.content.to_string())
            .collect::<Vec<_>>()
    };
    let note = "[tool result: 1234 tokens, left out to make room; make the call again if it only \
                reads]";
    assert_eq!(texts(4), ["one", note]);
    assert_eq!(texts(5), ["one", "two"]);
}

/// The size of the exchange with these results masked.
fn cost(weights: &[Weight], masked: &[Masked], note: Tokens) -> Tokens {
    let mut total = Tokens::ZERO;
    for (step, weight) in weights.iter().enumerate() {
        match weight {
            Weight::Reply(tokens) => total += *tokens,
            Weight::Results(results) => {
                for (result, tokens) in results.iter().enumerate() {
                    let out = masked.iter().any(|m| (m.step, m.result) == (step, result));
                    total += if out { note } else { *tokens };
                }
            }
            Weight::Nothing | Weight::Summary { .. } => {}
        }
    }
    total
}

/// The same for the part beside a summary.
fn cost_beside(weights: &[Weight], masked: &[Masked], note: Tokens) -> Tokens {
    let summaries = weights.iter().rev();
    let newest = summaries.filter_map(|weight| match weight {
        Weight::Summary { replaced, tokens } => Some((*replaced, *tokens)),
        _ => None,
    });
    let (replaced, tokens) = newest.take(1).last().unwrap_or_default();
    let mut stands = weights.to_vec();
    stands[..replaced].fill(Weight::Nothing);
    tokens + cost(&stands, masked, note)
}

/// The maskable results, oldest first.
fn maskable(weights: &[Weight], note: Tokens) -> Vec<Masked> {
    let is_results = |weight: &&Weight| matches!(weight, Weight::Results(_));
    let rounds = weights.iter().filter(is_results).count();
    let mut seen = 0;
    let mut all = Vec::new();
    for (step, weight) in weights.iter().enumerate() {
        if let Weight::Results(results) = weight {
            seen += 1;
            let each = results.iter().copied().enumerate();
            let worth = each.filter(|(_, tokens)| seen < rounds && *tokens > note);
            all.extend(worth.map(|(result, tokens)| Masked {
                step,
                result,
                tokens,
            }));
        }
    }
    all
}

fn exchange() -> impl Strategy<Value = Vec<Weight>> {
    let results = prop::collection::vec(0..400u64, 1..4).prop_map(|tokens| results(&tokens));
    let round = (0..150u64, results, any::<bool>()).prop_map(|(tokens, results, named)| {
        let named = named.then_some(Weight::Nothing);
        let round = [reply(tokens), results];
        round.into_iter().chain(named).collect::<Vec<_>>()
    });
    prop::collection::vec(round, 0..8).prop_map(|rounds| rounds.concat())
}

proptest! {
    #[test]
    fn the_exchange_fits_and_nothing_is_masked_unnecessarily(
        weights in exchange(),
        tokens in 0..2_500u64,
        longest in 0..400u64,
        note in 0..60u64,
    ) {
        let room = Headroom { tokens: Tokens(tokens), reply: Tokens(longest), note: Tokens(note), is_shared: false };
        let replies = weights.iter().enumerate();
        let calls = replies.filter(|(_, weight)| matches!(weight, Weight::Reply(_)));
        let calls = calls.map(|(at, _)| at).chain([weights.len()]);
        let mut before: Vec<Masked> = Vec::new();
        for at in calls {
            let weights = &weights[..at];
            let Tail { masked, call } = plan_tail(weights, room);
            let all = maskable(weights, room.note);
            prop_assert_eq!(&masked[..], &all[..masked.len()], "oldest first, the newest never");
            prop_assert_eq!(&masked[..before.len()], &before[..], "what has left stays out");

            let needs = |masked: &[Masked], reply: Tokens| cost(weights, masked, room.note) + reply;
            let reply = match call {
                ModelCallKind::Normal => room.reply,
                ModelCallKind::Summarise { .. } => {
                    prop_assert!(needs(&all, room.reply) > room.tokens, "it could go on");
                    prop_assert_eq!(&masked, &before);
                    continue;
                }
                ModelCallKind::WrapUp => {
                    prop_assert!(needs(&all, room.reply) > room.tokens, "it could go on");
                    Tokens::ZERO
                }
                ModelCallKind::Overflow { needed } => {
                    prop_assert_eq!(needed, needs(&all, Tokens::ZERO));
                    prop_assert!(needed > room.tokens, "it could answer");
                    prop_assert_eq!(&masked, &before);
                    continue;
                }
            };
            prop_assert!(needs(&masked, reply) <= room.tokens, "it fits");
            if masked.len() > before.len() {
                let fewer = &masked[..masked.len() - 1];
                prop_assert!(needs(fewer, reply) > room.tokens, "as few as needed");
            }
            before = masked;
        }
    }

    #[test]
    fn a_summary_frees_tokens_and_keeps_the_newest_round(
        rounds in prop::collection::vec((0..900u64, 0..1_500u64), 1..40),
        tokens in 2_048..12_000u64,
        longest in 0..2_000u64,
        part in 0..=100u64,
    ) {
        let room = Headroom { tokens: Tokens(tokens), reply: Tokens(longest), note: Tokens(40), is_shared: false };
        let mut weights = Vec::new();
        for (said, result) in rounds {
            let newest = weights.len();
            weights.extend([reply(said), results(&[result])]);
            let mut summaries = 0;
            let decided = loop {
                let decided = plan_tail(&weights, room);
                let ModelCallKind::Summarise { replaced, cap } = decided.call else {
                    break decided;
                };
                let standing = cost_beside(&weights, &decided.masked, room.note);
                prop_assert!(0 < replaced && replaced <= newest, "{replaced} of {newest}");
                weights.push(summary(replaced, cap.0 * part / 100));
                // Masked results stay masked.
                let left = decided.masked.iter().filter(|masked| masked.step >= replaced);
                let left: Vec<Masked> = left.copied().collect();
                let less = cost_beside(&weights, &left, room.note);
                prop_assert!(less < standing, "{less} of {standing}: it makes room");
                summaries += 1;
                prop_assert_eq!(summaries, 1, "once is enough");
            };
            let needed = cost_beside(&weights, &decided.masked, room.note);
            match decided.call {
                ModelCallKind::Normal => prop_assert!(needed + room.reply <= room.tokens),
                ModelCallKind::WrapUp => prop_assert!(needed <= room.tokens),
                _ => break,
            }
        }
    }
}

#[test]
fn a_summary_names_steps_and_not_messages() {
    let note = summary_note(
        "## Key points\n- assistant #3 Order W-7 is late. #4 I asked about #12 of the talk.\n\
         - #5 “Done.” #6 So. \\#7 was said, and #8.\n#9",
    );
    let quotes = note.rsplit_once("\n\n").unwrap().1;
    assert_eq!(
        quotes,
        "## Key points\n- assistant step 3 Order W-7 is late. step 4 I asked about #12 of the \
         talk.\n- step 5 “Done.” step 6 So. \\#7 was said, and #8.\n#9"
    );
    assert!(note.contains("Step 1 is your first reply here") && !note.contains("#1 "));
}
