//! The specification's case table, and the tables of its sources, for the rolling presets.

mod shortening;

use crate::chat::{
    CHECKPOINT, Chain, Chat, Fallback, GOOD, OFF, PROGRESSIVE, RETENTION, Summariser, TRUNCATE,
    model, ordinals, usable,
};
use unisono_context::alteration::{Form, cut};
use unisono_context::budget::{Budget, Budgets};
use unisono_context::checkpoint::{Body, Tier, Writer};
use unisono_context::compaction::{Draft, Mode, Rejection, Step, Stop, accept, truncated};
use unisono_context::policy::{Keep, Masking, Policy, Trigger};
use unisono_context::{Ordinal, Ppm, Tokens};

/// A policy that starts at once and keeps what it is told, with room for small numbers.
fn keeping(keep: Keep) -> Policy {
    Policy {
        trigger: Some(Trigger::Tokens(Tokens(100))),
        target: Ppm::ONE,
        minimum: Tokens::ZERO,
        keep,
        masking: None,
        ..CHECKPOINT
    }
}

fn keep_tokens(amount: u64) -> Keep {
    Keep::Tokens {
        amount: Tokens(amount),
        align: 4,
    }
}

/// What a manual compaction with that `keep` leaves verbatim: the kept part as the preset has
/// it, without being tightened.
fn kept(chat: &Chat, keep: Keep) -> Vec<u32> {
    let mode = Mode::Manual { keep: Some(keep) };
    let plan = chat.plan(usable(1_000_000), &keeping(keep), mode);
    let plan = plan.expect("fits").map(|plan| plan.step);
    let gone = match &plan {
        Some(Step::Summarise { cover, .. }) => ordinals(&cover.fresh),
        Some(other) => panic!("{other}"),
        None => Vec::new(),
    };
    let all = 1..=chat.view().len().0;
    all.filter(|ordinal| !gone.contains(ordinal)).collect()
}

#[test]
fn triggers_are_strict() {
    let model_200k = model(200_000, 0);
    let ten_thousand = Budget {
        window: Tokens(10_000),
        ..usable(8_000)
    };
    for (policy, budget, tokens, starts) in [
        (CHECKPOINT, model_200k, 79_999, false),
        (CHECKPOINT, model_200k, 80_000, false),
        (CHECKPOINT, model_200k, 80_001, true),
        (CHECKPOINT, model(50_000, 10_000), 37_500, false),
        (CHECKPOINT, model(50_000, 10_000), 37_501, true),
        (RETENTION, model(128_000, 0), 121_600, false),
        (RETENTION, model(128_000, 0), 121_601, true),
        (RETENTION, model(128_000, 16_000), 105_600, false),
        (RETENTION, model(128_000, 16_000), 105_601, true),
        (PROGRESSIVE, ten_thousand, 6_000, false),
        (PROGRESSIVE, ten_thousand, 6_001, true),
        (TRUNCATE, model_200k, 80_000, false),
        (TRUNCATE, model_200k, 80_001, true),
        (OFF, model_200k, 190_000, false),
    ] {
        let chat = Chat::asked(&format!("U500 A{} U500", tokens - 1_000));
        let plan = chat.check(budget, &policy);
        assert_eq!(plan.is_some(), starts, "{} {tokens}", policy.preset);
    }
}

#[test]
fn trigger_amounts_of_retention() {
    for (window, max_output, trigger) in [
        (128_000, 0, 121_600),
        (128_000, 16_000, 105_600),
        (128_000, 4_000, 117_600),
    ] {
        let amount = RETENTION.trigger_amount(&model(window, max_output));
        assert_eq!(amount, Some(Tokens(trigger)), "{window} {max_output}");
    }
}

