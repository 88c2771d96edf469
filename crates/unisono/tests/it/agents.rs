//! Agent files, tables and teams.

use unisono::ask::Ask;
use unisono_config::agents::DEFAULT_TOOLS;
use unisono_config::settings::{Override, SessionOverrides};
use unisono_context::Tokens;
use unisono_context::call::CacheWarm;
use unisono_model::calibration::Calibrations;
use unisono_session::agent::{AgentKind, ContextMode, OnFailure, PrefixMode};

use crate::sandbox::Sandbox;

/// The tools of the shipped agent that gives tasks to others.
const DELEGATING: [&str; 4] = ["delegate", "read_message", "recall", "skill"];

fn with_agent(name: &str, text: &str) -> Sandbox {
    Sandbox::new().file(&format!("project/agents/{name}"), text)
}

#[test]
fn the_shipped_agents_work_anywhere() {
    let setup = Sandbox::new().setup();
    let names: Vec<&str> = setup
        .roster
        .iter()
        .map(|a| a.definition.id.as_str())
        .collect();
    let shipped = [
        "actions",
        "coordinator",
        "decisions",
        "facts",
        "lead",
        "risks",
    ];
    assert_eq!(names, shipped);
    for agent in setup.roster.iter() {
        let definition = &agent.definition;
        assert!(definition.instructions.len() > 300, "{}", definition.id);
        assert_eq!(&*definition.model, "extractive");
        let tools: &[&str] = match definition.id.as_str() {
            "coordinator" => &DELEGATING,
            _ => &DEFAULT_TOOLS,
        };
        assert!(
            definition
                .tools
                .iter()
                .map(|tool| &**tool)
                .eq(tools.iter().copied())
        );
        assert_eq!(definition.timeout_ms, 120_000);
    }
    let turn = &setup.loaded.config.turn;
    let team = setup.roster.team(&turn.lead, &turn.agents).unwrap();
    assert_eq!(team.delegates.len(), 4);
}

#[test]
fn every_key_reaches_the_definition_from_both_kinds_of_file() {
    let yaml = "---\ndescription: Checks\nkind: llm\nmodel: openai/gpt-4o\ntools: [recall]\nmax_model_calls: 3\ntimeout: 90s\nretries: 0\nmax_concurrent: 2\ncontext: task_only\nprefix: own\non_failure: fail\ntemperature: 0.7\ncache_warm: prewarm\noutput_schema:\n  type: object\n  properties:\n    zeta: {type: string}\n    a: {type: number, minimum: 0.5}\n  required: [zeta]\n  additionalProperties: false\ndelegates: [risks]\ntags: [a, b]\n---\n\nBe exact.\n";
    let toml = "description = \"Checks\"\nkind = \"llm\"\nmodel = \"openai/gpt-4o\"\ntools = [\"recall\"]\nmax_model_calls = 3\ntimeout = 90\nretries = 0\nmax_concurrent = 2\ncontext = \"task_only\"\nprefix = \"own\"\non_failure = \"fail\"\ndelegates = [\"risks\"]\ntags = [\"a\", \"b\"]\ninstructions = \"Be exact.\"\ntemperature = 0.7\ncache_warm = \"prewarm\"\n[output_schema]\ntype = \"object\"\nproperties = { zeta = { type = \"string\" }, a = { type = \"number\", minimum = 0.5 } }\nrequired = [\"zeta\"]\nadditionalProperties = false\n";
    let load = |name, text: &str| {
        (*with_agent(name, text)
            .setup()
            .roster
            .get("checker")
            .unwrap())
        .clone()
    };
    let from_yaml = load("checker.md", yaml);
    assert_eq!(from_yaml, load("checker.toml", toml));
    assert_eq!(from_yaml, load("checker.md", &yaml.replace('\n', "\r\n")));
    assert_eq!(from_yaml, load("checker.md", &format!("\u{feff}{yaml}")));
    assert_eq!(from_yaml.limits.window, Tokens(128_000));
    assert_eq!(
        (
            from_yaml.max_model_calls,
            from_yaml.timeout_ms,
            from_yaml.retries
        ),
        (3, 90_000, 0)
    );
    assert_eq!(from_yaml.context, ContextMode::TaskOnly);
    assert_eq!(
        (from_yaml.prefix, from_yaml.on_failure),
        (PrefixMode::Own, OnFailure::Fail)
    );
    assert_eq!(&*from_yaml.instructions, "Be exact.");
    assert_eq!(from_yaml.temperature_milli, Some(700));
    assert_eq!(from_yaml.cache_warm, CacheWarm::Prewarm);
    let schema = r#"{"type":"object","properties":{"zeta":{"type":"string"},"a":{"type":"number","minimum":0.5}},"required":["zeta"],"additionalProperties":false}"#;
    assert_eq!(from_yaml.output_schema.as_deref(), Some(schema));
}

