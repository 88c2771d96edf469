//! What is found, against reading every message.

use std::collections::BTreeSet;

use proptest::prelude::*;
use unisono_context::{Ordinal, Role};
use unisono_search::{Branch, Query, Search};

use crate::support::{Said, find, found, go_on, id, memory, searched, session, tree, write};

const WORDS: [&str; 8] = [
    "kestrel", "plan", "rate", "limit", "the", "rollout", "friday", "cache",
];

fn run<T>(work: impl Future<Output = T>) -> T {
    tokio::runtime::Runtime::new().unwrap().block_on(work)
}

#[tokio::test(flavor = "multi_thread")]
async fn people_find_words_phrases_and_by_filter() {
    let journal = memory();
    let mut said = vec![
        Said::new(0, "We plan to migrate the orders; the rate limit is 40."),
        Said::new(1, "The limit of the rate is unknown."),
        Said::new(2, "Migrations failed: see src/orders/plan.rs"),
        Said::new(3, "nothing"),
        Said::new(4, "検索機能を追加する"),
    ];
    said[2].role = Role::Tool;
    said[3].author = Some("risks");
    write(&journal, session(1), &said).await;
    write(&journal, session(2), &[Said::new(0, "the other migration")]).await;
    let search = Search::in_memory(journal);
    let (one, two) = (session(1), session(2));
    for (query, expected) in [
        ("migrating", vec![(one, 1), (one, 3), (two, 1)]),
        ("\"rate limit\"", vec![(one, 1)]),
        ("limit rate", vec![(one, 1), (one, 2)]),
        ("+limit -migrate", vec![(one, 2)]),
        ("migration role:tool", vec![(one, 3)]),
        (
            "role:user role:assistant migration",
            vec![(one, 1), (two, 1)],
        ),
        ("orders/plan.rs", vec![(one, 3)]),
        ("検索", vec![(one, 5)]),
        ("索検", vec![]),
        ("agent:risks", vec![(one, 4)]),
        ("Risks", vec![(one, 4)]),
        ("+risks -migration", vec![(one, 4)]),
        ("until:2026-03-01", vec![]),
        ("since:2026-03-02T10:00:03Z", vec![(one, 4), (one, 5)]),
        (
            "migration since:2026-03-02 until:2026-03-02",
            vec![(one, 1), (one, 3), (two, 1)],
        ),
        ("-migration -limit", vec![(one, 4), (one, 5)]),
        ("absent", vec![]),
    ] {
        assert_eq!(found(&search, query).await, expected, "{query}");
    }
    let newest = find(&search, "role:user").await;
    assert_eq!(newest[0], (one, 5), "without words the newest come first");
    let query = Query::parse("migration", unisono_context::Timestamp(0)).unwrap();
    let only = search.find(&query, &[two], 9).await.unwrap().found;
    assert_eq!(only.len(), 1);
    let first = search.find(&query, &[], 1).await.unwrap().found;
    assert_eq!(first[0].session, two, "the shorter text ranks higher");
}

#[tokio::test(flavor = "multi_thread")]
async fn a_word_that_joins_two_words_of_a_query_is_found() {
    let mut said: Vec<Said> = (0..20)
        .map(|n| Said::new(n, "heute scheint hier oben die Sonne"))
        .collect();
    said[4].text = "die Lieferkosten sind hoch".into();
    said[9].text = "was sagt der Kundendienst?".into();
    said[15].text = "the database is slow".into();
    let (search, branch) = searched(&said).await;
    for (query, ordinal) in [
        ("Lieferung Kosten", 5),
        ("Kosten Lieferungen", 5),
        ("Kunde Dienst", 10),
        ("data base", 16),
    ] {
        let found = found(&search, query).await;
        assert_eq!(found, [(session(1), ordinal)], "{query}");
        let recalled = search.recall(&branch, query, 3).await.unwrap();
        assert_eq!(recalled.messages[0], Ordinal(ordinal), "{query}");
        assert!(recalled.nowhere.is_empty(), "{query}");
    }
    // A required word stands for itself.
    let found = found(&search, "+Lieferung Kosten").await;
    assert!(found.is_empty(), "{found:?}");
}

