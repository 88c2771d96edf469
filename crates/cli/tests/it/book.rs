//! The book: every command block of it works, in the order of its page, offline.

use std::path::{Path, PathBuf};

use crate::http::Daemon;
use crate::support::{Done, HasAll as _, Place, finish};

fn source() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/src")
}

/// The command blocks of a text, as one script.
fn script(text: &str) -> String {
    let mut script = String::new();
    let mut within = false;
    for line in text.lines() {
        match (within, line) {
            (false, "```sh") => within = true,
            (true, "```") => within = false,
            (true, line) => script += &format!("{line}\n"),
            (false, _) => {}
        }
    }
    script
}

fn with_examples() -> Place {
    let place = Place::new();
    let root = source().join("../..").canonicalize().unwrap();
    std::os::unix::fs::symlink(root.join("examples"), place.path("examples")).unwrap();
    place
}

/// Runs a page's commands as a newcomer would, with the program and the examples at hand.
fn run(page: &str) -> Done {
    let place = with_examples();
    place.write(
        "talk.jsonl",
        r#"{"role":"user","content":"The offer is 4,200 euros, agreed by Ada."}"#,
    );
    let script = script(&page_text(&source().join(page)));
    assert!(!script.is_empty(), "{page} has no commands");
    shell(&place, page, &script)
}

/// Runs a script where the program can be called by its name.
fn shell(place: &Place, page: &str, script: &str) -> Done {
    // All that a test's call of the program has around it, for a shell that calls it.
    let mut command = place.command(&[]);
    let program = PathBuf::from(command.get_program());
    let path = std::env::var("PATH").unwrap_or_default();
    let mut shell = std::process::Command::new("sh");
    shell.args(["-euc", script]).current_dir(place.path(""));
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    command.stdin(std::process::Stdio::null());
    shell
        .env(
            "PATH",
            format!("{}:{path}", program.parent().unwrap().display()),
        )
        .env("UNISONO__SERVER__BIND", "127.0.0.1:0")
        .stdin(std::process::Stdio::null())
        .stdout(std::process::Stdio::piped())
        .stderr(std::process::Stdio::piped());
    finish(shell.spawn().unwrap(), &[page])
}

#[test]
fn the_tutorial_works() {
    let done = run("tutorial.md").expect(0);
    assert!(done.stderr.contains("identical for 5 agents"), "{done:#?}");
}

#[test]
fn conversations_are_imported_as_the_page_says() {
    let done = run("how-to/import-conversations.md").expect(0);
    assert!(done.stderr.contains("imported 3 messages"), "{done:#?}");
}

#[test]
fn agents_are_imported_as_the_page_says() {
    let done = run("how-to/import-agents.md").expect(0);
    done.stdout.has_all(&["no such tools here: Read, Grep"]);
}

#[test]
fn agents_of_ones_own_work_as_the_page_says() {
    let done = run("how-to/agents.md").expect(0);
    assert!(done.stderr.contains("counts  done"), "{done:#?}");
}

#[test]
fn compaction_is_tuned_as_the_page_says() {
    run("how-to/compaction.md").expect(0);
}

#[test]
fn the_recipe_for_small_windows_works_in_each_of_them() {
    let page = page_text(&source().join("how-to/compaction.md"));
    let (_, recipe) = page.split_once("\n## Small windows").unwrap();
    let recipe = script(recipe);
    assert_eq!(recipe.matches("window = 8_192").count(), 1, "{recipe}");
    for (size, shown, compacts) in [
        ("8_192", "8,192", true),
        ("16_384", "16,384", true),
        ("32_768", "32,768", false),
    ] {
        let recipe = recipe.replace("window = 8_192", &format!("window = {size}"));
        let done = shell(&with_examples(), size, &recipe).expect(0);
        let window = format!("window {shown} − reply 1,024");
        assert!(done.stdout.contains(&window), "{done:#?}");
        assert_eq!(done.stderr.contains("compacted "), compacts, "{done:#?}");
    }
}

#[test]
fn people_get_tokens_of_their_own() {
    let done = run("how-to/people.md").expect(0);
    let made = done.stdout.contains("ada") && done.stdout.contains("approve");
    assert!(made && done.stdout.contains("/login?code="), "{done:#?}");
}

