//! Budgets hold, whatever runs do and whenever they are killed.

use std::sync::Arc;

use proptest::prelude::*;
use unisono_context::call::Usage;
use unisono_context::cost::Cost;
use unisono_context::{Digest, RunId, SessionId, Timestamp, Tokens, TurnId};

use super::broker::DaemonBudget;
use super::*;

const TURN: TurnId = TurnId::from_u128(1);

fn run(n: u128) -> RunId {
    RunId::from_u128(n)
}

fn agent() -> Digest {
    Digest::of_bytes(b"agent")
}

fn tokens(most: u64) -> Caps {
    Caps {
        tokens: Some(Tokens(most)),
        ..Caps::NONE
    }
}

fn amount(tokens: u64) -> Amount {
    Amount {
        tokens: Tokens(tokens),
        cost: Cost::ZERO,
    }
}

fn daemon(most: u64, period_hours: Option<u32>) -> DaemonBudget {
    DaemonBudget {
        caps: tokens(most),
        period_hours,
    }
}

fn dollars(micros: u64) -> Caps {
    Caps {
        cost: Some(Cost::from_micro_dollars(micros)),
        ..Caps::NONE
    }
}

fn ask(call: u32, tokens: u64, last: Option<u64>) -> ReservationRequest {
    let cost = |tokens| Some(Cost::from_micro_dollars(tokens));
    ReservationRequest {
        call,
        model: "fake/model".into(),
        tokens: Tokens(tokens),
        cost: cost(tokens),
        last: last.map(|last| (Tokens(last), cost(last))),
        short: None,
    }
}

fn used(tokens: u64) -> Usage {
    Usage {
        cost: Some(Cost::from_micro_dollars(tokens)),
        ..Usage::free(Tokens(tokens), Tokens::ZERO)
    }
}

/// A tree of one turn with these limits and this number of runs.
fn tree(caps: TurnCaps, runs: u128) -> Tree {
    let mut tree = Tree::default();
    tree.accept(TURN, caps);
    (1..=runs).for_each(|n| tree.open(TURN, run(n), agent()));
    tree
}

fn of_turn(turn: Caps) -> TurnCaps {
    TurnCaps {
        turn,
        ..TurnCaps::default()
    }
}

/// Requests a reservation and makes it if it is granted; returns a short text. A request that would
/// wait while no call is in progress is refused.
fn reserve(tree: &mut Tree, of: u128, ask: &ReservationRequest) -> String {
    let mut ask = ask.clone();
    let verdict = loop {
        match tree.afford(run(of), &ask) {
            Verdict::Waits(short) if tree.turn(TURN).unwrap().open == Amount::ZERO => {
                if ask.short.replace(describe_shortage(&short)).is_some() {
                    break Verdict::Refused(short.to_string().into());
                }
            }
            verdict => break verdict,
        }
    };
    match verdict {
        Verdict::Granted(reservation) => {
            tree.reserve(run(of), &reservation);
            match reservation.wrap_up {
                None => "granted".to_owned(),
                Some(why) => format!("last: {why}"),
            }
        }
        Verdict::Waits(short) => format!("waits for the {}", short.level.name()),
        Verdict::Refused(why) => why.to_string(),
    }
}

