//! What holds for every conversation, policy and summariser: coverage (C2), progress (C3),
//! fitting (C5), whole units (C6), the active set (C10).

#![allow(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    reason = "tests fail by panicking"
)]

#[path = "support/chat.rs"]
mod chat;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use chat::{Chain, Chat, Fallback, Summariser, call, ordinals, preamble, result, text};
use proptest::prelude::*;
use unisono_context::budget::{Budget, Budgets};
use unisono_context::checkpoint::{Body, Checkpoint, Tier};
use unisono_context::compaction::{Error, Loads, Mode, Plan};
use unisono_context::policy::{Keep, Large, Masking, Method, Policy, Preset, Tiers, Trigger};
use unisono_context::tokens::Count;
use unisono_context::{Encoding, Ordinal, Part, Ppm, Role, Snapshot, Tokens};

/// One message to come.
#[derive(Clone, Copy, Debug)]
enum Say {
    User(u64),
    Assistant(u64),
    Calls(u64, usize),
    /// A result where some call is open, else an assistant message.
    Result(u64),
}

/// Something that happens in a session.
#[derive(Clone, Debug)]
enum Event {
    Say(Say, bool),
    /// An input comes, and the context is made ready for it.
    Turn(u64, Chain),
    /// A person asks for a compaction.
    Manual(Option<Keep>, Chain),
    /// The topic ends.
    Seal,
    /// Back to an earlier message, by its share of the branch in thousandths.
    Fork(u32),
    /// A person takes the newest active summary back.
    Retire,
    /// A person pins a message, by its share of the branch in thousandths, or not any more.
    Pin(u32, bool),
}

fn tokens() -> impl Strategy<Value = u64> {
    prop_oneof![8 => 5u64..200, 2 => 200u64..3_000, 1 => 3_000u64..12_000]
}

fn say() -> impl Strategy<Value = Say> {
    prop_oneof![
        3 => tokens().prop_map(Say::User),
        3 => tokens().prop_map(Say::Assistant),
        2 => (tokens(), 1usize..4).prop_map(|(n, calls)| Say::Calls(n, calls)),
        4 => tokens().prop_map(Say::Result),
    ]
}

fn chain() -> impl Strategy<Value = Chain> {
    let first = prop_oneof![
        4 => Just(Summariser::Good),
        1 => Just(Summariser::Growing),
        1 => Just(Summariser::NeverShrinking),
        1 => Just(Summariser::Empty),
        1 => Just(Summariser::Failing),
        1 => Just(Summariser::Refusing),
        1 => Just(Summariser::CutOff),
        1 => Just(Summariser::Shapeless),
    ];
    let last = prop_oneof![Just(Fallback::Extractive), Just(Fallback::Truncation)];
    (first, last).prop_map(|(first, last)| Chain(first, last))
}

fn keep() -> impl Strategy<Value = Keep> {
    let amount = (0u64..2_000, 0u32..6);
    prop_oneof![
        (1u32..20).prop_map(Keep::Messages),
        amount.prop_map(|(amount, align)| Keep::Tokens {
            amount: Tokens(amount),
            align,
        }),
        (1u32..90).prop_map(|percent| Keep::ShareOfHistory(Ppm::percent(percent))),
        Just(Keep::UpToTarget),
    ]
}

fn event() -> impl Strategy<Value = Event> {
    prop_oneof![
        20 => (say(), prop::bool::weighted(0.05)).prop_map(|(say, pin)| Event::Say(say, pin)),
        4 => (5u64..300, chain()).prop_map(|(n, chain)| Event::Turn(n, chain)),
        1 => (prop::option::of(keep()), chain()).prop_map(|(k, c)| Event::Manual(k, c)),
        1 => (0u32..1_000).prop_map(Event::Fork),
        1 => Just(Event::Retire),
        2 => (0u32..1_000, prop::bool::weighted(0.6)).prop_map(|(at, on)| Event::Pin(at, on)),
        3 => Just(Event::Seal),
    ]
}

