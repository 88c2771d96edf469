//! The layer of a session: above files and what is stored, below variables and flags.

use unisono_config::diagnostic::Diagnostics;
use unisono_config::settings::{Override, SessionOverrides};
use unisono_config::setup::Setup;
use unisono_context::policy::{Policy, Preset, Trigger};
use unisono_context::{Ppm, Tokens};

use crate::sandbox::Sandbox;

type Pairs<'p> = &'p [(&'p str, &'p str)];

fn overrides(pairs: Pairs<'_>) -> SessionOverrides {
    let pairs = pairs.iter();
    pairs.map(|(key, v)| ((*key).into(), (*v).into())).collect()
}

fn with(sandbox: &Sandbox, pairs: Pairs<'_>) -> Result<Setup, Diagnostics> {
    sandbox.setup().with(&overrides(pairs), &[])
}

/// Value and origin of a key.
fn shown(setup: &Setup, key: &str) -> String {
    let all = setup.loaded.show();
    let found = all.iter().find(|setting| setting.key == key);
    found.map_or_else(String::new, |s| format!("{} {}", s.value, s.place))
}

#[test]
fn it_wins_over_files_and_what_is_stored_and_gives_way_to_variables_flags_and_requests() {
    const KEY: &str = "turn.timeout_seconds";
    let file = || Sandbox::with_config("[turn]\ntimeout_seconds = 1\n");
    let stored = || {
        let mut sandbox = file();
        sandbox.sources.stored = Some("[turn]\ntimeout_seconds = 2\n".to_owned());
        sandbox
    };
    let env = || stored().env("UNISONO__TURN__TIMEOUT_SECONDS", "4");
    let flag = || env().flag("--timeout", KEY, "5");
    let session: Pairs<'_> = &[(KEY, "3")];
    let request = [Override::new("the request", KEY, "6")];
    let rows = [
        (Sandbox::new(), session, &request[..0], "3 session"),
        (file(), &[], &[], "1 config/unisono.toml:2:1"),
        (file(), session, &[], "3 session"),
        (stored(), session, &[], "3 session"),
        (env(), session, &[], "4 env UNISONO__TURN__TIMEOUT_SECONDS"),
        (flag(), session, &[], "5 flag --timeout"),
        (flag(), session, &request, "6 the request"),
        (file(), session, &request, "6 the request"),
    ];
    for (sandbox, session, request, expected) in rows {
        let setup = sandbox.setup().with(&overrides(session), request);
        assert_eq!(shown(&setup.unwrap(), KEY), expected);
    }
    let below = stored().setup();
    assert!(
        shown(&below, KEY).starts_with("2 "),
        "{}",
        shown(&below, KEY)
    );
}

#[test]
fn what_it_says_of_the_policy_counts_for_whichever_model_leads() {
    let sandbox = Sandbox::with_config(
        "[compaction]\ntrigger_tokens = 50_000\n\
         [compaction.providers.openai]\npreset = \"retention\"\nkeep_tokens = 2_000\n\
         [compaction.models.\"openai/gpt-4o\"]\ntrigger_of_usable = 0.6\ntarget = 0.3\n",
    );
    let policy = |setup: &Setup, model: &str| {
        let model = setup.loaded.catalogue.get(None, model).unwrap();
        setup.loaded.policy_for(&model)
    };
    let share = with(&sandbox, &[("compaction.trigger_of_window", "0.5")]).unwrap();
    for model in ["extractive", "openai/gpt-4o-mini", "openai/gpt-4o"] {
        let trigger = policy(&share, model).trigger;
        assert_eq!(
            trigger,
            Some(Trigger::OfWindow(Ppm::percent(50))),
            "{model}"
        );
    }
    // What it does not say stays as it was.
    assert_eq!(policy(&share, "openai/gpt-4o").target, Ppm::percent(30));
    let preset = policy(&share, "openai/gpt-4o").preset;
    assert_eq!(preset, Preset::Retention);
    let off = with(&sandbox, &[("compaction.preset", "off")]).unwrap();
    for model in ["extractive", "openai/gpt-4o-mini", "openai/gpt-4o"] {
        assert_eq!(
            policy(&off, model),
            Policy::from_preset(Preset::Off),
            "{model}"
        );
    }
    // A variable says it for the model.
    let name = "UNISONO__COMPACTION__TRIGGER_TOKENS";
    let setup = sandbox.env(name, "7000").setup();
    let setup = setup.with(&overrides(&[("compaction.trigger_of_window", "0.5")]), &[]);
    let trigger = policy(&setup.unwrap(), "extractive").trigger;
    assert_eq!(trigger, Some(Trigger::Tokens(Tokens(7_000))));
}

#[test]
fn what_is_wrong_with_it_names_key_value_and_session() {
    let sandbox = Sandbox::new();
    let rows: [(Pairs<'_>, &[&str]); 4] = [
        (
            &[("compaction.preset", "retention-ish")],
            &["session", "`compaction.preset`", "retention-ish"],
        ),
        (
            &[("compaction.trigger_tokens", "many")],
            &["session", "`compaction.trigger_tokens`", "many"],
        ),
        (
            &[("turn.lead", "leda")],
            &["session", "`turn.lead`", "leda", "did you mean `lead`?"],
        ),
        (
            &[
                ("compaction.trigger_of_window", "0.5"),
                ("compaction.trigger_tokens", "9000"),
            ],
            &["`compaction.trigger_tokens` contradicts `compaction.trigger_of_window`"],
        ),
    ];
    for (pairs, words) in rows {
        let found = with(&sandbox, pairs).unwrap_err().to_string();
        for word in words {
            assert!(found.contains(word), "{word}: {found}");
        }
    }
}

#[test]
fn what_is_wrong_with_it_comes_without_the_warnings_of_files() {
    let sandbox = Sandbox::with_config("[models]\ndefault = \"openai/gpt-99\"\n");
    assert!(!sandbox.setup().warnings.is_empty());
    let request = [Override::new("the request", "models.override", "nosuch/m")];
    let setup = sandbox.setup();
    let found = setup.with(&overrides(&[]), &request).unwrap_err();
    let text = found.to_string();
    assert!(
        text.starts_with("the request: error: unknown provider"),
        "{text}"
    );
    assert!(!text.contains("warning"), "{text}");
}
