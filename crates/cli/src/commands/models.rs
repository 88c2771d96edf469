//! `unisono models`: the catalogue, and which of its models can be asked.

use serde_json::{Value, json};
use unisono::models::notices;
use unisono_config::setup::Setup;
use unisono_context::Tokens;
use unisono_model::calibration::Calibration;
use unisono_model::catalogue::{Entry, Price};

use crate::app::App;
use crate::problem::Result;
use crate::show;

const HELP: &str = "\
Prices are dollars per million tokens; `?` is an unknown price, which is not free. ASK says whether
a model can be asked: its provider has an address and a key. COUNTED is how its tokens are counted:
exactly in an encoding, or estimated, then with the ratio to the estimate and the error that its
replies showed so far. `~` before a window and an output: no catalogue has the window, and it is
assumed; write it in models.toml. A window with an asterisk is one that the provider named, asked
for it or when it refused a request as too large; turns keep to it until the catalogue says another.
JSON: a list of {model, usable, lacks, default, assumed, window_tokens, learnt_window_tokens
or null, max_output_tokens, encoding, estimated, calibration {ratio, error, replies} or null,
retires (a date) or null, successor or null,
input_usd_per_million, output_usd_per_million, cache_read_usd_per_million,
cache_write_usd_per_million}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Only models whose name contains this
    name: Option<String>,
    /// Only available models
    #[arg(long)]
    usable: bool,
}

/// A model, and what is known of it here.
struct Row {
    entry: Entry,
    lacks: Option<String>,
    default: bool,
    calibration: Calibration,
}

impl Row {
    /// What its provider said its window is, where that is another.
    fn learnt_window(&self) -> Option<Tokens> {
        let window = self.calibration.window(self.entry.window);
        (window != self.entry.window).then_some(window)
    }

    /// What its replies showed, once there were some.
    fn replies(&self) -> Option<&Calibration> {
        Some(&self.calibration).filter(|known| known.samples() > 0)
    }
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let rows = rows(&setup, &args);
    if app.out.json {
        app.out.json(&rows.iter().map(object).collect::<Vec<_>>());
    } else if rows.is_empty() {
        app.out.say("no model has that in its name");
    } else {
        let header = [
            "MODEL", "ASK", "WINDOW", "OUTPUT", "COUNTED", "$ IN", "$ OUT", "$ CACHED", "RETIRES",
        ];
        let table = rows.iter().map(line).collect();
        app.out.data(show::table(&header, &[2, 3, 5, 6, 7], table));
        let learnt = unisono::models::learnt(&setup.loaded.config.store.path);
        for notice in notices::of_setup(&setup, &learnt, notices::today()) {
            app.out.warn(notice);
        }
    }
    Ok(())
}

fn rows(setup: &Setup, args: &Args) -> Vec<Row> {
    let loaded = &setup.loaded;
    let learnt = unisono::models::learnt(&loaded.config.store.path);
    // Models that are named, or were asked, but are not in the catalogue are shown as well.
    let agents = setup.roster.iter().map(|agent| &*agent.definition.model);
    let asked = learnt.all();
    let asked = asked.iter().map(|(name, _)| &**name);
    let named = agents.chain([loaded.default_model.as_str()]).chain(asked);
    let known: Vec<Entry> = loaded.catalogue.entries().collect();
    let mut extra: Vec<Entry> = named
        .filter_map(|name| loaded.catalogue.get(None, name).ok())
        .filter(|entry| !known.iter().any(|known| known.model == entry.model))
        .collect();
    extra.sort_by(|a, b| a.model.cmp(&b.model));
    extra.dedup_by(|a, b| a.model == b.model);
    let all = known.into_iter().chain(extra).map(|entry| {
        let name = entry.model.to_string();
        Row {
            lacks: loaded.providers.lacks(&entry.model.provider),
            default: name == loaded.default_model,
            calibration: learnt.of(&name),
            entry,
        }
    });
    let wanted = |row: &Row| {
        let name = row.entry.model.to_string();
        let named = args
            .name
            .as_ref()
            .is_none_or(|part| name.contains(part.as_str()));
        named && (!args.usable || row.lacks.is_none())
    };
    all.filter(wanted).collect()
}

fn price(price: Option<Price>) -> String {
    price.map_or_else(|| "?".to_owned(), |p| p.to_string())
}

fn line(row: &Row) -> Vec<String> {
    let entry = &row.entry;
    let ask = match (&row.lacks, row.default) {
        (Some(_), _) => "no",
        (None, true) => "default",
        (None, false) => "yes",
    };
    let mark = if entry.assumed { "~" } else { "" };
    let number = |tokens: Tokens| format!("{mark}{}", show::tokens(tokens));
    vec![
        entry.model.to_string(),
        ask.to_owned(),
        match row.learnt_window() {
            Some(window) => format!("{}*", number(window)),
            None => number(entry.window),
        },
        number(entry.max_output),
        counted(row),
        price(entry.prices.input),
        price(entry.prices.output),
        price(entry.prices.cache_read),
        entry
            .retires
            .map_or_else(String::new, |day| day.to_string()),
    ]
}

fn counted(row: &Row) -> String {
    match (row.entry.estimated, row.replies()) {
        (false, _) => row.entry.encoding.name().to_owned(),
        (true, None) => "estimated".to_owned(),
        (true, Some(learnt)) => format!(
            "estimated × {:.2} ± {:.0} %",
            learnt.ratio(),
            learnt.band() * 100.0
        ),
    }
}

fn object(row: &Row) -> Value {
    let entry = &row.entry;
    let price = |price: Option<Price>| price.map(|price| price.to_string());
    let calibration = row.replies().map(|learnt| {
        json!({"ratio": learnt.ratio(), "error": learnt.band(), "replies": learnt.samples()})
    });
    json!({
        "model": entry.model.to_string(),
        "usable": row.lacks.is_none(),
        "lacks": row.lacks,
        "default": row.default,
        "assumed": entry.assumed,
        "window_tokens": entry.window.0,
        "learnt_window_tokens": row.learnt_window().map(|window| window.0),
        "max_output_tokens": entry.max_output.0,
        "encoding": entry.encoding.name(),
        "estimated": entry.estimated,
        "calibration": calibration,
        "retires": entry.retires.map(|day| day.to_string()),
        "successor": entry.successor.as_ref().map(ToString::to_string),
        "input_usd_per_million": price(entry.prices.input),
        "output_usd_per_million": price(entry.prices.output),
        "cache_read_usd_per_million": price(entry.prices.cache_read),
        "cache_write_usd_per_million": price(entry.prices.cache_write),
    })
}
