//! The guide `docs/extending.md`: its files are written and its commands are run as they stand.

use std::fs;
use std::path::{Path, PathBuf};

use unisono_fake_provider::{Act, FakeProvider, Script};

use crate::support::{Place, finish};

/// The address that the guide's server has.
const ADDRESS: &str = "127.0.0.1:8099";

fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// A block of code: its language, the file it is, and its text.
struct Block {
    language: String,
    file: Option<String>,
    text: String,
}

fn blocks(text: &str) -> Vec<Block> {
    let mut blocks = Vec::new();
    let mut lines = text.lines();
    while let Some(line) = lines.next() {
        let Some(about) = line.strip_prefix("```") else {
            continue;
        };
        let (language, file) = match about.split_once(' ') {
            Some((language, file)) => (language, Some(file.to_owned())),
            None => (about, None),
        };
        let body: Vec<&str> = lines.by_ref().take_while(|line| *line != "```").collect();
        blocks.push(Block {
            language: language.to_owned(),
            file,
            text: body.join("\n") + "\n",
        });
    }
    blocks
}

fn run(place: &Place, line: &str) {
    let binary = Path::new(env!("CARGO_BIN_EXE_unisono")).parent().unwrap();
    let path = format!("{}:{}", binary.display(), std::env::var("PATH").unwrap());
    let mut command = place.command_of(Path::new("sh"), &["-c", line]);
    command
        .env("PATH", path)
        .env("PLANNING_TOKEN", "a-token-of-ones-own");
    finish(command.spawn().unwrap(), &[line]).expect(0);
}

#[test]
fn what_the_guide_says_works() {
    let server = Act::json(200, r#"{"text":"It fits."}"#);
    let server = FakeProvider::builder().script(Script::always(server));
    let server = server.start_on_thread();
    let guide = fs::read_to_string(root().join("docs/extending.md")).unwrap();
    let checks = fs::read_to_string(root().join(".ci/run")).unwrap();
    let place = Place::new();
    let (mut files, mut commands) = (0, 0);
    for block in blocks(&guide) {
        if let Some(file) = &block.file {
            let address = server.address().to_string();
            place.write(file, block.text.replace(ADDRESS, &address));
            files += 1;
            continue;
        }
        for line in block.text.lines().filter(|_| block.language == "sh") {
            commands += 1;
            match line.starts_with("cargo ") {
                // Those build a program: the checks of the whole project run them.
                true => assert!(checks.contains(line), "{line} is not in .ci/run"),
                false => run(&place, line),
            }
        }
    }
    assert_eq!((files, commands), (5, 9));
    assert_eq!(server.request_count(), 1);
}

#[test]
fn the_code_of_the_guide_is_that_of_the_examples() {
    let guide = fs::read_to_string(root().join("docs/extending.md")).unwrap();
    let example = |file: &str| fs::read_to_string(root().join("examples").join(file)).unwrap();
    let glossary = example("custom_agent/src/glossary.rs");
    let mains = example("actor_agent/src/main.rs") + &example("embed/src/main.rs");
    let code = blocks(&guide)
        .into_iter()
        .filter(|block| block.language == "rust");
    let mut found = 0;
    for line in code.flat_map(|block| block.text.lines().map(str::to_owned).collect::<Vec<_>>()) {
        let known = glossary.contains(&line) || mains.contains(&line);
        assert!(known, "{line} stands in no example");
        found += 1;
    }
    assert!(found > 8, "{found}");
}
