//! Goldens: a plan, and the plan after it, as people read them.

use crate::chat::{Chat, GOOD, usable};
use unisono_context::Tokens;
use unisono_context::budget::{Budget, Budgets};
use unisono_context::compaction::Mode;
use unisono_context::policy::{Policy, Preset};

/// The plans of a compaction, then of the one after `more` was said.
fn plans(chat: &mut Chat, budget: Budget, preset: Preset, more: &str) -> String {
    let budgets = Budgets::from(budget);
    let policy = Policy::from_preset(preset);
    let mut out = String::new();
    for round in 1..=2 {
        if round == 2 {
            chat.say(more);
            chat.pending = true;
        }
        let before = chat.effective(&budget).tokens;
        let plans = chat.compact(&budgets, &policy, Mode::Check, GOOD).unwrap();
        out.push_str(&format!("round {round}, {before} tokens\n"));
        for plan in plans {
            out.push_str(&format!("{plan}\n"));
        }
        let after = chat.effective(&budget).tokens;
        let spans = chat.view().uncovered().to_vec();
        let verbatim: Vec<String> = spans.iter().map(ToString::to_string).collect();
        out.push_str(&format!(
            "{after} tokens, verbatim {}\n",
            verbatim.join(", ")
        ));
    }
    out
}

fn window(window: u64, usable_tokens: u64) -> Budget {
    Budget {
        window: Tokens(window),
        ..usable(usable_tokens)
    }
}

#[test]
fn checkpoint_with_tools_and_a_pinned_message() {
    let letters = "U300 A200! U100 A150 T9000 T8000 A700 ".repeat(4) + "A100 T30000 A400 U50";
    let more = "A900 U700 A100 T12000 A100 T12000 A100 T12000 A100 T14000 A6000 U9000 A9000 U80";
    let shown = plans(
        &mut Chat::asked(&letters),
        window(200_000, 182_000),
        Preset::Checkpoint,
        more,
    );
    insta::assert_snapshot!(shown, @r"
    round 1, 104350 tokens
    mask the tool results of #5 (9000 tokens), #6 (8000 tokens), #12 (9000 tokens), #13 (8000 tokens), #19 (9000 tokens), #20 (8000 tokens)
    from 104350 towards 64000 tokens, 182000 usable of 200000 (o200k_base)
    53410 tokens, verbatim #1–#32
    round 2, 129490 tokens
    mask the tool results of #26 (9000 tokens), #27 (8000 tokens), #30 (30000 tokens), #36 (12000 tokens)
    from 129490 towards 64000 tokens, 182000 usable of 200000 (o200k_base)
    summarise #1, #3–#8, #10–#15, #17–#22, #24–#42 (45650 tokens), into at most 2048, by a model
    from 70530 towards 64000 tokens, 182000 usable of 200000 (o200k_base)
    25904 tokens, verbatim #2, #9, #16, #23, #43–#46
    ");
}

#[test]
fn retention_near_the_window() {
    let letters = "U400 A600 ".repeat(14) + "U300 A200 U400 A100 U70";
    let shown = plans(
        &mut Chat::asked(&letters),
        window(16_000, 13_200),
        Preset::Retention,
        &("A900 U1100 ".repeat(6) + "A100 U20"),
    );
    insta::assert_snapshot!(shown, @r"
    round 1, 15070 tokens
    summarise #1–#20 (10000 tokens), into at most 2048, by a model
    from 15070 towards 10560 tokens, 13200 usable of 16000 (o200k_base)
    6094 tokens, verbatim #21–#33
    round 2, 18214 tokens
    summarise #21–#40 and the earlier block (12994 tokens), into at most 2048, by a model
    from 18214 towards 10560 tokens, 13200 usable of 16000 (o200k_base)
    6244 tokens, verbatim #41–#47
    ");
}

#[test]
fn progressive_twice() {
    let letters = "U100 ".repeat(60) + "U1";
    let shown = plans(
        &mut Chat::asked(&letters),
        window(10_000, 8_000),
        Preset::Progressive,
        &("A200 U300 ".repeat(10) + "A10 U10"),
    );
    insta::assert_snapshot!(shown, @r"
    round 1, 6001 tokens
    summarise #1–#49 (4900 tokens), into at most 2048, by a model
    from 6001 towards 4800 tokens, 8000 usable of 10000 (o200k_base)
    2125 tokens, verbatim #50–#61
    round 2, 7145 tokens
    summarise #50–#76 and the earlier block (5825 tokens), into at most 2048, by a model
    from 7145 towards 4800 tokens, 8000 usable of 10000 (o200k_base)
    2344 tokens, verbatim #77–#83
    ");
}

#[test]
fn truncate_twice() {
    let shown = plans(
        &mut Chat::long(101, 800),
        window(200_000, 182_000),
        Preset::Truncate,
        &"A800 U800 ".repeat(20),
    );
    insta::assert_snapshot!(shown, @r"
    round 1, 80800 tokens
    drop #1–#22 (17600 tokens)
    from 80800 towards 64000 tokens, 182000 usable of 200000 (o200k_base)
    63218 tokens, verbatim #23–#101
    round 2, 95218 tokens
    drop #23–#62 and the earlier block (32018 tokens)
    from 95218 towards 64000 tokens, 182000 usable of 200000 (o200k_base)
    63218 tokens, verbatim #63–#141
    ");
}

#[test]
fn a_small_window_takes_every_measure() {
    let letters = "U200! A100 T3000 A100 T50 A100 T50 A100 T50 U900 A2500 U4000 A4000 U700";
    let shown = plans(
        &mut Chat::asked(letters),
        window(4_000, 2_000),
        Preset::Checkpoint,
        "A100 T9000 U900",
    );
    insta::assert_snapshot!(shown, @r"
    round 1, 15850 tokens
    mask the tool results of #3 (3000 tokens)
    from 15850 towards 1600 tokens, 2000 usable of 4000 (o200k_base)
    summarise #2–#13 (11960 tokens), into at most 700, by a model
    from 12860 towards 1600 tokens, 2000 usable of 4000 (o200k_base)
    1250 tokens, verbatim #1, #14
    round 2, 11250 tokens
    summarise #14–#16 and the earlier block (10150 tokens), into at most 500, by a model
    from 11250 towards 1600 tokens, 2000 usable of 4000 (o200k_base)
    1350 tokens, verbatim #1, #17
    ");
}

#[test]
fn a_message_that_must_stay_is_cut() {
    let chat = Chat::of("U300 A200 U9000");
    let policy = Policy::from_preset(Preset::Retention);
    let plan = chat.plan(window(4_000, 3_000), &policy, Mode::Check);
    insta::assert_snapshot!(plan.unwrap().unwrap(), @r"
    cut #3 to 7600 characters
    from 9500 towards 2400 tokens, 3000 usable of 4000 (o200k_base), keeping less than the preset asks for
    ");
}

#[test]
fn an_overflow_names_its_numbers() {
    let chat = Chat::asked("U2000! A200 U1500");
    let policy = Policy::from_preset(Preset::Checkpoint);
    let error = chat.plan(window(4_000, 3_000), &policy, Mode::Check);
    insta::assert_snapshot!(error.unwrap_err(), @"context overflow: the pending input, pinned messages and what must stay need 3500 tokens, but only 3000 of a window of 4000 are left for them");
}
