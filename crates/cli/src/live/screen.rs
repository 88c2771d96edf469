//! The display of a turn on stderr: lines of progress, and on a terminal one updated line per agent.

use std::future::Future;
use std::time::Duration;

use indicatif::{MultiProgress, ProgressBar, ProgressDrawTarget, ProgressStyle};
use unisono::values;
use unisono_api::approval::Approval;
use unisono_api::fmt;
use unisono_api::turn::{CompactionEffect, ErrorInfo};
use unisono_api::turn_event::{FrozenContext, Member, NewCheckpoint, TurnEvent};
use unisono_api::usage::Amounts;
use unisono_context::Cost;
use unisono_runtime::clock;

use super::asking::{self, Lines as _, Reply, Terminal};
use super::follow::Show;
use super::notice;
use super::watch::Watch;
use crate::approvals;
use crate::output::Out;
use crate::show;
use crate::terminal::{Paint, terminal_safe};

/// The interval between two drawings of the progress.
const TICK: Duration = Duration::from_millis(100);
const SPINNER: &str = "⠋⠙⠹⠸⠼⠴⠦⠧⠇⠏ ";

#[derive(Debug)]
pub(crate) struct Screen<'o> {
    out: &'o Out,
    paint: Paint,
    bars: Option<Bars>,
    person: Terminal,
    /// Whether waiting calls are decided at this terminal.
    asks: bool,
    /// The messages that consecutive steps have cut, to be reported together.
    cuts: u64,
    last_reason: notice::LastReason,
}

#[derive(Debug)]
struct Bars {
    all: MultiProgress,
    /// The step before the agents begin.
    step: Option<ProgressBar>,
    /// One bar per agent.
    runs: Vec<ProgressBar>,
}

