//! Steps of a compaction, checkpoints and manifests.

use super::*;

pub(super) fn plan() -> impl Strategy<Value = Plan> {
    let budget = fields! {
        Budget { encoding: encoding(), window: tokens(), usable: tokens(), per_message: tokens(), files: file_rules() }
    };
    fields! {
        Plan {
            step: step(),
            budget: budget,
            before: tokens(),
            target: tokens(),
            tightened: any::<bool>()
        }
    }
}

fn mask() -> impl Strategy<Value = MaskTarget> {
    fields! { MaskTarget { message: message_id(), ordinal: ordinal(), tokens: tokens() } }
}

fn step() -> impl Strategy<Value = Step> {
    let messages = list((message_id(), ordinal()));
    prop_oneof![
        list(mask()).prop_map(Step::Mask),
        fields! {
            Step::Cut { message: message_id(), ordinal: ordinal(), target_chars: any::<u32>() }
        },
        fields! {
            Step::Summarise { cover: cover(), tier: tier(), cap: tokens(), writer: writer() }
        },
        fields! { Step::Truncate { messages: messages, target_chars: any::<u32>() } },
        fields! { Step::Drop { cover: cover() } },
        fields! {
            Step::Regenerate { cover: cover(), prior: list(checkpoint_id()), cap: tokens() }
        },
    ]
}

fn tier() -> impl Strategy<Value = Tier> {
    select(&[Tier::Conversation, Tier::Topic, Tier::Bulk][..])
}

fn cover() -> impl Strategy<Value = Cover> {
    fields! {
        Cover {
            spans: list(span()),
            fresh: list(span()),
            cutoff: ordinal(),
            supersedes: list(checkpoint_id()),
            original: tokens()
        }
    }
}

fn form() -> impl Strategy<Value = Form> {
    prop_oneof![
        fields! { Form::Masked { tokens: tokens() } },
        fields! { Form::Cut { target_chars: any::<u32>() } },
        fields! { Form::Truncated { target_chars: any::<u32>() } },
    ]
}

pub(super) fn alteration() -> impl Strategy<Value = Alteration> {
    fields! {
        Alteration { message: message_id(), ordinal: ordinal(), form: form(), counts: counts() }
    }
}

pub(super) fn manifest() -> impl Strategy<Value = Manifest> {
    fields! {
        Manifest {
            version: any::<u16>(),
            head: message_id(),
            checkpoints: list(checkpoint_id()),
            spans: list(span()),
            altered: list((ordinal(), form())),
            preamble: digest()
        }
    }
}

pub(super) fn checkpoint() -> impl Strategy<Value = Checkpoint> {
    let body = prop_oneof![text().prop_map(Body::Summary), Just(Body::Tombstone)];
    let key_fact = fields! { KeyFact { text: text(), ordinal: ordinal() } };
    let coverage = fields! {
        FactCoverage { facts: any::<u32>(), kept: any::<u32>(), quoted: any::<u32>() }
    };
    fields! {
        Checkpoint {
            id: checkpoint_id(),
            number: any::<u32>(),
            parent: message_id(),
            covers: list(span()),
            cutoff: ordinal(),
            cutoff_digest: digest(),
            supersedes: list(checkpoint_id()),
            kind: select(&[Kind::Auto, Kind::Manual][..]),
            tier: tier(),
            preset: preset(),
            writer: writer(),
            model: text();
            body: body,
            original: tokens(),
            counts: counts(),
            messages_included: any::<u32>(),
            key_facts: list(key_fact),
            cost_micros: option::of(any::<u64>()),
            duration_ms: any::<u64>(),
            degraded: any::<bool>(),
            at: at(),
            coverage: option::of(coverage)
        }
    }
}

pub(super) fn preparation() -> impl Strategy<Value = PlannedPreparation> {
    fields! {
        PlannedPreparation {
            turn: turn_id(),
            branch: text(),
            model: text(),
            plan: plan(),
            masks: list(mask()),
            range: digest(),
            settings: digest()
        }
    }
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
