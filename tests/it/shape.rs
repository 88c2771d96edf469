//! The form of the code: lengths of functions, circles of modules, names that cannot be searched.

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

use crate::tidy::{root, sources};

/// The most lines of a function.
const LONGEST: usize = 60;

/// Names under which a function cannot be found, and words of no term of the glossary.
const UNSEARCHABLE: &[&str] = &[
    "anew", "aside", "asked", "at", "besides", "due", "heard", "hits", "of", "past", "room",
    "said", "says", "standing", "told",
];

/// A file of a crate's own code, without its tests.
struct Source {
    name: String,
    crate_name: String,
    /// Its module below the root of the crate.
    top: String,
    text: String,
}

fn production() -> Vec<Source> {
    let mut files = Vec::new();
    sources(&root().join("crates"), &mut files);
    let mut found: Vec<Source> = files.iter().filter_map(|file| source(file)).collect();
    found.sort_by(|a, b| a.name.cmp(&b.name));
    found
}

fn source(file: &Path) -> Option<Source> {
    let name = file.strip_prefix(root().join("crates")).ok()?;
    let parts: Vec<&str> = name.iter().filter_map(|part| part.to_str()).collect();
    let [crate_name, "src", inner @ ..] = &parts[..] else {
        return None;
    };
    let is_test = |part: &&str| matches!(*part, "tests" | "tests.rs" | "fixture.rs");
    if inner.iter().any(is_test) {
        return None;
    }
    let text = std::fs::read_to_string(file).expect("source");
    let text = text.split("\n#[cfg(test)]\nmod ").next()?.to_owned();
    Some(Source {
        name: parts.join("/"),
        crate_name: (*crate_name).to_owned(),
        top: Path::new(inner.first()?).file_stem()?.to_str()?.to_owned(),
        text,
    })
}

/// The functions of a file: their names, and their lines from the first to the closing brace.
/// Relies on the formatter, which puts that brace under the `fn`.
fn functions(text: &str) -> Vec<(&str, usize)> {
    let lines: Vec<&str> = text.lines().collect();
    let mut found = Vec::new();
    for (at, line) in lines.iter().enumerate() {
        let indent = &line[..line.len() - line.trim_start().len()];
        let Some(name) = function_name(line.trim_start()) else {
            continue;
        };
        let end = format!("{indent}}}");
        let ends = |line: &str| {
            let rest = line.strip_prefix(indent).unwrap_or("  ");
            line == end || (!rest.starts_with(' ') && rest.ends_with(';'))
        };
        let one_line = line.ends_with('}') || line.ends_with(';');
        let length = match one_line {
            true => 1,
            false => {
                2 + lines[at + 1..]
                    .iter()
                    .take_while(|line| !ends(line))
                    .count()
            }
        };
        found.push((name, length));
    }
    found
}

/// The name, where a line begins a function.
fn function_name(line: &str) -> Option<&str> {
    let (before, name) = line.split_once("fn ")?;
    let is_keyword = |word| {
        matches!(
            word,
            "pub" | "pub(crate)" | "pub(super)" | "const" | "async"
        )
    };
    if !before.split_whitespace().all(is_keyword) {
        return None;
    }
    name.split(|c: char| !c.is_alphanumeric() && c != '_')
        .next()
}

#[test]
fn no_function_is_longer_than_a_page() {
    let mut seen = 0;
    for source in production() {
        for (name, lines) in functions(&source.text) {
            seen += 1;
            assert!(
                lines <= LONGEST,
                "`{name}` in {} has {lines} lines, {LONGEST} are allowed",
                source.name
            );
        }
    }
    assert!(seen > 4_000, "{seen} functions were seen");
}

