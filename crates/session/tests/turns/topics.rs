//! Topics end at the right message, once, and stay ended.

use std::sync::Arc;

use unisono_context::message::{NewMessage, Role};
use unisono_context::policy::{Ends, Keep, Policy, Preset, Tiers};
use unisono_context::topic::EndedBy;
use unisono_context::{Ppm, Timestamp};
use unisono_session::machine::NewTurn;
use unisono_session::{Fact, Input, Refusal};

use crate::shell::*;

const MINUTE_MS: i64 = 60_000;
/// Only a phrase and a person end a topic.
const QUIET: Ends = Ends {
    silence_ms: None,
    over: None,
};

fn tiered(n: u64, text: &str, at: Timestamp, ends: Ends) -> NewTurn {
    let id = message_id(100_000 + n);
    NewTurn {
        work: answering(NewMessage::text(id, Role::User, text, at)),
        policy: Policy {
            keep: Keep::Tiers(Tiers {
                ends,
                ..Tiers::DEFAULT
            }),
            ..Policy::from_preset(Preset::Tiered)
        },
        phrases: vec!["new topic".into(), "let's move on".into()],
        ..turn(n, team(agent("lead"), []))
    }
}

/// One turn, answered with one word.
fn say(shell: &mut Shell, n: u64, text: &str, at: Timestamp, ends: Ends) {
    shell.now = at;
    let briefs = shell.dispatch(tiered(n, text, at, ends));
    shell.finish(&briefs[0], "well");
}

/// The first and last message of each topic of a branch, and the reason of its end.
fn topics(shell: &Shell, branch: &str) -> Vec<(u32, u32, Option<EndedBy>)> {
    let state = shell.state();
    let head = state.tree().head(branch).unwrap();
    let topics = state.topics().of_branch(state.tree(), head).into_iter();
    topics
        .map(|topic| (topic.span.first.0, topic.span.last.0, topic.ended_by))
        .collect()
}

#[test]
fn a_topic_ends_by_the_strongest_reason() {
    let late = Timestamp(10_000_000);
    let soon = Timestamp(2_000);
    let both = Tiers::DEFAULT.ends;
    let tiny = Ends {
        over: Some(Ppm(1)),
        ..QUIET
    };
    let all = Ends {
        over: Some(Ppm(1)),
        ..both
    };
    let rows = [
        ("new topic: tea", late, all, true, Some(EndedBy::Phrase)),
        ("what about tea?", late, all, true, Some(EndedBy::Silence)),
        ("what about tea?", soon, tiny, true, Some(EndedBy::Share)),
        ("what about tea?", soon, QUIET, true, Some(EndedBy::Person)),
        ("what about tea?", soon, both, false, None),
        ("Let’s move on", soon, QUIET, false, Some(EndedBy::Phrase)),
    ];
    for (text, at, ends, sealed, expected) in rows {
        let mut shell = Shell::with(0);
        say(&mut shell, 0, "hello", Timestamp(1_000), QUIET);
        if sealed {
            let branch = "main".into();
            shell.feed(Input::Seal { branch }).unwrap();
        }
        say(&mut shell, 1, text, at, ends);
        let ended = topics(&shell, "main")[0].2;
        assert_eq!(ended, expected, "{text} at {at:?}");
    }
}

#[test]
fn a_queued_turn_has_the_phrases_of_its_acceptance() {
    let mut shell = Shell::with(0);
    let turns = [
        ("hello", "new topic"),
        ("new topic: tea", "new topic"),
        ("and now?", "next item"),
    ];
    for (n, (text, phrase)) in (0..).zip(turns) {
        shell.accept(NewTurn {
            phrases: vec![phrase.into()],
            ..tiered(n, text, Timestamp(1_000), QUIET)
        });
    }
    for _ in turns {
        let assignment = shell.dispatched().remove(0);
        shell.finish(&assignment, "well");
    }
    assert_eq!(topics(&shell, "main")[0].2, Some(EndedBy::Phrase));
}

#[test]
fn silence_is_more_than_thirty_minutes() {
    for (ms, ended) in [
        (30 * MINUTE_MS, false),
        (30 * MINUTE_MS + 1_000, true),
        (-90 * MINUTE_MS, false),
    ] {
        let mut shell = Shell::with(0);
        let start = Timestamp(1_000);
        say(&mut shell, 0, "hello", start, Tiers::DEFAULT.ends);
        let next = start.plus_ms(ms);
        say(&mut shell, 1, "and now?", next, Tiers::DEFAULT.ends);
        assert_eq!(topics(&shell, "main").len() == 2, ended, "{ms} ms");
    }
}

#[test]
fn the_message_that_makes_a_topic_too_large_opens_the_next() {
    // The window of 2,000 leaves 1,400, of which the topic has half and ends above 420.
    let mut shell = Shell::with(0);
    let ends = Ends {
        silence_ms: None,
        ..Tiers::DEFAULT.ends
    };
    let about_200 = "word ".repeat(160);
    for n in 0..4 {
        say(&mut shell, n, &about_200, Timestamp(1_000), ends);
    }
    let ended = topics(&shell, "main");
    assert_eq!(ended, [(1, 4, Some(EndedBy::Share)), (5, 8, None),]);
}