prop_compose! {
    fn tiers()(
        (topic, topics) in (20u32..70, 10u32..30),
        (topic_cap, bulk_cap) in (32u64..300, 32u64..400),
        (topics_keep, merge) in (0u32..4, 2u32..4),
        attention in prop::option::of(20u32..100),
        large in prop_oneof![
            (5u32..60).prop_map(|percent| Large::OfTopic(Ppm::percent(percent))),
            (20u32..3_000).prop_map(Large::Chars),
        ],
    ) -> Tiers {
        Tiers {
            topic: Ppm::percent(topic),
            topics: Ppm::percent(topics),
            bulks: Ppm::percent(100 - topic - topics),
            topic_cap: Tokens(topic_cap),
            bulk_cap: Tokens(bulk_cap),
            topics_keep,
            merge,
            attention: attention.map(Ppm::percent),
            large,
            ..Tiers::DEFAULT
        }
    }
}

/// Policies of every preset, half of them tiered.
fn policies() -> impl Strategy<Value = Policy> {
    let tiered = (policy(), tiers()).prop_map(|(policy, tiers)| Policy {
        preset: Preset::Tiered,
        trigger: policy.trigger.or(Some(Trigger::OfUsable(Ppm::percent(70)))),
        keep: Keep::Tiers(tiers),
        ..policy
    });
    prop_oneof![policy(), tiered]
}

prop_compose! {
    fn policy()(
        preset in prop::sample::select(&Preset::ALL[..]),
        keep in keep(),
        own_keep in any::<bool>(),
        trigger in 20u32..100,
        target in 40u32..90,
        cap in 64u64..2_048,
        over in 0u64..1_000,
        keep_newest in 0u32..4,
    ) -> Policy {
        let base = Policy::of(preset);
        Policy {
            trigger: base.trigger.map(|_| Trigger::OfUsable(Ppm::percent(trigger))),
            target: Ppm::percent(target),
            keep: if own_keep { base.keep } else { keep },
            method: match base.method {
                Method::Summarise { .. } => Method::Summarise { cap: Tokens(cap) },
                Method::Drop => Method::Drop,
            },
            masking: base.masking.map(|_| Masking { over: Tokens(over), keep_newest }),
            ..base
        }
    }
}

prop_compose! {
    fn budgets()(
        usable in 200u64..20_000,
        per_message in 0u64..6,
        second in prop::option::of(200u64..20_000),
    ) -> Budgets {
        let budget = |usable: u64, encoding| Budget {
            encoding,
            window: Tokens(usable * 5 / 4),
            usable: Tokens(usable),
            per_message: Tokens(per_message),
        };
        let lead = budget(usable, Encoding::O200kBase);
        Budgets::new(lead, second.map(|usable| budget(usable, Encoding::Cl100kBase)))
    }
}

impl Chat {
    fn hear(&mut self, say: Say, pin: bool) {
        let seed = self.tree.len();
        let open = self
            .head
            .and_then(|head| self.tree.first_open_call(head, Ordinal::FIRST));
        let id = match say {
            Say::User(n) => self.append(Role::User, vec![text(seed, n * 4)]),
            Say::Result(n) if open.is_some() => self.append(Role::Tool, vec![result(n * 4)]),
            Say::Assistant(n) | Say::Result(n) => {
                self.append(Role::Assistant, vec![text(seed, n * 4)])
            }
            Say::Calls(n, calls) => {
                let mut parts = vec![text(seed, n * 4)];
                parts.extend((0..calls).map(call));
                self.append(Role::Assistant, parts)
            }
        };
        if pin {
            self.pinned.insert(id);
        }
    }

    fn pin(&mut self, share: u32, pinned: bool) {
        let at = Ordinal((self.view().len().0 * share / 1_000).max(1));
        let unit = self.tree.unit(self.head(), at);
        let unit: Vec<_> = unit.into_iter().map(|node| node.message.id).collect();
        for id in unit {
            if pinned {
                self.pinned.insert(id);
            } else {
                self.pinned.remove(&id);
            }
        }
    }
}