impl<'o> Screen<'o> {
    pub(crate) fn new(out: &'o Out) -> Screen<'o> {
        Screen::with_person(out, Terminal::default())
    }

    /// A screen with the person of an earlier one, who may have been asked for a line.
    pub(crate) fn with_person(out: &'o Out, person: Terminal) -> Screen<'o> {
        let bars = out.redraws.then(|| Bars {
            all: MultiProgress::with_draw_target(ProgressDrawTarget::stderr_with_hz(15)),
            step: None,
            runs: Vec::new(),
        });
        Screen {
            asks: out.watched && person.is_person(),
            bars,
            person,
            ..Screen::plain(out)
        }
    }

    /// A screen without progress bars: lines only.
    pub(crate) fn plain(out: &'o Out) -> Screen<'o> {
        Screen {
            out,
            paint: out.paint_messages,
            bars: None,
            person: Terminal::default(),
            asks: false,
            cuts: 0,
            last_reason: notice::LastReason::default(),
        }
    }

    /// Ends the screen. Its person goes to the next one.
    pub(crate) fn into_person(self) -> Terminal {
        self.person
    }

    /// Sets whether this terminal asks about waiting calls.
    pub(crate) fn asked_elsewhere(self, asks: bool) -> Screen<'o> {
        Screen { asks, ..self }
    }

    /// A line with a label.
    pub(crate) fn headline(&self, word: &str, text: &str) {
        let line = format!("{} {text}", self.paint.bold(format_args!("{word:<10}")));
        self.suspended(|| self.out.message(line));
    }

    pub(crate) fn show(&mut self, event: &TurnEvent, watch: &Watch) {
        if !is_between_cuts(event) {
            self.report_cuts(watch);
        }
        match event {
            TurnEvent::Accepted { queued: true, .. } => {
                self.headline("waiting", "for an earlier turn of this branch");
            }
            TurnEvent::Counted { messages, tokens } => {
                let messages = show::many(*messages, "new message");
                let text = format!("{messages}, {} tokens", show::number(*tokens));
                self.headline("counted", &text);
            }
            TurnEvent::Compacting {
                step,
                tightened,
                quota_reached,
                ..
            } => {
                if let Some(most) = tightened {
                    self.headline("warning", &self.paint.yellow(fmt::tightened(*most)));
                }
                if let Some(quota) = quota_reached {
                    self.headline("summary", &self.paint.yellow(notice::quotes_for(*quota)));
                }
                self.step(format!("compacting: {step}"));
            }
            TurnEvent::Shortened { messages, effect } => self.shortened(*effect, *messages, watch),
            TurnEvent::Compacted { checkpoint } => self.compacted(checkpoint, watch),
            TurnEvent::StepFailed { reason, pause_ms } => self.step_failed(reason, *pause_ms),
            TurnEvent::PreparationDropped { reason } => {
                let text = format!("the prepared summary is not used: {reason}");
                self.headline("summary", &self.paint.yellow(text));
            }
            TurnEvent::Frozen { context } => self.frozen(context, watch),
            TurnEvent::RunRetried { agent, reason } => self.retried(agent, reason, watch),
            TurnEvent::Runs { agents } => agents.iter().for_each(|agent| self.run(agent, watch)),
            TurnEvent::Waiting { calls } => {
                let each = calls.iter();
                each.for_each(|call| self.on_waiting_call(call, watch));
                self.refresh(watch);
            }
            TurnEvent::Decided { .. } => self.refresh(watch),
            TurnEvent::Progress { run, text } => self.progress(run, text, watch),
            TurnEvent::CompactionProgress { text, is_failure } => {
                self.compacting(text, *is_failure)
            }
            TurnEvent::Ended(_) => self.step_done(),
            _ => {}
        }
    }

    fn shortened(&mut self, effect: CompactionEffect, messages: u64, watch: &Watch) {
        self.step_done();
        match effect {
            CompactionEffect::Cut => self.cuts += messages,
            _ => self.report_shortened(effect, messages, watch),
        }
    }

    /// Reports the cuts of the last steps in one line.
    fn report_cuts(&mut self, watch: &Watch) {
        match std::mem::take(&mut self.cuts) {
            0 => {}
            cuts => self.report_shortened(CompactionEffect::Cut, cuts, watch),
        }
    }

    fn report_shortened(&self, effect: CompactionEffect, messages: u64, watch: &Watch) {
        if watch.notifies {
            let effect = effect.text(messages);
            self.headline("shortened", &format!("{effect}, still there for `recall`"));
        }
    }

    fn compacted(&mut self, made: &NewCheckpoint, watch: &Watch) {
        self.step_done();
        if watch.notifies {
            match made.regenerates {
                Some(old) => self.headline("rewritten", &notice::rewritten(made, old)),
                None => self.headline("compacted", &notice::compacted(made)),
            }
        }
    }

    fn step_failed(&mut self, reason: &str, pause_ms: Option<i64>) {
        self.step_done();
        let (word, text) = match pause_ms {
            Some(pause) => {
                let (reason, pause) = (self.last_reason.text(reason), notice::pause(pause));
                ("retry", format!("{reason}; the next try is in {pause}"))
            }
            // The next update shows whether the run is retried, replaced or has failed.
            None => ("failed", format!("a compaction step: {reason}")),
        };
        self.headline(word, &self.paint.yellow(text));
    }

    /// Shows a waiting call with the commands that decide about it.
    pub(crate) fn on_waiting_call(&self, call: &Approval, watch: &Watch) {
        let agent = &call.agent;
        let line = approvals::whole(call);
        let why = match &call.rule {
            _ if asking::is_in_doubt(call) => "the outcome of this call is unknown".to_owned(),
            Some(rule) => format!("`{rule}` requires approval"),
            None => "waits for a person".to_owned(),
        };
        let how = asking::how(call);
        let how = match watch.elsewhere {
            true => how,
            false => format!("stop with ctrl-c, then {how}, then unisono resume"),
        };
        let what = format!("{agent} calls {line}: {why}");
        if self.out.quiet {
            // Otherwise nothing would say why the program waits.
            let how = match self.asks {
                true => String::new(),
                false => format!("; {how}"),
            };
            return self.out.warn(format_args!("{what}{how}"));
        }
        self.headline("waits", &self.paint.yellow(what));
        if !self.asks {
            self.headline("", &how);
        }
    }

    /// Writes something while the bars are hidden.
    fn suspended(&self, write: impl FnOnce()) {
        match &self.bars {
            Some(bars) => bars.all.suspend(write),
            None => write(),
        }
    }

    fn progress(&self, run: &str, text: &str, watch: &Watch) {
        let mut agents = watch.agents.iter();
        let Some(index) = agents.position(|agent| agent.run.as_deref() == Some(run)) else {
            return;
        };
        if let (Some(bars), Some(agent)) = (&self.bars, watch.agents.get(index))
            && let Some(bar) = bars.runs.get(index)
            && is_at_work(agent, watch)
        {
            let text = self.paint.dim(show::line(text, 80));
            bar.set_message(terminal_safe(&format!(
                "{} {text}",
                self.line(agent, watch)
            )));
        }
    }

    /// Shows the progress of a compaction step.
    fn compacting(&self, text: &str, is_failure: bool) {
        if is_failure {
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
        bar.set_message(terminal_safe(&text));
    }

    fn step_done(&mut self) {
        if let Some(bar) = self.bars.as_mut().and_then(|bars| bars.step.take()) {
            bar.finish_and_clear();
        }
    }

    fn frozen(&mut self, frozen: &FrozenContext, watch: &Watch) {
        self.step_done();
        self.headline("context", &notice::context(watch.tokens_before, frozen));
        let (id, agents) = (
            frozen.snapshot.get(..12).unwrap_or(&frozen.snapshot),
            show::many(frozen.agents, "agent"),
        );
        let same = if frozen.agents == 1 {
            "for"
        } else {
            "identical for"
        };
        let id = self.paint.cyan(id);
        self.headline("snapshot", &format!("{id} {same} {agents}"));
        if let Some(no_delegation_reason) = &watch.no_delegation_reason {
            self.headline("delegates", &self.paint.yellow(no_delegation_reason));
        }
        self.agents(watch);
    }

    /// Shows why agents pause. After a resume they may pause before the first event.
    pub(crate) fn pauses(&mut self, watch: &Watch) {
        let now = values::instant(clock::now());
        for agent in &watch.agents {
            let pause = agent.pause.as_ref().filter(|pause| pause.until > now);
            if let Some(pause) = pause {
                self.retried(agent, &pause.reason, watch);
            }
        }
    }

    /// Opens a line for each agent.
    pub(crate) fn agents(&mut self, watch: &Watch) {
        let lines: Vec<String> = watch.agents.iter().map(|w| self.line(w, watch)).collect();
        let Some(bars) = &mut self.bars else { return };
        for (agent, line) in watch.agents.iter().zip(lines) {
            let bar = bars.all.add(ProgressBar::new_spinner());
            bar.set_style(style("  {msg}"));
            bar.set_message(terminal_safe(&line));
            if !agent.is_open() {
                bar.finish();
            }
            bars.runs.push(bar);
        }
    }

    fn run(&mut self, agent: &Member, watch: &Watch) {
        let place = usize::try_from(agent.place).unwrap_or(usize::MAX);
        let index = place.min(watch.agents.len());
        let line = self.line(agent, watch);
        let Some(bars) = &mut self.bars else {
            return self.out.message(format_args!("  {}", line.trim_end()));
        };
        // A delegate has joined meanwhile.
        while bars.runs.len() <= index {
            bars.runs.push(bars.all.add(ProgressBar::new_spinner()));
        }
        let bar = &bars.runs[index];
        if agent.state == "running" {
            bar.reset_elapsed();
        }
        update(bar, &line, is_at_work(agent, watch));
        if !agent.is_open() {
            bar.finish();
        }
    }

    /// Updates the lines of open runs when one of them begins or ceases to wait for a person.
    fn refresh(&self, watch: &Watch) {
        let Some(bars) = &self.bars else { return };
        let open = watch.agents.iter().zip(&bars.runs);
        for (agent, bar) in open.filter(|(agent, _)| agent.is_open()) {
            update(bar, &self.line(agent, watch), is_at_work(agent, watch));
        }
    }

    fn retried(&mut self, agent: &Member, reason: &str, watch: &Watch) {
        let name = &agent.agent;
        let until = agent.pause.as_ref().map(|pause| show::second(&pause.until));
        let until = until.map(|until| format!("; the next attempt is not before {until} UTC"));
        let until = until.unwrap_or_default();
        let reason = self.last_reason.text(reason);
        self.headline(
            "retry",
            &self.paint.yellow(format_args!("{name}: {reason}{until}")),
        );
        self.run(agent, watch);
    }

    /// One agent: name, state, tokens, time.
    fn line(&self, agent: &Member, watch: &Watch) -> String {
        let widths = watch.agents.iter().map(|a| a.agent.chars().count());
        let width = widths.max().unwrap_or(0);
        let name = format!("{:<width$}", agent.agent);
        let name = match agent.role.as_str() {
            "lead" => self.paint.bold(name),
            _ => name,
        };
        format!("{name}  {}", self.state(agent, watch))
    }

    fn state(&self, agent: &Member, watch: &Watch) -> String {
        let paint = self.paint;
        let word = format!("{:<9}", agent.state);
        let time = agent.duration_ms.map_or_else(String::new, show::time);
        match (agent.state.as_str(), &agent.error) {
            ("waiting", _) if agent.run.is_some() => {
                format!("{} for its delegates", paint.yellow(word))
            }
            ("running", _) if !is_at_work(agent, watch) => paint.yellow("waits for you"),
            ("running", _) => match agent.attempt {
                Some(attempt) if attempt > 1 => {
                    format!("{} attempt {attempt}", paint.yellow(word))
                }
                _ => paint.yellow(word),
            },
            ("failed", Some(ErrorInfo { code, reason })) => {
                let text = format!("{code}: {}", show::line(reason, 400));
                format!("{} {text} ({time})", paint.red(word))
            }
            ("done" | "partial", partial) => {
                let used = agent.usage.unwrap_or_default();
                let word = match partial {
                    None => paint.green(word),
                    Some(_) => paint.yellow(word),
                };
                let why = partial.as_ref();
                let why = why.map(|why| format!("  {}", paint.yellow(&why.reason)));
                let why = why.unwrap_or_default();
                format!("{word} {}  {time:>7}{}{why}", tokens(&used), extra(&used))
            }
            _ => paint.dim(word),
        }
    }
}

/// Input and output tokens; blank without any.
fn tokens(used: &Amounts) -> String {
    let (input, output) = (used.input_tokens, used.output_tokens);
    let text = format!(
        "{:>7} tokens in, {:>5} out",
        show::number(input),
        show::number(output)
    );
    match (input, output) {
        (0, 0) => " ".repeat(text.len()),
        _ => text,
    }
}

/// Tokens from caches, and the cost.
fn extra(used: &Amounts) -> String {
    let cache = show::cache(used).map(|cache| format!("  cache: {cache}"));
    let cost = match show::cost_of(used) {
        Some(Cost::ZERO) => String::new(),
        Some(cost) => format!("  {cost}"),
        None => "  $ ?".to_owned(),
    };
    cache.unwrap_or_default() + &cost
}

impl Show for Screen<'_> {
    fn update(&mut self, event: &TurnEvent, watch: &Watch) {
        self.show(event, watch);
    }

    fn on_waiting_call(&mut self, call: &Approval, watch: &Watch) {
        Screen::on_waiting_call(self, call, watch);
    }

    fn show_question(&mut self, question: &str) -> bool {
        if self.asks {
            self.suspended(|| asking::drop_typed(self.out));
        }
        if self.asks && self.person.ask(question) {
            self.suspended(|| self.out.ask(asking::prompt_text(question)));
        }
        self.asks
    }

    fn reply(&mut self) -> impl Future<Output = Reply> + Send {
        self.person.reply()
    }
}

/// Whether a report of cuts waits for the steps after this event.
fn is_between_cuts(event: &TurnEvent) -> bool {
    matches!(
        event,
        TurnEvent::Compacting {
            tightened: None,
            quota_reached: None,
            ..
        } | TurnEvent::Shortened {
            effect: CompactionEffect::Cut,
            ..
        }
    )
}

fn is_at_work(agent: &Member, watch: &Watch) -> bool {
    let mut waiting = watch.waiting.iter();
    agent.state == "running" && !waiting.any(|call| Some(&*call.run) == agent.run.as_deref())
}

fn update(bar: &ProgressBar, line: &str, is_at_work: bool) {
    bar.set_message(terminal_safe(line));
    if is_at_work {
        bar.set_style(style("{spinner} {msg} {elapsed}"));
        bar.enable_steady_tick(TICK);
    } else {
        bar.disable_steady_tick();
        bar.set_style(style("  {msg}"));
    }
}

fn style(template: &str) -> ProgressStyle {
    let style = ProgressStyle::with_template(template);
    style
        .unwrap_or_else(|_| ProgressStyle::default_spinner())
        .tick_chars(SPINNER)
}