#[test]
fn a_call_is_granted_waits_or_is_the_last() {
    let mut tree = tree(of_turn(tokens(100)), 3);
    assert_eq!(reserve(&mut tree, 1, &ask(1, 40, Some(20))), "granted");
    assert_eq!(
        reserve(&mut tree, 2, &ask(1, 40, Some(20))),
        "waits for the turn",
        "60 of 100 are reserved"
    );
    tree.charge_reply(run(1), &used(30));
    assert_eq!(tree.turn(TURN).unwrap().in_use().tokens, Tokens(50));
    assert_eq!(reserve(&mut tree, 2, &ask(1, 30, Some(20))), "granted");
    tree.charge_reply(run(2), &used(30));
    assert_eq!(
        reserve(&mut tree, 1, &ask(2, 20, Some(10))),
        "last: budget_exceeded: the turn's budget of 100 tokens has 20 left, and the next call \
         may take 30",
        "its own was kept for it"
    );
    assert_eq!(
        reserve(&mut tree, 3, &ask(1, 10, Some(10))),
        "waits for the turn"
    );
    tree.end(run(1), RunEnd::Finished(&used(50)));
    assert_eq!(
        reserve(&mut tree, 3, &ask(1, 10, Some(10))),
        "the turn's budget of 100 tokens has 0 left, and the next call may take 10"
    );
    assert_eq!(
        reserve(&mut tree, 2, &ask(2, 20, Some(10))),
        "last: budget_exceeded: the turn's budget of 100 tokens has 20 left, and the next call \
         may take 30"
    );
    tree.end(run(2), RunEnd::Finished(&used(45)));
    let left = *tree.turn(TURN).unwrap();
    assert_eq!(
        (left.spent.tokens, left.open, left.kept),
        (Tokens(95), Amount::ZERO, Amount::ZERO)
    );
}

#[test]
fn every_level_counts_and_the_tightest_is_named() {
    let caps = TurnCaps {
        session: tokens(1_000),
        turn: tokens(500),
        run: tokens(300),
        agents: vec![(agent(), tokens(100))],
        limit_ms: None,
    };
    let mut tree = tree(caps, 2);
    let verdict = reserve(&mut tree, 1, &ask(1, 101, None));
    assert_eq!(
        verdict,
        "the run's budget of 100 tokens has 100 left, and the next call may \
         take 101"
    );
    assert_eq!(reserve(&mut tree, 1, &ask(1, 100, None)), "granted");
    tree.end(run(1), RunEnd::Finished(&used(90)));
    tree.end_turn(TURN, 5);
    let next = TurnId::from_u128(2);
    tree.accept(
        next,
        TurnCaps {
            session: tokens(150),
            ..TurnCaps::default()
        },
    );
    tree.open(next, run(9), agent());
    assert_eq!(
        reserve(&mut tree, 9, &ask(1, 61, None)),
        "the session's budget of 150 tokens has 60 left, and the next call may \
         take 61"
    );
}

#[test]
fn a_limit_of_the_session_that_changes_applies_to_the_next_call() {
    let short = "the session's budget of 40 tokens has 40 left, and the next call may take 50";
    let less = short.replace("has 40", "has 10");
    // The new limit, and the decisions while a call of 60 is under way and after it has used 30.
    for (limit, before, after) in [
        (Caps::NONE, "granted", "granted"),
        (tokens(200), "granted", "granted"),
        (tokens(100), "waits for the session", "granted"),
        (tokens(40), short, less.as_str()),
    ] {
        let session = |session| TurnCaps {
            session,
            ..TurnCaps::default()
        };
        let mut tree = tree(session(tokens(100)), 2);
        assert_eq!(reserve(&mut tree, 1, &ask(1, 60, None)), "granted");
        tree.accept(TurnId::from_u128(2), session(limit));
        let mut first = tree.clone();
        assert_eq!(reserve(&mut first, 2, &ask(1, 50, None)), before);
        tree.charge_reply(run(1), &used(30));
        assert_eq!(reserve(&mut tree, 2, &ask(1, 50, None)), after);
        for n in 1..=2 {
            tree.end(run(n), RunEnd::Failed);
        }
        let account = tree.session();
        assert_eq!((account.open, account.kept), (Amount::ZERO, Amount::ZERO));
    }
}

#[test]
fn a_cap_of_the_cost_refuses_a_model_without_a_price() {
    let unpriced = ReservationRequest {
        cost: None,
        ..ask(1, 10, None)
    };
    let mut capped = tree(of_turn(dollars(1_000)), 1);
    assert_eq!(
        reserve(&mut capped, 1, &unpriced),
        "the price of model fake/model is not known, and the turn's budget caps \
         the cost; give it a price in models.toml, or take the cap away"
    );
    let mut by_tokens = tree(of_turn(tokens(1_000)), 1);
    assert_eq!(reserve(&mut by_tokens, 1, &unpriced), "granted");
}

