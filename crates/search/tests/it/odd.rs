//! Queries as strangers write them.

use unisono_context::Timestamp;
use unisono_search::Query;

use crate::support::{Said, found, searched};

const TEXTS: [&str; 14] = [
    "The order ORD-10293 was shipped.",
    "See foo_bar.rs:120 and fooBar.",
    "Write to maria.k@example.com, please.",
    "It costs €1,250.00 in all.",
    "Das kostet 1.250,00 € am Ende.",
    "Die Straße ist gesperrt für Fußgänger.",
    "fu\u{308}r Mu\u{308}ller ist nai\u{308}v geschrieben",
    "下周三我们在上海开会讨论预算",
    "昨天吃了面条",
    "We won ⭐ at the fair 🎉",
    "⏰ wake up",
    "Tom has a sore knee",
    "The meeting is at 12:30 sharp",
    "12 people had 30 apples",
];

#[tokio::test(flavor = "multi_thread")]
async fn identifiers_amounts_and_other_scripts_are_found() {
    let (search, _) = searched(&texts()).await;
    for (query, expected) in [
        ("ORD-10293", &[1][..]),
        ("ord 10293", &[1]),
        ("10293", &[1]),
        ("foo_bar.rs:120", &[2]),
        ("foo_bar", &[2]),
        ("FOOBAR", &[2]),
        ("maria.k@example.com", &[3]),
        ("€1,250.00", &[4, 5]),
        ("1.250,00€", &[4, 5]),
        ("strasse", &[6]),
        ("FUSSGÄNGER", &[6]),
        ("für", &[6, 7]),
        ("mu\u{308}ller", &[7]),
        ("Müller", &[7]),
        ("naiv", &[7]),
        ("开会", &[8]),
        ("我们什么时候开会?", &[8]),
        ("+我们开会", &[]),
        ("⭐", &[10]),
        ("🎉", &[10]),
        ("⏰", &[11]),
        ("Tom's knee", &[12]),
        ("what's Tom’s", &[12]),
        ("12:30", &[13]),
        ("wake AND up", &[11]),
        ("author:nobody", &[]),
    ] {
        let found = found(&search, query).await.into_iter();
        let found: Vec<u32> = found.map(|(_, ordinal)| ordinal).collect();
        assert_eq!(found, expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn questions_in_other_scripts_and_with_amounts_are_answered() {
    let mut said = texts();
    said[11].author = Some("Ana");
    let (search, branch) = searched(&said).await;
    for (question, expected) in [
        ("我们什么时候开会？", 8),
        ("请问什么时候讨论预算", 8),
        ("What is at 12:30?", 13),
        ("Who pays €1,250.00?", 4),
        ("What about Tom's knee?", 12),
        ("Wo ist die Strasse?", 6),
    ] {
        let recalled = search.recall(&branch, question, 20).await.unwrap();
        let first: Vec<u32> = recalled.messages.iter().take(2).map(|n| n.0).collect();
        assert!(first.contains(&expected), "{question} {first:?}");
    }
    for odd in [
        "",
        " \n",
        "?!",
        "the",
        "\"",
        "-",
        "+\"\"",
        "session:x",
        "\u{0}",
        "🏳️‍🌈",
    ] {
        search.recall(&branch, odd, 20).await.unwrap();
    }
    let long = "kestrel ".repeat(125_000);
    let error = search.recall(&branch, &long, 20).await.unwrap_err();
    assert!(error.to_string().contains("bytes"), "{error}");
}

#[test]
fn filters_of_strangers_are_read_or_explained() {
    let parse = |text: &str| Query::parse(text, Timestamp(1_772_445_600_000)).unwrap();
    let query = parse("plan author:risks after:2024-05-01 before:2024-06-01 session:01 a:b");
    assert_eq!(query.filters.agents.len(), 1);
    assert!(query.filters.since < query.filters.until);
    assert_eq!((query.clauses.len(), query.notes.len()), (2, 0));
    for wrong in [
        "author:",
        "before:",
        "after:tomorrow",
        "role:me",
        "session:",
    ] {
        assert_eq!(parse(wrong).notes.len(), 1, "{wrong}");
    }
}

fn texts() -> Vec<Said> {
    let texts = (0..).zip(TEXTS);
    texts.map(|(n, text)| Said::new(n, text)).collect()
}
