//! How much of what answers a question is found, for questions with and without days.
//!
//! The talks are synthetic: each day has small talk that repeats and a few facts, and some messages
//! name other days. The floors are below the measured shares; `--nocapture` prints them.

use jiff::civil::{Date, date};
use jiff::{ToSpan, tz::TimeZone};
use unisono_context::Timestamp;
use unisono_search::Query;

use crate::support::{Said, searched};

/// The numbers of results that are measured.
const AMONG: [usize; 4] = [5, 8, 10, 20];

/// A question with the numbers of the messages that answer it.
struct Asked {
    text: String,
    evidence: Vec<usize>,
    has_day: bool,
}

struct Talk {
    name: &'static str,
    said: Vec<Said>,
    asked: Vec<Asked>,
    day: Date,
    small_talk: &'static [&'static str],
    speakers: [&'static str; 2],
}

impl Talk {
    fn new(
        name: &'static str,
        small_talk: &'static [&'static str],
        speakers: [&'static str; 2],
    ) -> Talk {
        let day = date(2024, 4, 8);
        let (said, asked) = (Vec::new(), Vec::new());
        Talk {
            name,
            said,
            asked,
            day,
            small_talk,
            speakers,
        }
    }

    /// Appends a message of the present day; gives its number.
    fn say(&mut self, text: impl Into<String>) -> usize {
        let n = self.said.len();
        let start = self.day.to_zoned(TimeZone::UTC).unwrap().timestamp();
        let minutes = 8 * 60 + n as i64 * 7 % 600;
        let at = Timestamp(start.as_millisecond() + minutes * 60_000 + n as i64);
        self.said.push(Said {
            at,
            author: Some(self.speakers[n % 2]),
            ..Said::new(n, text)
        });
        n
    }

    /// Appends small talk: the same sentences in another order each time.
    fn chat(&mut self, messages: usize) {
        for _ in 0..messages {
            let n = self.said.len();
            let one = self.small_talk[n * 7 % self.small_talk.len()];
            let other = self.small_talk[(n * n + 3) % self.small_talk.len()];
            self.say(format!("{one} {other}"));
        }
    }

    fn next_day(&mut self) {
        self.day = self.day.tomorrow().unwrap();
    }

    fn ask(&mut self, text: impl Into<String>, evidence: &[usize], has_day: bool) {
        self.asked.push(Asked {
            text: text.into(),
            evidence: evidence.to_vec(),
            has_day,
        });
    }
}

fn english(day: Date) -> String {
    day.strftime("%-d %B").to_string()
}

const MONTHS: [&str; 6] = ["Januar", "Februar", "März", "April", "Mai", "Juni"];

fn german(day: Date) -> String {
    format!("{}. {}", day.day(), MONTHS[day.month() as usize - 1])
}

const FRIENDS: &[&str] = &[
    "How was your day? Mine was long.",
    "I made soup, you may like it.",
    "We decided nothing about dinner yet.",
    "Call me on 3 if the line is bad.",
    "The cat slept on my desk for 8 hours.",
    "I am happy that it is sunny.",
    "Let us decide what to do at the weekend.",
    "I was sad about the news, and then I felt better.",
    "Mara called and told me about her garden.",
    "Did you sleep? I went for a walk.",
    "It may rain, we met under the bridge.",
    "Work is busy, on Friday as always.",
];

