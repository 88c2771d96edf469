//! `unisono agents import`.

use crate::support::Place;

const WATCH: &str = "---\nname: night-watch\ndescription: Says which alarm rang\ntools: Read, Task\ncolor: red\n---\nOne line, no more.\n";
const CREW: &str = "beekeeper:\n  role: Beekeeper\n  goal: Move hives in time\n  max_iter: 3\nlead:\n  role: Lead\n  goal: Lead\n";

fn project() -> Place {
    let place = Place::new();
    place.write(".claude/agents/night-watch.md", WATCH);
    place.write(".claude/agents/README.md", "Not an agent.\n");
    place.write("src/crew/config/agents.yaml", CREW);
    place.write("docs/page.md", "---\ntitle: A page\n---\n");
    place.write("node_modules/x/.claude/agents/other.md", WATCH);
    place
}

#[test]
fn a_project_is_searched_and_what_is_lost_is_listed() {
    let place = project();
    let dry = place.json(&["agent", "import", ".", "--dry-run"]);
    assert_eq!(dry["agents"].as_array().unwrap().len(), 3, "{dry}");
    assert!(
        dry["agents"]
            .as_array()
            .unwrap()
            .iter()
            .all(|a| a["state"] == "would_write")
    );
    assert!(!place.path("agents").exists());
    let done = place.call(&["agents", "import", "."]).expect(0);
    let done = done.says(&["3 agents written", "1 key did not carry over"]);
    assert!(
        done.stdout
            .contains("lost     tools (line 4): no such tools here: Read"),
        "{}",
        done.stdout
    );
    let shown = place.json(&["agents", "show", "night-watch"]);
    assert_eq!(
        shown["tools"],
        serde_json::json!(["delegate", "read_message", "recall", "skill"])
    );
    assert_eq!(shown["max_model_calls"], 8);
    assert_eq!(
        place.json(&["agents", "show", "beekeeper"])["max_model_calls"],
        3
    );
    place.call(&["agents", "check"]).expect(0);
    // It works, and takes the place of the built-in lead.
    place.write(
        "talk.json",
        r#"[{"role":"user","content":"The north door rang."}]"#,
    );
    let args = [
        "run",
        "talk.json",
        "--agents",
        "night-watch",
        "--task",
        "What rang?",
        "--json",
    ];
    let report = place.call(&args).expect(0).json();
    assert_eq!(report["runs"][0]["agent"], "night-watch");
}

#[test]
fn nothing_is_overwritten_unless_asked_for() {
    let place = project();
    place.write(
        "agents/night-watch.md",
        "---\ndescription: Mine\n---\nMine.\n",
    );
    place.write("agents/beekeeper.toml", "description = \"Mine\"\n");
    let done = place.call(&["agents", "import", "."]).expect(1);
    assert!(done.stdout.contains("kept"), "{}", done.stdout);
    let mine = || std::fs::read_to_string(place.path("agents/night-watch.md")).unwrap();
    assert!(mine().contains("Mine"));
    assert!(
        place.path("agents/lead.md").exists(),
        "what is new is written"
    );
    place
        .call(&["agents", "import", ".claude/agents", "--force"])
        .expect(0);
    assert!(mine().contains("which alarm rang"));
    let done = place
        .call(&["agents", "import", "src", "--force"])
        .expect(1);
    assert!(
        done.stdout.contains("a .toml file with this name"),
        "two files never define one agent"
    );
}

#[test]
fn what_cannot_be_read_is_named_and_the_rest_is_written() {
    let place = project();
    place.write("broken/a.toml", "developer_instructions = [\n");
    place.write("broken/b.md", "no front matter\n");
    place.write(
        "broken/c.md",
        "---\nname: c\ndescription: Fine\n---\nFine.\n",
    );
    let done = place.call(&["agents", "import", "broken"]).expect(1);
    let done = done.says(&["broken/a.toml", "no agent: broken/b.md"]);
    assert!(done.stdout.contains("agents/c.md"));
    place
        .call(&["agents", "import", "nowhere"])
        .expect(2)
        .says(&["cannot read nowhere: it does not exist", "hint: "]);
    place
        .call(&["agents", "import", "docs/page.md"])
        .expect(1)
        .says(&["in no known format"]);
    std::fs::create_dir(place.path("empty")).unwrap();
    place.refuses(&["agents", "import", "empty"], &["no agents were found"]);
}

