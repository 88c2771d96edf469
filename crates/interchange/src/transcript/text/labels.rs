//! Which labels of a text are speakers. The book states the rule: Import conversations, Texts.

use std::collections::{BTreeMap, BTreeSet};

use unisono_context::Role;

use super::lines::Line;
use super::names::{Form, PAIRS, form_of, has_leading_particle};
use super::{has_role, role_of};
use crate::transcript::source::Problem;

/// The maximum number of warnings about labels.
const WARNINGS: usize = 10;
/// The number of lines from which a name in lower case is a speaker beside names in capitals.
const LOWER_LINES: usize = 3;

/// The labels of a text, by their names in lower case.
pub(super) struct Labels<'l, 't> {
    lines: &'l [Line<'t>],
    of: BTreeMap<String, Label<'t>>,
    /// Whether messages are separated by empty lines.
    is_spaced: bool,
    /// For each line, whether the last role before it is a model's user.
    after_user: Vec<bool>,
}

struct Label<'t> {
    name: &'t str,
    form: Form,
    /// The lines that begin with it.
    at: Vec<usize>,
}

impl Label<'_> {
    fn is_again(&self) -> bool {
        self.at.len() > 1 || has_role(self.name)
    }
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Place {
    /// At the beginning of a paragraph.
    Paragraph,
    BehindSpeaker,
    /// Behind another line of a message.
    Inside,
    /// Behind a label that is no speaker.
    BehindLabel,
    /// Behind a line that ends with a colon.
    Listed,
}

type Names = BTreeSet<String>;

/// The maximum number of passes over all labels. A pass may change labels on which others depend.
const MOST_PASSES: usize = 32;
/// The number of lines up to which a speaker may be a label.
const FEW_LINES: usize = 3;

