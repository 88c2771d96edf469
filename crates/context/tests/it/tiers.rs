//! The specification's case table, and the tables of its sources, for the preset with tiers.

use crate::chat::{Chat, GOOD, ordinals, usable};
use unisono_context::alteration::{Form, cut, with_note};
use unisono_context::budget::{Budget, Budgets};
use unisono_context::checkpoint::{Body, Checkpoint, Tier};
use unisono_context::compaction::{Loads, Mode, Plan, Step};
use unisono_context::policy::{Keep, Large, Policy, Preset, Tiers, Trigger};
use unisono_context::tokens::Count;
use unisono_context::topic::{EndedBy, TopicEnd, Topics};
use unisono_context::{Encoding, MessageId, Ordinal, Ppm, Timestamp, Tokens};

const TIERED: Policy = Policy::from_preset(Preset::Tiered);

/// The preset with all that is usable shared out, and without masks.
fn of_usable(tiers: Tiers) -> Policy {
    Policy {
        trigger: Some(Trigger::OfUsable(Ppm::ONE)),
        keep: Keep::Tiers(tiers),
        masking: None,
        ..TIERED
    }
}

/// The numbers of the older source: tails are cut, nothing is left out of the current topic.
const FRIDAY: Tiers = Tiers {
    attention: None,
    large: Large::Chars(2_000),
    ..Tiers::DEFAULT
};

fn compact(chat: &mut Chat, budget: Budget, policy: &Policy) -> Vec<Plan> {
    let budgets = Budgets::from(budget);
    chat.compact(&budgets, policy, Mode::Check, GOOD)
        .expect("fits")
}

fn shown(plans: &[Plan]) -> String {
    let steps: Vec<String> = plans.iter().map(|plan| plan.step.to_string()).collect();
    steps.join("\n")
}

#[test]
fn budgets_of_tiers() {
    for (amount, shares) in [
        (84_000, [42_000, 25_200, 16_800]),
        (1_000, [500, 300, 200]),
        (7, [3, 2, 1]),
    ] {
        assert_eq!(Tiers::DEFAULT.shares(Tokens(amount)), shares.map(Tokens));
    }
    let budget = |window, usable| Budget {
        encoding: Encoding::O200kBase,
        window: Tokens(window),
        usable: Tokens(usable),
        per_message: Tokens::ZERO,
        files: Default::default(),
    };
    for (window, usable, amount) in [
        (120_000, 100_000, 84_000),
        (120_000, 80_000, 80_000),
        (10, 9, 7),
    ] {
        let amount_of = TIERED.trigger_amount(&budget(window, usable));
        assert_eq!(amount_of, Some(Tokens(amount)));
    }
}

#[test]
fn bulks_have_what_the_other_tiers_leave() {
    for (topic, topics, bulks) in [
        (0, 0, 1_000),
        (100, 300, 600),
        (500, 300, 200),
        (700, 400, 200),
    ] {
        let count = Count::exact;
        let loads = Loads {
            topic: count(topic),
            topics: count(topics),
            bulks: count(0),
        };
        let limits = loads.limits(&Tiers::DEFAULT, Tokens(1_000));
        assert_eq!(limits, [500, 300, bulks].map(Tokens));
    }
}

#[test]
fn a_tier_starts_above_its_share() {
    // Current topic, older topics and bulks may have 500, 300 and 200.
    for (letters, due) in [
        ("U100 A100 U100 A100 U100", false),
        ("U100 A100 U100 A100 U101", true),
        ("U150 A150 | U50", false),
        ("U150 A151 | U50", true),
    ] {
        let chat = Chat::asked(letters);
        let plan = chat.check(usable(1_000), &of_usable(Tiers::DEFAULT));
        assert_eq!(plan.is_some(), due, "{letters}: {plan:?}");
    }
}

