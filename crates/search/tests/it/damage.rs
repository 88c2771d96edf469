//! Restarts, deletions, damage and kills: the index is right again, or made anew.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use unisono_search::{CommittedMessages, PlacedMessage, Search};
use unisono_session::State;
use unisono_store::Journal;

use crate::support::{Said, disk, find, found, go_on, memory, session, write};

fn talk(from: usize, to: usize) -> Vec<Said> {
    let text = |n: usize| format!("kestrel number{n} and the plan for it");
    (from..to).map(|n| Said::new(n, text(n))).collect()
}

#[tokio::test]
async fn it_follows_from_where_it_was() {
    let dir = tempfile::tempdir().unwrap();
    let journal = disk(&dir.path().join("store"));
    let at = dir.path().join("search");
    write(&journal, session(1), &talk(0, 30)).await;
    let search = Search::on_disk(journal.clone(), at.clone());
    assert_eq!(find(&search, "kestrel").await.len(), 30);
    search.close().await;
    go_on(&journal, session(1), &talk(30, 35)).await;
    write(&journal, session(2), &talk(0, 3)).await;
    let search = Search::on_disk(journal.clone(), at.clone());
    assert_eq!(find(&search, "kestrel").await.len(), 38);
    assert_eq!(found(&search, "number33").await, [(session(1), 34)]);
    search.close().await;
    // Deleted while nobody watched, and another one made under the same id.
    journal.delete(session(1)).await.unwrap();
    journal.delete(session(2)).await.unwrap();
    let other = |n| Said::new(n, format!("kestrel number{}", n + 40));
    write(
        &journal,
        session(2),
        &(0..10).map(other).collect::<Vec<_>>(),
    )
    .await;
    let search = Search::on_disk(journal.clone(), at);
    assert_eq!(found(&search, "kestrel").await.len(), 10);
    assert_eq!(found(&search, "number2").await, []);
    let condition = search.condition().await.unwrap();
    assert_eq!((condition.sessions, condition.messages), (1, 10));
    assert_eq!(condition.rebuilt_because, None);
    search.close().await;
    journal.close().await.unwrap();
}

/// What a session's actor tells after each commit.
async fn commit_notice(journal: &Journal, from: usize) -> CommittedMessages {
    let mut state = State::default();
    for (_, event) in journal.read(session(1), 1, 10_000).await.unwrap() {
        state.apply(&event).unwrap();
    }
    CommittedMessages {
        session: session(1),
        seq: state.events(),
        from,
        messages: PlacedMessage::messages_after(&state, from).collect(),
    }
}

#[tokio::test]
async fn what_is_told_is_taken_in_once_and_gaps_are_read_from_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let journal = memory();
    let search = Search::on_disk(journal.clone(), dir.path().join("search"));
    assert_eq!(find(&search, "kestrel").await.len(), 0);
    write(&journal, session(1), &talk(0, 4)).await;
    search.committed(commit_notice(&journal, 0).await);
    search.committed(commit_notice(&journal, 2).await);
    assert_eq!(find(&search, "kestrel").await.len(), 4);
    go_on(&journal, session(1), &talk(4, 9)).await;
    search.committed(commit_notice(&journal, 7).await);
    assert_eq!(find(&search, "kestrel").await.len(), 9);
    assert_eq!(found(&search, "number5").await, [(session(1), 6)]);
    journal.delete(session(1)).await.unwrap();
    search.removed(session(1));
    assert_eq!(find(&search, "kestrel").await.len(), 0);
}

#[tokio::test]
async fn more_than_the_queue_holds_is_read_from_the_journal() {
    let dir = tempfile::tempdir().unwrap();
    let journal = memory();
    write(&journal, session(1), &talk(0, 1)).await;
    let search = Search::on_disk(journal.clone(), dir.path().join("search"));
    // Nobody else runs on this thread until there is something to wait for.
    for n in 1..3_000 {
        let committed = CommittedMessages {
            session: session(n),
            seq: 1,
            from: 0,
            messages: Vec::new(),
        };
        search.committed(committed);
    }
    assert_eq!(find(&search, "kestrel").await.len(), 1);
}