#[test]
fn an_output_schema_is_a_table_or_json_or_a_file() {
    let schema = "{\n  \"type\": \"object\",\n  \"required\": [\"z\", \"a\"]\n}";
    let agent = |value: &str| format!("description = \"x\"\noutput_schema = {value}\n");
    let of = |sandbox: Sandbox| {
        let definition = sandbox.setup().roster.get("a").unwrap().clone();
        definition.output_schema.clone()
    };
    let inline = with_agent("a.toml", &agent(&format!("'''{schema}'''")));
    assert_eq!(of(inline).as_deref(), Some(schema));
    let from_file = with_agent("a.toml", &agent("\"schemas/answer.json\""));
    let file = format!("\u{feff}{schema}\n");
    let from_file = from_file.file("project/schemas/answer.json", &file);
    assert_eq!(of(from_file).as_deref(), Some(schema));

    let list = with_agent("a.toml", &agent("\"schemas/answer.json\""));
    let list = list.file("project/schemas/answer.json", "[1]");
    insta::assert_snapshot!(list.check(), @"agents/a.toml:2:17: error: agent `a`: answer.json: `output_schema` is not a JSON object: it does not begin with `{`");
    assert_eq!(of(with_agent("a.toml", "description = \"x\"\n")), None);

    // The settings of a session or a request read no file again.
    let replaced = with_agent("a.toml", &agent("\"answer.json\""));
    let replaced = replaced.file("project/answer.json", schema);
    let setup = replaced.setup();
    let replaced = replaced.file("project/answer.json", "{ half");
    let faster = Override::new("the request", "turn.timeout_seconds", "6");
    let changed = setup.with(&SessionOverrides::default(), &[faster]).unwrap();
    let kept = changed.roster.get("a").unwrap();
    assert_eq!(kept.output_schema.as_deref(), Some(schema));
    assert!(replaced.load().is_err());

    for (schema, says) in rows! {
        ("{ type = \"objekt\" }", "can be checked: /type: \"objekt\" is not valid"),
        ("{ pattern = \"([\" }", "(["),
        ("'{\"$ref\": \"https://example.com/a.json\"}'", "https://example.com/a.json"),
    } {
        let found = with_agent("a.toml", &agent(schema)).check();
        assert!(
            found.starts_with("agents/a.toml:2:17: error: agent `a`: `output_schema` is not"),
            "{found}"
        );
        assert!(found.contains(says), "{found}");
    }
}

#[test]
fn programs_start_at_their_project() {
    let text = "description = \"x\"\nkind = \"command\"\ncommand = \"./tools/check\"\nargs = [\"-v\"]\ncwd = \"data\"\n[env]\nA = \"1\"\n";
    let sandbox = with_agent("prog.toml", text);
    let definition = sandbox.setup().roster.get("prog").unwrap();
    let AgentKind::Command(command) = &definition.kind else {
        panic!("{:?}", definition.kind);
    };
    assert_eq!(sandbox.shown(&command.program), "/project/./tools/check");
    assert_eq!(
        sandbox.shown(command.cwd.as_ref().unwrap()),
        "/project/data"
    );
    assert_eq!(&*command.env["A"], "1");
    assert!(definition.tools.is_empty());
    let bare = with_agent("prog.toml", &text.replace("./tools/check", "python3"));
    let definition = bare.setup().roster.get("prog").unwrap();
    assert!(matches!(&definition.kind, AgentKind::Command(c) if &*c.program == "python3"));
}