#[test]
fn attention_keeps_the_first_and_the_last() {
    for (n, left, gone) in [
        (3, 3, vec![]),
        (4, 3, vec![2, 3]),
        (6, 4, vec![2, 3, 4]),
        (8, 5, vec![2, 3, 4, 5]),
        (12, 6, vec![2, 3, 4, 5, 6, 7, 8]),
    ] {
        let mut chat = Chat::long(n, 240 / n as u64 * 10);
        // All of them together are just over half of 4,000.
        let tiers = Tiers {
            large: Large::OfTopic(Ppm::ONE),
            ..Tiers::DEFAULT
        };
        let plan = chat.check(usable(4_000), &of_usable(tiers));
        let Some(plan) = plan else {
            assert_eq!((left, gone), (n, vec![]), "{n} messages");
            continue;
        };
        assert_eq!(ordinals(&plan.step.cover().unwrap().fresh), gone);
        assert_eq!(plan.step.tier(), Tier::Topic);
        chat.carry_out(&plan, Mode::Check, &TIERED, GOOD);
        let elements = chat.verbatim().len() + chat.view().active().len();
        assert_eq!(elements, left, "{n} messages");
    }
}

#[test]
fn attention_again_takes_what_it_summarised_along() {
    let mut chat = Chat::long(12, 200);
    let policy = of_usable(Tiers::DEFAULT);
    compact(&mut chat, usable(4_000), &policy);
    chat.say("A400 U400 A400 U400");
    chat.pending = true;
    let plans = compact(&mut chat, usable(4_000), &policy);
    insta::assert_snapshot!(shown(&plans), @"summarise #9–#13 and the earlier block (1300 tokens), as a topic, into at most 200, by a model");
}

#[test]
fn attention_takes_whole_units() {
    let chat = Chat::asked("U300 A100 T300 T300 U300 A300 U300 A300 U100");
    let plan = chat
        .check(usable(4_000), &of_usable(Tiers::DEFAULT))
        .unwrap();
    // Of seven between the first and the last five are to leave.
    assert_eq!(ordinals(&plan.step.cover().unwrap().fresh), [2, 3, 4, 5, 6]);
    let chat = Chat::asked("U300 A100 T300 T300 T300 T300 T300 U100");
    let plan = chat
        .check(usable(3_000), &of_usable(Tiers::DEFAULT))
        .unwrap();
    assert_eq!(
        ordinals(&plan.step.cover().unwrap().fresh),
        [2, 3, 4, 5, 6, 7]
    );
}

#[test]
fn cuts_have_exactly_their_length() {
    for (chars, target, expected) in [
        (1_000, 40, Some(("[...971...]", 15, 14))),
        (1_000, 41, Some(("[...970...]", 15, 15))),
        (1_000, 20, Some(("[...991...]", 5, 4))),
        (1_000, 10, None),
        (1_000, 12, None),
        (1_000, 13, Some(("[...998...]", 1, 1))),
        (30, 20, Some(("[...20...]", 5, 5))),
    ] {
        let text: String = (0..chars)
            .map(|i| if i % 2 == 0 { 'é' } else { '日' })
            .collect();
        let short = cut(&text, target);
        assert_eq!(short.chars().count(), target, "{chars} to {target}");
        match expected {
            Some((marker, head, tail)) => {
                let (before, after) = short.split_once(marker).expect(&short);
                assert_eq!(
                    (before.chars().count(), after.chars().count()),
                    (head, tail)
                );
                assert!(text.starts_with(before) && text.ends_with(after));
            }
            None => assert!(text.starts_with(&short), "plain"),
        }
    }
}

#[test]
fn heads_have_exactly_their_length() {
    let text = "é日".repeat(1_500);
    let short = with_note(&text, 2_000);
    assert_eq!(short.chars().count(), 2_000);
    assert!(short.ends_with("日é[truncated]") || short.ends_with("é日[truncated]"));
    assert!(text.starts_with(short.trim_end_matches("[truncated]")));
    assert_eq!(with_note("short", 2_000), "short");
    assert_eq!(with_note("0123456789ab", 11), "0123456789a");
    assert_eq!(with_note("0123456789abc", 12), "0[truncated]");
}