impl<'l, 't> Labels<'l, 't> {
    pub(super) fn find(lines: &'l [Line<'t>]) -> Labels<'l, 't> {
        let mut of: BTreeMap<String, Label<'t>> = BTreeMap::new();
        for (at, line) in lines.iter().enumerate() {
            if let Some(name) = line.name() {
                let label = of.entry(name.to_lowercase()).or_insert_with(|| Label {
                    name,
                    form: form_of(name),
                    at: Vec::new(),
                });
                label.at.push(at);
            }
        }
        for pair in PAIRS {
            let is_there = |name: &&str| of.get(*name).is_some_and(|label| label.at.len() > 1);
            if pair.iter().all(is_there) {
                for name in pair {
                    of.entry(name.to_owned())
                        .and_modify(|label| label.form = Form::Person);
                }
            }
        }
        let is_spaced = is_spaced(lines, &of);
        Labels {
            lines,
            of,
            is_spaced,
            after_user: after_user(lines),
        }
    }

    /// The names of the speakers. `clear`: names in lower case are not enough.
    pub(super) fn chosen(&self, clear: bool) -> Names {
        let mut names = self.repeated(if clear { Form::Phrase } else { Form::Lower });
        if is_with_model(&names) {
            let may_speak = |name: &String| self.of.get(name).is_some_and(|of| self.answers(of));
            names.retain(may_speak);
        }
        let has_capitals =
            |name: &String| self.of.get(name).is_some_and(|of| of.form > Form::Lower);
        let is_lower = !clear && !names.iter().any(has_capitals);
        let least = if is_lower { Form::Lower } else { Form::Name };
        self.add_rare(least, &mut names);
        if names.len() < 2 {
            // A short text: each name is one.
            let all = self.of.iter().filter(|(_, label)| label.form >= least);
            names.extend(all.map(|(name, _)| name.clone()));
        }
        if names.len() > 1 {
            self.add_lower(&mut names);
        }
        if names.is_empty() && !clear {
            let all = self.of.iter().filter(|(_, label)| label.form > Form::Usual);
            names.extend(all.map(|(name, _)| name.clone()));
        }
        names
    }

    /// The labels that occur again, at a place where messages begin.
    fn repeated(&self, least: Form) -> Names {
        let again = self
            .of
            .iter()
            .filter(|(_, of)| of.form >= least && of.is_again());
        let mut names: Names = again.map(|(name, _)| name.clone()).collect();
        let rare = self
            .of
            .iter()
            .filter(|(_, of)| of.form >= Form::Name && !of.is_again());
        let rare: Names = rare.map(|(name, _)| name.clone()).collect();
        for _ in 0..MOST_PASSES {
            let all: Names = names.union(&rare).cloned().collect();
            let before = names.len();
            names.retain(|name| {
                let of = self.of.get(name);
                of.is_some_and(|of| of.at.iter().any(|at| self.may_begin(*at, of, &all)))
            });
            if names.len() == before {
                break;
            }
        }
        names
    }

    /// In a chat with a model: whether a label is a person and not a part of the model's answer. A person
    /// has a role or speaks after the user.
    fn answers(&self, label: &Label<'_>) -> bool {
        let is_after = |at: &usize| self.after_user.get(*at) == Some(&true);
        label.form == Form::Person || label.at.iter().any(is_after)
    }

    /// Whether a message of a speaker who speaks again may begin at this line.
    fn may_begin(&self, at: usize, label: &Label<'_>, names: &Names) -> bool {
        match self.place(at, names) {
            Place::Paragraph => true,
            Place::BehindSpeaker | Place::Inside => !self.is_spaced || has_role(label.name),
            Place::BehindLabel | Place::Listed => {
                !self.is_spaced && is_sentence(self.spoken_text(at))
            }
        }
    }

    /// Adds the speakers with a single line.
    fn add_rare(&self, least: Form, names: &mut Names) {
        let is_short = self.is_short(names);
        let is_dialogue = self.is_dialogue(least);
        let is_with_model = is_with_model(names);
        let rare = self
            .of
            .iter()
            .filter(|(_, label)| !label.is_again() && label.form >= least);
        let mut rare: Vec<(&String, &Label<'_>)> = rare.collect();
        rare.sort_by_key(|(_, label)| label.at.first().copied());
        for (name, label) in rare {
            let at = label.at.first().copied().unwrap_or_default();
            let said = self.spoken_text(at);
            let is_person = label.form == Form::Person;
            if is_with_model && !self.answers(label) {
                continue;
            }
            let is_sentence = is_sentence(said);
            let is_free = !self.is_in_block(at, names) || is_sentence;
            let is_one = match self.place(at, names) {
                Place::Paragraph => is_person || is_dialogue && is_free,
                Place::BehindSpeaker => {
                    !self.is_spaced && (is_short || self.ends(at)) && (is_person || is_free)
                }
                Place::Inside | Place::BehindLabel => {
                    let is_one = is_person || is_sentence;
                    !self.is_spaced && is_short && self.ends(at) && is_one
                }
                Place::Listed => !self.is_spaced && is_short && self.ends(at) && is_person,
            };
            if is_one && !is_value(said) && (!said.is_empty() || self.is_empty(names)) {
                names.insert(name.clone());
            }
        }
    }

    /// Adds names in lower case that take turns with the others.
    fn add_lower(&self, names: &mut Names) {
        for (name, label) in &self.of {
            if label.form != Form::Lower || label.at.len() < LOWER_LINES {
                continue;
            }
            let is_turn = |at: &&usize| {
                let place = self.place(**at, names);
                let is_begun =
                    place == Place::Paragraph || place == Place::BehindSpeaker && !self.is_spaced;
                is_begun && self.ends(**at) && !is_value(self.spoken_text(**at))
            };
            if label.at.iter().filter(is_turn).count() * 4 >= label.at.len() * 3 {
                names.insert(name.clone());
            }
        }
    }

    /// For each line, whether it begins a message. Where empty lines separate messages, a list is a
    /// part of one.
    pub(super) fn starts(&self, names: &Names) -> Vec<bool> {
        let lines = self.lines.iter().zip(listed(self.lines));
        let is_start = |(line, is_listed): (&Line<'_>, bool)| {
            self.is_of(line, names) && !(self.is_spaced && is_listed)
        };
        lines.map(is_start).collect()
    }

    /// Labels that may have been misread, each with a reason.
    pub(super) fn doubts(&self, names: &Names) -> Vec<Problem<'t>> {
        let again = names.iter().filter_map(|name| self.of.get(name));
        let again = again.filter(|label| label.is_again()).count();
        let is_prose = self.is_prose(names);
        let mut doubts: Vec<(usize, Problem<'t>)> = Vec::new();
        for (key, label) in &self.of {
            let Some(&at) = label.at.first() else {
                continue;
            };
            let name = label.name;
            let times = match label.at.len() {
                1 => "once".to_owned(),
                times => format!("{times} times"),
            };
            let own = usize::from(label.is_again());
            let reason = match names.contains(key) {
                true if self.is_doubtful_speaker(label, names, is_prose && again - own > 1) => {
                    format!("`{name}:` occurs {times} and was read as a speaker")
                }
                false if self.is_doubtful_text(at, label, names) => {
                    format!("`{name}:` occurs {times} and was read as text, not as a speaker")
                }
                _ => continue,
            };
            let text = self.lines.get(at).map_or("", |line| line.text);
            doubts.push((at, Problem::new(text, reason)));
        }
        doubts.sort_by_key(|(at, _)| *at);
        let more = doubts.len().saturating_sub(WARNINGS);
        let mut doubts: Vec<Problem<'t>> = doubts.into_iter().map(|(_, doubt)| doubt).collect();
        doubts.truncate(WARNINGS);
        if let (Some(last), 1..) = (doubts.last_mut(), more) {
            let labels = if more == 1 { "label" } else { "labels" };
            last.reason
                .push_str(&format!("; {more} more {labels} are as unclear"));
        }
        doubts
    }

    /// Whether a label that was read as a speaker may be none: it has few lines and no sentence, and
    /// other speakers have sentences (`is_prose`); or it occurs once, and begins with a particle.
    fn is_doubtful_speaker(&self, label: &Label<'_>, names: &Names, is_prose: bool) -> bool {
        let is_value = |at: &usize| {
            let said = self.spoken_text(*at);
            !said.is_empty() && !is_sentence(said)
        };
        let is_inside = |at: &usize| {
            let place = self.place(*at, names);
            !matches!(place, Place::Paragraph | Place::BehindSpeaker)
        };
        let are_values = label.at.len() <= FEW_LINES && label.at.iter().all(is_value);
        let is_unusual = label.at.iter().all(is_inside) || has_leading_particle(label.name);
        let is_unusual = !label.is_again() && is_unusual;
        label.form < Form::Person && (is_unusual || is_prose && are_values)
    }

    fn is_doubtful_text(&self, at: usize, label: &Label<'_>, names: &Names) -> bool {
        let is_named = match label.form {
            Form::Usual => false,
            Form::Lower => label.at.len() >= LOWER_LINES,
            Form::Phrase => !label.name.contains(|c: char| c.is_ascii_digit()),
            Form::Name | Form::Person => true,
        };
        let is_begun = match self.place(at, names) {
            Place::Paragraph | Place::BehindSpeaker => true,
            Place::Inside | Place::BehindLabel | Place::Listed => {
                !self.is_spaced && self.ends(at) && !is_value(self.spoken_text(at))
            }
        };
        is_named && is_begun && !self.spoken_text(at).is_empty()
    }

    fn spoken_text(&self, at: usize) -> &'t str {
        self.lines.get(at).map_or("", Line::spoken_text)
    }

    fn is_of(&self, line: &Line<'_>, names: &Names) -> bool {
        line.name()
            .is_some_and(|name| names.contains(&name.to_lowercase()))
    }

    fn place(&self, at: usize, names: &Names) -> Place {
        let before = self.lines.get(..at).unwrap_or_default();
        let begins = self.lines.get(at).is_some_and(|line| line.begins);
        let Some(before) = before.iter().rev().find(|line| !line.is_blank()) else {
            return Place::Paragraph;
        };
        let is_named = self.is_of(before, names);
        let is_label = before.name().is_some() && !is_named;
        let is_heading = is_label && before.spoken_text().is_empty();
        match begins {
            _ if introduces(before) || is_heading => Place::Listed,
            true => Place::Paragraph,
            false if is_named => Place::BehindSpeaker,
            false if is_label => Place::BehindLabel,
            false => Place::Inside,
        }
    }

    fn next(&self, at: usize) -> Option<&Line<'t>> {
        self.lines.get(at + 1).filter(|line| !line.is_blank())
    }

    /// Whether the next line has a label, too, or there is none in the paragraph.
    fn ends(&self, at: usize) -> bool {
        self.next(at).is_none_or(|next| next.name().is_some())
    }

    /// Whether the next line has a label that is no known speaker, with a value.
    fn is_in_block(&self, at: usize, names: &Names) -> bool {
        let is_label = |line: &&Line<'_>| line.name().is_some() && !self.is_of(line, names);
        let next = self.next(at).filter(is_label);
        next.is_some_and(|next| !is_sentence(next.spoken_text()))
    }

    /// Whether most messages have one line.
    fn is_short(&self, names: &Names) -> bool {
        let lines = self.lines.iter().enumerate();
        let named = lines.filter(|(_, line)| self.is_of(line, names));
        let (mut all, mut short) = (0, 0);
        for (at, _) in named {
            all += 1;
            short += usize::from(self.ends(at));
        }
        short * 3 >= all * 2
    }

    /// Whether most lines of speakers are sentences.
    fn is_prose(&self, names: &Names) -> bool {
        let named = self.lines.iter().filter(|line| self.is_of(line, names));
        let (mut all, mut sentences) = (0, 0);
        for line in named {
            all += 1;
            sentences += usize::from(is_sentence(line.spoken_text()));
        }
        sentences * 2 >= all
    }

    /// Whether most speakers stand alone on a line, with their texts below.
    fn is_empty(&self, names: &Names) -> bool {
        let named = self.lines.iter().filter(|line| self.is_of(line, names));
        let (mut all, mut empty) = (0, 0);
        for line in named {
            all += 1;
            empty += usize::from(line.spoken_text().is_empty());
        }
        empty * 2 > all
    }

    /// Whether most paragraphs begin with a name. Headings, lists and usual labels do not matter.
    fn is_dialogue(&self, least: Form) -> bool {
        let (mut all, mut named) = (0, 0);
        for line in self.lines.iter().filter(|line| line.begins) {
            let label = line
                .name()
                .and_then(|name| self.of.get(&name.to_lowercase()));
            let form = label.map(|label| label.form);
            all += usize::from(form != Some(Form::Usual) && !line.is_structure());
            named += usize::from(form.is_some_and(|form| form >= least));
        }
        named * 3 >= all * 2
    }
}

