//! Regenerating a checkpoint by a summariser, and replacing it by a person's text.

use unisono_context::checkpoint::{Body, Kind, RevertError, Span, Writer, kept_text};
use unisono_context::compaction::{EXTRACTIVE, Step};
use unisono_context::tokens::{Count, Counts};
use unisono_context::{Encoding, Ordinal, Part};
use unisono_session::assignment::CompactionJob;
use unisono_session::event::{Outcome, SummaryOptions, Work};
use unisono_session::machine::{NewTurn, WrittenSummary};
use unisono_session::{Fact, Input, Refusal, ids};

use crate::shell::*;

fn anew(n: u64, work: Work) -> NewTurn {
    NewTurn {
        work,
        ..compacting(n, team(agent("lead"), []), 600)
    }
}

fn regenerate(n: u64, of: u64) -> NewTurn {
    let checkpoint = ids::checkpoint(turn_id(of), 1);
    let writing = SummaryOptions::with_instructions(Some("keep the figures"));
    anew(
        n,
        Work::Regenerate {
            checkpoint,
            writing,
        },
    )
}

fn edit(n: u64, of: u64, text: &str, tokens: u64) -> NewTurn {
    let counts: Counts = [(Encoding::O200kBase, Count::exact(tokens))]
        .into_iter()
        .collect();
    anew(
        n,
        Work::Edit {
            checkpoint: ids::checkpoint(turn_id(of), 1),
            text: text.into(),
            counts,
        },
    )
}

/// A session of twelve messages, compacted twice.
fn compacted_twice() -> Shell {
    let mut shell = Shell::with(12);
    shell.begin(manual(0));
    let briefs = shell.dispatch(turn(1, team(agent("lead"), [])));
    shell.finish(&briefs[0], "an answer");
    shell.begin(manual(2));
    shell
}

fn active(shell: &Shell) -> Vec<u32> {
    let state = shell.state();
    let view = state
        .view(state.tree().head("main").unwrap(), false)
        .unwrap();
    view.active().iter().map(|c| c.number).collect()
}

#[test]
fn a_summary_reads_the_messages_behind_earlier_quotes_again() {
    let rows: [(&[&str], bool); 6] = [
        (&["extractive"], true),
        (&["extractive", "extractive"], true),
        (&["person"], false),
        (&["test/model"], false),
        (&["truncation"], false),
        // It has lines of the summary that a person wrote.
        (&["person", "extractive"], false),
    ];
    for (models, are_read) in rows {
        let mut shell = Shell::with(40);
        let mut n = 0;
        for model in models {
            compacted_by(&mut shell, n, model, "## Context\nso far");
            answered(&mut shell, n + 1);
            n += 5;
        }
        shell.accept(manual(n));
        let job = shell.job();
        let new = job.messages.first().unwrap().ordinal.0;
        let read = if are_read { new } else { 1 };
        let quoted: Vec<u32> = job.quoted.iter().map(|message| message.ordinal.0).collect();
        assert_eq!(quoted, (1..read).collect::<Vec<_>>(), "{models:?}");
        assert!(new > 1, "{models:?}: {new}");
    }
}

/// A compaction in turn `n` whose summary has this writer and this text.
fn compacted_by(shell: &mut Shell, n: u64, model: &str, text: &str) -> CompactionJob {
    shell.accept(manual(n));
    let job = shell.job();
    let written = WrittenSummary {
        model: model.into(),
        body: Body::Summary(text.into()),
        ..summary(20, &job.encodings)
    };
    shell.write(&job, written);
    shell.prepare();
    job
}

/// Four turns with answers, from turn `n` on.
fn answered(shell: &mut Shell, n: u64) {
    for n in n..n + 4 {
        let briefs = shell.dispatch(turn(n, team(agent("lead"), [])));
        shell.finish(&briefs[0], "an answer");
    }
}

#[test]
fn a_persons_text_is_kept_and_the_messages_after_it_are_read_again() {
    let newest = |shell: &Shell| shell.state().checkpoints().iter().last().unwrap().clone();
    let kept = |job: &CompactionJob| job.kept.iter().map(|made| made.number).collect::<Vec<_>>();
    let quotes = "## Context\nquotes";
    let mut shell = Shell::with(40);
    let job = compacted_by(&mut shell, 0, EXTRACTIVE, quotes);
    assert!(kept(&job).is_empty());
    shell.begin(edit(1, 0, "what matters", 30));
    let edited = newest(&shell);
    assert_eq!(edited.number, 2);
    answered(&mut shell, 2);
    let text = kept_text(edited.range(), "what matters", true);
    let text = format!("{text}\n\n{quotes}");
    let job = compacted_by(&mut shell, 6, EXTRACTIVE, &text);
    assert_eq!((kept(&job), job.quoted.len()), (vec![2], 0));
    answered(&mut shell, 7);

    let mut shell = shell.recovered();
    let job = compacted_by(&mut shell, 11, EXTRACTIVE, &text);
    assert_eq!(kept(&job), [2], "behind the summary that replaced it");
    let quoted: Vec<u32> = job.quoted.iter().map(|message| message.ordinal.0).collect();
    let new = job.messages.first().unwrap().ordinal.0;
    assert_eq!(quoted, (edited.cutoff.0 + 1..new).collect::<Vec<_>>());
    assert!(!quoted.is_empty());
    answered(&mut shell, 12);

    // A person had a model write another text, without it.
    compacted_by(&mut shell, 16, "test/model", quotes);
    answered(&mut shell, 17);
    let job = compacted_by(&mut shell, 21, EXTRACTIVE, quotes);
    assert!(kept(&job).is_empty() && job.quoted.is_empty());

    shell.begin(edit(22, 21, &text, 30));
    let again = newest(&shell);
    assert_eq!(again.text_to_keep(), format!("what matters\n\n{quotes}"));
    answered(&mut shell, 23);
    let (branch, at) = ("other".into(), shell.state().tree().head("main").unwrap());
    shell.feed(Input::Fork { branch, at }).unwrap();
    shell.accept(NewTurn {
        branch: "other".into(),
        ..manual(27)
    });
    assert_eq!(kept(&shell.job()), [again.number], "on another branch, too");
    let job = compacted_by(&mut shell, 28, EXTRACTIVE, &text);
    assert_eq!(
        kept(&job),
        [again.number],
        "a later text replaces an earlier one"
    );
}

