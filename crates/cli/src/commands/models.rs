//! `unisono models`: the catalogue.

use serde_json::json;
use unisono_context::Tokens;
use unisono_model::catalogue::{Entry, Price};

use crate::app::App;
use crate::problem::Result;
use crate::show;

const HELP: &str = "\
Prices are dollars per million tokens; `?` is an unknown price, which is not free.
JSON: a list of {model, window_tokens, max_output_tokens, encoding, estimated, input_usd_per_million,
output_usd_per_million}.";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Only models whose name contains this
    name: Option<String>,
}

pub(crate) fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let wanted = |entry: &Entry| {
        args.name
            .as_ref()
            .is_none_or(|name| entry.model.to_string().contains(name.as_str()))
    };
    let entries: Vec<Entry> = setup.loaded.catalogue.entries().filter(wanted).collect();
    if app.out.json {
        app.out.json(&entries.iter().map(json).collect::<Vec<_>>());
    } else if entries.is_empty() {
        app.out.say("no model has that in its name");
    } else {
        let header = ["MODEL", "WINDOW", "OUTPUT", "COUNTED", "$ IN", "$ OUT"];
        let rows = entries.iter().map(row).collect();
        app.out.data(show::table(&header, &[1, 2, 4, 5], rows));
    }
    Ok(())
}

fn row(entry: &Entry) -> Vec<String> {
    let price = |price: Option<Price>| price.map_or_else(|| "?".to_owned(), |p| p.to_string());
    let counted = if entry.estimated {
        "estimated"
    } else {
        entry.encoding.name()
    };
    let number = |tokens: Tokens| show::tokens(tokens);
    vec![
        entry.model.to_string(),
        number(entry.window),
        number(entry.max_output),
        counted.to_owned(),
        price(entry.prices.input),
        price(entry.prices.output),
    ]
}

fn json(entry: &Entry) -> serde_json::Value {
    json!({
        "model": entry.model.to_string(),
        "window_tokens": entry.window.0,
        "max_output_tokens": entry.max_output.0,
        "encoding": entry.encoding.name(),
        "estimated": entry.estimated,
        "input_usd_per_million": entry.prices.input.map(|price| price.to_string()),
        "output_usd_per_million": entry.prices.output.map(|price| price.to_string()),
    })
}
