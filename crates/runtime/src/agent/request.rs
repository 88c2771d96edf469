//! Builds the request of a model or the input of a program from a run assignment: from values
//! alone, so that it can be built again.

use std::sync::Arc;

use bytes::Bytes;
use unisono_context::Snapshot;
use unisono_model::language::{Colleague, Exchange, Request};
use unisono_model::prompt::{self, DelegateOutcome, DelegateResult, Group, Prefix, Tail};
use unisono_session::assignment::RunAssignment;
use unisono_session::reserve::DELEGATE;
use unisono_session::run::tail::{self, Masked};
use unisono_session::run::{self, Ending, Step};
use unisono_session::tool;

use super::{group, persona};

/// A request for a task on the frozen context, according to the definition.
pub(crate) fn for_task(assignment: &RunAssignment, prefix: Prefix, task: Arc<str>) -> Request {
    let definition = &assignment.definition;
    let (group, persona) = (group(definition), persona(definition));
    let max_output = definition.limits.max_output;
    Request {
        snapshot: assignment.snapshot.clone(),
        tools: assignment.tools.clone(),
        output_schema: definition.output_schema.clone(),
        allowed: allowed(assignment),
        colleagues: colleagues(assignment),
        client_options: assignment.client_options.clone(),
        temperature_milli: definition.temperature_milli,
        cache_warm: definition.cache_warm,
        has_peers: assignment.has_peers,
        place: assignment.sibling_index,
        bounded: assignment.bounded,
        ..Request::new(prefix, group, persona, task, max_output)
    }
}

/// The first request of a model-driven run, with the results of its delegates.
pub(crate) fn first(assignment: &RunAssignment, prefix: Prefix) -> Request {
    Request {
        results: delegated(assignment).into(),
        ..for_task(assignment, prefix, assignment.task.clone())
    }
}

/// The request of a run after these steps.
pub(crate) fn continuation(
    first: &Request,
    steps: &[Arc<Step>],
    masked: &[Masked],
    wrap_up: Option<Arc<str>>,
) -> Request {
    Request {
        summary: tail::summary(steps).map(|(_, text)| tail::summary_note(text).into()),
        exchange: exchange(steps, masked),
        max_output: run::longest_reply(steps, first.max_output),
        wrap_up,
        ..first.clone()
    }
}

/// The input of a program: the shared prefix and its end, as one JSON document. A program has no
/// window, so results are complete.
pub(crate) fn document(assignment: &RunAssignment, prefix: &Prefix) -> [Bytes; 2] {
    document_with(assignment, prefix, &delegated(assignment))
}

/// The same with these results.
pub(crate) fn document_with(
    assignment: &RunAssignment,
    prefix: &Prefix,
    results: &[DelegateResult],
) -> [Bytes; 2] {
    let definition = &assignment.definition;
    let tail = Tail {
        persona: &persona(definition),
        task: (!prompt::is_newest_message(context(assignment), &assignment.task))
            .then_some(&*assignment.task),
        results,
        run: assignment.run,
        attempt: assignment.attempt,
    };
    [prefix.bytes().clone(), tail.render(&group(definition))]
}

/// The recorded steps as an exchange with the model, with masks and summaries. Named steps belong
/// to the author's code and are omitted.
fn exchange(steps: &[Arc<Step>], masked: &[Masked]) -> Vec<Exchange> {
    let replaced = tail::summary(steps).map_or(0, |(replaced, _)| replaced);
    let exchange = steps
        .iter()
        .enumerate()
        .skip(replaced)
        .filter_map(|(at, step)| match &**step {
            Step::Model(reply) => Some(Exchange::Reply(reply.clone())),
            Step::Tools(results) => {
                Some(Exchange::Results(tail::shown_results(at, results, masked)))
            }
            Step::Named { .. }
            | Step::Narrowed { .. }
            | Step::Spent(_)
            | Step::Summarised { .. } => None,
        });
    exchange.collect()
}

/// The tools that the model may call. `delegate` is omitted if there is no available agent.
fn allowed(assignment: &RunAssignment) -> Arc<[Arc<str>]> {
    let alone = assignment.colleagues.is_empty();
    let tools = assignment.tools.iter().map(|tool| &tool.name);
    tools
        .filter(|tool| {
            assignment.client_options.has(tool) || tool::allows(&assignment.definition.tools, tool)
        })
        .filter(|tool| !alone || ***tool != *DELEGATE)
        .cloned()
        .collect()
}

/// The agents to which the model may delegate.
fn colleagues(assignment: &RunAssignment) -> Arc<[Colleague]> {
    let mut tools = assignment.definition.tools.iter();
    if !tools.any(|tool| **tool == *DELEGATE) {
        return Arc::from([]);
    }
    let colleagues = assignment.colleagues.iter().map(|agent| Colleague {
        agent: agent.id.clone(),
        description: agent.description.clone(),
    });
    colleagues.collect()
}

/// The context in the agent's prompt.
fn context(assignment: &RunAssignment) -> Option<&Snapshot> {
    let given = assignment.snapshot.as_deref();
    given.filter(|_| group(&assignment.definition) != Group::TaskOnly)
}

/// The delegates' results in the agent's prompt. A task that is the turn's input is not repeated.
fn delegated(assignment: &RunAssignment) -> Vec<DelegateResult> {
    let said = |task: &str| {
        *task == *assignment.task || prompt::is_newest_message(context(assignment), task)
    };
    let results = assignment.results.iter().map(|delivered| DelegateResult {
        agent: delivered.agent.clone(),
        task: Some(&delivered.task).filter(|task| !said(task)).cloned(),
        outcome: outcome(&delivered.ending),
        rest: None,
    });
    results.collect()
}

fn outcome(ending: &Ending) -> DelegateOutcome {
    match ending {
        Ending::Finished {
            text,
            partial: None,
            ..
        } => DelegateOutcome::Complete(text.clone()),
        Ending::Finished {
            text,
            partial: Some(why),
            ..
        } => DelegateOutcome::Partial {
            text: text.clone(),
            missing: why.clone(),
        },
        Ending::Failed { cause, reason, .. } => {
            DelegateOutcome::Failed(format!("{}: {reason}", cause.code()).into())
        }
        Ending::Cancelled => DelegateOutcome::Failed("cancelled".into()),
    }
}

pub(crate) fn reply_count(steps: &[Arc<Step>]) -> u32 {
    let replies = steps
        .iter()
        .filter(|step| matches!(***step, Step::Model(_)));
    u32::try_from(replies.count()).unwrap_or(u32::MAX)
}
