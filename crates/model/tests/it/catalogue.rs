//! The model catalogue: the built-in file, overrides, lookups and errors.

use std::time::Duration;

use jiff::civil::{Date, date};
use unisono_context::{Encoding, Ppm, Tokens};
use unisono_model::catalogue::{Catalogue, Error, FRESH_DAYS, ModelRef, NOTICE_DAYS, Price};
use unisono_model::dialect::Dialect;

fn built_in() -> Catalogue {
    Catalogue::built_in().unwrap()
}

#[test]
fn knows_the_limits_of_every_listed_model() {
    let rows = rows! {
        ("openai/gpt-4o", 128_000, 16_384, Encoding::O200kBase),
        ("openai/gpt-4-turbo", 128_000, 4_096, Encoding::Cl100kBase),
        ("openai/gpt-4-32k", 32_768, 8_192, Encoding::Cl100kBase),
        ("openai/gpt-3.5-turbo", 16_385, 4_096, Encoding::Cl100kBase),
        ("anthropic/claude-sonnet-4-5", 200_000, 64_000, Encoding::Cl100kBase),
        ("anthropic/claude-3-5-sonnet", 200_000, 8_192, Encoding::Cl100kBase),
        ("anthropic/claude-3-opus", 200_000, 4_096, Encoding::Cl100kBase),
        ("anthropic/claude-3-haiku", 200_000, 4_096, Encoding::Cl100kBase),
        ("gemini/gemini-2.5-pro", 1_048_576, 65_536, Encoding::Cl100kBase),
        ("gemini/gemini-2.5-flash", 1_048_576, 65_536, Encoding::Cl100kBase),
        ("gemini/gemini-4-carbon", 1_048_576, 65_536, Encoding::Cl100kBase),
        ("azure/gpt-4o", 128_000, 16_384, Encoding::O200kBase),
        ("extractive", 128_000, 4_096, Encoding::O200kBase),
    };
    for (reference, window, max_output, encoding) in rows {
        let entry = built_in().get(None, reference).unwrap();
        assert!(!entry.assumed, "{reference}");
        assert_eq!(
            (entry.window, entry.max_output, entry.encoding),
            (Tokens(window), Tokens(max_output), encoding),
            "{reference}"
        );
        assert_eq!(entry.model.to_string(), reference);
    }
}

#[test]
fn the_offline_model_is_free_and_azure_has_no_invented_price() {
    let offline = built_in().get(None, "extractive").unwrap();
    assert_eq!(offline.prices.input, Some(Price::FREE));
    assert_eq!(offline.summariser, ModelRef::extractive());
    assert!(!offline.estimated);
    let azure = built_in().get(Some("azure"), "gpt-4o").unwrap();
    assert_eq!(azure.prices.input, None);
}

#[test]
fn knows_dialects_and_cache_lifetimes() {
    let responses = Some(Dialect::OpenAiResponses);
    // Reference, reasoning, breakpoints, dialect, shortest cached prefix, its lifetime.
    for (reference, reasoning, breakpoints, dialect, minimum, seconds) in rows! {
        ("openai/gpt-4o", false, false, None, Some(1_024), 300),
        ("openai/gpt-5", true, false, responses, Some(1_024), 300),
        ("openai/gpt-6.2-sol", true, true, responses, Some(1_024), 1_800),
        // The endpoints of another provider may use other dialects.
        ("azure/gpt-6.2-sol", true, true, None, Some(1_024), 1_800),
        ("anthropic/claude-opus-5", true, false, None, Some(512), 300),
        ("anthropic/claude-haiku-4-5", false, false, None, Some(4_096), 300),
        ("gemini/gemini-2.5-flash", false, false, None, Some(2_048), 300),
        ("openai-compatible/qwen3", false, false, None, None, 300),
    } {
        let entry = built_in().get(None, reference).unwrap();
        let properties = (entry.reasoning, entry.breakpoints, entry.dialect);
        assert_eq!(properties, (reasoning, breakpoints, dialect), "{reference}");
        let cache = (entry.cache_minimum, entry.cache_lifetime);
        let expected = (minimum.map(Tokens), Duration::from_secs(seconds));
        assert_eq!(cache, expected, "{reference}");
    }
}

