//! Accepted and refused inputs; a refusal changes nothing.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use unisono_context::alteration::{Alteration, Form};
use unisono_context::attachment::{Content, Extent, FileRules};
use unisono_context::budget::Limits;
use unisono_context::call::CacheWarm;
use unisono_context::message::{NewMessage, Part, Role};
use unisono_context::tokens::Counts;
use unisono_context::{Digest, Encoding, Ordinal, Ppm, Timestamp, Tokens, tree};
use unisono_session::agent::{Acp, AgentKind, Command, Definition, Team, ToolKind};
use unisono_session::event::{Calibration, Outcome};
use unisono_session::machine::{EPHEMERAL, Import, NewTurn, RESERVED_LABELS};
use unisono_session::tool::Contract;
use unisono_session::{Fact, Input, Machine, Refusal, ids};

use crate::shell::*;

fn answer(n: u64, input: NewMessage) -> Input {
    Input::Accept(Box::new(NewTurn {
        work: answering(input),
        ..turn(n, team(agent("lead"), []))
    }))
}

fn on(branch: &str, turn: NewTurn) -> NewTurn {
    NewTurn {
        branch: branch.into(),
        ..turn
    }
}

#[test]
fn a_refusal_leaves_the_machine_as_it_was() {
    let mut shell = Shell::with(3);
    shell.accept(turn(0, team(agent("lead"), [])));
    shell.accept(turn(1, team(agent("lead"), [])));
    let lead = || team(agent("another-lead"), [agent("another")]);
    let says = |role, parts| NewMessage {
        role,
        parts,
        ..input(9)
    };
    let result = result_part("1", "x");
    let duplicate = |n| Refusal::Tree(tree::Error::DuplicateId(n));
    let own = ids::message(turn_id(9), 0);
    let cases: Vec<(&str, Input, Refusal)> = vec![
        (
            "an unknown branch",
            Input::Accept(Box::new(on("elsewhere", turn(9, lead())))),
            Refusal::UnknownBranch("elsewhere".into()),
        ),
        (
            "a compaction of an unknown branch",
            Input::Accept(Box::new(on("elsewhere", manual(9)))),
            Refusal::UnknownBranch("elsewhere".into()),
        ),
        (
            "an empty task",
            answer(9, says(Role::User, vec![Part::text(" \n")])),
            Refusal::EmptyTask,
        ),
        (
            "no parts at all",
            answer(9, says(Role::User, Vec::new())),
            Refusal::EmptyTask,
        ),
        (
            "an assistant's message",
            answer(9, says(Role::Assistant, vec![Part::text("hi")])),
            Refusal::NotAnInput(input(9).id),
        ),
        (
            "a tool result",
            answer(9, says(Role::User, vec![result])),
            Refusal::NotAnInput(input(9).id),
        ),
        (
            "an id of the history",
            answer(
                9,
                NewMessage {
                    id: message_id(2),
                    ..input(9)
                },
            ),
            duplicate(message_id(2)),
        ),
        (
            "the id of an input that waits",
            answer(9, input(1)),
            duplicate(input(1).id),
        ),
        (
            "a fork at an unknown message",
            Input::Fork {
                branch: "side".into(),
                at: own,
            },
            Refusal::Tree(tree::Error::UnknownMessage(own)),
        ),
        (
            "a branch whose name controls a terminal",
            Input::Fork {
                branch: "side\u{1b}[31m".into(),
                at: message_id(1),
            },
            Refusal::BranchName("side\u{1b}[31m".into()),
        ),
        (
            "a branch whose name would break lines",
            Input::Fork {
                branch: "a\nb".into(),
                at: message_id(1),
            },
            Refusal::BranchName("a\nb".into()),
        ),
        (
            "a branch without a name",
            Input::Fork {
                branch: " ".into(),
                at: message_id(1),
            },
            Refusal::BranchName(" ".into()),
        ),
        (
            "moving a branch that is worked on",
            Input::Fork {
                branch: "main".into(),
                at: message_id(1),
            },
            Refusal::BranchBusy("main".into()),
        ),
        (
            "cancelling what is not open",
            Input::Cancel { turn: turn_id(9) },
            Refusal::UnknownTurn(turn_id(9)),
        ),
        (
            "another conversation under the same id",
            Input::Import(Import {
                title: "other".into(),
                ..conversation(3)
            }),
            Refusal::AlreadyCreated,
        ),
        (
            "an import without an id",
            Input::Import(Import {
                session: None,
                ..conversation(3)
            }),
            Refusal::NoSessionId,
        ),
        (
            "a longer import of the same session",
            Input::Import(conversation(4)),
            Refusal::AlreadyCreated,
        ),
    ];
    let before = format!("{:?}", shell.machine);
    for (name, input, expected) in cases {
        assert_eq!(shell.feed(input).unwrap_err(), expected, "{name}");
        assert_eq!(format!("{:?}", shell.machine), before, "{name}");
    }
}

