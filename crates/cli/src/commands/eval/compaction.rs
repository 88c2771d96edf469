//! `unisono eval compaction`: how much of a conversation each preset and summariser keeps.

use std::fs;
use std::path::{Path, PathBuf};

use clap::builder::PossibleValuesParser;
use unisono::evaluation::{self, CompactionMethod, Evaluation, summarises};
use unisono_config::setup::Setup;
use unisono_context::Tokens;
use unisono_context::policy::Preset;
use unisono_model::Tokenizer;
use unisono_model::catalogue::EXTRACTIVE;
use unisono_model::retention::baseline::{self, Baseline};
use unisono_model::retention::{self, Probe, ShownMessage};
use unisono_session::machine::Import;

use super::report::{EvaluatedMethod, Made, Report, RetainedRow, Row, Size};
use super::{chart, table};
use crate::app::App;
use crate::conversation;
use crate::problem::{Problem, Result};
use crate::show;

/// Minimum tokens of a size.
const SMALLEST: u64 = 128;
/// Maximum number of compactions to reach a size.
const TRIES: u32 = 4;

const HELP: &str = "\
A probe is a fact of the conversation. It counts as kept if one passage of the result (a line, or at
most two neighbouring sentences of it) has one of the texts of its answer and one of its subject, as
whole words. A probe file has one JSON object a line:
  {\"id\": \"p07\", \"category\": \"decision\",
   \"question\": \"Which word cancels by reply?\",
   \"subject\": [\"word\", \"reply\"], \"answer\": [\"ABSAGE\"], \"ordinals\": [46]}
category is fact, decision, constraint, name (a file, an id, a person) or task (open work or an
open question); ordinals are the messages with the fact, from 1. Case is ignored.

Each preset compacts as before a turn, with a trigger that leads to the size; the configured
preset uses the configured numbers. `one summary` is the whole conversation in one summary of the
size. All texts are measured as a model sees them: messages with number, author and day. A row that
exceeds the size (marked +) is not compared with the others. Nothing is stored, and without --summarisers no model is called. With --summarisers, quotes
of the same size (`extractive`) are measured too, and a summary that keeps less is reported.

Examples:
  unisono eval compaction examples/orders-migration.jsonl \\
      --probes examples/probes/orders-migration.probes.jsonl
  unisono eval compaction talk.jsonl --probes talk.probes.jsonl --sizes 10 \\
      --summarisers extractive,openai/gpt-4o-mini --svg retention.svg

JSON: conversation, messages, tokens, encoding, probes {category: number}, whole {all, category:
share}, sizes [{ratio, tokens, rows [{name, kind (summary, preset, baseline), preset, summariser,
tokens, exceeds (the size), retained {all, category: share}, times_tail, times_extractive (of a model's summary),
writers, duration_ms, cost_usd, error}]}].";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The conversation, in any format that can be imported; `-` is standard input
    transcript: String,
    /// The questions that probe the conversation
    #[arg(long, value_name = "FILE")]
    probes: PathBuf,
    /// Compression ratios
    #[arg(long, value_name = "N,…", value_delimiter = ',', default_value = "4,10,20",
          value_parser = clap::value_parser!(u32).range(2..=10_000))]
    sizes: Vec<u32>,
    /// The presets (default: all that compact)
    #[arg(long, value_name = "PRESET,…", value_delimiter = ',',
          value_parser = PossibleValuesParser::new(presets().map(Preset::name)))]
    presets: Vec<String>,
    /// The summarisers to compare: provider/model, or `extractive`
    #[arg(long, value_name = "MODEL,…", value_delimiter = ',', default_value = EXTRACTIVE)]
    summarisers: Vec<String>,
    /// Also draws a chart
    #[arg(long, value_name = "FILE")]
    svg: Option<PathBuf>,
}

fn presets() -> impl Iterator<Item = Preset> {
    Preset::ALL
        .into_iter()
        .filter(|preset| *preset != Preset::Off)
}

impl Args {
    /// The requested ways, without repetitions.
    fn presets(&self) -> Vec<Preset> {
        let asked = |preset: &Preset| {
            self.presets.is_empty() || self.presets.iter().any(|name| name == preset.name())
        };
        presets().filter(asked).collect()
    }

    /// The sizes, largest first, without repetitions.
    fn ratios(&self) -> Vec<u32> {
        let mut ratios = self.sizes.clone();
        ratios.sort_unstable();
        ratios.dedup();
        ratios
    }

