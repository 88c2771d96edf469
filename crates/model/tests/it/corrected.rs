//! Tests that a summary does not keep an outdated statement without the one that corrects it.

use unisono_context::checkpoint::KeyFact;
use unisono_context::{Ordinal, Role, Timestamp, Tokens};
use unisono_model::extractive::{Passage, SummaryInput, SummaryLayout, summarise};

use crate::rolling::{self, DAY, START, count};

/// A statement, its correction, and the words of each that the other does not have.
const ROWS: [[&str; 4]; 10] = [
    [
        "The premiere is on 14 November in the Schauspielhaus, tickets cost 18 euros.",
        "The premiere moved to 21 November.",
        "14 November",
        "21 November",
    ],
    [
        "Hotel Sonne costs 480 euros for the two nights in Bregenz, with breakfast.",
        "Hotel Sonne wants 520 euros now, they say.",
        "480 euros",
        "520 euros",
    ],
    [
        "Die Generalprobe ist am 3. Mai um 19:30 Uhr im Stadttheater Konstanz.",
        "Die Generalprobe wird auf den 5. Mai verlegt.",
        "3. Mai",
        "5. Mai",
    ],
    [
        "Die Gärtnerei Blume nimmt 1200 Euro für Sträuße und Tischdeko im Festsaal.",
        "Gärtnerei Blume nimmt jetzt doch 1450 Euro.",
        "1200 Euro",
        "1450 Euro",
    ],
    [
        "The barn near Kressbronn has room for 120 guests and a stage for the band.",
        "The barn near Kressbronn has room for 95 guests.",
        "120 guests",
        "95 guests",
    ],
    [
        "The invoice of Feldkamp for pump P-17 is open since the middle of February.",
        "The invoice of Feldkamp for pump P-17 is paid.",
        "is open",
        "is paid",
    ],
    [
        "Lena takes the photos at the registry office and at the dinner in Lindau.",
        "Actually Kai takes the photos, she is ill.",
        "Lena takes",
        "Kai takes",
    ],
    [
        "The bus to the airport leaves at 10:15 from the north gate of the station.",
        "Correction: the bus to the airport leaves at 9:40.",
        "at 10:15",
        "at 9:40",
    ],
    [
        "Unser Notartermin für das Grundstück ist am Dienstag um 11 Uhr in Tettnang.",
        "Der Notartermin ist doch erst am Freitag.",
        "Dienstag",
        "Freitag",
    ],
    [
        "We rent a van with 9 seats from Kestrel for the weekend in Graubünden.",
        "Kestrel has no van left, we rent 2 cars instead.",
        "van with 9",
        "2 cars",
    ],
];
/// Of other subjects, with names and numbers of their own.
const OTHERS: [&str; 10] = [
    "The library in {} lends {} comics a week.",
    "I ran {1} kilometres along the river in {}.",
    "My aunt in {} has {1} hens and a goat.",
    "We decided to paint the fence of the school in {}, it needs {1} litres.",
    "haha yes, see you later!",
    "Der Zug nach {} hatte {1} Minuten Verspätung.",
    "The museum in {} shows {1} clocks from the east.",
    "I found a scarf of {1} colours at the market in {}.",
    "Der Chor in {} hat {1} Stimmen und probt gern laut.",
    "thanks, that is so kind of you!",
];
const PLACES: [&str; 12] = [
    "Bergen", "Quito", "Verona", "Ghent", "Tallinn", "Kyoto", "Lisbon", "Dublin", "Turku", "Graz",
    "Porto", "Aarhus",
];

/// A conversation with all statements in its first half and all corrections in its second half.
fn conversation() -> Vec<String> {
    let mut texts = Vec::new();
    let other = |n: usize| {
        let text = OTHERS[n % OTHERS.len()];
        let place = PLACES[n * 7 % PLACES.len()];
        let text = text.replacen("{}", place, 1);
        let number = (13 + n * 37 % 80).to_string();
        text.replace("{1}", &number).replace("{}", &number)
    };
    for half in 0..2 {
        for (n, row) in ROWS.iter().enumerate() {
            let at = (half * ROWS.len() + n) * 3;
            texts.extend((at..at + 3).map(other));
            texts.push(row[half].to_owned());
        }
    }
    texts
}

