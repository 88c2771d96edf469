//! Messages that are masked or cut, and calls that are not answered yet.

use super::*;

#[test]
fn cuts_are_never_longer_than_asked() {
    let text = "a".repeat(1_000);
    for (target, expected) in [
        (40, "aaaaaaaaaaaaaaa[...971...]aaaaaaaaaaaaaa"),
        (20, "aaaaa[...991...]aaaa"),
        (13, "a[...998...]a"),
        (12, "aaaaaaaaaaaa"),
        (10, "aaaaaaaaaa"),
        (0, ""),
    ] {
        assert_eq!(cut(&text, target), expected);
        assert_eq!(expected.chars().count(), target);
    }
    assert_eq!(cut("short", 5), "short");
    assert_eq!(cut(&"é".repeat(30), 20), "ééééé[...20...]ééééé");
}

#[test]
fn truncation_is_only_where_it_shortens() {
    let shorter = "a".repeat(4_011);
    assert_eq!(truncated(&shorter, 2_000), shorter);
    let longer = truncated(&"ä".repeat(4_012), 2_000);
    assert_eq!(longer.chars().count(), 4_011);
    assert!(longer.contains("ä[truncated]ä"));
}

#[test]
fn one_message_larger_than_every_budget_is_masked_or_cut() {
    let budget = usable(10_000);
    for (letters, policy) in [
        ("U100 A100 T50000 T10 T10 T10 A100 U100", CHECKPOINT),
        ("U100 A100 T50000 A100 U100", CHECKPOINT),
        ("U50000 A100", PROGRESSIVE),
        ("U50000 A100", RETENTION),
        ("U50000", CHECKPOINT),
        ("U50000", TRUNCATE),
        ("U100 A50000 U100", TRUNCATE),
    ] {
        let mut chat = Chat::of(letters);
        let plans = chat.compact(&budget.into(), &policy, Mode::Check, GOOD);
        assert!(!plans.unwrap().is_empty(), "{letters}");
        assert!(
            chat.effective(&budget).at_most <= budget.usable,
            "{letters}"
        );
    }
    let mut chat = Chat::of("U50000");
    chat.compact(&budget.into(), &CHECKPOINT, Mode::Check, GOOD)
        .unwrap();
    let form = chat.freeze().entries()[0].form();
    assert!(matches!(form, Some(Form::Cut { .. })), "{form:?}");
}

#[test]
fn a_cut_takes_from_every_long_text_and_spares_the_short_ones() {
    use unisono_context::{Part, Role};
    let mut chat = Chat::default();
    let parts = [200, 40_000, 30_000].map(|chars| Part::text("p".repeat(chars)));
    chat.append(Role::User, parts.to_vec());
    let budget = usable(10_000);
    chat.compact(&budget.into(), &CHECKPOINT, Mode::Check, GOOD)
        .unwrap();
    let snapshot = chat.freeze();
    let lengths: Vec<usize> = snapshot.entries()[0]
        .parts()
        .iter()
        .map(|part| part.countable_text().chars().count())
        .collect();
    assert_eq!(lengths[0], 200);
    assert_eq!(lengths[1], lengths[2]);
    assert!((15_000..=16_000).contains(&lengths[1]), "{lengths:?}");
}

#[test]
fn large_old_tool_results_are_masked_before_a_model_is_asked() {
    let letters = "A100 T1001 ".repeat(5) + "A100 T1000 A100 T9000 A100 T9000 A100 T9000";
    let chat = Chat::asked(&format!("{letters} A50000 U100"));
    let plan = chat.check(model(200_000, 0), &CHECKPOINT).expect("due");
    match &plan.step {
        Step::Mask(targets) => {
            let masked: Vec<u32> = targets.iter().map(|t| t.ordinal.0).collect();
            assert_eq!(masked, [2, 4, 6, 8, 10]);
        }
        other => panic!("{other}"),
    }
    let mut chat = chat;
    chat.carry_out(&plan, Mode::Check, &CHECKPOINT, GOOD);
    let text = chat.freeze().entries()[3].parts()[0]
        .countable_text()
        .into_owned();
    assert_eq!(text, "[tool result: 1001 tokens, recall #4]");
}

#[test]
fn a_mask_that_would_not_shrink_is_not_made() {
    let chat = Chat::asked("U100 A100 T20 A100 T20 A100 T20 U100");
    let policy = Policy {
        masking: Some(Masking {
            over: Tokens::ZERO,
            keep_newest: 0,
        }),
        ..keeping(Keep::Messages(1))
    };
    let plan = chat.check(usable(10_000), &policy).expect("due");
    assert!(matches!(plan.step, Step::Summarise { .. }), "{plan}");
}

#[test]
fn an_unanswered_call_of_the_open_turn_stays_with_all_after_it() {
    let open = Chat::of("U1000 A1000 U1000 C100 A5000 A100");
    assert_eq!(kept(&open, Keep::Messages(1)), [4, 5, 6]);
    // Once the next input is there the call is old: it never got a result.
    let closed = Chat::asked("U1000 A1000 U1000 C100 A5000 A100 U100");
    assert_eq!(kept(&closed, Keep::Messages(1)), [7]);
    let entry = &closed.freeze().entries()[3].clone();
    assert_eq!(entry.unanswered(), [0]);
}

#[test]
fn an_unanswered_call_stays_when_the_user_message_of_its_turn_is_covered() {
    let mut chat = Chat::of("U1000 A1000 U1000 A5000");
    let budgets = Budgets::from(usable(1_000_000));
    let keep = Keep::Messages(1);
    let manual = Mode::Manual { keep: Some(keep) };
    chat.compact(&budgets, &keeping(keep), manual, GOOD)
        .unwrap();
    assert_eq!(chat.verbatim(), [4]);
    chat.say("C100 A100 A100");
    chat.compact(&budgets, &keeping(keep), manual, GOOD)
        .unwrap();
    assert_eq!(chat.verbatim(), [5, 6, 7]);
}

#[test]
fn a_result_that_comes_after_its_call_was_summarised_stands_alone() {
    let mut chat = Chat::asked("U1000 C1000 U100");
    let budgets = Budgets::from(usable(1_000_000));
    let keep = Keep::Messages(1);
    let manual = Mode::Manual { keep: Some(keep) };
    chat.compact(&budgets, &keeping(keep), manual, GOOD)
        .unwrap();
    chat.say("A100 T100 A100");
    chat.tree.get(chat.head()).expect("known");
    chat.say("T100");
    let snapshot = chat.freeze();
    let detached: Vec<bool> = snapshot.entries().iter().map(|e| e.is_detached()).collect();
    assert_eq!(detached, [false, false, false, false, true]);
    assert_eq!(kept(&chat, Keep::Messages(1)), [1, 2, 7]);
}
