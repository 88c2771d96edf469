//! Messages, agents and turns.

use unisono_context::attachment::{
    AttachedFile, Content, DocumentText, Extent, FileRules, LoadedBytes,
};
use unisono_context::call::{Choice, ClientOptions};
use unisono_context::compaction::ContextPart;

use super::*;

pub(super) fn message() -> impl Strategy<Value = NewMessage> {
    let usage = fields! { ReportedUsage { input: tokens(), output: tokens() } };
    fields! {
        NewMessage {
            id: message_id(),
            role: select(&[Role::System, Role::User, Role::Assistant, Role::Tool][..]),
            parts: list(part()),
            author: option::of(agent_id()),
            at: at(),
            usage: option::of(usage)
        }
    }
}

fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        text().prop_map(Part::Text),
        fields! { Part::ToolCall { id: text(), name: text(), arguments: text() } },
        fields! { Part::ToolResult { call_id: text(), content: text(), is_error: any::<bool>() } },
        fields! {
            Part::Attachment {
                filename: text(),
                mime: text(),
                size_bytes: any::<u64>(),
                content: option::of(content())
            }
        },
    ]
}

pub(super) fn attached_file() -> impl Strategy<Value = AttachedFile> {
    fields! {
        AttachedFile {
            filename: text(),
            mime: text(),
            size_bytes: any::<u64>(),
            content: content(),
            text: option::of(text())
        }
    }
}

pub(super) fn file_rules() -> impl Strategy<Value = FileRules> {
    any::<u16>().prop_map(|bits| FileRules::from_bits(bits & 0xfff).unwrap_or_default())
}

fn content() -> impl Strategy<Value = Content> {
    let extent = prop_oneof![
        fields! { Extent::Pixels { width: any::<u32>(), height: any::<u32>() } },
        any::<u32>().prop_map(Extent::Pages),
    ];
    let loaded = Just(LoadedBytes::default());
    let text = fields! { DocumentText { digest: digest(), tokens: tokens() } };
    fields! {
        Content { digest: digest(), extent: extent, loaded: loaded, text: option::of(text) }
    }
}

pub(super) fn policy() -> impl Strategy<Value = Policy> {
    let trigger = prop_oneof![
        tokens().prop_map(Trigger::Tokens),
        ppm().prop_map(Trigger::OfWindow),
        ppm().prop_map(Trigger::OfUsable),
    ];
    let method = prop_oneof![
        fields! { Method::Summarise { cap: tokens() } },
        Just(Method::Drop),
    ];
    let masking = fields! { Masking { over: tokens(), keep_newest: any::<u32>() } };
    let quota = fields! { ModelQuota { checkpoints: any::<u32>(), per_ms: any::<i64>() } };
    fields! {
        Policy {
            preset: preset(),
            trigger: option::of(trigger),
            minimum: tokens(),
            target: ppm(),
            keep: keep(),
            method: method,
            masking: option::of(masking),
            quota: option::of(quota)
        }
    }
}

fn keep() -> impl Strategy<Value = Keep> {
    prop_oneof![
        any::<u32>().prop_map(Keep::Messages),
        fields! { Keep::Tokens { amount: tokens(), align: any::<u32>() } },
        ppm().prop_map(Keep::ShareOfHistory),
        Just(Keep::UpToTarget),
        tiers().prop_map(Keep::Tiers),
        any::<u32>().prop_map(Keep::MessagesByWindow),
        fields! { Keep::TokensByWindow { amount: tokens(), align: any::<u32>() } },
    ]
}

pub(super) fn topic_end() -> impl Strategy<Value = TopicEnd> {
    fields! { TopicEnd { opener: ordinal(), by: select(&EndedBy::ALL[..]) } }
}

pub(super) fn decided_topics() -> impl Strategy<Value = DecidedTopics> {
    fields! { DecidedTopics { through: message_id(), ends: list(topic_end()) } }
}

fn tiers() -> impl Strategy<Value = Tiers> {
    let large = prop_oneof![
        ppm().prop_map(Large::OfTopic),
        any::<u32>().prop_map(Large::Chars),
    ];
    let ends = fields! {
        Ends { silence_ms: option::of(any::<i64>()), over: option::of(ppm()) }
    };
    fields! {
        Tiers {
            topic: ppm(),
            topics: ppm(),
            bulks: ppm(),
            topic_cap: tokens(),
            bulk_cap: tokens(),
            topics_keep: any::<u32>(),
            merge: any::<u32>(),
            attention: option::of(ppm()),
            large: large,
            ends: ends
        }
    }
}

fn command() -> impl Strategy<Value = agent::Command> {
    fields! {
        agent::Command {
            program: text(),
            args: list(text()),
            env: text_map(),
            cwd: option::of(text()),
            env_pass: list(text())
        }
    }
}

