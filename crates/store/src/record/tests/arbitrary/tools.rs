//! Rules about tools, and calls of them.

use unisono_session::event::{HookAnswer, HookPlace, HookPoint};
use unisono_session::run::calls::{Approval, CallDecision, CallOutput, CallPlace, PlannedCall};
use unisono_session::tool::{
    ApprovalRule, Contract, HookEvent, HookFailurePolicy, HookRule, ToolRules,
};

use super::*;

pub(super) fn contract() -> impl Strategy<Value = Contract> {
    select(&Contract::ALL[..])
}

fn rules() -> impl Strategy<Value = ToolRules> {
    let approval = fields! {
        ApprovalRule {
            agent: option::of(agent_id()),
            tool: text(),
            arguments: list((text(), text()))
        }
    };
    fields! {
        ToolRules {
            contracts: list((text(), contract())),
            approvals: list(approval),
            approval_timeout_ms: option::of(any::<u64>()),
            hooks: list(hook())
        }
    }
}

fn hook() -> impl Strategy<Value = HookRule> {
    fields! {
        HookRule {
            name: text(),
            events: list(select(&HookEvent::ALL[..])),
            tools: list(text()),
            on_failure: select(&[HookFailurePolicy::Ignore, HookFailurePolicy::Deny][..])
        }
    }
}

fn hook_place() -> impl Strategy<Value = HookPlace> {
    let event = select(&HookEvent::ALL[..]);
    let point = prop_oneof![
        fields! { HookPoint::Turn { turn: turn_id(), event: event, step: any::<u32>() } },
        place().prop_map(HookPoint::Call),
    ];
    fields! { HookPlace { point: point, rule: any::<u32>() } }
}

fn hook_answer() -> impl Strategy<Value = HookAnswer> {
    let maybe = || option::of(text());
    fields! {
        HookAnswer {
            denied: maybe(),
            instructions: maybe(),
            failed: maybe(),
            reason: maybe(),
            stderr: maybe()
        }
    }
}

fn place() -> impl Strategy<Value = CallPlace> {
    fields! { CallPlace { run: run_id(), round: any::<u32>(), index: any::<u32>() } }
}

fn planned() -> impl Strategy<Value = PlannedCall> {
    let approval = fields! { Approval { rule: text(), until: option::of(at()) } };
    fields! {
        PlannedCall {
            call_id: text(),
            tool: text(),
            arguments: text(),
            contract: contract(),
            approval: option::of(approval),
            hooks: list(any::<u32>()),
            permitted: option::of(any::<bool>())
        }
    }
}

fn decision() -> impl Strategy<Value = CallDecision> {
    prop_oneof![
        Just(CallDecision::Approved),
        fields! { CallDecision::Denied { reason: option::of(text()) } },
        Just(CallDecision::Expired),
        fields! { CallDecision::Done { text: text() } },
        Just(CallDecision::Repeat),
        fields! { CallDecision::Failed { text: text() } },
    ]
}

fn output() -> impl Strategy<Value = CallOutput> {
    fields! {
        CallOutput { content: text(), is_error: any::<bool>(), files: list(attached_file()) }
    }
}

pub(super) fn tool_facts() -> Facts {
    fact_strategies! {
        ToolRulesSet { rules: rules().prop_map(Arc::new) }
        ToolsCalled { run: run_id(), round: any::<u32>(), calls: list(planned()) }
        ToolsAnswered { run: run_id(), round: any::<u32>() }
        ToolStarted { call: place() }
        ToolTaskStarted { call: place(), task: text() }
        ToolEnded { call: place(), output: output() }
        ToolInDoubt { call: place() }
        HookAnswered { place: hook_place(), hook: text(), answer: hook_answer() }
        ToolDecided { call: place(), decision: decision(), by: option::of(text()) }
    }
}
