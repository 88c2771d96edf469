//! Examples of each format, written for these tests, and the results of importing them.

use std::path::{Path, PathBuf};

use insta::{Settings, assert_snapshot};

use super::*;
use unisono_config::settings::Sources;
use unisono_config::setup;

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("src/agents/testdata")
}

/// Imports without tool servers.
fn known(catalogue: &Catalogue) -> LocalNames<'_> {
    static NONE: BTreeSet<String> = BTreeSet::new();
    static NOT_REFUSED: BTreeMap<String, String> = BTreeMap::new();
    LocalNames {
        catalogue,
        servers: &NONE,
        skills: &NONE,
        refused_skills: &NOT_REFUSED,
        agents: &NONE,
    }
}

/// The complete result of an import, for a golden file.
fn text(path: &Path, format: Option<Format>) -> String {
    let catalogue = Catalogue::built_in().unwrap();
    let agents = match read(path, format, known(&catalogue)) {
        Ok(agents) => agents,
        Err(error) => return format!("error: {error}\n"),
    };
    let mut out = String::new();
    for agent in agents {
        let agent = match agent {
            Ok(agent) => agent,
            Err(error) => {
                out += &format!("error: {error}\n");
                continue;
            }
        };
        out += &format!("== {} ({})\n", agent.id, agent.format.name());
        for (word, list) in [("lost", &agent.lost), ("changed", &agent.changed)] {
            for KeyChange { key, line, reason } in list {
                let line = line.map_or_else(|| "-".to_owned(), |line| line.to_string());
                out += &format!("{word} {key}:{line}: {reason}\n");
            }
        }
        out += &agent.text;
    }
    out
}

fn goldens() -> Settings {
    let mut settings = Settings::clone_current();
    settings.set_snapshot_path("testdata/goldens");
    settings.set_prepend_module_to_snapshot(false);
    settings.set_omit_expression(true);
    settings
}

#[test]
fn every_format_becomes_a_definition_and_a_list_of_losses() {
    goldens().bind(|| {
        for name in rows! {
            "claude/contract-reviewer.md", "claude/night-watch.md", "codex/tide.toml",
            "copilot/recipe-scaler.agent.md", "opencode/orchard.md", "opencode/opencode.jsonc",
            "gemini/map-maker.md", "gemini/geologist.toml", "gemini/far.md", "crewai/agents.yaml",
            "crewai/crew.yaml", "harbour/config/agents.yaml",
        } {
            let text = text(&examples().join(name), None);
            assert_snapshot!(name.replace(['/', '.'], "-"), text);
        }
    });
}

#[test]
fn converted_agents_are_valid_definitions() {
    let place = tempfile::tempdir().unwrap();
    let catalogue = Catalogue::built_in().unwrap();
    std::fs::create_dir_all(place.path().join("agents")).unwrap();
    std::fs::create_dir_all(place.path().join("config")).unwrap();
    std::fs::write(place.path().join("config/unisono.toml"), "").unwrap();
    let write = |file: &Path| {
        let mut written = 0;
        let agents = read(file, None, known(&catalogue)).unwrap();
        for agent in agents.into_iter().flatten() {
            let path = place.path().join(format!("agents/{}.md", agent.id));
            std::fs::write(path, agent.text).unwrap();
            written += 1;
        }
        written
    };
    let written: usize = find(&examples()).unwrap().iter().map(|f| write(f)).sum();
    // Only files in the usual places are found in a directory that was not named as one of agents.
    assert_eq!(
        written, 7,
        "two crews, of which one has tasks, and the cashier"
    );
    for name in rows! {
        "claude/contract-reviewer.md", "claude/night-watch.md", "codex/tide.toml",
        "copilot/recipe-scaler.agent.md", "opencode/orchard.md", "gemini/map-maker.md",
        "gemini/geologist.toml",
    } {
        write(&examples().join(name));
    }
    let sources = Sources {
        directory: place.path().to_owned(),
        home: unisono_config::paths::Home::from_variables(|name| {
            (name == "HOME").then(|| "/nobody".into())
        }),
        ..Sources::default()
    };
    let found = setup::check(sources.clone());
    assert!(found.is_empty(), "{found}");
    let setup = setup::Setup::load(sources).unwrap();
    let harbour = setup.roster.get("harbour").unwrap();
    let stages = harbour.pipeline.iter().map(|stage| stage.agent.as_str());
    let order = ["tide_reader", "berth_planner", "harbour_master"];
    assert!(stages.eq(order), "as the program has them");
    let beekeeper = setup.roster.get("beekeeper").unwrap();
    assert_eq!(
        (beekeeper.max_model_calls, beekeeper.timeout_ms),
        (9, 90_000)
    );
    let tools: Vec<&str> = beekeeper.tools.iter().map(|tool| &**tool).collect();
    assert_eq!(tools, ["delegate", "read_message", "recall", "skill"]);
}

