//! Messages, agents and turns.

use unisono_context::attachment::{AttachedFile, Content, Extent, LoadedBytes};
use unisono_context::call::{Choice, ClientOptions};
use unisono_context::compaction::ContextPart;

use super::*;

pub(super) fn message() -> impl Strategy<Value = NewMessage> {
    let usage = (tokens(), tokens()).prop_map(|(input, output)| ReportedUsage { input, output });
    let role = select(&[Role::System, Role::User, Role::Assistant, Role::Tool][..]);
    (
        message_id(),
        role,
        list(part()),
        option::of(agent_id()),
        at(),
        option::of(usage),
    )
        .prop_map(|(id, role, parts, author, at, usage)| NewMessage {
            id,
            role,
            parts,
            author,
            at,
            usage,
        })
}

pub(super) fn part() -> impl Strategy<Value = Part> {
    prop_oneof![
        text().prop_map(Part::Text),
        (text(), text(), text()).prop_map(|(id, name, arguments)| Part::ToolCall {
            id,
            name,
            arguments
        }),
        (text(), text(), any::<bool>()).prop_map(|(call_id, content, is_error)| {
            Part::ToolResult {
                call_id,
                content,
                is_error,
            }
        }),
        (text(), text(), any::<u64>(), content()).prop_map(
            |(filename, mime, size_bytes, content)| Part::Attachment {
                filename,
                mime,
                size_bytes,
                content,
            }
        ),
    ]
}

pub(super) fn attached_file() -> impl Strategy<Value = AttachedFile> {
    let read = prop::option::of(text());
    (text(), text(), any::<u64>(), whole_content(), read).prop_map(
        |(filename, mime, size_bytes, content, text)| AttachedFile {
            filename,
            mime,
            size_bytes,
            content,
            text,
        },
    )
}

fn content() -> impl Strategy<Value = Option<Content>> {
    prop::option::of(whole_content())
}

fn whole_content() -> impl Strategy<Value = Content> {
    let extent = prop_oneof![
        any::<(u32, u32)>().prop_map(|(width, height)| Extent::Pixels { width, height }),
        any::<u32>().prop_map(Extent::Pages),
    ];
    (any::<[u8; 32]>(), extent).prop_map(|(digest, extent)| Content {
        digest: Digest(digest),
        extent,
        loaded: LoadedBytes::default(),
    })
}

pub(super) fn policy() -> impl Strategy<Value = Policy> {
    let trigger = prop_oneof![
        tokens().prop_map(Trigger::Tokens),
        ppm().prop_map(Trigger::OfWindow),
        ppm().prop_map(Trigger::OfUsable),
    ];
    let method = prop_oneof![
        tokens().prop_map(|cap| Method::Summarise { cap }),
        Just(Method::Drop),
    ];
    let masking =
        (tokens(), any::<u32>()).prop_map(|(over, keep_newest)| Masking { over, keep_newest });
    let quota = (any::<u32>(), any::<i64>()).prop_map(|(checkpoints, per_ms)| ModelQuota {
        checkpoints,
        per_ms,
    });
    let amounts = (option::of(trigger), tokens(), ppm());
    (
        preset(),
        amounts,
        keep(),
        method,
        option::of(masking),
        option::of(quota),
    )
        .prop_map(
            |(preset, (trigger, minimum, target), keep, method, masking, quota)| Policy {
                preset,
                trigger,
                minimum,
                target,
                keep,
                method,
                masking,
                quota,
            },
        )
}

pub(super) fn keep() -> impl Strategy<Value = Keep> {
    prop_oneof![
        any::<u32>().prop_map(Keep::Messages),
        (tokens(), any::<u32>()).prop_map(|(amount, align)| Keep::Tokens { amount, align }),
        ppm().prop_map(Keep::ShareOfHistory),
        Just(Keep::UpToTarget),
        tiers().prop_map(Keep::Tiers),
        any::<u32>().prop_map(Keep::MessagesByWindow),
        (tokens(), any::<u32>()).prop_map(|(amount, align)| Keep::TokensByWindow { amount, align }),
    ]
}