#[test]
fn retention_waits_for_its_minimum_unless_over_usable() {
    let small = Budget {
        window: Tokens(1_000),
        ..usable(2_500)
    };
    for (tokens, starts) in [(1_999, false), (2_000, true)] {
        let chat = Chat::asked(&format!("U100 A{} U100", tokens - 200));
        assert_eq!(chat.check(small, &RETENTION).is_some(), starts, "{tokens}");
    }
    let chat = Chat::asked("U100 A1700 U100");
    assert!(chat.check(usable(1_800), &RETENTION).is_some());
}

#[test]
fn retention_keeps_the_newest_units_up_to_its_amount() {
    let chat = Chat::of("U200 U200 U300 U300 U300");
    assert_eq!(kept(&chat, keep_tokens(1_000)), [3, 4, 5]);
    let chat = Chat::of("U100 U300 U300 U300");
    assert_eq!(kept(&chat, keep_tokens(1_000)), [1, 2, 3, 4]);
}

#[test]
fn retention_moves_its_start_to_a_user_message_not_too_far_in() {
    let table = [
        ("U A A A A A U A", 600, vec![7, 8]),
        ("U A A A A A A U A", 600, vec![8, 9]),
        ("U A A A A A A A U A", 700, vec![4, 5, 6, 7, 8, 9, 10]),
        ("U A U A", 200, vec![3, 4]),
    ];
    for (letters, amount, expected) in table {
        assert_eq!(
            kept(&Chat::of(letters), keep_tokens(amount)),
            expected,
            "{letters}"
        );
    }
}

#[test]
fn retention_always_keeps_the_newest_user_message() {
    let chat = Chat::of("U A U5000 A100");
    assert_eq!(kept(&chat, keep_tokens(1_000)), [3, 4]);
}

#[test]
fn the_pending_input_counts_for_the_trigger_and_not_for_retention() {
    let chat = Chat::asked("U500 A500 U500 A500 U5000");
    assert_eq!(kept(&chat, keep_tokens(1_000)), [3, 4, 5]);
    let budget = model(8_000, 1_000);
    assert_eq!(budget.usable, Tokens(6_600));
    assert!(chat.check(budget, &RETENTION).is_some());
}

#[test]
fn starts_of_short_conversations() {
    let share = |percent| Keep::ShareOfHistory(Ppm::percent(percent));
    let table = [
        // Recent 60: the newest message alone, then back to its user message.
        ("U100 A100 U100 A50", keep_tokens(60), vec![3, 4]),
        ("U100 A100 U100 A50", share(18), vec![3, 4]),
        // Recent 300: the start is no user message and leaves.
        ("U A T A U A", keep_tokens(300), vec![5, 6]),
        ("U A T A U A", share(50), vec![5, 6]),
        // A unit is kept as a whole or not at all.
        ("U A T T A U", share(50), vec![6]),
        ("U A U A T T", share(34), vec![3, 4, 5, 6]),
        ("U A U A T T", share(90), vec![3, 4, 5, 6]),
    ];
    for (letters, keep, expected) in table {
        assert_eq!(
            kept(&Chat::of(letters), keep),
            expected,
            "{letters} {keep:?}"
        );
    }
}

#[test]
fn progressive_keeps_a_fifth_of_the_history() {
    let letters = "U100 ".repeat(60) + "U1";
    let chat = Chat::asked(&letters);
    let budget = Budget {
        window: Tokens(10_000),
        ..usable(8_000)
    };
    let plan = chat.check(budget, &PROGRESSIVE).expect("due");
    let cover = plan.step.cover().expect("a summary");
    // 1,200 are recent: 1 and eleven times 100; a twelfth would be 1,201.
    assert_eq!(cover.cutoff, Ordinal(49));
    assert_eq!(cover.original, Tokens(4_900));
}

#[test]
fn progressive_summarises_nothing_where_no_user_speaks() {
    let chat = Chat::of(&"A500 ".repeat(14));
    let budget = usable(8_000);
    assert_eq!(chat.check(budget, &PROGRESSIVE), None);
    let chat = Chat::of(&"A500 ".repeat(17));
    let plan = chat.check(budget, &PROGRESSIVE).expect("over usable");
    assert!(matches!(plan.step, Step::Summarise { .. }), "{plan}");
}