#[test]
fn the_largest_message_is_cut_to_its_part_of_the_share() {
    // The current topic may have 2,000, a message of it 500.
    let mut chat = Chat::asked("U100 A700 U600 A501 U500 A400");
    let tiers = Tiers {
        attention: None,
        ..Tiers::DEFAULT
    };
    let plans = compact(&mut chat, usable(4_000), &of_usable(tiers));
    insta::assert_snapshot!(shown(&plans), @r"
    cut #2 to 2000 characters
    cut #3 to 2000 characters
    cut #4 to 2000 characters
    ");
    let view = chat.view();
    let items = view.items();
    let chars = |at: usize| {
        items[at].node.message.parts[0]
            .countable_text()
            .chars()
            .count()
    };
    assert_eq!(chars(1), 2_800);
    assert_eq!(
        items[1].form(),
        Some(Form::Cut {
            target_chars: 2_000
        })
    );
    assert_eq!(items[1].count(&usable(1)).tokens, Tokens(500));
}

#[test]
fn many_large_messages_are_summarised_before_others_are_cut() {
    // The current topic may have 4,000, a message of it 1,000.
    let mut chat = Chat::long(101, 1_500);
    let budget = usable(8_000);
    let plans = compact(&mut chat, budget, &of_usable(Tiers::DEFAULT));
    let is_summary = |plan: &Plan| matches!(plan.step, Step::Summarise { .. });
    assert!(is_summary(&plans[0]), "{}", plans[0]);
    assert!(plans.len() <= 32, "{} steps", plans.len());
    assert!(chat.effective(&budget).at_most <= budget.usable);
}

#[test]
fn pinned_messages_and_the_input_are_not_cut() {
    let chat = Chat::asked("U100 A900! U1200");
    assert_eq!(chat.check(usable(4_000), &of_usable(Tiers::DEFAULT)), None);
}

#[test]
fn the_older_source_cuts_the_tails_of_all_long_messages() {
    let mut chat = Chat::asked("U100 A501 U500 A900 T600 U900");
    let plans = compact(&mut chat, usable(4_000), &of_usable(FRIDAY));
    insta::assert_snapshot!(shown(&plans), @"cut the tails of #2, #4, #5 to 2000 characters");
    let chars = |at: usize| {
        let item = chat.view().items()[at];
        let frozen = chat.freeze();
        let part = &frozen.entries()[at].parts()[0];
        (item.form().is_some(), part.countable_text().chars().count())
    };
    assert_eq!(chars(1), (true, 2_000));
    assert_eq!(chars(2), (false, 2_000));
    assert_eq!(chars(5), (false, 3_600), "the input is never cut");
}

/// As many topics of two messages of so many tokens each, and an input.
fn topics(n: usize, tokens: u64) -> Chat {
    let mut chat = Chat::of(&format!("U{tokens} A{tokens} | ").repeat(n));
    chat.say("U10");
    chat.pending = true;
    chat
}

#[test]
fn older_topics_are_summarised_oldest_first_until_their_share_is_kept() {
    // Older topics may have 3,000, and 2,400 are left where there were more.
    let mut chat = topics(8, 200);
    let plans = compact(&mut chat, usable(10_000), &of_usable(Tiers::DEFAULT));
    insta::assert_snapshot!(shown(&plans), @r"
    summarise #1–#2 (400 tokens), as a topic, into at most 200, by a model
    summarise #3–#4 (400 tokens), as a topic, into at most 200, by a model
    summarise #5–#6 (400 tokens), as a topic, into at most 200, by a model
    ");
    let loads = Loads::of_view(&chat.view(), &usable(10_000)).unwrap();
    assert!(loads.topics.tokens <= Tokens(2_400), "{loads:?}");
    let all: Vec<u32> = (1..=17).collect();
    assert_eq!(covered_or_verbatim(&chat), all);
}

#[test]
fn six_summaries_make_a_bulk_of_the_three_oldest_and_fewer_only_in_need() {
    let tiers = Tiers {
        topics: Ppm::percent(6),
        bulks: Ppm::percent(44),
        ..Tiers::DEFAULT
    };
    let mut chat = topics(6, 200);
    let plans = compact(&mut chat, usable(10_000), &of_usable(tiers));
    insta::assert_snapshot!(shown(&plans), @r"
    summarise #1–#2 (400 tokens), as a topic, into at most 200, by a model
    summarise #3–#4 (400 tokens), as a topic, into at most 200, by a model
    summarise #5–#6 (400 tokens), as a topic, into at most 200, by a model
    summarise #7–#8 (400 tokens), as a topic, into at most 200, by a model
    summarise #9–#10 (400 tokens), as a topic, into at most 200, by a model
    summarise #11–#12 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    ");
    let mut chat = topics(4, 200);
    let plans = compact(&mut chat, usable(6_000), &of_usable(tiers));
    insta::assert_snapshot!(shown(&plans), @r"
    summarise #1–#2 (400 tokens), as a topic, into at most 200, by a model
    summarise #3–#4 (400 tokens), as a topic, into at most 200, by a model
    summarise #5–#6 (400 tokens), as a topic, into at most 200, by a model
    summarise #7–#8 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    ");
}

#[test]
fn bulks_merge_by_three_and_the_oldest_leaves_last() {
    let tiers = Tiers {
        topic: Ppm::percent(4),
        topics: Ppm::percent(42),
        bulks: Ppm::percent(54),
        ..Tiers::DEFAULT
    };
    let mut chat = Chat::default();
    let mut seen = Vec::new();
    for _ in 0..12 {
        chat.say(&"U200 A200 | ".repeat(3));
        chat.say("U10");
        chat.pending = true;
        let plans = compact(&mut chat, usable(700), &of_usable(tiers));
        seen.push(shown(&plans));
        let all: Vec<u32> = (1..=chat.view().len().0).collect();
        assert_eq!(covered_or_verbatim(&chat), all);
    }
    insta::assert_snapshot!(seen.join("\n--\n"), @r"
    summarise #1–#2 (400 tokens), as a topic, into at most 200, by a model
    summarise #3–#4 (400 tokens), as a topic, into at most 200, by a model
    summarise #5–#6 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    --
    summarise #7–#9 (410 tokens), as a topic, into at most 200, by a model
    summarise #10–#11 (400 tokens), as a topic, into at most 200, by a model
    summarise #12–#13 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    --
    summarise #14–#16 (410 tokens), as a topic, into at most 200, by a model
    summarise #17–#18 (400 tokens), as a topic, into at most 200, by a model
    summarise #19–#20 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    --
    summarise #21–#23 (410 tokens), as a topic, into at most 200, by a model
    summarise #24–#25 (400 tokens), as a topic, into at most 200, by a model
    summarise #26–#27 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    --
    summarise #28–#30 (410 tokens), as a topic, into at most 200, by a model
    summarise #31–#32 (400 tokens), as a topic, into at most 200, by a model
    summarise #33–#34 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    --
    summarise #35–#37 (410 tokens), as a topic, into at most 200, by a model
    summarise #38–#39 (400 tokens), as a topic, into at most 200, by a model
    summarise #40–#41 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    --
    summarise #42–#44 (410 tokens), as a topic, into at most 200, by a model
    summarise #45–#46 (400 tokens), as a topic, into at most 200, by a model
    summarise #47–#48 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    --
    summarise #49–#51 (410 tokens), as a topic, into at most 200, by a model
    summarise #52–#53 (400 tokens), as a topic, into at most 200, by a model
    summarise #54–#55 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    summarise 3 earlier blocks (225 tokens), as a bulk, into at most 112, by a model
    --
    summarise #56–#58 (410 tokens), as a topic, into at most 200, by a model
    summarise #59–#60 (400 tokens), as a topic, into at most 200, by a model
    summarise #61–#62 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    --
    summarise #63–#65 (410 tokens), as a topic, into at most 200, by a model
    summarise #66–#67 (400 tokens), as a topic, into at most 200, by a model
    summarise #68–#69 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    summarise 3 earlier blocks (206 tokens), as a bulk, into at most 103, by a model
    --
    summarise #70–#72 (410 tokens), as a topic, into at most 200, by a model
    summarise #73–#74 (400 tokens), as a topic, into at most 200, by a model
    summarise #75–#76 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    --
    summarise #77–#79 (410 tokens), as a topic, into at most 200, by a model
    summarise #80–#81 (400 tokens), as a topic, into at most 200, by a model
    summarise #82–#83 (400 tokens), as a topic, into at most 200, by a model
    summarise 3 earlier blocks (300 tokens), as a bulk, into at most 150, by a model
    summarise 3 earlier blocks (202 tokens), as a bulk, into at most 101, by a model
    ");
}

#[test]
fn dropped_messages_come_back_after_a_revert() {
    let mut chat = topics(60, 5);
    let plans = compact(&mut chat, usable(140), &of_usable(Tiers::DEFAULT));
    assert!(matches!(plans.last().unwrap().step, Step::Drop { .. }));
    let dropped = chat.view().active()[0].clone();
    assert_eq!(dropped.body, Body::Tombstone);
    let rewritten = chat.checkpoints.rewritten_by(&dropped);
    assert!(rewritten.is_none(), "a note is no other text of a bulk");
    let note = chat.freeze().blocks()[0].checkpoint().context_text();
    assert!(note.contains("were dropped from the context"), "{note}");
    chat.checkpoints.retire(dropped.id);
    let view = chat.view();
    let back = dropped.supersedes.iter().map(|id| {
        let block = view.active().iter().find(|c| c.id == *id);
        block.expect("active again").body.clone()
    });
    let back: Vec<Body> = back.collect();
    assert!(back.iter().any(|body| matches!(body, Body::Summary(_))));
    let all: Vec<u32> = (1..=view.len().0).collect();
    assert_eq!(covered_or_verbatim(&chat), all);
}

#[test]
fn a_sealed_topic_is_verbatim_or_summarised() {
    let policy = of_usable(Tiers::DEFAULT);
    let mut chat = Chat::long(12, 200);
    compact(&mut chat, usable(4_000), &policy);
    let attention: Vec<u32> = chat.verbatim();
    assert!(attention.contains(&1) && attention.contains(&12) && attention.len() < 12);
    // As soon as it ends, the rest of it follows, whatever the tiers have.
    chat.say("| U10 A10");
    let plans = compact(&mut chat, usable(4_000), &policy);
    insta::assert_snapshot!(shown(&plans), @"summarise #1, #9–#12 and the earlier block (1100 tokens), as a topic, into at most 200, by a model");
    assert_eq!(chat.verbatim(), [13, 14]);
}

#[test]
fn pinned_messages_of_a_summarised_topic_stay() {
    let mut chat = Chat::asked("U200 A200! U200 A200! | U10");
    let plans = compact(&mut chat, usable(2_000), &of_usable(Tiers::DEFAULT));
    insta::assert_snapshot!(shown(&plans), @"summarise #1, #3 (400 tokens), as a topic, into at most 200, by a model");
    assert_eq!(chat.verbatim(), [2, 4, 5]);
    assert_eq!(chat.check(usable(2_000), &of_usable(Tiers::DEFAULT)), None);
}

#[test]
fn topics_too_small_for_a_summary_are_merged() {
    let mut chat = topics(12, 15);
    let plans = compact(&mut chat, usable(1_000), &of_usable(Tiers::DEFAULT));
    insta::assert_snapshot!(shown(&plans), @"summarise #1–#8 (120 tokens), as a bulk, into at most 60, by a model");
    // Many of them become large bulks, as far as there is room.
    let mut chat = topics(60, 5);
    let plans = compact(&mut chat, usable(200), &of_usable(Tiers::DEFAULT));
    insta::assert_snapshot!(shown(&plans), @r"
    summarise #1–#24 (120 tokens), as a bulk, into at most 60, by a model
    summarise #25–#42 (90 tokens), as a bulk, into at most 45, by a model
    summarise #43–#56 (70 tokens), as a bulk, into at most 35, by a model
    summarise #57–#102 (230 tokens), as a bulk, into at most 113, by a model
    summarise #103–#116 (70 tokens), as a bulk, into at most 35, by a model
    summarise 3 earlier blocks (71 tokens), as a bulk, into at most 35, by a model
    ");
}

#[test]
fn a_backlog_takes_few_steps() {
    let mut chat = topics(1_000, 200);
    let plans = compact(&mut chat, usable(100_000), &of_usable(Tiers::DEFAULT));
    assert!(plans.len() <= 40, "{} steps", plans.len());
    let all: Vec<u32> = (1..=2_001).collect();
    assert_eq!(covered_or_verbatim(&chat), all);
}

#[test]
fn what_a_topic_says_of_a_branch_ends_at_the_fork() {
    let mut chat = Chat::of("U100 A100 U100 A100");
    let mut topics = Topics::default();
    let third = TopicEnd {
        opener: Ordinal(3),
        by: EndedBy::Phrase,
    };
    topics.decided(&chat.tree, chat.head(), &[third], Some(Timestamp(7)));
    let tip = chat.head();
    let second = chat.tree.node_at(tip, Ordinal(2)).unwrap().message.id;
    assert_eq!(topics.start(&chat.tree, tip), Ordinal(3));
    assert_eq!(topics.start(&chat.tree, second), Ordinal(1));
    chat.fork_at(2);
    chat.say("U7 A7");
    let other = chat.head();
    assert_eq!(topics.start(&chat.tree, other), Ordinal(1));
    topics.decided(&chat.tree, other, &[], None);
    assert_eq!(topics.start(&chat.tree, other), Ordinal(1));
    topics.seal(other, Some(Timestamp(9)));
    assert_eq!(topics.current(&chat.tree, other), Ordinal(5));
    assert_eq!(topics.current(&chat.tree, tip), Ordinal(3));
    let spans = |head: MessageId| {
        let of_branch = topics.of_branch(&chat.tree, head).into_iter();
        let each = of_branch.map(|topic| {
            let ended = topic.ended_by.zip(topic.sealed_at.map(|at| at.0));
            (topic.span.first.0, topic.span.last.0, ended)
        });
        each.collect::<Vec<_>>()
    };
    let phrase = Some((EndedBy::Phrase, 7));
    assert_eq!(spans(tip), [(1, 2, phrase), (3, 4, None)]);
    assert_eq!(spans(other), [(1, 4, Some((EndedBy::Person, 9)))]);
}

#[test]
fn a_fork_behind_a_summary_uses_it_and_one_inside_does_not() {
    let mut chat = Chat::asked("U200 A200 U200 A200 | U100 A100 | U10");
    compact(&mut chat, usable(2_000), &of_usable(Tiers::DEFAULT));
    let summarised: Vec<u32> = chat.view().active().iter().map(|c| c.cutoff.0).collect();
    assert_eq!(summarised, [4]);
    let whole = chat.clone();
    chat.fork_at(5);
    chat.say("A10");
    assert_eq!(chat.verbatim(), [5, 6]);
    let mut chat = whole;
    chat.fork_at(3);
    chat.say("A10");
    assert_eq!(chat.verbatim(), [1, 2, 3, 4]);
}

#[test]
fn another_presets_summary_counts_as_a_bulk() {
    let mut chat = Chat::asked("U2000 A2000 U2000 A2000 U10");
    let checkpoint = Policy {
        trigger: Some(Trigger::Tokens(Tokens(1_000))),
        ..Policy::from_preset(Preset::Checkpoint)
    };
    compact(&mut chat, usable(20_000), &checkpoint);
    let old = chat.view().active()[0].clone();
    assert_eq!(old.tier, Tier::Conversation);
    let loads = Loads::of_view(&chat.view(), &usable(20_000)).unwrap();
    assert!(loads.bulks.tokens > Tokens::ZERO);
    // Where it is too large for a bulk it becomes one.
    let plans = compact(&mut chat, usable(400), &of_usable(Tiers::DEFAULT));
    insta::assert_snapshot!(shown(&plans), @"summarise the earlier block (395 tokens), as a bulk, into at most 197, by a model");
    let active: Vec<Tier> = chat.view().active().iter().map(|c| c.tier).collect();
    assert_eq!(active, [Tier::Bulk]);
}

/// Each message once, verbatim or covered.
fn covered_or_verbatim(chat: &Chat) -> Vec<u32> {
    let view = chat.view();
    let covered = view
        .active()
        .iter()
        .flat_map(|c: &std::sync::Arc<Checkpoint>| ordinals(&c.covers));
    let mut all: Vec<u32> = covered.chain(chat.verbatim()).collect();
    all.sort_unstable();
    all
}
