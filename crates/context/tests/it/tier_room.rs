//! The preset with tiers fills the room of older messages, and never uses more.

use crate::chat::{Chain, Chat, Fallback, Summariser, cases, usable};
use proptest::prelude::*;
use unisono_context::budget::{Budget, Budgets};
use unisono_context::compaction::{Loads, Mode};
use unisono_context::policy::{Keep, Policy, Preset, Tiers, Trigger};
use unisono_context::{Ppm, Tokens};

/// The preset with all that is usable shared out, and without masks.
const POLICY: Policy = Policy {
    trigger: Some(Trigger::OfUsable(Ppm::ONE)),
    keep: Keep::Tiers(Tiers::DEFAULT),
    masking: None,
    ..Policy::from_preset(Preset::Tiered)
};
/// Each summary has exactly the tokens that it may have.
const FULL: Chain = Chain(Summariser::Failing, Fallback::Extractive);

/// Two messages of so many tokens, and the end of their topic.
fn topic((asked, answered): (u64, u64)) -> String {
    format!("U{asked} A{answered} | ")
}

/// Compacts and returns the number of steps. Each tier is then within its limit, and older topics
/// and bulks use most of what they may have after a compaction.
fn compacted(chat: &mut Chat, budget: Budget) -> usize {
    let plans = chat
        .compact(&Budgets::from(budget), &POLICY, Mode::Check, FULL)
        .expect("fits");
    let loads = Loads::of_view(&chat.view(), &budget).expect("counted");
    let limits = loads.limits(&Tiers::DEFAULT, budget.usable);
    let used = [loads.topic, loads.topics, loads.bulks].map(|load| load.tokens);
    for (used, limit) in used.iter().zip(limits) {
        assert!(*used <= limit, "{loads:?} {limits:?}");
    }
    let topics = POLICY.target.share_of(limits[1]);
    let left = budget.usable.minus(loads.topic.tokens).minus(topics);
    let bulks = POLICY.target.share_of(left);
    let (used, given) = (used[1] + used[2], topics + bulks);
    assert!(used >= Ppm::percent(80).share_of(given), "{loads:?}");
    plans.len()
}

proptest! {
    #![proptest_config(cases(32))]

    #[test]
    fn an_import_and_ten_compactions_fill_the_room(
        tokens in 10_000u64..24_000,
        newest in 10u64..500,
        imported in prop::collection::vec((100u64..600, 100u64..600), 240..340),
        sizes in prop::collection::vec((100u64..600, 100u64..600), 1..40),
    ) {
        let budget = usable(tokens);
        let mut chat = Chat::default();
        imported.iter().for_each(|size| chat.say(&topic(*size)));
        let ask = |chat: &mut Chat| {
            chat.say(&format!("U{newest}"));
            chat.pending = true;
        };
        ask(&mut chat);
        let steps = compacted(&mut chat, budget);
        assert!(steps <= 40, "{steps} steps");
        let mut sizes = sizes.into_iter().cycle();
        for _ in 0..10 {
            while chat.check(budget, &POLICY).is_none() {
                chat.say(&topic(sizes.next().expect("endless")));
                ask(&mut chat);
            }
            let before = chat.effective(&budget).tokens;
            compacted(&mut chat, budget);
            assert!(chat.effective(&budget).tokens < before);
        }
    }
}

#[test]
fn topics_too_small_for_a_summary_take_few_steps() {
    let budget = usable(60_000);
    let mut chat = Chat::default();
    (0..5_000).for_each(|_| chat.say(&topic((20, 20))));
    chat.say("U10");
    chat.pending = true;
    let steps = compacted(&mut chat, budget);
    assert!(steps <= 60, "{steps} steps");
    assert!(chat.effective(&budget).tokens <= Tokens(60_000));
}