fn summary(texts: &[String], first: u32, prior: Option<&str>, cap: u64) -> String {
    let said = |(n, text): (u32, &String)| {
        let at = Timestamp(START + i64::from(n) / 4 * DAY);
        let mut passage = Passage::text(Ordinal(n), Role::User, at, text.clone());
        passage.author = Some(["Ana", "Ben"][n as usize % 2].into());
        passage
    };
    let passages: Vec<Passage<'_>> = (first..).zip(texts).map(said).collect();
    rolling::summary(&passages, prior, cap)
}

/// The rows whose statement is in a text without its correction, and those with the correction.
fn shares(text: &str) -> (Vec<&'static str>, usize) {
    let (mut outdated, mut corrected) = (Vec::new(), 0);
    for [_, _, old, new] in ROWS {
        corrected += usize::from(text.contains(new));
        if text.contains(old) && !text.contains(new) {
            outdated.push(old);
        }
    }
    (outdated, corrected)
}

#[test]
fn an_outdated_statement_is_not_kept_without_its_correction() {
    let texts = conversation();
    let size: u64 = texts.iter().map(|text| count(text)).sum();
    let mut all = 0;
    for part in [10, 8, 6, 5, 4, 3, 2] {
        let text = summary(&texts, 1, None, size / part);
        let (outdated, corrected) = shares(&text);
        assert_eq!(outdated, [""; 0], "1/{part}: {text}");
        all += corrected;
    }
    assert!(all >= 20, "{all}");
}

#[test]
fn a_later_summary_keeps_the_corrections_of_what_an_earlier_one_quotes() {
    let texts = conversation();
    let size: u64 = texts.iter().map(|text| count(text)).sum();
    let (before, after) = texts.split_at(texts.len() / 2);
    for part in [8, 5, 3] {
        let cap = size / part;
        let earlier = summary(before, 1, None, cap);
        let later = summary(after, before.len() as u32 + 1, Some(&earlier), cap);
        assert_eq!(shares(&later).0, [""; 0], "1/{part}: {later}");
    }
}

#[test]
fn the_correction_has_its_message_and_its_day() {
    let texts = conversation();
    let size: u64 = texts.iter().map(|text| count(text)).sum();
    let text = summary(&texts, 1, None, size / 2);
    let number = texts.iter().position(|text| text == ROWS[0][1]);
    let quote = format!("#{} {}", number.unwrap_or_default() + 1, ROWS[0][1]);
    let before = text.split(&quote).next().unwrap_or_default();
    assert!(
        text.contains(&quote) && before.contains("January"),
        "{text}"
    );
}

#[test]
fn a_denied_day_and_a_chain_of_changes_keep_the_newest_statement() {
    let chains: [(&[&str], &[&str], &str); 2] = [
        (
            &[
                "We thought 4 May for the wedding in Ghent, with 120 guests and a band.",
                "Small change: the wedding is on 11 May, not 4 May.",
            ],
            &["thought 4 May"],
            "on 11 May",
        ),
        (
            &[
                "The premiere is on 14 November, said Marta in the Schauspielhaus.",
                "The premiere moved to 21 November.",
                "The premiere is on 28 November now.",
            ],
            &["14 November", "21 November"],
            "28 November",
        ),
    ];
    for (chain, old, new) in chains {
        let others = ["I sold 13 comics in Quito.", "haha yes, see you later!"];
        let texts: Vec<String> = chain
            .iter()
            .flat_map(|text| [*text].into_iter().chain(others))
            .map(str::to_owned)
            .collect();
        for cap in 20..90 {
            let text = summary(&texts, 1, None, cap);
            let is_outdated = old.iter().any(|old| text.contains(old));
            assert!(!is_outdated || text.contains(new), "{cap}: {text}");
        }
    }
}

#[test]
fn a_key_fact_is_none_any_more_after_its_correction() {
    let said = [
        "The ramp at the harbour must be ready by 4 May.",
        "The tea is cold again, what a pity.",
        "The ramp moves to 11 May.",
    ];
    let passage = |(n, text): (u32, &'static str)| {
        Passage::text(Ordinal(n), Role::User, Timestamp(START), text)
    };
    let passages: Vec<Passage<'_>> = (1..).zip(said).map(passage).collect();
    let facts = |passages: &[Passage<'_>], prior: &[KeyFact]| {
        let input = SummaryInput {
            prior_facts: prior,
            ..SummaryInput::new(passages, Tokens(200), &count)
        };
        summarise(&input).key_facts
    };
    let has_first = |facts: &[KeyFact]| facts.iter().any(|fact| &*fact.text == said[0]);
    let first = facts(&passages[..2], &[]);
    assert!(has_first(&first), "{first:?}");
    let later = facts(&passages, &first);
    assert!(!has_first(&later), "{later:?}");
}

