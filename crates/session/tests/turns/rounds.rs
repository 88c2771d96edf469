//! Leads that delegate, step by step.

use std::sync::Arc;

use unisono_context::message::{Part, Role};
use unisono_context::{AgentId, RunId};
use unisono_session::agent::{Definition, Team};
use unisono_session::assignment::RunAssignment;
use unisono_session::machine::{DelegateCall, NewTurn};
use unisono_session::run::{DelegationStatus, Ending, Reply, Step, ToolCall};
use unisono_session::{Fact, Input};

use crate::shell::*;

/// A lead that may call these agents, in progress.
pub fn started_lead(available: impl IntoIterator<Item = Definition>) -> (Shell, RunAssignment) {
    let team = team(agent("lead"), []);
    started(turn(0, with(team, available)))
}

pub fn started(turn: NewTurn) -> (Shell, RunAssignment) {
    let mut shell = Shell::with(2);
    let lead = shell.dispatch(turn).remove(0);
    (shell, lead)
}

pub fn with(team: Team, available: impl IntoIterator<Item = Definition>) -> Team {
    Team {
        available: available.into_iter().map(Arc::new).collect(),
        ..team
    }
}

pub fn agents(names: &[&str]) -> Vec<Definition> {
    names.iter().map(|name| agent(name)).collect()
}

pub fn call(agent: &str, task: &str) -> DelegateCall {
    DelegateCall {
        call_id: format!("call-{agent}").into(),
        agent: AgentId::new(agent),
        task: task.into(),
    }
}

/// The reply with the calls, and the delegation.
pub fn delegate(shell: &mut Shell, assignment: &RunAssignment, round: u32, calls: &[DelegateCall]) {
    let reply = Reply {
        text: format!("round {round}").into(),
        calls: calls
            .iter()
            .map(|call| ToolCall::new(call.call_id.clone(), "delegate", "{}"))
            .collect(),
        ..Reply::default()
    };
    shell.step(assignment, Step::Model(reply));
    ask(shell, assignment, round, calls);
}

pub fn ask(shell: &mut Shell, assignment: &RunAssignment, round: u32, calls: &[DelegateCall]) {
    let input = Input::Delegate {
        run: assignment.run,
        attempt: assignment.attempt,
        round,
        calls: calls.to_vec(),
    };
    shell.feed(input).unwrap();
}

pub fn results(shell: &Shell, run: RunId, round: u32) -> Vec<(String, bool)> {
    match shell.state().delegation_status(run, round) {
        DelegationStatus::Ended(results) => results
            .iter()
            .map(|result| (result.content.to_string(), result.is_error))
            .collect(),
        other => panic!("{other:?}"),
    }
}

/// The newest messages of the branch, one line per part.
pub fn shown(shell: &Shell, messages: usize) -> Vec<String> {
    let tree = shell.state().tree();
    let nodes: Vec<_> = tree.iter().collect();
    let newest = nodes.iter().skip(nodes.len() - messages);
    let line = |role: Role, part: &Part| match part {
        Part::Text(text) => format!("{role}: {text}"),
        Part::ToolCall {
            id,
            name,
            arguments,
        } => format!("{role}: {id} {name} {arguments}"),
        Part::ToolResult {
            call_id,
            content,
            is_error,
        } => format!("{role}: {call_id} {content} {is_error}"),
        Part::Attachment { filename, .. } => format!("{role}: {filename}"),
    };
    newest
        .flat_map(|node| {
            node.message
                .parts
                .iter()
                .map(|part| line(node.message.role, part))
        })
        .collect()
}

pub fn ended_as(shell: &Shell, run: RunId) -> Ending {
    let ending = shell
        .facts("run_ended")
        .into_iter()
        .find_map(|fact| match fact {
            Fact::RunEnded { run: ended, ending } if *ended == run => Some(ending.clone()),
            _ => None,
        });
    (*ending.expect("it ended")).clone()
}