#[tokio::test(flavor = "multi_thread")]
async fn an_author_is_found_by_the_whole_name_in_any_case() {
    let names = [
        "Maria Kowalski",
        "maria",
        "Dr. Vance",
        "Jörg Öztürk",
        "Bo \"B\" Lind",
        "小明",
    ];
    let said: Vec<Said> = (0..)
        .zip(names)
        .map(|(n, name)| Said {
            author: Some(name),
            ..Said::new(n, "the plan")
        })
        .collect();
    let (search, _) = searched(&said).await;
    for (query, expected) in [
        ("agent:\"Maria Kowalski\"", &[1][..]),
        ("plan AGENT:\"maria KOWALSKI\"", &[1]),
        ("agent:MARIA", &[2]),
        ("agent:\"dr. vance\"", &[3]),
        ("agent:\"JÖRG ÖZTÜRK\"", &[4]),
        ("agent:\"bo b lind\"", &[5]),
        ("agent:小明", &[6]),
        ("agent:kowalski", &[]),
    ] {
        let found = found(&search, query).await.into_iter();
        let found: Vec<u32> = found.map(|(_, ordinal)| ordinal).collect();
        assert_eq!(found, expected, "{query}");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn an_agent_is_given_what_fits_best_with_the_messages_around_it() {
    let mut said: Vec<Said> = (0..40)
        .map(|n| Said::new(n, "the plan of the week is a plan"))
        .collect();
    said[7].text = "kestrel rolls out on Friday".into();
    said[9].text = "the plan for kestrel: rollout on friday".into();
    said[30].text = "the zebra plan".into();
    let (search, branch) = searched(&said).await;
    let recalled = search
        .recall(&branch, "what is the plan for kestrel?", 5)
        .await
        .unwrap();
    let best: BTreeSet<u32> = recalled.messages[..2].iter().map(|n| n.0).collect();
    assert_eq!(best, [8, 10].into());
    assert_eq!(recalled.messages.len(), 5);
    let recalled = search.recall(&branch, "zebra unicorn", 5).await.unwrap();
    assert_eq!(recalled.messages[0], Ordinal(31));
    assert!(recalled.messages[1..].iter().all(|n| n.0.abs_diff(31) <= 2));
    assert_eq!(recalled.nowhere, ["unicorn"]);
    let recalled = search.recall(&branch, "unicorn", 5).await.unwrap();
    assert!(recalled.messages.is_empty() && recalled.nowhere == ["unicorn"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn messages_are_found_by_their_day_and_month() {
    let said = vec![
        Said::new(0, "the kestrel plan").at("2025-02-15T09:00:00Z"),
        Said::new(1, "nothing new").at("2025-02-15T23:59:59Z"),
        Said::new(2, "we met on 2025-02-15").at("2025-12-02T09:00:00Z"),
        Said::new(3, "nothing new").at("2025-12-12T09:00:00Z"),
        Said::new(4, "kestrel in spring").at("2026-02-15T09:00:00Z"),
        Said::new(5, "a time that nobody knows").at("1970-01-01T00:00:00Z"),
    ];
    let (search, branch) = searched(&said).await;
    for (query, expected) in [
        ("2025-02-15", &[1, 2, 3][..]),
        ("\"15 February 2025\"", &[1, 2]),
        ("February 2025", &[1, 2, 3]),
        ("12 December 2025", &[3, 4]),
        ("2025-02-12", &[]),
        ("+2025-02-15 +kestrel", &[1]),
        ("nothing -2025-02-15", &[4]),
        ("kestrel until:2025-02-15", &[1]),
    ] {
        let found = found(&search, query).await.into_iter();
        let found: Vec<u32> = found.map(|(_, ordinal)| ordinal).collect();
        assert_eq!(found, expected, "{query}");
    }
    let best = find(&search, "kestrel February 2026").await;
    assert_eq!(best[0].1, 5, "{best:?}");
    let recalled = search.recall(&branch, "2025-02-15", 9).await.unwrap();
    let best: BTreeSet<u32> = recalled.messages[..3].iter().map(|n| n.0).collect();
    assert_eq!((best, recalled.nowhere), ([1, 2, 3].into(), Vec::new()));
    let recalled = search.recall(&branch, "2025-02-12", 9).await.unwrap();
    assert_eq!(recalled.nowhere, ["2025-02-12"]);
}

#[tokio::test(flavor = "multi_thread")]
async fn what_is_said_later_or_elsewhere_changes_nothing_for_an_agent() {
    let dir = tempfile::tempdir().unwrap();
    let journal = memory();
    let text = |n: usize| format!("{} {}", WORDS[n % 8], WORDS[n * 7 % 5].repeat(1 + n % 2));
    let said: Vec<Said> = (0..60).map(|n| Said::new(n, text(n))).collect();
    write(&journal, session(1), &said).await;
    let branch = Branch::new(session(1), &tree(&journal, session(1)).await, id(49));
    let search = Search::on_disk(journal.clone(), dir.path().join("search"));
    let question = "kestrel plan \"rate limit\" cache";
    let before = search.recall(&branch, question, 50).await.unwrap();
    assert!(before.messages.iter().all(|n| n.0 <= 50));
    // A sibling with early numbers, the same branch later, and another session.
    let mut later: Vec<Said> = (60..90)
        .map(|n| Said::new(n, "kestrel plan plan"))
        .collect();
    later[10].parent = Some(3);
    go_on(&journal, session(1), &later).await;
    write(&journal, session(2), &said).await;
    search.close().await;
    let search = Search::on_disk(journal.clone(), dir.path().join("search"));
    let after = search.recall(&branch, question, 50).await.unwrap();
    assert_eq!(before, after);
    let all = found(&search, "kestrel").await;
    assert!(all.len() > 40, "they are in the index all the same");
}

/// Texts of a few words, each with the message it follows.
fn conversations() -> impl Strategy<Value = Vec<(Vec<usize>, usize)>> {
    let text = proptest::collection::vec(0..WORDS.len(), 1..7);
    proptest::collection::vec((text, 0_usize..4), 1..40)
}

fn said(conversation: &[(Vec<usize>, usize)]) -> Vec<Said> {
    let text = |words: &[usize]| {
        words
            .iter()
            .map(|w| WORDS[*w])
            .collect::<Vec<_>>()
            .join(" ")
    };
    let all = conversation.iter().enumerate();
    all.map(|(n, (words, back))| Said {
        // Mostly the message before, sometimes an older one: a fork.
        parent: n
            .checked_sub(1)
            .map(|last| last.saturating_sub(if *back == 3 { 4 } else { 0 })),
        ..Said::new(n, text(words))
    })
    .collect()
}

fn path(said: &[Said], head: usize) -> Vec<usize> {
    let mut path = vec![head];
    while let Some(parent) = said[path[path.len() - 1]].parent {
        path.push(parent);
    }
    path.reverse();
    path
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    #[test]
    fn exactly_the_messages_with_the_words_are_found(
        conversation in conversations(),
        words in proptest::collection::vec(0..WORDS.len(), 1..4),
    ) {
        let said = said(&conversation);
        let wanted: Vec<&str> = words.iter().map(|w| WORDS[*w]).collect();
        let holds = |s: &Said, word: &str| s.text.split(' ').any(|w| w == word);
        // A common word is searched for if it is required, in a phrase, or alone.
        let only_common = wanted.iter().all(|w| *w == "the");
        let sought = |w: &&&str| only_common || **w != "the";
        let any = said.iter().filter(|s| wanted.iter().filter(sought).any(|w| holds(s, w))).count();
        let all = said.iter().filter(|s| wanted.iter().all(|w| holds(s, w))).count();
        let phrase = format!(" {} ", wanted.join(" "));
        let in_order = said.iter().filter(|s| format!(" {} ", s.text).contains(&phrase)).count();
        let counts = run(async {
            let (search, _) = searched(&said).await;
            let required: Vec<String> = wanted.iter().map(|w| format!("+{w}")).collect();
            (
                find(&search, &wanted.join(" ")).await.len(),
                find(&search, &required.join(" ")).await.len(),
                find(&search, &format!("\"{}\"", wanted.join(" "))).await.len(),
            )
        });
        prop_assert_eq!(counts, (any, all, in_order));
    }

    #[test]
    fn an_agent_finds_exactly_what_its_branch_has_and_the_two_around_it(
        conversation in conversations(), head in any::<proptest::sample::Index>(),
        word in 0..WORDS.len(),
    ) {
        let said = said(&conversation);
        let head = head.index(said.len());
        let path = path(&said, head);
        let holds = |n: &usize| said[*n].text.split(' ').any(|w| w == WORDS[word]);
        let of_path = path.iter().enumerate();
        let matching = of_path.filter(|(_, n)| holds(n)).map(|(at, _)| at);
        let near = |at: usize| at.saturating_sub(2)..path.len().min(at + 3);
        let expected: BTreeSet<u32> =
            matching.flat_map(near).map(|at| at as u32 + 1).collect();
        let recalled = run(async {
            let journal = memory();
            write(&journal, session(1), &said).await;
            let branch = Branch::new(session(1), &tree(&journal, session(1)).await, id(head));
            let search = Search::in_memory(journal);
            search.recall(&branch, WORDS[word], 1_000).await.unwrap().messages
        });
        let recalled: BTreeSet<u32> = recalled.into_iter().map(|n| n.0).collect();
        prop_assert_eq!(recalled, expected);
    }
}
