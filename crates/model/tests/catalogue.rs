//! The model catalogue: the built-in file, overrides, lookups and errors.

#![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
use unisono_context::{Encoding, Ppm, Tokens};
use unisono_model::catalogue::{Catalogue, Error, ModelRef, Price};

fn built_in() -> Catalogue {
    Catalogue::built_in().unwrap()
}

#[test]
fn knows_the_limits_of_every_listed_model() {
    let rows = [
        ("openai/gpt-4o", 128_000, 16_384, Encoding::O200kBase),
        ("openai/gpt-4-turbo", 128_000, 4_096, Encoding::Cl100kBase),
        ("openai/gpt-4-32k", 32_768, 8_192, Encoding::Cl100kBase),
        ("openai/gpt-3.5-turbo", 16_385, 4_096, Encoding::Cl100kBase),
        (
            "anthropic/claude-sonnet-4-5",
            200_000,
            64_000,
            Encoding::Cl100kBase,
        ),
        (
            "anthropic/claude-3-5-sonnet",
            200_000,
            8_192,
            Encoding::Cl100kBase,
        ),
        (
            "anthropic/claude-3-opus",
            200_000,
            4_096,
            Encoding::Cl100kBase,
        ),
        (
            "anthropic/claude-3-haiku",
            200_000,
            4_096,
            Encoding::Cl100kBase,
        ),
        (
            "gemini/gemini-2.5-pro",
            1_048_576,
            65_536,
            Encoding::Cl100kBase,
        ),
        (
            "gemini/gemini-2.5-flash",
            1_048_576,
            65_536,
            Encoding::Cl100kBase,
        ),
        ("azure/gpt-4o", 128_000, 16_384, Encoding::O200kBase),
        ("extractive", 128_000, 4_096, Encoding::O200kBase),
    ];
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
}

#[test]
fn a_users_file_overrides_key_by_key() {
    let user = r#"
        [providers.ollama]
        encoding = "cl100k_base"
        [models."openai/gpt-4o"]
        window = 64_000
        price = { input = 1.10 }
        [models."ollama/qwen3"]
        window = 32_768
        trigger = 0.8
    "#;
    let catalogue = built_in().with_file("models.toml", user).unwrap();
    let changed = catalogue.get(None, "gpt-4o").unwrap();
    assert_eq!(
        (changed.window, changed.max_output),
        (Tokens(64_000), Tokens(16_384))
    );
    assert_eq!(changed.prices.input, Some(Price(1_100_000)));
    assert_eq!(changed.prices.output, Some(Price(10_000_000)));
    let own = catalogue.get(Some("ollama"), "qwen3").unwrap();
    assert_eq!(
        (own.trigger, own.encoding),
        (Ppm::percent(80), Encoding::Cl100kBase)
    );
    assert!(own.estimated);
}

#[test]
fn errors_name_file_line_and_key() {
    let rows = [
        (
            "[models.\"a/b\"]\nwindow = \"big\"",
            "m.toml:2: `window`: invalid type",
        ),
        (
            "[models.\"a/b\"]\n\nwindwo = 5",
            "m.toml:3: `windwo`: unknown field `windwo`",
        ),
        (
            "[models.\"a/b\"]\nwindow = 0",
            "m.toml:2: `window`: must be at least 1 token",
        ),
        (
            "[models.\"a/b\"]\ntrigger = 1.5",
            "m.toml:2: `trigger`: must be a share",
        ),
        (
            "[models.\"a/b\"]\nencoding = \"gpt\"",
            "m.toml:2: `encoding`: unknown encoding `gpt`",
        ),
        (
            "[models.\"a/b\"]\nsummariser = \"x\"",
            "m.toml:2: `summariser`: `x` must be",
        ),
        (
            "[models.\"a/b\"]\nprice = { input = -1 }",
            "m.toml:2: `price`: input = -1 must be",
        ),
        (
            "[models.nameless]\nwindow = 1",
            "m.toml:1: `models.nameless`: model `nameless` must",
        ),
        ("[models\n", "m.toml:1: `models`: "),
    ];
    for (text, expected) in rows {
        let error = built_in()
            .with_file("m.toml", text)
            .unwrap_err()
            .to_string();
        assert!(error.starts_with(expected), "{error}");
    }
}
