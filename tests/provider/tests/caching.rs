//! What the simulated cache reads and writes, and from when.

use serde_json::{Value, json};
use unisono_fake_provider::{
    Act, At, CacheSettings, CacheSim, CacheUse, Ending, FakeProvider, Gate, Refusal, Script,
    Visibility,
};

use crate::client::Client;

/// Tokens of the shared part of a prompt.
const SHARED: usize = 2_000;

fn settings() -> CacheSettings {
    CacheSettings::default()
}

async fn provider(cache: &CacheSim) -> FakeProvider {
    FakeProvider::builder().cache(cache).start().await
}

/// A request of Anthropic's: a long marked system text, and a question.
fn anthropic(question: &str) -> Value {
    json!({
        "model": "m",
        "system": [{
            "type": "text",
            "text": "s".repeat(SHARED * 4),
            "cache_control": {"type": "ephemeral"},
        }],
        "messages": [{"role": "user", "content": question}],
    })
}

/// A request of Chat Completions that begins with a long text.
fn chat(model: &str, question: &str) -> String {
    let shared = "s".repeat(SHARED * 4);
    format!(r#"{{"model":"{model}","messages":["{shared}","{question}"],"stream":true}}"#)
}

async fn send(client: &mut Client, path: &str, body: &str) -> Value {
    client.post(path, body).await;
    let response = client.response().await;
    let text = response.text().to_owned();
    serde_json::from_str(&text).unwrap_or(Value::String(text))
}

fn reads(cache: &CacheSim) -> Vec<u64> {
    cache.uses().iter().map(|used| used.read).collect()
}

#[tokio::test]
async fn anthropic_reads_what_was_marked_and_written() {
    let cache = CacheSim::new(settings());
    let provider = provider(&cache).await;
    let mut client = Client::of(&provider).await;
    let first = send(&mut client, "/v1/messages", &anthropic("one").to_string()).await;
    let second = send(&mut client, "/v1/messages", &anthropic("two!").to_string()).await;

    let [one, two] = <[CacheUse; 2]>::try_from(cache.uses()).expect("two requests");
    assert!(one.write >= SHARED as u64, "{one:?}");
    assert_eq!((one.read, two.read, two.write), (0, one.write, 0));
    assert_eq!((one.breakpoints, one.request, two.request), (1, 0, 1));
    let usage = &first["usage"];
    assert_eq!(usage["cache_creation_input_tokens"], one.write);
    assert_eq!(usage["cache_read_input_tokens"], 0);
    assert_eq!(usage["input_tokens"], one.input - one.write);
    assert_eq!(second["usage"]["cache_read_input_tokens"], two.read);
    assert_eq!(second["usage"]["input_tokens"], two.input - two.read);
}

#[tokio::test]
async fn anthropic_writes_nothing_without_a_mark() {
    let cache = CacheSim::new(settings());
    let provider = provider(&cache).await;
    let mut client = Client::of(&provider).await;
    let mut unmarked = anthropic("one");
    unmarked["system"][0]
        .as_object_mut()
        .expect("a block")
        .remove("cache_control");
    for _ in 0..2 {
        send(&mut client, "/v1/messages", &unmarked.to_string()).await;
    }
    assert!(
        cache
            .uses()
            .iter()
            .all(|used| (used.read, used.write) == (0, 0))
    );
}

#[tokio::test]
async fn anthropic_finds_an_earlier_mark_from_a_later_one() {
    let cache = CacheSim::new(settings());
    let provider = provider(&cache).await;
    let mut client = Client::of(&provider).await;
    send(&mut client, "/v1/messages", &anthropic("one").to_string()).await;
    // The mark has moved on to the end of the question.
    let mut later = anthropic("one");
    later["system"][0]
        .as_object_mut()
        .expect("a block")
        .remove("cache_control");
    later["messages"][0]["content"] = json!([
        {"type": "text", "text": "more", "cache_control": {"type": "ephemeral"}},
    ]);
    send(&mut client, "/v1/messages", &later.to_string()).await;
    let uses = cache.uses();
    assert!(
        uses[1].read >= SHARED as u64 && uses[1].write > 0,
        "{uses:?}"
    );
}

#[tokio::test]
async fn anthropic_looks_back_twenty_blocks_and_no_further() {
    let cache = CacheSim::new(settings());
    let provider = provider(&cache).await;
    let mut client = Client::of(&provider).await;
    send(&mut client, "/v1/messages", &anthropic("one").to_string()).await;
    for (blocks, found) in [(19, true), (20, false)] {
        let mut later = anthropic("");
        later["system"][0]
            .as_object_mut()
            .expect("a block")
            .remove("cache_control");
        let mut content = vec![json!({"type": "text", "text": format!("of {blocks}")}); blocks];
        content[blocks - 1]["cache_control"] = json!({"type": "ephemeral"});
        later["messages"][0]["content"] = Value::from(content);
        send(&mut client, "/v1/messages", &later.to_string()).await;
        let read = cache.uses().last().expect("a use").read;
        assert_eq!(read > 0, found, "{blocks} blocks after the written one");
    }
}

#[tokio::test]
async fn anthropic_forgets_messages_when_the_tool_choice_changes() {
    let cache = CacheSim::new(settings());
    let provider = provider(&cache).await;
    let mut client = Client::of(&provider).await;
    let marked = |choice: Value| {
        let mut request = anthropic("");
        request["messages"][0]["content"] = json!([
            {"type": "text", "text": "q".repeat(4_000), "cache_control": {"type": "ephemeral"}},
        ]);
        request["tool_choice"] = choice;
        request.to_string()
    };
    for choice in [
        json!({"type": "auto"}),
        json!({"type": "auto"}),
        json!({"type": "any"}),
    ] {
        send(&mut client, "/v1/messages", &marked(choice)).await;
    }
    let reads = reads(&cache);
    assert!(reads[1] >= 3_000, "{reads:?}");
    assert!(
        (2_000..2_900).contains(&reads[2]),
        "tools and system stay: {reads:?}"
    );
}

#[tokio::test]
async fn openai_and_gemini_read_the_longest_common_start_in_steps() {
    let cache = CacheSim::new(settings());
    let provider = provider(&cache).await;
    let mut client = Client::of(&provider).await;
    for question in ["one", "two"] {
        send(&mut client, "/v1/chat/completions", &chat("m", question)).await;
    }
    send(&mut client, "/v1/chat/completions", &chat("n", "two")).await;
    for path in [
        "/v1beta/models/m:generateContent",
        "/v1beta/models/m:streamGenerateContent?alt=sse",
    ] {
        send(&mut client, path, &chat("m", "two")).await;
    }
    send(
        &mut client,
        "/v1beta/models/n:generateContent",
        &chat("m", "two"),
    )
    .await;
    let step = |tokens: usize| (tokens / 128 * 128) as u64;
    let expected = [0, step(SHARED), 0, 0, step(SHARED), 0];
    assert_eq!(
        reads(&cache),
        expected,
        "other models and dialects have caches of their own"
    );
    assert!(
        cache.uses().iter().all(|used| used.write == 0),
        "they do not tell writes"
    );
}

#[tokio::test]
async fn each_key_may_have_a_cache_of_its_own() {
    for (keys, expected) in [(false, [false, true, true]), (true, [false, false, true])] {
        let cache = CacheSim::new(CacheSettings {
            openai_keys: keys,
            ..settings()
        });
        let provider = provider(&cache).await;
        let mut client = Client::of(&provider).await;
        for key in ["a", "b", "a"] {
            let question = chat("m", "one");
            let keyed = question.trim_end_matches('}');
            let body = format!(r#"{keyed},"prompt_cache_key":"{key}"}}"#);
            send(&mut client, "/v1/chat/completions", &body).await;
        }
        let seen: Vec<bool> = reads(&cache).iter().map(|read| *read > 0).collect();
        assert_eq!(seen, expected, "keys: {keys}");
    }
}

#[tokio::test]
async fn short_prompts_are_not_cached() {
    let cache = CacheSim::new(CacheSettings {
        minimum: SHARED as u64 * 2,
        ..settings()
    });
    let provider = provider(&cache).await;
    let mut client = Client::of(&provider).await;
    for _ in 0..2 {
        send(&mut client, "/v1/chat/completions", &chat("m", "one")).await;
        send(&mut client, "/v1/messages", &anthropic("one").to_string()).await;
    }
    assert!(
        cache
            .uses()
            .iter()
            .all(|used| (used.read, used.write) == (0, 0))
    );
}

#[tokio::test]
async fn newer_openai_models_match_at_breakpoints_only() {
    let cache = CacheSim::new(CacheSettings {
        openai_breakpoints: true,
        ..settings()
    });
    let provider = provider(&cache).await;
    let mut client = Client::of(&provider).await;
    let request = |question: &str, marked: bool, explicit: bool| {
        let mut block = json!({"type": "text", "text": "s".repeat(SHARED * 4)});
        if marked {
            block["prompt_cache_breakpoint"] = json!({"mode": "explicit"});
        }
        let mut request = json!({
            "model": "m",
            "messages": [
                {"role": "system", "content": [block]},
                {"role": "user", "content": question},
            ],
        });
        if explicit {
            request["prompt_cache_options"] = json!({"mode": "explicit"});
        }
        request.to_string()
    };
    let path = "/v1/chat/completions";
    for (question, marked, explicit) in [
        ("one", false, false),
        ("two", false, false),
        ("two", false, false),
        ("three", true, true),
        ("four", true, true),
    ] {
        send(&mut client, path, &request(question, marked, explicit)).await;
    }
    let uses = cache.uses();
    assert_eq!(uses[1].read, 0, "a common start is not enough");
    assert_eq!(
        uses[2].read, uses[1].write,
        "the end of the newest message is"
    );
    assert!(
        uses[3].write >= SHARED as u64 && uses[3].read == 0,
        "{uses:?}"
    );
    assert_eq!((uses[4].read, uses[4].write), (uses[3].write, 0));
}

#[tokio::test]
async fn what_is_written_can_be_read_from_the_first_event_on() {
    let cache = CacheSim::new(settings());
    let (first, second) = (Gate::new(), Gate::new());
    let leader = Act::answer("Hi.")
        .hold_at(At::Body(0), &first)
        .hold_at(At::Event(1), &second);
    // The first follower is refused, so that it writes nothing itself.
    let script = Script::sequence([leader, Act::refuse(Refusal::Overloaded)]).then("Hi.");
    let builder = FakeProvider::builder().cache(&cache).script(script);
    let provider = builder.start().await;

    let mut leader = Client::of(&provider).await;
    let path = "/v1/chat/completions";
    leader.post(path, &chat("m", "leader")).await;
    leader.head().await;
    first.reached(1).await;
    let mut follower = Client::of(&provider).await;
    send(&mut follower, path, &chat("m", "early")).await;

    first.open();
    assert!(leader.chunk().await.is_some(), "the first event");
    second.reached(1).await;
    send(&mut follower, path, &chat("m", "late")).await;
    let reads = reads(&cache);
    assert_eq!(reads[..2], [0, 0], "before the leader's first event");
    assert!(reads[2] > 0, "after it, while the leader is still held");
}

#[tokio::test]
async fn a_delay_counts_requests() {
    let cache = CacheSim::new(CacheSettings {
        visibility: Visibility::AfterRequests(2),
        ..settings()
    });
    let provider = provider(&cache).await;
    let mut client = Client::of(&provider).await;
    for question in ["a", "b", "c", "d"] {
        send(&mut client, "/v1/chat/completions", &chat("m", question)).await;
    }
    let seen: Vec<bool> = reads(&cache).iter().map(|read| *read > 0).collect();
    assert_eq!(seen, [false, false, false, true]);
}

#[tokio::test]
async fn a_test_can_say_when() {
    let cache = CacheSim::new(CacheSettings {
        visibility: Visibility::Manual,
        ..settings()
    });
    let provider = provider(&cache).await;
    let mut client = Client::of(&provider).await;
    for question in ["a", "b"] {
        send(&mut client, "/v1/chat/completions", &chat("m", question)).await;
    }
    cache.make_visible();
    send(&mut client, "/v1/chat/completions", &chat("m", "c")).await;
    let seen: Vec<bool> = reads(&cache).iter().map(|read| *read > 0).collect();
    assert_eq!(seen, [false, false, true]);
}

#[tokio::test]
async fn what_fails_before_its_first_event_writes_nothing() {
    let cache = CacheSim::new(settings());
    let script = Script::sequence([
        Act::refuse(Refusal::Overloaded),
        Act::answer("Hi.").end_at(At::Body(0), Ending::Close),
        Act::answer("Hi."),
    ]);
    let provider = FakeProvider::builder()
        .cache(&cache)
        .script(script)
        .start()
        .await;
    for _ in 0..3 {
        let mut client = Client::of(&provider).await;
        client.post("/v1/chat/completions", &chat("m", "one")).await;
        client.head().await;
        provider.wait_for_quiet().await;
    }
    assert_eq!(reads(&cache), [0, 0, 0]);
}
