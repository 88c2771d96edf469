//! The layouts of the types of sessions.

use std::sync::Arc;

use unisono_session::agent::{
    A2a, Acp, AgentKind, Command, ContextMode, Definition, Http, OnFailure, PrefixMode, Stage,
    ToolKind,
};
use unisono_session::budget::{Amount, Caps, Grant, Reservation, TurnCaps};
use unisono_session::event::{
    AcceptedTurn, Calibration, DelegatedCall, DelegationLimits, DropReason, Event, Fact,
    HookAnswer, HookPlace, HookPoint, ImportNotes, LateOutput, OpenedRun, Outcome,
    PlannedPreparation, RequestKey, RunRole, SummaryFallback, SummaryOptions, Work,
};
use unisono_session::machine::WrittenSummary;
use unisono_session::run::calls::{Approval, CallDecision, CallOutput, CallPlace, PlannedCall};
use unisono_session::run::{AttemptTimes, AuxiliaryUsage, Ending, RunCause, Step};
use unisono_session::tool::{
    ApprovalRule, Contract, HookEvent, HookFailurePolicy, HookRule, ToolRules,
};
use unisono_session::usage::{DeletedUsage, Ledger, UsageEntry, UsageSource};

use super::layout::{Fields, Layout, layout, put_optional, unknown};
use crate::error::Fault;

layout! {
    struct Event { at, fact }
    enum Fact {
        0 Created { session, title, system, labels },
        1 Appended { branch, parent, message },
        2 Posted { branch, message; key },
        3 BranchSet { branch, head },
        4 Counted { encoding, counts },
        5 PreambleCounted { preamble, encoding, count },
        6 Defined { definition },
        7 SettingsSet { settings },
        8 PhrasesSet { phrases },
        9 ToolRulesSet { rules },
        10 CallCapSet { calls },
        11 TurnAccepted { turn },
        12 TurnStarted { turn },
        13 TurnEnded { turn, outcome },
        14 Measured { turn, calibration },
        15 CompactionPlanned { turn, plan },
        16 Altered { turn, alterations },
        17 Compacted { turn, checkpoint },
        18 CompactionFailed { turn, reason },
        19 SummariserUsed { turn, model, usage },
        20 Reverted { turn, checkpoint, before },
        21 Pinned { messages },
        22 Unpinned { messages },
        23 TopicsDecided { turn, through, ends },
        24 TopicSealed { branch, last },
        25 TopicsImported { decided, sealed; notes },
        26 Frozen { turn, snapshot, manifest },
        27 RunOpened { run },
        28 RunStepped { run, step },
        29 RunRetried { run, attempt, not_before, reason },
        30 RunEnded { run, ending },
        31 LateOutputReceived { run, attempt, late },
        32 Delegated { run, round, calls },
        33 ToolsCalled { run, round, calls },
        34 ToolStarted { call },
        35 ToolEnded { call, output },
        36 ToolInDoubt { call },
        37 ToolDecided { call, decision; by },
        38 Reserved { run, reservation },
        39 CallSettled { run, call, used, is_reported },
        40 ToolsAnswered { run, round },
        41 InstructionsSet { text },
        42 HookAnswered { place, hook, answer },
        43 PreparationPlanned { preparation },
        44 SummaryPrepared { turn, summary },
        45 PreparationDropped { turn, by, reason },
        46 ToolTaskStarted { call, task },
    }
}

// Turns.
layout! {
    struct ImportNotes { opened, sealed, tightened }
    struct RequestKey { name, request; client_message_id, client_parts }
    struct AcceptedTurn {
        id, branch, work, policy, safety, lead, delegates, tools, available, calibrations,
        delegation; caps, key, short_calls, prepare, shared_headroom
    }
    struct DelegationLimits { depth, live_runs, results }
    struct Calibration { model, ratio, band }
    enum Work {
        0 Answer { input; client_options },
        1 Compact { keep, writing },
        2 CompactPart { part, writing },
        3 Revert { checkpoint },
        4 Regenerate { checkpoint, writing },
        5 Edit { checkpoint, text, counts },
    }
    struct SummaryOptions { instructions, summariser, unwritten }
    codes SummaryFallback { 0 Leave, 1 Retry, 2 Extractive }
    enum Outcome {
        0 Answered,
        1 Compacted { before, after },
        2 Failed { code, reason },
        3 Cancelled,
        4 Reverted { before, after },
    }
}

// Summaries that are written ahead.
layout! {
    struct PlannedPreparation { turn, branch, model, plan, masks, range, settings }
    struct WrittenSummary {
        body, key_facts, counts, writer, model, cost_micros, duration_ms, degraded; coverage
    }
    enum DropReason {
        0 Range, 1 Settings, 2 Room, 3 Replaced, 4 Busy, 5 Interrupted, 6 Failed(reason),
    }
}

