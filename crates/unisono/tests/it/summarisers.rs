//! Who writes summaries, and what they are told: what is found, and what is wrong.

use unisono_config::summarisers;

use crate::sandbox::Sandbox;

const KEYS: &[(&str, &str)] = &[
    ("ANTHROPIC_API_KEY", "sk-ant-test-1f2e3d4c"),
    ("OPENAI_API_KEY", "sk-test-1f2e3d4c5b6a"),
];

const PROMPT: &str = "Under `## Context`, in {{target_tokens}} tokens:\n{{instructions}}\n\
                      {{prior}}\n{{conversation}}\n{{recent}}\n";

#[test]
fn prompts_are_found_by_name_and_by_path() {
    let sandbox = Sandbox::with_config(
        "[compaction]\nprompt = \"terse\"\n\
         [compaction.models.\"openai/gpt-4o\"]\nprompt = \"texts/own.md\"\n",
    )
    .file("project/config/prompts/terse.md", PROMPT)
    .file("project/texts/own.md", PROMPT)
    .file(
        "home/.config/unisono/prompts/terse.md",
        "not read: {{oops}}",
    )
    .file("home/.config/unisono/prompts/general.md", PROMPT)
    .file("home/.config/unisono/prompts/notes.txt", "no prompt")
    .file("project/config/prompts/README.md", "no prompt");
    // Emacs marks a file with changes so.
    let mark = sandbox.path("project/config/prompts/.#terse.md");
    std::os::unix::fs::symlink("ada@host.17", mark).unwrap();
    // A file that another of its name hides must be right all the same.
    assert_eq!(
        sandbox.check(),
        "/home/.config/unisono/prompts/terse.md:1:1: error: unknown placeholder `{{oops}}`"
    );
    let sandbox = sandbox.file("home/.config/unisono/prompts/terse.md", PROMPT);
    assert_eq!(sandbox.check(), "");
    let prompts = sandbox.setup().loaded.prompts;
    let names: Vec<String> = prompts.names().map(|name| sandbox.shown(name)).collect();
    assert_eq!(
        names,
        [
            "/project/texts/own.md",
            "bulk",
            "code",
            "general",
            "handoff",
            "terse",
            "topic"
        ]
    );
    assert_eq!(
        prompts.get("general"),
        prompts.get("terse"),
        "the person's own"
    );
}

#[test]
fn what_is_wrong_with_prompts_and_summarisers_is_told_with_its_place() {
    let sandbox = Sandbox::with_config(
        "[compaction]\n\
         prompt = \"handof\"\n\
         summarisers = [\"opnai/gpt-4o\", \"extractive\", \"openai/gpt-4o-mini\"]\n\
         summariser_retries = -1\n\
         [compaction.models.\"openai/gpt-4o\"]\n\
         prompt = \"./gone.md\"\n\
         [compaction.providers.openai]\n\
         prompt = \"topic\"\n",
    )
    .file(
        "project/config/prompts/mine.md",
        "{{prior}}\n\n{{conversatoin}}\n",
    );
    insta::assert_snapshot!(sandbox.check());
}

#[test]
fn a_prompt_with_a_byte_order_mark_is_the_same_prompt() {
    let text = format!("<!-- {{{{conversation}}}} is required. -->\n{PROMPT}");
    let sandbox = Sandbox::with_config("[compaction]\nprompt = \"plain\"\n")
        .file("project/config/prompts/plain.md", &text)
        .file(
            "project/config/prompts/marked.md",
            &format!("\u{feff}{text}"),
        );
    assert_eq!(sandbox.check(), "");
    let prompts = sandbox.setup().loaded.prompts;
    assert_eq!(prompts.get("marked"), prompts.get("plain"));
}

