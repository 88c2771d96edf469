//! Stores that cannot be used.

use crate::support::{Place, example};

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

#[test]
fn looking_makes_no_store() {
    let place = Place::new();
    place
        .call(&["sessions", "list"])
        .expect(0)
        .says(&["no sessions yet"]);
    place
        .call(&["context"])
        .expect(2)
        .says(&["there is no session in this store yet"]);
    let looked = place.call(&["doctor"]).expect(0);
    assert!(looked.stdout.contains("no store yet"), "{looked:?}");
    assert!(!place.path("data/unisono").exists());
}