#[test]
fn checkpoint_keeps_ten_messages_the_pending_one_included() {
    let chat = Chat::long(101, 800);
    let plan = chat.check(model(200_000, 0), &CHECKPOINT).expect("due");
    assert_eq!(plan.step.cover().expect("a summary").cutoff, Ordinal(91));
}

#[test]
fn checkpoint_moves_a_start_inside_a_unit_to_its_start() {
    // The tenth newest message is the second of three results.
    let letters = "U4000 ".repeat(20) + "A10 T10 T10 T10 A10 U10 A10 U10 A10 U10 A10 U10";
    let chat = Chat::asked(&letters);
    let policy = Policy {
        keep: Keep::Messages(10),
        ..CHECKPOINT
    };
    let plan = chat.check(model(200_000, 0), &policy).expect("due");
    assert_eq!(plan.step.cover().expect("a summary").cutoff, Ordinal(20));
}

#[test]
fn checkpoint_keeps_at_most_half_the_target_but_always_the_newest() {
    // Target 64,000: of ten messages of 9,000 three fit 32,000.
    let chat = Chat::long(11, 9_000);
    let plan = chat.check(model(200_000, 0), &CHECKPOINT).expect("due");
    assert_eq!(plan.step.cover().expect("a summary").cutoff, Ordinal(8));
    let chat = Chat::asked("U40000 A10000 U40000");
    let plan = chat.check(model(200_000, 0), &CHECKPOINT).expect("due");
    assert_eq!(plan.step.cover().expect("a summary").cutoff, Ordinal(2));
}

#[test]
fn a_summary_is_capped_by_what_the_verbatim_part_leaves() {
    let chat = Chat::asked("U40000 A40000 U63000");
    let plan = chat.check(model(200_000, 0), &CHECKPOINT).expect("due");
    match plan.step {
        Step::Summarise { cap, .. } => assert_eq!(cap, Tokens(1_000)),
        other => panic!("{other}"),
    }
    assert_eq!(plan.target, Tokens(64_000));
}

#[test]
fn truncate_drops_oldest_units_and_leaves_a_note() {
    let mut chat = Chat::long(101, 800);
    let budgets = Budgets::from(model(200_000, 0));
    let plans = chat
        .compact(&budgets, &TRUNCATE, Mode::Check, GOOD)
        .unwrap();
    assert_eq!(plans.len(), 1);
    let active = chat.view().active().to_vec();
    assert_eq!(active.len(), 1);
    assert_eq!(active[0].body, Body::Tombstone);
    assert_eq!(active[0].cutoff, Ordinal(22));
    assert_eq!(active[0].writer, Writer::Deterministic);
    assert!(chat.freeze().blocks()[0].text().contains("#1–#22"));
}

#[test]
fn a_summary_does_not_claim_what_was_dropped() {
    let mut chat = Chat::long(101, 800);
    let budgets = Budgets::from(model(200_000, 0));
    chat.compact(&budgets, &TRUNCATE, Mode::Check, GOOD)
        .unwrap();
    chat.say(&"A800 U800 ".repeat(20));
    chat.pending = true;
    chat.compact(&budgets, &CHECKPOINT, Mode::Check, GOOD)
        .unwrap();
    let active = chat.view().active().to_vec();
    let bodies: Vec<bool> = active.iter().map(|c| c.body == Body::Tombstone).collect();
    assert_eq!(bodies, [true, false]);
    assert_eq!(ordinals(&active[0].covers), (1..=22).collect::<Vec<_>>());
    assert_eq!(ordinals(&active[1].covers), (23..=131).collect::<Vec<_>>());
}

