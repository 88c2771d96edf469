//! The usage and the cost of a reply, and the explanation of an error for people. Pure.

use unisono_context::Tokens;

use crate::catalogue::{Catalogue, Entry};
use crate::language::{Class, Error, Usage};

/// Adds to the provider's usage: the expected cache reads, and the cost.
pub(super) fn complete_usage(entry: &Entry, expected: Tokens, reported: Usage) -> Usage {
    Usage {
        // The estimate of the prefix may exceed the whole input.
        cache_expected: expected.min(reported.input),
        cost: entry.prices_for(reported.input).cost(&reported),
        ..reported
    }
}

/// The usage of an interrupted attempt: its reported input, else the estimate, and the received
/// output.
pub(super) fn interrupted_usage(entry: &Entry, estimated: Tokens, reported_usage: Usage) -> Usage {
    let input = match reported_usage.input {
        Tokens::ZERO => estimated,
        reported => reported,
    };
    complete_usage(
        entry,
        Tokens::ZERO,
        Usage {
            input,
            ..reported_usage
        },
    )
}

/// Adds local information to the error: limits, sizes, similar models.
pub(super) fn explain(
    mut error: Error,
    entry: &Entry,
    catalogue: &Catalogue,
    (input, output): (Tokens, Tokens),
) -> Error {
    let more = match error.class {
        Class::Overflow { limit } => {
            let named = match limit {
                Some(limit) => format!("the provider's limit is {limit} tokens"),
                None => format!("the model's window is {} tokens", entry.window),
            };
            format!(
                "; {named}, the request has about {input} and asks for up to {output} of output"
            )
        }
        Class::UnknownModel => match &catalogue.similar(&entry.model)[..] {
            [] => "; `unisono models` lists the known models".to_owned(),
            alike => format!("; did you mean `{}`?", alike.join("`, `")),
        },
        _ => return error,
    };
    error.reason = format!("{}{more}", error.reason).into();
    error
}

#[cfg(test)]
mod tests {
    //! Tests that usage is completed from the catalogue and never invented, and that errors give
    //! advice.

    use unisono_context::Cost;

    use super::*;

    fn entry(reference: &str) -> Entry {
        catalogue().get(None, reference).unwrap()
    }

    fn catalogue() -> Catalogue {
        Catalogue::built_in().unwrap()
    }

    fn used(input: u64, cache_read: u64, expected: u64) -> Usage {
        Usage {
            cache_read: Tokens(cache_read),
            cache_expected: Tokens(expected),
            ..Usage::free(Tokens(input), Tokens(100))
        }
    }

    #[test]
    fn expected_cache_reads_and_cost_are_added() {
        let micro = |reference: &str, usage: Usage| {
            let settled = complete_usage(&entry(reference), Tokens(80_000), usage);
            (
                settled.cache_expected.0,
                settled.cost.map(Cost::micro_dollars),
            )
        };
        let rows = rows! {
            ("openai/gpt-4o", used(81_000, 80_000, 0), 80_000, Some(2_500 + 100_000 + 1_000)),
            ("openai/gpt-4o", used(50_000, 0, 0), 50_000, Some(125_000 + 1_000)),
            // All tokens of a long request have the higher price.
            ("gemini/gemini-2.5-pro", used(200_001, 0, 0), 80_000, Some(501_503)),
            ("azure/gpt-4o", used(81_000, 0, 0), 80_000, None),
            ("openai-compatible/qwen3", used(81_000, 0, 0), 80_000, None),
        };
        for (reference, usage, expected, cost) in rows {
            assert_eq!(micro(reference, usage), (expected, cost), "{reference}");
        }
    }

    #[test]
    fn a_cache_miss_is_below_half_of_the_expected_reads() {
        for (read, expected, is_missed) in [
            (0, 0, false),
            (5_000, 0, false),
            (80_000, 80_000, false),
            (40_000, 80_000, false),
            (39_999, 80_000, true),
            (0, 1, true),
        ] {
            let usage = used(81_000, read, expected);
            assert_eq!(usage.missed(), is_missed, "{read} of {expected}");
        }
    }

    #[test]
    fn errors_get_local_information() {
        let reported = |reference: &str, class| {
            let error = Error::new(reference, class, "said the provider");
            let sizes = (Tokens(130_512), Tokens(4_096));
            let explained = explain(error, &entry(reference), &catalogue(), sizes);
            assert_eq!(explained.class, class);
            explained.reason.to_string()
        };
        let limit = Some(Tokens(127_000));
        for (reference, class, expected) in rows! {
            (
                "openai/gpt-4o",
                Class::Overflow { limit },
                "said the provider; the provider's limit is 127000 tokens, the request has about \
                 130512 and asks for up to 4096 of output",
            ),
            (
                "openai/gpt-4o",
                Class::Overflow { limit: None },
                "said the provider; the model's window is 128000 tokens, the request has about \
                 130512 and asks for up to 4096 of output",
            ),
            ("anthropic/claude-hiku-5-5", Class::UnknownModel,
             "said the provider; did you mean `anthropic/claude-haiku-5-5`"),
            ("openai-compatible/qwen3", Class::UnknownModel,
             "said the provider; `unisono models` lists the known models"),
            ("openai/gpt-4o", Class::BadRequest, "said the provider"),
        } {
            let reason = reported(reference, class);
            assert!(reason.starts_with(expected), "{reason}");
        }
    }
}
