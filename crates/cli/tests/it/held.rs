//! Stores that cannot be used.

use std::fs;
use std::path::{Path, PathBuf};

use crate::support::{HasAll as _, Place, example};

#[test]
fn a_second_process_is_told_who_holds_the_store() {
    let place = Place::new();
    let file = example();
    let going = place.held();
    let pid = format!("is held by pid {}", going.id());
    for verb in [
        &["sessions", "list"][..],
        &["run", &file],
        &["doctor"],
        &["vacuum"],
    ] {
        place.call(verb).expect(1).says(&[&pid, "--store DIR"]);
    }
    going.signal("TERM");
    going.finish().expect(130);
}

#[test]
fn a_directory_that_cannot_be_written_is_named() {
    let place = Place::new();
    place.write("file", "no directory");
    let file = example();
    let below = place.path("file/store").display().to_string();
    for store in [below.as_str(), "/proc/unisono"] {
        let done = place.call(&["run", &file, "--store", store]).expect(1);
        done.says(&["error: cannot ", store]);
    }
    let done = place.call(&["run", &file, "--store", "config"]).expect(1);
    done.says(&["config is not a store", "nothing was touched"]);
}

#[test]
fn a_store_of_a_newer_version_is_not_touched() {
    let place = Place::new();
    place.call(&["import", &example()]).expect(0);
    let format = place.path("data/unisono/FORMAT");
    let text = std::fs::read_to_string(&format).unwrap();
    let newer = text.replace("format 1", "format 9");
    assert_ne!(text, newer);
    std::fs::write(&format, newer).unwrap();
    let done = place.call(&["sessions", "list"]).expect(1);
    done.says(&["has format 9", "use the newer version"]);
}

/// What the version before format 1 wrote: a store in a place of its own, and where its exports are.
fn before_format_1() -> (Place, PathBuf) {
    let from = Path::new(env!("CARGO_MANIFEST_DIR")).join("../store/tests/before-format-1");
    let place = Place::new();
    for dir in ["", "data"] {
        let to = place.path("data/unisono").join(dir);
        fs::create_dir_all(&to).unwrap();
        for entry in fs::read_dir(from.join("store").join(dir))
            .unwrap()
            .flatten()
        {
            if entry.path().is_file() {
                fs::copy(entry.path(), to.join(entry.file_name())).unwrap();
            }
        }
    }
    (place, from)
}

#[test]
fn a_store_from_before_format_1_is_not_touched_and_its_exports_are_read() {
    let (place, from) = before_format_1();
    let root = place.path("data/unisono");
    let files = || {
        let listed = ["FORMAT", "acknowledged", "data/conf", "data/db"];
        let bytes = listed.map(|file| fs::read(root.join(file)).unwrap());
        (fs::read_dir(&root).unwrap().count(), bytes)
    };
    let before = files();
    let talk = from.join("talk.jsonl").display().to_string();
    for verb in [
        &["sessions", "list"][..],
        &["context", "latest"],
        &["import", &talk],
        &["run", &talk],
        &["doctor"],
        &["vacuum"],
        &["serve", "--set", "server.bind=127.0.0.1:0"],
    ] {
        let done = place.call(verb).expect(1);
        done.says(&[
            "before format 1",
            "unisono export SESSION",
            "nothing was touched",
        ]);
        assert_eq!(files(), before, "{verb:?}");
    }

    let elsewhere = ["--store", "other"];
    let archive = from.join("archive.unisono").display().to_string();
    let done = place.call(&[&["import", &archive][..], &elsewhere].concat());
    done.expect(1)
        .says(&["before format 1", "unisono export SESSION"]);
    place.json(&[&["import", &talk][..], &elsewhere].concat());
    let said = place.stdout(&[&["history", "latest"][..], &elsewhere].concat());
    said.has_all(&["Where do we open the depot?", "What is open?"]);
    let listed = place.json(&[&["checkpoints", "list", "latest"][..], &elsewhere].concat());
    assert_eq!(listed.as_array().map(Vec::len), Some(1), "{listed}");
}

#[test]
fn looking_makes_no_store() {
    let place = Place::new();
    place.says(&["sessions", "list"], &["no sessions yet"]);
    place.refuses(&["context"], &["this store has no session yet"]);
    let looked = place.call(&["doctor"]).expect(0);
    assert!(looked.stdout.contains("no store yet"), "{looked:?}");
    assert!(!place.path("data/unisono").exists());
}
