//! What limits a compaction: estimated counts, several budgets at once, the quota of models, and
//! the overflow where nothing can give way.

use crate::chat::{
    CHECKPOINT, Chain, Chat, Fallback, GOOD, OFF, PROGRESSIVE, RETENTION, Summariser, TRUNCATE,
    model, usable,
};
use unisono_context::budget::{Budget, Budgets};
use unisono_context::checkpoint::Writer;
use unisono_context::compaction::{self, Error, Mode, Step};
use unisono_context::policy::{Method, Policy};
use unisono_context::{CheckpointId, Encoding, Tokens};

#[test]
fn off_never_compacts_and_says_what_does_not_fit() {
    let chat = Chat::long(100, 1_000);
    assert_eq!(chat.check(usable(100_000), &OFF), None);
    let error = chat.plan(usable(99_999), &OFF, Mode::Check).unwrap_err();
    let expected = Error::Overflow {
        needed: Tokens(100_000),
        usable: Tokens(99_999),
        window: Tokens(99_999),
    };
    assert_eq!(error, expected);
}

#[test]
fn the_current_input_is_never_cut() {
    let chat = Chat::asked("U100 A100 U50000");
    for policy in [CHECKPOINT, RETENTION, PROGRESSIVE, TRUNCATE] {
        let error = chat.plan(usable(10_000), &policy, Mode::Check).unwrap_err();
        let expected = Error::Overflow {
            needed: Tokens(50_000),
            usable: Tokens(10_000),
            window: Tokens(10_000),
        };
        assert_eq!(error, expected, "{}", policy.preset);
    }
}

#[test]
fn pinned_messages_count_towards_an_overflow_and_stay() {
    let chat = Chat::asked("U6000! A100 U5000");
    let error = chat
        .plan(usable(10_000), &CHECKPOINT, Mode::Check)
        .unwrap_err();
    assert!(
        matches!(
            error,
            Error::Overflow {
                needed: Tokens(11_000),
                ..
            }
        ),
        "{error}"
    );

    let mut chat = Chat::asked("U500! A33000 U20000! A33000 U500");
    let budgets = Budgets::from(model(200_000, 0));
    chat.compact(&budgets, &CHECKPOINT, Mode::Check, GOOD)
        .unwrap();
    assert_eq!(chat.verbatim(), [1, 3, 5]);
}

#[test]
fn estimated_counts_lower_the_trigger_by_a_tenth() {
    for (tokens, approximate, starts) in [
        (72_000, true, false),
        (72_001, true, true),
        (72_001, false, false),
    ] {
        let mut chat = Chat {
            approximate,
            ..Chat::default()
        };
        chat.say(&format!("U500 A{} U500", tokens - 1_000));
        chat.pending = true;
        let plan = chat.check(usable(1_000_000), &CHECKPOINT);
        assert_eq!(plan.is_some(), starts, "{tokens} {approximate}");
    }
}

#[test]
fn estimated_counts_must_fit_by_their_bytes() {
    let mut chat = Chat {
        approximate: true,
        ..Chat::default()
    };
    chat.say("U500 A9000 U500");
    chat.pending = true;
    // 10,000 tokens by estimate, 40,000 at most.
    assert_eq!(chat.check(usable(40_000), &CHECKPOINT), None);
    let plan = chat.check(usable(39_999), &CHECKPOINT).expect("due");
    assert_eq!(plan.before, Tokens(10_000));
}

#[test]
fn the_encoding_with_the_least_room_decides() {
    let o200k = usable(200_000);
    let cl100k = Budget {
        encoding: Encoding::Cl100kBase,
        ..usable(100_000)
    };
    let mut chat = Chat {
        chars_per_token: [4, 2],
        ..Chat::default()
    };
    chat.say(&"U500 A500 ".repeat(45));
    chat.say("U500");
    chat.pending = true;
    assert_eq!(chat.check(o200k, &RETENTION), None);
    let budgets = Budgets::new(o200k, [cl100k]);
    assert_eq!(chat.check(budgets.clone(), &RETENTION), None);
    chat.say("A2500 A2500 U500");
    chat.pending = true;
    let plan = chat.check(budgets.clone(), &RETENTION).expect("due");
    assert_eq!(plan.budget, cl100k);
    assert_eq!(plan.target, Tokens(76_000));
    chat.compact(&budgets, &RETENTION, Mode::Check, GOOD)
        .unwrap();
    assert!(chat.effective(&cl100k).tokens <= Tokens(76_000));
}

