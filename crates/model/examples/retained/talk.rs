//! Long talks made of fragments, with what can be asked of them.
//!
//! A probe file has blocks: `= small` is chit-chat, `= event` says something that is asked for.
//! `A:` and `B:` are the speakers, `call NAME JSON` and `result TEXT` what a tool was asked and
//! answered, `? SUBJECT | WORDS` a question. `{slot}` draws from `words.txt` once for each event;
//! `@-2`, `@0`, `@last:friday` in a question stand for days that the talk names by their distance.

use std::collections::{BTreeMap, BTreeSet};

use jiff::ToSpan;
use jiff::civil::{Date, Weekday, date};
use unisono_context::{Ordinal, Part, Role, Timestamp};

/// A message of a talk.
pub(crate) struct Utterance {
    pub(crate) ordinal: Ordinal,
    pub(crate) role: Role,
    /// The speaker's name where the talk is one of people.
    pub(crate) name: Option<String>,
    pub(crate) day: Date,
    pub(crate) part: Part,
}

/// What is asked of a talk.
pub(crate) struct Question {
    /// What the answer is about.
    pub(crate) subject: String,
    /// The words of the answer.
    pub(crate) words: BTreeSet<String>,
    /// Where in the talk it is answered, from 0 to 1.
    pub(crate) place: f64,
}

pub(crate) struct Talk {
    pub(crate) utterances: Vec<Utterance>,
    pub(crate) questions: Vec<Question>,
}

/// A permutation and draws by xorshift (G. Marsaglia, 2003): the same for a seed for ever.
struct Draw(u64);

impl Draw {
    fn below(&mut self, n: usize) -> usize {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) as usize % n
    }
}

/// What is in a probe file.
#[derive(Default)]
struct Fragments<'a> {
    names: Vec<Vec<&'a str>>,
    repeat: usize,
    small: Vec<Vec<&'a str>>,
    events: Vec<Vec<&'a str>>,
}

impl<'a> Fragments<'a> {
    fn read(text: &'a str) -> Fragments<'a> {
        let mut found = Fragments {
            repeat: 1,
            ..Fragments::default()
        };
        let mut event = None;
        for line in text.lines().filter(|line| !line.is_empty()) {
            if let Some(names) = line.strip_prefix("names ") {
                let side = |side: &'a str| side.split_whitespace().collect();
                found.names = names.split('|').map(side).collect();
            } else if let Some(times) = line.strip_prefix("repeat ") {
                found.repeat = times.parse().unwrap_or(1);
            } else if let Some(block) = line.strip_prefix("= ") {
                event = Some(block == "event");
                let blocks = if block == "event" {
                    &mut found.events
                } else {
                    &mut found.small
                };
                blocks.push(Vec::new());
            } else {
                let blocks = match event {
                    Some(true) => found.events.last_mut(),
                    Some(false) => found.small.last_mut(),
                    None => None,
                };
                blocks.into_iter().for_each(|block| block.push(line));
            }
        }
        found
    }
}

/// The talk that a seed makes of a probe file. Days pass only between people.
pub(crate) fn talk(text: &str, words: &str, seed: u64) -> Talk {
    let fragments = Fragments::read(text);
    let mut draw = Draw(seed.wrapping_mul(0x9e37_79b9_7f4a_7c15) | 1);
    let people = fragments.names.len() == 2;
    let name = |side: usize| match fragments.names.get(side) {
        Some(names) if people => names[seed as usize % names.len()],
        _ => ["user", "assistant"][side],
    };
    let mut maker = ModelFactory {
        words: words
            .lines()
            .filter_map(|line| line.split_once(": "))
            .collect(),
        names: [name(0), name(1)],
        people,
        day: date(2023, 3, 7),
        talk: Talk {
            utterances: Vec::new(),
            questions: Vec::new(),
        },
        used: BTreeSet::new(),
    };
    let mut order: Vec<usize> = (0..fragments.events.len() * fragments.repeat).collect();
    for at in (1..order.len()).rev() {
        order.swap(at, draw.below(at + 1));
    }
    for (index, event) in order.iter().enumerate() {
        let days = if people { 4 + draw.below(15) } else { 1 };
        if index % 4 == 0 && (people || index % 12 == 0) {
            maker.day = maker.day.saturating_add((days as i64).days());
        }
        for _ in 0..1 + draw.below(3) {
            let small = &fragments.small[draw.below(fragments.small.len())];
            maker.add(small, &mut draw);
        }
        maker.add(&fragments.events[event % fragments.events.len()], &mut draw);
    }
    let all = maker.talk.utterances.len().max(1) as f64;
    let questions = maker.talk.questions.iter_mut();
    questions.for_each(|question| question.place /= all);
    maker.talk
}

struct ModelFactory<'a> {
    words: BTreeMap<&'a str, &'a str>,
    names: [&'a str; 2],
    people: bool,
    day: Date,
    talk: Talk,
    /// Drawn before in this talk: not drawn again while there are others.
    used: BTreeSet<String>,
}

impl ModelFactory<'_> {
    fn add(&mut self, block: &[&str], draw: &mut Draw) {
        let mut slots = BTreeMap::new();
        for line in block {
            let line = self.fill(line, &mut slots, draw);
            if let Some(question) = line.strip_prefix("? ") {
                self.ask(question);
                continue;
            }
            let (role, side, part) = if let Some(call) = line.strip_prefix("call ") {
                let (name, arguments) = call.split_once(' ').unwrap_or((call, "{}"));
                let part = Part::tool_call("c", name, arguments);
                (Role::Assistant, 1, part)
            } else if let Some(content) = line.strip_prefix("result ") {
                let part = Part::tool_result("c", content.replace("\\n", "\n"), false);
                (Role::Tool, 1, part)
            } else {
                let side = usize::from(line.starts_with('B'));
                let role = [Role::User, Role::Assistant][side];
                (role, side, Part::text(line.get(3..).unwrap_or_default()))
            };
            self.talk.utterances.push(Utterance {
                ordinal: Ordinal(self.talk.utterances.len() as u32 + 1),
                role,
                name: self.people.then(|| self.names[side].to_owned()),
                day: self.day,
                part,
            });
        }
    }

