//! The rules of the house that a compiler does not know: which crate may use which.

use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::process::Command;

/// The arrows between the project's crates (ordinary dependencies).
const ARROWS: &[(&str, &[&str])] = &[
    ("unisono-context", &[]),
    ("unisono-session", &["unisono-context"]),
    ("unisono-model", &["unisono-context"]),
    ("unisono-store", &["unisono-context", "unisono-session"]),
    (
        "unisono-search",
        &["unisono-context", "unisono-session", "unisono-store"],
    ),
    (
        "unisono-runtime",
        &[
            "unisono-context",
            "unisono-session",
            "unisono-model",
            "unisono-store",
            "unisono-search",
        ],
    ),
    ("unisono-api", &[]),
    ("unisono-client", &["unisono-api"]),
    ("unisono-web", &["unisono-api"]),
    ("unisono-acp", &["unisono-api"]),
    (
        "unisono-config",
        &[
            "unisono-context",
            "unisono-session",
            "unisono-model",
            "unisono-runtime",
        ],
    ),
    (
        "unisono-interchange",
        &[
            "unisono-api",
            "unisono-config",
            "unisono-context",
            "unisono-model",
            "unisono-session",
        ],
    ),
    (
        "unisono",
        &[
            "unisono-api",
            "unisono-config",
            "unisono-interchange",
            "unisono-context",
            "unisono-session",
            "unisono-model",
            "unisono-store",
            "unisono-search",
            "unisono-runtime",
        ],
    ),
    (
        "unisono-server",
        &[
            "unisono",
            "unisono-api",
            "unisono-web",
            "unisono-config",
            "unisono-context",
            "unisono-session",
            "unisono-store",
            "unisono-runtime",
        ],
    ),
    (
        "unisono-cli",
        &[
            "unisono-server",
            "unisono-context",
            "unisono-session",
            "unisono-model",
            "unisono-store",
            "unisono-search",
            "unisono-runtime",
            "unisono-config",
            "unisono-interchange",
            "unisono",
            "unisono-api",
            "unisono-client",
            "unisono-acp",
        ],
    ),
];

/// Dependencies that only one crate may have.
const CONFINED: &[(&str, &str)] = &[
    ("ractor", "unisono-runtime"),
    ("sled", "unisono-store"),
    ("bincode", "unisono-store"),
    ("tokio-postgres", "unisono-store"),
    ("tantivy", "unisono-search"),
    ("tiktoken-rs", "unisono-model"),
    ("figment", "unisono-config"),
    ("opentelemetry", "unisono"),
    ("opentelemetry_sdk", "unisono"),
    ("opentelemetry-http", "unisono"),
    ("opentelemetry-otlp", "unisono"),
    ("clap", "unisono-cli"),
    ("reqwest", "unisono-model"),
    ("rmcp", "unisono-runtime"),
    ("jsonschema", "unisono-runtime"),
    ("rustls", "unisono-model"),
    ("axum", "unisono-server"),
    ("hyper", "unisono-server"),
    ("utoipa-axum", "unisono-server"),
    ("maud", "unisono-web"),
];

/// What the pure crates may not have, not even indirectly through a crate of ours.
const IMPURE: &[&str] = &[
    "tokio", "ractor", "sled", "reqwest", "rand", "serde", "tracing",
];

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Ordinary dependencies of every crate of the workspace, by name.
fn dependencies() -> BTreeMap<String, BTreeSet<String>> {
    let output = Command::new(env!("CARGO"))
        .args(["metadata", "--format-version=1", "--no-deps", "--offline"])
        .current_dir(root())
        .output()
        .expect("cargo metadata runs");
    assert!(
        output.status.success(),
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
    let metadata: serde_json::Value = serde_json::from_slice(&output.stdout).expect("it is JSON");
    let packages = metadata["packages"].as_array().expect("packages");
    let of = |package: &serde_json::Value| {
        let all = package["dependencies"]
            .as_array()
            .expect("dependencies")
            .iter();
        let ordinary = all.filter(|dependency| dependency["kind"].is_null());
        ordinary
            .map(|d| d["name"].as_str().expect("name").to_owned())
            .collect()
    };
    packages
        .iter()
        .map(|p| (p["name"].as_str().expect("name").to_owned(), of(p)))
        .collect()
}

#[test]
fn no_crate_has_an_arrow_it_may_not_have() {
    let found = dependencies();
    for (name, allowed) in ARROWS {
        let ours = found[*name].iter().filter(|d| d.starts_with("unisono"));
        for dependency in ours {
            assert!(
                allowed.contains(&dependency.as_str()),
                "{name} may not use {dependency}"
            );
        }
    }
}

#[test]
fn heavy_dependencies_stay_in_their_crate() {
    let product: BTreeSet<&str> = ARROWS.iter().map(|(name, _)| *name).collect();
    for (crate_name, dependencies) in dependencies() {
        for (confined, home) in CONFINED {
            // The other side of MCP is the server's, and daemons reach each other in TLS; a daemon's
            // client speaks HTTP as well; the page is routes of a server; a database is spoken to in TLS.
            let elsewhere_too = match crate_name.as_str() {
                "unisono-server" => matches!(*confined, "rmcp" | "rustls"),
                "unisono-client" => matches!(*confined, "reqwest" | "rustls"),
                "unisono-web" => *confined == "axum",
                "unisono-store" => *confined == "rustls",
                _ => false,
            };
            let elsewhere =
                dependencies.contains(*confined) && crate_name != *home && !elsewhere_too;
            let ours = product.contains(crate_name.as_str());
            assert!(
                !(elsewhere && ours),
                "{confined} belongs to {home}, not to {crate_name}"
            );
        }
    }
}

#[test]
fn the_pure_crates_are_pure() {
    let found = dependencies();
    for name in ["unisono-context", "unisono-session"] {
        for impure in IMPURE {
            assert!(
                !found[name].contains(*impure),
                "{name} may not use {impure}"
            );
        }
    }
}

pub(crate) fn sources(directory: &Path, found: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).expect("directory").flatten() {
        let path = entry.path();
        if path.is_dir() {
            sources(&path, found);
        } else if path.extension().is_some_and(|e| e == "rs") {
            found.push(path);
        }
    }
}

