//! Taking checkpoints back (C11): what can be, why not, and what happens next.

use crate::chat::{Chat, GOOD};
use unisono_context::CheckpointId;
use unisono_context::attachment::FileRules;
use unisono_context::budget::Budget;
use unisono_context::checkpoint::RevertError;
use unisono_context::compaction::Mode;
use unisono_context::policy::{Policy, Preset, Trigger};
use unisono_context::{Encoding, Ordinal, Ppm, Tokens};

const BUDGET: Budget = Budget {
    encoding: Encoding::O200kBase,
    window: Tokens(5_000),
    usable: Tokens(4_000),
    per_message: Tokens(0),
    files: FileRules::TEXTS,
};

fn policy() -> Policy {
    Policy {
        trigger: Some(Trigger::OfUsable(Ppm::percent(50))),
        ..Policy::from_preset(Preset::Checkpoint)
    }
}

fn summarise(chat: &mut Chat) -> CheckpointId {
    let mode = Mode::Manual { keep: None };
    let plain = Policy {
        masking: None,
        ..policy()
    };
    let plan = chat.plan(BUDGET, &plain, mode).unwrap().expect("a plan");
    chat.carry_out(&plan, mode, &plain, GOOD);
    let newest = chat.checkpoints.iter().last().unwrap();
    newest.id
}

fn why_not(chat: &Chat, id: CheckpointId) -> RevertError {
    chat.checkpoints
        .status(&chat.tree, chat.head(), id)
        .unwrap_err()
}

#[test]
fn reverts_go_back_one_by_one_and_say_which_comes_first() {
    let mut chat = Chat::of("U300 A200 U100");
    let start = chat.freeze().id();
    let first = summarise(&mut chat);
    chat.say("A300 U100");
    let between = chat.freeze().id();
    let second = summarise(&mut chat);
    assert_eq!(
        why_not(&chat, first),
        RevertError::Superseded { number: 1, by: 2 }
    );
    assert_eq!(
        why_not(&chat, CheckpointId::from_u128(7)),
        RevertError::Unknown
    );
    chat.revert(second);
    assert_eq!(chat.freeze().id(), between);
    assert_eq!(why_not(&chat, second), RevertError::Retired { number: 2 });
    let status = chat.checkpoints.status(&chat.tree, chat.head(), first);
    assert_eq!(status.unwrap().number, 1);
    chat.revert(first);
    chat.fork_at(3);
    assert_eq!(chat.freeze().id(), start);
}

#[test]
fn a_checkpoint_of_another_branch_is_not_reverted_here() {
    let mut chat = Chat::of("U300 A200 U100 A100 U100");
    let id = summarise(&mut chat);
    chat.fork_at(2);
    chat.say("U100");
    let cutoff = Ordinal(4);
    assert_eq!(
        why_not(&chat, id),
        RevertError::Elsewhere { number: 1, cutoff }
    );
}

#[test]
fn a_checkpoint_and_its_revert_apply_to_every_branch_that_has_its_messages() {
    let mut chat = Chat::of("U300 A200 U100 A100 U100");
    let main = chat.head();
    let before = chat.freeze().id();
    chat.fork_at(4);
    chat.say("U100");
    let side = chat.head();
    let id = summarise(&mut chat);
    chat.head = Some(main);
    assert_ne!(chat.freeze().id(), before);
    chat.head = Some(side);
    chat.revert(id);
    chat.head = Some(main);
    assert_eq!(chat.freeze().id(), before);
}

#[test]
fn what_was_masked_since_is_whole_again_and_what_was_before_stays_masked() {
    let mut chat = Chat::of("U100 A50 T1500 U100 A50 T60 A50 T60 A50 T60 U50");
    let mask = |chat: &mut Chat| {
        let mode = Mode::Manual { keep: None };
        let plan = chat.plan(BUDGET, &policy(), mode).unwrap().expect("a mask");
        assert!(!plan.step.forms().is_empty(), "{plan}");
        chat.carry_out(&plan, mode, &policy(), GOOD);
    };
    mask(&mut chat);
    let before = chat.freeze().id();
    let id = summarise(&mut chat);
    chat.say("A50 T1500 A50 T60 A50 T60 A50 T60 U50");
    let whole = chat.clone();
    mask(&mut chat);
    chat.revert(id);
    let entries = |chat: &Chat| {
        chat.freeze()
            .entries()
            .iter()
            .filter(|e| e.form().is_some())
            .count()
    };
    assert_eq!(entries(&chat), 1, "the first mask");
    let mut expected = whole;
    expected.checkpoints.retire(id);
    assert_eq!(chat.freeze().id(), expected.freeze().id());
    chat.fork_at(11);
    assert_eq!(chat.freeze().id(), before);
}

#[test]
fn a_branch_rests_after_a_revert_until_it_is_nearly_full_or_is_compacted_again() {
    let mut chat = Chat::asked("U1000 A1000 U500");
    assert!(chat.check(BUDGET, &policy()).is_some());
    let id = summarise(&mut chat);
    assert!(!chat.checkpoints.rests(&chat.tree, chat.head()));
    chat.revert(id);
    assert!(chat.checkpoints.rests(&chat.tree, chat.head()));
    let rest = |chat: &Chat| chat.plan(BUDGET, &policy(), Mode::Rest).unwrap();
    assert_eq!(rest(&chat), None);
    chat.say("A1300");
    assert_eq!(rest(&chat), None, "3,800 of 4,000");
    chat.say("U1");
    assert!(rest(&chat).is_some(), "3,801 of 4,000");
    summarise(&mut chat);
    assert!(!chat.checkpoints.rests(&chat.tree, chat.head()));
    chat.fork_at(1);
    chat.say("U10");
    assert!(
        !chat.checkpoints.rests(&chat.tree, chat.head()),
        "none of it is here"
    );
}