#[test]
fn files_without_agents_are_rejected_by_name() {
    let catalogue = Catalogue::built_in().unwrap();
    let none = |_: &str| Err(io::Error::other("nothing is included"));
    let read = |path: &str, text: &str, format| {
        let mut all = read_text(Path::new(path), text, format, known(&catalogue), &none)?;
        all.pop().unwrap()
    };
    let error = |path: &str, text: &str| read(path, text, None).unwrap_err().to_string();
    for page in ["no front matter", "---\n\n# A page below a line\n", ""] {
        let reason = read("a.md", page, None).unwrap_err();
        assert!(reason.is_no_agent(), "{page:?}: {reason}");
        assert_eq!(reason.to_string(), "there is no front matter");
    }
    assert!(error("a.md", "---\ntitle: A page\n---\nText").contains("no known format"));
    assert!(error("a.toml", "x = [").contains("a.toml:1"));
    assert!(error("a.toml", "x = 1").contains("no known format"));
    assert!(error("a.yaml", "a: [").contains("not YAML"));
    assert!(error("agents.yaml", "").contains("no known format"));
    assert!(
        error("x/.claude/agents/empty.md", "---\nname: empty\n---\n")
            .contains("neither a description")
    );
    assert!(
        error(
            "x/.claude/agents/a.md",
            "---\nname: 犬\ndescription: x\n---\n"
        )
        .contains("no letter or digit")
    );
    assert!(
        error("x/.claude/agents/page.md", "---\ndescription: x\n---\ntext")
            .contains("agent `page`: there is no `name`")
    );
    let deep = format!("---\nname: a\ndescription: {}\n---\nx", "[".repeat(5_000));
    read("x/.claude/agents/a.md", &deep, None).ok();
    let named = read(
        "a.md",
        "---\ntitle: A page\n---\nText",
        Some(Format::Claude),
    )
    .unwrap();
    assert_eq!(named.lost[0].key, "title");
    assert!(named.text.contains("description: Text"));
}

#[test]
fn included_files_are_read_only_from_the_same_directory() {
    let place = tempfile::tempdir().unwrap();
    let inside = place.path().join("inside");
    std::fs::create_dir(&inside).unwrap();
    std::fs::write(inside.join("text"), "inside").unwrap();
    std::fs::write(place.path().join("secret"), "outside").unwrap();
    assert_eq!(read_included(&inside, "./text").unwrap(), "inside");
    assert!(read_included(&inside, "../secret").is_err());
    std::os::unix::fs::symlink(place.path().join("secret"), inside.join("link")).unwrap();
    assert!(read_included(&inside, "link").is_err());
    assert!(read_included(&inside, "/etc/hostname").is_err());
}

#[test]
fn references_to_configured_servers_carry_over() {
    let catalogue = Catalogue::built_in().unwrap();
    let servers = ["archive", "atlas", "harbour", "scales"].map(str::to_owned);
    let servers = BTreeSet::from(servers);
    let known = LocalNames {
        catalogue: &catalogue,
        servers: &servers,
        agents: &servers,
        ..known(&catalogue)
    };
    let read = |path: &str, text: &str| read_one(path, text, known);
    let claude = read(
        "x/.claude/agents/a.md",
        "---\nname: a\ndescription: x\ntools: Read, mcp__archive__lookup, mcp__other__x\n\
         disallowedTools: mcp__atlas__draw\npermissionMode: default\nmcpServers:\n  - scales\n  \
         - slow: {command: npx, args: [-y, slow], env: {KEY: hidden}}\n---\nx",
    );
    let codex = read(
        "x/.codex/agents/a.toml",
        "name = \"a\"\ndescription = \"x\"\ndeveloper_instructions = \"x\"\n\
         approval_policy = \"untrusted\"\n[mcp_servers.harbour]\nurl = \"https://h.example/mcp\"\n",
    );
    let opencode = read(
        "x/.opencode/agents/a.md",
        "---\ndescription: x\nmode: subagent\ntools:\n  atlas_*: true\n  scales_*: false\npermission:\n  \
         atlas_draw: ask\n  edit: deny\n---\nx",
    );
    goldens().bind(|| {
        for (name, agent) in [("claude", claude), ("codex", codex), ("opencode", opencode)] {
            let text = format!("{}{:#?}", agent.text, agent.lost);
            assert_snapshot!(format!("servers-of-{name}"), text);
        }
    });
}

