//! Runs, their steps and their results.

use super::*;

pub(super) fn opened() -> impl Strategy<Value = OpenedRun> {
    let role = prop_oneof![
        any::<u32>().prop_map(|index| RunRole::Delegate { index }),
        Just(RunRole::Lead),
        (id(RunId::from_u128), any::<u32>(), any::<u32>()).prop_map(|(parent, round, index)| {
            RunRole::Child {
                parent,
                round,
                index,
            }
        }),
    ];
    let snapshot = option::of(digest().prop_map(SnapshotId));
    (
        id(RunId::from_u128),
        turn_id(),
        role,
        agent_id(),
        digest(),
        snapshot,
        digest(),
    )
        .prop_map(
            |(id, turn, role, agent, definition, snapshot, prefix)| OpenedRun {
                id,
                turn,
                role,
                agent,
                definition,
                snapshot,
                prefix,
            },
        )
}

pub(super) fn delegated_call() -> impl Strategy<Value = DelegatedCall> {
    (text(), agent_id(), text(), option::of(text())).prop_map(|(call_id, agent, task, refused)| {
        DelegatedCall {
            call_id,
            agent,
            task,
            refused,
        }
    })
}

pub(super) fn usage() -> impl Strategy<Value = Usage> {
    let small = prop_oneof![Just(Tokens(0)), tokens()];
    let cache = (tokens(), tokens(), tokens());
    let cost = option::of(any::<u128>().prop_map(Cost));
    (small.clone(), small, cache, cost).prop_map(|(input, output, cache, cost)| Usage {
        input,
        output,
        cache_expected: cache.0,
        cache_read: cache.1,
        cache_write: cache.2,
        cost,
    })
}

pub(super) fn run_step() -> impl Strategy<Value = run::Step> {
    let result = (text(), text(), any::<bool>(), list(attached_file())).prop_map(
        |(call_id, content, is_error, files)| ToolResult {
            call_id,
            content,
            is_error,
            files,
        },
    );
    prop_oneof![
        reply().prop_map(run::Step::Model),
        list(result).prop_map(run::Step::Tools),
        (text(), text()).prop_map(|(name, result)| run::Step::Named { name, result }),
        (tokens(), option::of(tokens()))
            .prop_map(|(room, output)| run::Step::Narrowed { room, output }),
        spent().prop_map(run::Step::Spent),
        (any::<u32>(), text())
            .prop_map(|(replaced, text)| run::Step::Summarised { replaced, text }),
    ]
}

fn spent() -> impl Strategy<Value = run::AuxiliaryUsage> {
    let spent = (usage(), option::of(text()));
    spent.prop_map(|(usage, fallback)| run::AuxiliaryUsage { usage, fallback })
}

fn call() -> impl Strategy<Value = ToolCall> {
    (text(), text(), text()).prop_map(|(id, name, arguments)| ToolCall {
        id,
        name,
        arguments,
    })
}

fn fallback() -> impl Strategy<Value = FallbackUsed> {
    let sent =
        (digest(), tokens()).prop_map(|(prefix, max_output)| run::Sent { prefix, max_output });
    (text(), option::of(sent)).prop_map(|(model, sent)| FallbackUsed { model, sent })
}

fn reply() -> impl Strategy<Value = Reply> {
    let stop = select(&[Stop::Complete, Stop::CutOff, Stop::Refused][..]);
    let maybe = || option::of(text());
    let own = (maybe(), stop, option::of(fallback()), maybe());
    (text(), list(call()), usage(), own).prop_map(|(text, calls, usage, own)| Reply {
        text,
        calls,
        verbatim: own.0,
        usage,
        stop: own.1,
        fallback: own.2,
        request_id: own.3,
    })
}

pub(super) fn late() -> impl Strategy<Value = LateOutput> {
    let answer = (text(), option::of(text()), usage());
    prop_oneof![
        reply().prop_map(LateOutput::Reply),
        answer.prop_map(|(text, partial, usage)| LateOutput::Answer {
            text,
            partial,
            usage,
        }),
        spent().prop_map(LateOutput::Spent),
        (text(), text()).prop_map(|(name, result)| LateOutput::Named { name, result }),
    ]
}

fn attempt_times() -> impl Strategy<Value = run::AttemptTimes> {
    let instant = || option::of(any::<i64>().prop_map(Timestamp));
    (instant(), instant(), instant()).prop_map(|(began, first_token, cache_ready)| {
        run::AttemptTimes {
            began,
            first_token,
            cache_ready,
        }
    })
}

pub(super) fn ending() -> impl Strategy<Value = Ending> {
    prop_oneof![
        (
            text(),
            list(call()),
            option::of(text()),
            usage(),
            (any::<u64>(), attempt_times())
        )
            .prop_map(
                |(text, calls, partial, usage, (duration_ms, attempt_times))| {
                    Ending::Finished {
                        text,
                        calls,
                        partial,
                        usage,
                        duration_ms,
                        attempt_times,
                    }
                }
            ),
        (select(&RunCause::ALL[..]), text(), any::<u64>()).prop_map(
            |(cause, reason, duration_ms)| {
                Ending::Failed {
                    cause,
                    reason,
                    duration_ms,
                }
            }
        ),
        Just(Ending::Cancelled),
    ]
}
