//! Which wire format a request is in, and which form of answer it asks for.

use memchr::memmem;

/// A provider's wire format.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Dialect {
    /// OpenAI's Chat Completions, and all that speak it.
    OpenAiChat,
    /// OpenAI's Responses.
    OpenAiResponses,
    /// Anthropic's Messages.
    Anthropic,
    /// Gemini's `generateContent`.
    Gemini,
}

impl Dialect {
    /// All four.
    pub const ALL: [Dialect; 4] = [
        Dialect::OpenAiChat,
        Dialect::OpenAiResponses,
        Dialect::Anthropic,
        Dialect::Gemini,
    ];
}

/// The form of answer that a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum Mode {
    /// Server-sent events.
    Stream,
    /// One document.
    Whole,
    /// Gemini's stream without `alt=sse`: its chunks as the items of one JSON array.
    Array,
    /// The number of the request's tokens.
    Count,
}

/// What a request asks for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Endpoint {
    /// The wire format.
    pub dialect: Dialect,
    /// The form of the answer.
    pub mode: Mode,
    /// Whether a stream ends with what was used. Only Chat Completions has to be asked for it
    /// (`stream_options.include_usage`).
    pub stream_usage: bool,
}

impl Endpoint {
    /// The endpoint of a request; none: no provider has such a path.
    ///
    /// Whether a stream is asked for is looked up in the body's bytes, which are not parsed: a
    /// quoted key within a text has its quotes escaped, so it is not taken for one.
    pub fn of(path: &str, query: &str, body: &[u8]) -> Option<Endpoint> {
        let (dialect, mode) = match route(path, query)? {
            (dialect, None) if is_set(body, b"\"stream\"") => (dialect, Mode::Stream),
            (dialect, None) => (dialect, Mode::Whole),
            (dialect, Some(mode)) => (dialect, mode),
        };
        let on_request = dialect == Dialect::OpenAiChat && mode == Mode::Stream;
        Some(Endpoint {
            dialect,
            mode,
            stream_usage: !on_request || is_set(body, b"\"include_usage\""),
        })
    }
}

/// The dialect of a path, and its mode where that does not depend on the body.
fn route(path: &str, query: &str) -> Option<(Dialect, Option<Mode>)> {
    let asks = |parameter: &str| query.split('&').any(|pair| pair.starts_with(parameter));
    if path.ends_with("/chat/completions") {
        // Azure knows its deployments under a version of its API only.
        let azure = path.contains("/openai/deployments/");
        return (!azure || asks("api-version=")).then_some((Dialect::OpenAiChat, None));
    }
    if path.ends_with("/responses") {
        return Some((Dialect::OpenAiResponses, None));
    }
    if path.ends_with("/responses/input_tokens") {
        return Some((Dialect::OpenAiResponses, Some(Mode::Count)));
    }
    if path.ends_with("/messages") {
        return Some((Dialect::Anthropic, None));
    }
    if path.ends_with("/messages/count_tokens") {
        return Some((Dialect::Anthropic, Some(Mode::Count)));
    }
    let (_, method) = gemini_method(path)?;
    let mode = match method {
        "generateContent" => Mode::Whole,
        "streamGenerateContent" if asks("alt=sse") => Mode::Stream,
        "streamGenerateContent" => Mode::Array,
        "countTokens" => Mode::Count,
        _ => return None,
    };
    Some((Dialect::Gemini, Some(mode)))
}

/// Model and method of a path of Gemini's: `…/models/{model}:{method}`.
pub(crate) fn gemini_method(path: &str) -> Option<(&str, &str)> {
    path.rsplit_once("/models/")?.1.rsplit_once(':')
}

/// Whether the body has that quoted key with the value `true`.
fn is_set(body: &[u8], key: &[u8]) -> bool {
    memmem::find_iter(body, key).any(|at| {
        let mut rest = body[at + key.len()..]
            .iter()
            .filter(|byte| !byte.is_ascii_whitespace());
        rest.next() == Some(&b':') && rest.take(4).eq(b"true")
    })
}

#[cfg(test)]
mod tests {
    //! Paths, queries and bodies, and what they ask for.

    use super::*;

    fn asked(path: &str, query: &str, body: &str) -> Option<(Dialect, Mode)> {
        Endpoint::of(path, query, body.as_bytes()).map(|found| (found.dialect, found.mode))
    }

    #[test]
    fn paths_of_every_dialect_are_known() {
        let cases = [
            (
                "/v1/chat/completions",
                "",
                Some((Dialect::OpenAiChat, Mode::Whole)),
            ),
            (
                "/chat/completions",
                "",
                Some((Dialect::OpenAiChat, Mode::Whole)),
            ),
            (
                "/openai/deployments/mine/chat/completions",
                "api-version=2024-10-21",
                Some((Dialect::OpenAiChat, Mode::Whole)),
            ),
            ("/openai/deployments/mine/chat/completions", "", None),
            (
                "/v1/responses",
                "",
                Some((Dialect::OpenAiResponses, Mode::Whole)),
            ),
            (
                "/v1/responses/input_tokens",
                "",
                Some((Dialect::OpenAiResponses, Mode::Count)),
            ),
            ("/v1/messages", "", Some((Dialect::Anthropic, Mode::Whole))),
            (
                "/v1/messages/count_tokens",
                "",
                Some((Dialect::Anthropic, Mode::Count)),
            ),
            (
                "/v1beta/models/gemini-pro:generateContent",
                "",
                Some((Dialect::Gemini, Mode::Whole)),
            ),
            (
                "/v1beta/models/gemini-pro:streamGenerateContent",
                "key=k&alt=sse",
                Some((Dialect::Gemini, Mode::Stream)),
            ),
            (
                "/v1beta/models/gemini-pro:streamGenerateContent",
                "",
                Some((Dialect::Gemini, Mode::Array)),
            ),
            (
                "/v1beta/models/gemini-pro:countTokens",
                "",
                Some((Dialect::Gemini, Mode::Count)),
            ),
            ("/v1beta/models/gemini-pro:embedContent", "", None),
            ("/v1/models", "", None),
        ];
        for (path, query, expected) in cases {
            assert_eq!(asked(path, query, "{}"), expected, "{path}?{query}");
        }
    }

    #[test]
    fn a_stream_is_asked_for_by_a_key_and_not_by_a_text() {
        let cases = [
            (r#"{"model":"m","stream":true}"#, Mode::Stream),
            (r#"{"stream" : true}"#, Mode::Stream),
            (r#"{"stream":false}"#, Mode::Whole),
            (
                r#"{"messages":[{"content":"{\"stream\":true}"}]}"#,
                Mode::Whole,
            ),
            (r#"{"stream"#, Mode::Whole),
        ];
        for (body, expected) in cases {
            let found = asked("/v1/messages", "", body);
            assert_eq!(found, Some((Dialect::Anthropic, expected)), "{body}");
        }
    }

    #[test]
    fn only_chat_completions_has_to_be_asked_for_usage() {
        let usage = |path, body: &str| {
            Endpoint::of(path, "", body.as_bytes())
                .expect("known")
                .stream_usage
        };
        let asking = r#"{"stream":true,"stream_options":{"include_usage":true}}"#;
        assert!(!usage("/v1/chat/completions", r#"{"stream":true}"#));
        assert!(usage("/v1/chat/completions", asking));
        assert!(usage("/v1/chat/completions", "{}"));
        assert!(usage("/v1/messages", r#"{"stream":true}"#));
    }
}