/// What a branch must keep under a budget: pinned units and the pending input, and dropped
/// ranges' notes; by estimate and at its bound. Computed message by message.
fn must_stay(chat: &Chat, budget: &Budget) -> (u64, u64) {
    let view = chat.view();
    let items = view.items();
    let shown = |at: u32| items.iter().any(|item| item.ordinal().0 == at);
    // Each message is tied to all from the oldest call it answers on.
    let mut group: Vec<u32> = (0..=view.len().0).collect();
    for item in &items {
        let own = item.ordinal().0;
        let first = item.node.unit_start.0;
        if shown(first) {
            for at in first..=own {
                group[at as usize] = group[first as usize].min(group[at as usize]);
            }
        }
    }
    let stuck: Vec<u32> = items
        .iter()
        .filter(|item| view.is_pinned(item.ordinal()) || Some(item.ordinal()) == view.pending())
        .map(|item| group[item.ordinal().0 as usize])
        .collect();
    let own = budget.per_message.0;
    let mut stay = (0, 0);
    for item in &items {
        if stuck.contains(&group[item.ordinal().0 as usize]) {
            let count = item.count(budget.encoding);
            stay.0 += count.tokens.0 + own;
            stay.1 += count.at_most.0 + own;
        }
    }
    for note in view.active().iter().filter(|c| c.body == Body::Tombstone) {
        let count = note.counts.get(budget.encoding).unwrap();
        stay.0 += count.tokens.0 + own;
        stay.1 += count.at_most.0 + own;
    }
    stay
}

/// C6, C5, C8: no step takes part of a unit, the pending input or a pinned message.
fn check_step(chat: &Chat, plan: &Plan) {
    let view = chat.view();
    let fresh = plan.step.cover().map_or(Vec::new(), |c| ordinals(&c.fresh));
    let shortened: Vec<u32> = plan.step.forms().iter().map(|f| f.1.0).collect();
    let items = view.items();
    for item in &items {
        let own = item.ordinal();
        let touched = fresh.contains(&own.0) || shortened.contains(&own.0);
        assert!(!(touched && Some(own) == view.pending()), "pending: {plan}");
        assert!(!(touched && view.is_pinned(own)), "pinned {own}: {plan}");
        let first = item.node.unit_start;
        if items.iter().any(|other| other.ordinal() == first) {
            let whole = items
                .iter()
                .filter(|other| first <= other.ordinal() && other.ordinal() <= own)
                .all(|other| fresh.contains(&other.ordinal().0) == fresh.contains(&own.0));
            assert!(whole, "unit {first}–{own} is split: {plan}");
        }
    }
    let uncovered = ordinals(view.uncovered());
    assert!(fresh.iter().all(|at| uncovered.contains(at)), "{plan}");
    if view.pending().is_none() {
        check_open_turn(chat, plan, &fresh, &shortened);
    }
}

/// C6: in the open turn an unanswered call and all after it stay verbatim.
fn check_open_turn(chat: &Chat, plan: &Plan, fresh: &[u32], shortened: &[u32]) {
    let (head, len) = (chat.head(), chat.view().len());
    let path = chat.tree.range(head, Ordinal::FIRST..=len);
    let turn = path
        .iter()
        .rposition(|node| node.message.role == Role::User);
    let open = path[turn.unwrap_or(0)..]
        .iter()
        .map(|node| node.message.ordinal)
        .find(|at| !chat.tree.open_calls_at(head, *at).is_empty());
    // Where something after it was summarised, on another branch or before it was pinned, it
    // opens nothing any more.
    let view = chat.view();
    let nothing_later = |at: &Ordinal| view.active().iter().all(|c| c.cutoff < *at);
    if let Some(open) = open.filter(nothing_later) {
        for at in open.0..=len.0 {
            assert!(
                !fresh.contains(&at) && !shortened.contains(&at),
                "{open}: {plan}"
            );
        }
    }
}

