//! What must hold after each step, each check named by the requirement it is about.

use super::*;

/// What a branch must keep under a budget: pinned units and the pending input, and dropped
/// ranges' notes; by estimate and at its bound. Computed message by message.
pub(super) fn must_stay(chat: &Chat, budget: &Budget) -> (u64, u64) {
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
            let count = item.count(budget);
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
pub(super) fn check_step(chat: &Chat, plan: &Plan) {
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
pub(super) fn check_branch(chat: &Chat) {
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
        let on_branch = chat.tree.node_at(chat.head(), ordinal);
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
pub(super) fn check_effective(chat: &Chat, budgets: &Budgets) {
    let view = chat.view();
    for budget in budgets.iter() {
        let blocks = view
            .active()
            .iter()
            .map(|c| c.counts.get(budget.encoding).unwrap());
        let messages = view.items().into_iter().map(|item| item.count(budget));
        let counts: Vec<Count> = blocks.chain(messages).collect();
        let sum: Count = counts.iter().copied().sum();
        assert_eq!(chat.freeze().counts().get(budget.encoding), Some(sum));
        let overhead = budget.per_message.0 * counts.len() as u64;
        assert_eq!(chat.effective(budget), sum + Count::exact(overhead));
    }
}

/// C5 and C3 after a compaction that ended without an error.
pub(super) fn check_result(chat: &Chat, budgets: &Budgets, policy: &Policy, mode: Mode) {
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

/// C3: no tier is over its limit where its last measure could still be taken, and the loads add
/// up to what is effective. Whether all are within.
fn check_tiers(chat: &Chat, budget: &Budget, policy: &Policy, tiers: &Tiers) -> bool {
    let view = chat.view();
    let loads = Loads::of_view(&view, budget).unwrap();
    let effective = chat.effective(budget);
    assert_eq!(loads.topic + loads.topics + loads.bulks, effective);
    let limits = loads.limits(tiers, policy.trigger_amount(budget).unwrap());
    let within = [loads.topic, loads.topics, loads.bulks]
        .into_iter()
        .zip(limits)
        .map(|(load, limit)| load.tokens <= limit);
    let within: Vec<bool> = within.collect();
    let summaries = view.active().iter().filter(|c| c.tier != Tier::Topic);
    let mut large = summaries.filter(|c| {
        let tokens = c.counts.get(budget.encoding).unwrap().tokens;
        matches!(c.body, Body::Summary(_)) && tokens.0 > 32
    });
    assert!(within[2] || large.next().is_none(), "{loads:?} {limits:?}");
    within.iter().all(|within| *within)
}

/// C3: the target is reached wherever what must stay and the smallest summary leave room. Only
/// asked of a compaction that began: below its trigger a context may be over its target.
pub(super) fn check_target(chat: &Chat, budgets: &Budgets, policy: &Policy) {
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
pub(super) fn check_overflow(chat: &Chat, budgets: &Budgets, policy: &Policy, error: &Error) {
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