pub(super) fn topic_end() -> impl Strategy<Value = TopicEnd> {
    (ordinal(), select(&EndedBy::ALL[..])).prop_map(|(opener, by)| TopicEnd { opener, by })
}

pub(super) fn decided_topics() -> impl Strategy<Value = DecidedTopics> {
    (message_id(), list(topic_end())).prop_map(|(through, ends)| DecidedTopics { through, ends })
}

fn tiers() -> impl Strategy<Value = Tiers> {
    let large = prop_oneof![
        ppm().prop_map(Large::OfTopic),
        any::<u32>().prop_map(Large::Chars),
    ];
    let numbers = (tokens(), tokens(), any::<u32>(), any::<u32>());
    let parts = (
        option::of(ppm()),
        large,
        option::of(any::<i64>()),
        option::of(ppm()),
    );
    ((ppm(), ppm(), ppm()), numbers, parts).prop_map(|(shares, numbers, parts)| Tiers {
        topic: shares.0,
        topics: shares.1,
        bulks: shares.2,
        topic_cap: numbers.0,
        bulk_cap: numbers.1,
        topics_keep: numbers.2,
        merge: numbers.3,
        attention: parts.0,
        large: parts.1,
        ends: Ends {
            silence_ms: parts.2,
            over: parts.3,
        },
    })
}

pub(super) fn definition() -> impl Strategy<Value = Definition> {
    let command = (
        text(),
        list(text()),
        text_map(),
        option::of(text()),
        list(text()),
    );
    let command = command.prop_map(|(program, args, env, cwd, env_pass)| agent::Command {
        program,
        args,
        env,
        cwd,
        env_pass,
    });
    let command = command.boxed();
    let http = (text(), text_map()).prop_map(|(url, headers)| agent::Http { url, headers });
    let remote = (
        text(),
        text_map(),
        option::of(text()),
        select(&unisono_session::tool::Contract::ALL[..]),
    );
    let remote = remote.prop_map(|(url, headers, card_digest, contract)| agent::A2a {
        url,
        headers,
        card_digest,
        contract,
    });
    let coding = (
        command.clone(),
        any::<bool>(),
        list(select(&agent::ToolKind::ALL[..])),
        list(select(&agent::ToolKind::ALL[..])),
        select(&unisono_session::tool::Contract::ALL[..]),
    );
    let coding = coding.prop_map(|(command, worktree, allow, deny, contract)| agent::Acp {
        command,
        worktree,
        allow,
        deny,
        contract,
    });
    let kind = prop_oneof![
        coding.prop_map(agent::AgentKind::Acp),
        remote.prop_map(agent::AgentKind::A2a),
        Just(agent::AgentKind::Llm),
        command.prop_map(agent::AgentKind::Command),
        text().prop_map(agent::AgentKind::Custom),
        http.prop_map(agent::AgentKind::Http),
        Just(agent::AgentKind::Pipeline),
    ];
    let limits = (tokens(), tokens(), encoding(), tokens()).prop_map(
        |(window, max_output, encoding, per_message)| Limits {
            window,
            max_output,
            encoding,
            per_message,
        },
    );
    let numbers = any::<(u32, u64, u32, u32)>();
    let modes = (
        select(&[agent::ContextMode::Snapshot, agent::ContextMode::TaskOnly][..]),
        select(&[agent::PrefixMode::Shared, agent::PrefixMode::Own][..]),
        select(&[agent::OnFailure::Continue, agent::OnFailure::Fail][..]),
    );
    let texts = (text(), text(), text());
    let stage = (agent_id(), option::of(text()));
    let stage = stage.prop_map(|(agent, task)| agent::Stage { agent, task });
    let lists = (list(text()), list(agent_id()), list(text()), list(stage));
    let warm = select(&[CacheWarm::Leader, CacheWarm::Prewarm, CacheWarm::Off][..]);
    let asked = (option::of(text()), option::of(any::<u32>()), warm);
    (
        agent_id(),
        texts,
        kind,
        limits,
        numbers,
        modes,
        lists,
        asked,
    )
        .prop_map(
            |(id, texts, kind, limits, numbers, modes, lists, asked)| Definition {
                id,
                description: texts.0,
                instructions: texts.1,
                kind,
                model: texts.2,
                limits,
                tools: lists.0,
                max_model_calls: numbers.0,
                timeout_ms: numbers.1,
                retries: numbers.2,
                max_concurrent: numbers.3,
                context: modes.0,
                prefix: modes.1,
                output_schema: asked.0,
                temperature_milli: asked.1,
                cache_warm: asked.2,
                on_failure: modes.2,
                delegates: lists.1,
                pipeline: lists.3,
                tags: lists.2,
            },
        )
}