#[test]
fn budgets_of_one_encoding_are_as_tight_as_the_tightest() {
    let wide = Budget {
        per_message: Tokens(7),
        ..usable(9_000)
    };
    let budgets = Budgets::new(wide, [usable(5_000), usable(8_000)]);
    let all: Vec<Budget> = budgets.iter().copied().collect();
    let expected = Budget {
        per_message: Tokens(7),
        ..usable(5_000)
    };
    assert_eq!(all, [expected]);
}

#[test]
fn the_sixth_automatic_checkpoint_of_a_day_is_made_without_a_model() {
    let mut chat = Chat::long(101, 800);
    let budgets = Budgets::from(model(200_000, 0));
    let hour = 3_600_000;
    let mut writers = Vec::new();
    for _ in 0..8 {
        let plans = chat
            .compact(&budgets, &CHECKPOINT, Mode::Check, GOOD)
            .unwrap();
        assert_eq!(plans.len(), 1);
        writers.push(chat.checkpoints.iter().last().unwrap().writer);
        chat.say(&"A800 U800 ".repeat(50));
        chat.pending = true;
        chat.now = chat.now.plus_ms(4 * hour);
    }
    // Made at 0, 4, 8, 12 and 16 hours; the one of hour 0 is a day old at hour 24.
    let mut expected = [Writer::Model; 8];
    expected[5] = Writer::Deterministic;
    assert_eq!(writers, expected);
}

#[test]
fn checkpoints_of_a_clock_that_was_set_back_are_not_counted() {
    let mut chat = Chat::long(101, 800);
    let budgets = Budgets::from(model(200_000, 0));
    let mut writers = Vec::new();
    for n in 0..7 {
        if n == 6 {
            chat.now = chat.now.plus_ms(-48 * 3_600_000);
        }
        chat.compact(&budgets, &CHECKPOINT, Mode::Check, GOOD)
            .unwrap();
        writers.push(chat.checkpoints.iter().last().unwrap().writer);
        chat.say(&"A800 U800 ".repeat(50));
        chat.pending = true;
    }
    let expected = [Writer::Model, Writer::Deterministic, Writer::Model];
    assert_eq!(writers[4..], expected);
}

#[test]
fn manual_checkpoints_and_repairs_are_not_counted() {
    let mut chat = Chat::long(101, 800);
    let budgets = Budgets::from(model(200_000, 0));
    let manual = Mode::Manual { keep: None };
    for _ in 0..6 {
        chat.compact(&budgets, &CHECKPOINT, manual, GOOD).unwrap();
        assert_eq!(
            chat.checkpoints.iter().last().unwrap().writer,
            Writer::Model
        );
        chat.say("A800 U800");
        chat.pending = true;
    }
    let since = chat.now.plus_ms(-1);
    assert_eq!(chat.checkpoints.model_made_between(since, chat.now), 0);

    let failing = Chain(Summariser::Failing, Fallback::Extractive);
    chat.say(&"A800 U800 ".repeat(50));
    chat.pending = true;
    chat.compact(&budgets, &CHECKPOINT, Mode::Check, failing)
        .unwrap();
    let degraded = chat.view().active()[0].clone();
    assert!(degraded.degraded);
    let mut repair = (*degraded).clone();
    repair.id = CheckpointId::from_u128(77);
    repair.number += 1;
    repair.writer = Writer::Model;
    repair.degraded = false;
    repair.supersedes = vec![degraded.id];
    chat.checkpoints.add(repair.into());
    assert_eq!(chat.view().active()[0].id, CheckpointId::from_u128(77));
    assert_eq!(chat.checkpoints.model_made_between(since, chat.now), 0);
}

#[test]
fn where_the_preset_keeps_too_much_less_is_kept() {
    // Retention 1,000, but only 1,200 are usable and the newest unit has 700.
    let policy = Policy {
        method: Method::Summarise { cap: Tokens(400) },
        ..RETENTION
    };
    let mut chat = Chat::asked("U300 A200 U300 A200 U700");
    let budget = usable(1_200);
    let plans = chat
        .compact(&budget.into(), &policy, Mode::Check, GOOD)
        .unwrap();
    assert!(plans[0].tightened, "{}", plans[0]);
    assert_eq!(chat.verbatim(), [5]);
    assert!(chat.effective(&budget).tokens <= plans[0].target);
}