#[test]
fn a_server_is_asked_with_headers_from_the_environment() {
    let text = "---\ndescription: x\nkind: http\nurl: ' https://agents.test/risks?tenant=a%20b '\nheaders:\n  Authorization: Bearer ${SCOUT_TOKEN}\n  X-Tenant: north\n---\n";
    let definition = with_agent("scout.md", text).setup().roster.get("scout");
    let definition = definition.unwrap();
    let AgentKind::Http(http) = &definition.kind else {
        panic!("{:?}", definition.kind);
    };
    assert_eq!(&*http.url, "https://agents.test/risks?tenant=a%20b");
    // What the variable holds is in no definition: they are recorded.
    assert_eq!(&*http.headers["Authorization"], "Bearer ${SCOUT_TOKEN}");
    assert_eq!(&*http.headers["X-Tenant"], "north");
    assert!(definition.tools.is_empty());
    let other = with_agent("scout.md", &text.replace("north", "south")).setup();
    let other = other.roster.get("scout").unwrap();
    assert_ne!(other.digest(), definition.digest());
}

#[test]
fn other_texts_beside_the_agents_stop_nothing() {
    let notes = with_agent("Notes of Ada.md", "\u{feff}# Notes\n");
    assert!(notes.load().is_ok());
    let said = notes.complaints();
    assert!(said.starts_with("agents/Notes of Ada.md:1:"), "{said}");
    assert!(said.contains("warning: this is no agent"), "{said}");
    let package = with_agent("pyproject.toml", "[project]\nversion = \"1\"\n");
    assert!(package.load().is_ok());
    let said = package.complaints();
    assert!(
        said.starts_with("agents/pyproject.toml: warning: this is no agent"),
        "{said}"
    );
    // What is being written, and what should replace a built-in agent.
    for (name, text) in [
        ("risks.md", "Be brief.\n"),
        ("risks.toml", "modell = \"x\"\n"),
        ("a.toml", ""),
        ("a.md", "\n"),
        ("a.md", "\n---\ndescription: x\n---\n"),
    ] {
        assert!(with_agent(name, text).load().is_err(), "{name}: {text:?}");
    }
}

#[test]
fn a_text_with_the_name_of_another_agent_is_an_error() {
    let full = "---\ndescription: x\n---\n";
    let (person, project) = (
        "home/.config/unisono/agents/clerk.md",
        "project/agents/clerk.md",
    );
    let settings = "[agents.clerk]\ndescription = \"x\"\n";
    for text in [
        "# Clerk\n",
        "--\ndescription: x\ndeny_tools: [recall]\n--\n",
    ] {
        let of_person = Sandbox::new().file(person, full).file(project, text);
        let in_settings = Sandbox::with_config(settings).file(project, text);
        let below_settings = Sandbox::with_config(settings).file(person, text);
        for sandbox in [of_person, in_settings, below_settings] {
            let found = sandbox.load().unwrap_err().to_string();
            assert!(found.contains("error: there is no front matter"), "{found}");
        }
        assert!(Sandbox::new().file(project, text).load().is_ok());
    }
}

