//! Requests to Mistral's models. Their provider and their chat templates refuse a message of the
//! user right after the result of a tool, and ids of calls other than nine letters and digits.

use unisono_context::Ordinal;
use unisono_context::message::CallRef;

use crate::dialect::turns::CallId;

/// Parts of the names of its models: Mistral, Ministral, Magistral, Devstral, Codestral, and
/// Mixtral, Pixtral, Voxtral.
const NAMES: &[&str] = &["stral", "xtral"];
/// The length of an id. All places of calls have an id of this length.
const ID: usize = 9;
const DIGITS: &[u8; 62] = b"0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz";

/// The model's message between the result of a tool and a message of the user.
pub(super) const BRIDGE: &str = r#"{"role":"assistant","content":"I have the results."}"#;

pub(super) fn is_mistral(model: &str) -> bool {
    let model = model.to_ascii_lowercase();
    NAMES.iter().any(|name| model.contains(name))
}

/// Whether its provider accepts the id of a call.
pub(super) fn is_accepted(id: &str) -> bool {
    id.len() == ID && id.bytes().all(|byte| byte.is_ascii_alphanumeric())
}

/// The id of a call of the conversation, by its place.
pub(super) fn call_id(id: CallId) -> String {
    let CallId(CallRef { message, index }) = id;
    let mut rest = (u64::from(message.0) << 16) | u64::from(index);
    let mut digits = [0; ID];
    for digit in digits.iter_mut().rev() {
        *digit = DIGITS[(rest % 62) as usize];
        rest /= 62;
    }
    String::from_utf8_lossy(&digits).into_owned()
}

/// The id of a call of the run, by its place: after all messages of the conversation.
pub(super) fn run_call_id(step: usize, call: usize) -> String {
    let step = u32::try_from(step).unwrap_or(u32::MAX);
    call_id(CallId(CallRef {
        message: Ordinal(u32::MAX - step),
        index: u16::try_from(call).unwrap_or(u16::MAX),
    }))
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_place_has_an_id_of_nine_letters_and_digits() {
        let place = |message, index| {
            let message = Ordinal(message);
            call_id(CallId(CallRef { message, index }))
        };
        let ids = [
            place(0, 0),
            place(0, u16::MAX),
            place(1, 0),
            place(12, 3),
            place(u32::MAX, u16::MAX),
            run_call_id(0, 0),
            run_call_id(1, 0),
        ];
        assert!(ids.iter().all(|id| is_accepted(id)), "{ids:?}");
        assert_eq!(ids.iter().collect::<BTreeSet<_>>().len(), ids.len());
        for refused in [
            "",
            "c12_0",
            "call_0fyp",
            "abcdefgh",
            "abcdefghij",
            "é2345678",
        ] {
            assert!(!is_accepted(refused), "{refused}");
        }
    }

    #[test]
    fn its_models_are_known_by_their_names() {
        for model in [
            "mistral-large-latest",
            "mistralai/Ministral-8B",
            "devstral",
            "open-mixtral-8x7b",
        ] {
            assert!(is_mistral(model), "{model}");
        }
        for other in ["gpt-4o", "qwen3", "gemma-3-27b-it"] {
            assert!(!is_mistral(other), "{other}");
        }
    }
}