#[test]
fn a_crew_with_another_process_is_reported() {
    let place = tempfile::tempdir().unwrap();
    let config = place.path().join("config");
    std::fs::create_dir(&config).unwrap();
    let write = |name: &str, text: &str| std::fs::write(place.path().join(name), text).unwrap();
    write("config/agents.yaml", "a:\n  role: A\n  goal: Do it\n");
    let read = || {
        let catalogue = Catalogue::built_in().unwrap();
        read(&config.join("agents.yaml"), None, known(&catalogue))
    };
    let lost = || -> Vec<String> {
        let agents = read().unwrap();
        assert_eq!(agents.len(), 1, "no crew");
        let first = agents.into_iter().next().unwrap().unwrap();
        first.lost.into_iter().map(|lost| lost.reason).collect()
    };
    assert_eq!(
        lost(),
        Vec::<String>::new(),
        "a crew without tasks is its agents"
    );
    write(
        "config/tasks.yaml",
        "t:\n  description: Do it\n  agent: b\n",
    );
    assert!(lost()[0].contains("names an agent of it"), "{:?}", lost());
    write(
        "config/tasks.yaml",
        "t:\n  description: Do it\n  agent: a\n",
    );
    assert_eq!(read().unwrap().len(), 2);
    write("crew.py", "Crew(process=Process.hierarchical)\n");
    assert!(lost()[0].contains("`hierarchical`"), "{:?}", lost());
    write("config/tasks.yaml", "t: [");
    assert!(read().unwrap_err().to_string().contains("tasks.yaml"));
}

fn read_one(path: &str, text: &str, known: LocalNames<'_>) -> ConvertedAgent {
    let none = |_: &str| Err(io::Error::other("nothing is included"));
    let mut all = read_text(Path::new(path), text, None, known, &none).unwrap();
    all.pop().unwrap().unwrap()
}

/// Imports a definition into a system that has, or will have, these agents.
fn read_beside(path: &str, text: &str, agents: &[&str]) -> ConvertedAgent {
    let catalogue = Catalogue::built_in().unwrap();
    let agents = agents.iter().map(|name| (*name).to_owned()).collect();
    let known = LocalNames {
        agents: &agents,
        ..known(&catalogue)
    };
    read_one(path, text, known)
}

#[test]
fn available_skills_carry_over() {
    let catalogue = Catalogue::built_in().unwrap();
    let skills = BTreeSet::from(["pdf-forms".to_owned()]);
    let known = LocalNames {
        skills: &skills,
        ..known(&catalogue)
    };
    let text = "---\nname: clerk\ndescription: Fills in forms\nskills: pdf-forms, invoices\n---\nBe exact.\n";
    let clerk = read_one(".claude/agents/clerk.md", text, known);
    let listed = "skills:\n- pdf-forms\n";
    assert!(clerk.text.contains(listed), "{}", clerk.text);
    let lost = reasons(&clerk.lost);
    let missing = "skills: there is no skill `invoices`";
    assert!(lost.contains(missing), "{lost}");
    // A description with a colon makes the front matter no YAML.
    let text = "---\nname: clerk\ndescription: Use it for: forms\ntools:\n  - Read\n  - Task\nskills:\n  \
                - pdf-forms\n---\nBe exact.\n";
    let clerk = read_one(".claude/agents/clerk.md", text, known);
    assert!(clerk.text.contains(listed), "{}", clerk.text);
    assert!(clerk.text.contains("- delegate\n"), "{}", clerk.text);
    assert_eq!(reasons(&clerk.lost), "tools: no such tools here: Read");
}

