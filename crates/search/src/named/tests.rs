//! Tests of named days and periods.

use super::*;

/// A Sunday.
const SAID: Date = jiff::civil::date(2024, 5, 26);

/// The periods at or before the reference that a question names, as `2024-05-03` or
/// `2024-05-03/2024-05-05`.
fn periods(text: &str) -> Vec<String> {
    let lower = text.to_lowercase();
    let found = mentions(&lowercase_words(&lower));
    let days = found.iter().filter_map(|mention| mention.time.days(SAID));
    let format = |days: Days| match days.first == days.last {
        true => days.first.to_string(),
        false => format!("{}/{}", days.first, days.last),
    };
    days.map(format).collect()
}

#[test]
fn days_of_questions() {
    for (text, expected) in [
        ("What did we decide on 3 May?", "2024-05-03"),
        ("what about May 3rd", "2024-05-03"),
        ("On the 3rd of May.", "2024-05-03"),
        ("On 3 June?", "2023-06-03"),
        ("29 February", "2024-02-29"),
        ("On May 3, 2023,", "2023-05-03"),
        ("11th Mar 2025", "2025-03-11"),
        ("on 2024-05-03?", "2024-05-03"),
        ("at 2024-05-03T09:14:00Z", "2024-05-03"),
        ("(2024/05/03)", "2024-05-03"),
        ("on 5/13/2024?", "2024-05-13"),
        ("on 13/5/24, and", "2024-05-13"),
        ("4/4/2024", "2024-04-04"),
        ("on the 5th of March", "2024-03-05"),
        ("March the 5th", "2024-03-05"),
        ("March 5th, 2023", "2023-03-05"),
        ("Was haben wir am 3. Mai beschlossen?", "2024-05-03"),
        ("am 03.05.2024?", "2024-05-03"),
        ("am 3.5.24", "2024-05-03"),
        ("am 3.5.", "2024-05-03"),
        ("vom 3.5", "2024-05-03"),
        ("5. März", "2024-03-05"),
        ("on Friday", "2024-05-24"),
        ("on Sunday", "2024-05-26"),
        ("last Sunday", "2024-05-19"),
        ("Friday's talk", "2024-05-24"),
        ("letzten Freitag", "2024-05-24"),
        ("Friday, 3 May", "2024-05-03"),
        ("yesterday", "2024-05-25"),
        ("gestern Abend", "2024-05-25"),
        ("vorgestern", "2024-05-24"),
        ("the day before yesterday", "2024-05-24"),
        ("three days ago", "2024-05-23"),
        ("vor 3 Tagen", "2024-05-23"),
        ("today", "2024-05-26"),
        ("heute Morgen", "2024-05-26"),
        ("was ist morgen?", "2024-05-27"),
    ] {
        assert_eq!(periods(text), [expected], "{text}");
    }
}

#[test]
fn periods_of_questions() {
    for (text, expected) in [
        ("in March", "2024-03-01/2024-03-31"),
        ("im Juli", "2023-07-01/2023-07-31"),
        ("im Mai 2023", "2023-05-01/2023-05-31"),
        ("2024-02", "2024-02-01/2024-02-29"),
        ("last week", "2024-05-13/2024-05-19"),
        ("diese Woche", "2024-05-20/2024-05-26"),
        ("letzten Monat", "2024-04-01/2024-04-30"),
        ("two weeks ago", "2024-05-09/2024-05-15"),
        ("last weekend", "2024-05-18/2024-05-19"),
        ("am Wochenende", "2024-05-25/2024-05-26"),
        ("between 3 and 5 May", "2024-05-03/2024-05-05"),
        ("zwischen dem 7. und 9. Mai", "2024-05-07/2024-05-09"),
        ("vom 3. bis 5. Mai 2023", "2023-05-03/2023-05-05"),
        ("3-5 May", "2024-05-03/2024-05-05"),
        ("May 3–5", "2024-05-03/2024-05-05"),
        ("from Monday to Wednesday", "2024-05-20/2024-05-22"),
        ("von Montag bis Mittwoch", "2024-05-20/2024-05-22"),
        ("from Friday to Monday", "2024-05-17/2024-05-20"),
        ("between 28 April and 2 May", "2024-04-28/2024-05-02"),
        ("3 May 2024 until 2024-05-06", "2024-05-03/2024-05-06"),
    ] {
        assert_eq!(periods(text), [expected], "{text}");
    }
    assert_eq!(periods("Friday and Saturday"), ["2024-05-24", "2024-05-25"]);
}