#[test]
fn reserved_labels_and_those_without_a_name_are_refused() {
    let reserved = [EPHEMERAL, RESERVED_LABELS, "unisono.anything"];
    let reserved = reserved.map(|name| (name, Refusal::ReservedLabel(name.into())));
    for (name, expected) in reserved.into_iter().chain([("", Refusal::UnnamedLabel)]) {
        let import = Import {
            labels: [(name.into(), "x".into())].into(),
            ..conversation(1)
        };
        let mut machine = Machine::new();
        let refusal = machine.handle(Input::Import(import), Timestamp(0));
        assert_eq!(refusal.unwrap_err(), expected, "{name}");
        assert_eq!(machine.state().events(), 0, "nothing of it is stored");
    }
    let ephemeral = Import {
        labels: [("via".into(), "openai".into())].into(),
        ephemeral: Some("a process".into()),
        ..conversation(1)
    };
    let mut machine = Machine::new();
    let import = Input::Import(ephemeral.clone());
    machine.handle(import, Timestamp(0)).unwrap();
    let state = machine.state();
    assert_eq!(
        state.labels().get(EPHEMERAL).map(|of| &**of),
        Some("a process")
    );
    let own: Vec<_> = state.own_labels().collect();
    assert_eq!(own, [("via", "openai")], "a copy of it is no such session");
    let again = machine.handle(Input::Import(ephemeral), Timestamp(0));
    assert_eq!(again.unwrap().events, [], "the same again");
}

#[test]
fn only_an_import_is_accepted_before_the_session_exists() {
    let inputs = [
        Input::Tick,
        Input::Cancel { turn: turn_id(0) },
        Input::Accept(Box::new(turn(0, team(agent("lead"), [])))),
    ];
    for input in inputs {
        let refusal = Machine::new().handle(input, Timestamp(0)).unwrap_err();
        assert_eq!(refusal, Refusal::NotCreated);
    }
    let broken = Import {
        messages: vec![(Some(message_id(7)), input(1))],
        ..conversation(0)
    };
    let elsewhere = Import {
        alterations: vec![(0, masked(2, 3))],
        ..conversation(3)
    };
    for import in [broken, elsewhere] {
        let mut machine = Machine::new();
        assert!(machine.handle(Input::Import(import), Timestamp(0)).is_err());
        assert_eq!(machine.state().events(), 0, "nothing of it is stored");
    }
}

/// Message `n`, masked, as if it had this ordinal.
fn masked(n: u64, ordinal: u32) -> Alteration {
    Alteration {
        message: message_id(n),
        ordinal: Ordinal(ordinal),
        form: Form::Masked { tokens: Tokens(40) },
        counts: Counts::default(),
    }
}

#[test]
fn shortened_messages_are_imported_with_a_count_in_every_encoding() {
    let import = Import {
        alterations: vec![(0, masked(2, 2))],
        ..conversation(3)
    };
    let mut machine = Machine::new();
    for _ in 0..2 {
        machine
            .handle(Input::Import(import.clone()), Timestamp(0))
            .unwrap();
    }
    assert_eq!(machine.state().events(), 1 + 3 + 1 + 1, "once");
    let alterations = machine.state().alterations();
    let standing = alterations.get(Ordinal(2), message_id(2)).unwrap();
    assert_eq!(standing.form, masked(2, 2).form);
    assert!(
        Encoding::ALL
            .iter()
            .all(|e| standing.counts.get(*e).is_some())
    );
}

#[test]
fn a_masked_message_is_estimated_with_its_attachments() {
    let pages = Extent::Pages(2);
    let mut import = conversation(3);
    import.messages[1].1.parts.push(Part::Attachment {
        filename: "a.pdf".into(),
        mime: "application/pdf".into(),
        size_bytes: 5,
        content: Some(Content::new(Arc::from(&b"bytes"[..]), pages)),
    });
    import.alterations = vec![(0, masked(2, 2))];
    let mut machine = Machine::new();
    machine.handle(Input::Import(import), Timestamp(0)).unwrap();
    let alterations = machine.state().alterations();
    let standing = alterations.get(Ordinal(2), message_id(2)).unwrap();
    for encoding in Encoding::ALL {
        let count = standing.counts.get(encoding).unwrap();
        assert!(count.tokens > pages.at_most(), "{encoding:?}: {count:?}");
    }
}