#[test]
fn a_long_input_has_its_own_prices() {
    let input = |reference: &str, tokens| {
        let entry = built_in().get(None, reference).unwrap();
        entry.prices_for(Tokens(tokens)).input
    };
    for (reference, tokens, micro_dollars) in [
        ("gemini/gemini-2.5-pro", 200_000, Some(1_250_000)),
        ("gemini/gemini-2.5-pro", 200_001, Some(2_500_000)),
        ("anthropic/claude-haiku-5-5", 100_001, Some(500_000)),
        ("openai/gpt-4o", 1_000_000, Some(2_500_000)),
        ("azure/gpt-6.2-sol", 300_000, None),
    ] {
        assert_eq!(
            input(reference, tokens),
            micro_dollars.map(Price),
            "{reference}"
        );
    }
}

#[test]
fn a_promotion_is_no_price() {
    for (reference, input) in [
        ("gemini/gemini-3.6-flash", 1_500_000),
        ("gemini/gemini-3.8-flash", 1_500_000),
        ("gemini/gemini-flash-latest", 1_500_000),
        ("gemini/gemini-4-argon", 4_000_000),
        ("gemini/gemini-4-carbon", 4_000_000),
    ] {
        let entry = built_in().get(None, reference).unwrap();
        assert_eq!(entry.prices.input, Some(Price(input)), "{reference}");
    }
}

#[test]
fn models_written_by_hand_take_what_their_kin_take() {
    for (written, generated) in [
        ("openai/gpt-6.2-sol", "openai/gpt-6.1-sol"),
        ("openai/gpt-6.2-astra", "openai/gpt-6-astra"),
        ("gemini/gemini-4-carbon", "gemini/gemini-4-argon"),
        ("gemini/gemini-4-neon", "gemini/gemini-4-argon"),
    ] {
        let of = |reference| {
            let entry = built_in().get(None, reference).unwrap();
            let sizes = (entry.window, entry.max_output, entry.cache_minimum);
            (sizes, entry.accepts, entry.reasoning, entry.dialect)
        };
        assert_eq!(of(written), of(generated), "{written}");
    }
}

#[test]
fn names_models_that_are_like_an_unknown_one() {
    let similar = |provider: &str, model: &str| {
        let (provider, model) = (provider.to_owned(), model.to_owned());
        built_in().similar(&ModelRef { provider, model })
    };
    assert_eq!(similar("openai", "gpt-4o-mimi")[0], "openai/gpt-4o-mini");
    assert_eq!(similar("azure", "gpt4o")[0], "azure/gpt-4o");
    assert_eq!(
        similar("anthropic", "claude-sonet-4-5")[0],
        "anthropic/claude-sonnet-4-5"
    );
    assert!(similar("openai", "gpt-5").len() <= 3);
    assert!(similar("openai", "zzz").is_empty());
    assert!(similar("nobody", "gpt-4o").is_empty());
}

#[test]
fn finds_models_by_bare_and_by_dated_name() {
    for name in ["gpt-4o", "openai/gpt-4o-2024-08-06", "gpt-4o-2024-11-20"] {
        assert_eq!(
            built_in().get(None, name).unwrap().window,
            Tokens(128_000),
            "{name}"
        );
    }
    let entry = built_in()
        .get(Some("anthropic"), "claude-3-5-sonnet-20241022")
        .unwrap();
    assert!(!entry.assumed);
    let latest = built_in()
        .get(Some("anthropic"), "claude-3-5-sonnet-latest")
        .unwrap();
    assert_eq!(latest.prices, entry.prices);
    assert!(!built_in().get(None, "gpt-4-0613").unwrap().assumed);
}

#[test]
fn every_model_has_room_for_a_question_beside_its_longest_output() {
    // Its provider states that output may be two thirds of the window.
    let exceptions = ["openai/gpt-5-pro"];
    let catalogue = built_in();
    let full = catalogue.entries().filter(|entry| {
        let usable = entry.window.minus(entry.max_output);
        usable.0 * 2 < entry.window.0
    });
    let full: Vec<String> = full.map(|entry| entry.model.to_string()).collect();
    assert_eq!(full, exceptions);
}

