//! Facts about runs.

use super::*;

pub(super) fn facts() -> Samples {
    let lead = OpenedRun {
        role: RunRole::Lead,
        snapshot: None,
        ..opened()
    };
    let child = OpenedRun {
        role: RunRole::Child {
            parent: RUN,
            round: 2,
            index: 1,
        },
        ..opened()
    };
    let call = |agent: &str, refused: Option<&str>| DelegatedCall {
        call_id: "call_7".into(),
        agent: AgentId::new(agent),
        task: "Look for flaws.".into(),
        refused: refused.map(Arc::from),
    };
    let reply = run::Step::Model(Reply {
        text: "I will look.".into(),
        calls: vec![tool_call("c1", "recall", r#"{"n":7}"#)],
        verbatim: Some("[{\"type\":\"thinking\"}]".into()),
        usage: USAGE,
        stop: Stop::Complete,
        fallback: Some(FallbackUsed::named("openai/gpt-4o-mini")),
        request_id: Some("req_7".into()),
        calls_left_out: 0,
    });
    let stood_in = Reply {
        text: "I will look.".into(),
        calls: vec![tool_call("c1", "recall", r#"{"n":7}"#)],
        usage: USAGE,
        fallback: Some(FallbackUsed {
            model: "openai/gpt-4o-mini".into(),
            sent: Some(run::Sent {
                prefix: Digest([0x5A; 32]),
                max_output: Tokens(16_384),
            }),
        }),
        ..Reply::default()
    };
    let results = run::Step::Tools(vec![ToolResult::new("c1", "message 7", false)]);
    let narrowed = |output: Option<u64>| run::Step::Narrowed {
        room: Tokens(12_000),
        output: output.map(Tokens),
    };
    let summarised = run::Step::Summarised {
        replaced: 6,
        text: "assistant #1 Three orders are late.".into(),
    };
    let named = run::Step::named("fetch", "[1]");
    let stepped = |step| Fact::RunStepped {
        run: RUN,
        step: Arc::new(step),
    };
    let ended = |ending| Fact::RunEnded {
        run: RUN,
        ending: Arc::new(ending),
    };
    let ending = |text: &str, calls, partial: Option<&str>, attempt_times| Ending::Finished {
        text: text.into(),
        calls,
        partial: partial.map(Arc::from),
        usage: USAGE,
        duration_ms: 4_321,
        attempt_times,
    };
    let stopped = Some("stopped after 8 model calls");
    let finished = ending("All is well.", Vec::new(), stopped, Default::default());
    let handed = vec![tool_call("call_1", "weather", r#"{"place":"Bern"}"#)];
    let handed_over = ending("", handed, None, Default::default());
    let paced = |cache_ready| {
        let times = run::AttemptTimes {
            began: Some(Timestamp(1_735_689_600_250)),
            first_token: Some(Timestamp(1_735_689_601_750)),
            cache_ready,
        };
        ending("All is well.", Vec::new(), None, times)
    };
    let cached = paced(Some(Timestamp(1_735_689_600_750)));
    let failed = |text: Option<&str>| Ending::Failed {
        cause: RunCause::BadOutput,
        reason: "no JSON".into(),
        duration_ms: 10,
        text: text.map(Arc::from),
    };
    let late = |late| Fact::LateOutputReceived {
        run: RUN,
        attempt: 2,
        late,
    };
    let spent = |fallback: Option<&str>| run::AuxiliaryUsage {
        usage: USAGE,
        fallback: fallback.map(Arc::from),
    };
    let unpriced = Reply {
        stop: Stop::CutOff,
        usage: Usage {
            cost: None,
            ..USAGE
        },
        ..Reply::default()
    };
    let left_out = Reply {
        calls_left_out: 1_871,
        ..unpriced.clone()
    };
    samples! {
        "run_opened_delegate": Fact::RunOpened { run: opened() },
        "run_opened_child": Fact::RunOpened { run: child },
        "delegated": Fact::Delegated {
            run: RUN,
            round: 2,
            calls: vec![call("ghost", Some("there is no agent `ghost`")), call("critic", None)],
        },
        "run_opened_lead": Fact::RunOpened { run: lead },
        "run_stepped_model": stepped(reply),
        "run_stepped_unpriced": stepped(run::Step::Model(unpriced)),
        "run_stepped_left_out": stepped(run::Step::Model(left_out)),
        "run_stepped_stood_in": stepped(run::Step::Model(stood_in.clone())),
        "run_stepped_tools": stepped(results),
        "run_stepped_named": stepped(named),
        "run_stepped_summarised": stepped(summarised),
        "run_stepped_narrowed": stepped(narrowed(None)),
        "run_stepped_narrowed_reply": stepped(narrowed(Some(2_048))),
        "run_stepped_spent": stepped(run::Step::Spent(spent(None))),
        "run_stepped_spent_instead":
            stepped(run::Step::Spent(spent(Some("gemini/gemini-2.5-pro")))),
        "run_retried": Fact::RunRetried {
            run: RUN,
            attempt: 2,
            not_before: Timestamp(1_735_689_601_000),
            reason: "timeout".into(),
        },
        "run_ended_finished": ended(finished),
        "run_ended_handed_over": ended(handed_over),
        "run_ended_paced": ended(paced(None)),
        "run_ended_cached": ended(cached),
        "run_ended_failed": ended(failed(None)),
        "run_ended_broken_off": ended(failed(Some("I had begun."))),
        "run_ended_cancelled": ended(Ending::Cancelled),
        "came_late_reply": late(LateOutput::Reply(Reply {
            text: "I had begun.".into(),
            usage: USAGE,
            ..Reply::default()
        })),
        "came_late_stood_in": late(LateOutput::Reply(stood_in)),
        "came_late_answer": late(LateOutput::Answer {
            text: "All was well.".into(),
            partial: Some("stopped".into()),
            usage: USAGE,
        }),
        "came_late_spent": late(LateOutput::Spent(spent(None))),
        "came_late_named": late(LateOutput::Named {
            name: "acp.report.1".into(),
            result: "{\"text\":\"I look.\"}".into(),
        }),
        "came_late_incomplete": late(LateOutput::Incomplete {
            text: "I had begun.".into(),
        }),
    }
}
