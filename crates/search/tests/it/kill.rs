//! SIGKILL of a real process while it takes a long session in.

use std::collections::BTreeSet;
use std::env;
use std::fs;
use std::io::{BufRead, BufReader};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

use unisono_search::{Branch, Query, RecallResult, Search};
use unisono_store::Journal;

use crate::support::{Said, disk, go_on, id, memory, session, tree, write};

const CHILD: &str = "UNISONO_SEARCH_CHILD";
/// More than are taken in between two commits.
const MESSAGES: usize = 9_000;

/// What the child process does: takes all in, says when it begins and when it is done.
#[tokio::test(flavor = "multi_thread")]
async fn child() {
    let Some(dir) = env::var_os(CHILD).map(PathBuf::from) else {
        return;
    };
    let journal = disk(&dir.join("store"));
    let search = Search::on_disk(journal, dir.join("search"));
    println!("\nbegun");
    search.settle(None).await.unwrap();
    println!("\ndone");
    std::future::pending::<()>().await;
}

fn spawn(dir: &Path) -> Child {
    let mut command = Command::new(env::current_exe().unwrap());
    command
        .args(["--exact", "kill::child", "--nocapture"])
        .env(CHILD, dir)
        .stdout(Stdio::piped())
        .stderr(Stdio::null());
    let mut child = command.spawn().unwrap();
    let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
    assert!(lines.any(|line| line.is_ok_and(|line| line == "begun")));
    // What it says later is not read, and fits in the pipe.
    std::mem::forget(lines);
    child
}

fn bytes(dir: &Path) -> u64 {
    let entries = fs::read_dir(dir).into_iter().flatten().flatten();
    entries
        .filter_map(|entry| entry.metadata().ok())
        .map(|meta| meta.len())
        .sum()
}

#[tokio::test(flavor = "multi_thread")]
async fn a_kill_at_any_place_loses_nothing_and_finds_nothing_twice() {
    let dir = tempfile::tempdir().unwrap();
    let journal = disk(&dir.path().join("store"));
    let text = |n: usize| format!("kestrel number{n} and some words more");
    let said: Vec<Said> = (0..MESSAGES).map(|n| Said::new(n, text(n))).collect();
    write(&journal, session(1), &said).await;
    journal.close().await.unwrap();
    let index = dir.path().join("search");
    // Before anything is written, in the middle of a segment, after the first commit.
    for enough in [0, 1, 100_000, 400_000] {
        let mut child = spawn(dir.path());
        let started = Instant::now();
        while bytes(&index) < enough && started.elapsed() < Duration::from_secs(20) {
            std::thread::yield_now();
        }
        child.kill().unwrap();
        child.wait().unwrap();
    }
    let journal = disk(&dir.path().join("store"));
    let search = Search::on_disk(journal.clone(), index);
    search.settle(None).await.unwrap();
    let query = Query::parse("kestrel", unisono_context::Timestamp(0)).unwrap();
    let found = search.find(&query, &[], 2 * MESSAGES).await.unwrap().found;
    let ordinals: BTreeSet<u32> = found.iter().map(|found| found.ordinal.0).collect();
    assert_eq!((found.len(), ordinals.len()), (MESSAGES, MESSAGES));
    assert_eq!(search.condition().await.unwrap().messages, MESSAGES as u64);
    search.close().await;
    journal.close().await.unwrap();
}

/// What an agent is told in one life of the process, and why the index had to be made anew.
async fn life(journal: &Journal, index: &Path, head: usize) -> (RecallResult, Option<String>) {
    let search = Search::on_disk(journal.clone(), index.to_owned());
    let branch = Branch::new(session(1), &tree(journal, session(1)).await, id(head));
    let recalled = search.recall(&branch, "kestrel", 8).await.unwrap();
    let rebuilt_because = search.condition().await.unwrap().rebuilt_because;
    search.close().await;
    (recalled, rebuilt_because)
}

#[tokio::test]
async fn a_kill_just_before_a_commit_counts_changes_nothing_that_agents_are_told() {
    let dir = tempfile::tempdir().unwrap();
    let (journal, index) = (memory(), dir.path().join("search"));
    let text = |n: usize| format!("kestrel number{n} and some words more");
    let said: Vec<Said> = (0..12).map(|n| Said::new(n, text(n))).collect();
    write(&journal, session(1), &said[..10]).await;
    life(&journal, &index, 9).await;
    go_on(&journal, session(1), &said[10..]).await;
    // A commit counts once this file is replaced, and all others are written before.
    let counts = index.join("meta.json");
    let before = fs::read(&counts).unwrap();
    let undisturbed = life(&journal, &index, 11).await;
    fs::write(&counts, &before).unwrap();
    assert!(entries(&index, ".del") > 0, "it removed the old cursor");
    assert_eq!(life(&journal, &index, 11).await, undisturbed);
    assert_eq!(undisturbed.1, None);
    // What the engine does not know of, it cannot clear away: then all is made anew.
    fs::write(&counts, &before).unwrap();
    fs::remove_file(index.join(".managed.json")).unwrap();
    let (recalled, rebuilt_because) = life(&journal, &index, 11).await;
    assert_eq!(recalled, undisturbed.0);
    assert!(rebuilt_because.is_some());
}

/// How many files have names that end so.
fn entries(dir: &Path, end: &str) -> usize {
    let names = fs::read_dir(dir).unwrap().flatten();
    let names = names.filter(|entry| entry.file_name().to_string_lossy().ends_with(end));
    names.count()
}