#[test]
fn pages_beside_agents_are_no_agents_and_a_built_in_one_goes_with_a_word() {
    let place = project();
    place.write(".claude/agents/notes.md", "Agents should be short.\n");
    place.write(".claude/agents/page.md", "---\ntitle: A page\n---\nText\n");
    place.write("NOTES.md", "# Notes\n");
    let boss = "---\nname: boss\ndescription: x\ntools: Task(night-watch, beekeeper)\n---\nx\n";
    place.write(".claude/agents/boss.md", boss);
    let done = place.call(&["agents", "import", "."]).expect(0);
    let done = done.says(&[
        "4 agents written",
        "no agent: ",
        "notes.md",
        "page.md",
        "NOTES.md",
    ]);
    let reply = "takes the place of the built-in agent `lead`";
    assert!(done.stdout.contains(reply), "{}", done.stdout);
    assert!(!place.path("agents/notes.md").exists());
    let boss = std::fs::read_to_string(place.path("agents/boss.md")).unwrap();
    assert!(boss.contains("tools:\n- delegate\n"), "{boss}");
    assert!(!boss.contains("delegates:"), "{boss}");
    let limit = "run it with --agents night-watch,beekeeper";
    assert!(done.stdout.contains(limit), "{}", done.stdout);
    place.call(&["agents", "check"]).expect(0);
    // Who names such a page is told that it is none.
    place
        .call(&["agents", "import", "NOTES.md"])
        .expect(1)
        .says(&["NOTES.md", "there is no front matter"]);
}

/// A skill beside an agent of Claude Code that names it.
fn with_skill() -> Place {
    let place = Place::new();
    let agent =
        "---\nname: clerk\ndescription: Fills in forms\nskills: pdf-forms\n---\nBe exact.\n";
    place.write("other/.claude/agents/clerk.md", agent);
    let skill = "---\nname: pdf-forms\ndescription: Fills in PDF forms.\n---\nFill each field.\n";
    place.write("other/.claude/skills/pdf-forms/SKILL.md", skill);
    place.write(
        "other/.claude/skills/pdf-forms/scripts/fill.py",
        "print(1)\n",
    );
    place
}

#[test]
fn a_skill_beside_an_agent_is_imported_with_it() {
    let place = with_skill();
    let dry = place.json(&["agents", "import", "other", "--dry-run"]);
    assert!(dry.to_string().contains("would be copied"), "{dry}");
    assert!(!place.path("skills").exists());
    let done = place.json(&["agents", "import", "other"]);
    assert_eq!(done["agents"][0]["lost"], serde_json::json!([]), "{done}");
    assert!(done.to_string().contains("was copied"), "{done}");
    let file = std::fs::read(place.path("skills/pdf-forms/scripts/fill.py")).unwrap();
    assert_eq!(file, b"print(1)\n");
    place.call(&["agents", "check"]).expect(0);
    let shown = place.json(&["agents", "show", "clerk"]);
    assert!(shown.to_string().contains("Fill each field."), "{shown}");
    // The same skill is no news; another one of that name is kept.
    let again = place.json(&["agents", "import", "other", "--force"]);
    assert_eq!(
        again["agents"][0]["changed"],
        serde_json::json!([]),
        "{again}"
    );
    let own = "---\nname: pdf-forms\ndescription: Ours.\n---\nAsk first.\n";
    place.write("skills/pdf-forms/SKILL.md", own);
    let kept = place.json(&["agents", "import", "other", "--force"]);
    assert!(kept.to_string().contains("it is kept"), "{kept}");
    let text = std::fs::read_to_string(place.path("skills/pdf-forms/SKILL.md")).unwrap();
    assert_eq!(text, own);
}

#[test]
fn a_skill_that_leaves_its_folder_or_is_too_large_is_not_imported() {
    for reason in [
        "leads out of its folder",
        "more than 8 MiB",
        "more than 200 files",
    ] {
        let place = with_skill();
        let folder = place.path("other/.claude/skills/pdf-forms");
        match reason {
            "leads out of its folder" => {
                place.write("secret", "key");
                std::os::unix::fs::symlink(place.path("secret"), folder.join("a")).unwrap();
            }
            "more than 8 MiB" => {
                let file = std::fs::File::create(folder.join("a")).unwrap();
                file.set_len((8 << 20) + 1).unwrap();
            }
            _ => {
                for n in 0..200 {
                    std::fs::write(folder.join(n.to_string()), "").unwrap();
                }
            }
        }
        let done = place.json(&["agents", "import", "other"]);
        let lost = done["agents"][0]["lost"].to_string();
        assert!(lost.contains(reason), "{done}");
        assert!(!place.path("skills").exists());
        place.call(&["agents", "check"]).expect(0);
    }
}
