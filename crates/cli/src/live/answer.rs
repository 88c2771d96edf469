//! Streams the answer to stdout and messages about the turn to stderr.

use std::future::Future;

use unisono_api::approval::Approval;
use unisono_api::harmless::for_terminal;
use unisono_api::turn_event::TurnEvent;

use super::asking::{self, Lines, Reply};
use super::follow::Show;
use super::screen::Screen;
use super::watch::Watch;
use crate::markdown::page::Page;
use crate::output::Out;

/// A turn of a chat: compactions, agents and trouble as lines, the answer as it comes.
#[derive(Debug)]
pub(crate) struct Answer<'o, L> {
    out: &'o Out,
    screen: Screen<'o>,
    /// The source of the person's lines.
    lines: &'o mut L,
    streams: bool,
    /// The view of the answer on a terminal.
    page: Option<Page>,
    /// The written text of the current reply.
    written: String,
    /// Whether text of the current reply was missed: the rest is written when the reply is
    /// complete.
    missed: bool,
    /// Whether this reply has ended; further text belongs to another one.
    over: bool,
    /// Text of runs whose opening was not reported yet.
    early: Vec<(String, String)>,
}

impl<'o, L: Lines> Answer<'o, L> {
    pub(crate) fn new(out: &'o Out, lines: &'o mut L) -> Answer<'o, L> {
        let asks = lines.is_person() && !out.json;
        Answer {
            out,
            screen: Screen::plain(out).asked_elsewhere(asks),
            lines,
            streams: !out.json,
            page: out.page(),
            written: String::new(),
            missed: false,
            over: false,
            early: Vec::new(),
        }
    }

    /// Writes the rest of the answer.
    pub(crate) fn finish(mut self, answer: Option<&str>) {
        let answer = answer.map(|text| for_terminal(text.trim()).into_owned());
        let rest = answer
            .as_deref()
            .map(|whole| (whole, whole.strip_prefix(self.written.trim_end())));
        match rest {
            Some((_, Some(rest))) if !self.written.is_empty() => {
                // Trimmed text is on the screen already.
                let trimmed = self.written.len() - self.written.trim_end().len();
                let rest = rest.get(trimmed..).unwrap_or_default();
                self.write(rest);
                self.end();
            }
            Some((whole, _)) => {
                self.break_off();
                self.write(whole);
                self.end();
            }
            None => self.break_off(),
        }
    }

    fn text_delta(&mut self, text: &str) {
        if self.over {
            self.break_off();
        }
        if self.missed || !self.streams {
            return;
        }
        let text = for_terminal(text);
        // An answer begins with its first word.
        let text = if self.written.is_empty() {
            text.trim_start()
        } else {
            &text
        };
        self.written += text;
        self.write(text);
    }

    fn write(&mut self, text: &str) {
        match &mut self.page {
            Some(page) => self.out.bytes(page.push(text).as_bytes()),
            None => self.out.bytes(text.as_bytes()),
        }
    }

    /// Writes the buffered text and ends the line.
    fn end(&mut self) {
        let rest = self.page.as_mut().map(Page::finish);
        self.out.safe_data(&rest.unwrap_or_default());
    }

    /// Ends the line before another text.
    fn break_off(&mut self) {
        if !self.written.is_empty() {
            self.end();
        }
        self.written.clear();
        (self.missed, self.over) = (false, false);
    }
}

impl<L: Lines + Send> Show for Answer<'_, L> {
    fn update(&mut self, event: &TurnEvent, watch: &Watch) {
        match event {
            TurnEvent::Text { run, text } if watch.lead() == Some(run) => {
                return self.text_delta(text);
            }
            TurnEvent::Text { run, text } => {
                if watch.agents.iter().all(|of| of.run.as_ref() != Some(run)) {
                    self.early.push((run.clone(), text.clone()));
                }
                return;
            }
            TurnEvent::RunStepped { run } if watch.lead() == Some(run) => self.over = true,
            TurnEvent::RunRetried { agent, .. } if agent.role == "lead" => self.over = true,
            TurnEvent::Missed => self.missed = true,
            _ => {}
        }
        if let Some(lead) = watch.lead() {
            let early = std::mem::take(&mut self.early).into_iter();
            let own = early.filter(|(run, _)| run == lead);
            own.for_each(|(_, text)| self.text_delta(&text));
        }
        if is_line(event) && !self.out.json {
            if self.over {
                self.break_off();
            }
            self.screen.show(event, watch);
        }
    }

    fn on_waiting_call(&mut self, call: &Approval, watch: &Watch) {
        self.break_off();
        self.screen.on_waiting_call(call, watch);
    }

    fn show_question(&mut self, question: &str) -> bool {
        if self.out.json || !self.lines.is_person() {
            return false;
        }
        self.break_off();
        asking::drop_typed(self.out);
        if self.lines.ask(question) {
            self.out.ask(asking::prompt_text(question));
        }
        true
    }

    fn reply(&mut self) -> impl Future<Output = Reply> + Send {
        self.lines.reply()
    }
}

/// Whether an update is shown as a line above the answer.
fn is_line(event: &TurnEvent) -> bool {
    match event {
        TurnEvent::Compacting { .. }
        | TurnEvent::Compacted { .. }
        | TurnEvent::Shortened { .. }
        | TurnEvent::StepFailed { .. }
        | TurnEvent::PreparationDropped { .. }
        | TurnEvent::RunRetried { .. }
        | TurnEvent::Waiting { .. } => true,
        TurnEvent::Accepted { queued, .. } => *queued,
        // The lead's own line would interrupt its answer.
        TurnEvent::Runs { agents } => agents
            .iter()
            .all(|agent| agent.role != "lead" && !agent.is_open()),
        _ => false,
    }
}