    fn summarisers(&self) -> Vec<&str> {
        let mut names: Vec<&str> = Vec::new();
        let asked = self.summarisers.iter().map(|name| name.trim());
        // Extractive summaries cost nothing. They are the baseline for models.
        for name in std::iter::once(EXTRACTIVE).chain(asked) {
            if !names.contains(&name) {
                names.push(name);
            }
        }
        names
    }
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let setup = app.setup(Vec::new())?;
    let mut source = conversation::open_all(
        std::slice::from_ref(&args.transcript),
        &setup.loaded.config.store.path,
    )?;
    let (import, _) = source.conversation(None, false, &app.out)?;
    let asked = Subject::read(&args, &setup, import)?;
    let report = asked.report(app, &args, &setup).await?;
    // First: models may have been paid for it.
    app.out.result(&report.json(), table::tables(&report));
    match &args.svg {
        Some(path) => write(path, &chart::svg(&report)),
        None => Ok(()),
    }
}

fn write(path: &Path, text: &str) -> Result<()> {
    let problem = |error| Problem::failed(format!("cannot write {}: {error}", path.display()));
    fs::write(path, text).map_err(problem)
}

/// A conversation with its probes and its tokenizer.
struct Subject {
    name: String,
    import: Import,
    /// The messages of the branch `main`, as a model sees them.
    said: Vec<ShownMessage<'static>>,
    probes: Vec<Probe>,
    tokenizer: Tokenizer,
    tokens: u64,
}

impl Subject {
    fn read(args: &Args, setup: &Setup, import: Import) -> Result<Subject> {
        let said = evaluation::shown_messages(&import);
        let probes = probes(&args.probes, said.len())?;
        let encoding = evaluation::encoding(setup).map_err(refused)?;
        let tokenizer = Tokenizer::load(encoding).map_err(Problem::failed)?;
        let tokens = tokenizer.count(&retention::join(&said)).tokens.0;
        let name = match args.transcript.as_str() {
            "-" => "standard input".into(),
            path => Path::new(path)
                .file_name()
                .map_or_else(|| path.into(), |name| name.to_string_lossy()),
        };
        Ok(Subject {
            name: name.into_owned(),
            import,
            said,
            probes,
            tokenizer,
            tokens,
        })
    }

    async fn report(&self, app: &App, args: &Args, setup: &Setup) -> Result<Report> {
        let mut sizes = Vec::new();
        for ratio in args.ratios() {
            let tokens = self.tokens / u64::from(ratio);
            if tokens < SMALLEST {
                let problem = Problem::usage(format!(
                    "at {ratio}:1 {tokens} of {} tokens are left, too few to keep anything",
                    show::number(self.tokens)
                ));
                return Err(problem.hint("name smaller numbers, as in --sizes 2,4"));
            }
            let rows = Vec::new();
            sizes.push(Size {
                ratio,
                tokens,
                rows,
            });
        }
        self.compactions(app, args, setup, &mut sizes).await?;
        for size in &mut sizes {
            let baselines = Baseline::ALL.map(|one| self.by_baseline(one, size.tokens));
            size.rows.extend(baselines);
        }
        Ok(Report {
            conversation: self.name.clone(),
            messages: self.said.len(),
            tokens: self.tokens,
            encoding: self.tokenizer.encoding().name(),
            whole: retention::report(&retention::join(&self.said), &self.probes),
            sizes,
        })
    }

    /// Adds the results of each summariser and each preset to every size.
    async fn compactions(
        &self,
        app: &App,
        args: &Args,
        setup: &Setup,
        sizes: &mut [Size],
    ) -> Result<()> {
        for (index, name) in args.summarisers().into_iter().enumerate() {
            let evaluation = Evaluation::start(setup, name).await.map_err(refused)?;
            let summariser = name.to_owned();
            let mut ways = vec![EvaluatedMethod::Summary { summariser }];
            // A way without summaries has the same result for every summariser.
            let presets = args.presets().into_iter();
            let presets = presets.filter(|preset| summarises(*preset) || index == 0);
            ways.extend(presets.map(|preset| EvaluatedMethod::Preset {
                preset,
                summariser: summarises(preset).then(|| name.to_owned()),
            }));
            for size in &mut *sizes {
                for way in &ways {
                    let row = self.compact(app, &evaluation, way, size).await?;
                    size.rows.push(row);
                }
            }
            evaluation.shutdown().await;
        }
        for size in sizes {
            // Summaries first, then presets; each group in the requested order.
            size.rows
                .sort_by_key(|row| !matches!(row.way, EvaluatedMethod::Summary { .. }));
            for warning in less_than_quotes(size) {
                app.out.warn(warning);
            }
        }
        Ok(())
    }