#[test]
fn an_output_as_long_as_the_window_is_refused_with_both_numbers() {
    let cases = [
        (
            "[models.\"own/a\"]\nwindow = 8_192\nmax_output = 8_192\n[models.\"own/b\"]\n",
            "m.toml:3: `max_output`: model `own/a` has a window of 8192 tokens and max_output = 8192: \
             nothing is left for a question; write a max_output below the window, such as 2048",
        ),
        // The longest output in the built-in catalogue applies as well.
        (
            "[models.\"openai/gpt-4o\"]\nwindow = 16_000\n",
            "m.toml:2: `window`: model `openai/gpt-4o` has a window of 16000 tokens and max_output = \
             16384: nothing is left for a question; write a max_output below the window, such as 4000",
        ),
    ];
    for (text, expected) in cases {
        let error = built_in().with_file("m.toml", text).unwrap_err();
        assert_eq!(error.to_string(), expected);
    }
}

#[test]
fn a_missing_window_is_assumed_with_an_output_of_at_most_a_quarter() {
    let own = "[models.\"openai-compatible/a\"]\nprice = { input = 1 }\n\
               [models.\"openai-compatible/b\"]\nwindow = 8_192\n";
    let catalogue = built_in().with_file("m.toml", own).unwrap();
    let of = |name: &str| {
        let entry = catalogue.get(Some("openai-compatible"), name).unwrap();
        (entry.assumed, entry.window.0, entry.max_output.0)
    };
    assert_eq!(of("a"), (true, 128_000, 8_192));
    assert_eq!(of("b"), (false, 8_192, 2_048));
}

#[test]
fn a_built_in_model_of_unknown_window_has_its_prices() {
    let entry = built_in().get(None, "openai/gpt-5.5-cyber").unwrap();
    assert!(entry.assumed && entry.reasoning);
    assert_eq!(entry.window, Tokens(128_000));
    assert_eq!(entry.prices.input, Some(Price(12_500_000)));
}

#[test]
fn a_missing_model_of_openai_is_asked_like_its_kin() {
    let own = "[models.\"openai/gpt-8\"]\nwindow = 500_000\n\
               [models.\"openai/gpt-9-chat\"]\nreasoning = false\ndialect = \"openai-chat\"\n";
    let catalogue = built_in()
        .with_provider("mirror", "openai")
        .with_file("m.toml", own)
        .unwrap();
    let (chat, responses) = (Some(Dialect::OpenAiChat), Some(Dialect::OpenAiResponses));
    for (name, expected) in [
        ("openai/gpt-7.1-sol", (true, responses)),
        ("openai/gpt-8", (true, responses)),
        ("openai/gpt-9-chat", (false, chat)),
        ("openai/o5-mini", (true, responses)),
        ("azure/gpt-7", (true, None)),
        ("mirror/gpt-7", (true, None)),
        ("openai/gpt-4.2", (false, None)),
        ("openai/gpt-7-search-api", (false, None)),
        ("openai/gpt-5-search-api", (false, None)),
        ("openai/ft:gpt-7", (false, None)),
        ("azure/gpt-35-turbo", (false, None)),
        ("azure/o200k", (false, None)),
        ("openai-compatible/gpt-7", (false, None)),
    ] {
        let entry = catalogue.get(None, name).unwrap();
        assert_eq!((entry.reasoning, entry.dialect), expected, "{name}");
    }
}

#[test]
fn a_missing_model_is_assumed() {
    let entry = built_in()
        .get(Some("openai-compatible"), "llama-3.3-70b")
        .unwrap();
    assert!(entry.assumed);
    assert_eq!(
        (entry.window, entry.max_output),
        (Tokens(128_000), Tokens(8_192))
    );
    assert_eq!(entry.prices.input, None);
    let entry = built_in().get(None, "openai-compatible/org/model").unwrap();
    assert_eq!(entry.model.model, "org/model");
    // Only the model itself writes its summaries.
    assert_eq!(entry.summariser, entry.model);
}

