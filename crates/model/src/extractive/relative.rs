//! Days named by their distance: `yesterday`, `two days ago`, `last Friday`, `vor zwei Tagen`, `下周五`.

use std::sync::OnceLock;

use jiff::ToSpan;
use jiff::civil::Weekday::{self, Friday, Monday, Saturday, Sunday, Thursday, Tuesday, Wednesday};

use super::cues::Phrases;
use super::days::{self, day_name, day_of_month, has_word, is_date_word, month};
use super::telegraphic::quotation_after;
use crate::date::Date;

/// The meaning of a phrase relative to the date of its message.
#[derive(Clone, Copy)]
enum Distance {
    Days(i64),
    Before(Weekday),
    /// The Saturday of the weekend before; said on a weekend, not of that one.
    WeekendBefore,
    This(Weekday),
    After(Weekday),
    /// The weekday of the week so many weeks later; weeks begin with Monday.
    OfWeek(i64, Weekday),
    Months(i64),
    Years(i64),
}

impl Distance {
    /// Whether people mean different days by it: next Friday, said before the Friday of the same week;
    /// this Friday, said on it or after it.
    fn is_ambiguous(self, from: Date) -> bool {
        let is_before = |weekday: Weekday| {
            from.weekday().to_monday_zero_offset() < weekday.to_monday_zero_offset()
        };
        match self {
            Distance::After(weekday) => is_before(weekday),
            Distance::This(weekday) => !is_before(weekday),
            _ => false,
        }
    }

    fn resolve(self, from: Date) -> Option<String> {
        let day = match self {
            Distance::Days(days) => from.checked_add(days.days()).ok()?,
            Distance::Before(weekday) => from.nth_weekday(-1, weekday).ok()?,
            Distance::WeekendBefore => {
                let weeks = if from.weekday() == Sunday { -2 } else { -1 };
                from.nth_weekday(weeks, Saturday).ok()?
            }
            Distance::This(weekday) | Distance::After(weekday) => {
                from.nth_weekday(1, weekday).ok()?
            }
            Distance::OfWeek(weeks, weekday) => {
                let offset = |weekday: Weekday| i64::from(weekday.to_monday_zero_offset());
                let days = 7 * weeks + offset(weekday) - offset(from.weekday());
                from.checked_add(days.days()).ok()?
            }
            Distance::Months(months) => {
                let month = from.first_of_month().checked_add(months.months()).ok()?;
                return Some(month.strftime("%B %Y").to_string());
            }
            Distance::Years(years) => {
                return Some(from.checked_add(years.years()).ok()?.year().to_string());
            }
        };
        Some(day_name(day))
    }
}

/// Phrases in English, German and Chinese.
const NAMED: [(Distance, &str); 12] = rows! {
    (Distance::Days(-3), "大前天"),
    (Distance::Days(-2), "the day before yesterday|day before yesterday|vorgestern|前天"),
    (Distance::Days(-1), "yesterday|last night|gestern|letzte nacht|昨天|昨晚"),
    (Distance::Days(1), "tomorrow|morgen|明天|明晚"),
    // The search ignores the case of ASCII letters only.
    (Distance::Days(2), "the day after tomorrow|day after tomorrow|übermorgen|Übermorgen|后天|後天"),
    (Distance::Days(3), "大后天|大後天"),
    (Distance::Days(-7), "a week ago|vor einer woche"),
    (Distance::WeekendBefore, "last weekend|letztes wochenende"),
    (Distance::Months(-1), "last month|letzten monat|上个月"),
    (Distance::Months(1), "next month|nächsten monat|下个月"),
    (Distance::Years(-1), "last year|letztes jahr|去年"),
    (Distance::Years(1), "next year|nächstes jahr|明年"),
};
type OfWeekday = fn(Weekday) -> Distance;

