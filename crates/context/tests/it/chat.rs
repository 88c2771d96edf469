//! A conversation in a few letters, and a session that carries plans out.
//!
//! `U100 A50 T2000` is a user message of 100 tokens, an assistant message of 50 that makes a
//! tool call, and its result of 2,000. Results that follow an assistant message answer calls of
//! that message; `C` makes a call whose result may never come, `S` is a system message. A `!`
//! pins the message, a `|` lets the topic end. Four characters are a token, in every encoding unless told otherwise.

use std::collections::BTreeSet;
use std::sync::Arc;

use proptest::test_runner::Config as ProptestConfig;
use unisono_context::alteration::{Alteration, Alterations, altered_parts};
use unisono_context::budget::{Budget, Budgets, Limits};
use unisono_context::checkpoint::{
    Body, Checkpoint, Checkpoints, Span, Writer, block_text, reverted,
};
use unisono_context::compaction::{
    Cover, Draft, Error, Mode, NewSummary, Plan, Rejection, Step, Stop, accept, plan, shrinks,
    truncated,
};
use unisono_context::message::NewMessage;
use unisono_context::policy::{Policy, Preset};
use unisono_context::snapshot::Preamble;
use unisono_context::tokens::{Count, Counts};
use unisono_context::topic::Topics;
use unisono_context::view::View;
use unisono_context::{
    CheckpointId, Encoding, MessageId, Ordinal, Part, Ppm, Role, Snapshot, Timestamp, Tokens, Tree,
};

/// How the first writer of a chain behaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Summariser {
    /// Uses half of the cap.
    Good,
    /// Always writes more than its cap.
    Growing,
    /// Gives back all it was given.
    NeverShrinking,
    /// Writes nothing.
    Empty,
    /// Does not answer.
    Failing,
    Refusing,
    /// Ends at its output limit.
    CutOff,
    /// Forgets the sections.
    Shapeless,
}

/// What writes when the first one's text is not taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fallback {
    /// Quotes up to exactly the cap.
    Extractive,
    /// Head and tail of what it was given.
    Truncation,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Chain(pub(crate) Summariser, pub(crate) Fallback);

pub(crate) const CHECKPOINT: Policy = Policy::from_preset(Preset::Checkpoint);
pub(crate) const RETENTION: Policy = Policy::from_preset(Preset::Retention);
pub(crate) const PROGRESSIVE: Policy = Policy::from_preset(Preset::Progressive);
pub(crate) const TRUNCATE: Policy = Policy::from_preset(Preset::Truncate);
pub(crate) const OFF: Policy = Policy::from_preset(Preset::Off);

pub(crate) const GOOD: Chain = Chain(Summariser::Good, Fallback::Extractive);

#[derive(Clone)]
pub(crate) struct Chat {
    pub(crate) tree: Tree,
    pub(crate) checkpoints: Checkpoints,
    pub(crate) alterations: Alterations,
    pub(crate) topics: Topics,
    pub(crate) pinned: BTreeSet<MessageId>,
    pub(crate) head: Option<MessageId>,
    pub(crate) pending: bool,
    pub(crate) now: Timestamp,
    /// Characters that make a token, per encoding.
    pub(crate) chars_per_token: [u64; 2],
    /// Whether counts are estimates.
    pub(crate) approximate: bool,
    pub(crate) next_id: u128,
}

impl Default for Chat {
    fn default() -> Chat {
        Chat {
            tree: Tree::default(),
            checkpoints: Checkpoints::default(),
            alterations: Alterations::default(),
            topics: Topics::default(),
            pinned: BTreeSet::new(),
            head: None,
            pending: false,
            now: Timestamp(1_700_000_000_000),
            chars_per_token: [4, 4],
            approximate: false,
            next_id: 1,
        }
    }
}

impl Chat {
    /// A conversation that waits for nothing.
    pub(crate) fn of(letters: &str) -> Chat {
        let mut chat = Chat::default();
        chat.say(letters);
        chat
    }

    /// A conversation whose last message is an input that waits for its answer.
    pub(crate) fn asked(letters: &str) -> Chat {
        let mut chat = Chat::of(letters);
        chat.pending = true;
        chat
    }

    /// `n` messages of `tokens` each, from users and assistants in turn; the last one waits.
    pub(crate) fn long(n: usize, tokens: u64) -> Chat {
        let letters: Vec<String> = (0..n)
            .map(|i| format!("{}{tokens}", if i % 2 == 0 { 'U' } else { 'A' }))
            .collect();
        Chat::asked(&letters.join(" "))
    }

