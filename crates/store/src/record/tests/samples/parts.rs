//! The parts of the samples.

use unisono_session::budget::TurnCaps;

use unisono_context::attachment::{Content, DocumentText, Extent, FileRules, LoadedBytes, Rule};

use super::*;

pub(super) fn message() -> NewMessage {
    NewMessage {
        id: MESSAGE,
        role: Role::Assistant,
        parts: vec![
            Part::text("See the file."),
            Part::tool_call("c1", "read", "{}"),
            Part::tool_result("c1", "", true),
            Part::attachment("a.png", "image/png", 70_000, None),
        ],
        author: Some(AgentId::new("scout")),
        at: Timestamp(1_735_689_600_000),
        usage: Some(ReportedUsage {
            input: Tokens(900),
            output: Tokens(20),
        }),
    }
}

pub(super) fn message_with_contents() -> NewMessage {
    let part = |filename: &str, mime: &str, extent| Part::Attachment {
        filename: filename.into(),
        mime: mime.into(),
        size_bytes: 70_000,
        content: Some(Content {
            digest: Digest([7; 32]),
            extent,
            loaded: LoadedBytes::default(),
            text: None,
        }),
    };
    let size = Extent::Pixels {
        width: 640,
        height: 480,
    };
    NewMessage {
        role: Role::User,
        parts: vec![
            part("a.png", "image/png", size),
            part("b.pdf", "application/pdf", Extent::Pages(3)),
        ],
        author: None,
        usage: None,
        ..message()
    }
}

/// The same; the text of the second content is stored.
pub(super) fn message_with_document() -> NewMessage {
    let mut message = message_with_contents();
    if let Some(document) = message.parts[1].content_mut() {
        document.text = Some(DocumentText {
            digest: Digest([9; 32]),
            tokens: Tokens(12),
        });
    }
    message
}

pub(super) fn command() -> agent::Command {
    agent::Command {
        program: "/usr/bin/env".into(),
        args: vec!["python3".into(), "agent.py".into()],
        env: [("LANG".into(), "C".into())].into(),
        cwd: Some("/srv".into()),
        env_pass: Vec::new(),
    }
}

pub(super) fn http() -> agent::Http {
    agent::Http {
        url: "https://agents.test/scout".into(),
        headers: [("Authorization".into(), "Bearer ${SCOUT_TOKEN}".into())].into(),
    }
}

pub(super) fn definition(kind: agent::AgentKind) -> Definition {
    Definition {
        id: AgentId::new("scout"),
        description: "looks around".into(),
        instructions: "Look around.".into(),
        kind,
        model: "openai/gpt-4o".into(),
        limits: Limits {
            window: Tokens(128_000),
            max_output: Tokens(16_384),
            encoding: Encoding::O200kBase,
            per_message: Tokens(3),
            files: Default::default(),
        },
        tools: vec!["recall".into()],
        max_model_calls: 8,
        timeout_ms: 120_000,
        retries: 2,
        max_concurrent: 4,
        context: agent::ContextMode::TaskOnly,
        prefix: agent::PrefixMode::Own,
        output_schema: Some("{\"type\":\"object\"}".into()),
        temperature_milli: Some(700),
        cache_warm: CacheWarm::Prewarm,
        on_failure: agent::OnFailure::Fail,
        delegates: vec![AgentId::new("critic")],
        pipeline: Vec::new(),
        tags: vec!["fast".into()],
    }
}

pub(super) fn defined(kind: agent::AgentKind) -> Fact {
    Fact::Defined {
        definition: definition(kind).into(),
    }
}

fn file_rules() -> FileRules {
    FileRules::for_model(Rule::Gemini, true, true)
}

/// An agent of whose model it is known how it gets attachments.
pub(super) fn defined_with_files() -> Fact {
    let mut definition = definition(agent::AgentKind::Llm);
    definition.limits.files = file_rules();
    Fact::Defined {
        definition: definition.into(),
    }
}

pub(super) fn policy() -> Policy {
    Policy {
        preset: Preset::Checkpoint,
        trigger: Some(Trigger::Tokens(Tokens(80_000))),
        minimum: Tokens(2_000),
        target: Ppm(800_000),
        keep: Keep::Messages(10),
        method: Method::Summarise { cap: Tokens(2_048) },
        masking: Some(Masking {
            over: Tokens(1_000),
            keep_newest: 3,
        }),
        quota: Some(ModelQuota {
            checkpoints: 5,
            per_ms: 86_400_000,
        }),
    }
}

pub(super) fn accepted(work: Work, policy: Policy) -> Fact {
    accepted_with(work, policy, |_| ())
}

