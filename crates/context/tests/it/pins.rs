//! Pinned messages (C8): verbatim whatever stands for them, together with what they need.

use crate::chat::{Chat, GOOD, ordinals};
use unisono_context::attachment::FileRules;
use unisono_context::budget::Budget;
use unisono_context::compaction::Mode;
use unisono_context::policy::{Policy, Preset};
use unisono_context::{Encoding, Ordinal, Tokens};

const BUDGET: Budget = Budget {
    encoding: Encoding::O200kBase,
    window: Tokens(10_000),
    usable: Tokens(8_000),
    per_message: Tokens(0),
    files: FileRules::TEXTS,
};

fn summarise(chat: &mut Chat) {
    let policy = Policy {
        masking: None,
        ..Policy::from_preset(Preset::Checkpoint)
    };
    let mode = Mode::Manual { keep: None };
    let plan = chat.plan(BUDGET, &policy, mode).unwrap().expect("a plan");
    chat.carry_out(&plan, mode, &policy, GOOD);
}

fn pin(chat: &mut Chat, ordinal: u32, pinned: bool) {
    let unit = chat.tree.unit(chat.head(), Ordinal(ordinal));
    let ids: Vec<_> = unit.iter().map(|node| node.message.id).collect();
    for id in ids {
        if pinned {
            chat.pinned.insert(id);
        } else {
            chat.pinned.remove(&id);
        }
    }
}

fn shown(chat: &Chat) -> Vec<u32> {
    let snapshot = chat.freeze();
    let entries = snapshot.entries().iter();
    entries.map(|entry| entry.message().ordinal.0).collect()
}

#[test]
fn a_covered_message_that_is_pinned_stands_verbatim_beside_the_summary_until_it_is_unpinned() {
    let mut chat = Chat::of("U300 A200 U100 A400 U50");
    summarise(&mut chat);
    let (before, id) = (chat.effective(&BUDGET), chat.freeze().id());
    assert_eq!(shown(&chat), [5]);
    pin(&mut chat, 3, true);
    assert_eq!(shown(&chat), [3, 5]);
    assert_eq!(chat.freeze().blocks().len(), 1);
    let with_it = chat.effective(&BUDGET);
    assert_eq!(with_it.tokens.0, before.tokens.0 + 100);
    assert_ne!(chat.freeze().id(), id);
    pin(&mut chat, 3, false);
    assert_eq!((chat.effective(&BUDGET), chat.freeze().id()), (before, id));
}

#[test]
fn what_a_pin_kept_out_of_a_summary_is_in_the_next_one_once_it_is_unpinned() {
    let mut chat = Chat::of("U300 A200 U100! A400 U50");
    summarise(&mut chat);
    assert_eq!(shown(&chat), [3, 5]);
    let covers = |chat: &Chat| ordinals(&chat.view().active()[0].covers);
    assert_eq!(covers(&chat), [1, 2, 4]);
    pin(&mut chat, 3, false);
    chat.say("A100 U50");
    summarise(&mut chat);
    assert_eq!(shown(&chat), [7]);
    assert_eq!(covers(&chat), [1, 2, 3, 4, 5, 6]);
}

#[test]
fn a_call_and_its_results_are_one() {
    let mut chat = Chat::of("U100 A200 T300 T300 U100 A100 U50");
    let unit = |chat: &Chat, at: u32| -> Vec<u32> {
        let unit = chat.tree.unit(chat.head(), Ordinal(at));
        unit.iter().map(|node| node.ordinal().0).collect()
    };
    for at in 2..=4 {
        assert_eq!(unit(&chat, at), [2, 3, 4]);
    }
    assert_eq!((unit(&chat, 1), unit(&chat, 6)), (vec![1], vec![6]));
    assert_eq!(unit(&chat, 99), [0; 0]);
    summarise(&mut chat);
    pin(&mut chat, 3, true);
    assert_eq!(shown(&chat), [2, 3, 4, 7]);
    let snapshot = chat.freeze();
    assert!(snapshot.entries().iter().all(|e| !e.is_detached()));
    assert!(snapshot.entries().iter().all(|e| e.unanswered().is_empty()));
}

#[test]
fn a_masked_result_that_is_pinned_is_whole_again() {
    let mut chat = Chat::of("U100 A200 T3000 U100 A100 T100 A100 T100 A100 T100 U50");
    let policy = Policy::from_preset(Preset::Checkpoint);
    let mode = Mode::Manual { keep: None };
    let plan = chat.plan(BUDGET, &policy, mode).unwrap().expect("a mask");
    let whole = chat.effective(&BUDGET);
    chat.carry_out(&plan, mode, &policy, GOOD);
    let masked = chat.effective(&BUDGET);
    assert!(masked.tokens < whole.tokens);
    pin(&mut chat, 3, true);
    assert_eq!(chat.effective(&BUDGET), whole);
    assert!(chat.freeze().entries().iter().all(|e| e.form().is_none()));
    pin(&mut chat, 3, false);
    assert_eq!(chat.effective(&BUDGET), masked);
}