    pub(crate) fn say(&mut self, letters: &str) {
        let words: Vec<&str> = letters.split_whitespace().collect();
        for (index, word) in words.iter().enumerate() {
            if *word == "|" {
                self.topics.seal(self.head(), None);
                continue;
            }
            let results = words[index + 1..].iter().take_while(|w| w.starts_with('T'));
            let calls = match &word[..1] {
                "A" => results.count(),
                "C" => results.count().max(1),
                _ => 0,
            };
            self.say_one(word, calls);
        }
    }

    fn say_one(&mut self, word: &str, calls: usize) {
        let (letter, rest) = word.split_at(1);
        let pin = rest.ends_with('!');
        let tokens: u64 = rest.trim_end_matches('!').parse().unwrap_or(100);
        let id = match letter {
            "T" => self.append(Role::Tool, vec![result(tokens * 4)]),
            "U" => self.append(Role::User, vec![text(self.tree.len(), tokens * 4)]),
            "S" => self.append(Role::System, vec![text(self.tree.len(), tokens * 4)]),
            "A" | "C" => {
                let each = call(0).countable_text().chars().count() as u64 + 1;
                let chars = (tokens * 4).saturating_sub(each * calls as u64);
                let mut parts = vec![text(self.tree.len(), chars)];
                parts.extend((0..calls).map(call));
                self.append(Role::Assistant, parts)
            }
            other => panic!("no such message: {other}"),
        };
        if pin {
            self.pinned.insert(id);
        }
    }

    /// Appends and counts a message at the head.
    pub(crate) fn append(&mut self, role: Role, parts: Vec<Part>) -> MessageId {
        let id = MessageId::from_u128(self.next_id);
        self.next_id += 1;
        self.append_new(NewMessage::new(id, role, parts, self.now))
    }

    /// Appends and counts a message at the head.
    pub(crate) fn append_new(&mut self, new: NewMessage) -> MessageId {
        let id = new.id;
        self.tree.append(self.head, new).expect("a valid message");
        self.count(id);
        self.head = Some(id);
        self.pending = false;
        id
    }

    fn count(&mut self, id: MessageId) {
        let text = self
            .tree
            .get(id)
            .expect("just appended")
            .message
            .countable_text();
        for (encoding, count) in self.counts_of(&text).iter() {
            self.tree.set_count(id, encoding, count).expect("known");
        }
    }

    pub(crate) fn counts_of(&self, text: &str) -> Counts {
        let chars = text.chars().count() as u64;
        let count = |encoding: Encoding| {
            let tokens = chars.div_ceil(self.chars_per_token[encoding.index()]);
            let mut count = Count::exact(tokens);
            if self.approximate {
                count.at_most = Tokens(tokens.max(text.len() as u64));
            }
            (encoding, count)
        };
        Encoding::ALL.into_iter().map(count).collect()
    }

    /// What a context block costs: those are always counted exactly.
    fn counts_of_block(&self, block: &str) -> Counts {
        let chars = block.chars().count() as u64;
        let count = |encoding: Encoding| {
            let per_token = self.chars_per_token[encoding.index()];
            (encoding, Count::exact(chars.div_ceil(per_token)))
        };
        Encoding::ALL.into_iter().map(count).collect()
    }

    pub(crate) fn head(&self) -> MessageId {
        self.head.expect("not empty")
    }