#[test]
fn the_end_of_a_call_determines_its_charge() {
    let spent = |end: &dyn Fn(&mut Tree)| {
        let mut tree = tree(of_turn(tokens(1_000)), 1);
        assert_eq!(reserve(&mut tree, 1, &ask(1, 100, Some(50))), "granted");
        end(&mut tree);
        let account = *tree.turn(TURN).unwrap();
        assert_eq!(account.open, Amount::ZERO);
        account.spent.tokens.0
    };
    type EndOf<'e> = (&'e str, &'e dyn Fn(&mut Tree), u64);
    let table: [EndOf<'_>; 11] = rows! {
        ("a reply that is a step", &|t| t.charge_reply(run(1), &used(7)), 7),
        ("one with unknown usage", &|t| t.charge_reply(run(1), &used(0)), 100),
        ("the run's answer", &|t| t.end(run(1), RunEnd::Finished(&used(9))), 9),
        ("the run's answer with unknown usage",
         &|t| t.end(run(1), RunEnd::Finished(&used(0))), 100),
        ("not sent", &|t| t.settle(run(1), 1, Amount::ZERO, true), 0),
        ("an attempt that was lost", &|t| t.lose_attempt(run(1)), 100),
        ("a run that failed in it", &|t| t.end(run(1), RunEnd::Failed), 100),
        ("cancelled", &|t| t.end(run(1), RunEnd::Cancelled), 100),
        ("cancelled, with a reply that came late",
         &|t| { t.end(run(1), RunEnd::Cancelled); t.charge_late(run(1), &used(30), false); }, 30),
        ("cancelled, with a late reply of unknown usage",
         &|t| { t.end(run(1), RunEnd::Cancelled); t.charge_late(run(1), &used(0), false); }, 100),
        (
            "cancelled, with an answer that came late",
            &|t| {
                t.charge_reply(run(1), &used(20));
                assert_eq!(reserve(t, 1, &ask(2, 100, None)), "granted");
                t.end(run(1), RunEnd::Cancelled);
                t.charge_late(run(1), &used(55), true);
            },
            55,
        ),
    };
    for (what, end, expected) in table {
        assert_eq!(spent(end), expected, "{what}");
    }
}

#[test]
fn a_repeated_request_is_reserved_once() {
    let mut tree = tree(of_turn(tokens(100)), 1);
    assert_eq!(reserve(&mut tree, 1, &ask(1, 80, Some(20))), "granted");
    let before = tree.clone();
    assert_eq!(reserve(&mut tree, 1, &ask(1, 80, Some(20))), "granted");
    assert_eq!(tree, before);
}

#[test]
fn tighter_caps_win() {
    let both = tokens(5).and(dollars(7)).and(tokens(9));
    assert_eq!((both.tokens, both.cost), (Some(Tokens(5)), dollars(7).cost));
    assert_eq!(Caps::NONE.and(Caps::NONE), Caps::NONE);
}

/// The usage of a session without reservations.
fn session_use(spent: Amount) -> broker::SessionUse {
    broker::SessionUse {
        spent,
        in_use: spent,
    }
}

/// A small generator (SplitMix64 by Steele and others), so that a stress test is reproduced by its
/// seed.
struct Rng(u64);

impl Rng {
    fn below(&mut self, n: u64) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        (z ^ (z >> 31)) % n
    }
}

/// The progress of a run in the stress test.
#[derive(Clone, Debug)]
struct Working {
    run: u128,
    /// Calls that it will still make.
    left: u32,
    call: u32,
    /// Set during a call: its usage, and whether it is the last call.
    under_way: Option<(u64, bool)>,
    reported: u64,
}

