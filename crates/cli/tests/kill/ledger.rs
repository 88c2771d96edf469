//! What has to be so after each death and at the end.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;

use tempfile::TempDir;
use unisono::local::open_store;
use unisono_session::event::{Outcome, RunRole};
use unisono_session::run::{Ending, Step};
use unisono_session::{Event, Fact};

use crate::office::{self, Calls, Tally};
use crate::people::Acknowledged;
use crate::scene::{Scene, Shape, copy, mark_of};

/// What the journal says, read from a copy: the store is left as the death left it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Journal {
    pub(crate) events: Vec<Event>,
}

impl Journal {
    pub(crate) fn read(scene: &Scene) -> Result<Journal, String> {
        let copied = TempDir::new().map_err(|error| error.to_string())?;
        copy(&scene.place.path("data/unisono"), copied.path());
        let runtime = tokio::runtime::Builder::new_current_thread()
            .enable_all()
            .build()
            .map_err(|error| error.to_string())?;
        runtime.block_on(async {
            let opened = open_store(copied.path());
            let opened = opened.await.map_err(|error| error.to_string())?;
            if let Some(salvage) = opened.salvage {
                return Err(format!("the store is not whole: {salvage}"));
            }
            let journal = opened.journal;
            let sessions = journal.sessions(None, 2).await;
            let sessions = sessions.map_err(|error| error.to_string())?;
            let [session] = &sessions[..] else {
                return Err(format!("{} sessions", sessions.len()));
            };
            let id = unisono_context::SessionId::new(session.session.0);
            let events = journal.read(id, 1, 100_000).await;
            let events = events.map_err(|error| error.to_string())?;
            let closed = journal.close().await;
            closed.map_err(|error| error.to_string())?;
            let events = events.into_iter().map(|(_, event)| event).collect();
            Ok(Journal { events })
        })
    }

    fn facts(&self) -> impl Iterator<Item = &Fact> {
        self.events.iter().map(|event| &event.fact)
    }

    pub(crate) fn has_turn(&self) -> bool {
        self.facts()
            .any(|fact| matches!(fact, Fact::TurnAccepted { .. }))
    }

    /// How the turn ended, if it has.
    pub(crate) fn outcome(&self) -> Option<&Outcome> {
        self.facts().find_map(|fact| match fact {
            Fact::TurnEnded { outcome, .. } => Some(outcome),
            _ => None,
        })
    }

    /// The requests whose replies it has.
    pub(crate) fn answered(&self) -> BTreeSet<String> {
        let mut answered = BTreeSet::new();
        let mut find = |text: &str| {
            for (at, _) in text.match_indices("reply-") {
                answered.extend(text.get(at..at + 22).map(str::to_owned));
            }
        };
        for fact in self.facts() {
            match fact {
                Fact::RunStepped { step, .. } => {
                    if let Step::Model(reply) = &**step {
                        find(&reply.text);
                    }
                }
                // A reply that is an answer is recorded as the end of its run.
                Fact::RunEnded { ending, .. } => {
                    if let Ending::Finished { text, .. } = &**ending {
                        find(text);
                    }
                }
                Fact::Compacted { checkpoint, .. } => find(&checkpoint.context_text()),
                _ => {}
            }
        }
        answered
    }

    /// The effects that are not to be had again: those of recorded steps and of ended runs.
    fn settled(&self) -> BTreeSet<String> {
        let mut settled = BTreeSet::new();
        let mut marking = None;
        for fact in self.facts() {
            match fact {
                Fact::RunStepped { step, .. } => {
                    if let Step::Named { name, .. } = &**step {
                        settled.insert(name.to_string());
                    }
                }
                Fact::RunOpened { run } if run.agent.as_str() == "marks" => marking = Some(run.id),
                Fact::RunEnded { run, .. } if Some(*run) == marking => {
                    settled.insert("mark".to_owned());
                }
                _ => {}
            }
        }
        settled
    }