#[test]
fn a_service_is_run_as_the_page_says() {
    let done = run("how-to/operating.md").expect(0);
    assert!(done.stdout.contains("ready"), "{done:#?}");
}

#[test]
fn an_editor_is_answered() {
    let done = run("how-to/editors.md").expect(0);
    done.stdout.has_all(&["\"loadSession\":true"]);
}

#[test]
fn coding_tools_are_served_as_the_page_says() {
    let done = run("how-to/coding-tools.md").expect(0);
    assert!(done.stdout.contains("\"serverInfo\""), "{done:#?}");
}

#[test]
fn turns_begin_at_times_as_the_page_says() {
    let done = run("how-to/schedules.md").expect(0);
    done.stdout.has_all(&["0 7 * * 1-5 Europe/Berlin"]);
    assert!(done.stdout.contains("\"state\":\"answered\""), "{done:#?}");
    assert!(done.stderr.contains("next at"), "{done:#?}");
}

#[test]
fn hooks_have_a_say_as_the_page_says() {
    let done = run("how-to/hooks.md").expect(0);
    assert!(done.stdout.contains("4,200"), "{done:#?}");
    assert!(done.stdout.ends_with("denied\n"), "{done:#?}");
    let reason = "the hook `guard` denied it: Passwords are not for agents.";
    assert!(done.stderr.contains(reason), "{done:#?}");
}

#[test]
fn other_programs_are_connected_as_the_page_says() {
    let done = run("how-to/connect.md").expect(0);
    assert!(done.stdout.contains("\"delegate\""), "{done:#?}");
}

#[test]
fn agents_are_given_tasks_as_the_page_says() {
    let done = run("how-to/a2a.md").expect(0);
    done.stdout.has_all(&[
        "\"protocolBinding\":\"HTTP+JSON\"",
        "TASK_STATE_COMPLETED",
        "\"totalSize\":1",
    ]);
}

#[test]
fn programs_on_one_database_are_listed_as_the_page_says() {
    let done = run("how-to/cluster.md").expect(0);
    let said = done.stdout.clone() + &done.stderr;
    assert!(said.contains("one program uses it at a time"), "{done:#?}");
}

/// A page as a reader of the book has it: files that it includes are in it.
fn page_text(page: &Path) -> String {
    let text = std::fs::read_to_string(page).unwrap();
    let lines = text.lines().map(|line| {
        let included = line.strip_prefix("{{#include ");
        match included.and_then(|rest| rest.strip_suffix("}}")) {
            Some(file) => page_text(&page.parent().unwrap().join(file)),
            None => format!("{line}\n"),
        }
    });
    lines.collect()
}

/// The text without code, in which nothing is a link.
fn prose(text: &str) -> String {
    let mut fenced = false;
    let lines = text.lines().filter(|line| {
        let fence = line.trim_start().starts_with("```");
        fenced ^= fence;
        !fenced && !fence
    });
    lines
        .flat_map(|line| line.split('`').step_by(2))
        .collect::<Vec<_>>()
        .join(" ")
}

/// The names by which the headings of a page can be linked to.
fn anchors(text: &str) -> Vec<String> {
    let headings = text.lines().filter(|line| line.starts_with('#'));
    let anchor = |line: &str| {
        let title = line.trim_start_matches('#').trim().to_lowercase();
        let kept = title.chars().filter_map(|c| match c {
            ' ' => Some('-'),
            '-' | '_' => Some(c),
            c if c.is_alphanumeric() => Some(c),
            _ => None,
        });
        kept.collect()
    };
    headings.map(anchor).collect()
}