#[test]
fn a_checkpoint_is_used_where_the_path_up_to_its_cutoff_is_the_same() {
    let mut chat = Chat::of("U A U A U A");
    let keep = Keep::Messages(2);
    let budgets = Budgets::from(usable(1_000_000));
    let manual = Mode::Manual { keep: Some(keep) };
    chat.compact(&budgets, &keeping(keep), manual, GOOD)
        .unwrap();
    let trunk = chat.head();
    assert_eq!(chat.verbatim(), [5, 6]);

    // Branch [1, 2, 6, 7], the checkpoint covers up to 4: not used.
    chat.fork_at(2);
    chat.say("U90 A90");
    assert_eq!(chat.verbatim(), [1, 2, 3, 4]);

    // Forked after the cutoff, before the tip: used, nothing new to summarise.
    chat.head = Some(trunk);
    chat.fork_at(5);
    chat.say("A90");
    assert_eq!(chat.verbatim(), [5, 6]);
    assert_eq!(
        chat.plan(usable(1_000_000), &keeping(keep), manual),
        Ok(None)
    );

    // Forked exactly at the cutoff: used as well.
    chat.head = Some(trunk);
    chat.fork_at(4);
    chat.say("U90");
    assert_eq!(chat.verbatim(), [5]);
}

#[test]
fn an_edit_that_comes_to_the_same_content_reuses_the_checkpoint() {
    let mut chat = Chat::of("U A U A U A");
    let keep = Keep::Messages(2);
    let manual = Mode::Manual { keep: Some(keep) };
    let budgets = Budgets::from(usable(1_000_000));
    chat.compact(&budgets, &keeping(keep), manual, GOOD)
        .unwrap();
    let parts = [3, 4].map(|n| {
        let node = chat.tree.node_at(chat.head(), Ordinal(n)).unwrap();
        node.message.parts.clone()
    });
    let [part, next] = parts;
    chat.fork_at(2);
    chat.append(unisono_context::Role::User, part);
    chat.append(unisono_context::Role::Assistant, next);
    assert_eq!(chat.view().active().len(), 1);
}

#[test]
fn retiring_a_checkpoint_restores_the_context_before_it() {
    let mut chat = Chat::long(101, 800);
    let budgets = Budgets::from(model(200_000, 0));
    chat.compact(&budgets, &CHECKPOINT, Mode::Check, GOOD)
        .unwrap();
    let first = chat.freeze().id();
    chat.say(&"A800 U800 ".repeat(50));
    chat.pending = true;
    let before = chat.freeze().id();
    chat.compact(&budgets, &CHECKPOINT, Mode::Check, GOOD)
        .unwrap();
    assert_ne!(chat.freeze().id(), before);
    let newest = chat.view().active()[0].id;
    chat.checkpoints.retire(newest);
    assert_eq!(chat.freeze().id(), before);
    chat.fork_at(101);
    assert_eq!(chat.freeze().id(), first);
}

#[test]
fn summaries_that_are_not_taken() {
    let good = "## Context\nall is well";
    let table = [
        (good, Stop::Complete, 50, Ok(())),
        (good, Stop::Complete, 101, Err("over its cap")),
        (good, Stop::Complete, 90, Err("no fewer than")),
        ("", Stop::Complete, 0, Err("empty")),
        (" \n\t", Stop::Complete, 1, Err("empty")),
        ("all is well", Stop::Complete, 3, Err("sections")),
        ("## Weather\nfine", Stop::Complete, 3, Err("sections")),
        (good, Stop::CutOff, 50, Err("cut off")),
        (good, Stop::Refused, 50, Err("refused")),
    ];
    for (text, stop, tokens, expected) in table {
        let tokens = Tokens(tokens);
        let draft = Draft { text, stop, tokens };
        let got: Result<(), Rejection> =
            accept(&draft, Tier::Conversation, Tokens(100), Tokens(90));
        match (got, expected) {
            (Ok(()), Ok(())) => {}
            (Err(reason), Err(word)) => assert!(reason.to_string().contains(word), "{reason}"),
            (got, expected) => panic!("{text:?} {stop:?}: {got:?}, expected {expected:?}"),
        }
    }
}