/// Every file of the index, damaged in turn in three ways.
#[tokio::test]
async fn a_damaged_index_is_noticed_and_made_anew() {
    let dir = tempfile::tempdir().unwrap();
    let journal = memory();
    write(&journal, session(1), &talk(0, 20)).await;
    let at = dir.path().join("search");
    let ways: [fn(&Path); 3] = [
        |path| {
            let mut bytes = fs::read(path).unwrap();
            let middle = bytes.len() / 3;
            bytes[middle] ^= 0x10;
            fs::write(path, bytes).unwrap();
        },
        |path| {
            let bytes = fs::read(path).unwrap();
            fs::write(path, &bytes[..bytes.len() / 2]).unwrap();
        },
        |path| fs::remove_file(path).unwrap(),
    ];
    for damage in ways {
        let mut damaged = 0;
        loop {
            let search = Search::on_disk(journal.clone(), at.clone());
            assert_eq!(find(&search, "kestrel").await.len(), 20);
            assert_eq!(found(&search, "number7").await, [(session(1), 8)]);
            search.close().await;
            let mut files: Vec<_> = fs::read_dir(&at)
                .unwrap()
                .map(|e| e.unwrap().path())
                .collect();
            files.retain(|path| !path.to_string_lossy().ends_with(".lock"));
            files.sort_by_key(|path| path.extension().map(ToOwned::to_owned));
            let Some(file) = files.get(damaged) else {
                break;
            };
            damage(file);
            damaged += 1;
        }
        assert!(damaged >= 7, "an index has more than {damaged} files");
    }
    fs::write(at.join("meta.json"), "{}").unwrap();
    let search = Search::on_disk(journal.clone(), at.clone());
    let condition = search.condition().await.unwrap();
    assert!(condition.rebuilt_because.is_some());
    assert_eq!(condition.messages, 20);
}

#[tokio::test]
async fn compaction_leaves_what_is_there_and_nothing_of_what_was_removed() {
    let dir = tempfile::tempdir().unwrap();
    let journal = memory();
    let at = dir.path().join("search");
    write(&journal, session(1), &talk(0, 20)).await;
    write(&journal, session(2), &[Said::new(0, "xylophone secret")]).await;
    let search = Search::on_disk(journal.clone(), at.clone());
    assert_eq!(find(&search, "xylophone").await.len(), 1);
    journal.delete(session(2)).await.unwrap();
    search.removed(session(2));
    assert_eq!(find(&search, "xylophone").await.len(), 0);
    search.close().await;
    unisono_search::compact(&at).unwrap();
    for entry in fs::read_dir(&at).unwrap() {
        let bytes = fs::read(entry.unwrap().path()).unwrap();
        assert!(!bytes.windows(4).any(|w| w == b"xylo"));
    }
    let search = Search::on_disk(journal, at);
    assert_eq!(find(&search, "kestrel").await.len(), 20);
}

#[tokio::test]
async fn a_purge_rewrites_the_index_only_after_a_removal() {
    let dir = tempfile::tempdir().unwrap();
    let journal = memory();
    let at = dir.path().join("search");
    let segments = || -> BTreeSet<PathBuf> {
        let files = fs::read_dir(&at).unwrap().map(|file| file.unwrap().path());
        files
            .filter(|path| path.extension().is_some_and(|end| end == "store"))
            .collect()
    };
    write(&journal, session(1), &talk(0, 20)).await;
    write(&journal, session(2), &talk(0, 3)).await;
    let search = Search::on_disk(journal.clone(), at.clone());
    search.purge().await.unwrap();
    let first = segments();
    assert_eq!(first.len(), 1);
    write(&journal, session(3), &talk(0, 5)).await;
    search.purge().await.unwrap();
    assert!(segments().is_superset(&first));
    journal.delete(session(2)).await.unwrap();
    search.removed(session(2));
    search.purge().await.unwrap();
    assert!(segments().is_disjoint(&first));
    assert_eq!(find(&search, "kestrel").await.len(), 25);
    search.close().await;
}
