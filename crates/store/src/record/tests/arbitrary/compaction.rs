//! Steps of a compaction, checkpoints and manifests.

use super::*;

pub(super) fn plan() -> impl Strategy<Value = Plan> {
    let budget = (encoding(), tokens(), tokens(), tokens()).prop_map(
        |(encoding, window, usable, per_message)| Budget {
            encoding,
            window,
            usable,
            per_message,
        },
    );
    (step(), budget, tokens(), tokens(), any::<bool>()).prop_map(
        |(step, budget, before, target, tightened)| Plan {
            step,
            budget,
            before,
            target,
            tightened,
        },
    )
}

pub(super) fn step() -> impl Strategy<Value = Step> {
    let target =
        (message_id(), ordinal(), tokens()).prop_map(|(message, ordinal, tokens)| MaskTarget {
            message,
            ordinal,
            tokens,
        });
    prop_oneof![
        list(target).prop_map(Step::Mask),
        (message_id(), ordinal(), any::<u32>()).prop_map(|(message, ordinal, target_chars)| {
            Step::Cut {
                message,
                ordinal,
                target_chars,
            }
        }),
        (cover(), tier(), tokens(), writer()).prop_map(|(cover, tier, cap, writer)| {
            Step::Summarise {
                cover,
                tier,
                cap,
                writer,
            }
        }),
        (list((message_id(), ordinal())), any::<u32>()).prop_map(|(messages, target_chars)| {
            Step::Truncate {
                messages,
                target_chars,
            }
        }),
        cover().prop_map(|cover| Step::Drop { cover }),
        (cover(), list(checkpoint_id()), tokens())
            .prop_map(|(cover, prior, cap)| Step::Regenerate { cover, prior, cap }),
    ]
}

fn tier() -> impl Strategy<Value = Tier> {
    select(&[Tier::Conversation, Tier::Topic, Tier::Bulk][..])
}

pub(super) fn cover() -> impl Strategy<Value = Cover> {
    (
        list(span()),
        list(span()),
        ordinal(),
        list(checkpoint_id()),
        tokens(),
    )
        .prop_map(|(spans, fresh, cutoff, supersedes, original)| Cover {
            spans,
            fresh,
            cutoff,
            supersedes,
            original,
        })
}

pub(super) fn form() -> impl Strategy<Value = Form> {
    prop_oneof![
        tokens().prop_map(|tokens| Form::Masked { tokens }),
        any::<u32>().prop_map(|target_chars| Form::Cut { target_chars }),
        any::<u32>().prop_map(|target_chars| Form::Truncated { target_chars }),
    ]
}

pub(super) fn alteration() -> impl Strategy<Value = Alteration> {
    (message_id(), ordinal(), form(), counts()).prop_map(|(message, ordinal, form, counts)| {
        Alteration {
            message,
            ordinal,
            form,
            counts,
        }
    })
}

pub(super) fn manifest() -> impl Strategy<Value = Manifest> {
    let altered = list((ordinal(), form()));
    (
        any::<u16>(),
        message_id(),
        list(checkpoint_id()),
        list(span()),
        altered,
        digest(),
    )
        .prop_map(
            |(version, head, checkpoints, spans, altered, preamble)| Manifest {
                version,
                head,
                checkpoints,
                spans,
                altered,
                preamble,
            },
        )
}

pub(super) fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    let body = prop_oneof![text().prop_map(Body::Summary), Just(Body::Tombstone)];
    let key_fact = (text(), ordinal()).prop_map(|(text, ordinal)| KeyFact { text, ordinal });
    let names = (
        checkpoint_id(),
        any::<u32>(),
        message_id(),
        list(checkpoint_id()),
    );
    let range = (list(span()), ordinal(), digest(), any::<u32>());
    let origin = (
        select(&[Kind::Auto, Kind::Manual][..]),
        tier(),
        preset(),
        writer(),
        text(),
    );
    let content = (body, list(key_fact), tokens(), counts());
    let coverage = (any::<u32>(), any::<u32>(), any::<u32>());
    let coverage = coverage.prop_map(|(facts, kept, quoted)| FactCoverage {
        facts,
        kept,
        quoted,
    });
    let cost = option::of(any::<u64>());
    let making = (
        cost,
        any::<u64>(),
        any::<bool>(),
        at(),
        option::of(coverage),
    );
    (names, range, origin, content, making).prop_map(|(names, range, origin, content, making)| {
        Checkpoint {
            id: names.0,
            number: names.1,
            parent: names.2,
            covers: range.0,
            cutoff: range.1,
            cutoff_digest: range.2,
            supersedes: names.3,
            kind: origin.0,
            tier: origin.1,
            preset: origin.2,
            writer: origin.3,
            model: origin.4,
            body: content.0,
            original: content.2,
            counts: content.3,
            messages_included: range.3,
            key_facts: content.1,
            cost_micros: making.0,
            duration_ms: making.1,
            degraded: making.2,
            at: making.3,
            coverage: making.4,
        }
    })
}

pub(super) fn preparation() -> impl Strategy<Value = PlannedPreparation> {
    let mask = (message_id(), ordinal(), tokens());
    let mask = mask.prop_map(|(message, ordinal, tokens)| MaskTarget {
        message,
        ordinal,
        tokens,
    });
    let names = (turn_id(), text(), text());
    (names, plan(), list(mask), digest(), digest()).prop_map(
        |((turn, branch, model), plan, masks, range, settings)| PlannedPreparation {
            turn,
            branch,
            model,
            plan,
            masks,
            range,
            settings,
        },
    )
}

pub(super) fn written() -> impl Strategy<Value = WrittenSummary> {
    checkpoint().prop_map(|made| WrittenSummary {
        body: made.body,
        key_facts: made.key_facts,
        counts: made.counts,
        writer: made.writer,
        model: made.model,
        cost_micros: made.cost_micros,
        duration_ms: made.duration_ms,
        degraded: made.degraded,
        coverage: made.coverage,
    })
}

pub(super) fn drop_reason() -> impl Strategy<Value = DropReason> {
    prop_oneof![
        Just(DropReason::Range),
        Just(DropReason::Settings),
        Just(DropReason::Room),
        Just(DropReason::Replaced),
        Just(DropReason::Busy),
        Just(DropReason::Interrupted),
        text().prop_map(DropReason::Failed),
    ]
}