    fn ask(&mut self, question: &str) {
        let Some((subject, answer)) = question.split_once(" | ") else {
            return;
        };
        let subject = match subject {
            "A" => self.names[0],
            "B" => self.names[1],
            other => other,
        };
        let answer: Vec<String> = answer.split(' ').map(|word| self.day_of(word)).collect();
        self.talk.questions.push(Question {
            subject: subject.to_lowercase(),
            words: super::measure::words(&answer.join(" ")).collect(),
            place: self.talk.utterances.len() as f64,
        });
    }

    /// `@-1` as a day; other words stay.
    fn day_of(&self, word: &str) -> String {
        let Some(distance) = word.strip_prefix('@') else {
            return word.to_owned();
        };
        let day = match distance.strip_prefix("last:") {
            Some(name) => {
                let wanted = match name {
                    "saturday" => Weekday::Saturday,
                    "sunday" => Weekday::Sunday,
                    "monday" => Weekday::Monday,
                    "wednesday" => Weekday::Wednesday,
                    _ => Weekday::Friday,
                };
                self.day.nth_weekday(-1, wanted).unwrap_or(self.day)
            }
            None => {
                let days: i64 = distance.parse().unwrap_or(0);
                self.day.saturating_add(days.days())
            }
        };
        day.strftime("%-d %B %Y").to_string()
    }

    fn fill(
        &mut self,
        line: &str,
        slots: &mut BTreeMap<String, String>,
        draw: &mut Draw,
    ) -> String {
        let mut out = String::new();
        let mut rest = line;
        while let Some(open) = rest.find('{') {
            let (before, after) = rest.split_at(open);
            out.push_str(before);
            let end = after.find('}').unwrap_or(after.len() - 1);
            let slot = &after[1..end];
            if slot.is_empty()
                || !slot
                    .bytes()
                    .all(|b| b.is_ascii_lowercase() || b.is_ascii_digit())
            {
                out.push('{');
                rest = &after[1..];
                continue;
            }
            if !slots.contains_key(slot) {
                let value = self.value(slot, draw);
                slots.insert(slot.to_owned(), value);
            }
            out.push_str(&slots[slot]);
            rest = &after[end + 1..];
        }
        out.push_str(rest);
        out
    }

    fn value(&mut self, slot: &str, draw: &mut Draw) -> String {
        let kind = slot.trim_end_matches(|c: char| c.is_ascii_digit());
        let hex = |draw: &mut Draw| format!("{:07x}", 0x0a0_0000 + draw.below(0x0fff_ffff));
        match kind {
            "a" => return self.names[0].to_owned(),
            "b" => return self.names[1].to_owned(),
            "num" => return (1_000 + draw.below(8_999)).to_string(),
            "hex" => return hex(draw),
            "md" => return format!("{:02}-{:02}", 1 + draw.below(12), 1 + draw.below(28)),
            "date" => return format!("2023-{:02}-{:02}", 6 + draw.below(7), 1 + draw.below(28)),
            "code" => return format!("{:X}Q{:02}", 0xa00 + draw.below(0x5ff), draw.below(99)),
            _ => {}
        }
        let all = self.words.get(kind).copied().unwrap_or(kind);
        let all: Vec<&str> = all.split(", ").collect();
        let mut value = all[draw.below(all.len())];
        for _ in 0..20 {
            if !self.used.contains(value) {
                break;
            }
            value = all[draw.below(all.len())];
        }
        self.used.insert(value.to_owned());
        value.to_owned()
    }
}

pub(crate) fn noon(day: Date) -> Timestamp {
    let noon = day.at(12, 0, 0, 0).to_zoned(jiff::tz::TimeZone::UTC);
    Timestamp(noon.map_or(0, |noon| noon.timestamp().as_millisecond()))
}
