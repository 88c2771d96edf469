//! `unisono models`: the catalogue, with the availability of each model.

use unisono_api::agent::Model;

use crate::app::App;
use crate::problem::Result;
use crate::show;

const HELP: &str = "\
Prices are dollars per million tokens; `?` is an unknown price, not zero. ASK: whether the model
is available, that is, its provider has an address and a key, and it is not retired. COUNTED: how its tokens are counted,
exactly in an encoding, or estimated, with the measured ratio to the estimate and its error. `~`
marks an assumed window and output: no catalogue has them; set them in models.toml.
`*` marks a window reported by the provider, on request or with a refusal; turns use it until the
catalogue changes.
JSON: a list of {model, usable, unavailable_reason, default, assumed, window_tokens, reported_window_tokens
or null, max_output_tokens, encoding, estimated, calibration {ratio, error, replies} or null,
retires (a date) or null, successor or null,
input_usd_per_million, output_usd_per_million, cache_read_usd_per_million,
cache_write_usd_per_million, notice (what to do about it, if it is configured)}.";

/// The word that lists all models.
const LIST: &str = "list";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// Only models whose name contains this; `list` lists all
    name: Option<String>,
    /// Only available models
    #[arg(long)]
    usable: bool,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut models = app.configured(&setup)?.models().await?;
    let notices: Vec<String> = models
        .iter_mut()
        .filter_map(|model| {
            // In JSON, each model has this as a field.
            if app.out.json {
                None
            } else {
                model.notice.take()
            }
        })
        .collect();
    // As with other nouns, `list` is the verb.
    let name = args.name.filter(|name| name != LIST);
    let named = |model: &Model| name.as_ref().is_none_or(|part| model.model.contains(part));
    models.retain(|model| named(model) && (!args.usable || model.usable));
    if app.out.json {
        app.out.json(&models);
    } else if models.is_empty() {
        app.out.message("no model has that in its name");
    } else {
        let header = [
            "MODEL", "ASK", "WINDOW", "OUTPUT", "COUNTED", "$ IN", "$ OUT", "$ CACHED", "RETIRES",
        ];
        let table = models.into_iter().map(row).collect();
        // On a narrow terminal: without counting, output, the price of cached tokens and retirement.
        let text = show::table_that_fits(&header, &[2, 3, 5, 6, 7], table, &[4, 3, 7, 8]);
        app.out.data(text);
        for notice in notices {
            app.out.warn(notice);
        }
    }
    Ok(())
}

fn row(model: Model) -> Vec<String> {
    let ask = match (model.usable, model.default) {
        (false, _) => "no",
        (true, true) => "default",
        (true, false) => "yes",
    };
    let mark = if model.assumed { "~" } else { "" };
    let number = |tokens: u64| format!("{mark}{}", show::number(tokens));
    let price = |price: Option<String>| price.unwrap_or_else(|| "?".to_owned());
    let counted = counted(&model);
    vec![
        model.model,
        ask.to_owned(),
        match model.reported_window_tokens {
            Some(window) => format!("{}*", number(window)),
            None => number(model.window_tokens),
        },
        number(model.max_output_tokens),
        counted,
        price(model.input_usd_per_million),
        price(model.output_usd_per_million),
        price(model.cache_read_usd_per_million),
        model.retires.unwrap_or_default(),
    ]
}

fn counted(model: &Model) -> String {
    match (model.estimated, &model.calibration) {
        (false, _) => model.encoding.clone(),
        (true, None) => "estimated".to_owned(),
        (true, Some(learnt)) => format!(
            "estimated × {:.2} ± {:.0} %",
            learnt.ratio,
            learnt.error * 100.0
        ),
    }
}
