//! Turns that are requested under a key: one turn per key, also after a crash.

use unisono_context::Digest;
use unisono_session::{Input, Refusal};

use crate::shell::*;

fn keyed(name: &str, request: &str, n: u64) -> Input {
    Input::AcceptKeyed {
        key: key(name, request),
        turn: Box::new(turn(n, team(agent("lead"), []))),
    }
}

#[test]
fn a_key_identifies_the_first_turn_only() {
    let mut shell = Shell::with(3);
    shell.feed(keyed("a", "one", 0)).unwrap();
    let request = Digest::of_bytes(b"one");
    assert_eq!(shell.state().turn_by_key("a"), Some((request, turn_id(0))));
    shell.feed(keyed("a", "one", 1)).unwrap();
    let reused = shell.feed(keyed("a", "two", 2));
    assert_eq!(reused, Err(Refusal::KeyReused("a".into())));
    shell.feed(keyed("b", "one", 3)).unwrap();
    assert_eq!(shell.facts("turn_accepted").len(), 2);

    let mut shell = shell.recovered();
    shell.feed(keyed("a", "one", 4)).unwrap();
    let reused = shell.feed(keyed("b", "two", 5));
    assert_eq!(reused, Err(Refusal::KeyReused("b".into())));
    assert_eq!(shell.facts("turn_accepted").len(), 2);
    assert_eq!(shell.state().turn_by_key("b"), Some((request, turn_id(3))));
    assert_eq!(shell.state().turn_by_key("c"), None);
}

#[test]
fn a_turn_that_was_refused_leaves_its_key_free() {
    let mut shell = Shell::with(3);
    let Input::AcceptKeyed { key, mut turn } = keyed("a", "one", 0) else {
        panic!("not keyed");
    };
    turn.branch = "elsewhere".into();
    let refused = shell.feed(Input::AcceptKeyed { key, turn });
    assert_eq!(refused, Err(Refusal::UnknownBranch("elsewhere".into())));
    shell.feed(keyed("a", "two", 1)).unwrap();
    assert!(shell.state().turn_by_key("a").is_some());
    assert_eq!(shell.facts("turn_accepted").len(), 1);
}