#[test]
fn what_is_wrong_with_an_agent_is_told_with_its_line() {
    let table = rows! {
        ("a.md", "no front matter\n"),
        ("a.md", "---\ndescription: x\n"),
        ("a.md", "---\ndescription: [x\n---\n"),
        ("a.md", "---\n- a list\n---\n"),
        ("a.md", "---\n---\nonly instructions\n"),
        ("a.md", "---\ndescription: x\nmax_model_call: 3\n---\n"),
        ("a.md", "---\ndescription: x\nmax_model_calls: many\n---\n"),
        ("a.md", "---\ndescription: x\ntimeout: soon\n---\n"),
        ("a.md", "---\ndescription: x\ntools: [recal, shell]\n---\n"),
        ("a.md", "---\ndescription: x\nmodel: opnai/gpt-4o\n---\n"),
        ("a.md", "---\ndescription: x\nmodel: openai/gpt-99\n---\n"),
        ("a.md", "---\ndescription: x\nkind: extractive\nmodel: openai/gpt-4o\n---\n"),
        ("a.md", "---\ndescription: x\ndelegates: [risk, a]\n---\n"),
        ("a.md", "---\ndescription: x\nkind: ecko\n---\n"),
        (
            "a.md",
            "---\ndescription: x\nkind: http\nmodel: extractive\ncommand: ls\noutput_schema: {}\n---\n",
        ),
        ("a.md", "---\ndescription: x\nkind: http\nurl: agents.test/risks\n---\n"),
        (
            "a.md",
            "---\ndescription: x\nkind: http\nurl: https://me:secret@agents.test/risks\n---\n",
        ),
        (
            "a.md",
            "---\ndescription: x\nkind: http\nurl: http://agents.test/risks\nheaders:\n  Authorization: Bearer ${SCOUT_TOKEN}\n  X-Api-Key: abcdefgh\n  Host: other\n  Accept: '*/*'\n  X-Tenant: $TENANT\n  'a b': c\n---\n",
        ),
        ("a.md", "---\ndescription: x\nurl: https://agents.test\nheaders: {A: b}\n---\n"),
        ("a.md", "---\ndescription: x\nkind: command\n---\n"),
        ("a.md", "---\ndescription: x\ncommand: ls\ntemperature: 0.2\n---\n"),
        (
            "a.md",
            "---\ndescription: x\ntemperature: 2.5\ncache_warm: followers\noutput_schema: 7\ntags: [a, 7]\n---\n",
        ),
        ("a.toml", "description = \"x\"\noutput_schema = \"{ not json\"\n"),
        ("a.toml", "description = \"x\"\noutput_schema = \"missing.json\"\n"),
        (
            "a.toml",
            "description = \"x\"\nkind = \"extractive\"\ncache_warm = \"off\"\noutput_schema = \"{}\"\n",
        ),
        ("a.md", "---\ndescription: x\npipeline: []\n---\n"),
        (
            "a.md",
            "---\ndescription: x\npipeline: [a, risk, '=x', 'facts=', facts]\ndelegates: [risks]\n---\n",
        ),
        ("a.md", "---\ndescription: x\nkind: pipeline\n---\n"),
        ("a.md", "---\ndescription: x\npipeline: [facts]\ntemperature: 0.2\n---\n"),
        ("A b.md", "---\ndescription: x\n---\n"),
        ("a.toml", "description = 3\n"),
        ("a.toml", "description = \"x\"\nmodel = \n"),
    };
    let reply: Vec<String> = table
        .iter()
        .map(|(name, text)| format!("{text}\n>>> {}\n", with_agent(name, text).check()))
        .collect();
    insta::assert_snapshot!(reply.join("\n"));
}

#[test]
fn a_pipeline_has_its_stages_and_nobody_else() {
    let article = "---\ndescription: x\npipeline: [facts, risks=Only the money., facts]\n---\n";
    let sandbox = with_agent("article.md", article).file(
        "project/agents/told.toml",
        "description = \"x\"\ninstructions = \"Sum it up.\"\npipeline = [\"facts\"]\n",
    );
    let setup = sandbox.setup();
    let roster = &setup.roster;
    // Without instructions it adds nothing; with some it answers itself.
    assert_eq!(roster.get("article").unwrap().kind, AgentKind::Pipeline);
    assert_eq!(roster.get("told").unwrap().kind, AgentKind::Llm);
    let team = roster.team("article", &[""; 0]).unwrap();
    let stages = team.delegates.iter();
    let stages: Vec<_> = stages
        .map(|stage| (stage.agent.id.as_str(), stage.task.as_deref()))
        .collect();
    let risks = ("risks", Some("Only the money."));
    assert_eq!(stages, [("facts", None), risks, ("facts", None)]);

    // The agents that are usually asked are not added; those that are named are refused.
    let usual = Ask::new("x").lead("article").team(&setup).unwrap();
    assert_eq!(usual, team);
    let refused = |lead: &str, agents: &[&str]| roster.team(lead, agents).unwrap_err().to_string();
    insta::assert_snapshot!(refused("article", &["actions"]), @"agent `article` works through its pipeline and takes no other agents: leave them out, or add them to its `pipeline`");
    insta::assert_snapshot!(refused("lead", &["article"]), @"agent `article` has a pipeline and can only be the lead: name the agents of its pipeline instead, or ask it with `--lead article`");
}

