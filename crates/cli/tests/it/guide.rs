//! The guide `docs/extending.md`: its files are written and its commands are run as they stand.

use std::fs;
use std::path::Path;

use unisono_fake_provider::{Act, FakeProvider, Script};

use crate::deploy::root;
use crate::support::{Place, finish};

const ADDRESS: &str = "127.0.0.1:8099/plan";

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

/// How the checks run the program of a line: a member of the workspace as it was built with it.
fn built(line: &str) -> String {
    match line.strip_prefix("cargo run --locked -p ") {
        Some(member) => format!("target/debug/{}", member.replacen(" -- ", " ", 1)),
        None => line.to_owned(),
    }
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
            // The fake provider answers at this path.
            let address = format!("{}/v1/chat/completions", server.address());
            place.write(file, block.text.replace(ADDRESS, &address));
            files += 1;
            continue;
        }
        for line in block.text.lines().filter(|_| block.language == "sh") {
            commands += 1;
            match line.starts_with("cargo ") {
                // Those build a program: the checks of the whole project run them.
                true => assert!(checks.contains(&built(line)), "{line} is not in .ci/run"),
                false => run(&place, line),
            }
        }
    }
    assert_eq!((files, commands), (5, 9));
    assert_eq!(server.request_count(), 1);
}

#[test]
fn the_code_of_the_guide_is_that_of_the_examples() {
    let text = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    let example = |file: &str| text(&format!("examples/{file}"));
    let glossary = example("custom_agent/src/glossary.rs");
    let mains = example("actor_agent/src/main.rs") + &example("embed/src/main.rs");
    let mut found = 0;
    for page in ["docs/extending.md", "README.md"] {
        let code = blocks(&text(page));
        let code = code.iter().filter(|block| block.language == "rust");
        for line in code.flat_map(|block| block.text.lines()) {
            let known = glossary.contains(line) || mains.contains(line);
            assert!(known, "{page}: {line} stands in no example");
            found += 1;
        }
    }
    assert!(found > 12, "{found}");
}

#[test]
fn the_program_that_embeds_the_library_has_at_most_forty_lines() {
    let main = fs::read_to_string(root().join("examples/embed/src/main.rs")).unwrap();
    let lines = main.lines().filter(|line| !line.trim().is_empty()).count();
    assert!(lines <= 40, "{lines}");
}

/// The manifest of a program outside of this repository names crates and features that there are.
#[test]
fn the_manifest_of_the_guide_fits_the_repository() {
    let guide = fs::read_to_string(root().join("docs/extending.md")).unwrap();
    let read = |text: &str| text.parse::<toml::Table>().unwrap();
    let manifests = blocks(&guide).into_iter();
    let manifests = manifests.filter(|block| block.text.starts_with("[package]"));
    let mut paths = 0;
    for manifest in manifests.map(|block| read(&block.text)) {
        assert_eq!(manifest["package"]["edition"].as_str(), Some("2024"));
        for (name, dependency) in manifest["dependencies"].as_table().unwrap() {
            let Some(path) = dependency.get("path").and_then(toml::Value::as_str) else {
                continue;
            };
            // The guide has the repository beside the program.
            let path = path.strip_prefix("../unisono/").unwrap();
            let there = root().join(path).join("Cargo.toml");
            let there = read(&fs::read_to_string(there).unwrap());
            assert_eq!(there["package"]["name"].as_str(), Some(&**name));
            let features = dependency.get("features").and_then(toml::Value::as_array);
            for feature in features.into_iter().flatten() {
                let feature = feature.as_str().unwrap();
                assert!(there["features"].get(feature).is_some(), "{feature}");
            }
            paths += 1;
        }
    }
    assert_eq!(paths, 1);
}
