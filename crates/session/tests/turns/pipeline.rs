//! Stages of a pipeline on one context: their inputs, and the effects of a failure, a cancellation
//! and a restart between them.

use std::sync::Arc;

use unisono_context::AgentId;
use unisono_session::Input;
use unisono_session::agent::{Definition, OnFailure, Stage};
use unisono_session::assignment::RunAssignment;
use unisono_session::event::{Outcome, RunRole};
use unisono_session::run::{Ending, RunCause};

use crate::shell::*;

const STAGES: [&str; 3] = ["outline", "draft", "review"];

/// A turn of a lead with three stages, the last one with its own task.
fn started_pipeline(change: impl Fn(&mut Definition)) -> Shell {
    let mut shell = Shell::with(2);
    let stages = STAGES.map(|name| {
        let mut stage = agent(name);
        change(&mut stage);
        stage
    });
    let lead = Definition {
        pipeline: stages
            .iter()
            .map(|stage| Stage {
                agent: stage.id.clone(),
                task: None,
            })
            .collect(),
        ..agent("article")
    };
    let mut team = team(lead, stages);
    team.delegates[2].task = Some("Look for mistakes.".into());
    shell.accept(turn(0, team));
    shell
}

/// The only agent that was started.
fn next(shell: &mut Shell) -> RunAssignment {
    let mut briefs = shell.dispatched();
    assert_eq!(briefs.len(), 1, "one at a time");
    briefs.remove(0)
}

/// The results in an agent's assignment: agent, task and text.
fn handed(assignment: &RunAssignment) -> Vec<String> {
    let each = assignment.results.iter().map(|result| {
        let text = match &*result.ending {
            Ending::Finished { text, .. } => text.to_string(),
            Ending::Failed { cause, .. } => format!("[{}]", cause.code()),
            Ending::Cancelled => "[cancelled]".to_owned(),
        };
        format!("{} ({}): {text}", result.agent, result.task)
    });
    each.collect()
}

#[test]
fn each_stage_gets_the_earlier_results_on_the_same_context() {
    let mut shell = started_pipeline(|_| {});
    let outline = next(&mut shell);
    assert_eq!(outline.role, RunRole::Delegate { index: 0 });
    assert_eq!(handed(&outline), [""; 0]);
    shell.finish(&outline, "three parts");

    let draft = next(&mut shell);
    assert_eq!(draft.definition.id, AgentId::new("draft"));
    assert_eq!(&*draft.task, "what is left to do?", "the turn's input");
    let first = "outline (what is left to do?): three parts";
    assert_eq!(handed(&draft), [first]);
    shell.finish(&draft, "a text");

    let review = next(&mut shell);
    assert_eq!(&*review.task, "Look for mistakes.");
    let second = "draft (what is left to do?): a text";
    assert_eq!(handed(&review), [first, second]);
    assert!(
        result_texts(&shell).is_empty(),
        "the branch is told at the end"
    );
    shell.finish(&review, "none");

    let lead = next(&mut shell);
    assert_eq!(lead.role, RunRole::Lead);
    let third = "review (Look for mistakes.): none";
    assert_eq!(handed(&lead), [first, second, third]);
    assert_eq!(result_texts(&shell), ["three parts", "a text", "none"]);
    for later in [&draft, &review, &lead] {
        let (one, other) = (outline.snapshot.as_ref(), later.snapshot.as_ref());
        assert!(Arc::ptr_eq(one.unwrap(), other.unwrap()), "one context");
        assert!(!later.has_peers, "nobody is beside it");
    }
    shell.finish(&lead, "the article");
    assert_eq!(*shell.outcome(0), Outcome::Answered);
}

#[test]
fn a_failed_stage_is_reported_to_the_next_or_ends_the_turn() {
    let mut shell = started_pipeline(|_| {});
    let outline = next(&mut shell);
    shell.finish(&outline, "three parts");
    let draft = next(&mut shell);
    shell.fail(&draft, RunCause::BadInput);
    let review = next(&mut shell);
    let missing = "draft (what is left to do?): [bad_input]";
    assert_eq!(handed(&review)[1], missing);

    let mut shell = started_pipeline(|stage| stage.on_failure = OnFailure::Fail);
    let outline = next(&mut shell);
    shell.finish(&outline, "three parts");
    let draft = next(&mut shell);
    shell.fail(&draft, RunCause::BadInput);
    let reason = "agent draft failed: bad_input: it went wrong; it was stage 2 of 3; stages without \
                  a result: review";
    assert_eq!(shell.failure(0), ("delegate_failed", reason));
    assert_eq!(shell.facts("run_opened").len(), 2, "nobody else is asked");
    let failed = "[failed: bad_input: it went wrong]";
    assert_eq!(result_texts(&shell), ["three parts", failed, "[cancelled]"]);
}