/// What stands before a weekday. Unlike `next Friday`, 下周五 is always of the week after.
const BEFORE_WEEKDAYS: [(OfWeekday, &str); 6] = rows! {
    (Distance::Before, "last |letzten "),
    (Distance::This, "this |diesen "),
    (Distance::After, "next |nächsten "),
    (|day| Distance::OfWeek(-1, day), "上周|上週|上星期|上个星期|上礼拜|上个礼拜"),
    (|day| Distance::OfWeek(0, day), "这周|这週|这星期|这个星期|这礼拜|这个礼拜|本周|本週|本星期|本个星期|本礼拜|本个礼拜"),
    (|day| Distance::OfWeek(1, day), "下周|下週|下星期|下个星期|下礼拜|下个礼拜"),
};
const WEEKDAYS: [(Weekday, &str); 7] = [
    (Monday, "monday|montag|一"),
    (Tuesday, "tuesday|dienstag|二"),
    (Wednesday, "wednesday|mittwoch|三"),
    (Thursday, "thursday|donnerstag|四"),
    (Friday, "friday|freitag|五"),
    (Saturday, "saturday|samstag|六"),
    (Sunday, "sunday|sonntag|日|天"),
];
/// Phrases of so many days or weeks, and the numbers from two on.
const DAYS_AGO: &str = "{} days ago|vor {} tagen|{}天前|{} 天前";
const WEEKS_AGO: &str = "{} weeks ago|vor {} wochen|{}周前";
const NUMBERS: [&str; 9] = [
    "two|zwei|两",
    "three|drei|三",
    "four|vier|四",
    "five|fünf|五",
    "six|sechs|六",
    "seven|sieben|七",
    "eight|acht|八",
    "nine|neun|九",
    "ten|zehn|十",
];
/// The largest number of days in digits.
const MOST_DAYS: i64 = 99;

/// All phrases. Parts of two languages may be in one, such as `last Montag`.
fn phrases() -> Option<&'static Phrases<Distance>> {
    static PHRASES: OnceLock<Option<Phrases<Distance>>> = OnceLock::new();
    let build = || {
        let mut all: Vec<(String, Distance)> = Vec::new();
        for (distance, named) in NAMED {
            all.extend(named.split('|').map(|phrase| (phrase.to_owned(), distance)));
        }
        for (distance, befores) in BEFORE_WEEKDAYS {
            for (weekday, names) in WEEKDAYS {
                for (before, name) in pairs(befores, names) {
                    all.push((format!("{before}{name}"), distance(weekday)));
                }
            }
        }
        let mut ago = |phrases: &str, numbers: &str, days: i64| {
            let each = pairs(phrases, numbers);
            all.extend(each.map(|(phrase, n)| (phrase.replace("{}", n), Distance::Days(-days))));
        };
        for (numbers, n) in NUMBERS.iter().zip(2..) {
            ago(DAYS_AGO, numbers, n);
            ago(WEEKS_AGO, numbers, 7 * n);
        }
        (2..=MOST_DAYS).for_each(|n| ago(DAYS_AGO, &n.to_string(), n));
        Phrases::new(all.into_iter())
    };
    PHRASES.get_or_init(build).as_ref()
}

/// Each of some phrases with each of others, both separated by bars.
fn pairs<'a>(ones: &'a str, others: &'a str) -> impl Iterator<Item = (&'a str, &'a str)> {
    ones.split('|')
        .flat_map(move |one| others.split('|').map(move |other| (one, other)))
}

/// The text with the day in brackets after each phrase that names one by its distance from `date`,
/// the date of the message. `None` if there is no such phrase.
pub(super) fn resolved(text: &str, date: Date) -> Option<String> {
    let mut out = String::new();
    let mut from = 0;
    for (range, distance) in phrases()?.find(text) {
        let (before, follows) = (&text[..range.start], &text[range.end..]);
        let phrase = &text[range.clone()];
        if is_part_of_another(before, phrase, follows)
            || is_part_of_chinese(before, phrase, follows)
            || distance.is_ambiguous(date)
        {
            continue;
        }
        let possessive = ["'s", "’s"].iter().find(|end| follows.starts_with(**end));
        let end = range.end + possessive.map_or(0, |end| end.len());
        if let Some(day) = distance.resolve(date) {
            out.push_str(&text[from..end]);
            out.push_str(" (");
            out.push_str(&day);
            out.push(')');
            from = end;
        }
    }
    (from > 0).then(|| out + &text[from..])
}

/// Words before a number of days or weeks that are part of it.
const NUMERALS: &str =
    "and or to twenty thirty forty fifty sixty seventy eighty ninety hundred half";

/// Words before a number of days or weeks with which it names no single day: `about two weeks ago`.
const APPROXIMATE: &str = "about almost approximately around nearly over roughly than circa etwa fast \
    knapp rund über ungefähr";

/// Words after `Morgen` at the beginning of a sentence that make it a greeting: `Morgen zusammen`.
const GREETED: &str = "alle allerseits beisammen euch ihr liebe lieber miteinander zusammen";

