//! Results of delegates are masked once their turn is answered, and only where nothing is due.

use crate::chat::{Chat, usable};
use unisono_context::budget::Budgets;
use unisono_context::compaction::{Step, mask_delegated};
use unisono_context::message::DELEGATE;
use unisono_context::policy::{Policy, Preset};
use unisono_context::{Part, Role};

/// Gives a task to as many agents as there are results, each of so many characters.
fn delegated(chat: &mut Chat, tool: &str, results: &[usize]) {
    let call = |n: usize| Part::tool_call(format!("delegate_{n}"), tool, "{}");
    let calls = (0..results.len()).map(call).collect();
    chat.append(Role::Assistant, calls);
    for (n, chars) in results.iter().enumerate() {
        let result = Part::tool_result(format!("delegate_{n}"), "x".repeat(*chars), false);
        chat.append(Role::Tool, vec![result]);
    }
}

fn masked(chat: &Chat, usable_tokens: u64, preset: Preset) -> Vec<u32> {
    let budgets = Budgets::from(usable(usable_tokens));
    match mask_delegated(&chat.view(), &budgets, &Policy::from_preset(preset)) {
        Some(plan) => {
            let Step::Mask(targets) = plan.step else {
                panic!("{:?}", plan.step)
            };
            targets.iter().map(|target| target.ordinal.0).collect()
        }
        None => Vec::new(),
    }
}

fn turn(tool: &str, end: &str) -> Chat {
    let mut chat = Chat::of("U10");
    delegated(&mut chat, tool, &[4_000, 400, 2_000]);
    chat.say(end);
    chat.pending = true;
    chat
}

#[test]
fn large_results_of_an_answered_turn_are_masked() {
    let chat = turn(DELEGATE, "A100 U10");
    assert_eq!(masked(&chat, 100_000, Preset::Checkpoint), [3, 5]);
    assert_eq!(masked(&chat, 100_000, Preset::Tiered), [3, 5]);
}

#[test]
fn other_results_and_those_without_an_answer_stay() {
    let other = turn("search", "A100 U10");
    assert_eq!(masked(&other, 100_000, Preset::Checkpoint), [0; 0]);
    let open = turn(DELEGATE, "U10");
    assert_eq!(masked(&open, 100_000, Preset::Checkpoint), [0; 0]);
    let off = turn(DELEGATE, "A100 U10");
    assert_eq!(masked(&off, 100_000, Preset::Off), [0; 0]);
}

#[test]
fn results_that_would_begin_a_compaction_are_masked_instead() {
    // Over the target of a compaction, and over its trigger.
    for results in [[260_000, 4_000, 4_000], [400_000, 4_000, 4_000]] {
        let mut chat = Chat::of("U10");
        delegated(&mut chat, DELEGATE, &results);
        chat.say("A100 U10");
        assert_eq!(masked(&chat, 100_000, Preset::Checkpoint), [3, 4, 5]);
    }
}

#[test]
fn a_context_that_is_nearly_due_is_left_to_its_compaction() {
    let mut chat = turn(DELEGATE, "A70000 U10");
    chat.pending = true;
    assert_eq!(masked(&chat, 100_000, Preset::Checkpoint), [0; 0]);
}
