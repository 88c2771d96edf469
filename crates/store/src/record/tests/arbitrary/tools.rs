//! Rules about tools, and calls of them.

use unisono_session::run::calls::{Approval, CallPlace, Decision, Output, PlannedCall};
use unisono_session::tool::{ApprovalRule, Contract, Rules};

use super::*;

fn contract() -> impl Strategy<Value = Contract> {
    select(&Contract::ALL[..])
}

fn rules() -> impl Strategy<Value = Rules> {
    let approval = (option::of(agent_id()), text(), list((text(), text())));
    let approval = approval.prop_map(|(agent, tool, arguments)| ApprovalRule {
        agent,
        tool,
        arguments,
    });
    let timeout = option::of(any::<u64>());
    (list((text(), contract())), list(approval), timeout).prop_map(
        |(contracts, approvals, approval_timeout_ms)| Rules {
            contracts,
            approvals,
            approval_timeout_ms,
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
    (text(), text(), text(), contract(), option::of(approval)).prop_map(
        |(call_id, tool, arguments, contract, approval)| PlannedCall {
            call_id,
            tool,
            arguments,
            contract,
            approval,
        },
    )
}

fn decision() -> impl Strategy<Value = Decision> {
    prop_oneof![
        Just(Decision::Approved),
        option::of(text()).prop_map(|reason| Decision::Denied { reason }),
        Just(Decision::Expired),
        text().prop_map(|text| Decision::Done { text }),
        Just(Decision::Repeat),
        text().prop_map(|text| Decision::Failed { text }),
    ]
}

pub(super) fn tool_facts() -> Vec<(&'static str, BoxedStrategy<Fact>)> {
    let output =
        (text(), any::<bool>()).prop_map(|(content, is_error)| Output { content, is_error });
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
            "ToolDecided",
            (place(), decision())
                .prop_map(|(call, decision)| Fact::ToolDecided { call, decision })
                .boxed(),
        ),
    ]
}