fn writing() -> impl Strategy<Value = SummaryOptions> {
    let summariser = option::of(text());
    let unwritten = select(&SummaryFallback::ALL[..]);
    (option::of(text()), summariser, unwritten).prop_map(|(instructions, summariser, unwritten)| {
        SummaryOptions {
            instructions,
            summariser,
            unwritten,
        }
    })
}

pub(super) fn calibration() -> impl Strategy<Value = Calibration> {
    (text(), ppm(), ppm()).prop_map(|(model, ratio, band)| Calibration { model, ratio, band })
}

fn client_options() -> impl Strategy<Value = ClientOptions> {
    let choice = prop_oneof![
        Just(Choice::Free),
        Just(Choice::Any),
        text().prop_map(Choice::This),
    ];
    let most = proptest::option::of(any::<u64>().prop_map(Tokens));
    let client_options = (list(text()), choice, any::<bool>(), list(text()), most);
    prop_oneof![
        Just(ClientOptions::default()),
        client_options.prop_map(|(tools, choice, one, stop, max_output)| ClientOptions {
            tools,
            choice,
            one,
            stop,
            max_output,
        }),
    ]
}

fn context_part() -> impl Strategy<Value = ContextPart> {
    prop_oneof![
        any::<u32>().prop_map(|at| ContextPart::Topic {
            message: Ordinal(at)
        }),
        Just(ContextPart::Attention),
        option::of(any::<u64>()).prop_map(|over| ContextPart::Large {
            over: over.map(Tokens)
        }),
    ]
}

pub(super) fn accepted() -> impl Strategy<Value = AcceptedTurn> {
    let work = prop_oneof![
        (message(), client_options()).prop_map(|(input, client_options)| Work::Answer {
            input,
            client_options
        }),
        (option::of(keep()), writing()).prop_map(|(keep, writing)| Work::Compact { keep, writing }),
        (context_part(), writing()).prop_map(|(part, writing)| Work::CompactPart { part, writing }),
        checkpoint_id().prop_map(|checkpoint| Work::Revert { checkpoint }),
        (checkpoint_id(), writing()).prop_map(|(checkpoint, writing)| {
            Work::Regenerate {
                checkpoint,
                writing,
            }
        }),
        (checkpoint_id(), text(), counts()).prop_map(|(checkpoint, text, counts)| Work::Edit {
            checkpoint,
            text,
            counts,
        }),
    ];
    let tool = (text(), text(), text()).prop_map(|(name, description, input_schema)| ToolSpec {
        name,
        description,
        input_schema,
    });
    let delegates = list((digest(), option::of(text())));
    let limits = (any::<(u32, u32)>(), option::of(ppm()));
    let limits = limits.prop_map(|((depth, live_runs), results)| DelegationLimits {
        depth,
        live_runs,
        results: results.unwrap_or(DelegationLimits::RESULTS),
    });
    (
        turn_id(),
        text(),
        work,
        policy(),
        ppm(),
        digest(),
        delegates,
        list(tool),
        (
            list(digest()),
            list(calibration()),
            limits,
            turn_caps(),
            option::of((text(), digest())),
            any::<bool>(),
            option::of(digest()),
            any::<bool>(),
        ),
    )
        .prop_map(
            |(id, branch, work, policy, safety, lead, delegates, tools, more)| AcceptedTurn {
                id,
                branch,
                work,
                policy,
                safety,
                lead,
                delegates,
                tools,
                available: more.0,
                calibrations: more.1,
                delegation: more.2,
                caps: *more.3,
                key: more.4.map(|(name, request)| RequestKey { name, request }),
                short_calls: more.5,
                prepare: more.6,
                shared_headroom: more.7,
            },
        )
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