/// The beginnings of a text that change the day before it: `two days ago yesterday`, `tomorrow week`.
const MORE_DISTANCE: [&str; 4] = [" yesterday", " tomorrow", " last ", " week"];

/// Words before `morgen` that make it a time of day, besides weekdays: in German, and in Dutch and Danish,
/// where the next day is also `morgen`.
const BEFORE_MORNING: &str = "am diesen frühen ganzen gestern guten heute jeden nächsten schönen seit \
    späten de deze elke iedere goede goeie god hver";

/// The beginnings of a text that make the weekday before it one of an event: `of June`,
/// `before Easter`.
const OF_AN_EVENT: [&str; 6] = [" before ", " of ", " vor ", " im ", " des ", " der "];

/// Whether a phrase is part of one that means another day, such as `twenty-two days ago`, `2.5 days
/// ago`, `a week from tomorrow`, `the last Friday of June`, `the last Tuesday before Easter` and `am
/// Morgen`, or is resolved already.
fn is_part_of_another(before: &str, phrase: &str, follows: &str) -> bool {
    let last = before.trim_end().rsplit(|c: char| !c.is_alphanumeric());
    let last = last.into_iter().next().unwrap_or_default().to_lowercase();
    let is_one_of = |words: &str| has_word(words, &last);
    let first = phrase.split(' ').next().unwrap_or_default().to_lowercase();
    let is_ago = phrase.to_lowercase().ends_with("ago");
    let is_counted = is_ago && (last.parse::<u64>().is_ok() || is_one_of(NUMERALS));
    let is_approximate = (is_ago || first == "vor") && is_one_of(APPROXIMATE);
    let is_named_by_an_event = has_word("last next letzten nächsten", &first)
        && (last == "the" || OF_AN_EVENT.iter().any(|of| follows.starts_with(of)));
    let is_morning = match phrase {
        "Morgen" => !is_tomorrow(follows),
        "morgen" => {
            let is_greeting = before.trim().is_empty() && has_word(GREETED, next_word(follows));
            is_greeting || is_one_of(BEFORE_MORNING) || is_date_word(&last)
        }
        _ => false,
    };
    let is_counted_on = MORE_DISTANCE.iter().any(|more| follows.starts_with(more))
        || has_word("a two three four vor", &first) && is_of_weekday(follows);
    before.ends_with(['-', '–', '/'])
        || is_fraction(before, phrase)
        || is_title(before, phrase)
        // It may be of another day.
        || quotation_after(None, before).is_some()
        || is_named_by_an_event
        || is_counted
        || is_approximate
        || is_morning
        || is_counted_on
        || is_one_of("from ago")
        || follows.starts_with(" (")
        || follows.starts_with(" of ")
        || is_dated(follows)
}

/// Whether the text after a phrase begins with its day: `, 9 May`, ` May 9`, `, Tuesday`. The writer may be
/// in another time zone.
fn is_dated(follows: &str) -> bool {
    let words = follows
        .strip_prefix(',')
        .unwrap_or(follows)
        .strip_prefix(' ');
    let words = words
        .unwrap_or_default()
        .split(|c: char| !c.is_alphanumeric());
    let mut words = words.filter(|word| !word.is_empty()).map(str::to_lowercase);
    let mut next = || words.next().unwrap_or_default();
    let (first, second) = (next(), next());
    let is_day = |day: &str, of: &str| day_of_month(day).is_some() && month(of).is_some();
    is_day(&first, &second) || is_day(&second, &first) || has_word(days::WEEKDAYS, &first)
}

/// Chinese numerals before a smaller number with the sign of ordinal numbers, and what ends with a sign of
/// 前天 and 后天: 以前天天, 目前天气.
const CHINESE_NUMERALS: &str = "十百千几数零〇一二两三四五六七八九第";
const BEFORE_CHINESE_DAYS: &str = "以之从目当先此事生跟面提眼空年月日天周期最今往随午饭课会战";
/// Signs of weekdays, and signs after them with which they make other words: 下周一起, 上周五次, 下周日程.
const AFTER_CHINESE_WEEKDAYS: [(&str, &str); 4] = [
    ("一", "直起共定样樣般些切线線"),
    ("一二三四五六", "个個次人位场場件条條十百千天"),
    ("日", "本程常报報志誌期语語均"),
    ("天", "气氣天数數"),
];

/// Signs that end with 明 another word, and signs that begin one with the rest of 明天 and 明年: 说明天气,
/// 证明年龄.
const BEFORE_MING: &str = "说說证證声聲";
const AFTER_MING: [char; 8] = ['度', '龄', '齡', '代', '份', '气', '氣', '才'];