/// C2 and C10 after whatever happened; and S2: a snapshot is rebuilt from its manifest.
fn check_branch(chat: &Chat) {
    let view = chat.view();
    let snapshot = chat.freeze();
    let mut seen: Vec<u32> = snapshot
        .entries()
        .iter()
        .map(|entry| entry.message().ordinal.0)
        .collect();
    for block in snapshot.blocks() {
        let covers = ordinals(&block.checkpoint().covers).into_iter();
        seen.extend(covers.filter(|at| !view.is_pinned(Ordinal(*at))));
    }
    seen.sort_unstable();
    let all: Vec<u32> = (1..=view.len().0).collect();
    assert_eq!(seen, all, "each message once");
    let active: Vec<_> = view.active().iter().map(|c| c.id).collect();
    let expected: Vec<_> = active_by_definition(chat).iter().map(|c| c.id).collect();
    assert_eq!(active, expected);
    for item in view.items() {
        if view.is_pinned(item.ordinal()) || Some(item.ordinal()) == view.pending() {
            assert_eq!(item.form(), None);
        }
    }
    for id in &chat.pinned {
        let ordinal = chat.tree.get(*id).unwrap().message.ordinal;
        let on_branch = chat.tree.at(chat.head(), ordinal);
        if on_branch.is_some_and(|node| node.message.id == *id) {
            let shown = snapshot.entries().iter().find(|e| e.message().id == *id);
            assert_eq!(shown.map(|entry| entry.form()), Some(None), "verbatim");
        }
    }
    let rebuilt = Snapshot::rebuild(
        snapshot.manifest(),
        snapshot.id(),
        &chat.tree,
        &chat.checkpoints,
        preamble(),
    );
    assert_eq!(rebuilt.unwrap().id(), snapshot.id());
}

/// The active set as C10 words it.
fn active_by_definition(chat: &Chat) -> Vec<Arc<Checkpoint>> {
    let applies = |c: &&Arc<Checkpoint>| {
        let digest = chat.tree.path_digest(chat.head(), c.cutoff);
        digest == Some(c.cutoff_digest) && !chat.checkpoints.is_retired(c.id)
    };
    let applying: Vec<_> = chat.checkpoints.iter().filter(applies).cloned().collect();
    let mut left: Vec<_> = applying
        .iter()
        .filter(|c| {
            !applying
                .iter()
                .any(|other| other.supersedes.contains(&c.id))
        })
        .cloned()
        .collect();
    left.sort_by_key(|c| std::cmp::Reverse((c.cutoff, c.number)));
    let mut active: Vec<Arc<Checkpoint>> = Vec::new();
    for checkpoint in left {
        let covers = ordinals(&checkpoint.covers);
        let taken = active.iter().flat_map(|c| ordinals(&c.covers));
        if !taken.into_iter().any(|at| covers.contains(&at)) {
            active.push(checkpoint);
        }
    }
    active.sort_by_key(|c| c.covers[0]);
    active
}

/// B5: effective tokens are those of the blocks and messages one by one, and the snapshot's.
fn check_effective(chat: &Chat, budgets: &Budgets) {
    let view = chat.view();
    for budget in budgets.iter() {
        let blocks = view
            .active()
            .iter()
            .map(|c| c.counts.get(budget.encoding).unwrap());
        let messages = view
            .items()
            .into_iter()
            .map(|item| item.count(budget.encoding));
        let counts: Vec<Count> = blocks.chain(messages).collect();
        let sum: Count = counts.iter().copied().sum();
        assert_eq!(chat.freeze().counts().get(budget.encoding), Some(sum));
        let overhead = budget.per_message.0 * counts.len() as u64;
        assert_eq!(chat.effective(budget), sum + Count::exact(overhead));
    }
}

