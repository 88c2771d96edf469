//! What a person sees of a turn on stderr: lines that come as it goes on; on a terminal one line
//! for each agent that changes in place.

use std::future::Future;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use unisono_context::{Cost, Tokens};
use unisono_runtime::Progress;
use unisono_session::Event;
use unisono_session::event::RunRole;
use unisono_session::run::calls::{Status as CallStatus, Waiting};

use super::asking::{self, Lines as _, Reply, Terminal};
use super::follow::Show;
use super::member::{Status, Watched};
use super::notice;
use super::watch::{Frozen, News, Watch};
use crate::approvals;
use crate::output::{Out, Paint, shown};
use crate::show;

/// How often what moves is drawn.
const TICK: Duration = Duration::from_millis(100);
const SPINNER: &str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ";

/// A turn's place on stderr.
#[derive(Debug)]
pub(crate) struct Screen<'o> {
    out: &'o Out,
    paint: Paint,
    bars: Option<Bars>,
    person: Terminal,
    /// Whether calls that wait are asked about here.
    asks: bool,
}

/// What moves on a terminal.
#[derive(Debug)]
struct Bars {
    all: MultiProgress,
    /// What is done before the agents work.
    step: Option<ProgressBar>,
    /// One for each agent.
    runs: Vec<ProgressBar>,
}

impl<'o> Screen<'o> {
    pub(crate) fn new(out: &'o Out) -> Screen<'o> {
        let bars = out.watched.then(|| Bars {
            all: MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(15)),
            step: None,
            runs: Vec::new(),
        });
        let person = Terminal::default();
        Screen {
            asks: bars.is_some() && person.is_person(),
            bars,
            person,
            ..Screen::plain(out)
        }
    }

    /// A place where nothing moves, whoever watches: lines only.
    pub(crate) fn plain(out: &'o Out) -> Screen<'o> {
        Screen {
            out,
            paint: out.paint_messages,
            bars: None,
            person: Terminal::default(),
            asks: false,
        }
    }

    /// As another asks about calls that wait, or does not.
    pub(crate) fn asked_elsewhere(self, asks: bool) -> Screen<'o> {
        Screen { asks, ..self }
    }

    /// A line with a word in front that says what it is about.
    pub(crate) fn headline(&self, word: &str, text: &str) {
        let line = format!("{} {text}", self.paint.bold(format_args!("{word:<10}")));
        match &self.bars {
            Some(bars) => bars.all.suspend(|| self.out.say(line)),
            None => self.out.say(line),
        }
    }

    /// Shows what has changed.
    pub(crate) fn show(&mut self, news: &News, watch: &Watch) {
        match news {
            News::Accepted => {}
            News::Queued => self.headline("waiting", "for an earlier turn of this branch"),
            News::Counted { messages, tokens } => {
                let messages = show::many(*messages as u64, "new message");
                self.headline(
                    "counted",
                    &format!("{messages}, {} tokens", show::tokens(*tokens)),
                );
            }
            News::Compacting {
                step,
                tightened,
                used_up,
            } => {
                if let Some(most) = tightened {
                    self.headline("warning", &self.paint.yellow(notice::tightened(*most)));
                }
                if let Some(quota) = used_up {
                    self.headline("summary", &self.paint.yellow(notice::quotes_for(quota)));
                }
                self.step(format!("compacting: {}", show::step(step)));
            }
            News::Shortened(messages) => {
                self.step_done();
                if !watch.notifies {
                    return;
                }
                let messages = show::many(*messages as u64, "message");
                let text = format!("{messages} masked or cut, still there for `recall`");
                self.headline("shortened", &text);
            }
            News::Compacted {
                checkpoint,
                rewrites,
            } => {
                self.step_done();
                if watch.notifies {
                    match rewrites {
                        Some(old) => {
                            self.headline("rewritten", &notice::rewritten(checkpoint, *old));
                        }
                        None => self.headline("compacted", &notice::compacted(checkpoint)),
                    }
                }
            }
            News::StepFailed { reason, pause_ms } => {
                self.step_done();
                let (word, text) = match pause_ms {
                    Some(pause) => {
                        let pause = notice::pause(*pause);
                        ("retry", format!("{reason}; the next try is in {pause}"))
                    }
                    // Whether it is tried again, done otherwise or given up, what comes next says.
                    None => ("failed", format!("a compaction step: {reason}")),
                };
                self.headline(word, &self.paint.yellow(text));
            }
            News::Frozen(frozen) => self.frozen(frozen, watch),
            News::Retried { index, reason } => self.retried(*index, reason, watch),
            News::Runs(indexes) => indexes.iter().for_each(|index| self.run(*index, watch)),
            News::Waits(waiting) => waiting.iter().for_each(|one| self.waits(one, watch)),
            News::Ended => self.step_done(),
        }
    }