fn reasons(lost: &[KeyChange]) -> String {
    let lines = lost
        .iter()
        .map(|lost| format!("{}: {}", lost.key, lost.reason));
    lines.collect::<Vec<_>>().join("\n")
}

#[test]
fn permission_to_delegate_carries_over_without_its_names() {
    let claude = |tools: &str| {
        let text = format!("---\nname: boss\ndescription: x\ntools: {tools}\n---\nx");
        read_beside("x/.claude/agents/boss.md", &text, &["scout", "smith"])
    };
    let opencode = |task: &str| {
        let text = format!("---\ndescription: x\npermission:\n  task: {task}\n---\nx");
        read_beside("x/.opencode/agents/boss.md", &text, &["scout", "smith"])
    };
    // The rules of opencode's second version.
    let rules = |rules: &str| {
        let text =
            format!("---\ndescription: x\ntools: {{task: true}}\npermissions: [{rules}]\n---\nx");
        read_beside("x/.opencode/agents/boss.md", &text, &["scout", "smith"])
    };
    let (deny_all, allow_scout) = (
        "{action: subagent, resource: \"*\", effect: deny}",
        "{action: subagent, resource: team/scout, effect: allow}",
    );
    let (both, scout) = ("--agents scout,smith", "--agents scout");
    let cases: [(ConvertedAgent, bool, &str, &str); 14] = rows! {
        (claude("Task(scout, smith)"), true, both, ""),
        (claude("[Task(scout, smith)]"), true, both, ""),
        (claude("Task"), true, "", ""),
        (claude("Task(scout, nobody)"), true, scout, "nobody"),
        (opencode("allow"), true, "", ""),
        (opencode("deny"), false, "", ""),
        (opencode("{\"*\": deny, scout: allow, smith: allow}"), true, both, ""),
        (opencode("{scout: allow, \"*\": deny}"), false, "", ""),
        (opencode("{\"*\": allow, smith: deny}"), true, "", "all but smith"),
        (opencode("{\"*\": deny, \"team-*\": allow}"), false, "", "team-*"),
        (opencode("{\"*\": deny, scout: ask}"), true, scout, ""),
        (rules(deny_all), false, "", ""),
        (rules(&format!("{deny_all}, {allow_scout}")), true, scout, ""),
        (rules(&format!("{allow_scout}, {deny_all}")), false, "", ""),
    };
    for (at, (agent, delegates, named, lost)) in cases.into_iter().enumerate() {
        let tool = agent.text.contains("- delegate\n");
        assert_eq!(tool, delegates, "{at}: {}", agent.text);
        // Agents in `delegates` would always work before it.
        assert!(!agent.text.contains("delegates:"), "{at}: {}", agent.text);
        let changed = reasons(&agent.changed);
        assert!(changed.contains(named), "{at}: {changed}");
        let limit = changed.contains("not only to these");
        assert_eq!(limit, !named.is_empty(), "{at}: {changed}");
        let text = reasons(&agent.lost);
        assert!(text.contains(lost), "{at}: {text}");
        assert_eq!(text.is_empty(), lost.is_empty(), "{at}: {text}");
    }
}

#[test]
fn one_agent_that_gets_no_tasks_takes_them_from_no_other() {
    let text = "---\nname: boss\ndescription: x\ntools: Task\ndisallowedTools: Task(scout)\n---\nx";
    let boss = read_beside("x/.claude/agents/boss.md", text, &["scout"]);
    assert!(boss.text.contains("- delegate\n"), "{}", boss.text);
    assert!(!boss.text.contains("deny_tools"), "{}", boss.text);
    let lost = reasons(&boss.lost);
    assert!(
        lost.contains("disallowedTools: single agents cannot be excluded: scout"),
        "{lost}"
    );
}