    /// That stages are opened one after the other, each once, the lead's run last, and all on one
    /// snapshot.
    fn in_line(&self) -> Result<(), String> {
        let (mut opened, mut ended, mut snapshots) = (Vec::new(), 0, BTreeSet::new());
        for fact in self.facts() {
            match fact {
                Fact::RunOpened { run } => {
                    let stage = match run.role {
                        RunRole::Delegate { index } => index as usize,
                        RunRole::Lead => Shape::Line.runs() - 1,
                        RunRole::Child { .. } => return Err("a stage gave out work".to_owned()),
                    };
                    if (stage, ended) != (opened.len(), opened.len()) {
                        let (begun, stage) = (opened.len(), stage + 1);
                        return Err(format!(
                            "stage {stage} began when {begun} had begun and {ended} had ended"
                        ));
                    }
                    snapshots.insert(run.snapshot);
                    opened.push(run.id);
                }
                Fact::RunEnded { run, .. } => {
                    if opened.last() != Some(run) {
                        return Err(format!("run {run} ended, and was not the newest"));
                    }
                    ended += 1;
                }
                _ => {}
            }
        }
        match snapshots.len() <= 1 {
            true => Ok(()),
            false => Err(format!("stages on {snapshots:?}")),
        }
    }

    /// What the answer is, and that each run and the turn ended once.
    pub(crate) fn whole(&self, shape: Shape) -> Result<(), String> {
        let mut runs: BTreeMap<_, (u32, u32)> = BTreeMap::new();
        let (mut ends, mut turns) = (0, 0);
        for fact in self.facts() {
            match fact {
                Fact::TurnAccepted { .. } => turns += 1,
                Fact::RunOpened { run } => runs.entry(run.id).or_default().0 += 1,
                Fact::RunEnded { run, ending } => {
                    runs.entry(*run).or_default().1 += 1;
                    if !matches!(&**ending, Ending::Finished { partial: None, .. }) {
                        return Err(format!("run {run} ended so: {ending:?}"));
                    }
                }
                Fact::TurnEnded { outcome, .. } => {
                    ends += 1;
                    if *outcome != Outcome::Answered {
                        return Err(format!("the turn ended so: {outcome}"));
                    }
                }
                _ => {}
            }
        }
        if (turns, ends) != (1, 1)
            || runs.len() != shape.runs()
            || runs.values().any(|times| *times != (1, 1))
        {
            return Err(format!("{turns} turns, {ends} ends, runs: {runs:?}"));
        }
        Ok(())
    }
}

#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Counts {
    pub(crate) rounds: u64,
    pub(crate) deaths: u64,
    /// Deaths of commands that could only wait for a person.
    pub(crate) waited: u64,
    /// Decisions of which nobody heard whether they were taken: a death came in between.
    pub(crate) unheard: u64,
    pub(crate) events: u64,
    pub(crate) requests: u64,
    /// Requests that were open at a death and sent again with the same bytes.
    pub(crate) again: u64,
    pub(crate) effects: u64,
    /// Effects whose step was open at a death and was taken again.
    pub(crate) effects_again: u64,
    pub(crate) tools: Tally,
}

impl Counts {
    pub(crate) fn add(&mut self, other: Counts) {
        self.rounds += other.rounds;
        self.deaths += other.deaths;
        self.waited += other.waited;
        self.unheard += other.unheard;
        self.events += other.events;
        self.requests += other.requests;
        self.again += other.again;
        self.effects += other.effects;
        self.effects_again += other.effects_again;
        self.tools.add(other.tools);
    }
}

/// The bodies of requests by the marks of their replies.
pub(crate) type Bodies = BTreeMap<String, String>;

/// Characters of a request that are shown before the place where it is another.
const BEFORE: usize = 400;

/// What is known of a round so far.
#[derive(Default)]
pub(crate) struct Ledger {
    pub(crate) journal: Journal,
    sent: BTreeMap<String, u64>,
    bodies: Bodies,
    seen: usize,
    effects: BTreeMap<String, usize>,
    /// How many calls of tools were seen.
    called: usize,
    /// The decisions of which a person knows that they were taken.
    pub(crate) acknowledged: Acknowledged,
    pub(crate) counts: Counts,
}

impl Ledger {
    pub(crate) fn begin(scene: &Scene) -> Result<Ledger, String> {
        Ok(Ledger {
            journal: Journal::read(scene)?,
            ..Ledger::default()
        })
    }