/// Signs that end with 去 another word: 失去年轻.
const BEFORE_QU: &str = "失离離逝";

/// Whether a Chinese phrase is part of other words: `十三天前` has `三天前`, and `后天性` means acquired.
fn is_part_of_chinese(before: &str, phrase: &str, follows: &str) -> bool {
    let ends_with = |signs: &str| before.ends_with(|c: char| signs.contains(c));
    let is_counted = phrase.ends_with('前') && ends_with(CHINESE_NUMERALS);
    let is_week = || {
        phrase.starts_with(['上', '下', '这', '這', '本'])
            && AFTER_CHINESE_WEEKDAYS.iter().any(|(days, after)| {
                phrase.ends_with(|c: char| days.contains(c))
                    && follows.starts_with(|c: char| after.contains(c))
            })
    };
    let is_explained =
        phrase.starts_with('明') && ends_with(BEFORE_MING) && follows.starts_with(AFTER_MING);
    is_counted
        || is_explained
        || phrase.starts_with('去') && ends_with(BEFORE_QU)
        || phrase.starts_with(['后', '後']) && follows.starts_with('性')
        || is_week()
        || phrase.starts_with(['前', '后', '後']) && ends_with(BEFORE_CHINESE_DAYS)
}

/// Whether a weekday follows a distance: `two weeks ago on Friday`, `vor einer Woche am Freitag`.
fn is_of_weekday(follows: &str) -> bool {
    let day = ["on", "am"].iter().find_map(|on| {
        let day = follows.strip_prefix(' ')?.strip_prefix(on)?;
        day.starts_with(' ').then_some(day)
    });
    let day = next_word(day.unwrap_or(follows)).to_lowercase();
    has_word(days::WEEKDAYS, &day)
}

/// Whether a number in digits is the fraction of another one: `2.5 days ago` has `5 days ago`.
fn is_fraction(before: &str, phrase: &str) -> bool {
    let whole = before.strip_suffix(['.', ',']);
    phrase.starts_with(|c: char| c.is_ascii_digit())
        && whole.is_some_and(|whole| whole.ends_with(|c: char| c.is_ascii_digit()))
}

/// Whether `Morgen` at the beginning of a sentence is the next day and no greeting: another word of the
/// sentence follows, in lower case as its verb has, or a number.
fn is_tomorrow(follows: &str) -> bool {
    let next = next_word(follows);
    next.starts_with(|c: char| c.is_lowercase() || c.is_ascii_digit()) && !has_word(GREETED, next)
}

/// The word after a space; empty if there is none.
fn next_word(follows: &str) -> &str {
    let rest = follows.strip_prefix(' ').unwrap_or_default();
    let next = rest.split(|c: char| !c.is_alphanumeric()).next();
    next.unwrap_or_default()
}