#[test]
fn a_repeated_input_is_no_error_and_changes_nothing() {
    let mut shell = Shell::with(3);
    shell.accept(turn(0, team(agent("lead"), [])));
    let events = shell.journal.len();
    shell.accept(turn(0, team(agent("lead"), [])));
    shell.feed(Input::Import(conversation(3))).unwrap();
    assert_eq!(shell.journal.len(), events);
    let lead = shell.dispatched().remove(0);
    shell.finish(&lead, "done");
    let events = shell.journal.len();
    shell.accept(turn(0, team(agent("lead"), [])));
    assert_eq!(shell.journal.len(), events, "nor after its end");
}

#[test]
fn an_import_cut_short_is_completed_by_the_same_import() {
    let whole = Shell::with(5);
    for kept in 1..whole.journal.len() {
        let (mut machine, _) = Machine::recover(&whole.journal[..kept], Timestamp(0)).unwrap();
        let rest = machine
            .handle(Input::Import(conversation(5)), Timestamp(1_000))
            .unwrap();
        assert_eq!(rest.events, whole.journal[kept..]);
    }
}

#[test]
fn inputs_of_a_branch_wait_and_are_answered_in_order() {
    let mut shell = Shell::with(1);
    for n in [2, 0, 1] {
        shell.accept(turn(n, team(agent("lead"), [])));
    }
    for n in [2, 0, 1] {
        let briefs = shell.dispatched();
        assert_eq!(briefs.len(), 1, "one open turn a branch");
        assert_eq!(briefs[0].turn, turn_id(n));
        shell.finish(&briefs[0], "done");
    }
    assert_eq!(shell.state().open_turns().count(), 0);
}

#[test]
fn branches_work_side_by_side_and_one_that_waits_can_be_cancelled() {
    let mut shell = Shell::with(2);
    let side: Arc<str> = "side".into();
    shell
        .feed(Input::Fork {
            branch: side,
            at: message_id(1),
        })
        .unwrap();
    shell.accept(turn(0, team(agent("lead"), [])));
    shell.accept(turn(1, team(agent("lead"), [])));
    shell.accept(on("side", turn(2, team(agent("lead"), []))));
    assert_eq!(shell.dispatched().len(), 2);
    shell.feed(Input::Cancel { turn: turn_id(1) }).unwrap();
    assert_eq!(*shell.outcome(1), Outcome::Cancelled);
    assert!(shell.cancelled().is_empty());
    let appended = shell.state().tree().get(input(1).id);
    assert!(appended.is_none(), "its input never became a message");
    assert!(
        shell
            .facts("turn_accepted")
            .iter()
            .any(|fact| matches!(fact, Fact::TurnAccepted { turn } if turn.id == turn_id(1)))
    );
}