/// The people whom one person meets, on days that change.
const MET: [&str; 5] = [
    "Priya Ramanathan",
    "Tom Rivera",
    "Jonas Weber",
    "Ada Lovelace",
    "Keiko Mori",
];
/// Of a place and a thing.
const STORIES: [&str; 5] = [
    "The library near {} lends a {} and keeps its garden free of cars in the summer.",
    "I ran along the river near {} and then we had {} with bread from the bakery.",
    "My aunt near {} has hens and a {}, she feeds them before breakfast.",
    "The museum near {} shows a {} from the east, and most of the clocks still work.",
    "We painted the fence near {} with a {} that nobody else wanted.",
];

/// Sixty messages or a few fewer, and the statements about each meeting, oldest first.
fn meetings(days: usize, place: &str) -> (Vec<String>, Vec<Vec<String>>) {
    let mut seed = 7_u64;
    let mut word = || -> String {
        let letter = |letters: &str| {
            seed = seed.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
            char::from(letters.as_bytes()[(seed >> 33) as usize % letters.len()])
        };
        let letters = ["bdfgklmnprst", "aeiou", "dglmnrst", "aeiou", "lnrst"];
        letters.map(letter).into_iter().collect()
    };
    let mut story = |n: usize| {
        let town = word();
        let town = format!("{}{}", town[..1].to_uppercase(), &town[1..]);
        let text = STORIES[n % STORIES.len()].replacen("{}", &town, 1);
        text.replacen("{}", &word(), 1)
    };
    let (mut texts, mut chains) = (Vec::new(), vec![Vec::new(); MET.len()]);
    for day in 0..days {
        for n in 0..MET.len() {
            for message in 1..60 / (days * MET.len()) {
                let sentences: Vec<String> = (0..24).map(|at| story(n + message + at)).collect();
                texts.push(sentences.join(" "));
            }
            let person = (2 * n + day) % MET.len();
            let (name, date) = (MET[person], 1 + 5 * day + n);
            let said = match day {
                0 => format!("The meeting with {name}{place} is on {date} April."),
                _ => format!("Moved: the meeting with {name}{place} is now on {date} April."),
            };
            chains[person].push(said.clone());
            texts.push(said);
        }
    }
    (texts, chains)
}

fn laid_out(
    texts: &[String],
    first: u32,
    prior: Option<&str>,
    cap: u64,
    layout: SummaryLayout,
) -> String {
    let said = |(n, text): (u32, &String)| {
        let at = Timestamp(START + i64::from(n) / 4 * DAY);
        Passage::text(Ordinal(n), Role::User, at, text.clone())
    };
    let passages: Vec<Passage<'_>> = (first..).zip(texts).map(said).collect();
    let input = SummaryInput {
        prior,
        layout,
        ..SummaryInput::new(&passages, Tokens(cap), &count)
    };
    summarise(&input).text
}

#[test]
fn no_statement_of_a_chain_is_kept_without_the_newest_one() {
    let mut kept = 0;
    for (days, place) in [(3, ""), (5, ""), (3, " in Bergen"), (5, " in Bergen")] {
        let (texts, chains) = meetings(days, place);
        let size: u64 = texts.iter().map(|text| count(text)).sum();
        let (before, after) = texts.split_at(texts.len() / 2);
        let new = before.len() as u32 + 1;
        for part in [10, 8, 5, 3] {
            for layout in [SummaryLayout::Rolling, SummaryLayout::Paragraph] {
                let cap = size / part;
                let earlier = laid_out(before, 1, None, cap, layout);
                let summaries = [
                    laid_out(&texts, 1, None, cap, layout),
                    laid_out(after, new, Some(&earlier), cap, layout),
                ];
                for text in summaries {
                    let has = |said: &&String| text.contains(said.as_str());
                    for chain in &chains {
                        let is_kept = chain.iter().any(|said| has(&said));
                        let newest = chain.last().filter(has);
                        assert!(!is_kept || newest.is_some(), "1/{part}: {chain:?}\n{text}");
                        kept += usize::from(newest.is_some());
                    }
                }
            }
        }
    }
    assert!(kept >= 64, "{kept}");
}
