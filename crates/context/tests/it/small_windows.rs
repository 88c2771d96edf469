//! What presets keep of a small window, and of every other one.

use crate::chat::{CHECKPOINT, Chat, GOOD, RETENTION};
use proptest::prelude::*;
use unisono_context::budget::{Budget, Budgets, Limits};
use unisono_context::compaction::Mode;
use unisono_context::policy::{Keep, Policy};
use unisono_context::{Encoding, Ppm, Tokens};

fn model(window: u64) -> Budget {
    let limits = Limits {
        window: Tokens(window),
        max_output: Tokens(window / 8),
        encoding: Encoding::O200kBase,
        per_message: Tokens::ZERO,
        files: Default::default(),
    };
    Budget::new(limits, Ppm::percent(5), Tokens(400))
}

/// Tokens of the messages that stand for themselves after a compaction of 99,000 tokens and more,
/// how many they are, and all that the context has then.
fn compacted(window: u64, policy: &Policy) -> (u64, usize, u64) {
    let budget = model(window);
    let messages = (99_000.max(budget.usable.0 * 5 / 4) / 90) as usize | 1;
    let mut chat = Chat::long(messages, 90);
    chat.compact(&Budgets::from(budget), policy, Mode::Check, GOOD)
        .unwrap();
    let all = chat.effective(&budget).tokens;
    let kept = chat.verbatim().len();
    (kept as u64 * 90, kept, all.0)
}

#[test]
fn of_a_small_window_a_third_of_what_is_usable_stays_at_least() {
    for window in [4_096, 8_192, 16_384, 32_768, 65_536] {
        let usable = model(window).usable.0;
        for policy in [CHECKPOINT, RETENTION] {
            let (kept, _, all) = compacted(window, &policy);
            let case = format!("{} of {window}: {kept} of {usable}, {all}", policy.preset);
            assert!(kept * 3 >= usable, "{case}");
            assert!(kept * 2 <= usable, "{case}");
            assert!(all <= usable * 4 / 5, "{case}");
        }
    }
}

#[test]
fn of_a_large_window_the_presets_own_amounts_stay() {
    for window in [128_000, 200_000, 1_000_000] {
        let (_, messages, _) = compacted(window, &CHECKPOINT);
        assert_eq!(messages, 10, "{window}");
        // The pending input is not counted.
        let (kept, ..) = compacted(window, &RETENTION);
        assert!(kept <= 1_000 + 90, "{window}: {kept}");
    }
}

#[test]
fn a_persons_number_is_taken_at_its_word_in_every_window() {
    for window in [8_192, 32_768, 200_000] {
        let messages = Policy {
            keep: Keep::Messages(4),
            ..CHECKPOINT
        };
        assert_eq!(compacted(window, &messages).1, 4, "{window}");
        let tokens = Policy {
            keep: Keep::Tokens {
                amount: Tokens(500),
                align: 4,
            },
            ..RETENTION
        };
        assert!(compacted(window, &tokens).0 <= 500 + 90, "{window}");
    }
}

#[test]
fn less_is_never_kept_than_of_a_large_window() {
    let budget = model(16_384);
    let target = RETENTION.target_amount(&budget);
    let wide = Keep::TokensByWindow {
        amount: Tokens(9_000),
        align: 4,
    };
    let expected = Keep::Tokens {
        amount: Tokens(9_000),
        align: 4,
    };
    assert_eq!(wide.scaled(budget.window, target), expected);
}

/// What two windows keep that are a thousandth apart is nearly the same: no window is a step.
#[test]
fn what_is_kept_changes_gradually_with_the_window() {
    for policy in [CHECKPOINT, RETENTION] {
        let (mut window, mut before) = (48_000, compacted(48_000, &policy).0);
        while window < 140_000 {
            window += window / 200;
            let (kept, ..) = compacted(window, &policy);
            let (jump, bound) = (kept.abs_diff(before), window / 200 + 2 * 90);
            let case = format!("{} of {window}: {before}, then {kept}", policy.preset);
            assert!(jump <= bound, "{case}");
            before = kept;
        }
    }
}

proptest! {
    /// The amount between small and large windows falls evenly.
    #[test]
    fn no_window_is_a_step(window in 1_000u64..200_000, target in 1_000u64..150_000) {
        let least = |window| Keep::least(Tokens(window), Tokens(target)).0;
        let (here, next) = (least(window), least(window + 1));
        prop_assert!(here <= target / 2);
        prop_assert!(here.abs_diff(next) <= 1 + target / 100_000);
        if window <= 65_536 {
            prop_assert_eq!(here, target / 2);
        }
        if window >= 128_000 {
            prop_assert_eq!(here, 0);
        }
    }

    /// A person who asks for a number of messages is told where fewer are kept.
    #[test]
    fn fewer_messages_than_a_person_asks_for_are_never_silent(
        asked in 1u32..400, window in 8_000u64..200_000, size in 20u64..2_000,
    ) {
        let budget = model(window);
        let policy = Policy { keep: Keep::Messages(asked), ..CHECKPOINT };
        let messages = (90_000.max(budget.usable.0 * 5 / 4) / size + 3) as usize | 1;
        let mut chat = Chat::long(messages, size);
        let plans = chat.compact(&Budgets::from(budget), &policy, Mode::Check, GOOD).unwrap();
        let kept = chat.verbatim().len() as u32;
        let reply = plans.iter().any(|plan| plan.tightened);
        prop_assert_eq!(reply, kept < asked, "{} of {}", kept, asked);
    }
}