fn agent_kind() -> impl Strategy<Value = agent::AgentKind> {
    let http = fields! { agent::Http { url: text(), headers: text_map() } };
    let remote = fields! {
        agent::A2a {
            url: text(),
            headers: text_map(),
            card_digest: option::of(text()),
            contract: contract()
        }
    };
    let kinds = || list(select(&agent::ToolKind::ALL[..]));
    let coding = fields! {
        agent::Acp {
            command: command(),
            worktree: any::<bool>(),
            allow: kinds(),
            deny: kinds(),
            contract: contract(),
            options: text_map(),
            login: option::of(text())
        }
    };
    prop_oneof![
        coding.prop_map(agent::AgentKind::Acp),
        remote.prop_map(agent::AgentKind::A2a),
        Just(agent::AgentKind::Llm),
        command().prop_map(agent::AgentKind::Command),
        text().prop_map(agent::AgentKind::Custom),
        http.prop_map(agent::AgentKind::Http),
        Just(agent::AgentKind::Pipeline),
    ]
}

pub(super) fn definition() -> impl Strategy<Value = Definition> {
    let limits = fields! {
        Limits {
            window: tokens(),
            max_output: tokens(),
            encoding: encoding(),
            per_message: tokens(),
            files: file_rules()
        }
    };
    let stage = fields! { agent::Stage { agent: agent_id(), task: option::of(text()) } };
    fields! {
        Definition {
            id: agent_id(),
            description: text(),
            instructions: text(),
            kind: agent_kind(),
            model: text(),
            limits: limits,
            tools: list(text()),
            max_model_calls: any::<u32>(),
            timeout_ms: any::<u64>(),
            retries: any::<u32>(),
            max_concurrent: any::<u32>();
            context: select(&[agent::ContextMode::Snapshot, agent::ContextMode::TaskOnly][..]),
            prefix: select(&[agent::PrefixMode::Shared, agent::PrefixMode::Own][..]),
            output_schema: option::of(text()),
            temperature_milli: option::of(any::<u32>()),
            cache_warm: select(&[CacheWarm::Leader, CacheWarm::Prewarm, CacheWarm::Off][..]),
            on_failure: select(&[agent::OnFailure::Continue, agent::OnFailure::Fail][..]),
            delegates: list(agent_id()),
            pipeline: list(stage),
            tags: list(text())
        }
    }
}

fn writing() -> impl Strategy<Value = SummaryOptions> {
    fields! {
        SummaryOptions {
            instructions: option::of(text()),
            summariser: option::of(text()),
            unwritten: select(&SummaryFallback::ALL[..])
        }
    }
}

pub(super) fn calibration() -> impl Strategy<Value = Calibration> {
    fields! { Calibration { model: text(), ratio: ppm(), band: ppm() } }
}

fn client_options() -> impl Strategy<Value = ClientOptions> {
    let choice = prop_oneof![
        Just(Choice::Free),
        Just(Choice::Any),
        text().prop_map(Choice::This),
    ];
    prop_oneof![
        Just(ClientOptions::default()),
        fields! {
            ClientOptions {
                tools: list(text()),
                choice: choice,
                one: any::<bool>(),
                stop: list(text()),
                max_output: option::of(tokens())
            }
        },
    ]
}

fn context_part() -> impl Strategy<Value = ContextPart> {
    prop_oneof![
        fields! { ContextPart::Topic { message: ordinal() } },
        Just(ContextPart::Attention),
        fields! { ContextPart::Large { over: option::of(tokens()) } },
    ]
}

fn work() -> impl Strategy<Value = Work> {
    prop_oneof![
        fields! { Work::Answer { input: message(), client_options: client_options() } },
        fields! { Work::Compact { keep: option::of(keep()), writing: writing() } },
        fields! { Work::CompactPart { part: context_part(), writing: writing() } },
        fields! { Work::Revert { checkpoint: checkpoint_id() } },
        fields! { Work::Regenerate { checkpoint: checkpoint_id(), writing: writing() } },
        fields! { Work::Edit { checkpoint: checkpoint_id(), text: text(), counts: counts() } },
    ]
}

pub(super) fn accepted() -> impl Strategy<Value = AcceptedTurn> {
    let tool = fields! {
        ToolSpec { name: text(), description: text(), input_schema: text() }
    };
    let results = option::of(ppm()).prop_map(|share| share.unwrap_or(DelegationLimits::RESULTS));
    let delegation = fields! {
        DelegationLimits { depth: any::<u32>(), live_runs: any::<u32>(), results: results }
    };
    fields! {
        AcceptedTurn {
            id: turn_id(),
            branch: text(),
            work: work(),
            policy: policy(),
            safety: ppm(),
            lead: digest(),
            delegates: list((digest(), option::of(text()))),
            tools: list(tool),
            available: list(digest());
            calibrations: list(calibration()),
            delegation: delegation,
            caps: turn_caps(),
            key: option::of(request_key()),
            short_calls: any::<bool>(),
            prepare: option::of(digest()),
            shared_headroom: any::<bool>()
        }
    }
}

pub(super) fn outcome() -> impl Strategy<Value = Outcome> {
    prop_oneof![
        Just(Outcome::Answered),
        (tokens(), tokens()).prop_map(|(before, after)| Outcome::Compacted { before, after }),
        (text(), text()).prop_map(|(code, reason)| Outcome::Failed { code, reason }),
        Just(Outcome::Cancelled),
        (tokens(), tokens()).prop_map(|(before, after)| Outcome::Reverted { before, after }),
    ]
}
