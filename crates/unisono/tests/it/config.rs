//! Layers, origins, diagnostics and policies.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::PathBuf;

use unisono_config::settings::DEFAULTS;
use unisono_context::policy::{Keep, Policy, Preset, Trigger};
use unisono_context::{Ppm, Tokens};

use crate::sandbox::Sandbox;

/// The settings of the sandbox that are not defaults, with their origins.
fn changed(sandbox: &Sandbox) -> String {
    let settings = sandbox.setup().loaded.show();
    let lines = settings.iter().filter(|s| {
        s.place.to_string() != "defaults" && !s.place.to_string().starts_with("defaults:")
    });
    let lines: Vec<String> = lines
        .map(|s| format!("{} = {}  # {}", s.key, s.value, s.place))
        .collect();
    sandbox.shown(lines.join("\n"))
}

#[test]
fn every_default_is_shown_with_its_line() {
    let sandbox = Sandbox::new();
    let settings = sandbox.setup().loaded.show();
    let lines: Vec<String> = settings
        .iter()
        .map(|s| format!("{} = {}  # {}", s.key, s.value, s.place))
        .collect();
    insta::assert_snapshot!(sandbox.shown(lines.join("\n")));
}

#[test]
fn the_defaults_are_the_file_that_ships_and_have_nothing_wrong() {
    let shipped = concat!(env!("CARGO_MANIFEST_DIR"), "/../../config/unisono.toml");
    assert_eq!(std::fs::read_to_string(shipped).unwrap(), DEFAULTS);
    let sandbox = Sandbox::new();
    assert_eq!(sandbox.check(), "");
    let config = sandbox.setup().loaded.config;
    assert_eq!(config.store.path, sandbox.path("home/.local/share/unisono"));
}

#[test]
fn a_copy_of_the_defaults_hides_no_other_layer() {
    let sandbox = Sandbox::with_config(DEFAULTS).file(
        "home/.config/unisono/unisono.toml",
        "[log]\nlevel = \"info\"\n",
    );
    assert_eq!(sandbox.setup().loaded.config.log.level, "info");
    assert_eq!(
        sandbox.setup().loaded.project.unwrap(),
        sandbox.path("project")
    );
}

/// The lines that show a setting without giving it a value, as if a person had put them in.
fn commented(keys: &[&str]) -> String {
    let lines = DEFAULTS.lines().filter_map(|line| line.strip_prefix("# "));
    let lines = lines.map(str::to_owned);
    let first = |key: &str| {
        let start = format!("{key} = ");
        lines.clone().find(|line| line.starts_with(&start)).unwrap()
    };
    let all: Vec<String> = keys.iter().map(|key| first(key)).collect();
    all.join("\n")
}

#[test]
fn what_the_comments_say_is_what_the_presets_do() {
    let all = [
        "minimum_tokens",
        "target",
        "summary_cap_tokens",
        "mask_over_tokens",
        "mask_keep_newest",
    ];
    let own: [(&str, &[&str], &str); 4] = rows! {
        (
            "checkpoint",
            &[
                "trigger_tokens",
                "keep_messages",
                "model_checkpoints",
                "model_checkpoints_per_hours",
            ],
            "",
        ),
        ("retention", &["trigger_of_window", "keep_tokens", "align"], "minimum_tokens = 2_000"),
        ("progressive", &["trigger_of_usable", "keep_share"], ""),
        (
            "tiered",
            &[
                "tier_topic",
                "tier_topics",
                "tier_bulks",
                "topic_cap_tokens",
                "bulk_cap_tokens",
                "topics_keep",
                "bulk_merge",
                "large_message",
                "attention",
                "silence_minutes",
                "topic_ends_over",
            ],
            "",
        ),
    };
    for (preset, keys, more) in own {
        let general: Vec<&str> = all
            .iter()
            .copied()
            .filter(|key| !more.starts_with(key))
            .chain(keys.iter().copied())
            .collect();
        let text = format!(
            "[compaction]\npreset = \"{preset}\"\n{}\n{more}\n",
            commented(&general)
        );
        let loaded = Sandbox::with_config(&text).setup().loaded;
        let model = loaded.catalogue.get(None, "extractive").unwrap();
        let preset = Preset::from_name(preset).unwrap();
        // A number that is set counts for every window, that of a preset for large ones.
        let preset = Policy::from_preset(preset);
        let large = preset.keep.scaled(Tokens(200_000), Tokens::ZERO);
        let preset = Policy {
            keep: large,
            ..preset
        };
        assert_eq!(loaded.policy_for(&model), preset, "{text}");
    }
}

