//! Options that several verbs share, and how their values are written.

use std::num::NonZeroUsize;
use std::path::PathBuf;

use clap::builder::NonEmptyStringValueParser;
use clap::builder::PossibleValuesParser;
use clap::{Args, ValueEnum};
use unisono_api::turn::{NewTurn, OnFailure};
use unisono_config::settings::{MODEL_OVERRIDE, Override};
use unisono_context::policy::Preset;

use crate::problem::{Problem, Result};

/// The flags of all verbs.
#[derive(Clone, Debug, Args)]
#[command(next_help_heading = "Global options")]
pub(crate) struct Global {
    /// Directory of the store, in place of the configured one
    #[arg(long, global = true, value_name = "DIR")]
    store: Option<String>,
    /// Settings file, in place of the project's config/unisono.toml
    #[arg(long, global = true, value_name = "FILE")]
    pub(crate) config: Option<PathBuf>,
    /// Sets one key of the configuration; may be repeated
    #[arg(long, global = true, value_name = "KEY=VALUE")]
    set: Vec<String>,
    /// Prints the result as JSON on stdout; keys stay the same between versions
    #[arg(long, global = true)]
    pub(crate) json: bool,
    /// Colours (auto: on a terminal, unless NO_COLOR is set)
    #[arg(
        long,
        global = true,
        value_enum,
        default_value = "auto",
        value_name = "WHEN"
    )]
    pub(crate) color: Colour,
    /// Prints only the result, warnings and errors
    #[arg(long, short, global = true)]
    pub(crate) quiet: bool,
}

impl Global {
    /// The store and settings of an unfinished command line. It prints nothing.
    pub(crate) fn of_words(words: &[String]) -> Global {
        let value = |flag: &str| {
            let at = words.iter().position(|word| word == flag);
            let apart = at.and_then(|at| words.get(at + 1)).cloned();
            let joined = words
                .iter()
                .find_map(|word| word.strip_prefix(flag)?.strip_prefix('='));
            apart.or_else(|| joined.map(str::to_owned))
        };
        Global {
            store: value("--store"),
            config: value("--config").map(PathBuf::from),
            set: Vec::new(),
            json: false,
            color: Colour::Never,
            quiet: true,
        }
    }

    /// Takes the settings from all places of the command line: the parser keeps those after the last
    /// verb only.
    pub(crate) fn set_from(&mut self, words: &[String]) {
        let mut words = words.iter().take_while(|word| *word != "--");
        self.set.clear();
        while let Some(word) = words.next() {
            let value = match word.strip_prefix("--set") {
                Some("") => words.next().map(String::as_str),
                Some(rest) => rest.strip_prefix('='),
                None => None,
            };
            self.set.extend(value.map(str::to_owned));
        }
    }

    pub(crate) fn names_store(&self) -> bool {
        self.store.is_some()
    }

    /// The settings among the flags.
    pub(crate) fn overrides(&self) -> Result<Vec<Override>> {
        let store = self
            .store
            .iter()
            .map(|dir| Override::new("--store", "store.path", dir));
        let mut all: Vec<Override> = store.collect();
        for text in &self.set {
            let Some((key, value)) = text.split_once('=') else {
                let problem = Problem::usage(format!("--set {text}: this must be KEY=VALUE"));
                return Err(problem.hint("as in --set compaction.trigger_tokens=12000"));
            };
            let value = value.trim();
            // A text in quotes is as `config show` writes it; TOML's are JSON's.
            let quoted = serde_json::from_str::<String>(value).ok();
            let value = quoted.as_deref().unwrap_or(value);
            all.push(Override::new(format!("--set {key}"), key.trim(), value));
        }
        Ok(all)
    }
}

/// When to use colours.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Colour {
    Auto,
    Always,
    Never,
}

/// When to compact.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Compaction {
    /// The preset: when the conversation is summarised, and how much stays verbatim
    #[arg(long, value_parser = PossibleValuesParser::new(Preset::ALL.map(Preset::name)))]
    preset: Option<String>,
    /// Compacts above this many tokens, in place of the preset's own trigger
    #[arg(long, value_name = "TOKENS", value_parser = tokens)]
    compact_above: Option<u64>,
}

/// The instructions and the model of a requested summary.
#[derive(Clone, Debug, Args)]
pub(crate) struct Writer {
    /// Instructions for the summariser
    #[arg(long, value_name = "TEXT")]
    pub(crate) instructions: Option<String>,
    /// The summariser, in place of the configured ones: provider/model, or `extractive` for quotes
    #[arg(long, value_name = "MODEL")]
    pub(crate) summariser: Option<String>,
    /// If every model fails: retries (three attempts in all), uses quotes, or changes nothing
    /// (default: asks at a terminal)
    #[arg(long, value_name = "WAY")]
    #[arg(value_parser = PossibleValuesParser::new(OnFailure::ALL.map(OnFailure::name)))]
    on_failure: Option<String>,
}

impl Writer {
    pub(crate) fn on_failure(&self) -> OnFailure {
        let chosen = self.on_failure.as_deref();
        let mut all = OnFailure::ALL.into_iter();
        all.find(|way| chosen == Some(way.name()))
            .unwrap_or_default()
    }

    /// Whether the choice for a failed summary is left open.
    pub(crate) fn is_open(&self) -> bool {
        self.on_failure.is_none()
    }
}

impl Compaction {
    pub(crate) fn overrides(&self) -> Vec<Override> {
        let preset = self.preset.iter();
        let preset = preset.map(|name| Override::new("--preset", "compaction.preset", name));
        let above = self.compact_above.iter().map(|tokens| {
            let key = "compaction.trigger_tokens";
            Override::new("--compact-above", key, tokens.to_string())
        });
        preset.chain(above).collect()
    }
}