    /// A call that waits for a person, and how to answer it.
    pub(crate) fn waits(&self, waiting: &Waiting, watch: &Watch) {
        let planned = &waiting.call.planned;
        let agent = &waiting.agent;
        let line = approvals::line(&planned.tool, &planned.arguments);
        let why = match &planned.approval {
            _ if waiting.call.status == CallStatus::InDoubt => {
                "nobody knows whether this call was made".to_owned()
            }
            Some(approval) => format!("`{}` asks for a person's leave", approval.rule),
            None => "a person is asked".to_owned(),
        };
        self.headline(
            "waits",
            &self.paint.yellow(format!("{agent} calls {line}: {why}")),
        );
        if !self.asks {
            let how = approvals::how(waiting);
            let how = match watch.elsewhere {
                true => how,
                false => format!("stop with ctrl-c, then {how}, then unisono resume"),
            };
            self.headline("", &how);
        }
    }

    /// Asks the person at the terminal.
    fn question(&self, text: &str) {
        let ask = || self.out.ask(asking::shown(text));
        match &self.bars {
            Some(bars) => bars.all.suspend(ask),
            None => ask(),
        }
    }

    /// What an agent says it is doing.
    pub(crate) fn progress(&self, index: usize, text: &str, watch: &Watch) {
        if let (Some(bars), Some(watched)) = (&self.bars, watch.runs.get(index))
            && let Some(bar) = bars.runs.get(index)
            && matches!(watched.status, Status::Running { .. })
        {
            let text = self.paint.dim(show::line(text, 80));
            bar.set_message(shown(&format!("{} {text}", self.line(watched, watch))));
        }
    }

    /// How a compaction step goes on.
    pub(crate) fn compacting(&self, text: &str, trouble: bool) {
        if trouble {
            return self.headline("summary", &self.paint.yellow(text));
        }
        if let Some(step) = self.bars.as_ref().and_then(|bars| bars.step.as_ref()) {
            step.set_message(format!("compacting: {}", show::line(text, 200)));
        }
    }

    fn step(&mut self, text: String) {
        let Some(bars) = &mut self.bars else { return };
        let bar = bars.step.get_or_insert_with(|| {
            let bar = bars.all.add(ProgressBar::new_spinner());
            bar.set_style(style("{spinner} {msg} {elapsed}"));
            bar.enable_steady_tick(TICK);
            bar
        });
        bar.set_message(shown(&text));
    }

    fn step_done(&mut self) {
        if let Some(bar) = self.bars.as_mut().and_then(|bars| bars.step.take()) {
            bar.finish_and_clear();
        }
    }

    fn frozen(&mut self, frozen: &Frozen, watch: &Watch) {
        self.step_done();
        self.headline("context", &notice::context(watch.tokens_before, frozen));
        let (id, agents) = (
            frozen.snapshot.short(),
            show::many(frozen.agents as u64, "agent"),
        );
        let same = if frozen.agents == 1 {
            "for"
        } else {
            "identical for"
        };
        let id = self.paint.cyan(id);
        self.headline("snapshot", &format!("{id} {same} {agents}"));
        if let Some(alone) = &watch.alone {
            self.headline("delegates", &self.paint.yellow(alone));
        }
        self.agents(watch);
    }

    /// Opens a line for each agent.
    pub(crate) fn agents(&mut self, watch: &Watch) {
        let lines: Vec<String> = watch.runs.iter().map(|w| self.line(w, watch)).collect();
        let Some(bars) = &mut self.bars else { return };
        for (watched, line) in watch.runs.iter().zip(lines) {
            let bar = bars.all.add(ProgressBar::new_spinner());
            bar.set_style(style("  {msg}"));
            bar.set_message(shown(&line));
            if !watched.status.is_open() {
                bar.finish();
            }
            bars.runs.push(bar);
        }
    }

