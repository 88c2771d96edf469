//! Whatever bytes come in, what comes out is a conversation or an error.

use proptest::prelude::*;
use unisono_interchange::transcript::{self, Format, Options};

use crate::sandbox::Sandbox;
use crate::transcript::read;

const SEEDS: [&str; 13] = [
    r#"{"type":"session","unisono":1,"title":"T"}
{"type":"message","role":"assistant","parts":[{"type":"tool_call","id":"1","name":"n","arguments":{"a":1}}]}
{"type":"message","role":"tool","parts":[{"type":"tool_result","call_id":"1","content":"r"}]}
{"type":"checkpoint","id":"0192aaaa-0000-7000-8000-000000000001","number":1,"covers":[[1,2]],"cutoff":2}"#,
    r#"[{"role":"system","content":"s"},{"role":"user","content":[{"type":"text","text":"ü"}]}]"#,
    r#"{"conversations":[{"from":"human","value":"x"},{"from":"function_call","value":"{}"}]}"#,
    r#"{"system":"s","messages":[{"role":"user","content":[{"type":"image","source":{"type":"url","url":"u"}},{"type":"text","text":"x"}]}]}"#,
    r#"[{"title":"t","current_node":"b","mapping":{"a":{"parent":null,"message":null},"b":{"parent":"a","message":{"author":{"role":"user"},"create_time":1.5,"content":{"content_type":"text","parts":["x"]}}}}}]"#,
    r#"[{"name":"n","chat_messages":[{"uuid":"a","sender":"human","text":"x"},{"uuid":"b","parent_message_uuid":"a","sender":"assistant","text":"y"}]}]"#,
    r#"{"type":"user","sessionId":"s","uuid":"a","parentUuid":null,"message":{"role":"user","content":"x"}}
{"type":"assistant","uuid":"b","parentUuid":"a","message":{"content":[{"type":"tool_use","name":"n","input":{}}],"usage":{"input_tokens":1}}}"#,
    r#"{"timestamp":"2026-03-02T09:14:00Z","type":"response_item","payload":{"type":"function_call","name":"n","arguments":"{}","call_id":"c"}}
{"type":"response_item","payload":{"type":"function_call_output","call_id":"c","output":"x"}}"#,
    r#"{"sessionId":"s","projectHash":"p"}
{"id":"a","type":"gemini","content":"x","toolCalls":[{"id":"c","name":"n","args":{},"result":[{"functionResponse":{"response":{"output":"x"}}}]}]}
{"$rewindTo":"a"}"#,
    r#"[{"id":"U1","profile":{"real_name":"A"}},{"type":"message","user":"U1","text":"<@U1> <u|t> &amp;","ts":"1.5"}]"#,
    "[10:32] Alice: x\n2024-05-07 10:32 - Bob: y\n[7/5/24, 1:02 PM] Alice: z\n",
    "Alice: x\n\nBob: y\n\n**Alice:** z\n## Assistant\n",
    "---\ndescription: x\ntools: [recall]\n---\ntext",
];

/// So many cases, or as many as `PROPTEST_CASES` says: `.ci/run` has more.
pub(crate) fn cases(ordinary: u32) -> ProptestConfig {
    match std::env::var_os("PROPTEST_CASES") {
        Some(_) => ProptestConfig::default(),
        None => ProptestConfig::with_cases(ordinary),
    }
}

fn both(bytes: &[u8]) {
    for skip_bad in [false, true] {
        let options = Options {
            name: "x".to_owned(),
            skip_bad,
            ..Options::default()
        };
        drop(transcript::list(bytes, &options));
        let parsed = read(bytes, &options);
        if let Ok(parsed) = parsed {
            // A conversation in which nothing was said has its title and settings.
            let titled = parsed.format == Format::Unisono;
            assert!(titled || !parsed.import.messages.is_empty());
            assert!(skip_bad || parsed.skipped.is_empty());
        }
    }
}

/// A seed with some bytes changed, taken out or doubled.
fn damaged() -> impl Strategy<Value = Vec<u8>> {
    let change = (0..1_000usize, any::<u8>(), 0..3u8);
    (0..SEEDS.len(), prop::collection::vec(change, 1..6)).prop_map(|(seed, changes)| {
        let mut bytes = SEEDS[seed].as_bytes().to_vec();
        for (at, byte, how) in changes {
            let at = at % bytes.len().max(1);
            match how {
                0 if at < bytes.len() => bytes[at] = byte,
                1 => bytes.truncate(at),
                _ => bytes.insert(at, byte),
            }
        }
        bytes
    })
}

proptest! {
    #![proptest_config(cases(400))]

    #[test]
    fn any_bytes_are_read_or_refused(bytes in prop::collection::vec(any::<u8>(), 0..300)) {
        both(&bytes);
    }

    #[test]
    fn damaged_conversations_are_read_or_refused(bytes in damaged()) {
        both(&bytes);
    }

    #[test]
    fn anything_that_looks_like_json_is_read_or_refused(text in r#"[\[{]("(role|from|type|parts|content|messages)"|[\[\]{},:"\\0-9a-z \n]){0,40}"#) {
        both(text.as_bytes());
    }
}

proptest! {
    #![proptest_config(cases(60))]

    #[test]
    fn any_settings_and_agents_are_read_or_refused(bytes in damaged(), toml in r#"(\[(log|run|compaction|agents\.x)\]\n|(level|agents|preset|target|lead) = ("a"|1|0\.5|\["x"\]|\{\})\n){0,8}"#) {
        let text = String::from_utf8_lossy(&bytes);
        let sandbox = Sandbox::with_config(&toml)
            .file("project/agents/a.md", &text)
            .file("project/agents/b.toml", &text);
        sandbox.check();
    }
}
