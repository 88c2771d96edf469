//! Crates are ready for a registry: their metadata is there, and their files are inside of them.

use std::collections::BTreeMap;
use std::fs;
use std::path::{Path, PathBuf};

use crate::tidy::{root, sources};

/// The directories of all crates that a registry is to have.
fn crates() -> Vec<PathBuf> {
    let found = fs::read_dir(root().join("crates")).expect("the crates");
    found.map(|entry| entry.expect("an entry").path()).collect()
}

fn manifest(directory: &Path) -> toml::Table {
    let text = fs::read_to_string(directory.join("Cargo.toml")).expect("a manifest");
    text.parse().expect("TOML")
}

#[test]
fn every_crate_has_what_a_registry_asks_for() {
    for directory in crates() {
        let manifest = manifest(&directory);
        let package = manifest["package"].as_table().unwrap();
        for key in ["description", "license", "readme", "keywords", "categories"] {
            assert!(package.contains_key(key), "{}: {key}", directory.display());
        }
        assert!(!package.contains_key("publish"), "{}", directory.display());
        let readme = fs::read_to_string(directory.join("README.md")).unwrap();
        let name = package["name"].as_str().unwrap();
        assert!(readme.starts_with(&format!("# {name}\n")), "{name}");
        let library = fs::read_to_string(directory.join("src/lib.rs")).unwrap();
        assert!(
            library.starts_with("#![doc = include_str!(\"../README.md\")]"),
            "{name}: the README is its documentation"
        );
    }
}

/// A registry drops the path of a dependency: without a version it cannot be found.
#[test]
fn crates_name_the_versions_of_each_other() {
    let workspace = manifest(&root());
    let version = workspace["workspace"]["package"]["version"].clone();
    let dependencies = workspace["workspace"]["dependencies"].as_table().unwrap();
    let paths: BTreeMap<_, _> = dependencies
        .iter()
        .filter(|(_, dependency)| {
            let path = dependency.get("path").and_then(toml::Value::as_str);
            path.is_some_and(|path| path.starts_with("crates/"))
        })
        .collect();
    assert_eq!(paths.len(), crates().len());
    for (name, dependency) in paths {
        assert_eq!(dependency.get("version"), Some(&version), "{name}");
    }
}

/// Sources that compile include only files of their own crate; a link brings others in.
#[test]
fn what_is_compiled_in_lies_in_its_crate() {
    for directory in crates() {
        let depth = |file: &Path| file.strip_prefix(&directory).unwrap().components().count() - 1;
        let mut files = Vec::new();
        sources(&directory.join("src"), &mut files);
        // A module of tests alone: it compares the book with the sources.
        files.retain(|file| !file.ends_with("cli/src/reference.rs"));
        for file in files {
            let text = fs::read_to_string(&file).unwrap();
            let compiled = text.split("#[cfg(test)]").next().unwrap_or_default();
            for included in compiled.split("include_str!(\"").skip(1) {
                let up = included.split('"').next().unwrap().matches("../").count();
                assert!(up <= depth(&file), "{}: {included:.60}", file.display());
            }
        }
    }
}
