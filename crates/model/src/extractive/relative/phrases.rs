//! The phrases of each language, with the distance that they name.

use std::sync::OnceLock;

use jiff::civil::Weekday::{self, Friday, Monday, Saturday, Sunday, Thursday, Tuesday, Wednesday};

use super::Distance;
use crate::extractive::matcher::Phrases;

/// The largest number of days in digits.
const MOST_DAYS: i64 = 99;

struct Language {
    weekdays: [(&'static str, Weekday); 7],
    /// The words before a weekday that name the one before the date, of its week, and after it.
    last: &'static str,
    this: &'static str,
    next: &'static str,
    /// The numbers from two to ten.
    numbers: [&'static str; 9],
    /// Phrases of so many days and weeks, with `{}` for the number.
    days_ago: &'static str,
    weeks_ago: &'static str,
    others: &'static [(&'static str, Distance)],
}

const ENGLISH: Language = Language {
    weekdays: [
        ("monday", Monday),
        ("tuesday", Tuesday),
        ("wednesday", Wednesday),
        ("thursday", Thursday),
        ("friday", Friday),
        ("saturday", Saturday),
        ("sunday", Sunday),
    ],
    last: "last",
    this: "this",
    next: "next",
    numbers: [
        "two", "three", "four", "five", "six", "seven", "eight", "nine", "ten",
    ],
    days_ago: "{} days ago",
    weeks_ago: "{} weeks ago",
    others: &[
        ("yesterday", Distance::Days(-1)),
        ("last night", Distance::Days(-1)),
        ("the day before yesterday", Distance::Days(-2)),
        ("day before yesterday", Distance::Days(-2)),
        ("tomorrow", Distance::Days(1)),
        ("the day after tomorrow", Distance::Days(2)),
        ("day after tomorrow", Distance::Days(2)),
        ("a week ago", Distance::Days(-7)),
        ("last weekend", Distance::WeekendBefore),
        ("last month", Distance::Months(-1)),
        ("next month", Distance::Months(1)),
        ("last year", Distance::Years(-1)),
        ("next year", Distance::Years(1)),
    ],
};

const GERMAN: Language = Language {
    weekdays: [
        ("montag", Monday),
        ("dienstag", Tuesday),
        ("mittwoch", Wednesday),
        ("donnerstag", Thursday),
        ("freitag", Friday),
        ("samstag", Saturday),
        ("sonntag", Sunday),
    ],
    last: "letzten",
    this: "diesen",
    next: "nächsten",
    numbers: [
        "zwei", "drei", "vier", "fünf", "sechs", "sieben", "acht", "neun", "zehn",
    ],
    days_ago: "vor {} tagen",
    weeks_ago: "vor {} wochen",
    others: &[
        ("gestern", Distance::Days(-1)),
        ("letzte nacht", Distance::Days(-1)),
        ("vorgestern", Distance::Days(-2)),
        ("morgen", Distance::Days(1)),
        ("übermorgen", Distance::Days(2)),
        // The search ignores the case of ASCII letters only.
        ("Übermorgen", Distance::Days(2)),
        ("vor einer woche", Distance::Days(-7)),
        ("letztes wochenende", Distance::WeekendBefore),
        ("letzten monat", Distance::Months(-1)),
        ("nächsten monat", Distance::Months(1)),
        ("letztes jahr", Distance::Years(-1)),
        ("nächstes jahr", Distance::Years(1)),
    ],
};

impl Language {
    fn phrases(&self) -> Vec<(String, Distance)> {
        let others = self.others.iter();
        let mut all: Vec<_> = others
            .map(|(text, distance)| ((*text).to_owned(), *distance))
            .collect();
        for (name, weekday) in self.weekdays {
            all.push((format!("{} {name}", self.last), Distance::Before(weekday)));
            all.push((format!("{} {name}", self.this), Distance::This(weekday)));
            all.push((format!("{} {name}", self.next), Distance::After(weekday)));
        }
        let ago = |phrase: &str, number: &str| phrase.replace("{}", number);
        for (number, n) in self.numbers.iter().zip(2..) {
            all.push((ago(self.days_ago, number), Distance::Days(-n)));
            all.push((ago(self.weeks_ago, number), Distance::Days(-7 * n)));
        }
        for n in 2..=MOST_DAYS {
            all.push((ago(self.days_ago, &n.to_string()), Distance::Days(-n)));
        }
        all
    }
}

/// Chinese phrases. Phrases about other weeks and months are built from parts.
const CHINESE: [(&str, Distance); 14] = [
    ("昨天", Distance::Days(-1)),
    ("昨晚", Distance::Days(-1)),
    ("前天", Distance::Days(-2)),
    ("大前天", Distance::Days(-3)),
    ("明天", Distance::Days(1)),
    ("明晚", Distance::Days(1)),
    ("后天", Distance::Days(2)),
    ("後天", Distance::Days(2)),
    ("大后天", Distance::Days(3)),
    ("大後天", Distance::Days(3)),
    ("上个月", Distance::Months(-1)),
    ("下个月", Distance::Months(1)),
    ("去年", Distance::Years(-1)),
    ("明年", Distance::Years(1)),
];
const CHINESE_WEEKS: [(&str, i64); 4] = [("上", -1), ("这", 0), ("本", 0), ("下", 1)];
const CHINESE_NAMES: [&str; 6] = ["周", "週", "星期", "个星期", "礼拜", "个礼拜"];
const CHINESE_WEEKDAYS: [(char, Weekday); 8] = [
    ('一', Monday),
    ('二', Tuesday),
    ('三', Wednesday),
    ('四', Thursday),
    ('五', Friday),
    ('六', Saturday),
    ('日', Sunday),
    ('天', Sunday),
];
const CHINESE_NUMBERS: [&str; 9] = ["两", "三", "四", "五", "六", "七", "八", "九", "十"];

/// Unlike `next Friday`, 下周五 is always of the week after.
fn chinese() -> Vec<(String, Distance)> {
    let others = CHINESE.iter();
    let mut all: Vec<_> = others
        .map(|(text, distance)| ((*text).to_owned(), *distance))
        .collect();
    for (which, weeks) in CHINESE_WEEKS {
        for (name, (day, weekday)) in CHINESE_NAMES
            .iter()
            .flat_map(|name| CHINESE_WEEKDAYS.map(|day| (name, day)))
        {
            let distance = Distance::OfWeek(weeks, weekday);
            all.push((format!("{which}{name}{day}"), distance));
        }
    }
    for (number, n) in CHINESE_NUMBERS.iter().zip(2..) {
        all.push((format!("{number}天前"), Distance::Days(-n)));
        all.push((format!("{number}周前"), Distance::Days(-7 * n)));
    }
    for n in 2..=MOST_DAYS {
        all.push((format!("{n}天前"), Distance::Days(-n)));
        all.push((format!("{n} 天前"), Distance::Days(-n)));
    }
    all
}

/// All phrases.
pub(super) fn phrases() -> Option<&'static Phrases<Distance>> {
    static PHRASES: OnceLock<Option<Phrases<Distance>>> = OnceLock::new();
    let build = || {
        let languages = [ENGLISH, GERMAN];
        let spaced = languages.iter().flat_map(Language::phrases);
        Phrases::new(spaced.chain(chinese()))
    };
    PHRASES.get_or_init(build).as_ref()
}
