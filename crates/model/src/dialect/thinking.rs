//! Requests to DeepSeek, Kimi and MiMo. Their models think unless that is switched off, and their
//! providers then refuse a message of the model with calls and without reasoning. A call of the
//! conversation has none; nor has a call whose reasoning was empty or another model's.

/// Parts of the names of such models, and of names that have the first part and are others: older
/// models, and those that do not think. Their servers may refuse reasoning.
const NAMES: &[(&str, &[&str])] = &[
    ("deepseek", &["-r1", ".r1", "-v2", "-v3", ".v3", "-coder"]),
    ("kimi", &["-instruct"]),
    ("mimo-", &[]),
];

/// Whether the calls of a model need reasoning.
pub(super) fn needs_reasoning(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    let is_one = |(name, others): &(&str, &[&str])| {
        model.contains(name) && !others.iter().any(|other| model.contains(other))
    };
    NAMES.iter().any(is_one)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn such_models_are_known_by_their_names() {
        for model in [
            "deepseek-v4-pro",
            "deepseek/deepseek-v4-flash",
            "kimi-k2.5",
            "moonshotai/Kimi-K2-Thinking",
            "MiMo-V2.5-Pro",
        ] {
            assert!(needs_reasoning(model), "{model}");
        }
        for other in [
            "deepseek-r1-distill-llama-70b",
            "DeepSeek-V3.1",
            "deepseek.v3-v1:0",
            "moonshotai/kimi-k2-instruct",
            "gpt-5",
            "qwen3",
        ] {
            assert!(!needs_reasoning(other), "{other}");
        }
    }
}