/// The agents of a turn and the compaction of its conversation.
#[derive(Clone, Debug, Default, Args)]
pub(crate) struct Workers {
    /// The agents of the turn, in place of the configured ones; empty: the lead alone
    #[arg(long, short, value_name = "A,B=TASK")]
    agents: Vec<String>,
    /// The agent that answers
    #[arg(long, value_name = "AGENT")]
    lead: Option<String>,
    /// The model of all agents, in place of their own: provider/model, or extractive
    #[arg(long, short, value_name = "MODEL", value_parser = NonEmptyStringValueParser::new())]
    model: Option<String>,
    /// Maximum cost of all agents together, in dollars; a daemon's own maximum stays
    #[arg(long, value_name = "USD")]
    max_cost: Option<String>,
    /// Maximum tokens, in and out, of all agents together; a daemon's own maximum stays
    #[arg(long, value_name = "N")]
    max_tokens: Option<String>,
    #[command(flatten)]
    compaction: Compaction,
}

impl Workers {
    /// The overrides of settings among these flags.
    pub(crate) fn overrides(&self) -> Vec<Override> {
        let flags = [
            ("--model", MODEL_OVERRIDE, &self.model),
            ("--max-cost", "budget.turn.max_cost_usd", &self.max_cost),
            ("--max-tokens", "budget.turn.max_tokens", &self.max_tokens),
        ];
        let given = flags.into_iter().filter_map(|(flag, key, value)| {
            let value = value.as_deref()?;
            Some(Override::new(flag, key, value))
        });
        let compaction = self.compaction.overrides().into_iter();
        compaction.chain(given).collect()
    }

    /// Has others work; none: as configured.
    pub(crate) fn choose(&mut self, agents: Option<String>) {
        self.agents = agents.into_iter().collect();
    }

    /// The named agents, each `agent` or `agent=task`; none: as configured.
    pub(crate) fn named_agents(&self) -> Option<Vec<String>> {
        let named = self.agents.iter().flat_map(|text| assignments(text));
        (!self.agents.is_empty()).then(|| named.collect())
    }

    /// The same turn with these agents.
    pub(crate) fn apply_to(&self, new: NewTurn) -> NewTurn {
        NewTurn {
            lead: self.lead.clone(),
            agents: self.named_agents(),
            ..new
        }
    }
}

/// Splits `a,b=task` at each comma that is not followed by a space.
fn assignments(text: &str) -> Vec<String> {
    let mut all: Vec<String> = Vec::new();
    for piece in text.split(',') {
        match all.last_mut() {
            Some(last) if piece.is_empty() || piece.starts_with(char::is_whitespace) => {
                last.push(',');
                last.push_str(piece);
            }
            _ => all.push(piece.to_owned()),
        }
    }
    all.retain(|spec| !spec.trim().is_empty());
    all.iter_mut()
        .for_each(|spec| *spec = spec.trim_end_matches(',').trim().to_owned());
    all
}

/// A number of tokens: `12000`, `12_000` or `12k`.
pub(crate) fn tokens(text: &str) -> std::result::Result<u64, String> {
    let plain = text.replace('_', "");
    let (digits, factor) = match plain.strip_suffix(['k', 'K']) {
        Some(digits) => (digits, 1_000),
        None => (plain.as_str(), 1),
    };
    let number = digits
        .parse::<u64>()
        .ok()
        .and_then(|n| n.checked_mul(factor));
    let number = number.filter(|n| *n > 0);
    number.ok_or_else(|| "write a number of tokens such as 12000 or 12k".to_owned())
}

/// A number from 1 on.
pub(crate) fn at_least_one(text: &str) -> std::result::Result<NonZeroUsize, String> {
    let number = text.parse().ok();
    number.ok_or_else(|| "write a number from 1 on".to_owned())
}

/// A time: `500ms`, `30s`, `2m`, `1h`, or seconds.
pub(crate) fn time(text: &str) -> std::result::Result<std::time::Duration, String> {
    let digits = text.len() - text.trim_start_matches(|c: char| c.is_ascii_digit()).len();
    let (number, unit) = text.split_at(digits);
    let factor = match unit.trim() {
        "ms" => Some(1),
        "" | "s" => Some(1_000),
        "m" | "min" => Some(60_000),
        "h" => Some(3_600_000),
        _ => None,
    };
    let ms = number
        .parse::<u64>()
        .ok()
        .zip(factor)
        .and_then(|(n, f)| n.checked_mul(f));
    match ms.filter(|ms| (1..=31_536_000_000).contains(ms)) {
        Some(ms) => Ok(std::time::Duration::from_millis(ms)),
        None => Err("write a time such as 30s, 2m or 1h".to_owned()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn agents_are_split_at_commas_but_tasks_keep_theirs() {
        assert_eq!(assignments("a,b,c"), ["a", "b", "c"]);
        assert_eq!(
            assignments("a=only money, not time,b"),
            ["a=only money, not time", "b"]
        );
        assert_eq!(assignments("a=x"), ["a=x"]);
        assert_eq!(assignments("a,b,"), ["a", "b"]);
        assert!(assignments("").is_empty());
    }

    #[test]
    fn numbers_and_times_are_read_as_people_write_them() {
        assert_eq!(tokens("12k"), Ok(12_000));
        assert_eq!(tokens("12_500"), Ok(12_500));
        assert!(tokens("0").is_err() && tokens("many").is_err());
        assert_eq!(time("2m"), Ok(std::time::Duration::from_secs(120)));
        assert_eq!(time("90"), Ok(std::time::Duration::from_secs(90)));
        assert_eq!(time("250ms"), Ok(std::time::Duration::from_millis(250)));
        assert!(time("0s").is_err() && time("2 weeks").is_err());
    }
}
