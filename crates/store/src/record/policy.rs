//! When and how to compact.

use serde::{Deserialize, Serialize};
use unisono_context::{Ppm, Tokens, policy};

use super::codes::codes;

mod tiers;

use tiers::Tiers;

codes!(
    /// A named set of defaults.
    Preset = policy::Preset {
        Off,
        Truncate,
        Checkpoint,
        Retention,
        Progressive,
        Tiered,
    }
);

/// When to compact and what to keep.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Policy {
    preset: Preset,
    trigger: Option<Trigger>,
    minimum_tokens: u64,
    target_ppm: u32,
    keep: Keep,
    method: Method,
    masking: Option<Masking>,
    quota: Option<ModelQuota>,
}

/// What starts a compaction. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Trigger {
    Tokens(u64),
    OfWindow { ppm: u32 },
    OfUsable { ppm: u32 },
}

/// What stays. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Keep {
    Messages(u32),
    Tokens { amount: u64, align: u32 },
    ShareOfHistory { ppm: u32 },
    UpToTarget,
    Tiers(Tiers),
    MessagesByWindow(u32),
    TokensByWindow { amount: u64, align: u32 },
}

/// What becomes of the rest. The order of the variants is the format.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) enum Method {
    Summarise { cap_tokens: u64 },
    Drop,
}

/// What is masked first.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct Masking {
    over_tokens: u64,
    keep_newest: u32,
}

/// How often models may be asked.
#[derive(Debug, Serialize, Deserialize)]
pub(crate) struct ModelQuota {
    checkpoints: u32,
    per_ms: i64,
}

impl From<&policy::Policy> for Policy {
    fn from(policy: &policy::Policy) -> Self {
        Self {
            preset: policy.preset.into(),
            trigger: policy.trigger.map(Into::into),
            minimum_tokens: policy.minimum.0,
            target_ppm: policy.target.0,
            keep: policy.keep.into(),
            method: policy.method.into(),
            masking: policy.masking.map(|masking| Masking {
                over_tokens: masking.over.0,
                keep_newest: masking.keep_newest,
            }),
            quota: policy.quota.map(|quota| ModelQuota {
                checkpoints: quota.checkpoints,
                per_ms: quota.per_ms,
            }),
        }
    }
}

impl From<Policy> for policy::Policy {
    fn from(policy: Policy) -> Self {
        Self {
            preset: policy.preset.into(),
            trigger: policy.trigger.map(Into::into),
            minimum: Tokens(policy.minimum_tokens),
            target: Ppm(policy.target_ppm),
            keep: policy.keep.into(),
            method: policy.method.into(),
            masking: policy.masking.map(|masking| policy::Masking {
                over: Tokens(masking.over_tokens),
                keep_newest: masking.keep_newest,
            }),
            quota: policy.quota.map(|quota| policy::ModelQuota {
                checkpoints: quota.checkpoints,
                per_ms: quota.per_ms,
            }),
        }
    }
}

impl From<policy::Trigger> for Trigger {
    fn from(trigger: policy::Trigger) -> Self {
        match trigger {
            policy::Trigger::Tokens(tokens) => Self::Tokens(tokens.0),
            policy::Trigger::OfWindow(share) => Self::OfWindow { ppm: share.0 },
            policy::Trigger::OfUsable(share) => Self::OfUsable { ppm: share.0 },
        }
    }
}

impl From<Trigger> for policy::Trigger {
    fn from(trigger: Trigger) -> Self {
        match trigger {
            Trigger::Tokens(tokens) => Self::Tokens(Tokens(tokens)),
            Trigger::OfWindow { ppm } => Self::OfWindow(Ppm(ppm)),
            Trigger::OfUsable { ppm } => Self::OfUsable(Ppm(ppm)),
        }
    }
}

impl From<policy::Keep> for Keep {
    fn from(keep: policy::Keep) -> Self {
        match keep {
            policy::Keep::Messages(messages) => Self::Messages(messages),
            policy::Keep::Tokens { amount, align } => Self::Tokens {
                amount: amount.0,
                align,
            },
            policy::Keep::ShareOfHistory(share) => Self::ShareOfHistory { ppm: share.0 },
            policy::Keep::UpToTarget => Self::UpToTarget,
            policy::Keep::Tiers(tiers) => Self::Tiers(tiers.into()),
            policy::Keep::MessagesByWindow(messages) => Self::MessagesByWindow(messages),
            policy::Keep::TokensByWindow { amount, align } => Self::TokensByWindow {
                amount: amount.0,
                align,
            },
        }
    }
}

impl From<Keep> for policy::Keep {
    fn from(keep: Keep) -> Self {
        match keep {
            Keep::Messages(messages) => Self::Messages(messages),
            Keep::Tokens { amount, align } => Self::Tokens {
                amount: Tokens(amount),
                align,
            },
            Keep::ShareOfHistory { ppm } => Self::ShareOfHistory(Ppm(ppm)),
            Keep::UpToTarget => Self::UpToTarget,
            Keep::Tiers(tiers) => Self::Tiers(tiers.into()),
            Keep::MessagesByWindow(messages) => Self::MessagesByWindow(messages),
            Keep::TokensByWindow { amount, align } => Self::TokensByWindow {
                amount: Tokens(amount),
                align,
            },
        }
    }
}

impl From<policy::Method> for Method {
    fn from(method: policy::Method) -> Self {
        match method {
            policy::Method::Summarise { cap } => Self::Summarise { cap_tokens: cap.0 },
            policy::Method::Drop => Self::Drop,
        }
    }
}

impl From<Method> for policy::Method {
    fn from(method: Method) -> Self {
        match method {
            Method::Summarise { cap_tokens } => Self::Summarise {
                cap: Tokens(cap_tokens),
            },
            Method::Drop => Self::Drop,
        }
    }
}