#[test]
fn links_between_pages_lead_somewhere() {
    let mut pages = Vec::new();
    pages_below(&source(), &mut pages);
    let (mut checked, mut broken) = (0, Vec::new());
    for page in &pages {
        let text = page_text(page);
        for link in prose(&text).split("](").skip(1) {
            let link = link.split(')').next().unwrap();
            if link.starts_with("https://") {
                continue;
            }
            checked += 1;
            let (file, anchor) = link.split_once('#').unwrap_or((link, ""));
            let target = match file {
                "" => page.clone(),
                file => page.parent().unwrap().join(file),
            };
            let target = target.canonicalize().ok();
            let found = target.filter(|target| {
                let known = pages
                    .iter()
                    .any(|p| p.canonicalize().ok().as_ref() == Some(target));
                known
                    && (anchor.is_empty()
                        || anchors(&page_text(target)).iter().any(|a| a == anchor))
            });
            if found.is_none() {
                broken.push(format!("{}: {link}", page.display()));
            }
        }
    }
    assert!(broken.is_empty(), "links that lead nowhere: {broken:#?}");
    assert!(checked > 12, "only {checked} links were found");
}

#[test]
fn every_page_is_in_the_summary_and_every_one_with_commands_is_tested() {
    let summary = std::fs::read_to_string(source().join("SUMMARY.md")).unwrap();
    let tests = include_str!("book.rs");
    let mut pages = Vec::new();
    pages_below(&source(), &mut pages);
    for page in pages {
        let name = page
            .strip_prefix(source())
            .unwrap()
            .to_str()
            .unwrap()
            .to_owned();
        if name == "SUMMARY.md" {
            continue;
        }
        assert!(
            summary.contains(&format!("({name})")),
            "{name} is not in the summary"
        );
        // That page's files and commands are those of a test of its own.
        let guide = include_str!("guide.rs").contains(&format!("docs/{name}"));
        let tested = guide || tests.contains(&format!("run(\"{name}\")"));
        let script = script(&page_text(&page));
        assert!(
            tested || script.lines().all(is_check),
            "{name} has commands that nobody runs"
        );
    }
}

/// Whether a command starts tests of this repository, which run by themselves, or a recipe of its
/// justfile, which only has to be there.
fn is_check(line: &str) -> bool {
    let root = source().join("../..");
    let command = line.split(" #").next().unwrap_or_default();
    let words = command
        .split_whitespace()
        .skip_while(|word| word.contains('='));
    let words: Vec<&str> = words.collect();
    match words[..] {
        [] => true,
        ["just", recipe, ..] => {
            let recipes = std::fs::read_to_string(root.join("justfile")).unwrap();
            let named = |line: &str| line.split([' ', ':']).next() == Some(recipe);
            recipes.lines().any(named)
        }
        ["cargo", "test", ..] => {
            let after = |flag| words.iter().skip_while(move |word| **word != flag).nth(1);
            let place = match after("-p") {
                Some(&"unisono") => "crates/cli".to_owned(),
                Some(name) => format!("crates/{}", name.trim_start_matches("unisono-")),
                None => ".".to_owned(),
            };
            let tests = root.join(place).join("tests");
            after("--test").is_none_or(|name| {
                let name = tests.join(name);
                name.with_extension("rs").is_file() || name.join("main.rs").is_file()
            })
        }
        _ => false,
    }
}

#[test]
fn the_requests_of_the_readme_work() {
    let readme = std::fs::read_to_string(source().join("../../README.md")).unwrap();
    let (_, from) = readme.split_once("```sh\nTOKEN=").expect("requests");
    let (requests, _) = from.split_once("\n```").unwrap();
    let place = Place::with_config("[compaction]\nsummarisers = [\"extractive\"]\n");
    let daemon = Daemon::start(&place);
    let token = place.path("settings/unisono/token").display().to_string();
    let requests = format!("TOKEN={requests}")
        .replace("~/.config/unisono/token", &token)
        .replace("127.0.0.1:7007", &daemon.address);
    let done = shell(&place, "README.md", &requests).expect(0);
    let (list, answer) = done.stdout.split_once('}').expect("two replies");
    assert!(list.contains("\"items\":[]"), "{done:#?}");
    assert!(
        answer.contains("chat.completion") && answer.contains("Friday"),
        "{done:#?}"
    );
    daemon.stop();
}

fn pages_below(directory: &Path, pages: &mut Vec<PathBuf>) {
    for entry in std::fs::read_dir(directory).unwrap().flatten() {
        let path = entry.path();
        if path.is_dir() {
            pages_below(&path, pages);
        } else if path.extension().is_some_and(|ending| ending == "md") {
            pages.push(path);
        }
    }
}