#[test]
fn other_texts_beside_the_prompts_stop_nothing() {
    let sandbox = Sandbox::with_config("[log]\nlevel = \"info\"\n")
        .file("project/config/prompts/greeting.md", "Hello {{ user }}, {{")
        .file("project/config/prompts/half.md", "{{ conversation }}\n");
    assert_eq!(
        sandbox.check(),
        "config/prompts/half.md:1:1: warning: `{{prior}}` is missing in the prompt"
    );
    assert!(sandbox.setup().loaded.prompts.get("half").is_none());
    for (name, expected) in [
        (
            "half",
            "half.md:1:1: error: `{{prior}}` is missing in the prompt",
        ),
        (
            "greeting",
            "greeting.md:1:1: error: unknown placeholder `{{user}}`",
        ),
    ] {
        let named = format!("[compaction]\nprompt = \"{name}\"\n");
        let sandbox = Sandbox::with_config(&named)
            .file("project/config/prompts/greeting.md", "Hello {{ user }}, {{")
            .file("project/config/prompts/half.md", "{{ conversation }}\n");
        let found = sandbox.load().unwrap_err().errors();
        assert_eq!(sandbox.shown(found), format!("config/prompts/{expected}"));
    }
}

/// The models that are asked where that one leads.
fn asked(sandbox: &Sandbox, lead: &str) -> Vec<String> {
    let models = summarisers::models(&sandbox.setup().loaded, lead);
    models.iter().map(|entry| entry.model.to_string()).collect()
}

#[test]
fn the_catalogues_summariser_is_asked_where_its_provider_can_be() {
    let nobody = Sandbox::new();
    assert!(asked(&nobody, "anthropic/claude-sonnet-4-5").is_empty());
    let sandbox = Sandbox::new().keys(KEYS);
    assert_eq!(
        asked(&sandbox, "anthropic/claude-sonnet-4-5"),
        ["anthropic/claude-haiku-5-5"]
    );
    assert_eq!(asked(&sandbox, "openai/gpt-4o"), ["openai/gpt-6-luna"]);
    assert!(
        asked(&sandbox, "gemini/gemini-2.5-flash").is_empty(),
        "no key"
    );
    assert!(asked(&sandbox, "extractive").is_empty());
}

#[test]
fn a_provider_of_ones_own_is_asked_for_summaries_by_the_model_that_leads() {
    for like in ["openai-compatible", "openai", "anthropic", "gemini"] {
        let config = format!(
            "[providers.mine]\nlike = \"{like}\"\nbase_url = \"http://127.0.0.1:9/v1\"\n\
             api_key_env = \"OPENAI_API_KEY\"\n"
        );
        let sandbox = Sandbox::with_config(&config).keys(KEYS);
        assert_eq!(asked(&sandbox, "mine/qwen"), ["mine/qwen"], "{like}");
    }
}

#[test]
fn those_that_are_named_are_asked_in_their_order() {
    let sandbox = Sandbox::with_config(
        "[compaction]\n\
         summarisers = [\"gemini/gemini-2.5-flash\", \"openai/gpt-4o-mini\", \
         \"anthropic/claude-haiku-4-5\"]\n\
         [compaction.models.\"openai/gpt-4o\"]\n\
         summarisers = [\"extractive\"]\n",
    )
    .keys(KEYS);
    assert_eq!(
        asked(&sandbox, "extractive"),
        ["openai/gpt-4o-mini", "anthropic/claude-haiku-4-5"]
    );
    assert!(asked(&sandbox, "openai/gpt-4o").is_empty());
    let complaints = sandbox.complaints();
    assert!(
        complaints.contains("warning: summariser `gemini/gemini-2.5-flash` is left out: no key"),
        "{complaints}"
    );
    assert_eq!(complaints.lines().count(), 1, "{complaints}");
}

#[test]
fn a_prompt_that_leaves_no_room_in_a_summarisers_window_is_an_error() {
    let long = format!("{}{PROMPT}", "Mind this too. ".repeat(5_000));
    let sandbox = Sandbox::with_config(
        "[compaction]\nsummarisers = [\"openai/gpt-3.5-turbo\"]\nprompt = \"long\"\n",
    )
    .file("project/config/prompts/long.md", &long)
    .keys(KEYS);
    let complaints = sandbox.complaints();
    assert!(
        complaints.starts_with(
            "config/unisono.toml:3:1: error: summariser `openai/gpt-3.5-turbo`, its prompt: the prompt takes 20"
        ),
        "{complaints}"
    );
    // A larger window takes it.
    let sandbox = sandbox.flag("--set", "compaction.summarisers", "openai/gpt-4o-mini");
    assert_eq!(sandbox.complaints(), "");
}
