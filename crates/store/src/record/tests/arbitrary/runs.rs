//! Runs, their steps and their results.

use super::*;

pub(super) fn opened() -> impl Strategy<Value = OpenedRun> {
    let role = prop_oneof![
        fields! { RunRole::Delegate { index: any::<u32>() } },
        Just(RunRole::Lead),
        fields! { RunRole::Child { parent: run_id(), round: any::<u32>(), index: any::<u32>() } },
    ];
    fields! {
        OpenedRun {
            id: run_id(),
            turn: turn_id(),
            role: role,
            agent: agent_id(),
            definition: digest(),
            snapshot: option::of(digest().prop_map(SnapshotId)),
            prefix: digest()
        }
    }
}

pub(super) fn delegated_call() -> impl Strategy<Value = DelegatedCall> {
    fields! {
        DelegatedCall {
            call_id: text(),
            agent: agent_id(),
            task: text(),
            refused: option::of(text())
        }
    }
}

pub(super) fn usage() -> impl Strategy<Value = Usage> {
    let small = || prop_oneof![Just(Tokens(0)), tokens()];
    fields! {
        Usage {
            input: small(),
            output: small(),
            cache_expected: tokens(),
            cache_read: tokens(),
            cache_write: tokens(),
            cost: option::of(cost())
        }
    }
}

pub(super) fn run_step() -> impl Strategy<Value = run::Step> {
    let result = fields! {
        ToolResult {
            call_id: text(),
            content: text(),
            is_error: any::<bool>(),
            files: list(attached_file())
        }
    };
    prop_oneof![
        reply().prop_map(run::Step::Model),
        list(result).prop_map(run::Step::Tools),
        fields! { run::Step::Named { name: text(), result: text() } },
        fields! { run::Step::Narrowed { room: tokens(), output: option::of(tokens()) } },
        spent().prop_map(run::Step::Spent),
        fields! { run::Step::Summarised { replaced: any::<u32>(), text: text() } },
    ]
}

fn spent() -> impl Strategy<Value = run::AuxiliaryUsage> {
    fields! { run::AuxiliaryUsage { usage: usage(), fallback: option::of(text()) } }
}

fn call() -> impl Strategy<Value = ToolCall> {
    fields! { ToolCall { id: text(), name: text(), arguments: text() } }
}

fn reply() -> impl Strategy<Value = Reply> {
    let sent = fields! { run::Sent { prefix: digest(), max_output: tokens() } };
    let fallback = fields! { FallbackUsed { model: text(), sent: option::of(sent) } };
    fields! {
        Reply {
            text: text(),
            calls: list(call()),
            verbatim: option::of(text()),
            usage: usage(),
            stop: select(&[Stop::Complete, Stop::CutOff, Stop::Refused][..]),
            fallback: option::of(fallback),
            request_id: option::of(text()),
            calls_left_out: any::<u32>()
        }
    }
}

pub(super) fn late() -> impl Strategy<Value = LateOutput> {
    prop_oneof![
        reply().prop_map(LateOutput::Reply),
        fields! {
            LateOutput::Answer { text: text(), partial: option::of(text()), usage: usage() }
        },
        spent().prop_map(LateOutput::Spent),
        fields! { LateOutput::Named { name: text(), result: text() } },
        text().prop_map(|text| LateOutput::Incomplete { text }),
    ]
}

pub(super) fn ending() -> impl Strategy<Value = Ending> {
    let instant = || option::of(at());
    let times = fields! {
        run::AttemptTimes { began: instant(), first_token: instant(), cache_ready: instant() }
    };
    prop_oneof![
        fields! {
            Ending::Finished {
                text: text(),
                calls: list(call()),
                partial: option::of(text()),
                usage: usage(),
                duration_ms: any::<u64>(),
                attempt_times: times
            }
        },
        fields! {
            Ending::Failed {
                cause: select(&RunCause::ALL[..]),
                reason: text(),
                duration_ms: any::<u64>(),
                text: option::of(text())
            }
        },
        Just(Ending::Cancelled),
    ]
}