    fn run(&mut self, index: usize, watch: &Watch) {
        let Some(watched) = watch.runs.get(index) else {
            return;
        };
        let line = self.line(watched, watch);
        let Some(bars) = &mut self.bars else {
            return self.out.say(format_args!("  {}", line.trim_end()));
        };
        // Somebody was given a task meanwhile.
        while bars.runs.len() <= index {
            bars.runs.push(bars.all.add(ProgressBar::new_spinner()));
        }
        let bar = &bars.runs[index];
        if matches!(watched.status, Status::Running { .. }) {
            bar.set_style(style("{spinner} {msg} {elapsed}"));
            bar.reset_elapsed();
            bar.set_message(shown(&line));
            bar.enable_steady_tick(TICK);
            return;
        }
        bar.disable_steady_tick();
        bar.set_style(style("  {msg}"));
        bar.set_message(shown(&line));
        if !watched.status.is_open() {
            bar.finish();
        }
    }

    fn retried(&mut self, index: usize, reason: &str, watch: &Watch) {
        let Some(watched) = watch.runs.get(index) else {
            return;
        };
        let name = watched.agent.as_str();
        self.headline(
            "retry",
            &self.paint.yellow(format_args!("{name}: {reason}")),
        );
        self.run(index, watch);
    }

    /// One agent: name, state, tokens, time.
    fn line(&self, watched: &Watched, watch: &Watch) -> String {
        let width = watch
            .runs
            .iter()
            .map(|w| w.agent.as_str().chars().count())
            .max();
        let width = width.unwrap_or(0);
        let name = format!("{:<width$}", watched.agent.as_str());
        let name = match watched.role {
            RunRole::Lead => self.paint.bold(name),
            RunRole::Delegate { .. } | RunRole::Child { .. } => name,
        };
        format!("{name}  {}", self.state(watched))
    }

    fn state(&self, watched: &Watched) -> String {
        let paint = self.paint;
        let word = format!("{:<9}", watched.status.word());
        match &watched.status {
            Status::Waiting | Status::Cancelled => paint.dim(word),
            Status::Delegating => format!("{} for its delegates", paint.yellow(word)),
            Status::Running { attempt: 1 } => paint.yellow(word),
            Status::Running { attempt } => format!("{} attempt {attempt}", paint.yellow(word)),
            Status::Done {
                partial, usage, ms, ..
            } => {
                let (input, output) = (show::tokens(usage.input), show::tokens(usage.output));
                let tokens = format!("{input:>7} tokens in, {output:>5} out");
                let silent = usage.input == Tokens::ZERO && usage.output == Tokens::ZERO;
                let tokens = if silent {
                    " ".repeat(tokens.len())
                } else {
                    tokens
                };
                let word = if partial.is_none() {
                    paint.green(word)
                } else {
                    paint.yellow(word)
                };
                let cached = show::cache(usage).map(|cache| format!("  cache: {cache}"));
                let cached = cached.unwrap_or_default();
                let cost = match usage.cost {
                    Some(Cost::ZERO) => String::new(),
                    Some(cost) => format!("  {cost}"),
                    None => "  $ ?".to_owned(),
                };
                let why = partial
                    .as_ref()
                    .map(|why| format!("  {}", paint.yellow(why)));
                format!(
                    "{word} {tokens}  {:>7}{cached}{cost}{}",
                    show::time(*ms),
                    why.unwrap_or_default()
                )
            }
            Status::Failed { cause, reason, ms } => {
                let text = format!("{}: {}", cause.code(), show::line(reason, 400));
                format!("{} {text} ({})", paint.red(word), show::time(*ms))
            }
        }
    }
}

impl Show for Screen<'_> {
    fn event(&mut self, _: &Event, news: Option<&News>, watch: &Watch) {
        if let Some(news) = news {
            self.show(news, watch);
        }
    }

    fn waits(&mut self, waiting: &Waiting, watch: &Watch) {
        Screen::waits(self, waiting, watch);
    }

    fn asks(&mut self, question: &str) -> bool {
        if self.asks && self.person.ask(question) {
            self.question(question);
        }
        self.asks
    }

    fn reply(&mut self) -> impl Future<Output = Reply> + Send {
        self.person.reply()
    }

    fn said(&mut self, said: &Progress, watch: &Watch) {
        match said {
            Progress::Run { run, text } => {
                let mut runs = watch.runs.iter();
                if let Some(index) = runs.position(|watched| watched.run == Some(*run)) {
                    self.progress(index, text, watch);
                }
            }
            Progress::Compaction {
                turn,
                text,
                trouble,
            } if *turn == watch.turn => self.compacting(text, *trouble),
            Progress::Compaction { .. } | Progress::Piece { .. } => {}
        }
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .tick_chars(SPINNER)
}