/// A thousand runs on one budget, in random order, with kills in between. Returns the spent part of
/// the cap, in thousandths.
fn stress(seed: u64, runs: u128, cap: u64, calls: u64) -> u64 {
    let worst = cap / 10 / 2;
    let mut rng = Rng(seed);
    let mut tree = tree(of_turn(tokens(cap).and(dollars(cap))), runs);
    let mut working: Vec<Working> = (1..=runs)
        .map(|run| Working {
            run,
            left: 1 + rng.below(calls) as u32,
            call: 1,
            under_way: None,
            reported: 0,
        })
        .collect();
    let mut steps = 0;
    while !working.is_empty() {
        steps += 1;
        assert!(steps < 400_000, "they wait for each other: {tree:?}");
        let at = rng.below(working.len() as u64) as usize;
        let Working { run: id, .. } = working[at];
        let done = match (working[at].under_way, rng.below(100)) {
            // The process is killed: calls under way count as their worst case.
            (Some(_), 0) => {
                for (of, call) in tree.under_way() {
                    tree.settle(of, call.call, call.amount, false);
                }
                working.iter_mut().for_each(|of| of.under_way = None);
                false
            }
            (Some(_), 1) => {
                tree.end(run(id), RunEnd::Cancelled);
                true
            }
            (Some(_), 2) => {
                tree.lose_attempt(run(id));
                working[at].under_way = None;
                false
            }
            (Some((use_of, last)), _) => {
                working[at].reported += use_of;
                working[at].left -= 1;
                working[at].call += 1;
                working[at].under_way = None;
                let over = last || working[at].left == 0;
                match over {
                    true => tree.end(run(id), RunEnd::Finished(&used(working[at].reported))),
                    false => tree.charge_reply(run(id), &used(use_of)),
                }
                over
            }
            (None, _) => {
                let most = 1 + rng.below(worst);
                let last = (working[at].left > 1).then_some(most);
                match reserve(&mut tree, id, &ask(working[at].call, most, last)).as_str() {
                    "granted" => {
                        working[at].under_way = Some((rng.below(most) + 1, last.is_none()))
                    }
                    verdict if verdict.starts_with("last") => {
                        working[at].under_way = Some((rng.below(most) + 1, true));
                    }
                    verdict if verdict.starts_with("waits") => {}
                    _ => {
                        tree.end(run(id), RunEnd::Failed);
                        working.swap_remove(at);
                        continue;
                    }
                }
                false
            }
        };
        if done {
            working.swap_remove(at);
        }
        let account = tree.turn(TURN).unwrap();
        assert!(account.in_use().tokens.0 <= cap, "overshoot: {account:?}");
        assert!(account.in_use().cost <= Cost::from_micro_dollars(cap));
    }
    let account = tree.turn(TURN).unwrap();
    assert_eq!((account.open, account.kept), (Amount::ZERO, Amount::ZERO));
    account.spent.tokens.0 * 1_000 / cap
}

#[test]
fn a_thousand_runs_with_kills_exhaust_a_budget_and_never_exceed_it() {
    for seed in 0..24 {
        let spent = stress(seed, 1_000, 100_000 + seed * 10_007, 6);
        assert!(spent >= 900, "seed {seed}: only {spent} ‰ were used");
    }
}

