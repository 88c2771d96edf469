//! Tests that the bytes of every kind of event stay the same.
//!
//! The files are `tests/golden/record/<sample>.hex`, 32 bytes per line. A file that differs means
//! that the format was changed: a type may only be extended at the end of its list, and its samples
//! stay. `UNISONO_BLESS=1` writes the files of new samples, and changes no others.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use super::{encode, samples};
use crate::record::decode;

fn directory() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/golden/record")
}

fn hex(bytes: &[u8]) -> String {
    let line = |line: &[u8]| {
        line.iter()
            .map(|byte| format!("{byte:02x}"))
            .collect::<String>()
    };
    bytes.chunks(32).map(|chunk| line(chunk) + "\n").collect()
}

fn unhex(text: &str) -> Vec<u8> {
    let digits: Vec<char> = text.chars().filter(|c| !c.is_whitespace()).collect();
    let byte = |pair: &[char]| u8::from_str_radix(&String::from_iter(pair), 16).unwrap();
    digits.chunks(2).map(byte).collect()
}

#[test]
fn it_is_written_and_read_as_ever() {
    let mut stale: BTreeSet<String> = fs::read_dir(directory())
        .unwrap()
        .map(|entry| entry.unwrap().file_name().into_string().unwrap())
        .collect();
    for (name, event) in samples::all() {
        let file = format!("{name}.hex");
        let written = encode(&event).unwrap();
        let path = directory().join(&file);
        if std::env::var_os("UNISONO_BLESS").is_some() && !path.exists() {
            fs::write(&path, hex(&written)).unwrap();
        }
        let golden = fs::read_to_string(path).unwrap_or_default();
        assert_eq!(hex(&written), golden, "{file}: what is written changed");
        assert_eq!(
            decode(&unhex(&golden)),
            Ok(event),
            "{file}: what is read changed"
        );
        stale.remove(&file);
    }
    assert_eq!(stale, BTreeSet::new(), "files without a sample");
}