/// Two people over seven weeks.
fn friends() -> Talk {
    let mut talk = Talk::new("two people", FRIENDS, ["Ines", "Tom"]);
    let things = [
        ("the colour of the kitchen", "green", "kitchen"),
        ("the name of the boat", "Pelican", "boat"),
        ("the place for the party", "the old mill", "party"),
        ("the present for Mara", "a telescope", "present"),
        ("the flat", "the one with the balcony", "flat"),
        ("the train to Porto", "the one at 9:40", "train"),
        ("the doctor for Tom's knee", "Dr. Silva", "doctor"),
    ];
    for (week, (what, choice, word)) in things.into_iter().enumerate() {
        for weekday in 0..7 {
            talk.chat(5);
            let day = talk.day;
            match weekday {
                1 => {
                    let one = talk.say(format!("So, {what}: what do we take?"));
                    let two = talk.say(format!("I say {choice}, that is settled then."));
                    let (both, on) = ([one, two], english(day));
                    talk.ask(format!("What did we decide on {on}?"), &both, true);
                    talk.ask(format!("What did we choose for the {word}?"), &both, false);
                }
                3 => {
                    let km = 5 + week;
                    let fact = talk.say(format!("Yesterday I ran {km} km along the river."));
                    let before = english(day.yesterday().unwrap());
                    talk.ask(format!("How far did Tom run on {before}?"), &[fact], true);
                }
                4 => {
                    let fact = talk.say(format!("I felt so lonely when {word} came up, honestly."));
                    let on = day.strftime("%B %-d, %Y");
                    talk.ask(format!("How did I feel on {on}?"), &[fact], true);
                    talk.ask(format!("What made me lonely about {word}?"), &[fact], false);
                }
                6 => {
                    let then = english(day.checked_sub(5.days()).unwrap());
                    let later = talk.say(format!("On {then} you were quick about {what}."));
                    talk.ask(
                        format!("What did you say about {word} and how it went on {then}?"),
                        &[later],
                        true,
                    );
                }
                _ => {}
            }
            talk.chat(4);
            talk.next_day();
        }
    }
    // Relative to the newest message, of Sunday 26 May.
    let of = |talk: &Talk, text: &str, day: Date| {
        let start = day.to_zoned(TimeZone::UTC).unwrap().timestamp();
        let day = start.as_millisecond()..start.as_millisecond() + 86_400_000;
        let mut said = talk.said.iter();
        let found = said.find(|said| day.contains(&said.at.0) && said.text.contains(text));
        found.unwrap().n
    };
    let settled = of(&talk, "is settled", date(2024, 5, 21));
    for text in [
        "What did we settle on Tuesday?",
        "What did we choose last Tuesday?",
        "What did we decide between 20 and 22 May?",
        "What did we decide from Monday to Wednesday?",
        "Which doctor was it, five days ago?",
    ] {
        talk.ask(text, &[settled], true);
    }
    let april = of(&talk, "is settled", date(2024, 4, 9));
    talk.ask("What was settled in April for the kitchen?", &[april], true);
    let other = of(&talk, "is settled", date(2024, 4, 16));
    // The day is wrong: the words have to find it all the same.
    talk.ask(
        "What did I say on 18 April, is the Pelican the boat's name?",
        &[other],
        true,
    );
    talk
}

const DESK: &[&str] = &[
    "Thank you for your patience, I am looking into it.",
    "The order is still in the warehouse.",
    "Can you tell me the number of the order, please?",
    "I will pass it on to the team for refunds.",
    "It has been 3 days, when may I expect an answer?",
    "The parcel service has no update.",
    "I have attached the invoice once more.",
    "We opened a ticket for you.",
    "The refund was booked, it takes 5 days.",
    "I am not happy with this at all.",
    "Is there another address for the delivery?",
];

/// Support over four weeks.
fn desk() -> Talk {
    let mut talk = Talk::new("support", DESK, ["Dana Reyes", "Support"]);
    for n in 0..28_usize {
        talk.chat(6);
        let day = talk.day;
        if n % 3 == 0 {
            let order = format!("ORD-{}", 10_293 + n * 17);
            let one = talk.say(format!(
                "My order {order} arrived broken, I want it replaced."
            ));
            let two = talk.say(format!("We refund €{}.50 for it to your card.", 40 + n));
            let on = english(day);
            talk.ask(format!("Which refund was promised on {on}?"), &[two], true);
            talk.ask(format!("What arrived broken on {day}?"), &[one, two], true);
            talk.ask(format!("What about {order}?"), &[one, two], false);
        } else if n % 5 == 1 {
            let when = english(day.checked_add(3.days()).unwrap());
            let one = talk.say(format!("The driver comes on {when} at noon."));
            talk.ask(
                format!("When does the driver come on {when}?"),
                &[one],
                true,
            );
        }
        talk.chat(5);
        talk.next_day();
    }
    talk
}