/// C5 and C3 after a compaction that ended without an error.
fn check_result(chat: &Chat, budgets: &Budgets, policy: &Policy, mode: Mode) {
    let automatic = mode == Mode::Check;
    if let Some(tiers) = policy.tiers().filter(|_| automatic) {
        let due = budgets
            .iter()
            .all(|budget| check_tiers(chat, budget, policy, tiers));
        let again = chat.plan(budgets.clone(), policy, Mode::Check);
        assert_eq!(again, Ok(None), "triggers again at once, in time {due}");
        return;
    }
    let mut reached = true;
    for budget in budgets.iter() {
        let effective = chat.effective(budget);
        assert!(
            effective.at_most <= budget.usable,
            "{effective:?} {budget:?}"
        );
        let target = policy.target_amount(budget);
        if effective.tokens > target {
            reached = false;
        }
    }
    if reached && automatic {
        let again = chat.plan(budgets.clone(), policy, Mode::Check);
        assert_eq!(again, Ok(None), "triggers again at once");
    }
}

/// C3: no tier is over its share where its last measure could still be taken, and the loads add
/// up to what is effective. Whether all are within.
fn check_tiers(chat: &Chat, budget: &Budget, policy: &Policy, tiers: &Tiers) -> bool {
    let view = chat.view();
    let loads = Loads::of(&view, budget).unwrap();
    let effective = chat.effective(budget);
    assert_eq!(loads.topic + loads.topics + loads.bulks, effective);
    let shares = tiers.shares(policy.trigger_amount(budget).unwrap());
    let within = [loads.topic, loads.topics, loads.bulks]
        .into_iter()
        .zip(shares)
        .map(|(load, share)| load.tokens <= share);
    let within: Vec<bool> = within.collect();
    let summaries = view.active().iter().filter(|c| c.tier != Tier::Topic);
    let mut large = summaries.filter(|c| {
        let tokens = c.counts.get(budget.encoding).unwrap().tokens;
        matches!(c.body, Body::Summary(_)) && tokens.0 > 32
    });
    assert!(within[2] || large.next().is_none(), "{loads:?} {shares:?}");
    within.iter().all(|within| *within)
}

/// C3: the target is reached wherever what must stay and the smallest summary leave room. Only
/// asked of a compaction that began: below its trigger a context may be over its target.
fn check_target(chat: &Chat, budgets: &Budgets, policy: &Policy) {
    if policy.tiers().is_some() {
        return; // each tier has its own, and is checked in any case
    }
    for budget in budgets.iter() {
        let target = policy.target_amount(budget).0;
        let (tokens, at_most) = must_stay(chat, budget);
        let block = match policy.method {
            Method::Summarise { cap } => (cap.0 / 4).min(target / 8).max(32).min(cap.0) + 2,
            Method::Drop => 34,
        } + budget.per_message.0;
        if tokens + block <= target && at_most + block <= budget.usable.0 {
            let effective = chat.effective(budget).tokens.0;
            assert!(
                effective <= target,
                "{effective} over {target}, {tokens} must stay"
            );
        }
    }
}

/// C5: what can be made to fit is made to fit, and an overflow says the numbers.
fn check_overflow(chat: &Chat, budgets: &Budgets, policy: &Policy, error: &Error) {
    let Error::Overflow { needed, usable, .. } = error else {
        panic!("{error}");
    };
    assert!(needed > usable, "{error}");
    if policy.preset == Preset::Off || chat.view().pending().is_none() {
        return;
    }
    let fits = |budget: &Budget| {
        // Room for the pinned units, the pending input and one note of all the rest.
        let (_, at_most) = must_stay(chat, budget);
        at_most + 32 + budget.per_message.0 <= budget.usable.0
    };
    assert!(!budgets.iter().all(fits), "could fit: {error}");
}

fn run(
    chat: &mut Chat,
    budgets: &Budgets,
    policy: &Policy,
    mode: Mode,
    chain: Chain,
    earlier: &Earlier,
) {
    let watch = |chat: &Chat, plan: &Plan| {
        check_step(chat, plan);
        earlier.note(chat, plan);
    };
    match chat.compact_watched(budgets, policy, mode, chain, watch) {
        Ok(plans) => {
            check_result(chat, budgets, policy, mode);
            if !plans.is_empty() && mode == Mode::Check {
                check_target(chat, budgets, policy);
            }
        }
        Err(error) => check_overflow(chat, budgets, policy, &error),
    }
}