proptest! {
    #[test]
    fn no_schedule_exceeds_a_budget_or_leaves_a_reservation(
        seed: u64, runs in 1u128..40, cap in 100u64..1_000_000, calls in 1u64..8,
    ) {
        stress(seed, runs, cap, calls);
    }

    /// Sessions that take on and give back, each of them killed at times: together they never
    /// hold more than the daemon may use, and the journal gives the same budget broker again.
    #[test]
    fn grants_never_exceed_the_daemon_budget(
        steps in prop::collection::vec((0u128..6, 0u64..400, 0u8..11), 1..200),
        cap in 500u64..5_000,
        owner_cap in 300u64..3_000,
        hours in prop::option::of(1u32..3),
    ) {
        let rules = daemon(cap, hours);
        let named = [("2".into(), tokens(owner_cap / 2))].into();
        let owners = OwnerBudgets { each: tokens(owner_cap), named };
        // A third of the sessions is nobody's.
        let owner_of = |of: u128| (!of.is_multiple_of(3)).then(|| owners.owner_budget(&(of % 3).to_string()));
        let mut journal: Vec<Grant> = Vec::new();
        let mut broker = Broker::default();
        let mut in_use = [0u64; 6];
        let mut now = Timestamp(0);
        for (of, more, what) in steps {
            let (session, at) = (SessionId::from_u128(of), of as usize);
            match what {
                0 => now = now.plus_ms(1_800_000),
                1..=6 => {
                    let used = amount(in_use[at]);
                    if let Ok(grant) = broker.raise(&rules, (session, owner_of(of)), (session_use(used), amount(more)), now) {
                        prop_assert!((used + amount(more)).is_within(grant.ceiling));
                        broker.apply(&grant);
                        journal.push(grant);
                        in_use[at] += more;
                    }
                }
                // A deletion. Another session may have the id after it.
                7 => if let Some(grant) = broker.close(&rules, session, now) {
                    broker.apply(&grant);
                    journal.push(grant);
                    in_use[at] = grant.ceiling.tokens.0;
                }
                // A kill: what was granted and is not used comes back.
                _ => if let Some(grant) = broker.lower(&rules, session, session_use(amount(in_use[at])), now) {
                    broker.apply(&grant);
                    journal.push(grant);
                }
            }
            prop_assert!(broker.granted().tokens.0 <= cap, "{broker:?}");
            for (owner, cap) in [("1", owner_cap), ("2", owner_cap / 2)] {
                let leased = broker.leased_by(owners.owner_budget(owner).owner);
                prop_assert!(leased.tokens.0 <= cap, "{owner}: {broker:?}");
            }
            prop_assert_eq!(&Broker::from_grants(&journal), &broker);
        }
    }
}

#[test]
fn small_requests_get_larger_grants_and_a_shortage_is_reported() {
    let rules = daemon(10_000, Some(24));
    let (a, b) = (SessionId::from_u128(1), SessionId::from_u128(2));
    let (day, hour) = (86_400_000, 3_600_000);
    let mut broker = Broker::default();
    let raise = |broker: &mut Broker, of, used, needed, now| {
        let raised = broker.raise(
            &rules,
            (of, None),
            (session_use(amount(used)), amount(needed)),
            Timestamp(now),
        );
        raised.map(|grant| {
            broker.apply(&grant);
            grant.ceiling.tokens.0
        })
    };
    // The usage of a session before its first request does not count for this budget.
    assert_eq!(raise(&mut broker, a, 70_000, 100, hour), Ok(70_150));
    assert_eq!(raise(&mut broker, b, 0, 9_000, hour), Ok(9_000));
    let short = raise(&mut broker, b, 9_000, 900, hour).unwrap_err();
    assert_eq!(
        short.to_string(),
        "the daemon's budget of 10000 tokens has 850 left, and the next call may take 900"
    );
    // On the next day the usage begins at zero, but grants remain.
    assert_eq!(raise(&mut broker, b, 9_000, 900, day + hour), Ok(10_350));
    assert_eq!(broker.holders().collect::<Vec<_>>(), [a, b]);
    let back = broker.lower(
        &rules,
        a,
        session_use(amount(70_100)),
        Timestamp(day + hour),
    );
    broker.apply(&back.unwrap());
    assert_eq!(
        broker.lower(&rules, a, session_use(amount(70_100)), Timestamp(day)),
        None
    );
    assert_eq!(broker.holders().collect::<Vec<_>>(), [b]);
    let _: Arc<str> = describe_shortage(&short);

    // A session that is deleted has spent what it held, and the day after that is forgotten.
    let leased = broker.granted();
    let closed = broker.close(&rules, b, Timestamp(day + hour)).unwrap();
    broker.apply(&closed);
    assert_eq!(broker.granted(), leased);
    assert_eq!(broker.holders().count(), 0);
    assert_eq!(broker.close(&rules, b, Timestamp(day + hour)), None);
    assert_eq!(raise(&mut broker, a, 70_100, 10_000, 2 * day), Ok(80_100));
    assert_eq!(broker.grant(b), None);
}

