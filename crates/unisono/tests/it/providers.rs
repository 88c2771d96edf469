//! Providers: which can be asked, what the others lack, and what is wrong with their settings.

use crate::sandbox::Sandbox;

/// Each provider with what it lacks.
fn lacks(sandbox: &Sandbox) -> String {
    let setup = sandbox.setup();
    let providers = &setup.loaded.providers;
    let line = |(name, _): (&str, &_)| {
        let lacks = providers.unavailable_reason(name);
        format!("{name}: {}", lacks.unwrap_or_else(|| "usable".to_owned()))
    };
    providers.iter().map(line).collect::<Vec<_>>().join("\n")
}

#[test]
fn without_keys_nobody_can_be_asked_and_the_offline_model_answers() {
    let sandbox = Sandbox::new();
    insta::assert_snapshot!(lacks(&sandbox), @r"
    anthropic: no key: set ANTHROPIC_API_KEY or providers.anthropic.api_key_file
    azure: it has no address: set providers.azure.base_url
    gemini: no key: set GEMINI_API_KEY or GOOGLE_API_KEY or providers.gemini.api_key_file
    openai: no key: set OPENAI_API_KEY or providers.openai.api_key_file
    openai-compatible: it has no address: set providers.openai-compatible.base_url
    ");
    assert_eq!(sandbox.setup().loaded.default_model, "extractive");
}

#[test]
fn the_default_model_is_that_of_the_first_provider_with_a_key() {
    let default = |keys| Sandbox::new().keys(keys).setup().loaded.default_model;
    assert_eq!(
        default(&[("GEMINI_API_KEY", "g-1")]),
        "gemini/gemini-3.5-flash-lite"
    );
    assert_eq!(
        default(&[("GOOGLE_API_KEY", "g-1")]),
        "gemini/gemini-3.5-flash-lite"
    );
    assert_eq!(
        default(&[("OPENAI_API_KEY", "sk-1"), ("GEMINI_API_KEY", "g-1")]),
        "openai/gpt-6.1-terra"
    );
    assert_eq!(
        default(&[("OPENAI_API_KEY", "sk-1"), ("ANTHROPIC_API_KEY", "sk-2")]),
        "anthropic/claude-sonnet-5-5"
    );
    assert_eq!(default(&[("OPENAI_API_KEY", "  ")]), "extractive");
}

#[test]
fn a_named_default_stays_whatever_keys_there_are() {
    let sandbox = Sandbox::with_config("[models]\ndefault = \"extractive\"\n");
    let sandbox = sandbox.keys(&[("OPENAI_API_KEY", "sk-1")]);
    assert_eq!(sandbox.setup().loaded.default_model, "extractive");
}

#[test]
fn a_local_server_of_ones_own_is_asked_by_its_name() {
    let sandbox = Sandbox::with_config(
        "[providers.ollama]\nlike = \"openai-compatible\"\n\
         base_url = \"http://127.0.0.1:11434/v1\"\ndefault_model = \"qwen3:8b\"\n",
    );
    let loaded = sandbox.setup().loaded;
    assert_eq!(loaded.default_model, "ollama/qwen3:8b");
    let entry = loaded.catalogue.get(None, "ollama/qwen3:8b").unwrap();
    assert!(entry.assumed);
    assert_eq!(loaded.providers.unavailable_reason("ollama"), None);
    assert_eq!(loaded.providers.key_of("ollama"), None);
}

#[test]
fn a_key_comes_from_its_file_before_any_variable() {
    let sandbox = Sandbox::with_config("[providers.openai]\napi_key_file = \"key\"\n")
        .file("project/key", "sk-of-the-file\n")
        .keys(&[("OPENAI_API_KEY", "sk-of-the-variable")]);
    let loaded = sandbox.setup().loaded;
    let key = sandbox.shown(loaded.providers.key_of("openai").unwrap());
    assert!(key.contains("the file") && key.contains("key"), "{key}");
    let debug = format!("{loaded:?}");
    assert!(!debug.contains("sk-of-the"), "the key is shown: {debug}");
}

#[test]
fn what_is_wrong_is_told_with_its_place() {
    for (text, said) in rows! {
        (
            "[providers.openai]\nbase_url = \"api.example.com/v1\"\napi_key_env = \"K\"\n",
            "has no scheme",
        ),
        ("[providers.mine]\nbase_url = \"http://127.0.0.1\"\n", "not `like` one"),
        ("[providers.gemini]\nlike = \"openai\"\n", "cannot be like"),
        ("[providers.openai]\nlike = \"opnai\"\n", "one of openai"),
        ("[providers.openai]\napi_key_file = \"nowhere\"\n", "nowhere"),
        ("[models]\nfallback = [\"nobody/x\"]\n", "unknown provider `nobody`"),
    } {
        let sandbox = Sandbox::with_config(text).keys(&[("K", "sk-1")]);
        let found = sandbox.check();
        assert!(found.contains(said), "{text}: {found}");
        assert!(found.contains("config/unisono.toml:"), "{found}");
    }
}

#[test]
fn a_key_that_goes_unencrypted_to_another_machine_is_warned_of() {
    let config = |host: &str| {
        let text = format!("[providers.openai]\nbase_url = \"http://{host}/v1\"\n");
        Sandbox::with_config(&text)
            .keys(&[("OPENAI_API_KEY", "sk-1")])
            .complaints()
    };
    assert!(config("models.example").contains("unencrypted"));
    assert_eq!(config("127.0.0.1:9"), "");
}

const MINE: &str = "[providers.mine]\nlike = \"openai-compatible\"\n\
                    base_url = \"http://127.0.0.1:9/v1\"\ndefault_model = \"qwen3\"\n";

/// The value of a setting as it is shown.
fn shown(sandbox: &Sandbox, key: &str) -> String {
    let settings = sandbox.setup().loaded.show();
    let found = settings.iter().find(|setting| setting.key == key);
    found.unwrap().value.clone()
}

#[test]
fn a_header_takes_its_value_from_the_environment_and_no_value_is_shown() {
    let text = format!(
        "{MINE}headers = {{ X-Team = \"core-s3cret\", X-Key = \"Bearer ${{TEAM_KEY}}\" }}\n\
         [mcp.tickets]\nurl = \"https://mcp.example.com/\"\nheaders = {{ X-Team = \"s3cret\" }}\n"
    );
    let sandbox = Sandbox::with_config(&text).keys(&[("TEAM_KEY", "k-1")]);
    assert_eq!(sandbox.complaints(), "");
    let setup = sandbox.setup();
    let access = setup.loaded.providers.get("mine").unwrap();
    let headers = &access.settings.as_ref().unwrap().headers;
    assert_eq!(headers.len(), 2);
    let key = "\"Bearer ${TEAM_KEY}\"";
    assert_eq!(shown(&sandbox, "providers.mine.headers.X-Key"), key);
    let hidden = "\"(not shown)\"";
    assert_eq!(shown(&sandbox, "providers.mine.headers.X-Team"), hidden);
    assert_eq!(shown(&sandbox, "mcp.tickets.headers.X-Team"), hidden);
    assert_eq!(shown(&sandbox, "providers.mine.default_model"), "\"qwen3\"");
}

#[test]
fn a_password_and_the_variables_of_programs_are_not_shown() {
    let text = "[store]\nurl = \"host=db dbname=x password = s3cret\"\n\
                [mcp.files]\ncommand = \"files\"\nenv = { TOKEN = \"s3cret\" }\n\
                [agents.own]\ndescription = \"x\"\nkind = \"command\"\ncommand = \"own\"\n\
                env = { KEY = \"s3cret\" }\n";
    let sandbox = Sandbox::with_config(text);
    for key in ["store.url", "mcp.files.env.TOKEN", "agents.own.env.KEY"] {
        assert_eq!(shown(&sandbox, key), "\"(not shown)\"", "{key}");
    }
    assert_eq!(shown(&sandbox, "mcp.files.command"), "\"files\"");
}

#[test]
fn a_header_whose_variable_is_not_set_is_told_with_its_place() {
    for (value, said) in [
        (
            "Bearer ${TEAM_KEY}",
            "takes its value from the variable TEAM_KEY, which is not set",
        ),
        ("5 $", "write $$ for a dollar sign"),
    ] {
        let found = Sandbox::with_config(&format!("{MINE}headers = {{ X-Key = \"{value}\" }}\n"));
        let found = found.check();
        assert!(
            found.contains(said) && found.contains("config/unisono.toml:5"),
            "{found}"
        );
    }
}

#[test]
fn a_header_whose_variable_is_not_set_stops_only_who_asks_its_provider() {
    let text = format!("{MINE}headers = {{ X-Key = \"${{TEAM_KEY}}\" }}\n");
    let sandbox = Sandbox::with_config(&text);
    let said = sandbox.complaints();
    assert!(
        said.contains("warning: header `X-Key` takes its value"),
        "{said}"
    );
    let loaded = sandbox.setup().loaded;
    let reason = loaded.providers.unavailable_reason("mine").unwrap();
    assert!(reason.contains("TEAM_KEY, which is not set"), "{reason}");
}

#[test]
fn an_address_without_a_default_model_is_warned_of_where_nobody_else_can_be_asked() {
    let bare =
        "[providers.mine]\nlike = \"openai-compatible\"\nbase_url = \"http://127.0.0.1:9/v1\"\n";
    let azure = "[providers.azure]\nbase_url = \"https://me.openai.azure.com\"\n";
    for (text, key, warned) in rows! {
        (bare, None, Some("set providers.mine.default_model")),
        (azure, Some(("AZURE_OPENAI_API_KEY", "k")), Some("set providers.azure.default_model")),
        (MINE, None, None),
        // Another one is asked.
        (bare, Some(("OPENAI_API_KEY", "sk-1")), None),
        // It cannot be asked anyway.
        (azure, None, None),
    } {
        let sandbox = Sandbox::with_config(text);
        let sandbox = match key {
            Some(("OPENAI_API_KEY", _)) => sandbox.keys(&[("OPENAI_API_KEY", "sk-1")]),
            Some(_) => sandbox.keys(&[("AZURE_OPENAI_API_KEY", "k")]),
            None => sandbox,
        };
        let said = sandbox.complaints();
        match warned {
            Some(key) => assert!(
                said.contains(key) && said.contains("`extractive`"),
                "{said}"
            ),
            None => assert_eq!(said, "", "{text}"),
        }
    }
    let named = format!("{bare}[models]\ndefault = \"extractive\"\n");
    assert_eq!(Sandbox::with_config(&named).complaints(), "");
}

#[test]
fn a_cap_on_the_cost_asks_for_the_prices_of_those_who_ask_models() {
    let agent = |kind: &str| format!("---\ndescription: x\n{kind}---\nbe brief\n");
    let server = "---\ndescription: x\nkind: http\nurl: https://agents.test/risks\n---\n";
    let sandbox = Sandbox::with_config(&format!("{MINE}[budget.turn]\nmax_cost_usd = 1.0\n"))
        .file("project/agents/server.md", server)
        .file(
            "project/agents/program.md",
            "---\ndescription: x\nkind: command\ncommand: ls\n---\n",
        )
        .file("project/agents/model.md", &agent(""))
        .file("project/agents/quotes.md", &agent("model: extractive\n"));
    let setup = sandbox.setup();
    let checked = |lead: &str, delegates: &[&str]| {
        let team = setup.roster.team(lead, delegates).unwrap();
        unisono::models::check_prices(&setup, &team)
    };
    assert_eq!(checked("quotes", &["server", "program"]), Ok(()));
    let unpriced = checked("quotes", &["server", "model"]).unwrap_err();
    assert_eq!(
        (&*unpriced.agent, &*unpriced.model),
        ("model", "mine/qwen3")
    );
}

#[test]
fn a_model_of_a_provider_that_is_not_configured_is_not_usable_without_a_fallback() {
    let with_slow = MINE.replace("providers.mine", "providers.slow");
    let default = "[models]\ndefault = \"slow/qwen3\"\n";
    let agent = "---\ndescription: x\n---\nbe brief\n";
    let sandbox = Sandbox::with_config(&format!("{with_slow}{default}"));
    let known = sandbox.file("project/agents/model.md", agent).setup();
    let team = known.roster.team::<&str>("model", &[]).unwrap();
    assert_eq!(unisono::models::check(&known, &team), Ok(()));
    // The team comes from the journal of another daemon.
    let unknown = Sandbox::with_config(MINE).setup();
    let refused = unisono::models::check(&unknown, &team).unwrap_err();
    let refused = refused.to_string();
    assert!(
        refused.contains("`slow/qwen3`") && refused.contains("unknown provider `slow`"),
        "{refused}"
    );
    let fallback = format!("{MINE}[models]\nfallback = [\"mine/qwen3\"]\n");
    let has_fallback = Sandbox::with_config(&fallback).setup();
    assert_eq!(unisono::models::check(&has_fallback, &team), Ok(()));
}
