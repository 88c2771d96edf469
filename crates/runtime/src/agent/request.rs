//! What an agent's brief makes of a model's request or a program's input: from values alone, so
//! that what was sent can be made again.

use std::sync::Arc;

use bytes::Bytes;
use unisono_context::Snapshot;
use unisono_model::language::{Colleague, Exchange, Listener, Request};
use unisono_model::prompt::{self, Delegated, Group, Outcome, Prefix, Tail};
use unisono_session::brief::Brief;
use unisono_session::run::tail::{self, Masked};
use unisono_session::run::{self, Ending, Step};
use unisono_session::tool;

use super::{group, persona};
use crate::tools;

/// A request for a task on the frozen context, as the definition has it.
pub(crate) fn of(brief: &Brief, prefix: Prefix, task: Arc<str>) -> Request {
    let definition = &brief.definition;
    Request {
        prefix,
        group: group(definition),
        snapshot: brief.snapshot.clone(),
        tools: brief.tools.clone(),
        output_schema: definition.output_schema.clone(),
        persona: persona(definition),
        allowed: allowed(brief),
        colleagues: colleagues(brief),
        task,
        results: Arc::from([]),
        exchange: Vec::new(),
        wrap_up: None,
        lent: brief.lent.clone(),
        max_output: definition.limits.max_output,
        temperature_milli: definition.temperature_milli,
        cache_warm: definition.cache_warm,
        has_peers: brief.has_peers,
        place: brief.place,
        patience: None,
        bounded: brief.bounded,
        listener: Listener::NONE,
    }
}

/// The first request of a model-driven run, with what its delegates came back with.
pub(crate) fn first(brief: &Brief, prefix: Prefix) -> Request {
    Request {
        results: delegated(brief).into(),
        ..of(brief, prefix, brief.task.clone())
    }
}

/// The request that follows a run's first one after those steps.
pub(crate) fn after(
    first: &Request,
    steps: &[Arc<Step>],
    masked: &[Masked],
    wrap_up: Option<Arc<str>>,
) -> Request {
    Request {
        exchange: exchange(steps, masked),
        max_output: run::longest_reply(steps, first.max_output),
        wrap_up,
        ..first.clone()
    }
}

/// What a program is given: the shared prefix and what closes it, one JSON document. It has no
/// window, so results are whole.
pub(crate) fn document(brief: &Brief, prefix: &Prefix) -> [Bytes; 2] {
    document_with(brief, prefix, &delegated(brief))
}

/// The same with these results.
pub(crate) fn document_with(brief: &Brief, prefix: &Prefix, results: &[Delegated]) -> [Bytes; 2] {
    let definition = &brief.definition;
    let tail = Tail {
        persona: &persona(definition),
        task: (!prompt::is_shown(context(brief), &brief.task)).then_some(&*brief.task),
        results,
        run: brief.run,
        attempt: brief.attempt,
    };
    [prefix.bytes().clone(), tail.render(&group(definition))]
}

/// The recorded steps as the model said or was told them, but for what is left out. Named steps
/// are an author's own.
fn exchange(steps: &[Arc<Step>], masked: &[Masked]) -> Vec<Exchange> {
    let exchange = steps
        .iter()
        .enumerate()
        .filter_map(|(at, step)| match &**step {
            Step::Model(reply) => Some(Exchange::Reply(reply.clone())),
            Step::Tools(results) => Some(Exchange::Results(tail::shown(at, results, masked))),
            Step::Named { .. } | Step::Narrowed { .. } | Step::Spent(_) => None,
        });
    exchange.collect()
}

/// The tools the model is told it may call: nobody is told to delegate who has nobody to
/// delegate to.
fn allowed(brief: &Brief) -> Arc<[Arc<str>]> {
    let alone = brief.colleagues.is_empty();
    let tools = brief.tools.iter().map(|tool| &tool.name);
    tools
        .filter(|tool| brief.lent.has(tool) || tool::allows(&brief.definition.tools, tool))
        .filter(|tool| !alone || ***tool != *tools::DELEGATE)
        .cloned()
        .collect()
}

/// Whom the model is told it may delegate to.
fn colleagues(brief: &Brief) -> Arc<[Colleague]> {
    let mut tools = brief.definition.tools.iter();
    if !tools.any(|tool| **tool == *tools::DELEGATE) {
        return Arc::from([]);
    }
    let colleagues = brief.colleagues.iter().map(|agent| Colleague {
        agent: agent.id.clone(),
        description: agent.description.clone(),
    });
    colleagues.collect()
}

/// The context that an agent is shown.
fn context(brief: &Brief) -> Option<&Snapshot> {
    let given = brief.snapshot.as_deref();
    given.filter(|_| group(&brief.definition) != Group::TaskOnly)
}

/// The delegates' results as an agent is told of them. The input is not said again.
fn delegated(brief: &Brief) -> Vec<Delegated> {
    let said = |task: &str| *task == *brief.task || prompt::is_shown(context(brief), task);
    let results = brief.results.iter().map(|delivered| Delegated {
        agent: delivered.agent.clone(),
        task: Some(&delivered.task).filter(|task| !said(task)).cloned(),
        outcome: outcome(&delivered.ending),
        rest: None,
    });
    results.collect()
}

fn outcome(ending: &Ending) -> Outcome {
    match ending {
        Ending::Finished {
            text,
            partial: None,
            ..
        } => Outcome::Complete(text.clone()),
        Ending::Finished {
            text,
            partial: Some(why),
            ..
        } => Outcome::Partial {
            text: text.clone(),
            missing: why.clone(),
        },
        Ending::Failed { cause, reason, .. } => {
            Outcome::Failed(format!("{}: {reason}", cause.code()).into())
        }
        Ending::Cancelled => Outcome::Failed("cancelled".into()),
    }
}
