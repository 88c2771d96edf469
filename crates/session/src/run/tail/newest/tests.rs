//! The room for the next reply and its results.

use proptest::prelude::*;

use super::*;
use crate::run::tail::{ModelCallKind, plan_tail};

fn reply(tokens: u64) -> Weight {
    Weight::Reply(Tokens(tokens))
}

#[test]
fn tools_are_usable_in_a_headroom_that_is_shorter_than_the_longest_reply() {
    let room = |tokens, is_shared| Headroom {
        tokens: Tokens(tokens),
        reply: Tokens(8_000),
        note: Tokens(36),
        is_shared,
    };
    let kind = |weights: &[Weight], room| plan_tail(weights, room).call;
    assert_eq!(kind(&[], room(7_900, true)), ModelCallKind::Normal);
    assert_eq!(
        kind(&[], room(7_900, false)),
        ModelCallKind::WrapUp,
        "older turns"
    );
    let almost_full = [reply(100), Weight::Results(vec![Tokens(5_900)])];
    assert_eq!(kind(&almost_full, room(7_900, true)), ModelCallKind::WrapUp);
    assert_eq!(kind(&[], room(500, true)), ModelCallKind::WrapUp);
}

proptest! {
    #[test]
    fn a_run_whose_results_are_cut_never_overflows(
        rounds in prop::collection::vec((0..6_000u64, prop::collection::vec(0..3_000u64, 1..40)), 1..20),
        tokens in 0..40_000u64,
        longest in 1..6_000u64,
        part in 0..=100u64,
    ) {
        let room = Headroom { is_shared: true, ..Headroom::new(Tokens(tokens), Tokens(longest), Tokens(4)) };
        let mut weights = Vec::new();
        for (said, brought) in rounds {
            match plan_tail(&weights, room).call {
                ModelCallKind::Normal => {}
                ModelCallKind::Summarise { replaced, cap } => {
                    let tokens = Tokens(cap.0 * part / 100);
                    weights.push(Weight::Summary { replaced, tokens });
                    let fits = !matches!(plan_tail(&weights, room).call, ModelCallKind::Overflow { .. });
                    prop_assert!(fits);
                    continue;
                }
                ModelCallKind::WrapUp => break,
                ModelCallKind::Overflow { needed } => prop_assert!(false, "{needed} of {tokens}"),
            }
            weights.push(reply(said.min(longest)));
            if !takes_results(&weights, brought.len(), room) {
                break;
            }
            let left = results_room(&weights, room);
            let costs: Vec<Tokens> = brought.iter().map(|size| Tokens(size + 4)).collect();
            let shown = match costs.iter().copied().sum::<Tokens>() <= left {
                true => costs,
                false => cut(&costs, results_limit(left, room)),
            };
            weights.push(Weight::Results(shown));
        }
    }
}

/// Results of this size after a cut.
fn cut(costs: &[Tokens], limit: Tokens) -> Vec<Tokens> {
    let left_out = without_share(costs, limit, Tokens(4));
    let count = left_out.iter().filter(|left_out| **left_out).count();
    let kept = costs.iter().zip(&left_out);
    let kept: Vec<Tokens> = kept
        .filter(|(_, out)| !**out)
        .map(|(cost, _)| *cost)
        .collect();
    let limit = limit.minus(left_out_tokens(count, Tokens(4)));
    let mut shares = crate::run::excerpts::shares(&kept, limit).into_iter();
    let each = left_out.iter().map(|left_out| match left_out {
        true => left_out_tokens(1, Tokens(4)),
        false => shares.next().unwrap_or_default(),
    });
    each.collect()
}