#[test]
fn other_words_and_numbers_are_no_days() {
    for text in [
        "",
        "Who may march?",
        "It costs 3.5 and 15 euros",
        "order 20240503, 1.250,00 € or 10.99",
        "version 1.2.3 and 3.5.1",
        "Guten Morgen! jeden Morgen",
        "It was May. 3 people came",
        "31 April",
        "24/7/365, 1/2, 13/14/2024, 31/4/2024, 1/2/3/24, 5/3/",
        "2024-13-01 2024-13",
        "Fridays",
        "99999999 days ago",
        "- – — . ’s",
    ] {
        assert_eq!(periods(text), [""; 0], "{text}");
    }
}

#[test]
fn a_range_may_be_wrong_and_a_year_too_large() {
    assert_eq!(periods("between 5 and 3 May"), ["2024-05-03"]);
    assert_eq!(periods("in 999 years ago, 999 years ago").len(), 2);
    assert_eq!(mentions(&["monday"; 100]).len(), MAX_PERIODS);
}

#[test]
fn a_date_with_two_readings_names_both_days() {
    let both = |text: &str| -> Vec<String> {
        let lower = text.to_lowercase();
        let found = mentions(&lowercase_words(&lower));
        let days = found.iter().flat_map(|mention| mention.resolve(SAID));
        days.map(|days| format!("{}/{}", days.first, days.last))
            .collect()
    };
    for text in ["on 5/3/2024", "5/3/24?", "(05/03/2024)"] {
        let expected = ["2024-05-03/2024-05-03", "2024-03-05/2024-03-05"];
        assert_eq!(both(text), expected, "{text}");
    }
    // German dates have the day first.
    assert_eq!(both("05.03.2024"), ["2024-03-05/2024-03-05"]);
    assert_eq!(
        both("between 5/3/2024 and 5/7/2024"),
        ["2024-05-03/2024-05-07", "2024-03-05/2024-07-05"]
    );
    assert_eq!(
        both("from 5/3/2024 to 2024-05-13"),
        ["2024-05-03/2024-05-13", "2024-03-05/2024-05-13"]
    );
    let named = named_days("we met on 5/3/2024", SAID);
    let certain: Vec<bool> = named.iter().map(|day| day.is_certain).collect();
    assert_eq!(certain, [false, false]);
}

#[test]
fn days_that_messages_name() {
    let named = |text: &str| -> Vec<String> {
        let days = named_days(text, SAID).into_iter();
        let days = days.filter_map(|day| day_with_number(day.number));
        days.map(|day| day.to_string()).collect()
    };
    assert_eq!(named("Yesterday I ran"), ["2024-05-25"]);
    assert_eq!(named("on 3 June we fly"), ["2024-06-03"]);
    assert_eq!(named("it was on 3 May"), ["2024-05-03"]);
    assert_eq!(named("see you on Friday"), ["2024-05-24", "2024-05-31"]);
    assert_eq!(named("today"), [""; 0], "that is its own day");
    assert_eq!(named("all of last month"), [""; 0], "not each day of it");
    assert_eq!(named("3-5 May").len(), 3);
    let many: String = (1..60).map(|n| format!("{n} days ago ")).collect();
    assert!(named(&many).len() <= MAX_DAYS + 1);
    assert_eq!(named(&"friday ".repeat(200_000)).len(), 2);
}

proptest::proptest! {
    #[test]
    fn no_text_is_too_much(text in "\\PC{0,60}|[-.0-9 /a-t–]{0,60}|([0-9]{1,4}[-. ]){0,9}may 2024") {
        periods(&text);
        let lower = text.to_lowercase();
        let words = lowercase_words(&lower);
        for mention in mentions(&words) {
            proptest::prop_assert!(mention.words.end <= words.len());
        }
    }
}
