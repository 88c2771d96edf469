//! Rules about tools, and calls of them.

use unisono_session::event::{HookAnswer, HookPlace, HookPoint};
use unisono_session::run::calls::{Approval, CallDecision, CallOutput, CallPlace, PlannedCall};
use unisono_session::tool::{
    ApprovalRule, Contract, HookEvent, HookFailurePolicy, HookRule, ToolRules,
};

use super::*;

fn contract() -> impl Strategy<Value = Contract> {
    select(&Contract::ALL[..])
}

fn rules() -> impl Strategy<Value = ToolRules> {
    let approval = (option::of(agent_id()), text(), list((text(), text())));
    let approval = approval.prop_map(|(agent, tool, arguments)| ApprovalRule {
        agent,
        tool,
        arguments,
    });
    let timeout = option::of(any::<u64>());
    (
        list((text(), contract())),
        list(approval),
        timeout,
        list(hook()),
    )
        .prop_map(
            |(contracts, approvals, approval_timeout_ms, hooks)| ToolRules {
                contracts,
                approvals,
                approval_timeout_ms,
                hooks,
            },
        )
}

fn hook() -> impl Strategy<Value = HookRule> {
    let events = list(select(&HookEvent::ALL[..]));
    let on_failure = select(&[HookFailurePolicy::Ignore, HookFailurePolicy::Deny][..]);
    (text(), events, list(text()), on_failure).prop_map(|(name, events, tools, on_failure)| {
        HookRule {
            name,
            events,
            tools,
            on_failure,
        }
    })
}

fn hook_place() -> impl Strategy<Value = HookPlace> {
    let of_turn = (
        id(TurnId::from_u128),
        select(&HookEvent::ALL[..]),
        any::<u32>(),
    );
    let of_turn = of_turn.prop_map(|(turn, event, step)| HookPoint::Turn { turn, event, step });
    let point = prop_oneof![of_turn, place().prop_map(HookPoint::Call)];
    (point, any::<u32>()).prop_map(|(point, rule)| HookPlace { point, rule })
}

fn hook_answer() -> impl Strategy<Value = HookAnswer> {
    let each = (
        option::of(text()),
        option::of(text()),
        option::of(text()),
        option::of(text()),
        option::of(text()),
    );
    each.prop_map(
        |(denied, instructions, failed, reason, stderr)| HookAnswer {
            denied,
            instructions,
            failed,
            reason,
            stderr,
        },
    )
}

fn place() -> impl Strategy<Value = CallPlace> {
    (id(RunId::from_u128), any::<u32>(), any::<u32>()).prop_map(|(run, round, index)| CallPlace {
        run,
        round,
        index,
    })
}

fn planned() -> impl Strategy<Value = PlannedCall> {
    let approval = (text(), option::of(at())).prop_map(|(rule, until)| Approval { rule, until });
    let hooks = list(any::<u32>());
    (
        text(),
        text(),
        text(),
        contract(),
        option::of(approval),
        hooks,
        option::of(any::<bool>()),
    )
        .prop_map(
            |(call_id, tool, arguments, contract, approval, hooks, permitted)| PlannedCall {
                call_id,
                tool,
                arguments,
                contract,
                approval,
                hooks,
                permitted,
            },
        )
}

fn decision() -> impl Strategy<Value = CallDecision> {
    prop_oneof![
        Just(CallDecision::Approved),
        option::of(text()).prop_map(|reason| CallDecision::Denied { reason }),
        Just(CallDecision::Expired),
        text().prop_map(|text| CallDecision::Done { text }),
        Just(CallDecision::Repeat),
        text().prop_map(|text| CallDecision::Failed { text }),
    ]
}

pub(super) fn tool_facts() -> Vec<(&'static str, BoxedStrategy<Fact>)> {
    let output =
        (text(), any::<bool>(), list(attached_file())).prop_map(|(content, is_error, files)| {
            CallOutput {
                content,
                is_error,
                files,
            }
        });
    vec![
        (
            "ToolRulesSet",
            rules()
                .prop_map(|rules| Fact::ToolRulesSet {
                    rules: rules.into(),
                })
                .boxed(),
        ),
        (
            "ToolsCalled",
            (id(RunId::from_u128), any::<u32>(), list(planned()))
                .prop_map(|(run, round, calls)| Fact::ToolsCalled { run, round, calls })
                .boxed(),
        ),
        (
            "ToolStarted",
            place().prop_map(|call| Fact::ToolStarted { call }).boxed(),
        ),
        (
            "ToolTaskStarted",
            (place(), text())
                .prop_map(|(call, task)| Fact::ToolTaskStarted { call, task })
                .boxed(),
        ),
        (
            "ToolEnded",
            (place(), output)
                .prop_map(|(call, output)| Fact::ToolEnded { call, output })
                .boxed(),
        ),
        (
            "ToolInDoubt",
            place().prop_map(|call| Fact::ToolInDoubt { call }).boxed(),
        ),
        (
            "HookAnswered",
            (hook_place(), text(), hook_answer())
                .prop_map(|(place, hook, answer)| Fact::HookAnswered {
                    place,
                    hook,
                    answer,
                })
                .boxed(),
        ),
        (
            "ToolDecided",
            (place(), decision(), proptest::option::of(text()))
                .prop_map(|(call, decision, by)| Fact::ToolDecided { call, decision, by })
                .boxed(),
        ),
    ]
}