#[test]
fn a_budget_is_renewed_after_its_period_was_made_longer() {
    let amount = |tokens| Amount {
        tokens: Tokens(tokens),
        cost: Cost::ZERO,
    };
    let raise = |broker: &Broker, period_hours, used, hour: i64| {
        let rules = DaemonBudget {
            caps: tokens(100),
            period_hours: Some(period_hours),
        };
        let session = (SessionId::from_u128(1), None);
        let amounts = (session_use(amount(used)), amount(100));
        broker.raise(&rules, session, amounts, Timestamp(hour * 3_600_000))
    };
    let mut broker = Broker::default();
    broker.apply(&raise(&broker, 1, 0, 50).unwrap());
    raise(&broker, 24, 100, 51).unwrap_err();
    raise(&broker, 24, 100, 72).unwrap();
}

#[test]
fn a_shortage_ends_at_most_with_what_other_sessions_have_not_spent() {
    let rules = daemon(10_000, None);
    let (a, b) = (SessionId::from_u128(1), SessionId::from_u128(2));
    let of_a = Some(OwnerBudgets::default().owner_budget("ada"));
    let raise = |broker: &Broker, of, needed| {
        let amounts = (session_use(Amount::ZERO), amount(needed));
        broker.raise(&rules, of, amounts, Timestamp(0))
    };
    let mut broker = Broker::default();
    let grant = raise(&broker, (a, of_a), 6_000).unwrap();
    broker.apply(&grant);
    for (spent, in_use, unspent, may_end) in [
        (0, 6_000, 6_000, true),
        (1_000, 6_000, 5_000, true),
        (5_500, 6_000, 500, false),
        (6_000, 6_000, 0, false),
    ] {
        let session_use = broker::SessionUse {
            spent: amount(spent),
            in_use: amount(in_use),
        };
        let lowered = broker.lower(&rules, a, session_use, Timestamp(0));
        lowered.iter().for_each(|grant| broker.apply(grant));
        let short = raise(&broker, (b, None), 5_000).unwrap_err();
        assert_eq!(broker.unspent(b, None), amount(unspent));
        assert_eq!(short.would_end_with(broker.unspent(b, None)), may_end);
        // Its own grant is not another's, and nobody else is of that owner.
        assert_eq!(broker.unspent(a, None), Amount::ZERO);
        let (ada, bob) = (of_a.map(|of| of.owner), Digest::of_bytes(b"bob"));
        assert_eq!(broker.unspent(b, ada), amount(unspent));
        assert_eq!(broker.unspent(b, Some(bob)), Amount::ZERO);
    }
}

#[test]
fn an_owner_has_a_budget_of_its_own_between_the_daemon_and_its_sessions() {
    let rules = daemon(10_000, None);
    let named = [("bob".into(), tokens(2_000))].into();
    let each = tokens(1_000);
    let owners = OwnerBudgets { each, named };
    let mut broker = Broker::default();
    let mut raise = |session, owner: Option<&str>, used, needed| {
        let of = (
            SessionId::from_u128(session),
            owner.map(|of| owners.owner_budget(of)),
        );
        let amounts = (session_use(amount(used)), amount(needed));
        let raised = broker.raise(&rules, of, amounts, Timestamp(0));
        raised.map(|grant| {
            broker.apply(&grant);
            grant.ceiling.tokens.0
        })
    };
    assert_eq!(raise(1, Some("ada"), 0, 900), Ok(900));
    let short = raise(2, Some("ada"), 0, 200).unwrap_err();
    assert_eq!(short.level, Level::Owner);
    assert_eq!(
        short.to_string(),
        "the owner's budget of 1000 tokens has 100 left, and the next call may take 200"
    );
    // Another owner, and sessions of nobody, have their own.
    assert_eq!(raise(3, Some("bob"), 0, 1_900), Ok(1_900));
    assert_eq!(raise(4, None, 0, 5_000), Ok(5_000));
    // The daemon's bounds them all.
    let short = raise(5, Some("cleo"), 9_000, 2_300).unwrap_err();
    assert_eq!(short.level, Level::Daemon);
    assert!(OwnerBudgets::default().is_none() && !owners.is_none());
}