#[test]
fn later_layers_win_and_each_value_knows_its_origin() {
    let sandbox = Sandbox::with_config(
        "[log]\nlevel = \"info\"\nformat = \"json\"\n[store]\npath = \".unisono\"\n",
    )
    .file(
        "etc/unisono.toml",
        "[turn]\ntimeout_seconds = 7\nagents = []\n[log]\nlevel = \"error\"\n",
    )
    .file(
        "home/.config/unisono/unisono.toml",
        "[turn]\ntimeout_seconds = 8\n[store]\npath = \"~/kept\"\n",
    )
    .env("UNISONO__LOG__LEVEL", "debug")
    .env("UNISONO__TURN__AGENTS", "risks, facts")
    .env("UNISONO_LOG", "is no setting")
    .flag("--log-format", "log.format", "text")
    .flag("--trigger", "compaction.trigger_tokens", "12_000");
    insta::assert_snapshot!(changed(&sandbox), @r#"
    store.path = "/project/.unisono"  # config/unisono.toml:5:1
    compaction.trigger_tokens = 12000  # flag --trigger
    turn.agents = ["risks", "facts"]  # env UNISONO__TURN__AGENTS
    turn.timeout_seconds = 8  # /home/.config/unisono/unisono.toml:2:1
    log.format = "text"  # flag --log-format
    log.level = "debug"  # env UNISONO__LOG__LEVEL
    "#);
}

#[test]
fn a_variable_keeps_the_case_of_names_in_tables_of_texts() {
    let sandbox = Sandbox::with_config("[mcp.files]\ncommand = \"files\"\n")
        .env("UNISONO__MCP__FILES__ENV__API_Token", "x")
        .env("UNISONO__MCP__FILES__ENV__A__B", "y")
        .env("UNISONO__MCP__FILES__CONTRACTS__readFile", "idempotent");
    assert_eq!(sandbox.check(), "");
    let server = sandbox.setup().loaded.config.mcp["files"].clone();
    let given = |name: &str| server.transport.env.get(name).cloned();
    assert_eq!(given("API_Token").as_deref(), Some("x"));
    assert_eq!(given("A__B").as_deref(), Some("y"));
    assert!(server.contracts.contains_key("readFile"));
}

#[test]
fn a_variable_replaces_the_header_of_a_file_whatever_its_case() {
    for (of_file, count) in [("authorization", 1), ("Authorization", 2)] {
        let text =
            format!("[mcp.kb]\nurl = \"https://kb.test\"\nheaders = {{ {of_file} = \"a\" }}\n");
        let sandbox =
            Sandbox::with_config(&text).env("UNISONO__MCP__KB__HEADERS__AUTHORIZATION", "b");
        let headers = sandbox.setup().loaded.config.mcp["kb"]
            .transport
            .headers
            .clone();
        assert_eq!(headers.len(), count);
        // Of headers with the same name, the last one is sent.
        let (_, sent) = headers.last_key_value().unwrap();
        assert_eq!(sent, "b", "{of_file}");
    }
}

#[test]
fn a_default_that_is_impossible_here_is_told_unless_it_is_replaced() {
    let not_utf8 = PathBuf::from(OsStr::from_bytes(b"/data\xff"));
    let unset = "\"$XDG_DATA_HOME/unisono\" needs a variable that is not set; set XDG_DATA_HOME";
    let wrong = "\"$XDG_DATA_HOME/unisono\" is \"/data\\xFF/unisono\" in full, which is not UTF-8";
    for (data, expected) in [(None, unset), (Some(not_utf8), wrong)] {
        let mut sandbox = Sandbox::new();
        sandbox.sources.home.data = data;
        let complaints = sandbox.complaints();
        assert!(complaints.contains(expected), "{complaints}");
        assert_eq!(complaints.lines().count(), 1, "{complaints}");
        let replaced = sandbox.env("UNISONO__STORE__PATH", "/srv/unisono");
        assert_eq!(replaced.complaints(), "");
    }
}

#[test]
fn a_variable_that_is_not_utf_8_is_an_error() {
    let mut sandbox = Sandbox::new();
    let value = OsStr::from_bytes(b"/data\xff").to_owned();
    let variable = ("UNISONO__STORE__PATH".to_owned(), value);
    sandbox.sources.env.push(variable);
    assert!(sandbox.load().is_err());
    let said = sandbox.complaints();
    assert!(said.contains("env UNISONO__STORE__PATH"), "{said}");
    assert!(said.contains("its value is not UTF-8"), "{said}");
}

#[test]
fn a_variable_that_paths_do_not_have_makes_no_directory_of_its_name() {
    for path in ["${HOME}/kept", "$DATA/kept", "$HOMES"] {
        let sandbox = Sandbox::with_config(&format!("[store]\npath = \"{path}\"\n"));
        let said = sandbox.complaints();
        assert!(said.contains("config/unisono.toml:2:"), "{said}");
        assert!(said.contains("a variable that paths do not have"), "{said}");
    }
    let known = Sandbox::with_config("[store]\npath = \"$HOME/kept\"\n");
    assert_eq!(known.complaints(), "");
}

#[test]
fn the_project_is_found_upwards_or_named() {
    let mut sandbox = Sandbox::with_config("[log]\nlevel = \"info\"\n")
        .file("project/deep/down/x", "")
        .file(
            "project/demo.toml",
            "[log]\nlevel = \"error\"\n[store]\npath = \"here\"\n",
        );
    sandbox.sources.directory = sandbox.path("project/deep/down");
    let loaded = sandbox.setup().loaded;
    assert_eq!(
        (loaded.project.unwrap(), &*loaded.config.log.level),
        (sandbox.path("project"), "info")
    );
    sandbox.sources.file = Some("../../demo.toml".into());
    let loaded = sandbox.setup().loaded;
    assert_eq!(loaded.config.log.level, "error");
    assert_eq!(
        loaded.config.store.path,
        sandbox.path("project/deep/down/../../here")
    );
    sandbox.sources.file = Some("missing.toml".into());
    insta::assert_snapshot!(sandbox.complaints(), @"missing.toml: error: the settings cannot be read: No such file or directory (os error 2)");
}

#[test]
fn a_file_that_cannot_be_read_is_no_missing_file() {
    let sandbox = Sandbox::new().file("project/agents/README.md", "");
    let link = |path: &str| std::os::unix::fs::symlink("nowhere", sandbox.path(path)).unwrap();
    std::fs::create_dir(sandbox.path("project/config")).unwrap();
    link("project/config/unisono.toml");
    insta::assert_snapshot!(sandbox.complaints(), @"config/unisono.toml: error: the settings cannot be read: No such file or directory (os error 2)");
    std::fs::remove_file(sandbox.path("project/config/unisono.toml")).unwrap();
    std::fs::create_dir(sandbox.path("project/config/unisono.toml")).unwrap();
    insta::assert_snapshot!(sandbox.complaints(), @"config/unisono.toml: error: the settings cannot be read: Is a directory (os error 21)");
    std::fs::remove_dir(sandbox.path("project/config/unisono.toml")).unwrap();
    link("project/agents/odd.md");
    insta::assert_snapshot!(sandbox.complaints(), @"agents/odd.md: error: the agent's file cannot be read: No such file or directory (os error 2)");
}

#[test]
fn everything_wrong_is_told_at_once_with_its_place() {
    let sandbox = Sandbox::with_config(
        r#"[compacton]
preset = "off"
[compaction]
presset = "off"
target = 1.5
keep_messages = "ten"
mask_over_tokens = -1
[compaction.providers.antropic]
keep_share = 0.5
[compaction.models."gpt-9"]
preset = "recursive"
[compaction.models."openai/gpt-99"]
deadline_seconds = 3
[turn]
lead = "led"
agents = ["risk", "facts=count them"]
[log]
format = "xml"
[models]
default = "mistral/large"
[agents.risks]
max_model_call = 3
[agents.Nobody]
description = "x"
[runtime]
queue_per_agent = 0
[cluster]
takeover_after = "500ms"
[mcp.notes]
command = "notes"
headers = { a = "b" }
env = { PORT = 80 }
[hooks.audit]
on = ["turn_ended"]
command = "audit"
url = "http://127.0.0.1:1"
"#,
    )
    .env("UNISONO__STORE__PTH", "x")
    .flag("--safety", "compaction.safety", "much");
    insta::assert_snapshot!(sandbox.check());
}

#[test]
fn a_time_of_all_sessions_is_refused_with_what_to_set_instead() {
    let sandbox = Sandbox::with_config("[budget.daemon]\ntime = \"8h\"\n");
    insta::assert_snapshot!(sandbox.check(), @"config/unisono.toml:2:8: error: `budget.daemon.time` cannot be set: sessions work at the same time, so the time they take together says neither how late it is nor what was used; bound each with budget.session.time and budget.turn.time, how many work at a time with budget.daemon.live_runs, and what all of them use in a period with max_cost_usd or max_tokens");
    assert!(sandbox.load().is_err());
}

#[test]
fn unknown_keys_are_warnings_when_running_and_errors_in_a_check() {
    let sandbox = Sandbox::with_config("[log]\nlevle = \"debug\"\n");
    insta::assert_snapshot!(sandbox.complaints(), @"config/unisono.toml:2:1: warning: unknown key `levle` in [log]; did you mean `level`?");
    assert!(sandbox.load().is_ok());
    insta::assert_snapshot!(sandbox.check(), @"config/unisono.toml:2:1: error: unknown key `levle` in [log]; did you mean `level`?");
}

#[test]
fn a_file_that_is_not_toml_is_placed() {
    let table = [
        "[log\n",
        "[log]\nlevel = \n",
        "a = 1\na = 2\n",
        "[log]\nlevel = \"unfinished\n",
        "x = 99999999999999999999",
    ];
    let reply: Vec<String> = table
        .iter()
        .map(|text| Sandbox::with_config(text).complaints())
        .collect();
    insta::assert_snapshot!(reply.join("\n---\n"));
}

#[test]
fn a_level_that_the_log_does_not_know_is_an_error() {
    for level in ["loud", "info,unisono_runtime=loud"] {
        let sandbox = Sandbox::with_config(&format!("[log]\nlevel = \"{level}\"\n"));
        let found = sandbox.check();
        let expected =
            "unisono.toml:2:1: error: `log.level`: \"loud\" is no level; write error, warn";
        assert!(found.contains(expected), "{found}");
    }
}

/// What a check says of each of these settings after a beginning.
fn checks(beginning: &str, table: &[&str]) -> String {
    let check = |text: &&str| Sandbox::with_config(&format!("{beginning}{text}")).check();
    table.iter().map(check).collect::<Vec<_>>().join("\n---\n")
}

#[test]
fn thresholds_that_contradict_each_other_are_both_named() {
    let table = [
        "trigger_tokens = 9000\ntrigger_of_window = 0.5\n",
        "keep_messages = 3\nkeep_tokens = 100\nkeep_share = 0.1\n",
        "trigger_tokens = 9000\nminimum_tokens = 9000\n",
        "trigger_tokens = 1000\nkeep_tokens = 2000\n",
        "trigger_tokens = 1000\nsummary_cap_tokens = 1500\n",
        "keep_share = 0.5\nalign = 3\n",
        "preset = \"off\"\ntrigger_of_usable = 0.5\n",
        "minimum_tokens = 5000\n[compaction.models.extractive]\ntrigger_tokens = 4000\n",
    ];
    insta::assert_snapshot!(checks("[compaction]\n", &table));
}

#[test]
fn amounts_that_a_model_has_no_room_for_are_told_with_their_numbers() {
    let lead = "[models]\ndefault = \"openai/gpt-4o\"\n[providers.openai]\n\
                base_url = \"http://127.0.0.1:9\"\napi_key_env = \"UNSET\"\n";
    let table = [
        "keep_tokens = 200000\n",
        "summary_cap_tokens = 110000\n",
        "preset = \"progressive\"\ntrigger_of_usable = 0.5\nkeep_tokens = 60000\n",
        "trigger_of_window = 0.1\nminimum_tokens = 12800\n",
        "[compaction.models.\"openai/gpt-4\"]\nkeep_tokens = 9000\n",
        "keep_share = 0.8\ntarget = 0.8\n",
        // Right: for a model with room for it, or where nothing is ever compacted.
        "trigger_tokens = 90000\nkeep_tokens = 20000\n",
        "preset = \"off\"\nkeep_tokens = 200000\n",
    ];
    insta::assert_snapshot!(checks(&format!("{lead}[compaction]\n"), &table));
}

#[test]
fn a_later_layers_threshold_takes_the_place_of_another_kind() {
    let sandbox = Sandbox::with_config("[compaction]\ntrigger_tokens = 9000\nkeep_messages = 4\n")
        .flag("--trigger-of-window", "compaction.trigger_of_window", "0.5");
    let loaded = sandbox.setup().loaded;
    let model = loaded.catalogue.get(None, "extractive").unwrap();
    let policy = loaded.policy_for(&model);
    assert_eq!(policy.trigger, Some(Trigger::OfWindow(Ppm::percent(50))));
    assert_eq!(policy.keep, Keep::Messages(4));
    let off = Sandbox::with_config("[compaction]\ntrigger_tokens = 9000\n").flag(
        "--preset",
        "compaction.preset",
        "off",
    );
    assert_eq!(off.check(), "");
    assert_eq!(
        off.setup().loaded.policy_for(&model),
        Policy::from_preset(Preset::Off)
    );
}

#[test]
fn the_nearest_table_decides() {
    let loaded = Sandbox::with_config(
        r#"[compaction]
trigger_tokens = 50_000
target = 0.5
[compaction.providers.openai]
preset = "retention"
keep_tokens = 2_000
[compaction.models."openai/gpt-4o"]
trigger_of_usable = 0.6
align = 9
"#,
    )
    .setup()
    .loaded;
    let policy = |name: &str| loaded.policy_for(&loaded.catalogue.get(None, name).unwrap());
    let target = Ppm::percent(50);
    let expected = Policy {
        trigger: Some(Trigger::Tokens(Tokens(50_000))),
        target,
        ..Policy::from_preset(Preset::Checkpoint)
    };
    assert_eq!(policy("extractive"), expected);
    let keep = |align| Keep::Tokens {
        amount: Tokens(2_000),
        align,
    };
    let mini = Policy {
        trigger: Some(Trigger::Tokens(Tokens(50_000))),
        keep: keep(4),
        target,
        ..Policy::from_preset(Preset::Retention)
    };
    assert_eq!(policy("openai/gpt-4o-mini"), mini);
    let own = Policy {
        trigger: Some(Trigger::OfUsable(Ppm::percent(60))),
        keep: keep(9),
        ..mini
    };
    assert_eq!(policy("openai/gpt-4o"), own);
}

#[test]
fn a_dot_in_the_name_of_a_model_separates_nothing_in_a_flag() {
    let trigger = |name: &str, sandbox: Sandbox| {
        assert_eq!(sandbox.check(), "");
        let loaded = sandbox.setup().loaded;
        let model = loaded.catalogue.get(None, name).unwrap();
        loaded.policy_for(&model).trigger
    };
    let nine = Some(Trigger::Tokens(Tokens(9_000)));
    for key in [
        "compaction.models.openai/gpt-4.1.trigger_tokens",
        "compaction.models.\"openai/gpt-4.1\".trigger_tokens",
    ] {
        let flagged = Sandbox::new().flag("--set", key, "9000");
        let shown = flagged.setup().loaded.show();
        assert!(
            shown.iter().any(|s| {
                s.key == "compaction.models.\"openai/gpt-4.1\".trigger_tokens" && s.value == "9000"
            }),
            "{key}"
        );
        assert_eq!(trigger("openai/gpt-4.1", flagged), nine, "{key}");
    }
    // The offline model by either of its names.
    for name in ["extractive", "extractive/extractive"] {
        let key = format!("compaction.models.{name}.trigger_tokens");
        let flagged = Sandbox::new().flag("--set", &key, "9000");
        assert_eq!(trigger("extractive", flagged), nine, "{name}");
        let text = format!("[compaction.models.\"{name}\"]\ntrigger_tokens = 9000\n");
        assert_eq!(trigger("extractive", Sandbox::with_config(&text)), nine);
    }
}

#[test]
fn a_rule_for_calls_that_no_call_can_match_is_an_error() {
    let of_all = |rule: &str| format!("[approvals]\nrequire = [\"{rule}\"]\n");
    let of_agent = |rule: &str| format!("[agents.facts]\napprove = [\"{rule}\"]\n");
    for (rule, is_wrong) in rows! {
        ("write(path=/etc/*)", true),
        ("files_write", true),
        ("files__write(path=/etc/*)", false),
        ("*write", false),
        ("skill(name=docs/*)", false),
        // The kind of a coding agent's call.
        ("execute(input.command=git push*)", false),
    } {
        for text in [of_all(rule), of_agent(rule)] {
            let found = Sandbox::with_config(&text).check();
            let said = format!("the rule `{rule}` matches no call; write a tool of a server as");
            assert_eq!(found.contains(&said), is_wrong, "{text}: {found}");
        }
    }
}

#[test]
fn a_text_that_no_host_can_match_is_warned_of() {
    for (host, is_right) in rows! {
        ("agents.example.com", true), ("10.0.0.5", true), ("::1", true), ("[::1]", true),
        ("https://agents.example.com", false), ("agents.example.com:8443", false),
        ("*.example.com", false), ("", false),
    } {
        for (table, key) in rows! {
            ("server", "hosts"), ("server", "callback_hosts"), ("attachments", "allowed_hosts"),
        } {
            let text = format!("[{table}]\n{key} = [\"{host}\"]\n");
            let found = Sandbox::with_config(&text).complaints();
            let said = format!("warning: `{host}` is not a host");
            assert_eq!(found.contains(&said), !is_right, "{text}{found}");
        }
    }
    let public = |url: &str| Sandbox::with_config(&format!("[server]\npublic_url = \"{url}\"\n"));
    assert_eq!(public("https://agents.example.com/").check(), "");
    assert!(public("agents.example.com").load().is_err());
    let typing = Sandbox::with_config("[server]\na2a_agents = [\"fact\"]\n").complaints();
    assert!(
        typing.contains("warning: `server.a2a_agents` names an unknown agent `fact`"),
        "{typing}"
    );
}

#[test]
fn the_table_of_a_server_with_names_for_models_is_warned_of() {
    for (key, value) in rows! {
        ("approve", "[\"files__delete*\"]"),
        ("tools", "[\"*\", \"!files__delete*\"]"),
        ("contracts", "{ \"files__delete*\" = \"pure\" }"),
    } {
        let table = |value: &str| format!("[mcp.files]\ncommand = \"files\"\n{key} = {value}\n");
        let found = Sandbox::with_config(&table(value)).complaints();
        let said = "warning: `files__delete*` is the name for models; write the server's own name, \
                    `delete*`";
        assert!(found.contains(said), "{found}");
        let own = Sandbox::with_config(&table(&value.replace("files__", "")));
        assert_eq!(own.complaints(), "");
    }
}

#[test]
fn a_server_that_offers_no_tool_is_warned_of() {
    for (tools, is_empty) in rows! {
        ("[\"!wipe\"]", true), ("[\"*\", \"!wipe\"]", false), ("[\"read\"]", false), ("[]", false),
        // Only its skills are wanted.
        ("[\"!*\"]", false),
    } {
        let text = format!("[mcp.files]\ncommand = \"files\"\ntools = {tools}\n");
        let found = Sandbox::with_config(&text).complaints();
        let is_told = found.contains("warning: `tools` offers no tool");
        assert_eq!(is_told, is_empty, "{tools}: {found}");
    }
}

#[test]
fn a_hook_before_calls_that_are_never_made_is_an_error() {
    for (tool, is_wrong) in rows! {
        ("write", true), ("files__write", false), ("wr*", false), ("edit", false),
    } {
        let text = format!(
            "[hooks.guard]\non = [\"before_tool_call\"]\ncommand = \"sh\"\ntools = [\"{tool}\"]\n"
        );
        let found = Sandbox::with_config(&text).check();
        let said = format!("`{tool}` matches no call; write a tool of a server as");
        assert_eq!(found.contains(&said), is_wrong, "{tool}: {found}");
    }
}

#[test]
fn the_table_of_a_model_needs_its_provider() {
    let table = "[compaction.models.\"gpt-4o\"]\ntrigger_tokens = 9000\n";
    let written = Sandbox::with_config(table);
    let flagged = Sandbox::new().flag("--set", "compaction.models.gpt-4o.trigger_tokens", "9000");
    for found in [written.complaints(), flagged.complaints()] {
        let said = "warning: the table of model `gpt-4o` names no provider; write it as \
                    `compaction.models.\"openai/gpt-4o\"`";
        assert!(found.contains(said), "{found}");
    }
}

#[test]
fn a_catalogue_of_ones_own_is_used_and_its_faults_are_placed() {
    let own = "[models.\"openai/gpt-99\"]\nwindow = 5_000\nmax_output = 100\n";
    let sandbox = Sandbox::new().file("home/.config/unisono/models.toml", own);
    let window = |sandbox: &Sandbox| {
        sandbox
            .setup()
            .loaded
            .catalogue
            .get(None, "openai/gpt-99")
            .unwrap()
            .window
    };
    assert_eq!(window(&sandbox), Tokens(5_000));
    let named = Sandbox::with_config("[models]\ncatalogue = \"mine.toml\"\n")
        .file("project/mine.toml", own);
    assert_eq!(window(&named), Tokens(5_000));
    let bad = named.file("project/mine.toml", "[models.\"openai/x\"]\nwindows = 3\n");
    assert!(
        bad.check().starts_with("mine.toml:2:1: error: "),
        "{}",
        bad.check()
    );
    let missing = Sandbox::with_config("[models]\ncatalogue = \"mine.toml\"\n");
    insta::assert_snapshot!(missing.check(), @"mine.toml: error: the model catalogue cannot be read: No such file or directory (os error 2)");
}

#[test]
fn every_key_can_be_given_by_a_variable() {
    let settings = Sandbox::new().setup().loaded.show();
    for setting in settings {
        let name = format!("UNISONO__{}", setting.key.to_uppercase().replace('.', "__"));
        let value = setting
            .value
            .trim_matches(['"', '[', ']'])
            .replace("\", \"", ",");
        let sandbox = Sandbox::new().env(&name, &value);
        let setup = sandbox.setup();
        assert_eq!(setup.warnings.to_string(), "", "{name}={value}");
        let shown = setup.loaded.show();
        let same = shown.iter().find(|s| s.key == setting.key).unwrap();
        assert_eq!(same.place.to_string(), format!("env {name}"));
        if !setting.key.ends_with("path") {
            assert_eq!(same.value, setting.value);
        }
    }
}