#[test]
fn a_note_replaces_many_messages_where_no_summary_fits_beside_pins() {
    // The pinned message and the input leave 300 tokens, and a summary needs 512.
    let compacted = |between: &str| {
        let mut chat = Chat::asked(&format!("U9200! {between} U500"));
        let budget = usable(10_000);
        let plans = chat
            .compact(&budget.into(), &CHECKPOINT, Mode::Check, GOOD)
            .unwrap();
        assert!(chat.effective(&budget).at_most <= budget.usable);
        assert!(plans[0].tightened, "{}", plans[0]);
        (plans, chat.verbatim())
    };
    let (plans, verbatim) = compacted(&"A100 U100 ".repeat(100));
    assert_eq!(plans.len(), 1, "one step, not one for each message");
    assert!(matches!(plans[0].step, Step::Drop { .. }), "{}", plans[0]);
    assert_eq!(verbatim, [1, 202]);
    // Where the cut of one message suffices, nothing is dropped.
    let (plans, _) = compacted("A3000 U100 A100");
    let dropped = |plan: &compaction::Plan| matches!(plan.step, Step::Drop { .. });
    assert!(matches!(plans[0].step, Step::Cut { .. }), "{}", plans[0]);
    assert!(!plans.iter().any(dropped));
}

#[test]
fn an_uncounted_branch_has_no_plan() {
    let mut chat = Chat::asked("U100 A100 U100");
    let new = unisono_context::message::NewMessage::text(
        unisono_context::MessageId::from_u128(99),
        unisono_context::Role::User,
        "hello",
        chat.now,
    );
    let id = chat.tree.append(chat.head, new).unwrap().id;
    chat.head = Some(id);
    let error = chat.plan(usable(1_000), &CHECKPOINT, Mode::Check);
    assert_eq!(error, Err(Error::Uncounted));
    let missing = chat.tree.uncounted(id, Encoding::O200kBase);
    assert_eq!(missing.iter().map(|m| m.id).collect::<Vec<_>>(), [id]);
}

#[test]
fn a_summary_of_exactly_its_cap_ends_exactly_at_the_target() {
    let budget = Budget {
        per_message: Tokens(7),
        ..model(200_000, 0)
    };
    let mut chat = Chat::asked("U40000 A40000 U63000");
    let exactly = Chain(Summariser::Failing, Fallback::Extractive);
    let plans = chat.compact(&budget.into(), &CHECKPOINT, Mode::Check, exactly);
    assert_eq!(plans.unwrap().len(), 1);
    assert_eq!(chat.effective(&budget).tokens, Tokens(64_000));
}

#[test]
fn a_budget_holds_what_must_stay_or_has_no_say() {
    // Pinned, pending, one unit before it, and 32 tokens for the note of all else.
    let rows: [(&str, Policy, u64); 8] = [
        ("U100 A100 U100", CHECKPOINT, 232),
        ("U100 A100 U100", OFF, 300),
        ("U5000 A4000 U100 A200 U300", CHECKPOINT, 532),
        ("U5000! A4000 U100 A200 U300", CHECKPOINT, 5_532),
        ("U5000 A4000 U100 A200! U300", RETENTION, 532),
        ("U5000 A30 T4000 U300", PROGRESSIVE, 4_362),
        ("U5000 A30 T4000 U300", TRUNCATE, 4_362),
        ("U300", CHECKPOINT, 300),
    ];
    for (letters, policy, least) in rows {
        let chat = Chat::asked(letters);
        let holds = |budget| {
            let budget = usable(budget);
            compaction::holds(&chat.view(), &budget, &policy, Mode::Check, chat.now)
        };
        assert_eq!(holds(least), Some(true), "{letters} in {least}");
        assert_eq!(
            holds(least - 1),
            Some(false),
            "{letters} in less than {least}"
        );
    }
    let manual = Mode::Manual { keep: None };
    let chat = Chat::asked("U100 A100 U100");
    let held = compaction::holds(&chat.view(), &usable(232), &OFF, manual, chat.now);
    assert_eq!(held, Some(true), "a person's own compaction compacts");
}

#[test]
fn a_requested_summary_saves_a_tenth() {
    let capped = |letters: &str, mode| {
        let plan = Chat::asked(letters).plan(usable(100_000), &CHECKPOINT, mode);
        match plan.unwrap()?.step {
            Step::Summarise { cap, cover, .. } => Some((cap, cover.original)),
            _ => None,
        }
    };
    let manual = Mode::Manual { keep: None };
    let (cap, original) = capped("U100 A100 U100", manual).unwrap();
    assert_eq!((cap, original), (Tokens(180), Tokens(200)));
    assert_eq!(capped("U15 A15 U100", manual), None, "too short for that");
}
