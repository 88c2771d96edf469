//! Who embeds the library needs no other crate of the workspace.

use std::fs;

use crate::tidy::root;

#[test]
fn the_library_re_exports_every_crate_beneath_it() {
    let text = fs::read_to_string(root().join("crates/unisono/Cargo.toml")).unwrap();
    let manifest: toml::Table = text.parse().unwrap();
    let library = fs::read_to_string(root().join("crates/unisono/src/lib.rs")).unwrap();
    let dependencies = manifest["dependencies"].as_table().unwrap().keys();
    let ours: Vec<&String> = dependencies
        .filter(|name| name.starts_with("unisono-"))
        .collect();
    assert!(ours.len() > 5);
    for name in ours {
        let name = name.replace('-', "_");
        assert!(library.contains(&format!("pub use {name} as ")), "{name}");
    }
}