// Agents.
layout! {
    codes ContextMode { 0 Snapshot, 1 TaskOnly }
    codes PrefixMode { 0 Shared, 1 Own }
    codes OnFailure { 0 Continue, 1 Fail }
    struct Definition {
        id, description, instructions, kind, model, limits, tools, max_model_calls, timeout_ms, retries,
        max_concurrent, context, prefix, on_failure, delegates, tags, output_schema,
        temperature_milli, cache_warm; pipeline
    }
    enum AgentKind {
        0 Llm, 1 Command(command), 2 Custom(name), 3 Http(http), 4 Pipeline, 5 A2a(remote),
        6 Acp(program),
    }
    struct Command { program, args, env, cwd; env_pass }
    struct Http { url, headers }
    struct A2a { url, headers, card_digest, contract }
    struct Acp { command, worktree, allow, contract; deny, options, login }
    codes ToolKind {
        0 Read, 1 Edit, 2 Delete, 3 Move, 4 Search, 5 Execute, 6 Think, 7 Fetch, 8 Other
    }
    struct Stage { agent, task }
}

// Runs.
layout! {
    struct OpenedRun { id, turn, role, agent, definition, snapshot, prefix }
    enum RunRole { 0 Delegate { index }, 1 Lead, 2 Child { parent, round, index } }
    struct DelegatedCall { call_id, agent, task; refused }
    enum Step {
        0 Model(reply),
        1 Tools(results),
        2 Named { name, result },
        3 Narrowed { room; output },
        4 Spent(spent),
        5 Summarised { replaced, text },
    }
    struct AuxiliaryUsage { usage; fallback }
    enum LateOutput {
        0 Reply(reply),
        1 Answer { text, partial, usage },
        2 Spent(spent),
        3 Named { name, result },
        4 Incomplete { text },
    }
    struct AttemptTimes { ; began, first_token, cache_ready }
    enum Ending {
        0 Finished { text, partial, usage, duration_ms; calls, attempt_times },
        1 Failed { cause, reason, duration_ms; text },
        2 Cancelled,
    }
    codes RunCause {
        0 Panic, 1 Timeout, 2 Spawn, 3 Exit, 4 BadOutput, 5 Model, 6 Busy, 7 BadInput,
        8 SnapshotMismatch, 9 Unavailable, 10 Rejected, 11 Overflow, 12 Refused, 13 Budget, 14 Stuck
    }
}

// Tools.
layout! {
    codes Contract { 0 Pure, 1 Idempotent, 2 AtMostOnce }
    struct ToolRules { contracts, approvals, approval_timeout_ms; hooks }
    struct HookRule { name, events, tools, on_failure }
    codes HookEvent {
        0 TurnAccepted, 1 BeforeCompaction, 2 AfterCompaction, 3 BeforeToolCall, 4 TurnEnded,
    }
    codes HookFailurePolicy { 0 Ignore, 1 Deny }
    struct HookPlace { point, rule }
    enum HookPoint { 0 Turn { turn, event, step }, 1 Call(place) }
    struct HookAnswer { ; denied, instructions, failed, reason, stderr }
    struct ApprovalRule { agent, tool, arguments }
    struct CallPlace { run, round, index }
    struct PlannedCall { call_id, tool, arguments, contract; approval, hooks, permitted }
    struct Approval { rule, until }
    struct CallOutput { content, is_error; files }
    enum CallDecision {
        0 Approved,
        1 Denied { reason },
        2 Expired,
        3 Done { text },
        4 Repeat,
        5 Failed { text },
    }
}

// Budgets and usage.
layout! {
    struct Amount { tokens, cost }
    struct Caps { tokens, cost, time_ms }
    struct TurnCaps { session, turn, run, agents; limit_ms }
    struct Reservation { call, amount, keep, wrap_up }
    struct Grant { session, period, base, used, ceiling; owner }
    struct DeletedUsage { sessions, ledger }
    enum UsageSource { 0 Agent(agent), 1 Summaries }
    struct UsageEntry { jobs, usage }
}

/// Only the usage of models is encoded; the ledger is rebuilt from it.
impl Layout for Ledger {
    fn put(&self, to: &mut Vec<u8>) -> Result<(), String> {
        let rows = self.entries();
        (rows.len() as u64).put(to)?;
        for (asker, model, used) in rows {
            asker.put(to)?;
            Arc::<str>::from(model).put(to)?;
            used.put(to)?;
        }
        Ok(())
    }

    fn take(from: &mut &[u8]) -> Result<Self, Fault> {
        let rows = Vec::<((UsageSource, Arc<str>), UsageEntry)>::take(from)?;
        let rows = rows.into_iter();
        Ok(rows
            .map(|((asker, model), used)| (asker, model, used))
            .collect())
    }
}
