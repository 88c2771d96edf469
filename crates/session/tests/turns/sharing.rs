//! A copy of a session's state for inspection.

use unisono_context::Timestamp;
use unisono_session::{Event, Fact};

use crate::shell::*;

#[test]
fn a_copy_shares_the_history_until_one_side_changes() {
    let mut shell = Shell::with(50);
    let before = shell.state().clone();
    assert!(std::ptr::eq(before.tree(), shell.state().tree()));
    assert!(std::ptr::eq(before.topics(), shell.state().topics()));
    assert!(std::ptr::eq(
        before.checkpoints(),
        shell.state().checkpoints()
    ));
    assert!(std::ptr::eq(
        before.alterations(),
        shell.state().alterations()
    ));
    assert!(std::ptr::eq(before.pinned(), shell.state().pinned()));

    shell.accept(turn(0, team(agent("lead"), [])));
    let messages = (before.tree().len(), shell.state().tree().len());
    assert_eq!(messages, (50, 51), "the copy is as it was");
    let head = before.tree().head("main").unwrap();
    let mut other = shell.state().clone();
    let branch = Event {
        at: Timestamp(0),
        fact: Fact::BranchSet {
            branch: "side".into(),
            head,
        },
    };
    other.apply(&branch).unwrap();
    let branches = [&before, shell.state(), &other].map(|state| state.tree().branches().count());
    assert_eq!(branches, [1, 1, 2]);
}