    pub(crate) fn view(&self) -> View<'_> {
        View::new(
            &self.tree,
            &self.checkpoints,
            &self.alterations,
            &self.pinned,
            self.head(),
            self.pending,
        )
        .expect("the head exists")
        .with_topics(&self.topics)
    }

    /// Goes back to the message at `ordinal`, to go on from there.
    pub(crate) fn fork_at(&mut self, ordinal: u32) {
        let node = self.tree.node_at(self.head(), Ordinal(ordinal));
        self.head = Some(node.expect("on the branch").message.id);
        self.pending = false;
    }

    /// Takes a checkpoint back, as a session does.
    pub(crate) fn revert(&mut self, id: CheckpointId) {
        let head = self.head();
        (self.checkpoints, self.alterations) =
            reverted(&self.tree, &self.checkpoints, &self.alterations, head, id);
    }

    pub(crate) fn effective(&self, budget: &Budget) -> Count {
        self.view().effective(budget).expect("counted")
    }

    pub(crate) fn plan(
        &self,
        budgets: impl Into<Budgets>,
        policy: &Policy,
        mode: Mode,
    ) -> Result<Option<Plan>, Error> {
        plan(&self.view(), &budgets.into(), policy, mode, self.now)
    }

    pub(crate) fn check(&self, budgets: impl Into<Budgets>, policy: &Policy) -> Option<Plan> {
        self.plan(budgets, policy, Mode::Check)
            .expect("no overflow")
    }

    /// Carries a step out and commits it, as a session does.
    pub(crate) fn carry_out(&mut self, plan: &Plan, mode: Mode, preset: &Policy, chain: Chain) {
        for (message, ordinal, form) in plan.step.forms() {
            let node = self.tree.get(message).expect("known");
            let parts: Vec<_> = altered_parts(&node.message, form);
            let pieces: Vec<_> = parts.iter().map(|p| p.countable_text()).collect();
            let counts = self.counts_of(&pieces.join("\n"));
            let alteration = Alteration {
                message,
                ordinal,
                form,
                counts,
            };
            let newest = self.checkpoints.next_number() - 1;
            self.alterations.set(alteration, newest);
        }
        let made = match &plan.step {
            Step::Mask(_) | Step::Cut { .. } | Step::Truncate { .. } => return,
            Step::Drop { .. } => (Writer::Deterministic, Body::Tombstone, "none", false),
            Step::Summarise { cap, writer, .. } => {
                let encoding = plan.budget.encoding;
                let (by, text) = self.write(&plan.step, *cap, *writer, chain, encoding);
                let degraded = by == Writer::Deterministic && *writer == Writer::Model;
                (by, Body::Summary(text.into()), "test", degraded)
            }
            Step::Regenerate { cap, .. } => {
                let encoding = plan.budget.encoding;
                let (by, text) = self.write(&plan.step, *cap, Writer::Model, chain, encoding);
                if by != Writer::Model {
                    return;
                }
                (by, Body::Summary(text.into()), "test", false)
            }
        };
        let cover = plan.step.cover().expect("a checkpoint");
        let (writer, body, model, degraded) = made;
        let made = NewSummary {
            id: CheckpointId::from_u128(1 << 100 | u128::from(self.checkpoints.next_number())),
            writer,
            model: model.into(),
            counts: self.counts_of_block(&block_text(&cover.spans, &body, &[])),
            body,
            key_facts: Vec::new(),
            cost_micros: None,
            duration_ms: 0,
            degraded,
            at: self.now,
            coverage: None,
        };
        let checkpoint =
            Checkpoint::from_step(&plan.step, &self.view(), mode.kind(), preset.preset, made);
        self.checkpoints
            .add(Arc::new(checkpoint.expect("on the branch")));
    }

    /// The first text of the chain that is accepted.
    fn write(
        &self,
        step: &Step,
        cap: Tokens,
        writer: Writer,
        chain: Chain,
        encoding: Encoding,
    ) -> (Writer, String) {
        let cover = step.cover().expect("a checkpoint");
        let per_token = self.chars_per_token[encoding.index()];
        if writer == Writer::Model
            && let Some((text, stop)) = attempt(chain.0, cover, cap, per_token)
            && self.accepts(step, cap, &text, stop, encoding).is_ok()
        {
            return (Writer::Model, text);
        }
        let text = match chain.1 {
            Fallback::Extractive => filled(cover, cap.0 * per_token),
            Fallback::Truncation => {
                let all = "y".repeat(cover.original.0 as usize * 4);
                let room = (cap.0 * per_token) as usize - marking(cover) - "## Context\n".len();
                let keep = (room - "[truncated]".len()) / 2;
                format!("## Context\n{}", truncated(&all, keep.min(2_000)))
            }
        };
        self.accepts(step, cap, &text, Stop::Complete, encoding)
            .expect("the last of a chain is always taken");
        (Writer::Deterministic, text)
    }

    fn accepts(
        &self,
        step: &Step,
        cap: Tokens,
        text: &str,
        stop: Stop,
        encoding: Encoding,
    ) -> Result<(), Rejection> {
        let cover = step.cover().expect("a checkpoint");
        let block = block_text(&cover.spans, &Body::Summary(text.into()), &[]);
        let count = self.counts_of_block(&block).get(encoding);
        let tokens = count.expect("counted").tokens;
        let draft = Draft { text, stop, tokens };
        accept(&draft, step.tier(), cap, cover.original)
    }

    /// Plans and carries out until nothing is left to do. Gives the plans.
    pub(crate) fn compact(
        &mut self,
        budgets: &Budgets,
        policy: &Policy,
        mode: Mode,
        chain: Chain,
    ) -> Result<Vec<Plan>, Error> {
        self.compact_watched(budgets, policy, mode, chain, |_, _| {})
    }

    /// The same, with a look at each plan before it is carried out.
    pub(crate) fn compact_watched(
        &mut self,
        budgets: &Budgets,
        policy: &Policy,
        mode: Mode,
        chain: Chain,
        watch: impl Fn(&Chat, &Plan),
    ) -> Result<Vec<Plan>, Error> {
        let mut plans = Vec::new();
        let mut next = self.plan(budgets.clone(), policy, mode)?;
        while let Some(plan) = next {
            let bound = 2 * self.tree.len() + 8;
            assert!(plans.len() <= bound, "the loop does not end: {plan}");
            watch(self, &plan);
            let before = self.effective(&plan.budget);
            self.carry_out(&plan, mode, policy, chain);
            let after = self.effective(&plan.budget);
            assert!(
                shrinks(before, after),
                "from {before:?} to {after:?} by {plan}"
            );
            plans.push(plan);
            let again = match mode {
                Mode::Manual { .. } | Mode::Part(_) => mode,
                Mode::Check | Mode::Requested | Mode::Rest | Mode::Continue => Mode::Continue,
            };
            next = self.plan(budgets.clone(), policy, again)?;
        }
        Ok(plans)
    }

    pub(crate) fn freeze(&self) -> Snapshot {
        Snapshot::freeze(&self.view(), preamble())
    }

    /// The ordinals that stand verbatim, masked or cut.
    pub(crate) fn verbatim(&self) -> Vec<u32> {
        self.view()
            .items()
            .iter()
            .map(|item| item.ordinal().0)
            .collect()
    }
}