#[test]
fn pipelines_do_not_stand_in_each_other() {
    let sandbox = with_agent("a.md", "---\ndescription: x\npipeline: [facts, b]\n---\n")
        .file(
            "project/agents/b.md",
            "---\ndescription: x\npipeline: [a]\n---\n",
        )
        .file(
            "project/agents/c.md",
            "---\ndescription: x\ndelegates: [b]\n---\n",
        );
    insta::assert_snapshot!(sandbox.check(), @r"
    agents/a.md:3:1: error: the pipeline of agent `a` names agent `b`, which has its own pipeline; name the agents of its pipeline in place of `b`
    agents/b.md:3:1: error: the pipeline of agent `b` names agent `a`, which has its own pipeline; name the agents of its pipeline in place of `a`
    agents/c.md:3:1: error: agent `c` names `b` as a delegate, which has its own pipeline; name the agents of its pipeline in place of `b`
    ");
}

#[test]
fn a_registered_kind_is_taken() {
    let setup = with_agent("a.md", "---\ndescription: x\nkind: echo\n---\n").setup();
    assert_eq!(
        setup.roster.get("a").unwrap().kind,
        AgentKind::Custom("echo".into())
    );
}

#[test]
fn later_places_win_and_hidden_ones_are_told() {
    let sandbox = Sandbox::with_config("[agents.mine]\nmax_model_calls = 2\n[agents.risks]\nmax_model_calls = 9\ndescription = \"Other\"\n[agents.extra]\ndescription = \"Only here\"\n")
        .file("home/.config/unisono/agents/mine.md", "---\ndescription: a person's\n---\n")
        .file("project/agents/mine.toml", "description = \"the project's\"\n")
        .file("project/agents/README.md", "not an agent")
        .file("project/agents/notes.txt", "neither")
        .env("UNISONO__AGENTS__FACTS__RETRIES", "7");
    let setup = sandbox.setup();
    let get = |name: &str| setup.roster.get(name).unwrap();
    assert_eq!(
        (&*get("mine").description, get("mine").max_model_calls),
        ("the project's", 2)
    );
    assert_eq!(
        (&*get("risks").description, get("risks").max_model_calls),
        ("Other", 9)
    );
    assert!(get("risks").instructions.contains("open questions"));
    assert_eq!(get("facts").retries, 7);
    assert_eq!(&*get("extra").description, "Only here");
    insta::assert_snapshot!(sandbox.complaints(), @r"
    /home/.config/unisono/agents/mine.md: warning: agent `mine` is not used: agents/mine.toml has the same id
    config/unisono.toml:5:1: warning: agent `risks`: this `description` takes the place of the one at built-in/agents/risks.md:2:1
    ");
    let twice = sandbox.file("project/agents/mine.md", "---\ndescription: again\n---\n");
    assert!(twice.check().contains("agents/mine.toml: error: agent `mine` is also defined in agents/mine.md; keep one of the two files"), "{}", twice.check());
}

#[test]
fn agents_of_a_person_in_the_directory_of_these_agents_hide_nothing() {
    let mine = "---\ndescription: a person's\n---\n";
    let mut sandbox = Sandbox::new().file("home/.config/unisono/agents/mine.md", mine);
    std::os::unix::fs::symlink(sandbox.path("home"), sandbox.path("link")).unwrap();
    for directory in ["home/.config/unisono", "link/.config/unisono"] {
        sandbox.sources.directory = sandbox.path(directory);
        assert_eq!(sandbox.complaints(), "", "{directory}");
        let mine = sandbox.setup().roster.get("mine").unwrap();
        assert_eq!(&*mine.description, "a person's");
    }
}

#[test]
fn a_lead_that_delegates_chooses_among_the_agents_named() {
    let text = "---\ndescription: Leads\ntools: [delegate]\ndelegates: [facts]\n---\n";
    let setup = with_agent("boss.md", text).setup();
    let shown = |lead: &str, agents: &[&str]| {
        let team = setup.roster.team(lead, agents).unwrap();
        let before = team.delegates.iter().map(|d| d.agent.id.to_string());
        let available = team.available.iter().map(|agent| agent.id.to_string());
        (
            before.collect::<Vec<_>>().join(" "),
            available.collect::<Vec<_>>().join(" "),
        )
    };
    let pair = |before: &str, available: &str| (before.to_owned(), available.to_owned());
    let named = ["risks", "actions=by Friday", "risks", "facts"];
    assert_eq!(shown("boss", &named), pair("facts actions", "risks facts"));
    assert_eq!(shown("boss", &[]), pair("facts", ""));
    let turn = &setup.loaded.config.turn;
    let agents: Vec<&str> = turn.agents.iter().map(String::as_str).collect();
    let all = "decisions risks facts actions";
    assert_eq!(shown("coordinator", &agents), pair("", all));
    assert_eq!(shown("lead", &agents), pair(all, ""));
    let own = setup
        .roster
        .team("boss", &["boss"])
        .unwrap_err()
        .to_string();
    assert_eq!(
        own,
        "agent `boss` is the lead and cannot be one of its own delegates"
    );

    let turn = |lead: &str| {
        let ask = Ask::new("go").lead(lead);
        unisono::ask::turn(&setup, &ask, &Calibrations::default()).unwrap()
    };
    let tools = |lead: &str| {
        turn(lead)
            .tools
            .iter()
            .map(|t| t.name.to_string())
            .collect::<Vec<_>>()
    };
    // There are no skills.
    assert_eq!(tools("coordinator"), DELEGATING[..3]);
    assert_eq!(tools("lead"), DEFAULT_TOOLS[..2]);
    let limits = turn("coordinator").delegation;
    assert_eq!((limits.depth, limits.live_runs), (1, 64));
}

#[test]
fn a_tool_is_named_as_its_server_does() {
    let clerk = "---\ndescription: x\ntools: [files__a/b.c]\ndeny_tools: [files__d.e]\n\
                 mcp_servers: [files]\n---\n";
    let sandbox = with_agent("clerk.md", clerk).file(
        "project/config/unisono.toml",
        "[mcp.files]\ncommand = \"files\"\n",
    );
    let clerk = sandbox.setup().roster.get("clerk").unwrap();
    let tools: Vec<&str> = clerk.tools.iter().map(|tool| &**tool).collect();
    // As models know them.
    let denied = format!("!{}", unisono_runtime::mcp::shown_name("files__d.e"));
    assert_eq!(tools, [&*denied, "files__*", "files__a_b_c_17965c1b"]);
    assert!(denied.starts_with("!files__d_e_"), "{denied}");
}

#[test]
fn tools_of_a_server_that_an_editor_may_bring_can_be_denied() {
    let clerk = "---\ndescription: x\ndeny_tools: [files__delete*]\n---\n";
    let sandbox = with_agent("clerk.md", clerk);
    let setup = sandbox.setup();
    let clerk = setup.roster.get("clerk").unwrap();
    assert!(clerk.tools.contains(&"!files__delete*".into()), "{clerk:?}");
    let warnings = setup.warnings.to_string();
    let said = "warning: agent `clerk` names an unknown tool `files__delete*`";
    assert!(warnings.contains(said), "{warnings}");
    let given = with_agent(
        "clerk.md",
        "---\ndescription: x\ntools: [files__read]\n---\n",
    );
    assert!(given.load().is_err());
    for (denied, is_error) in [("fiels__delete*", true), ("files-2__delete*", false)] {
        let text = format!("---\ndescription: x\ndeny_tools: [{denied}]\n---\n");
        let sandbox = Sandbox::with_config("[mcp.files]\ncommand = \"files\"\n");
        let sandbox = sandbox.file("project/agents/clerk.md", &text);
        assert_eq!(sandbox.load().is_err(), is_error, "{denied}");
        let said = sandbox.complaints();
        assert!(
            said.contains("did you mean the tool server `files`?"),
            "{said}"
        );
    }
}

#[test]
fn a_team_is_named_with_tasks() {
    let sandbox = with_agent("boss.md", "---\ndescription: x\ndelegates: [risks]\n---\n");
    let roster = sandbox.setup().roster;
    let team = roster
        .team("boss", &["facts", "risks", "risks = only money=cost"])
        .unwrap();
    let shown: Vec<(&str, Option<&str>)> = team
        .delegates
        .iter()
        .map(|a| (a.agent.id.as_str(), a.task.as_deref()))
        .collect();
    assert_eq!(
        shown,
        [
            ("risks", None),
            ("facts", None),
            ("risks", Some("only money=cost"))
        ]
    );
    let error = |lead: &str, agents: &[&str]| roster.team(lead, agents).unwrap_err().to_string();
    insta::assert_snapshot!([
        error("bos", &[]),
        error("boss", &["fact"]),
        error("boss", &["boss"]),
        error("boss", &["=task"]),
        error("boss", &["facts="]),
        error("boss", &["zzz"]),
    ].join("\n"), @r"
    unknown agent `bos`; did you mean `boss`?
    unknown agent `fact`; did you mean `facts`?
    agent `boss` is the lead and cannot be one of its own delegates
    `=task` must be an agent, or agent=task
    `facts=` must be an agent, or agent=task
    unknown agent `zzz`; known are: actions, boss, coordinator, decisions, facts, lead, risks
    ");
}
