//! Invariants of a complete journal, and of a session compared with the fold of its journal.

use super::*;

/// The live state and the fold of the journal agree on everything that changes between inputs.
pub fn same_open_work(live: &State, folded: &State) {
    assert_eq!(live.events(), folded.events());
    assert!(live.open_turns().eq(folded.open_turns()));
    for turn in live.open_turns() {
        assert!(live.runs_of(turn).eq(folded.runs_of(turn)));
        let branch = &turn.accepted.branch;
        let active = |state: &State| state.active_turn(branch).map(|turn| turn.accepted.id);
        assert_eq!(active(live), active(folded));
    }
    assert!(live.tree().branches().eq(folded.tree().branches()));
    assert_eq!(live.tree().len(), folded.tree().len());
}

/// Every open run has an open parent.
pub fn no_orphans(state: &State) {
    for turn in state.open_turns() {
        for run in state.runs_of(turn).filter(|run| run.is_open()) {
            if let RunRole::Child { parent, .. } = run.role {
                assert!(state.run(parent).unwrap().is_open(), "its parent works");
            }
        }
    }
}

/// Both agree on everything.
pub fn same(live: &State, folded: &State) {
    same_open_work(live, folded);
    assert_eq!(live.id(), folded.id());
    assert_eq!(live.title(), folded.title());
    assert_eq!(live.system(), folded.system());
    assert_eq!(live.labels(), folded.labels());
    assert_eq!(live.pinned(), folded.pinned());
    assert_eq!(live.topics(), folded.topics());
    assert!(live.ended_turns().eq(folded.ended_turns()));
    let nodes = |tree: &Tree| -> Vec<_> {
        let nodes = tree.iter();
        nodes
            .map(|node| (node.message.clone(), node.counts))
            .collect()
    };
    assert_eq!(nodes(live.tree()), nodes(folded.tree()));
    let alterations = |state: &State| -> Vec<Alteration> {
        let all = state.alterations().range(Ordinal::FIRST, Ordinal(u32::MAX));
        all.cloned().collect()
    };
    assert_eq!(alterations(live), alterations(folded));
    assert!(live.checkpoints().iter().eq(folded.checkpoints().iter()));
    for made in live.checkpoints().iter() {
        let failed = |state: &State| state.checkpoints().failed_repairs(made.id);
        assert_eq!(failed(live), failed(folded));
    }
    let retired = |state: &State| -> Vec<bool> {
        let all = state.checkpoints().iter();
        all.map(|c| state.checkpoints().is_retired(c.id)).collect()
    };
    assert_eq!(retired(live), retired(folded));
}

/// Invariants of a complete journal, after all work has ended.
pub fn complete(events: &[Event], state: &State) {
    let mut accepted: BTreeMap<Arc<str>, Vec<TurnId>> = BTreeMap::new();
    let mut started: BTreeMap<Arc<str>, Vec<TurnId>> = BTreeMap::new();
    let mut branches: BTreeMap<TurnId, Arc<str>> = BTreeMap::new();
    let (mut open, mut steps) = (BTreeSet::new(), BTreeSet::new());
    let (mut cancelled, mut late_answers) = (BTreeSet::new(), BTreeSet::new());
    let mut replies: BTreeMap<RunId, u32> = BTreeMap::new();
    for event in events {
        match &event.fact {
            Fact::TurnAccepted { turn } => {
                branches.insert(turn.id, turn.branch.clone());
                let queue = accepted.entry(turn.branch.clone()).or_default();
                queue.push(turn.id);
            }
            Fact::TurnStarted { turn } => {
                let branch = branches[turn].clone();
                started.entry(branch).or_default().push(*turn);
            }
            Fact::Posted { message, .. } => {
                let node = state.tree().get(message.id).expect("what was said is kept");
                assert_eq!(node.message.to_new(), *message);
            }
            Fact::RunOpened { run } => assert!(open.insert(run.id), "a run is opened once"),
            Fact::RunEnded { run, ending } => {
                assert!(open.remove(run), "an open run ends once");
                if **ending == Ending::Cancelled || is_out_of_time(ending) {
                    cancelled.insert(*run);
                }
            }
            Fact::LateOutputReceived { run, late, .. } => {
                assert!(cancelled.contains(run), "late is what was cancelled before");
                if matches!(late, LateOutput::Answer { .. }) {
                    assert!(late_answers.insert(*run), "an answer comes late once");
                }
            }
            Fact::ToolsAnswered { run, .. } => {
                let replies = replies.get(run).copied().unwrap_or_default();
                let first = steps.insert((*run, format!("results {replies}").into()));
                assert!(first, "results are recorded once");
            }
            Fact::RunStepped { run, step } => {
                // Replies and results alternate, so their number identifies each.
                let name = match &**step {
                    Step::Named { name, .. } => name.clone(),
                    Step::Model(reply) => reply.text.clone(),
                    Step::Tools(_) => {
                        let replies = replies.get(run).copied().unwrap_or_default();
                        format!("results {replies}").into()
                    }
                    // Each attempt writes the provider's cache again; no provider rejects a request
                    // here.
                    Step::Narrowed { .. } | Step::Summarised { .. } | Step::Spent(_) => continue,
                };
                if let Step::Model(_) = &**step {
                    *replies.entry(*run).or_insert(0) += 1;
                }
                let first = steps.insert((*run, name));
                assert!(first, "a recorded step is not repeated");
            }
            _ => {}
        }
    }
    assert!(open.is_empty(), "every run ends in a recorded state");
    for turn in branches.keys() {
        assert!(
            state.ended_turn(*turn).is_some(),
            "every accepted turn ends: {:?}",
            phase(state)
        );
    }
    for (branch, turns) in started {
        let mut queue = accepted[&branch].iter();
        assert!(
            turns.iter().all(|turn| queue.any(|id| id == turn)),
            "queue order"
        );
    }
    assert_eq!(state.open_turns().count(), 0);
    branch::contains_every_delegation(events, state);
}

/// The progress of all turns, for an error message.
pub fn phase(state: &State) -> Vec<String> {
    let turns = state.open_turns();
    turns
        .map(|turn| match &turn.phase {
            Phase::Queued => "queued".to_owned(),
            Phase::Preparing => "preparing".to_owned(),
            Phase::Compacting(plan) => format!("compacting {:?}", plan.step),
            Phase::Frozen { .. } => format!("frozen, {} runs open", turn.open_runs),
        })
        .collect()
}

/// Whether a run was ended because its time was up.
fn is_out_of_time(ending: &Ending) -> bool {
    match ending {
        Ending::Finished { partial, .. } => {
            let partial = partial.as_deref().unwrap_or_default();
            partial.starts_with(EXCEEDED)
        }
        Ending::Failed { cause, .. } => *cause == RunCause::Budget,
        Ending::Cancelled => false,
    }
}
