//! Tests of the gate's decisions: which request leads, which wait and until when, and what is
//! remembered.

use proptest::prelude::*;

use super::*;

const PATIENCE: Duration = Duration::from_secs(10);
const LIFETIME: Duration = Duration::from_secs(300);

fn table() -> Table {
    Table::new(PATIENCE, 8)
}

fn key(n: u32) -> Key {
    Key {
        model: "openai/gpt-5".into(),
        prefix: Digest::of_bytes(b"prefix"),
        choice: None,
        shard: n,
    }
}

fn at(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn warming(mode: CacheWarm, peers: u32, prefix: u64, minimum: Option<u64>) -> WarmingRequest {
    WarmingRequest {
        mode,
        has_peers: peers > 1,
        prefix: Tokens(prefix),
        minimum: minimum.map(Tokens),
    }
}

/// One of several requests that share a long prefix.
fn fan_out() -> WarmingRequest {
    warming(CacheWarm::Leader, 4, 80_000, Some(1_024))
}

fn enter(table: &mut Table, n: u32, seconds: u64) -> WarmingDecision {
    table.enter(&key(n), at(seconds), &fan_out())
}

fn lead(table: &mut Table, key: &Key, now: Duration) -> Ticket {
    match table.enter(key, now, &fan_out()) {
        WarmingDecision::Lead(ticket) => ticket,
        other => panic!("{other:?}"),
    }
}

#[test]
fn only_a_request_that_can_gain_from_it_leads_or_waits() {
    let rows = [
        (warming(CacheWarm::Leader, 2, 1_024, Some(1_024)), true),
        (warming(CacheWarm::Prewarm, 2, 1_024, Some(1_024)), true),
        (warming(CacheWarm::Off, 64, 80_000, Some(1_024)), false),
        (warming(CacheWarm::Leader, 1, 80_000, Some(1_024)), false),
        (warming(CacheWarm::Leader, 0, 80_000, Some(1_024)), false),
        (warming(CacheWarm::Leader, 64, 1_023, Some(1_024)), false),
        (warming(CacheWarm::Prewarm, 64, 1_023, Some(1_024)), false),
        (warming(CacheWarm::Leader, 64, 80_000, None), false),
    ];
    for (request, gated) in rows {
        let mut cold = table();
        let leads = matches!(
            cold.enter(&key(0), at(0), &request),
            WarmingDecision::Lead(_)
        );
        assert_eq!(leads, gated, "{request:?}");
        let mut warming = table();
        lead(&mut warming, &key(0), at(0));
        let waits = matches!(
            warming.enter(&key(0), at(1), &request),
            WarmingDecision::Wait { .. }
        );
        assert_eq!(waits, gated, "{request:?}");
    }
}

#[test]
fn a_request_waits_at_most_the_patience_after_the_leaders_start() {
    let mut table = table();
    lead(&mut table, &key(0), at(100));
    let waits = WarmingDecision::Wait { until: at(110) };
    assert_eq!(enter(&mut table, 0, 100), waits);
    assert_eq!(enter(&mut table, 0, 109), waits);
    // A leader that takes too long does not delay new requests, and is not replaced.
    assert_eq!(enter(&mut table, 0, 110), WarmingDecision::Go);
    assert_eq!(enter(&mut table, 0, 500), WarmingDecision::Go);
}

#[test]
fn a_warm_prefix_stays_so_since_it_was_last_used() {
    let mut table = table();
    let ticket = lead(&mut table, &key(0), at(0));
    assert!(!table.is_warm(&key(0), at(1)));
    table.mark_warm(&key(0), at(2), LIFETIME);
    assert!(
        !table.release_leader(&key(0), ticket),
        "it had warmed its prefix"
    );
    assert!(table.is_warm(&key(0), at(301)) && !table.is_warm(&key(0), at(302)));
    assert_eq!(enter(&mut table, 0, 301), WarmingDecision::Go);
    table.mark_warm(&key(0), at(301), LIFETIME);
    assert!(table.is_warm(&key(0), at(600)));
    let again = enter(&mut table, 0, 601);
    assert!(matches!(again, WarmingDecision::Lead(_)), "{again:?}");
}

#[test]
fn a_failed_leader_leaves_its_prefix_cold() {
    let mut table = table();
    let ticket = lead(&mut table, &key(0), at(0));
    assert!(table.release_leader(&key(0), ticket));
    assert!(!table.is_warm(&key(0), at(0)));
    assert!(!table.release_leader(&key(0), ticket), "once is enough");
    lead(&mut table, &key(0), at(1));
}

#[test]
fn an_old_leader_does_not_undo_a_new_one() {
    let mut table = table();
    let old = lead(&mut table, &key(0), at(0));
    // Another request warmed the prefix, which has expired since.
    table.mark_warm(&key(0), at(20), LIFETIME);
    let new = lead(&mut table, &key(0), at(400));
    assert!(!table.release_leader(&key(0), old));
    assert_eq!(
        enter(&mut table, 0, 401),
        WarmingDecision::Wait { until: at(410) }
    );
    assert!(table.release_leader(&key(0), new));
}

#[test]
fn models_prefixes_choices_and_shards_do_not_wait_for_each_other() {
    let mut table = table();
    let first = key(0);
    let others = [
        Key {
            model: "anthropic/claude-opus-5".into(),
            ..first.clone()
        },
        Key {
            prefix: Digest::of_bytes(b"another"),
            ..first.clone()
        },
        Key {
            choice: Some(Choice::Any),
            ..first.clone()
        },
        Key {
            choice: Some(Choice::This("look".into())),
            ..first.clone()
        },
        key(1),
    ];
    lead(&mut table, &first, at(0));
    for other in &others {
        lead(&mut table, other, at(0));
    }
}

#[test]
fn the_prefix_that_was_used_longest_ago_is_forgotten_first() {
    let mut table = table();
    lead(&mut table, &key(100), at(0));
    for n in 0..20 {
        table.mark_warm(&key(n), at(u64::from(n)), LIFETIME);
    }
    assert_eq!(table.len(), 8 + 1);
    assert!(!table.is_warm(&key(11), at(20)) && table.is_warm(&key(12), at(20)));
    assert!(
        matches!(enter(&mut table, 100, 5), WarmingDecision::Wait { .. }),
        "a leader under way is not forgotten"
    );
}

#[test]
fn a_patience_without_end_does_not_overflow() {
    let mut table = Table::new(Duration::MAX, 8);
    lead(&mut table, &key(0), at(5));
    assert_eq!(
        enter(&mut table, 0, 6),
        WarmingDecision::Wait {
            until: Duration::MAX
        }
    );
}

#[derive(Clone, Debug)]
enum Step {
    Enter(u32),
    Warmed(u32),
    Left(u32),
    Pass(u64),
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let step = prop_oneof![
        (0u32..12).prop_map(Step::Enter),
        (0u32..12).prop_map(Step::Warmed),
        (0u32..12).prop_map(Step::Left),
        (0u64..400).prop_map(Step::Pass),
    ];
    proptest::collection::vec(step, 0..120)
}

proptest! {
    /// Every waiting request has a leader that is not done, and waits no longer than the patience;
    /// the table contains no more than its capacity and the current leaders.
    #[test]
    fn a_wait_always_has_an_end(steps in steps()) {
        let mut table = table();
        let mut leaders: HashMap<u32, (Ticket, Duration)> = HashMap::new();
        let mut now = Duration::ZERO;
        for step in steps {
            match step {
                Step::Pass(seconds) => now += at(seconds),
                Step::Enter(n) => match table.enter(&key(n), now, &fan_out()) {
                    WarmingDecision::Lead(ticket) => {
                        leaders.insert(n, (ticket, now));
                    }
                    WarmingDecision::Wait { until } => {
                        let (_, since) = leaders[&n];
                        prop_assert!(now < until && until <= since + PATIENCE);
                    }
                    WarmingDecision::Go => {
                        let late = leaders.get(&n).is_some_and(|(_, since)| now >= *since + PATIENCE);
                        prop_assert!(late || table.is_warm(&key(n), now));
                    }
                },
                Step::Warmed(n) => {
                    table.mark_warm(&key(n), now, LIFETIME);
                    prop_assert!(table.is_warm(&key(n), now));
                }
                Step::Left(n) => {
                    if let Some((ticket, _)) = leaders.remove(&n) {
                        let warm = table.is_warm(&key(n), now);
                        let failed = table.release_leader(&key(n), ticket);
                        prop_assert!(!(failed && warm));
                        prop_assert!(!table.release_leader(&key(n), ticket));
                    }
                }
            }
            prop_assert!(table.len() <= 8 + leaders.len());
        }
    }
}