pub(super) fn accepted_with(
    work: Work,
    policy: Policy,
    change: impl FnOnce(&mut AcceptedTurn),
) -> Fact {
    let mut turn = Box::new(AcceptedTurn {
        id: TURN,
        branch: "main".into(),
        work,
        policy,
        safety: Ppm(50_000),
        lead: DIGEST,
        delegates: vec![(DIGEST, Some("Look for flaws.".into())), (DIGEST, None)],
        tools: vec![ToolSpec::new(
            "recall",
            "reads a message",
            "{\"type\":\"object\"}",
        )],
        available: vec![DIGEST],
        calibrations: vec![Calibration {
            model: "anthropic/claude-sonnet-4-5".into(),
            ratio: Ppm(1_180_000),
            band: Ppm(30_000),
        }],
        delegation: DelegationLimits {
            depth: 2,
            live_runs: 32,
            results: DelegationLimits::RESULTS,
        },
        caps: TurnCaps::default(),
        key: None,
        short_calls: false,
        prepare: None,
        shared_headroom: false,
    });
    change(&mut turn);
    Fact::TurnAccepted { turn }
}

pub(super) fn cover() -> Cover {
    Cover {
        spans: vec![
            Span::new(Ordinal(1), Ordinal(40)),
            Span::new(Ordinal(42), Ordinal(42)),
        ],
        fresh: vec![Span::new(Ordinal(21), Ordinal(40))],
        cutoff: Ordinal(42),
        supersedes: vec![CHECKPOINT],
        original: Tokens(60_000),
    }
}

pub(super) fn planned(step: Step) -> Fact {
    Fact::CompactionPlanned {
        turn: TURN,
        plan: Plan {
            step,
            budget: Budget {
                encoding: Encoding::O200kBase,
                window: Tokens(128_000),
                usable: Tokens(100_000),
                per_message: Tokens(3),
                files: Default::default(),
            },
            before: Tokens(81_000),
            target: Tokens(64_000),
            tightened: true,
        },
    }
}

/// The same under a budget of which it is known how its models get attachments.
pub(super) fn planned_with_files(step: Step) -> Fact {
    let Fact::CompactionPlanned { turn, mut plan } = planned(step) else {
        unreachable!("that is what it makes");
    };
    plan.budget.files = file_rules();
    Fact::CompactionPlanned { turn, plan }
}

pub(super) fn alteration(form: Form) -> Alteration {
    let mut counts = Counts::default();
    counts.set(Encoding::Cl100kBase, Count::exact(11));
    counts.set(Encoding::O200kBase, Count::approximate(41));
    Alteration {
        message: MESSAGE,
        ordinal: Ordinal(7),
        form,
        counts,
    }
}

pub(super) fn checkpoint() -> Checkpoint {
    let mut counts = Counts::default();
    counts.set(Encoding::O200kBase, Count::exact(900));
    Checkpoint {
        id: CHECKPOINT,
        number: 3,
        parent: MESSAGE,
        covers: vec![Span::new(Ordinal(1), Ordinal(40))],
        cutoff: Ordinal(40),
        cutoff_digest: DIGEST,
        supersedes: vec![CHECKPOINT],
        kind: Kind::Auto,
        tier: Tier::Conversation,
        preset: Preset::Retention,
        writer: Writer::Model,
        model: "openai/gpt-4o-mini".into(),
        body: Body::Summary("They agreed.".into()),
        original: Tokens(60_000),
        counts,
        messages_included: 40,
        key_facts: vec![KeyFact {
            text: "the port is 8080".into(),
            ordinal: Ordinal(12),
        }],
        cost_micros: Some(1_500),
        duration_ms: 2_345,
        degraded: false,
        at: Timestamp(1_735_689_599_000),
        coverage: None,
    }
}

/// The data from which a snapshot of a compacted session is rebuilt.
pub(in crate::record::tests) fn manifest() -> Manifest {
    Manifest {
        version: 1,
        head: MESSAGE,
        checkpoints: vec![CHECKPOINT],
        spans: vec![Span::new(Ordinal(41), Ordinal(50))],
        altered: vec![
            (
                Ordinal(43),
                Form::Masked {
                    tokens: Tokens(4_000),
                },
            ),
            (
                Ordinal(44),
                Form::Cut {
                    target_chars: 2_000,
                },
            ),
        ],
        preamble: DIGEST,
    }
}

pub(in crate::record::tests) fn opened() -> OpenedRun {
    OpenedRun {
        id: RUN,
        turn: TURN,
        role: RunRole::Delegate { index: 1 },
        agent: AgentId::new("scout"),
        definition: DIGEST,
        snapshot: Some(SNAPSHOT),
        prefix: DIGEST,
    }
}

pub(super) fn tool_call(id: &str, name: &str, arguments: &str) -> ToolCall {
    ToolCall::new(id, name, arguments)
}