#[test]
fn every_module_says_what_it_is_and_none_grows_out_of_hand() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    for file in files
        .iter()
        .filter(|f| f.components().any(|c| c.as_os_str() == "src"))
        .filter(|f| f.file_name().is_none_or(|name| name != "tests.rs"))
    {
        let text = std::fs::read_to_string(file).expect("source");
        let shown = file.display();
        let readme = "#![doc = include_str!(\"../README.md\")]";
        let says = text.starts_with("//!") || text.starts_with(readme);
        assert!(says, "{shown} has no module comment");
        assert_ne!(
            file.file_name().and_then(|n| n.to_str()),
            Some("mod.rs"),
            "{shown}"
        );
        let production = text
            .split("\n#[cfg(test)]\nmod ")
            .next()
            .unwrap_or_default();
        let lines = production.lines().count();
        assert!(lines <= 500, "{shown} has {lines} lines of production code");
    }
}

#[test]
fn bincode_is_used_in_one_file() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let users = files.iter().filter(|file| {
        let text = std::fs::read_to_string(file).expect("source");
        text.contains("bincode::")
    });
    let users: Vec<_> = users.filter_map(|f| f.file_name()?.to_str()).collect();
    assert_eq!(users, ["codec.rs"]);
}

#[test]
fn facts_of_the_journal_are_not_read_above_the_library() {
    let mut files = Vec::new();
    for name in ["acp", "cli", "client", "server", "web"] {
        sources(&root().join("crates").join(name).join("src"), &mut files);
    }
    for file in files {
        let text = std::fs::read_to_string(&file).expect("source");
        let statements = text.split(';');
        let imports = statements.filter_map(|it| it.split_once("use unisono_session::"));
        let mut names = imports.flat_map(|(_, list)| list.split(|c: char| !c.is_alphanumeric()));
        assert!(!names.any(|name| name == "Fact"), "{}", file.display());
    }
}

/// The names under which types of the API are described. One name for two types would leave one of
/// them out of the description, without a word.
#[test]
fn no_two_types_of_the_api_have_one_name() {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let mut names: BTreeMap<String, PathBuf> = BTreeMap::new();
    let mut described = 0;
    for file in files {
        let text = std::fs::read_to_string(&file).expect("source");
        let mut items = text.split("#[derive(").skip(1);
        for item in &mut items {
            let Some((attributes, rest)) = item.split_once("\npub ") else {
                continue;
            };
            if !attributes.contains("derive(utoipa::ToSchema)") {
                continue;
            }
            let own = rest.split_whitespace().nth(1).unwrap();
            let own = own.split(['<', '(', ';', '{']).next().unwrap();
            let given = attributes.split_once("schema(as = ");
            let name = given.map_or(own, |(_, given)| given.split(')').next().unwrap());
            described += 1;
            if let Some(other) = names.insert(name.to_owned(), file.clone()) {
                panic!(
                    "{name} of {} is called as a type of {} is: give it `schema(as = …)`",
                    file.display(),
                    other.display()
                );
            }
        }
    }
    assert!(described > 60, "only {described} types were found");
}

/// The examples in a comment or a page: the language of each block of code.
fn examples(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).expect("source");
    let is_page = file.extension().is_some_and(|e| e == "md");
    let lines = text.lines().filter_map(|line| match is_page {
        true => Some(line),
        false => {
            let line = line.trim_start();
            line.strip_prefix("//!").or(line.strip_prefix("///"))
        }
    });
    let fences = lines.filter_map(|line| line.trim_start().strip_prefix("```"));
    // Every second one ends a block.
    fences.step_by(2).map(str::to_owned).collect()
}

#[test]
fn a_crate_has_tests_of_its_documentation_if_that_has_examples() {
    for entry in std::fs::read_dir(root().join("crates")).expect("crates") {
        let directory = entry.expect("crate").path();
        let mut files = vec![directory.join("README.md")];
        sources(&directory.join("src"), &mut files);
        let is_tested = |language: &String| match language.as_str() {
            "" | "no_run" | "should_panic" => true,
            other => other.starts_with("rust"),
        };
        let has_examples = files
            .iter()
            .flat_map(|file| examples(file))
            .any(|it| is_tested(&it));
        let manifest = std::fs::read_to_string(directory.join("Cargo.toml")).expect("manifest");
        let has_tests = !manifest.contains("\ndoctest = false\n");
        assert_eq!(has_examples, has_tests, "{}", directory.display());
    }
}