/// The modules of each crate, with those that each uses.
fn uses() -> BTreeMap<String, BTreeMap<String, BTreeSet<String>>> {
    let sources = production();
    let mut crates: BTreeMap<String, BTreeMap<String, BTreeSet<String>>> = BTreeMap::new();
    for source in &sources {
        let modules = crates.entry(source.crate_name.clone()).or_default();
        modules.entry(source.top.clone()).or_default();
    }
    for source in &sources {
        let modules = crates.get_mut(&source.crate_name).expect("a crate");
        let known: BTreeSet<String> = modules.keys().cloned().collect();
        let used = modules.get_mut(&source.top).expect("a module");
        let lines = source.text.lines();
        let code = lines.filter(|line| !line.trim_start().starts_with("//"));
        for name in named(&code.collect::<Vec<_>>().join("\n")) {
            if known.contains(name) && name != source.top {
                used.insert(name.to_owned());
            }
        }
    }
    for modules in crates.values_mut() {
        modules.remove("lib");
        modules.remove("main");
    }
    crates
}

/// The modules that follow `crate::`, also in braces.
fn named(code: &str) -> Vec<&str> {
    let mut found = Vec::new();
    for part in code.split("crate::").skip(1) {
        match part.strip_prefix('{') {
            Some(list) => found.extend(listed(list).into_iter().map(first_word)),
            None => found.push(first_word(part)),
        }
    }
    found
}

/// The beginnings of the items of a list in braces, without those of inner lists.
fn listed(list: &str) -> Vec<&str> {
    let (mut found, mut depth, mut is_next) = (Vec::new(), 0, true);
    for (at, c) in list.char_indices() {
        match c {
            '{' => depth += 1,
            '}' if depth == 0 => break,
            '}' => depth -= 1,
            ',' if depth == 0 => is_next = true,
            c if is_next && !c.is_whitespace() => {
                found.push(&list[at..]);
                is_next = false;
            }
            _ => {}
        }
    }
    found
}

fn first_word(code: &str) -> &str {
    let end = code.find(|c: char| !c.is_alphanumeric() && c != '_');
    &code[..end.unwrap_or(code.len())]
}

/// The modules that can be reached from one.
fn reached(uses: &BTreeMap<String, BTreeSet<String>>, from: &str) -> BTreeSet<String> {
    let (mut seen, mut next) = (BTreeSet::new(), vec![from.to_owned()]);
    while let Some(module) = next.pop() {
        for used in uses.get(&module).into_iter().flatten() {
            if seen.insert(used.clone()) {
                next.push(used.clone());
            }
        }
    }
    seen
}

/// Sets of modules of which each can be reached from each other.
fn circles(uses: &BTreeMap<String, BTreeSet<String>>) -> BTreeSet<Vec<String>> {
    let modules = uses.keys();
    let reach: BTreeMap<&String, BTreeSet<String>> = modules
        .map(|module| (module, reached(uses, module)))
        .collect();
    let circle = |(module, own): (&&String, &BTreeSet<String>)| {
        let with = reach
            .iter()
            .filter(|(other, theirs)| own.contains(**other) && theirs.contains(*module));
        let with: Vec<String> = with.map(|(other, _)| (*other).clone()).collect();
        (with.len() > 1).then_some(with)
    };
    reach.iter().filter_map(circle).collect()
}

#[test]
fn modules_of_a_crate_do_not_need_each_other() {
    let crates = uses();
    let modules: usize = crates.values().map(BTreeMap::len).sum();
    assert!(modules > 300, "{modules} modules were seen");
    for (name, uses) in &crates {
        let found = circles(uses);
        assert!(
            found.is_empty(),
            "modules of {name} need each other: {found:?}; move a type or a function to the module \
             that the others may use"
        );
    }
}

#[test]
fn modules_are_found_in_every_form_of_use() {
    let code =
        "use crate::one::A;\nuse crate::{two, three::{B, C}, four::D};\nlet _ = crate::five();";
    assert_eq!(named(code), ["one", "two", "three", "four", "five"]);
}

#[test]
fn functions_have_names_that_can_be_searched() {
    for source in production() {
        for (name, _) in functions(&source.text) {
            assert!(
                !UNSEARCHABLE.contains(&name),
                "{}: `fn {name}`",
                source.name
            );
        }
    }
}
