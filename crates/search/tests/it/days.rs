//! Questions that name a day or a period.

use std::collections::BTreeSet;

use unisono_context::{Ordinal, Timestamp};
use unisono_search::{Branch, Query, Scope, Search};

use crate::support::{Said, id, memory, searched, session, tree, write};

/// Four weeks: each noon the same three sentences, and on one day one more about another day.
fn weeks() -> Vec<Said> {
    let mut said: Vec<Said> = Vec::new();
    let mut say = |day: &str, text: &str| {
        let n = said.len();
        said.push(Said::new(n, text).at(&format!("{day}T12:00:00Z")));
    };
    for day in 1..=28 {
        let date = format!("2024-05-{day:02}");
        say(&date, "we decided to take the boat");
        say(&date, "all is well, I may sleep at 3");
        say(&date, "the soup is good");
        if day == 20 {
            say(&date, "on 3 May we decided to sell the boat");
        }
    }
    said
}

/// The days of May of the first results, and the number of results that are checked.
const QUESTIONS: [(&str, &[u32], usize); 17] = [
    ("What did we decide on 3 May?", &[3, 20], 4),
    ("what did we decide on May 3rd, 2024", &[3, 20], 4),
    ("Did we decide it on 2024-05-03?", &[3, 20], 4),
    ("Was the boat decided am 3. Mai?", &[3, 20], 4),
    ("boat am 03.05.2024", &[3, 20], 4),
    // The other reading, 5 March, has no messages.
    ("boat on 5/3/2024", &[3, 20], 4),
    ("What did we decide yesterday?", &[27], 3),
    ("Was the boat decided gestern?", &[27], 3),
    ("What did we decide today?", &[28], 3),
    ("What did we decide on Friday?", &[24], 3),
    ("decided letzten Freitag", &[24], 3),
    ("the boat four days ago", &[24], 3),
    ("the boat between 8 and 9 May", &[8, 9], 6),
    ("the boat from Monday to Tuesday", &[27, 28], 6),
    ("the boat last week", &[20, 21, 22, 23, 24, 25, 26], 7),
    ("the soup in April", &[], 0),
    ("What did we decide on 29 May?", &[], 0),
];

#[tokio::test(flavor = "multi_thread")]
async fn messages_of_the_named_day_come_first() {
    let said = weeks();
    let (search, branch) = searched(&said).await;
    let day = |ordinal: Ordinal| {
        let at = said[ordinal.0 as usize - 1].at;
        u32::try_from((at.0 - 1_714_521_600_000) / 86_400_000).unwrap() + 1
    };
    let now = said[said.len() - 1].at;
    for (text, expected, first) in QUESTIONS {
        let expected: BTreeSet<u32> = expected.iter().copied().collect();
        let recalled = search.recall(&branch, text, 20).await.unwrap().messages;
        assert_eq!(recalled.len(), 20, "others are found as well: {text}");
        let days: BTreeSet<u32> = recalled[..first].iter().map(|n| day(*n)).collect();
        assert!(days.is_subset(&expected), "agent: {text} {days:?}");
        let query = Query::parse(text, now).unwrap();
        let found = search.find(&query, &[], 20).await.unwrap().found;
        let scope = Scope::Session(session(1));
        let outside = search.recall_in(scope, text, 20).await.unwrap();
        // Without neighbours the messages of another day with words are before some of the day.
        for (who, found) in [("person", found), ("outside", outside)] {
            let days = found[..first.min(1)].iter().map(|found| day(found.ordinal));
            let days: BTreeSet<u32> = days.collect();
            assert!(days.is_subset(&expected), "{who}: {text} {days:?}");
        }
    }
    let named = search.recall(&branch, QUESTIONS[0].0, 20).await.unwrap();
    let speaks_of_it = said.iter().position(|said| said.text.contains("on 3 May"));
    let speaks_of_it = Ordinal(speaks_of_it.unwrap() as u32 + 1);
    assert!(named.messages[..4].contains(&speaks_of_it), "{named:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_message_speaks_of_a_day_by_its_distance() {
    let mut said: Vec<Said> = (0..30)
        .map(|n| Said::new(n, "nothing new").at(&format!("2024-05-{:02}", n + 1)))
        .collect();
    said[9].text = "yesterday I ran along the river".into();
    said[19].text = "I ran again".into();
    said[25].text = "vor drei Tagen bin ich gelaufen, I ran".into();
    let (search, branch) = searched(&said).await;
    for (text, expected) in [
        ("how far I ran on 9 May", 10),
        ("how far I ran on 20 May", 20),
        ("how far I ran on 23 May", 26),
    ] {
        let recalled = search.recall(&branch, text, 5).await.unwrap();
        let first = &recalled.messages[..3];
        assert!(first.contains(&Ordinal(expected)), "{text} {first:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn a_date_without_a_year_is_of_the_year_that_has_it() {
    let mut said: Vec<Said> = (0..20)
        .map(|n| Said::new(n, "the soup is good").at(&format!("2024-05-{:02}", n + 1)))
        .collect();
    said[8].text = "on 3 June the tenants move in".into();
    // The agent's task, two years later, names both days.
    let task = "what was on 13 May, and who comes on 3 June";
    said.push(Said::new(20, task).at("2026-11-29"));
    let (search, branch) = searched(&said).await;
    for (text, expected) in [("what was on 13 May", 13), ("who comes on 3 June", 9)] {
        let recalled = search.recall(&branch, text, 5).await.unwrap().messages;
        assert!(recalled.contains(&Ordinal(expected)), "{text} {recalled:?}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_later_does_not_move_the_days_of_a_branch() {
    let journal = memory();
    let mut said: Vec<Said> = (0..20)
        .map(|n| Said::new(n, "the plan").at(&format!("2024-05-{:02}", n + 1)))
        .collect();
    said.push(Said::new(20, "the plan").at("2026-01-01"));
    said.push(Said::new(21, "the plan").at("1970-01-01"));
    write(&journal, session(1), &said).await;
    let tree = tree(&journal, session(1)).await;
    let search = Search::in_memory(journal);
    let before = Branch::new(session(1), &tree, id(19));
    let recalled = search.recall(&before, "the plan yesterday", 5).await;
    assert_eq!(recalled.unwrap().messages[0], Ordinal(19));
    // The time of the last message is unknown.
    let after = Branch::new(session(1), &tree, id(21));
    let recalled = search.recall(&after, "the plan on 1 January", 5).await;
    assert_eq!(recalled.unwrap().messages[0], Ordinal(21));
}

#[tokio::test(flavor = "multi_thread")]
async fn a_day_alone_and_days_in_phrases_are_words_of_people() {
    let said = [
        Said::new(0, "nothing new").at("2024-05-24"),
        Said::new(1, "on Friday or today").at("2024-05-25"),
    ];
    let (search, _) = searched(&said).await;
    let now = Timestamp(said[1].at.0 + 86_400_000);
    for text in ["friday", "today", "\"on friday\"", "+today", "plan -friday"] {
        let query = Query::parse(text, now).unwrap();
        let found = search.find(&query, &[], 9).await.unwrap().found;
        let found: Vec<u32> = found.iter().map(|found| found.ordinal.0).collect();
        let expected: &[u32] = if text.starts_with("plan") { &[] } else { &[2] };
        assert_eq!(found, expected, "{text}");
    }
}
