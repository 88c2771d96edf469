//! Planning and freezing cost the active context, not the history.
#![allow(
    clippy::unwrap_used,
    reason = "a measurement ends where it cannot go on"
)]

use criterion::{BenchmarkId, Criterion};
use unisono_benches::{Conversation, Samples, Table, in_turns, measure, samples, time};
use unisono_context::budget::{Budget, Budgets, Limits};
use unisono_context::compaction::{self, Mode, Plan};
use unisono_context::policy::{Policy, Preset};
use unisono_context::{Encoding, Ppm, Snapshot, Timestamp, Tokens};

/// Messages beside the summary: with it, just under the target of 64,000 tokens.
const ACTIVE: u32 = 300;
/// Three tiers of a window of 200,000 tokens, each somewhat below its share.
const BULKS: u32 = 80;
const TOPICS: u32 = 180;
const CURRENT: u32 = 60;
const NOW: Timestamp = Timestamp(1_000_000_000);

fn budgets(window: u64) -> Budgets {
    let limits = Limits {
        window: Tokens(window),
        max_output: Tokens(16_000.min(window / 4)),
        encoding: Encoding::O200kBase,
        per_message: Tokens(3),
        files: Default::default(),
    };
    Budget::new(limits, Ppm::percent(5), Tokens(20)).into()
}

fn plan(
    conversation: &Conversation,
    budgets: &Budgets,
    preset: Preset,
    mode: Mode,
) -> Option<Plan> {
    let view = conversation.view();
    compaction::plan(&view, budgets, &Policy::from_preset(preset), mode, NOW).unwrap()
}

/// What T2 and T3 do when the last step has brought the context under its target.
fn plan_and_freeze(conversation: &Conversation, budgets: &Budgets) -> Snapshot {
    let next = plan(conversation, budgets, Preset::Checkpoint, Mode::Continue);
    assert_eq!(next, None, "the compaction is done");
    conversation.freeze()
}

fn main() {
    let mut criterion = samples::criterion();
    let budgets_of_turn = budgets(200_000);
    let short = Conversation::new(1_000 - ACTIVE, ACTIVE);
    let long = Conversation::new(100_000 - ACTIVE, ACTIVE);
    let (long_times, short_times) = in_turns(
        &mut criterion,
        BenchmarkId::new("plan and freeze", "100,000 and 1,000"),
        || plan_and_freeze(&long, &budgets_of_turn),
        || plan_and_freeze(&short, &budgets_of_turn),
    );
    if long_times.is_empty() {
        return;
    }
    let ratio = long_times.ratio(&short_times);
    let planned = planning(&mut criterion);

    let table = Table::new(
        "plan_freeze",
        &format!(
            "After a compaction: a summary of 2,000 tokens and {ACTIVE} messages of 200 are active."
        ),
    );
    table.note(
        "plan + freeze, 1,000 messages",
        &time(short_times.median()),
        None,
    );
    table.row(
        "plan + freeze, 100,000 messages",
        "≤ 2 ms",
        &time(long_times.median()),
        None,
        long_times.median().as_micros() <= 2_000,
    );
    table.row(
        "100,000 messages against 1,000",
        "≤ 1.5 ×",
        "",
        Some(ratio),
        ratio <= 1.5,
    );
    for (what, times) in after_one_append(&mut criterion) {
        let took = times.median();
        table.row(&what, "≤ 50 µs", &time(took), None, took.as_micros() <= 50);
    }
    for (what, times) in planned {
        table.note(&what, &time(times.median()), None);
    }
}

/// One plan where nothing was compacted yet, per preset, and a check that finds nothing due.
fn planning(criterion: &mut Criterion) -> Vec<(String, Samples)> {
    let mut rows = Vec::new();
    for (messages, shown) in [(1_000, "1,000"), (10_000, "10,000"), (100_000, "100,000")] {
        let conversation = Conversation::new(0, messages);
        for preset in Preset::ALL {
            let window = if preset == Preset::Off {
                1 << 40
            } else {
                64_000
            };
            let budgets = budgets(window);
            let id = BenchmarkId::new(format!("plan, {preset}"), messages);
            let times = measure(criterion, id, || {
                plan(&conversation, &budgets, preset, Mode::Check)
            });
            let due = plan(&conversation, &budgets, preset, Mode::Check).is_some();
            let due = if due { "plan" } else { "check, nothing due" };
            rows.push((
                format!("{due}: {preset}, {shown} uncovered messages"),
                times,
            ));
        }
    }
    rows
}

/// What a turn asks the planner where one message came since the last compaction and nothing is
/// due: the most blocks that the tiers of this window have room for, and the one of a rolling
/// summary.
fn after_one_append(criterion: &mut Criterion) -> Vec<(String, Samples)> {
    let budgets = budgets(200_000);
    let mut rows = Vec::new();
    for (messages, shown) in [(1_000, "1,000"), (10_000, "10,000"), (100_000, "100,000")] {
        for preset in [Preset::Checkpoint, Preset::Progressive, Preset::Tiered] {
            let (mut conversation, blocks) = match preset {
                Preset::Tiered => (
                    Conversation::tiered(messages, BULKS, TOPICS, CURRENT),
                    BULKS + TOPICS,
                ),
                _ => (Conversation::new(messages - ACTIVE, ACTIVE), 1),
            };
            conversation.say(400);
            let check = || plan(&conversation, &budgets, preset, Mode::Check);
            assert_eq!(check(), None, "nothing is due: {preset}");
            let id = BenchmarkId::new(format!("after one append, {preset}"), messages);
            let times = measure(criterion, id, check);
            let what =
                format!("plan after one append: {preset}, {shown} messages, {blocks} blocks");
            rows.push((what, times));
        }
    }
    rows
}