/// So many cases, and no file of those that failed.
pub(crate) fn cases(cases: u32) -> ProptestConfig {
    ProptestConfig {
        cases,
        failure_persistence: None,
        ..ProptestConfig::default()
    }
}

/// The budget of a model, with 5 % as the safety margin and without overhead.
pub(crate) fn model(window: u64, max_output: u64) -> Budget {
    let limits = Limits {
        window: Tokens(window),
        max_output: Tokens(max_output),
        encoding: Encoding::O200kBase,
        per_message: Tokens::ZERO,
        files: Default::default(),
    };
    Budget::new(limits, Ppm::percent(5), Tokens::ZERO)
}

pub(crate) fn preamble() -> Preamble {
    Preamble::new("be brief", Vec::new())
}

/// A budget of that many usable tokens of a window of as many, without overhead.
pub(crate) fn usable(tokens: u64) -> Budget {
    Budget {
        encoding: Encoding::O200kBase,
        window: Tokens(tokens),
        usable: Tokens(tokens),
        per_message: Tokens::ZERO,
        files: Default::default(),
    }
}

pub(crate) fn ordinals(spans: &[Span]) -> Vec<u32> {
    spans.iter().flat_map(|s| s.first.0..=s.last.0).collect()
}

pub(crate) fn text(seed: usize, chars: u64) -> Part {
    let mut text = format!("m{seed} ");
    let filler = (chars as usize).saturating_sub(text.chars().count());
    text.push_str(&"x".repeat(filler));
    text.truncate(chars as usize);
    Part::text(text)
}

pub(crate) fn result(chars: u64) -> Part {
    Part::tool_result("call", "r".repeat(chars as usize), false)
}

pub(crate) fn call(index: usize) -> Part {
    Part::tool_call("call", "f", index.to_string())
}

fn attempt(
    summariser: Summariser,
    cover: &Cover,
    cap: Tokens,
    per_token: u64,
) -> Option<(String, Stop)> {
    let good = || filled(cover, (cap.0 * per_token / 2).max(64));
    match summariser {
        Summariser::Good => Some((good(), Stop::Complete)),
        Summariser::Growing => Some((filled(cover, (cap.0 + 7) * per_token), Stop::Complete)),
        Summariser::NeverShrinking => {
            Some((filled(cover, cover.original.0 * per_token), Stop::Complete))
        }
        Summariser::Empty => Some((String::new(), Stop::Complete)),
        Summariser::Failing => None,
        Summariser::Refusing => Some((good(), Stop::Refused)),
        Summariser::CutOff => Some((good(), Stop::CutOff)),
        Summariser::Shapeless => Some(("z".repeat(40), Stop::Complete)),
    }
}

/// A summary whose whole block has exactly that many characters, where that is possible.
fn filled(cover: &Cover, chars: u64) -> String {
    let mut text = "## Context\n".to_owned();
    let taken = marking(cover) + text.chars().count();
    text.push_str(&"s".repeat((chars as usize).saturating_sub(taken)));
    text
}

/// Characters of what marks a block as a summary.
fn marking(cover: &Cover) -> usize {
    block_text(&cover.spans, &Body::Summary("".into()), &[])
        .chars()
        .count()
}
