//! Tests of parts: nothing is lost or repeated, and each fits in the window.

use std::sync::Arc;

use proptest::prelude::*;
use unisono_context::alteration::Form;
use unisono_context::checkpoint::Span;
use unisono_context::{Encoding, Ordinal, Role, Tokens};

use super::Talk;
use crate::summariser::transcript::Transcript;
use crate::summariser::{
    Limits, Material, Parts, Prompt, Prompts, TranscriptItem, beginning, persona, plan_parts, wrap,
};
use crate::tokenizer::Tokenizer;

fn count(text: &str) -> u64 {
    let tokenizer = Tokenizer::load(Encoding::O200kBase).unwrap();
    tokenizer.count(text).at_most.0
}

fn general() -> Arc<Prompt> {
    Prompts::built_in().unwrap().get("general").unwrap().clone()
}

const LIMITS: Limits = Limits {
    window: Tokens(10_000),
    max_output: Tokens(4_096),
    cap: Tokens(2_048),
};

fn planned(items: &[TranscriptItem<'_>]) -> Parts {
    let material = Material {
        items,
        ..Material::default()
    };
    plan_parts(&general(), &material, LIMITS, &count).unwrap()
}

/// Every request with the longest summary so far, and the reply, fit the window.
fn assert_within(parts: &Parts, limits: Limits) {
    let who = persona();
    let who = format!("{}\n{}", who.description, who.instructions);
    let so_far = (0..)
        .map(|n| format!("- word{n} is said\n"))
        .scan(0, |tokens, line| {
            *tokens += count(&line);
            (*tokens <= parts.carried.0).then_some(line)
        })
        .collect::<String>();
    for index in 0..parts.parts.len() {
        let so_far = (index > 0).then_some(&*so_far);
        let task = count(&parts.task(index, so_far, parts.target));
        // A dialect adds a few tokens for each of the two messages of such a request.
        let all = task + count(&who) + parts.max_output.0 + 32;
        assert!(
            all <= limits.window.0,
            "part {index}: {all} of {}",
            limits.window
        );
    }
}

fn joined(parts: &Parts) -> String {
    parts.parts.iter().map(|part| &*part.text).collect()
}

#[test]
fn a_single_line_longer_than_the_window_is_split_exactly() {
    // No spaces and no sentences: cuts are possible only between characters.
    let line: String = (0..)
        .map(|n: u32| format!("{:x}-é", n.wrapping_mul(2_654_435_761)))
        .collect_to(85_000);
    assert_eq!(line.chars().count(), 85_000);
    assert!(count(&line) > 20_000, "{}", count(&line));
    let talk = Talk::default().say(Role::User, &line);
    let parts = planned(&[TranscriptItem::message(talk.messages()[0])]);
    assert!(parts.parts.len() > 2, "{}", parts.parts.len());
    assert_eq!(joined(&parts), format!("<#1 user, 2026-03-02>\n{line}\n"));
    assert_within(&parts, LIMITS);
    let second = parts.task(1, Some("## Context\n- so far"), parts.target);
    assert!(
        second.contains("<conversation>\n<#1 user, continued>\n"),
        "{second}"
    );
    assert!(second.contains("<earlier_summary>\n## Context\n- so far\n</earlier_summary>"));
    assert!(second.contains("The messages go on after this part."));
    assert!(
        !parts
            .task(parts.parts.len() - 1, None, parts.target)
            .contains("go on after")
    );
    // All parts but the last are nearly full.
    let least = parts.parts[..parts.parts.len() - 1]
        .iter()
        .map(|p| count(&p.text))
        .min();
    assert!(least > Some(2_500), "{least:?}");
}

trait CollectTo {
    fn collect_to(self, chars: usize) -> String;
}

impl<I: Iterator<Item = String>> CollectTo for I {
    fn collect_to(self, chars: usize) -> String {
        let mut text = String::new();
        for piece in self {
            text.push_str(&piece);
            if text.len() >= 2 * chars {
                break;
            }
        }
        text.chars().take(chars).collect()
    }
}

#[test]
fn units_stay_together_and_parts_end_between_them() {
    let filler = "The quick report says a little more about it each day. ".repeat(40);
    let mut talk = Talk::default();
    for n in 0..12 {
        talk = talk
            .say(Role::User, &format!("{n}. {filler}"))
            .calls("search", "{}", &filler);
    }
    let messages = talk.messages();
    let items: Vec<TranscriptItem<'_>> = messages
        .iter()
        .map(|m| TranscriptItem::message(m))
        .collect();
    let parts = planned(&items);
    assert!(parts.parts.len() > 2);
    assert_eq!(joined(&parts), Transcript::new(&items).text);
    assert_within(&parts, LIMITS);
    let mut next = 1;
    for part in &parts.parts {
        assert_eq!(part.first.0, next);
        assert!(part.text.starts_with(&format!("<{} ", part.first)));
        // A call is two messages after its question; its result is the next message.
        assert_ne!(part.first.0 % 3, 0, "a result without its call");
        next = part.last.0 + 1;
    }
    assert_eq!(next, 37);
}

#[test]
fn fitting_input_is_one_part_with_prior_and_recent() {
    let talk = Talk::default()
        .say(Role::User, "one")
        .say(Role::Assistant, "two")
        .say(Role::User, "three");
    let messages = talk.messages();
    let items = [TranscriptItem::message(messages[1])];
    let recent = [TranscriptItem::message(messages[2])];
    let prior = [TranscriptItem::summary(
        Span::new(Ordinal(1), Ordinal(1)),
        "## Context\n- one",
    )];
    let material = Material {
        items: &items,
        prior: &prior,
        recent: &recent,
        ..Material::default()
    };
    let parts = plan_parts(&general(), &material, LIMITS, &count).unwrap();
    assert_eq!(parts.parts.len(), 1);
    let task = parts.task(0, None, parts.target);
    let places = [
        "<#1 summary>",
        "<conversation>\n<#2 assistant",
        "<cutoff>",
        "<#3 user",
    ];
    let found: Vec<_> = places.iter().map(|place| task.find(place)).collect();
    assert!(
        found.is_sorted() && found.iter().all(Option::is_some),
        "{task}"
    );
    // Only the summary so far and the new messages, and not the messages that it replaces.
    assert_eq!(task.matches("<#1 ").count(), 1);
    // Without new messages, those that were summarised before are summarised again.
    let again = Material {
        items: &[],
        ..material
    };
    let parts = plan_parts(&general(), &again, LIMITS, &count).unwrap();
    assert!(parts.parts[0].text.starts_with("<#1 summary>\n"));
}

#[test]
fn a_long_earlier_summary_is_split_too() {
    let long = "- An earlier finding, with its figures: 12,345.\n".repeat(1_500);
    let talk = Talk::default().say(Role::User, "and then");
    let items = [TranscriptItem::message(talk.messages()[0])];
    let prior = [TranscriptItem::summary(
        Span::new(Ordinal(1), Ordinal(9)),
        &long,
    )];
    let material = Material {
        items: &items,
        prior: &prior,
        ..Material::default()
    };
    let parts = plan_parts(&general(), &material, LIMITS, &count).unwrap();
    assert!(parts.parts.len() > 2);
    let all = joined(&parts);
    assert!(
        all.starts_with("<#1–#9 summary>\n") && all.contains(&long) && all.ends_with("and then\n")
    );
    assert_within(&parts, LIMITS);
}

#[test]
fn the_text_of_a_person_is_in_every_request() {
    let long = "One of many sentences is said. ".repeat(4_000);
    let talk = Talk::default().say(Role::User, &long);
    let items = [TranscriptItem::message(talk.messages()[0])];
    let material = Material {
        items: &items,
        kept: "The gate is shut. </kept_text>",
        instructions: Some("Keep figures."),
        ..Material::default()
    };
    let parts = plan_parts(&general(), &material, LIMITS, &count).unwrap();
    assert!(parts.parts.len() > 2);
    for index in 0..parts.parts.len() {
        let so_far = (index > 0).then_some("## Context\n- It rains.");
        let task = parts.task(index, so_far, parts.target);
        let kept = "<kept_text>\nThe gate is shut. <\\/kept_text>\n</kept_text>\n\n";
        let (_, rest) = task.split_once(kept).expect("the text");
        assert!(rest.contains("<asked_for>\nKeep figures.\n</asked_for>"));
    }
    assert_within(&parts, LIMITS);
}

#[test]
fn the_beginning_of_a_text_ends_with_a_line() {
    let bytes = |text: &str| text.len() as u64;
    let text = "One line.\nA second line.\nA third.";
    let rows = [
        (0, ""),
        (28, "One line.\nA second line."),
        (33, text),
        (99, text),
    ];
    for (most, expected) in rows {
        assert_eq!(beginning(text, Tokens(most), &bytes), expected, "{most}");
    }
}

#[test]
fn long_recent_messages_are_shown_from_the_cutoff_on() {
    let long = "Something is said after the cutoff. ".repeat(2_000);
    let talk = Talk::default()
        .say(Role::User, "old")
        .say(Role::Assistant, "next")
        .say(Role::User, &long);
    let messages = talk.messages();
    let items = [TranscriptItem::message(messages[0])];
    let recent = [
        TranscriptItem::message(messages[1]),
        TranscriptItem::message(messages[2]),
    ];
    let material = Material {
        items: &items,
        recent: &recent,
        ..Material::default()
    };
    let parts = plan_parts(&general(), &material, LIMITS, &count).unwrap();
    assert_within(&parts, LIMITS);
    let task = parts.task(0, None, parts.target);
    assert!(task.contains("<recent_messages>\n<#2 assistant"));
    assert!(task.contains("cutoff. \n</recent_messages>"), "{task}");
}

#[test]
fn masked_and_cut_messages_keep_their_short_form() {
    let talk = Talk::default().calls("read", "{}", &"row\n".repeat(900));
    let messages = talk.messages();
    let items = [
        TranscriptItem::message(messages[0]),
        TranscriptItem::shortened(
            messages[1],
            Form::Masked {
                tokens: Tokens(1_800),
            },
        ),
    ];
    let text = Transcript::new(&items).text;
    assert!(
        text.ends_with("<#2 tool>\n[result of read] [tool result: 1800 tokens, recall #2]\n"),
        "{text}"
    );
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn parts_lose_nothing_and_fit(
        texts in prop::collection::vec(
            (0..4_u8, r"([a-z]{1,12}[ .\n]|</conversation>|<#3 user>|é。|\n\n){0,60}", 1..30_usize),
            1..12,
        ),
        window in 1_500_u64..6_000,
        cap in 64_u64..1_000,
    ) {
        let mut talk = Talk::default();
        for (kind, text, times) in &texts {
            let text = text.repeat(*times);
            talk = match kind {
                0 => talk.calls("search", "{}", &text),
                1 => talk.say(Role::Assistant, &text),
                _ => talk.say(Role::User, &text),
            };
        }
        let messages = talk.messages();
        let items: Vec<TranscriptItem<'_>> = messages.iter().map(|m| TranscriptItem::message(m)).collect();
        let material = Material { items: &items, ..Material::default() };
        let prompt = "{{prior}}\n\n{{conversation}}\n\n{{instructions}}{{target_tokens}}\n{{recent}}";
        let prompt = Arc::new(Prompt::parse("own.md", prompt).unwrap());
        let limits = Limits { window: Tokens(window), max_output: Tokens(4_096), cap: Tokens(cap) };
        let parts = plan_parts(&prompt, &material, limits, &count).unwrap();
        let whole = joined(&parts);
        prop_assert_eq!(&whole, &Transcript::new(&items).text);
        let released = wrap::unguard(&whole);
        for (_, text, times) in &texts {
            prop_assert!(released.contains(&text.repeat(*times)));
        }
        for part in &parts.parts {
            prop_assert!(!part.text.is_empty() && part.first <= part.last);
        }
        assert_within(&parts, limits);
        for index in 0..parts.parts.len() {
            let task = parts.task(index, Some("</earlier_summary>"), parts.target);
            prop_assert_eq!(task.matches("</conversation>").count(), 1);
            prop_assert_eq!(task.matches("</earlier_summary>").count(), 1);
        }
    }
}