#[test]
fn an_agent_of_opencode_needs_no_description_and_names_its_variant_with_its_model() {
    let text = "---\nmode: primary\nmodel: anthropic/claude-haiku-4-5#high\nrequest:\n  body:\n    \
                temperature: 0.5\n    top_p: 1\n---\nSay hello.\n";
    let agent = read_beside("x/.opencode/agents/greeter.md", text, &[]);
    for line in [
        "description: Say hello.\n",
        "model: anthropic/claude-haiku-4-5\n",
        "temperature: 0.5\n",
    ] {
        assert!(agent.text.contains(line), "{}", agent.text);
    }
    let lost = reasons(&agent.lost);
    for reason in [
        "model: reasoning effort is not set per agent",
        "request.body.top_p: only the temperature",
    ] {
        assert!(lost.contains(reason), "{lost}");
    }
}

#[test]
fn an_unknown_short_name_is_not_a_model() {
    let agent = |model: &str| {
        let text = format!("---\nname: a\ndescription: x\nmodel: {model}\n---\nx");
        read_beside("x/.claude/agents/a.md", &text, &[])
    };
    let known = agent("sonnet");
    assert!(
        known.text.contains("model: anthropic/claude-sonnet-"),
        "{}",
        known.text
    );
    for model in ["opusplan", "turbo", "my-model-7"] {
        let unknown = agent(model);
        assert!(!unknown.text.contains("model:"), "{}", unknown.text);
        let text = reasons(&unknown.lost);
        assert!(
            text.contains(&format!("no model `{model}` is known")),
            "{text}"
        );
    }
    assert!(
        agent("anthropic/my-model-7")
            .text
            .contains("model: anthropic/my-model-7")
    );
}

#[test]
fn replacing_a_built_in_agent_is_reported() {
    let text = "---\nname: lead\ndescription: x\n---\nx";
    let lead = read_beside("x/.claude/agents/lead.md", text, &[]);
    let text = reasons(&lead.changed);
    assert!(
        text.contains("takes the place of the built-in agent `lead`"),
        "{text}"
    );
    let text = "---\nname: leader\ndescription: x\n---\nx";
    assert!(
        read_beside("x/.claude/agents/a.md", text, &[])
            .changed
            .is_empty()
    );
}

#[test]
fn a_crew_follows_the_order_and_agents_of_its_program() {
    let place = tempfile::tempdir().unwrap();
    let top = place.path().join("Light House");
    std::fs::create_dir_all(top.join("config")).unwrap();
    let write = |name: &str, text: &str| std::fs::write(top.join(name), text).unwrap();
    write(
        "config/agents.yaml",
        "keeper:\n  role: Keeper\n  goal: Keep\nclerk_of_logs:\n  role: Clerk\n  goal: Note\n",
    );
    write(
        "config/tasks.yaml",
        "log_task:\n  description: Note it\ntrim_lamp:\n  description: Trim it\nspare:\n  \
         description: Nobody does it\n",
    );
    let script = "class House:\n\
        \x20   @agent\n    def keeper_agent(self):\n        return Agent(config=self.agents_config['keeper'])\n\
        \x20   @agent\n    def clerk(self):\n        return Agent(config=self.agents_config['clerk_of_logs'])\n\
        \x20   @task\n    def trim(self):\n        return Task(config=self.tasks_config['trim_lamp'], agent=self.keeper_agent())\n\
        \x20   @task\n    def log(self):\n        return Task(\n            config=self.tasks_config['log_task'],\n\
        \x20           agent=self.clerk(),\n            context=[self.trim()],\n        )\n\
        \x20   @crew\n    def crew(self):\n        return Crew(process=Process.sequential)\n";
    // The file need not have the usual name.
    for (name, other) in [("crew.py", "main.py"), ("light_house_crew.py", "crew.py")] {
        std::fs::remove_file(top.join(other)).ok();
        write(name, script);
        write("main.py", "print('no crew')\n");
        let catalogue = Catalogue::built_in().unwrap();
        let all = read(&top.join("config/agents.yaml"), None, known(&catalogue)).unwrap();
        let crew = all.into_iter().next_back().unwrap().unwrap();
        assert_eq!(crew.id, "light-house");
        let stages = "pipeline:\n- keeper=Trim it\n- clerk_of_logs=Note it\n";
        assert!(crew.text.contains(stages), "{}", crew.text);
        let text = reasons(&crew.lost);
        assert_eq!(text, "tasks.yaml spare: no crew of the program does it");
        assert!(crew.changed.is_empty(), "{:?}", crew.changed);
    }
}