#[test]
fn request_options_are_part_of_a_definitions_digest() {
    let schema = |text: &str| Definition {
        output_schema: Some(text.into()),
        ..agent("a")
    };
    let temperature = |milli| Definition {
        temperature_milli: Some(milli),
        ..agent("a")
    };
    let warm = |cache_warm| Definition {
        cache_warm,
        ..agent("a")
    };
    let all = [
        agent("a"),
        schema("{}"),
        schema(r#"{"type":"object"}"#),
        temperature(0),
        temperature(1),
        warm(CacheWarm::Prewarm),
        warm(CacheWarm::Off),
        Definition {
            limits: Limits {
                files: FileRules::TEXTS,
                ..agent("a").limits
            },
            ..agent("a")
        },
    ];
    let digests: BTreeSet<Digest> = all.iter().map(Definition::digest).collect();
    assert_eq!(digests.len(), all.len());
    let recorded = "the digest of journals that knew none of this";
    assert_eq!(
        agent("lead").digest().short().to_string(),
        "08db3b25916d",
        "{recorded}"
    );
}

#[test]
fn permissions_of_a_coding_agent_are_part_of_a_definitions_digest() {
    let command = |cwd: &str| Command {
        program: "gemini".into(),
        args: vec!["--acp".into()],
        env: BTreeMap::new(),
        cwd: Some(cwd.into()),
        env_pass: Vec::new(),
    };
    let first = Acp {
        command: command("/a"),
        worktree: false,
        allow: vec![ToolKind::Read],
        deny: Vec::new(),
        contract: Contract::AtMostOnce,
        options: BTreeMap::new(),
        login: None,
    };
    let mut all = vec![first.clone(); 9];
    all[1].command = command("/b");
    all[2].worktree = true;
    all[3].allow = vec![ToolKind::Edit];
    all[4].contract = Contract::Idempotent;
    all[5].deny = vec![ToolKind::Edit];
    all[6].options = BTreeMap::from([("mode".into(), "default".into())]);
    all[7].options = BTreeMap::from([("mode".into(), "plan".into())]);
    all[8].login = Some("api-key".into());
    let digests = all.iter().map(|acp| {
        let kind = AgentKind::Acp(acp.clone());
        let definition = Definition { kind, ..agent("a") };
        definition.digest()
    });
    let mut digests: BTreeSet<Digest> = digests.collect();
    let kind = AgentKind::Command(first.command);
    digests.insert(Definition { kind, ..agent("a") }.digest());
    assert_eq!(digests.len(), all.len() + 1);
}

#[test]
fn the_budget_of_an_estimated_model_is_reduced_by_its_error() {
    let of = |ratio, band| Calibration {
        model: "fake/model".into(),
        ratio: Ppm(ratio),
        band: Ppm(band),
    };
    let table = [
        (1_000_000, 0, 1_000, 1_000),
        (1_250_000, 0, 1_000, 800),
        (1_200_000, 200_000, 1_000, 694),
        (800_000, 0, 1_000, 1_250),
        (1_000_000, 0, u64::MAX, u64::MAX),
        (1, 0, u64::MAX, u64::MAX),
        (0, 0, 7, 7_000_000),
    ];
    for (ratio, band, tokens, estimated) in table {
        assert_eq!(of(ratio, band).estimated(Tokens(tokens)), Tokens(estimated));
    }
    let usable = |calibrations: Vec<Calibration>| {
        let mut shell = Shell::with(2);
        shell.begin(NewTurn {
            calibrations,
            ..turn(0, team(agent("lead"), []))
        });
        let turn = shell.state().turn(turn_id(0)).unwrap();
        let budgets = shell.state().least_budget(turn).unwrap();
        budgets.iter().next().unwrap().usable
    };
    assert_eq!(
        usable(Vec::new()),
        Tokens(1_690),
        "2,000 less 100, 5 %, 3 of system text, and 107 of its role and what is around it"
    );
    let other = Calibration {
        model: "fake/other".into(),
        ..of(2_000_000, 0)
    };
    assert_eq!(usable(vec![other.clone()]), Tokens(1_690));
    let off = of(1_200_000, 200_000);
    assert_eq!(usable(vec![other, off]), Tokens(1_800 * 100 / 144 - 110));
}

#[test]
fn available_agents_are_recorded_rendered_and_within_the_budgets() {
    let tight = sized("tight", 900, Encoding::Cl100kBase);
    let mut shell = Shell::with(2);
    let available = vec![Arc::new(tight), Arc::new(agent("facts"))];
    shell.accept(turn(
        0,
        Team {
            available: available.clone(),
            ..team(agent("lead"), [agent("facts")])
        },
    ));
    assert_eq!(shell.facts("defined").len(), 3, "each once");
    let turn = shell.state().turn(turn_id(0)).unwrap();
    assert_eq!(turn.team.available, available);
    let names = |agents: Vec<(Digest, Arc<Definition>)>| {
        agents
            .iter()
            .map(|(_, a)| a.id.to_string())
            .collect::<Vec<_>>()
    };
    assert_eq!(
        names(turn.distinct_definitions()),
        ["lead", "facts", "tight"]
    );
    assert_eq!(turn.encodings(), Encoding::ALL);
    shell.prepare();
    let turn = shell.state().turn(turn_id(0)).unwrap();
    let view = shell.state().tree().head("main");
    let view = shell.state().view(view.unwrap(), true).unwrap();
    let budgets = shell.state().required_budgets(turn, &view).unwrap();
    let usable: Vec<Tokens> = budgets.iter().map(|budget| budget.usable).collect();
    // A tenth of 1,690 is reserved for the delegate's results; the other agent may get a task from
    // the lead.
    assert_eq!(usable, [Tokens(1_521), Tokens(588)]);
    assert_eq!(
        shell
            .recovered()
            .state()
            .turn(turn_id(0))
            .unwrap()
            .team
            .available,
        available
    );
}