    /// Looks at what a life has left: nothing that was on disk before is gone or done again.
    pub(crate) fn after_life(&mut self, scene: &Scene, died: bool) -> Result<(), String> {
        self.counts.deaths += u64::from(died);
        scene.await_servers()?;
        let before = std::mem::take(&mut self.journal);
        self.journal = Journal::read(scene)?;
        if scene.shape == Shape::Line {
            self.journal.in_line()?;
        }
        let kept = self.journal.events.get(..before.events.len());
        if kept != Some(&before.events[..]) {
            return Err("an event that was on disk is lost or another".to_owned());
        }
        let (answered, settled) = (before.answered(), before.settled());
        let requests = scene.provider.requests();
        let new = &requests[self.seen..];
        self.seen = requests.len();
        let mut once = BTreeSet::new();
        for request in new {
            let mark = mark_of(request);
            let body = String::from_utf8_lossy(&request.body).into_owned();
            self.bodies.insert(mark.clone(), body);
            if answered.contains(&mark) {
                return Err(format!("{mark} was answered, and asked again"));
            }
            if !once.insert(mark.clone()) {
                return Err(format!("{mark} was asked twice in one life"));
            }
            *self.sent.entry(mark).or_default() += 1;
        }
        let effects = scene.effects();
        for (effect, times) in &effects {
            let new = times - self.effects.get(effect).copied().unwrap_or_default();
            // A program may outlive who started it by a moment, and then leave its mark.
            let most = if effect == "mark" { 2 } else { 1 };
            if new > most || (new > 0 && settled.contains(effect)) {
                return Err(format!("effect {effect} was had again, {new} times"));
            }
        }
        self.effects = effects;
        let (was, now) = (Calls::of(&before.events), Calls::of(&self.journal.events));
        let called = scene.called();
        let new = called.get(self.called..).unwrap_or_default();
        office::after_life(&was, &now, &called, new, &self.acknowledged)?;
        self.called = called.len();
        Ok(())
    }

    /// At the end: all that was asked was answered, and it is what a life without a death asks.
    pub(crate) fn close(
        mut self,
        scene: &Scene,
        reference: Option<&Bodies>,
    ) -> Result<(Counts, Bodies), String> {
        self.journal.whole(scene.shape)?;
        let tools = office::close(&Calls::of(&self.journal.events), &scene.called())?;
        let answered = self.journal.answered();
        let sent: BTreeSet<String> = self.sent.keys().cloned().collect();
        if sent != answered {
            let lost: Vec<_> = sent.symmetric_difference(&answered).collect();
            return Err(format!("asked and answered differ: {lost:?}"));
        }
        if let Some(reference) = reference.filter(|reference| **reference != self.bodies) {
            let reply = differences(reference, &self.bodies);
            return Err(format!("other bytes than without a death:{reply}"));
        }
        let effects: Vec<&str> = self.effects.keys().map(String::as_str).collect();
        if effects != ["mark", "one", "three", "two"] {
            return Err(format!("effects: {effects:?}"));
        }
        let counts = &mut self.counts;
        counts.rounds = 1;
        counts.tools = tools;
        counts.events = self.journal.events.len() as u64;
        counts.requests = self.sent.values().sum();
        counts.again = counts.requests - self.sent.len() as u64;
        counts.effects = self.effects.values().sum::<usize>() as u64;
        counts.effects_again = counts.effects - self.effects.len() as u64;
        Ok((*counts, self.bodies))
    }
}

/// The requests that only one of two lives has, each from a little before the place where it parts
/// from the other life's.
fn differences(reference: &Bodies, bodies: &Bodies) -> String {
    let mut reply = String::new();
    for (which, of, others) in [
        ("without a death", reference, bodies),
        ("after a death", bodies, reference),
    ] {
        for (mark, body) in of.iter().filter(|(mark, _)| !others.contains_key(*mark)) {
            let parts = others.values().map(|other| common(body, other));
            let at = parts.max().unwrap_or_default().saturating_sub(BEFORE);
            let part: String = body.chars().skip(at).collect();
            let _ = write!(reply, "\n{which}, {mark}, from character {at}:\n{part}");
        }
    }
    reply
}

/// How many characters two texts begin with alike.
fn common(one: &str, other: &str) -> usize {
    let pairs = one.chars().zip(other.chars());
    pairs.take_while(|(a, b)| a == b).count()
}