#[test]
fn a_single_message_is_never_sealed() {
    let mut shell = Shell::with(1);
    let branch: Arc<str> = "main".into();
    let seal = || Input::Seal {
        branch: branch.clone(),
    };
    let alone = Err(Refusal::NothingToSeal {
        branch: branch.clone(),
        messages: 1,
    });
    assert_eq!(shell.feed(seal()), alone);
    say(&mut shell, 0, "new topic", Timestamp(1_000), QUIET);
    assert_eq!(topics(&shell, "main"), [(1, 3, None)], "one came before");
    shell.feed(seal()).unwrap();
    let again = shell.feed(seal()).unwrap_err();
    insta::assert_snapshot!(again, @r#"branch "main" has no topic to seal: its last topic is sealed, and no message followed"#);
    let unknown = shell.feed(Input::Seal {
        branch: "side".into(),
    });
    assert_eq!(unknown, Err(Refusal::UnknownBranch("side".into())));
}

#[test]
fn a_busy_branch_is_not_sealed() {
    let mut shell = Shell::with(4);
    shell.accept(tiered(0, "hello", shell.now, QUIET));
    let branch: Arc<str> = "main".into();
    let busy = shell.feed(Input::Seal {
        branch: branch.clone(),
    });
    assert_eq!(busy, Err(Refusal::BranchBusy(branch)));
}

#[test]
fn a_fork_after_a_topic_end_keeps_it_and_one_before_does_not() {
    let mut shell = Shell::with(0);
    say(&mut shell, 0, "hello", Timestamp(1_000), QUIET);
    say(&mut shell, 1, "new topic: tea", Timestamp(1_000), QUIET);
    let at = |shell: &Shell, ordinal| {
        let head = shell.state().tree().head("main").unwrap();
        let ordinal = unisono_context::Ordinal(ordinal);
        shell
            .state()
            .tree()
            .node_at(head, ordinal)
            .unwrap()
            .message
            .id
    };
    for (branch, ordinal) in [("before", 2), ("behind", 3)] {
        let at = at(&shell, ordinal);
        let branch = branch.into();
        shell.feed(Input::Fork { branch, at }).unwrap();
    }
    assert_eq!(topics(&shell, "before"), [(1, 2, None)]);
    let ended = Some(EndedBy::Phrase);
    assert_eq!(topics(&shell, "behind"), [(1, 2, ended), (3, 3, None)]);
    // Sealed on one branch; the other branch's topic continues.
    let branch = "before".into();
    shell.feed(Input::Seal { branch }).unwrap();
    assert_eq!(topics(&shell, "before"), [(1, 2, Some(EndedBy::Person))]);
}

#[test]
fn ends_survive_a_restart_and_are_decided_once() {
    let mut shell = Shell::with(0);
    for n in 0..3 {
        let text = if n == 1 { "new topic" } else { "go on" };
        say(&mut shell, n, text, Timestamp(1_000), QUIET);
    }
    let before = topics(&shell, "main");
    assert_eq!(before, [(1, 2, Some(EndedBy::Phrase)), (3, 6, None)]);
    let mut shell = shell.recovered();
    assert_eq!(topics(&shell, "main"), before);
    // With other rules the decided ends stay.
    let strict = Ends {
        silence_ms: Some(0),
        over: None,
    };
    say(&mut shell, 3, "go on", Timestamp(2_000), strict);
    let ended = Some(EndedBy::Silence);
    assert_eq!(topics(&shell, "main")[1..], [(3, 6, ended), (7, 8, None)]);
    let decided = shell.facts("topics_decided");
    assert_eq!(decided.len(), 4, "one a turn");
    assert_eq!(shell.facts("phrases_set").len(), 1, "as long as they stay");
    let through: Vec<usize> = decided
        .iter()
        .map(|fact| match fact {
            Fact::TopicsDecided { ends, .. } => ends.len(),
            other => panic!("{other}"),
        })
        .collect();
    assert_eq!(through, [0, 1, 0, 1]);
}

#[test]
fn other_presets_decide_no_topic_ends() {
    let mut shell = Shell::with(4);
    let briefs = shell.dispatch(turn(0, team(agent("lead"), [])));
    shell.finish(&briefs[0], "well");
    assert!(shell.facts("topics_decided").is_empty());
    assert!(shell.facts("phrases_set").is_empty());
}

#[test]
fn an_older_topic_becomes_a_summary_of_its_tier() {
    let mut shell = Shell::with(0);
    let about_250 = "word ".repeat(200);
    for n in 0..4 {
        let text = format!("{}{about_250}", ["go on ", "new topic "][(n % 2) as usize]);
        say(&mut shell, n, &text, Timestamp(1_000), QUIET);
    }
    say(&mut shell, 4, "new topic", Timestamp(1_000), QUIET);
    let compacted: Vec<String> = shell
        .facts("compaction_planned")
        .iter()
        .map(ToString::to_string)
        .collect();
    insta::assert_snapshot!(compacted.join("\n"), @r"
    compaction_planned 00000003: summarise topic #1–#2 of 260 tokens in at most 128; 1037 tokens, target 1120
    compaction_planned 00000003: summarise topic #3–#6 of 521 tokens in at most 200; 800 tokens, target 1120
    ");
    let tiers = shell.state().checkpoints().iter();
    let tiers: Vec<_> = tiers.map(|checkpoint| checkpoint.tier).collect();
    insta::assert_debug_snapshot!(tiers, @r"
    [
        Topic,
        Topic,
    ]
    ");
    let shell = shell.recovered();
    assert_eq!(shell.state().checkpoints().iter().len(), tiers.len());
}