const CODE: &[&str] = &[
    "I ran the tests; all 3 suites pass.",
    "The build fails in src/main.rs:8, let me look.",
    "Refactored the parser into smaller functions.",
    "[tool] cargo test: ok. 120 passed; 0 failed",
    "Please add a test for the empty input.",
    "The cache may be stale, clear it first.",
    "Pushed the commit and opened a pull request.",
    "We should march through the list of warnings.",
    "The review has 4 comments, two are minor.",
    "The benchmark is slower on Friday's machine.",
];

/// Work on code over three weeks.
fn code() -> Talk {
    let mut talk = Talk::new("code", CODE, ["dev", "agent"]);
    let bugs = [
        ("deadlock", "pool.rs:120", "the lock is taken twice"),
        ("overflow", "ledger.rs:77", "the sum is a u32"),
        ("leak", "watch_dir.rs:41", "handles are never closed"),
        ("panic", "parse_date.rs:9", "an index is off by one"),
        ("timeout", "retry.rs:300", "the pause doubles for ever"),
        ("race", "store.rs:18", "two writers share a file"),
        ("regression", "query.rs:55", "the index is not used"),
    ];
    for n in 0..21_usize {
        talk.chat(7);
        let day = talk.day;
        if n % 3 == 1 {
            let (bug, place, cause) = bugs[n / 3];
            let one = talk.say(format!("Found the {bug} in {place}: {cause}."));
            let two = talk.say("Fixed it, and the release has it.");
            let fixed = day.strftime("%Y-%m-%d");
            talk.ask(format!("What was fixed on {fixed}?"), &[one, two], true);
            let on = english(day);
            talk.ask(format!("What did we find on {on}?"), &[one], true);
            talk.ask(format!("What was the cause of the {bug}?"), &[one], false);
            talk.ask(format!("What is wrong in {place}?"), &[one], false);
        }
        talk.chat(6);
        talk.next_day();
    }
    talk
}

const FREUNDE: &[&str] = &[
    "Wie war dein Tag? Meiner war lang.",
    "Wir haben noch nichts entschieden.",
    "Ich habe Suppe gekocht, die magst du.",
    "Die Katze hat 3 Stunden geschlafen.",
    "Ich bin froh, dass die Sonne scheint.",
    "Was machen wir am Wochenende?",
    "Mara hat angerufen und vom Garten erzählt.",
    "Mir ging es nicht gut, jetzt ist es besser.",
    "Im Büro ist viel los, am Freitag wie immer.",
    "Hast du geschlafen? Ich war spazieren.",
];

/// Two people over five weeks, in German.
fn freunde() -> Talk {
    let mut talk = Talk::new("zwei Leute", FREUNDE, ["Ines", "Jörg"]);
    let things = [
        ("die Farbe der Küche", "grün", "Küche"),
        ("der Name des Boots", "Pelikan", "Boots"),
        ("der Ort für das Fest", "die alte Mühle", "Fest"),
        ("das Geschenk für Mara", "ein Fernrohr", "Geschenk"),
        ("die Straße zur Schule", "die kurze", "Straße"),
    ];
    for (what, choice, word) in things {
        for weekday in 0..7 {
            talk.chat(5);
            let day = talk.day;
            if weekday == 2 {
                let one = talk.say(format!("Also, {what}: was nehmen wir?"));
                let two = talk.say(format!("Ich sage {choice}, dabei bleibt es."));
                let dotted = day.strftime("%d.%m.%Y");
                let (both, on) = ([one, two], german(day));
                talk.ask(format!("Was haben wir am {on} beschlossen?"), &both, true);
                talk.ask(format!("Was war am {dotted}?"), &both, true);
                talk.ask(format!("Was nehmen wir für {word}?"), &both, false);
            } else if weekday == 4 {
                let one = talk.say("Gestern war ich traurig wegen der Prüfung.");
                let before = german(day.yesterday().unwrap());
                talk.ask(format!("Warum war ich am {before} traurig?"), &[one], true);
            }
            talk.chat(4);
            talk.next_day();
        }
    }
    let last = talk
        .said
        .iter()
        .rfind(|said| said.text.contains("dabei bleibt"));
    let last = last.unwrap().n;
    for text in [
        "Was haben wir am Mittwoch entschieden?",
        "Was haben wir letzten Mittwoch genommen?",
        "Was haben wir zwischen dem 7. und 9. Mai genommen?",
        "Was war von Dienstag bis Mittwoch?",
        "Was nahmen wir vor vier Tagen?",
    ] {
        talk.ask(text, &[last], true);
    }
    talk
}