#[test]
fn a_retried_stage_delays_the_next() {
    let mut shell = started_pipeline(|stage| stage.retries = 1);
    let outline = next(&mut shell);
    shell.fail(&outline, RunCause::Timeout);
    shell.tick(60_000);
    let again = next(&mut shell);
    assert_eq!((again.run, again.attempt), (outline.run, 2));
    shell.finish(&again, "three parts");
    assert_eq!(next(&mut shell).definition.id, AgentId::new("draft"));
}

#[test]
fn a_restart_continues_with_the_open_stage() {
    let mut shell = started_pipeline(|_| {}).recovered();
    let outline = next(&mut shell);
    shell.finish(&outline, "three parts");
    // Before the second has begun, and while it is active.
    let mut shell = shell.recovered();
    let draft = next(&mut shell);
    let mut shell = shell.recovered();
    let again = next(&mut shell);
    assert_eq!(draft.run, again.run);
    assert_eq!(handed(&draft), handed(&again));
    assert_eq!(draft.task, again.task);
    let ids = [&draft, &again].map(|assignment| assignment.snapshot.as_ref().unwrap().id());
    assert_eq!(ids[0], ids[1]);
    shell.finish(&again, "a text");
    let mut shell = shell.recovered();
    assert_eq!(next(&mut shell).definition.id, AgentId::new("review"));
    assert_eq!(shell.facts("run_opened").len(), 3, "nobody works twice");
}

#[test]
fn a_cancelled_pipeline_opens_no_further_stage() {
    let mut shell = started_pipeline(|_| {});
    let outline = next(&mut shell);
    shell.finish(&outline, "three parts");
    let draft = next(&mut shell);
    shell.feed(Input::Cancel { turn: turn_id(0) }).unwrap();
    assert_eq!(shell.cancelled(), [draft.run]);
    assert_eq!(*shell.outcome(0), Outcome::Cancelled);
    assert_eq!(
        result_texts(&shell),
        ["three parts", "[cancelled]", "[cancelled]"]
    );
    assert!(shell.dispatched().is_empty());
}

#[test]
fn one_agent_may_have_two_stages() {
    let mut shell = Shell::with(2);
    let stage = |name: &str| Stage {
        agent: AgentId::new(name),
        task: None,
    };
    let lead = Definition {
        pipeline: vec![stage("draft"), stage("review"), stage("draft")],
        ..agent("article")
    };
    let stages = ["draft", "review", "draft"].map(agent);
    shell.accept(turn(0, team(lead, stages)));
    for text in ["first", "too long", "second"] {
        let stage = next(&mut shell);
        shell.finish(&stage, text);
    }
    let lead = next(&mut shell);
    let texts = handed(&lead);
    let ends = ["first", "too long", "second"];
    assert!(
        texts
            .iter()
            .zip(ends)
            .all(|(text, end)| text.ends_with(end))
    );
}

#[test]
fn a_pipeline_is_part_of_a_definitions_digest() {
    let with = |stages: &[(&str, Option<&str>)]| {
        let stages = stages.iter().map(|(agent, task)| Stage {
            agent: AgentId::new(*agent),
            task: task.map(Into::into),
        });
        let definition = Definition {
            pipeline: stages.collect(),
            ..agent("article")
        };
        definition.digest()
    };
    let all = [
        with(&[]),
        with(&[("a", None)]),
        with(&[("a", Some("x"))]),
        with(&[("a", None), ("b", None)]),
        with(&[("b", None), ("a", None)]),
    ];
    let distinct: std::collections::BTreeSet<_> = all.iter().collect();
    assert_eq!(distinct.len(), all.len());
    assert_eq!(all[0], agent("article").digest(), "as before pipelines");
}
