//! One part of the context is made smaller on request, whatever the preset.

use crate::chat::{CHECKPOINT, Chat, GOOD, ordinals, usable};
use unisono_context::alteration::Form;
use unisono_context::budget::Budgets;
use unisono_context::checkpoint::{Kind, Tier};
use unisono_context::compaction::{ContextPart, Mode, Plan};
use unisono_context::{Ordinal, Tokens};

fn plan(chat: &Chat, part: ContextPart) -> Option<Plan> {
    let planned = chat.plan(usable(100_000), &CHECKPOINT, Mode::Part(part));
    planned.expect("no overflow")
}

fn topic(message: u32) -> ContextPart {
    ContextPart::Topic {
        message: Ordinal(message),
    }
}

#[test]
fn the_topic_of_a_message_is_summarised_once_and_alone() {
    let mut chat = Chat::of("U200 A200 | U300 A300 | U100 A100");
    let second = plan(&chat, topic(4)).expect("it has ended");
    assert_eq!(second.step.tier(), Tier::Topic);
    assert_eq!(ordinals(&second.step.cover().unwrap().spans), [3, 4]);
    chat.carry_out(&second, Mode::Part(topic(4)), &CHECKPOINT, GOOD);
    let made = chat.view().active()[0].clone();
    assert_eq!((made.kind, made.tier), (Kind::Manual, Tier::Topic));
    assert_eq!(chat.verbatim(), [1, 2, 5, 6]);
    assert_eq!(plan(&chat, topic(3)), None, "it is summarised");
    assert_eq!(plan(&chat, topic(6)), None, "it goes on");
    assert_eq!(plan(&chat, topic(60)), None, "nobody said that");
    let first = plan(&chat, topic(1)).expect("it has ended");
    assert_eq!(ordinals(&first.step.cover().unwrap().spans), [1, 2]);
}

#[test]
fn a_topic_that_a_person_sealed_with_the_newest_message_is_summarised_whole() {
    let mut chat = Chat::of("U200 A200 U300 A300 |");
    let whole = plan(&chat, topic(2)).expect("it has ended");
    assert_eq!(
        ordinals(&whole.step.cover().unwrap().spans),
        [1, 2, 3, 4],
        "the newest message, too"
    );
    chat.carry_out(&whole, Mode::Part(topic(2)), &CHECKPOINT, GOOD);
    assert_eq!(plan(&chat, topic(2)), None, "it is summarised");
    chat.say("U300 A300");
    assert_eq!(chat.verbatim(), [5, 6]);
    assert_eq!(plan(&chat, topic(2)), None, "it is summarised");
    // A call without a result, and what follows it, stays.
    let chat = Chat::of("U200 A200 U300 C300 |");
    let before = plan(&chat, topic(2)).expect("it has ended");
    assert_eq!(ordinals(&before.step.cover().unwrap().spans), [1, 2, 3]);
}

#[test]
fn the_middle_of_the_current_topic_is_summarised_at_any_length() {
    let chat = Chat::of("U300 A300 | U90 A90 U90 A90 U90 A90 U90 A90");
    let middle = plan(&chat, ContextPart::Attention).expect("eight messages");
    assert_eq!(middle.step.tier(), Tier::Topic);
    // ceil(0.65 × 6), from the second on.
    assert_eq!(ordinals(&middle.step.cover().unwrap().spans), [4, 5, 6, 7]);
    assert!(!middle.tightened);
    let short = Chat::of("U300 A300 | U90 A90 U90");
    assert_eq!(plan(&short, ContextPart::Attention), None);
}

#[test]
fn large_messages_are_cut_wherever_they_stand_until_none_is_left() {
    let mut chat = Chat::of("U100 A3000 | U2000 A100 U100 A501 U100 A500");
    let over = Some(Tokens(500));
    let large = Mode::Part(ContextPart::Large { over });
    let budgets = Budgets::from(usable(100_000));
    let plans = chat.compact(&budgets, &CHECKPOINT, large, GOOD).unwrap();
    let cut: Vec<Ordinal> = plans.iter().map(|plan| plan.step.forms()[0].1).collect();
    assert_eq!(cut, [Ordinal(2), Ordinal(3), Ordinal(6)], "largest first");
    let view = chat.view();
    for item in view.items() {
        let tokens = item.count(&usable(1)).tokens;
        assert!(tokens <= Tokens(500), "{}: {tokens}", item.ordinal());
        let is_cut = matches!(item.form(), Some(Form::Cut { .. }));
        assert_eq!(is_cut, cut.contains(&item.ordinal()), "{}", item.ordinal());
    }
    assert_eq!(chat.verbatim(), (1..=8).collect::<Vec<_>>());
}

#[test]
fn without_a_size_the_tiers_say_what_is_large() {
    // A quarter of a half of what starts a compaction: 80,000 here.
    let chat = Chat::of("U100 A10001 U100");
    let large = plan(&chat, ContextPart::Large { over: None }).expect("one over 10,000");
    assert_eq!(large.step.forms()[0].1, Ordinal(2));
    let chat = Chat::of("U100 A10000 U100");
    assert_eq!(plan(&chat, ContextPart::Large { over: None }), None);
}