#[test]
fn an_unknown_provider_is_refused_with_a_hint() {
    let error = built_in()
        .get(Some("antropic"), "claude-3-opus")
        .unwrap_err();
    assert_eq!(
        error.to_string(),
        "unknown provider `antropic`, did you mean `anthropic`?; known are: anthropic, azure, \
         extractive, gemini, openai, openai-compatible"
    );
    let error = built_in().get(None, "gpt-4oo").unwrap_err();
    let expected = Error::NoProvider {
        name: "gpt-4oo".to_owned(),
        similar: Some("openai/gpt-4o".to_owned()),
    };
    assert_eq!(error, expected);
    for (name, says) in rows! {
        ("openai/", "`openai/` names no model; write it as provider/model"),
        ("extractive/foo", "this program has no model `extractive/foo`; it has extractive"),
    } {
        let error = built_in().get(None, name).unwrap_err();
        assert_eq!(error.to_string(), says);
    }
}

#[test]
fn the_default_model_of_an_own_provider_is_found_without_its_provider() {
    for (written, bare) in rows! {
        ("qwen3:8b", "qwen3:8b"),
        ("ollama/qwen3:8b", "qwen3:8b"),
        // Names of Hugging Face, as vLLM has them.
        ("Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
        ("ollama/Qwen/Qwen3-8B", "Qwen/Qwen3-8B"),
    } {
        let catalogue = built_in()
            .with_provider("ollama", "openai-compatible")
            .with_default_model("ollama", written);
        let model = catalogue.resolve(bare).unwrap();
        assert_eq!(model.to_string(), format!("ollama/{bare}"), "{written}");
        assert!(catalogue.resolve("qwen3:4b").is_err());
        let error = catalogue.resolve("Qwen/Qwen3-4B").unwrap_err().to_string();
        assert!(error.starts_with("unknown provider `Qwen`"), "{error}");
    }
}

#[test]
fn a_users_file_overrides_key_by_key() {
    let user = r#"
        [providers.ollama]
        encoding = "cl100k_base"
        [models."openai/gpt-4o"]
        window = 64_000
        price = { input = 1.10 }
        reasoning = true
        cache_seconds = 60
        [models."ollama/qwen3"]
        window = 32_768
        trigger = 0.8
        think_opened = true
    "#;
    let catalogue = built_in().with_file("models.toml", user).unwrap();
    let changed = catalogue.get(None, "gpt-4o").unwrap();
    assert_eq!(
        (changed.window, changed.max_output),
        (Tokens(64_000), Tokens(16_384))
    );
    assert_eq!(changed.prices.input, Some(Price(1_100_000)));
    assert!(changed.reasoning);
    assert_eq!(changed.cache_lifetime, Duration::from_secs(60));
    assert_eq!(changed.prices.output, Some(Price(10_000_000)));
    let own = catalogue.get(Some("ollama"), "qwen3").unwrap();
    assert_eq!(
        (own.trigger, own.encoding),
        (Ppm::percent(80), Encoding::Cl100kBase)
    );
    assert!(own.estimated);
    assert!(own.think_opened && !changed.think_opened);
}

#[test]
fn errors_name_file_line_and_key() {
    let rows = rows! {
        ("[models.\"a/b\"]\nwindow = \"big\"", "m.toml:2: `window`: invalid type"),
        (
            "[models.\"a/b\"]\n\nwindwo = 5",
            "m.toml:3: `windwo`: unknown field `windwo`, did you mean `window`?",
        ),
        ("[models.\"a/b\"]\nwindow = 0", "m.toml:2: `window`: must be at least 1 token"),
        ("[models.\"a/b\"]\ntrigger = 1.5", "m.toml:2: `trigger`: must be a share"),
        ("[models.\"a/b\"]\nencoding = \"gpt\"", "m.toml:2: `encoding`: unknown encoding `gpt`"),
        ("[models.\"a/b\"]\nsummariser = \"x\"", "m.toml:2: `summariser`: `x` must be"),
        ("[models.\"a/b\"]\nprice = { input = -1 }", "m.toml:2: `price`: input = -1 must be"),
        (
            "[models.\"a/b\"]\nwindow = 1\ncache_seconds = 0",
            "m.toml:3: `cache_seconds`: must be 1 to 86400 seconds",
        ),
        (
            "[providers.a]\ncache_seconds = 100_000",
            "m.toml:2: `cache_seconds`: must be 1 to 86400 seconds",
        ),
        (
            "[models.\"a/b\"]\ndialect = \"openai\"",
            "m.toml:2: `dialect`: unknown dialect `openai`; known are: openai-chat, \
             openai-responses, anthropic, gemini",
        ),
        ("[models.\"a/b\"]\nreasoning = \"yes\"", "m.toml:2: `reasoning`: invalid type"),
        ("[models.\"a/b\"]\nbreakpoints = 4", "m.toml:2: `breakpoints`: invalid type"),
        (
            "[models.\"a/b\"]\nlong_prompt = { input = 1 }",
            "m.toml:2: `long_prompt`: missing field `over`",
        ),
        (
            "[models.\"a/b\"]\nlong_prompt = { over = 0, input = 1 }",
            "m.toml:2: `long_prompt`: over = 0 must be at least 1 token",
        ),
        (
            "[models.\"a/b\"]\nlong_prompt = { over = 1, output = -1 }",
            "m.toml:2: `long_prompt`: output = -1 must be",
        ),
        ("[models.nameless]\nwindow = 1", "m.toml:1: `models.nameless`: model `nameless` must"),
        (
            "[models.\"a/b\"]\nretires = \"soon\"",
            "m.toml:2: `retires`: `soon` must be a date such as 2026-11-30",
        ),
        ("[models\n", "m.toml:1: `models`: "),
    };
    for (text, expected) in rows {
        let error = built_in()
            .with_file("m.toml", text)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}

#[test]
fn a_users_provider_serves_the_models_of_a_known_one() {
    let catalogue = Catalogue::built_in()
        .unwrap()
        .with_provider("mirror", "openai");
    let entry = catalogue.get(None, "mirror/gpt-4o").unwrap();
    assert_eq!(entry.window, Tokens(128_000));
    assert!(!entry.assumed && entry.prices.input.is_none(), "{entry:?}");
    assert_eq!(catalogue.default_model("mirror"), None);
    let unlike = catalogue.with_provider("other", "nobody");
    assert!(unlike.get(None, "other/x").is_err());
}

/// The day on which the built-in catalogue was generated. What the test checks for this day holds
/// on every other.
fn generated() -> Date {
    built_in().generated().unwrap()
}

#[test]
fn an_unknown_model_beside_anothers_models_is_not_expected_to_be_cached() {
    let minimum = Some(Tokens(1_024));
    let own = "[models.\"azure/kimi-cached\"]\ncache_minimum = 1_024\n";
    let catalogue = built_in()
        .with_provider("mirror", "openai")
        .with_file("m.toml", own)
        .unwrap();
    for (name, expected) in [
        ("openai/gpt-new", (minimum, None)),
        ("azure/gpt-4o", (minimum, None)),
        ("mirror/gpt-4o", (minimum, None)),
        ("azure/kimi-k2", (None, minimum)),
        ("mirror/claude", (None, minimum)),
    ] {
        let entry = catalogue.get(None, name).unwrap();
        let caches = (entry.cache_minimum, entry.warm_minimum);
        assert_eq!(caches, expected, "{name}");
    }
    let told = catalogue.get(None, "azure/kimi-cached").unwrap();
    assert_eq!(told.cache_minimum, minimum);
}

#[test]
fn local_servers_are_warmed_but_not_expected_to_cache() {
    let catalogue = built_in().with_provider("mine", "openai-compatible");
    for name in ["openai-compatible/qwen3", "mine/org/qwen3"] {
        let entry = catalogue.get(None, name).unwrap();
        let caches = (entry.cache_minimum, entry.warm_minimum);
        assert_eq!(caches, (None, Some(Tokens(1_024))), "{name}");
    }
    let own = "[providers.mine]\nwarm_minimum = 10\n[models.\"mine/x\"]\nwarm_minimum = 20\n";
    let catalogue = catalogue.with_file("m.toml", own).unwrap();
    let of = |name: &str| catalogue.get(None, name).unwrap().warm_minimum;
    assert_eq!(of("mine/y"), Some(Tokens(10)));
    assert_eq!(of("mine/x"), Some(Tokens(20)));
    assert_eq!(of("openai/gpt-4o"), None);
}

#[test]
fn the_default_models_are_known_and_stay() {
    let catalogue = built_in();
    for provider in ["openai", "anthropic", "gemini"] {
        let model = catalogue.default_model(provider).unwrap();
        let entry = catalogue.get(Some(provider), model).unwrap();
        assert!(!entry.assumed && entry.prices.input.is_some(), "{model}");
        let summariser = &entry.summariser;
        let summariser = catalogue.get(None, &summariser.to_string()).unwrap();
        assert!(!summariser.assumed && summariser.prices.output.is_some());
        for entry in [entry, summariser] {
            assert_eq!(entry.retirement(generated()), None, "{}", entry.model);
        }
    }
}

#[test]
fn retiring_models_have_lasting_successors() {
    let catalogue = built_in();
    let mut going = 0;
    for entry in catalogue.entries().filter(|entry| entry.retires.is_some()) {
        let successor = entry.successor.as_ref();
        let successor = successor.unwrap_or_else(|| panic!("{} has no successor", entry.model));
        let successor = catalogue.get(None, &successor.to_string()).unwrap();
        assert!(!successor.assumed, "{}", successor.model);
        assert_eq!(successor.retirement(generated()), None, "{}", entry.model);
        going += 1;
    }
    assert!(going > 20, "{going}");
}

#[test]
fn retirements_are_announced_sixty_days_before() {
    let own = r#"
        [models."openai/gpt-old"]
        retires = 2031-03-01
        successor = "openai/gpt-new"
        [models."anthropic/claude-old"]
        retires = "2031-03-01"
        [models."openai-compatible/mine"]
        retires = "2031-03-01"
    "#;
    let catalogue = built_in().with_file("m.toml", own).unwrap();
    let retirement = |name: &str, today| catalogue.get(None, name).unwrap().retirement(today);
    let on = date(2031, 3, 1);
    assert_eq!(NOTICE_DAYS, 60);
    assert_eq!(retirement("openai/gpt-old", date(2030, 12, 30)), None);
    // Today's date, and whether it is retired.
    for (today, gone) in [
        (date(2030, 12, 31), false),
        (date(2031, 2, 28), false),
        (on, true),
        (date(2040, 1, 1), true),
    ] {
        let found = retirement("openai/gpt-old", today).unwrap();
        assert_eq!((found.on, found.is_retired), (on, gone), "{today}");
        assert_eq!(found.help(), "use `openai/gpt-new` in its place");
    }
    let default = format!(
        "use `anthropic/{}` in its place",
        catalogue.default_model("anthropic").unwrap()
    );
    let without = retirement("anthropic/claude-old", on).unwrap();
    assert_eq!(without.to_string(), "was retired on 2031-03-01");
    assert_eq!(without.help(), default);
    let mine = retirement("openai-compatible/mine", date(2031, 1, 1)).unwrap();
    assert_eq!(mine.to_string(), "retires on 2031-03-01");
    assert_eq!(mine.help(), "choose another");
    // Azure has its own dates.
    let azure = catalogue.get(None, "azure/gpt-old").unwrap();
    assert_eq!((azure.retires, azure.successor), (None, None));
}

#[test]
fn a_catalogue_is_stale_after_a_hundred_and_twenty_days() {
    let catalogue = built_in();
    let after = |days: i64| {
        generated()
            .checked_add(jiff::Span::new().days(days))
            .unwrap()
    };
    assert_eq!(FRESH_DAYS, 120);
    assert_eq!(catalogue.outdated_days(after(-10)), None);
    assert_eq!(catalogue.outdated_days(after(120)), None);
    assert_eq!(catalogue.outdated_days(after(121)), Some(121));
    let newer = format!("generated = \"{}\"", after(100));
    let newer = catalogue.with_file("m.toml", &newer).unwrap();
    assert_eq!(newer.outdated_days(after(121)), None);
}

#[test]
fn own_values_of_a_dated_name_are_used() {
    let catalogue = built_in();
    let of = |name: &str| catalogue.get(None, name).unwrap();
    assert_eq!(of("openai/gpt-4o-2024-05-13").max_output, Tokens(4_096));
    assert_eq!(of("openai/gpt-4o-2024-08-06").max_output, Tokens(16_384));
}
