//! Rules about tools, and calls of them.

use unisono_context::attachment::{AttachedFile, Content, Extent, LoadedBytes};
use unisono_session::event::{HookAnswer, HookPlace, HookPoint};
use unisono_session::run::calls::{Approval, CallDecision, CallOutput, CallPlace, PlannedCall};
use unisono_session::tool::{
    ApprovalRule, Contract, HookEvent, HookFailurePolicy, HookRule, ToolRules,
};

use super::*;

const CALL: CallPlace = CallPlace {
    run: RUN,
    round: 2,
    index: 1,
};

pub(super) fn tool_facts() -> Samples {
    let contracts = [
        ("files__read", Contract::Pure),
        ("files__put", Contract::Idempotent),
        ("mail__send", Contract::AtMostOnce),
    ];
    let rules = ToolRules {
        contracts: contracts
            .map(|(name, contract)| (name.into(), contract))
            .into(),
        approvals: vec![ApprovalRule {
            agent: Some(AgentId::new("intern")),
            tool: "files__*".into(),
            arguments: vec![("path".into(), "/etc/*".into())],
        }],
        approval_timeout_ms: Some(3_600_000),
        hooks: Vec::new(),
    };
    let hooked = ToolRules {
        hooks: vec![HookRule {
            name: "guard".into(),
            events: HookEvent::ALL.to_vec(),
            tools: vec!["files__*".into()],
            on_failure: HookFailurePolicy::Deny,
        }],
        ..rules.clone()
    };
    let call = |approval| PlannedCall {
        call_id: "call_7".into(),
        tool: "files__put".into(),
        arguments: "{\"path\":\"/etc/hosts\"}".into(),
        contract: Contract::Idempotent,
        approval,
        hooks: Vec::new(),
        permitted: None,
    };
    let asked = PlannedCall {
        hooks: vec![0, 2],
        ..call(None)
    };
    let permission = PlannedCall {
        tool: "execute".into(),
        permitted: Some(true),
        ..call(None)
    };
    let approval = Approval {
        rule: "files__*(path=/etc/*)".into(),
        until: Some(Timestamp(1_735_693_200_123)),
    };
    let answered = |answer| Fact::HookAnswered {
        place: HookPlace {
            point: HookPoint::Call(CALL),
            rule: 2,
        },
        hook: "guard".into(),
        answer,
    };
    let decided = |decision| Fact::ToolDecided {
        call: CALL,
        decision,
        by: None,
    };
    let content = |byte, extent| Content {
        digest: Digest([byte; 32]),
        extent,
        loaded: LoadedBytes::default(),
        text: None,
    };
    let size = Extent::Pixels {
        width: 640,
        height: 480,
    };
    let picture = AttachedFile {
        filename: "shot.png".into(),
        mime: "image/png".into(),
        size_bytes: 70_000,
        content: content(7, size),
        text: None,
    };
    let plan = AttachedFile {
        filename: "plan.pdf".into(),
        mime: "application/pdf".into(),
        size_bytes: 900,
        content: content(8, Extent::Pages(1)),
        text: Some("[page 1]\nWe ship on Friday.\n".into()),
    };
    let attached = |text: &str, file| Fact::ToolEnded {
        call: CALL,
        output: CallOutput {
            files: vec![file],
            ..CallOutput::text(text, false)
        },
    };
    let denied = CallDecision::Denied {
        reason: Some("not there".into()),
    };
    let done = CallDecision::Done {
        text: "it was sent".into(),
    };
    let failed = CallDecision::Failed {
        text: "it bounced".into(),
    };
    samples! {
        "tool_rules_set": Fact::ToolRulesSet { rules: rules.into() },
        "tool_rules_set_hooks": Fact::ToolRulesSet { rules: hooked.into() },
        "tools_called_hooks": Fact::ToolsCalled { run: RUN, round: 2, calls: vec![asked] },
        "tools_called_permission": Fact::ToolsCalled {
            run: RUN,
            round: 2,
            calls: vec![permission],
        },
        "hook_answered": answered(HookAnswer::default()),
        "hook_answered_denied": answered(HookAnswer {
            denied: Some("not there".into()),
            instructions: Some("Keep the dates.".into()),
            failed: Some("it hung".into()),
            ..HookAnswer::default()
        }),
        "hook_answered_allowed": answered(HookAnswer {
            reason: Some("a read".into()),
            stderr: Some("checked 3 rules".into()),
            ..HookAnswer::default()
        }),
        "hook_answered_turn": Fact::HookAnswered {
            place: HookPlace {
                point: HookPoint::Turn { turn: TURN, event: HookEvent::BeforeCompaction, step: 3 },
                rule: 0,
            },
            hook: "notes".into(),
            answer: HookAnswer {
                instructions: Some("Keep the dates.".into()),
                ..HookAnswer::default()
            },
        },
        "tools_called": Fact::ToolsCalled {
            run: RUN,
            round: 2,
            calls: vec![call(None), call(Some(approval))],
        },
        "tool_started": Fact::ToolStarted { call: CALL },
        "tool_task_started": Fact::ToolTaskStarted { call: CALL, task: "task-7".into() },
        "tool_ended": Fact::ToolEnded {
            call: CALL,
            output: CallOutput::text("no such file", true),
        },
        "tool_ended_files": attached("see the picture", picture),
        "tool_ended_document": attached("see the plan", plan),
        "tools_answered": Fact::ToolsAnswered { run: RUN, round: 2 },
        "tool_in_doubt": Fact::ToolInDoubt { call: CALL },
        "tool_decided_approved": decided(CallDecision::Approved),
        "tool_decided_by": Fact::ToolDecided {
            call: CALL,
            decision: CallDecision::Approved,
            by: Some("ada".into()),
        },
        "tool_decided_denied": decided(denied),
        "tool_decided_expired": decided(CallDecision::Expired),
        "tool_decided_done": decided(done),
        "tool_decided_repeat": decided(CallDecision::Repeat),
        "tool_decided_failed": decided(failed),
    }
}