    async fn compact(
        &self,
        app: &App,
        evaluation: &Evaluation,
        way: &EvaluatedMethod,
        size: &Size,
    ) -> Result<Row> {
        let how = match way {
            EvaluatedMethod::Preset { preset, .. } => CompactionMethod::Preset(*preset),
            EvaluatedMethod::Summary { .. } | EvaluatedMethod::Baseline(_) => {
                CompactionMethod::Summary
            }
        };
        let what = format!("{}, {}:1", way.label(), size.ratio);
        let by_model = way.summariser().is_some_and(|name| name != EXTRACTIVE);
        if by_model {
            app.out.message(format_args!("{what} …"));
        }
        let kept = match self.within(evaluation, how, size.tokens, by_model).await {
            Ok(kept) => Ok(kept),
            Err(evaluation::Error::Failed(reason)) => {
                app.out.warn(format_args!("{what}: {reason}"));
                Err(reason.to_string())
            }
            Err(error) => return Err(refused(error)),
        };
        if let Ok(RetainedRow {
            made: Some(made), ..
        }) = &kept
            && let Some(name) = way.summariser()
            && by_model
            && made.writers.iter().any(|writer| writer != name)
        {
            let writers = made.writers.join(", ");
            app.out
                .warn(format_args!("{what}: the summary is by {writers}"));
        }
        Ok(Row {
            way: way.clone(),
            kept,
        })
    }

    /// The result of a compaction, repeated for a smaller size while it is too large: planned sizes
    /// do not contain the lines of days. A model's summaries are not repeated.
    async fn within(
        &self,
        evaluation: &Evaluation,
        how: CompactionMethod,
        size: u64,
        by_model: bool,
    ) -> std::result::Result<RetainedRow, evaluation::Error> {
        let mut planned = size;
        let mut tries = if by_model { 1 } else { TRIES };
        loop {
            let kept = evaluation.compact(&self.import, how, Tokens(planned));
            let kept = self.kept(kept.await?);
            tries -= 1;
            if kept.tokens <= size || tries == 0 {
                return Ok(kept);
            }
            let smaller = u128::from(planned) * u128::from(size) / u128::from(kept.tokens);
            planned = u64::try_from(smaller).unwrap_or(size).max(1);
        }
    }

    fn kept(&self, kept: evaluation::Compacted) -> RetainedRow {
        RetainedRow {
            tokens: self.tokenizer.count(&kept.text).tokens.0,
            retained: retention::report(&kept.text, &self.probes),
            made: Some(Made {
                writers: kept.writers.iter().map(ToString::to_string).collect(),
                duration_ms: kept.duration_ms,
                cost: kept.cost,
            }),
        }
    }

    fn by_baseline(&self, baseline: Baseline, tokens: u64) -> Row {
        let count = |text: &str| self.tokenizer.count(text).tokens.0;
        let (tokens, retained) =
            baseline::measure(baseline, &self.said, tokens, &count, &self.probes);
        Row {
            way: EvaluatedMethod::Baseline(baseline),
            kept: Ok(RetainedRow {
                tokens,
                retained,
                made: None,
            }),
        }
    }
}

/// The models whose summaries retain less than extractive ones of equal size.
fn less_than_quotes(size: &Size) -> Vec<String> {
    let less = size.rows.iter().filter_map(|row| {
        let kept = row.kept.as_ref().ok()?.retained.all;
        let quotes = size.by_quotes(&row.way)?.retained.all;
        (kept.share() < quotes.share()).then(|| {
            format!(
                "{}, {}:1: it keeps less than quotes of the same size, {} against {}",
                row.way.label(),
                size.ratio,
                table::percent(Some(kept)),
                table::percent(Some(quotes))
            )
        })
    });
    less.collect()
}

fn probes(path: &Path, messages: usize) -> Result<Vec<Probe>> {
    let shown = path.display();
    let text = fs::read_to_string(path)
        .map_err(|error| Problem::usage(format!("cannot read {shown}: {error}")))?;
    let messages = u32::try_from(messages).unwrap_or(u32::MAX);
    retention::parse(&text, messages).map_err(|error| {
        let problem = match &error {
            retention::Error::Line { line, reason } => {
                Problem::usage(format!("{shown}:{line}: {reason}"))
            }
            retention::Error::Empty => Problem::usage(format!("{shown}: {error}")),
        };
        problem.hint("`unisono eval compaction --help` describes the lines")
    })
}

fn refused(error: evaluation::Error) -> Problem {
    match error {
        evaluation::Error::Local(error) => error.into(),
        error @ (evaluation::Error::Unknown { .. } | evaluation::Error::Unreachable { .. }) => {
            Problem::usage(error).hint("`unisono models` shows the usable ones")
        }
        error => Problem::failed(error),
    }
}