/// Whether a line with a text ends with a colon.
fn introduces(line: &Line<'_>) -> bool {
    !line.in_code && line.spoken_text().ends_with([':', '：'])
}

/// For each line, whether its paragraph has a list before it: a line that ends with a colon, or a
/// usual label alone.
fn listed(lines: &[Line<'_>]) -> Vec<bool> {
    let mut in_list = false;
    let listed = lines.iter().map(|line| {
        in_list &= !line.begins;
        let is_listed = in_list;
        let is_usual = |name: &str| form_of(name) == Form::Usual;
        let is_heading = line.spoken_text().is_empty() && line.name().is_some_and(is_usual);
        in_list |= introduces(line) || is_heading;
        is_listed
    });
    listed.collect()
}

/// For each line, whether the last role before it is a model's user.
fn after_user(lines: &[Line<'_>]) -> Vec<bool> {
    let mut is_user = false;
    let after = lines.iter().map(|line| {
        let is_after = is_user;
        if let Some(name) = line.name().filter(|name| has_role(name)) {
            is_user = role_of(name).0 == Role::User;
        }
        is_after
    });
    after.collect()
}

/// Whether the conversation is one of a user and a model.
fn is_with_model(names: &Names) -> bool {
    let has = |wanted: Role| {
        names
            .iter()
            .any(|name| has_role(name) && role_of(name).0 == wanted)
    };
    has(Role::User) && has(Role::Assistant)
}

/// Whether empty lines separate messages: most lines of the labels that occur again are lines of
/// labels that nearly always begin a paragraph.
fn is_spaced(lines: &[Line<'_>], of: &BTreeMap<String, Label<'_>>) -> bool {
    let again = of
        .values()
        .filter(|of| of.form > Form::Lower && of.at.len() > 1);
    let listed = listed(lines);
    let (mut all, mut speakers, mut spaced) = (0, 0, 0);
    for label in again {
        let is_free = |at: &&usize| listed.get(**at) == Some(&false);
        let begins = |at: &&usize| lines.get(**at).is_some_and(|line| line.begins);
        let free = label.at.iter().filter(is_free);
        let (times, begun) = (free.clone().count(), free.filter(begins).count());
        all += times;
        if times > 0 && begun * 5 >= times * 4 {
            speakers += 1;
            spaced += times;
        }
    }
    speakers > 1 && spaced * 2 >= all
}

/// Whether a text is a sentence, and no value such as `Town hall`.
fn is_sentence(text: &str) -> bool {
    let words = text.split_whitespace().count();
    words > 3 || text.ends_with(['.', '!', '?', '…', '。', '！', '？', ')'])
}

/// Whether a text is a number, a date, an address, or the like.
fn is_value(text: &str) -> bool {
    let words = text.split_whitespace().count();
    let is_digit = |c: char| c.is_ascii_digit();
    let begins = text.starts_with(|c: char| is_digit(c) || "+#€$£[{<".contains(c));
    let inner = text.trim_end_matches(['.', '!', '?', '…']);
    let is_token = words == 1 && inner.contains(|c: char| is_digit(c) || "/@._=".contains(c));
    is_token || words <= 4 && begins || words <= 3 && text.contains(is_digit) && inner == text
}