#[test]
fn whatever_the_summariser_does_the_turn_goes_on_under_target() {
    for summariser in [
        Summariser::Good,
        Summariser::Growing,
        Summariser::NeverShrinking,
        Summariser::Empty,
        Summariser::Failing,
        Summariser::Refusing,
        Summariser::CutOff,
        Summariser::Shapeless,
    ] {
        for fallback in [Fallback::Extractive, Fallback::Truncation] {
            let mut chat = Chat::long(101, 800);
            let budget = model(200_000, 0);
            let chain = Chain(summariser, fallback);
            let plans = chat.compact(&budget.into(), &CHECKPOINT, Mode::Check, chain);
            assert_eq!(plans.unwrap().len(), 1, "{chain:?}");
            assert!(chat.effective(&budget).tokens <= Tokens(64_000));
            assert_eq!(chat.check(budget, &CHECKPOINT), None);
            let checkpoint = chat.view().active()[0].clone();
            assert_eq!(checkpoint.degraded, summariser != Summariser::Good);
        }
    }
}

#[test]
fn no_message_is_lost_between_two_compactions() {
    let mut chat = Chat::long(101, 800);
    let budgets = Budgets::from(model(200_000, 0));
    chat.compact(&budgets, &CHECKPOINT, Mode::Check, GOOD)
        .unwrap();
    chat.say(&"A800 U800 ".repeat(50));
    chat.pending = true;
    let plan = chat.check(budgets.clone(), &CHECKPOINT).expect("due again");
    let cover = plan.step.cover().expect("a summary");
    assert_eq!(ordinals(&cover.fresh), (92..=191).collect::<Vec<_>>());
    assert_eq!(ordinals(&cover.spans), (1..=191).collect::<Vec<_>>());
    assert_eq!(cover.supersedes.len(), 1);
}

#[test]
fn manual_compaction_takes_all_before_the_newest_user_message() {
    let mut chat = Chat::of("U100 A100 U100 A100 T100 A100");
    let budgets = Budgets::from(usable(1_000_000));
    let manual = Mode::Manual { keep: None };
    let plans = chat.compact(&budgets, &CHECKPOINT, manual, GOOD).unwrap();
    assert_eq!(plans.len(), 1);
    assert_eq!(chat.verbatim(), [3, 4, 5, 6]);
    assert_eq!(chat.plan(budgets, &CHECKPOINT, manual), Ok(None));
}

#[test]
fn manual_compaction_keeps_what_it_is_told_to() {
    let chat = Chat::of("U100 A100 U100 A100 U100 A100");
    assert_eq!(kept(&chat, Keep::Messages(4)), [3, 4, 5, 6]);
    assert_eq!(kept(&chat, Keep::Messages(100)), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_replacement_need_not_be_smaller_but_must_keep_the_target() {
    use unisono_context::compaction::accept_replacement;
    let table = [
        ("edited", 100, 500, Ok(())),
        ("edited", 101, 400, Err("over its cap")),
        ("edited", 90, 501, Err("over its target")),
        ("  ", 90, 400, Err("empty")),
    ];
    for (text, tokens, context, expected) in table {
        let draft = Draft {
            text,
            stop: Stop::Complete,
            tokens: Tokens(tokens),
        };
        let got = accept_replacement(&draft, Tokens(100), Tokens(context), Tokens(500));
        match (got, expected) {
            (Ok(()), Ok(())) => {}
            (Err(reason), Err(word)) => assert!(reason.to_string().contains(word), "{reason}"),
            (got, expected) => panic!("{tokens} {context}: {got:?}, expected {expected:?}"),
        }
    }
}