/// Of the questions with or without days, the share of which any and all evidence is among so many.
fn shares(talk: &Talk, found: &[Vec<usize>], has_day: bool) -> Vec<(f64, f64)> {
    let asked = talk.asked.iter().zip(found);
    let asked: Vec<_> = asked
        .filter(|(asked, _)| asked.has_day == has_day)
        .collect();
    let share = |met: usize| met as f64 / asked.len().max(1) as f64;
    let among = AMONG.iter().map(|k| {
        let first = |found: &[usize]| found[..found.len().min(*k)].to_vec();
        let any = asked
            .iter()
            .filter(|(asked, found)| asked.evidence.iter().any(|n| first(found).contains(n)));
        let all = asked
            .iter()
            .filter(|(asked, found)| asked.evidence.iter().all(|n| first(found).contains(n)));
        (share(any.count()), share(all.count()))
    });
    among.collect()
}

/// What agents and people find for each question.
fn ask(talk: &Talk) -> [Vec<Vec<usize>>; 2] {
    let runtime = tokio::runtime::Runtime::new().unwrap();
    runtime.block_on(async {
        let (search, branch) = searched(&talk.said).await;
        let now = talk.said[talk.said.len() - 1].at;
        let (mut agents, mut people) = (Vec::new(), Vec::new());
        for asked in &talk.asked {
            let recalled = search.recall(&branch, &asked.text, 20).await.unwrap();
            agents.push(recalled.messages.iter().map(|n| n.0 as usize - 1).collect());
            let query = Query::parse(&asked.text, now).unwrap();
            let answer = search.find(&query, &[], 20).await.unwrap();
            let found = answer
                .found
                .iter()
                .map(|found| found.ordinal.0 as usize - 1);
            people.push(found.collect());
        }
        [agents, people]
    })
}

/// The shares that are found at least: of any evidence among 5, and of all of it among 10 and 20.
fn floors(who: &str, has_day: bool) -> [f64; 3] {
    match (who, has_day) {
        ("agents", false) => [0.99, 0.99, 0.99],
        ("agents", true) => [0.5, 0.94, 0.99],
        (_, false) => [0.99, 0.0, 0.0],
        (_, true) => [0.28, 0.8, 0.92],
    }
}

#[test]
fn what_answers_a_question_is_among_the_first() {
    for talk in [friends(), desk(), code(), freunde()] {
        for (who, found) in ["agents", "people"].iter().zip(&ask(&talk)) {
            for has_day in [false, true] {
                let shares = shares(&talk, found, has_day);
                let figures = shares.iter().zip(AMONG);
                let figures = figures.map(|((any, all), k)| format!("@{k} {any:.2}/{all:.2}"));
                let figures = figures.collect::<Vec<_>>().join("  ");
                let figures = format!("{}, {who}, days: {has_day}: {figures}", talk.name);
                println!("{figures}");
                let [any, all, all_of_20] = floors(who, has_day);
                assert!(shares[0].0 >= any, "{figures}");
                assert!(shares[2].1 >= all && shares[3].1 >= all_of_20, "{figures}");
            }
        }
    }
}
