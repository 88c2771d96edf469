//! What holds for every conversation, policy and summariser: coverage (C2), progress (C3),
//! fitting (C5), whole units (C6), the active set (C10).

mod checks;

use std::cell::RefCell;
use std::collections::BTreeMap;
use std::sync::Arc;

use crate::chat::{
    Chain, Chat, Fallback, Summariser, call, cases, ordinals, preamble, result, text,
};
use checks::*;
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
        let base = Policy::from_preset(preset);
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
            files: Default::default(),
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

    /// C11: after a revert the context is the one before, byte for byte, with what was said
    /// since in full.
    fn check_reverted(&self, chat: &Chat, number: u32) {
        let Some(((blocks, entries), len)) = self.0.borrow().get(&number).cloned() else {
            return;
        };
        let (now_blocks, now_entries) = context(chat);
        assert_eq!(now_blocks, blocks, "the summaries before {number}");
        let (same, since) = now_entries.split_at(entries.len());
        assert_eq!(same, entries, "the messages before {number}");
        let said: Vec<_> = (len + 1..=chat.view().len().0)
            .map(|at| chat.tree.node_at(chat.head(), Ordinal(at)).unwrap())
            .map(|node| (node.ordinal().0, node.message.parts.clone()))
            .collect();
        assert_eq!(since, said, "what was said since");
        assert!(chat.checkpoints.rests(&chat.tree, chat.head()));
    }
}

proptest! {
    #![proptest_config(cases(1_500))]

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
                Event::Seal => chat.topics.seal(chat.head(), None),
                Event::Fork(share) => {
                    let len = chat.view().len().0;
                    chat.fork_at((len * share / 1_000).max(1));
                    earlier = Earlier::default();
                }
                Event::Retire => {
                    let newest = chat.view().active().iter().max_by_key(|c| c.number).cloned();
                    if let Some(newest) = newest {
                        chat.revert(newest.id);
                        earlier.check_reverted(&chat, newest.number);
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