#[test]
fn more_than_half_a_million_tokens_behind_quotes_are_not_read_again() {
    for (tokens, are_read) in [(499_000, true), (501_000, false)] {
        let mut import = conversation(40);
        let (_, long) = &mut import.messages[2];
        long.parts = vec![Part::text("abc ".repeat(tokens))];
        let mut shell = Shell::from_import(import);
        compacted_by(&mut shell, 0, EXTRACTIVE, "## Context\nquotes");
        answered(&mut shell, 1);
        let job = compacted_by(&mut shell, 5, EXTRACTIVE, "## Context\nquotes");
        assert_eq!(!job.quoted.is_empty(), are_read, "{tokens}");
    }
}

#[test]
fn a_regenerated_summary_reads_the_original_input() {
    let mut shell = compacted_twice();
    assert_eq!(active(&shell), [2]);
    shell.accept(regenerate(3, 2));
    let job = shell.job();
    assert_eq!(
        (job.kind, job.writing.instructions.as_deref()),
        (Kind::Manual, Some("keep the figures"))
    );
    let prior: Vec<u32> = job.prior.iter().map(|c| c.number).collect();
    assert_eq!(prior, [1]);
    // The first one replaces everything before the newest user message of its time, number 11.
    let first = job.messages.first().map(|message| message.ordinal);
    assert_eq!(first, Some(Ordinal(11)));
    let Step::Summarise { cover, .. } = &job.plan.step else {
        panic!("{}", job.plan);
    };
    assert_eq!(cover.spans[0].first, Ordinal(1));
    shell.feed(compact(&job)).unwrap();
    shell.prepare();
    assert!(
        matches!(shell.outcome(3), Outcome::Compacted { .. }),
        "{}",
        shell.outcome(3)
    );
    assert_eq!(active(&shell), [3]);
    let made = shell.state().checkpoints().iter().last().unwrap();
    assert_eq!((made.kind, &made.covers), (Kind::Manual, &cover.spans));

    let checkpoint = ids::checkpoint(turn_id(3), 1);
    shell.begin(anew(4, Work::Revert { checkpoint }));
    assert_eq!(active(&shell), [2], "the one before is back");
}

#[test]
fn a_summary_that_cannot_be_regenerated_stays() {
    let mut shell = compacted_twice();
    shell.accept(regenerate(3, 2));
    let job = shell.job();
    let reason = "the model is out of reach";
    shell.fail_step(&job, reason, false);
    shell.prepare();
    assert_eq!(shell.failure(3), ("compaction_failed", reason));
    assert_eq!(active(&shell), [2]);
}

#[test]
fn a_persons_text_replaces_the_summary() {
    let mut shell = compacted_twice();
    let covers: Vec<Span> = shell
        .state()
        .checkpoints()
        .iter()
        .last()
        .unwrap()
        .covers
        .clone();
    shell.begin(edit(3, 2, "what matters, in my words", 30));
    let Outcome::Compacted { before, after } = shell.outcome(3) else {
        panic!("{}", shell.outcome(3));
    };
    assert_eq!(after.0, before.0 + 10, "20 tokens became 30");
    let made = shell.state().checkpoints().iter().last().unwrap();
    assert_eq!(
        (&*made.model, made.writer),
        ("person", Writer::Deterministic)
    );
    assert_eq!(made.covers, covers);
    assert_eq!(made.body, Body::Summary("what matters, in my words".into()));
    // Counted by its bytes if there is no count.
    assert!(made.counts.get(Encoding::Cl100kBase).is_some());
    assert_eq!(active(&shell), [3]);
    let outcome = shell.outcome(3).clone();
    shell.journal.pop();
    let mut shell = shell.recovered();
    shell.prepare();
    assert_eq!(*shell.outcome(3), outcome, "after a crash before its end");
    assert_eq!(shell.facts("compacted").len(), 3);
}

#[test]
fn a_text_that_is_too_long_or_empty_or_for_another_checkpoint_is_refused() {
    let mut shell = compacted_twice();
    let rows = [
        (edit(3, 2, "long", 2_049), "over its cap of 2048"),
        (edit(4, 2, "large", 700), "over its target of"),
    ];
    for (n, (turn, reason)) in (3..).zip(rows) {
        shell.begin(turn);
        let (code, text) = shell.failure(n);
        assert_eq!(code, "edit_rejected");
        assert!(text.contains(reason), "{text}");
    }
    assert_eq!(active(&shell), [2]);
    let superseded = shell.feed(Input::Accept(Box::new(edit(6, 0, "short", 9))));
    let why = RevertError::Superseded { number: 1, by: 2 };
    assert_eq!(superseded, Err(Refusal::NotActive(why)));
    let empty = shell.feed(Input::Accept(Box::new(edit(6, 2, " \n", 3))));
    assert_eq!(empty, Err(Refusal::EmptySummary));
    let ended = shell.facts("turn_ended").len();
    assert_eq!(ended, 5);
    assert!(
        !shell
            .journal
            .iter()
            .any(|e| matches!(&e.fact, Fact::TurnAccepted { turn } if turn.id == turn_id(6)))
    );
}