/// Whether a phrase with a capital letter stands within a sentence, as titles do.
fn is_title(before: &str, phrase: &str) -> bool {
    let before = before.trim_end();
    let begins_sentence =
        before.is_empty() || !before.ends_with(|c: char| c.is_alphanumeric() || c == ',');
    phrase.starts_with(char::is_uppercase) && !begins_sentence
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Each text with its days, and texts without any, separated by bars, all of one day.
    fn check<const N: usize>(said: Date, resolved_texts: [(&str, &str); N], others: &str) {
        for (text, expected) in resolved_texts {
            assert_eq!(resolved(text, said).as_deref(), Some(expected));
        }
        for text in others.split('|') {
            assert_eq!(resolved(text, said), None, "{text}");
        }
    }

    #[test]
    fn the_last_weekend_is_not_the_present_one() {
        let rows = [
            (7, "1 March 2025"),
            (8, "1 March 2025"),
            (9, "1 March 2025"),
            (10, "8 March 2025"),
        ];
        for (day, expected) in rows {
            let said = jiff::civil::date(2025, 3, day);
            let english = format!("last weekend ({expected})");
            assert_eq!(resolved("last weekend", said), Some(english));
            let german = format!("letztes Wochenende ({expected})");
            assert_eq!(resolved("letztes Wochenende", said), Some(german));
        }
    }

    #[test]
    fn a_sentence_may_begin_with_a_day_in_german() {
        let monday = jiff::civil::date(2023, 5, 8);
        let rows = rows! {
            ("Übermorgen kommt Oma", "Übermorgen (10 May 2023) kommt Oma"),
            ("Morgen ist zu.", "Morgen (9 May 2023) ist zu."),
            ("Gut. Morgen um 9 geht es los", "Gut. Morgen (9 May 2023) um 9 geht es los"),
        };
        let others = "Morgen!|Morgen|Morgen zusammen|Morgen, ist er da?|Der Morgen war kalt";
        check(monday, rows, others);
    }

    #[test]
    fn chinese_days_are_resolved() {
        let wednesday = jiff::civil::date(2023, 5, 10);
        let rows = [
            ("我们明天搬家", "我们明天 (11 May 2023)搬家"),
            ("明天天气好", "明天 (11 May 2023)天气好"),
            ("后天见", "后天 (12 May 2023)见"),
            ("大前天", "大前天 (7 May 2023)"),
            ("下周五开会", "下周五 (19 May 2023)开会"),
            ("上个星期天", "上个星期天 (7 May 2023)"),
            ("这周一", "这周一 (8 May 2023)"),
            ("三天前", "三天前 (7 May 2023)"),
            ("12天前", "12天前 (28 April 2023)"),
            ("下个月", "下个月 (June 2023)"),
            ("下周一下午开会", "下周一 (15 May 2023)下午开会"),
        ];
        let others = "以前天天吃|目前天气很好|十三天前|他说「明天来」|明天 (11 May 2023)|今天|\
            下周一起吃饭|这周一直下雨|上周五次会议|下周日程已定|上周天气很好|第三天前提交|2.5天前|\
            请说明年度计划|证明年龄|这说明天气很好|失去年轻人|后天性疾病";
        check(wednesday, rows, others);
    }

    #[test]
    fn relative_days_are_resolved_in_brackets() {
        let monday = jiff::civil::date(2023, 5, 8);
        let rows = rows! {
            ("I went yesterday.", "I went yesterday (7 May 2023)."),
            ("Two days ago it rained", "Two days ago (6 May 2023) it rained"),
            ("see you last Friday", "see you last Friday (5 May 2023)"),
            ("next month we move", "next month (June 2023) we move"),
            ("the day before yesterday", "the day before yesterday (6 May 2023)"),
            ("10 days ago", "10 days ago (28 April 2023)"),
            ("next Monday", "next Monday (15 May 2023)"),
            ("Gestern war Oma da", "Gestern (7 May 2023) war Oma da"),
            ("vor zwei Tagen", "vor zwei Tagen (6 May 2023)"),
            ("Vor 3 Tagen kam er", "Vor 3 Tagen (5 May 2023) kam er"),
            ("bis morgen", "bis morgen (9 May 2023)"),
            ("nächsten Monat ziehen wir um", "nächsten Monat (June 2023) ziehen wir um"),
            ("letzten Freitag", "letzten Freitag (5 May 2023)"),
            ("this Friday", "this Friday (12 May 2023)"),
            ("Diesen Freitag geht es", "Diesen Freitag (12 May 2023) geht es"),
            ("the day after tomorrow", "the day after tomorrow (10 May 2023)"),
            ("Yesterday's concert, and yesterday I slept",
             "Yesterday's (7 May 2023) concert, and yesterday (7 May 2023) I slept"),
        };
        let others = "yesterdays|yesterday (7 May 2023)||twenty-two days ago|\
            one year and two days ago|about two weeks ago|over 10 days ago|etwa vor zwei Wochen|\
            the last Friday of June|It's the last Tuesday before the freeze|the last Friday was quiet|\
            last Saturday before the festival|next Friday|a week from tomorrow|pre-yesterday|\
            a year ago tomorrow we married|a week ago yesterday|see you tomorrow week|this Monday|\
            heute morgen, jeden morgen|Goede morgen allemaal|in de morgen|God morgen|\
            Guten Morgen! Am Morgen|am letzten Freitag im Juni|\
            vor zweiundzwanzig Tagen|The song is Yesterday by the Beatles|\
            She wrote \"come tomorrow\"|Er schrieb „bis morgen“|Er schrieb »bis morgen«|\
            Run `git log yesterday`|The backup ran 2.5 days ago|Er kommt Freitag morgen|\
            am nächsten morgen|morgen zusammen, wie war es?|two weeks ago on Friday|\
            A week ago Friday we met|Vor zwei Wochen am Freitag|See you tomorrow, 9 May|\
            Bis morgen, 9. Mai|It was yesterday, Sunday|Yesterday, May 7th, it rained";
        check(monday, rows, others);
    }
}