/// The contexts before each checkpoint of this stretch of a branch, by its number.
#[derive(Default)]
struct Earlier(RefCell<BTreeMap<u32, (Context, u32)>>);

/// A context as a model sees it: summaries, then messages with their numbers.
type Context = (Vec<Arc<str>>, Vec<(u32, Vec<Part>)>);

fn context(chat: &Chat) -> Context {
    let snapshot = chat.freeze();
    let blocks = snapshot.blocks().iter().map(|block| block.text().clone());
    let entries = snapshot.entries().iter();
    let entries = entries.map(|e| (e.message().ordinal.0, e.parts().into_owned()));
    (blocks.collect(), entries.collect())
}

impl Earlier {
    fn note(&self, chat: &Chat, plan: &Plan) {
        if plan.step.cover().is_some() {
            let number = chat.checkpoints.next_number();
            let len = chat.view().len().0;
            self.0.borrow_mut().insert(number, (context(chat), len));
        }
    }

    /// C11: after a restore the context is the one before, byte for byte, with what was said
    /// since in full.
    fn check_restored(&self, chat: &Chat, number: u32) {
        let Some(((blocks, entries), len)) = self.0.borrow().get(&number).cloned() else {
            return;
        };
        let (now_blocks, now_entries) = context(chat);
        assert_eq!(now_blocks, blocks, "the summaries before {number}");
        let (same, since) = now_entries.split_at(entries.len());
        assert_eq!(same, entries, "the messages before {number}");
        let said: Vec<_> = (len + 1..=chat.view().len().0)
            .map(|at| chat.tree.at(chat.head(), Ordinal(at)).unwrap())
            .map(|node| (node.ordinal().0, node.message.parts.clone()))
            .collect();
        assert_eq!(since, said, "what was said since");
        assert!(chat.checkpoints.rests(&chat.tree, chat.head()));
    }
}

proptest! {
    #![proptest_config(ProptestConfig {
        cases: 1_500,
        failure_persistence: None,
        ..ProptestConfig::default()
    })]

    #[test]
    fn a_session_keeps_its_invariants(
        events in prop::collection::vec(event(), 1..80),
        budgets in budgets(),
        policy in policies(),
        second_encoding in 3u64..6,
        approximate in prop::bool::weighted(0.2),
    ) {
        let mut chat = Chat { approximate, ..Chat::default() };
        chat.chars_per_token[1] = second_encoding;
        chat.hear(Say::User(50), false);
        let mut earlier = Earlier::default();
        for event in events {
            match event {
                Event::Say(say, pin) => chat.hear(say, pin),
                Event::Turn(tokens, chain) => {
                    chat.hear(Say::User(tokens), false);
                    chat.pending = true;
                    run(&mut chat, &budgets, &policy, Mode::Check, chain, &earlier);
                }
                Event::Manual(keep, chain) => {
                    let mode = Mode::Manual { keep };
                    run(&mut chat, &budgets, &policy, mode, chain, &earlier);
                }
                Event::Seal => chat.topics.seal(chat.head()),
                Event::Fork(share) => {
                    let len = chat.view().len().0;
                    chat.fork_at((len * share / 1_000).max(1));
                    earlier = Earlier::default();
                }
                Event::Retire => {
                    let newest = chat.view().active().iter().max_by_key(|c| c.number).cloned();
                    if let Some(newest) = newest {
                        chat.restore(newest.id);
                        earlier.check_restored(&chat, newest.number);
                    }
                }
                Event::Pin(share, pinned) => {
                    chat.pin(share, pinned);
                    earlier = Earlier::default();
                }
            }
            chat.now = chat.now.plus_ms(60_000);
            check_branch(&chat);
            check_effective(&chat, &budgets);
        }
    }
}
