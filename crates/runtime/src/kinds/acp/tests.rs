//! Coding agents with real programs: their input, and their errors.

use std::collections::BTreeMap;
use std::path::Path;
use std::sync::Arc;

use serde_json::Value;
use tempfile::TempDir;
use unisono_context::{Cost, Tokens};
use unisono_session::agent::{AgentKind, ContextMode, ToolKind};
use unisono_session::machine::CallEnd;
use unisono_session::run::{Step, Usage};
use unisono_session::tool::Contract;

use super::*;
use crate::agent::fixture::{Attempt, run_in_time, sh, task, until};

/// An agent in Python; each test supplies `on_prompt(text)`.
const AGENT: &str = r#"
import json, os, subprocess, sys
def send(**message):
    print(json.dumps(dict(jsonrpc="2.0", **message)), flush=True)
def read():
    line = sys.stdin.readline()
    if not line: sys.exit(0)
    return json.loads(line)
def update(what, **more):
    send(method="session/update", params=dict(sessionId="s1", update=dict(sessionUpdate=what, **more)))
def say(text):
    update("agent_message_chunk", content=dict(type="text", text=text))
def ask(kind, call="c1"):
    options = [dict(optionId=o, name=o, kind=o) for o in ("allow_always", "allow_once", "reject_once")]
    send(id="q", method="session/request_permission",
         params=dict(sessionId="s1", toolCall=dict(toolCallId=call, title="Do " + kind, kind=kind), options=options))
    return read()["result"]["outcome"]["optionId"]
init = dict(protocolVersion=1, agentCapabilities={}, authMethods=[dict(id="x", name="Log in with X")])
def on_init(id): send(id=id, result=init)
def on_new(id, params): send(id=id, result=dict(sessionId="s1"))
def on_other(id, method, params): pass
def main(on_prompt):
    while True:
        message = read()
        method, id = message.get("method"), message.get("id")
        if method == "initialize": on_init(id)
        elif method == "session/new": on_new(id, message["params"])
        elif method == "session/prompt":
            on_prompt(id, message["params"]["prompt"][0]["text"])
        elif method and id is not None: on_other(id, method, message["params"])
def end(id, reason="end_turn"): send(id=id, result=dict(stopReason=reason))
"#;

/// An agent with this code for its prompt, `id` and `text`.
fn python(prompt: &str) -> Acp {
    let body: String = prompt.lines().map(|line| format!("    {line}\n")).collect();
    script(&format!(
        "def on_prompt(id, text):\n{body}\nmain(on_prompt)"
    ))
}

fn script(rest: &str) -> Acp {
    program(Command {
        program: "python3".into(),
        ..sh(&format!("{AGENT}{rest}"))
    })
}

pub(super) fn program(command: Command) -> Acp {
    Acp {
        command,
        worktree: false,
        allow: ToolKind::DEFAULT.to_vec(),
        deny: Vec::new(),
        contract: Contract::AtMostOnce,
        options: BTreeMap::new(),
        login: None,
    }
}

fn attempt(acp: &Acp) -> Attempt {
    Attempt::new(AgentKind::Acp(acp.clone()), &["where is it?", "there"])
}

fn later(attempt: &Attempt, acp: &Acp) -> Attempt {
    let mut later = self::attempt(acp);
    later.steps = attempt.session.steps();
    later
}

async fn ask(acp: &Acp, attempt: &Attempt) -> Result<Answer, Failure> {
    run_in_time(&AcpAgent::new(acp.clone()), attempt).await
}

async fn fails(acp: &Acp) -> Failure {
    ask(acp, &attempt(acp)).await.unwrap_err()
}

fn steps(attempt: &Attempt) -> Vec<(String, Value)> {
    let steps = attempt.session.steps();
    let named = steps.iter().filter_map(|step| match &**step {
        Step::Named { name, result } => {
            Some((name.to_string(), serde_json::from_str(result).unwrap()))
        }
        _ => None,
    });
    named.collect()
}

fn names(attempt: &Attempt) -> Vec<String> {
    steps(attempt).into_iter().map(|(name, _)| name).collect()
}

fn step(attempt: &Attempt, wanted: &str) -> Value {
    let mut all = steps(attempt).into_iter();
    all.find(|(name, _)| name == wanted).expect("the step").1
}

/// A repository with one commit and a directory `sub`.
fn repository() -> TempDir {
    let place = tempfile::tempdir().unwrap();
    let script = "git init -q -b main . && mkdir sub && echo one > sub/a && git add . && \
                  git -c user.name=t -c user.email=t@test commit -q -m one";
    run_git(place.path(), script);
    place
}

fn run_git(at: &Path, script: &str) -> String {
    let mut command = std::process::Command::new("sh");
    let done = command
        .args(["-ec", script])
        .current_dir(at)
        .output()
        .unwrap();
    assert!(done.status.success(), "{done:?}");
    String::from_utf8(done.stdout).unwrap()
}

/// An agent in a worktree of this repository.
fn within(place: &TempDir, below: &str, mut acp: Acp) -> Acp {
    acp.command.cwd = Some(place.path().join(below).to_string_lossy().into());
    acp.worktree = true;
    acp
}

#[tokio::test]
async fn an_agent_gets_the_snapshot_its_instructions_and_the_task() {
    let acp = python("say(text)\nend(id)");
    let asking = attempt(&acp);
    let answer = ask(&acp, &asking).await.unwrap();
    let snapshot = asking.snapshot().id().to_string();
    let (heading, rest) = answer.text.split_once('\n').unwrap();
    assert!(heading.contains(&snapshot), "{heading}");
    let (document, rest) = rest.split_once("\n\n").unwrap();
    let document: Value = serde_json::from_str(document).unwrap();
    assert!(document["context"].to_string().contains("where is it?"));
    assert_eq!(
        rest,
        "Your instructions:\nName every risk.\n\nYour task:\nlist the risks"
    );
    assert_eq!(
        names(&asking),
        ["acp.place.1", "acp.prompt.1", "acp.answer.1"]
    );
    let prompt = step(&asking, "acp.prompt.1");
    assert_eq!(
        (&prompt["snapshot"], &prompt["shares"]),
        (&snapshot.into(), &"text".into())
    );
    // Another attempt or process takes the journaled answer.
    let gone = program(sh("exit 1"));
    assert_eq!(ask(&gone, &later(&asking, &gone)).await.unwrap(), answer);

    let mut alone = attempt(&acp);
    alone.definition.context = ContextMode::TaskOnly;
    let answer = ask(&acp, &alone).await.unwrap();
    assert!(answer.text.starts_with("Your instructions:"), "{answer:?}");
}

#[tokio::test]
async fn lines_that_only_begin_like_messages_are_ignored_and_split_characters_are_joined() {
    let acp = python(
        "print('{ a: 1 }', flush=True)\n\
         sys.stdout.buffer.write(b'{\"level\": \"info\", \"at\": \"\\xff\"}\\n')\n\
         print('{\"level\": \"warn\", \"error\": \"no cache\"}', flush=True)\n\
         say('So \\ud83d')\nsay('\\ude00, \\ud83d.')\nend(id)",
    );
    let answer = ask(&acp, &attempt(&acp)).await.unwrap();
    assert_eq!(&*answer.text, "So \u{1f600}, \u{fffd}.");
}

#[tokio::test]
async fn large_messages_do_not_block_either_side() {
    let talks = "def on_new(id, params):\n    send(id=id, result=dict(sessionId='s1'))\n    \
                 for n in range(2000): update('agent_thought_chunk', content=dict(type='text', text='x' * 500))\n\
                 def on_prompt(id, text):\n    say(str(len(text)))\n    end(id)\nmain(on_prompt)";
    let acp = script(talks);
    let long = "y".repeat(1_000_000);
    let asking = Attempt::new(AgentKind::Acp(acp.clone()), &[&long]);
    let answer = ask(&acp, &asking).await.unwrap();
    assert!(answer.text.parse::<usize>().unwrap() > long.len());
}

#[tokio::test]
async fn calls_and_permissions_are_journaled_and_the_last_text_is_the_answer() {
    let acp = python(
        r#"say("I look.")
update("plan", entries=[dict(content="look", priority="medium", status="in_progress")])
update("tool_call", toolCallId="c1", title="Read map", kind="read", status="pending")
read_ok = ask("read")
update("tool_call_update", toolCallId="c1", status="completed")
edit_ok = ask("edit", "c2")
send(id="f", method="fs/read_text_file", params=dict(path="/etc/passwd"))
refused = read()["error"]["code"]
say("%s %s %s" % (read_ok, edit_ok, refused))
end(id)"#,
    );
    let asking = attempt(&acp);
    let answer = ask(&acp, &asking).await.unwrap();
    assert_eq!(&*answer.text, "allow_once reject_once -32601");
    assert_eq!(
        names(&asking),
        [
            "acp.place.1",
            "acp.prompt.1",
            "acp.call.1.1",
            "acp.report.1",
            "acp.answer.1"
        ]
    );
    let called = asking.session.called();
    let asked = called.iter().map(|(round, call)| (*round, &*call.tool));
    assert_eq!(asked.collect::<Vec<_>>(), [(1, "read"), (2, "edit")]);
    assert_eq!(step(&asking, "acp.call.1.1")["title"], "Read map");
    let report = step(&asking, "acp.report.1");
    assert_eq!(report["text"], "I look.");
    assert_eq!(report["plan"][0]["content"], "look");
    let progress = asking.session.progress();
    for line in [
        "plan, 0 of 1 done: look",
        "Read map (read): completed",
        "Do read (read): allow_once",
        "Do edit (edit): reject_once",
    ] {
        assert!(progress.iter().any(|text| &**text == line), "{progress:?}");
    }
}

#[tokio::test]
async fn a_turn_without_a_text_names_the_call_that_was_rejected() {
    let acp = python("ask(\"edit\")\nend(id)");
    let failure = ask(&acp, &attempt(&acp)).await.unwrap_err();
    let words = "got no permission for `Do edit` (edit): refused";
    assert!(failure.to_string().contains(words), "{failure}");
}

#[tokio::test]
async fn an_agent_that_ends_after_a_rejected_call_says_so() {
    let why = "permission for `Do edit` (edit): refused";
    // Qwen Code 0.24.4 says nothing more; the text before the call is no whole answer.
    let acp = python("say('I begin.')\nask('edit')\nend(id)");
    let answer = ask(&acp, &attempt(&acp)).await.unwrap();
    assert_eq!(&*answer.text, "I begin.");
    let partial = answer.partial.unwrap();
    assert!(partial.contains(why), "{partial}");
    // Codex (`codex-acp` 2.6.0) cancels its turn.
    let acp = python("say('I begin.')\nask('edit')\nend(id, 'cancelled')");
    let failed = fails(&acp).await;
    assert_eq!(failed.cause, RunCause::Rejected, "{failed}");
    assert!(failed.reason.contains(why), "{failed}");
    // An agent that goes on without the call has answered.
    let acp = python("ask('edit')\nsay('I cannot.')\nend(id)");
    let answer = ask(&acp, &attempt(&acp)).await.unwrap();
    assert_eq!((&*answer.text, answer.partial), ("I cannot.", None));
}

#[tokio::test]
async fn each_stop_reason_has_its_ending() {
    for (reason, partial) in [
        ("max_tokens", "tokens"),
        ("max_turn_requests", "model calls"),
    ] {
        let acp = python(&format!("say('Half.')\nend(id, '{reason}')"));
        let answer = ask(&acp, &attempt(&acp)).await.unwrap();
        assert_eq!(&*answer.text, "Half.");
        assert!(answer.partial.unwrap().contains(partial));
    }
    for (reason, cause) in [
        ("refusal", RunCause::Refused),
        ("cancelled", RunCause::Rejected),
        ("tired", RunCause::BadOutput),
    ] {
        let failed = fails(&python(&format!("say('No.')\nend(id, '{reason}')"))).await;
        assert_eq!(failed.cause, cause, "{failed}");
    }
    let silent = fails(&python("end(id)")).await;
    assert_eq!(silent.cause, RunCause::BadOutput, "{silent}");
}

#[tokio::test]
async fn a_program_that_is_not_an_agent_fails_with_a_reason() {
    let missing = Command {
        program: "no-such-agent".into(),
        ..sh("")
    };
    let old = "init['protocolVersion'] = 7\nmain(None)";
    let login = "def on_new(id, params): send(id=id, error=dict(code=-32000, message='Authentication required'))\nmain(None)";
    let own = "def on_new(id, params): send(id=id, error=dict(code=-32603, message='Broken', data=dict(why='disk')))\nmain(None)";
    let rows: [(Acp, RunCause, &str); 10] = rows! {
        (program(missing), RunCause::Spawn, "could not start `no-such-agent`"),
        (program(sh("echo no key >&2; exit 3")), RunCause::Exit, "its standard error ends: no key"),
        (program(sh("echo Welcome!; exit 0")), RunCause::Exit, "it wrote no message: Welcome!"),
        (
            program(sh("echo '{\"jsonrpc\":\"2.0\",\"method\":1}'; cat")),
            RunCause::BadOutput,
            "not JSON-RPC",
        ),
        (
            program(sh("yes hello")),
            RunCause::BadOutput,
            "does not speak the Agent Client Protocol; it wrote no message: hello",
        ),
        (program(sh("head -c 100000000 /dev/zero; cat")), RunCause::BadOutput, "more than 8 MiB"),
        (
            program(sh("echo '{\"id\":1,\"result\":{}}'; cat")),
            RunCause::BadOutput,
            "`initialize` with an invalid result",
        ),
        (script(old), RunCause::Rejected, "speaks version 7"),
        (
            script(login),
            RunCause::Rejected,
            "`env_pass` and set `login` to one of its methods (`x`: Log in with X); it says: Auth",
        ),
        (script(own), RunCause::Rejected, "Broken (-32603): {\"why\":\"disk\"}"),
    };
    for (acp, cause, says) in rows {
        let asking = attempt(&acp);
        let failed = ask(&acp, &asking).await.unwrap_err();
        assert_eq!(failed.cause, cause, "{failed}");
        assert!(failed.reason.contains(says), "{failed}");
        // The agent got no prompt, so a later attempt may send it.
        assert_eq!(names(&asking), ["acp.place.1"]);
    }
    let mut nowhere = program(sh("cat"));
    nowhere.command.cwd = Some("/no/such/place".into());
    let failed = fails(&nowhere).await;
    assert_eq!(failed.cause, RunCause::BadInput, "{failed}");
}

/// A session as `claude-agent-acp` 0.101.0 opens it: in its mode `auto` the agent decides about its
/// calls, and asks for no permission.
const MODES: &str = r#"
mode = dict(id="mode", name="Mode", category="mode", type="select", currentValue="auto",
            options=[dict(value=value, name=value) for value in ("default", "auto")])
def on_new(id, params): send(id=id, result=dict(sessionId="s1", configOptions=[mode]))
def on_other(id, method, params):
    assert (method, params["sessionId"]) == ("session/set_config_option", "s1"), method
    mode["currentValue"] = params["value"]
    send(id=id, result=dict(configOptions=[mode]))
def on_prompt(id, text):
    say(mode["currentValue"])
    end(id)
main(on_prompt)"#;

#[tokio::test]
async fn an_agent_works_in_the_mode_of_its_definition() {
    let mut acp = script(MODES);
    for (mode, expected) in [(None, "auto"), (Some("default"), "default")] {
        let options = mode.map(|mode| ("mode".into(), mode.into()));
        acp.options = options.into_iter().collect();
        let asking = attempt(&acp);
        assert_eq!(&*ask(&acp, &asking).await.unwrap().text, expected);
        assert_eq!(step(&asking, "acp.prompt.1")["mode"], expected);
    }
    acp.options = BTreeMap::from([("mode".into(), "manual".into())]);
    let asking = attempt(&acp);
    let failed = ask(&acp, &asking).await.unwrap_err();
    assert_eq!(failed.cause, RunCause::BadInput, "{failed}");
    let offered = "no value `manual` of the option `mode`; it has `default`, `auto`";
    assert!(failed.reason.contains(offered), "{failed}");
    assert_eq!(names(&asking), ["acp.place.1"]);
}

/// As `codex-acp` 2.6.0 does: a key in its environment counts after `authenticate` only.
const LOGIN: &str = r#"
logins = []
def on_new(id, params):
    if logins: send(id=id, result=dict(sessionId="s1"))
    else: send(id=id, error=dict(code=-32000, message="Authentication required"))
def on_other(id, method, params):
    logins.append("%s %s" % (method, params["methodId"]))
    send(id=id, result={})
def on_prompt(id, text):
    say(", ".join(logins))
    end(id)
main(on_prompt)"#;

#[tokio::test]
async fn an_agent_logs_in_by_the_method_of_its_definition() {
    let mut acp = script(LOGIN);
    acp.login = Some("x".into());
    let answer = ask(&acp, &attempt(&acp)).await.unwrap();
    assert_eq!(&*answer.text, "authenticate x");
    acp.login = Some("y".into());
    let failed = fails(&acp).await;
    assert_eq!(failed.cause, RunCause::BadInput, "{failed}");
    let offered = "has no login `y`; it has `x`: Log in with X";
    assert!(failed.reason.contains(offered), "{failed}");
}

#[tokio::test(start_paused = true)]
async fn an_agent_that_never_answers_times_out() {
    let acp = program(sh("echo starting; exec sleep 1000"));
    let agent = AcpAgent::new(acp.clone());
    let failed = agent.run(task(), attempt(&acp).ctx()).await.unwrap_err();
    assert_eq!(failed.cause, RunCause::Timeout);
    assert!(
        failed
            .reason
            .contains("did not answer `initialize` within 120 s"),
        "{failed}"
    );
}

#[tokio::test]
async fn an_interrupted_prompt_is_repeated_only_if_idempotent() {
    for (breaks, cause) in [
        ("sys.exit(3)", RunCause::Exit),
        (
            "print('{\"jsonrpc\": \"2.0\", \"method\": 1}', flush=True)\nread()",
            RunCause::BadOutput,
        ),
        ("update('agent_message_chunk')\nread()", RunCause::BadOutput),
        (
            "update('tool_call', toolCallId='1')\nsend(id=id, error=dict(code=-32603, message='Broken'))",
            RunCause::Rejected,
        ),
    ] {
        let once = python(breaks);
        let first = attempt(&once);
        let failed = ask(&once, &first).await.unwrap_err();
        assert_eq!(failed.cause, cause, "{failed}");
        assert_eq!(names(&first).last().unwrap(), "acp.failed.1");
        let doubt = ask(&once, &later(&first, &once)).await.unwrap_err();
        assert_eq!(doubt.cause, RunCause::BadInput);
        let here = std::env::current_dir().unwrap();
        for part in ["nobody knows", &*failed.reason, &*here.to_string_lossy()] {
            assert!(doubt.reason.contains(part), "{doubt}");
        }
        let again = Acp {
            contract: Contract::Idempotent,
            ..python("say('So.')\nend(id)")
        };
        let answer = ask(&again, &later(&first, &again)).await.unwrap();
        assert_eq!(&*answer.text, "So.");
    }
    // An agent that refuses before it does anything may be prompted again.
    let refuses = python("send(id=id, error=dict(code=-32000, message='Log in'))");
    let first = attempt(&refuses);
    let failed = ask(&refuses, &first).await.unwrap_err();
    assert!(failed.reason.contains("wants a login"), "{failed}");
    let works = python("say('So.')\nend(id)");
    assert_eq!(
        &*ask(&works, &later(&first, &works)).await.unwrap().text,
        "So."
    );
}

#[tokio::test]
async fn a_worktree_is_kept_if_something_changed_in_it() {
    let place = repository();
    let listed = || {
        run_git(
            place.path(),
            "git worktree list | wc -l; git branch | wc -l",
        )
    };
    let only = listed();
    let works = |prompt: &str| within(&place, "sub", python(prompt));
    let looks = works("say(open('a').read() + os.getcwd())\nend(id)");
    let answer = ask(&looks, &attempt(&looks)).await.unwrap();
    assert!(
        answer.text.starts_with("one\n") && answer.text.ends_with("/sub"),
        "{answer:?}",
    );
    assert!(answer.text.contains("/.git/unisono/"), "{}", answer.text);
    assert_eq!(listed(), only, "nothing changed, nothing is kept");

    let edits =
        works("open('a', 'w').write('two')\nopen('b', 'w').write('new')\nsay('Done.')\nend(id)");
    let asking = attempt(&edits);
    let answer = ask(&edits, &asking).await.unwrap();
    let text = &answer.text;
    assert!(text.starts_with("Done.\n\nThe git worktree "), "{answer:?}");
    assert!(text.ends_with("is kept: 2 changed files."), "{answer:?}");
    let made = step(&asking, "acp.place.1");
    assert_eq!(
        made["directory"],
        format!(
            "{path}/sub",
            path = made["worktree"]["path"].as_str().unwrap()
        )
    );
    let branch = made["worktree"]["branch"].as_str().unwrap();
    assert!(answer.text.contains(branch) && branch.starts_with("unisono/"));
    let path = made["worktree"]["path"].as_str().unwrap();
    assert_eq!(
        std::fs::read_to_string(format!("{path}/sub/a")).unwrap(),
        "two"
    );
    assert_eq!(
        std::fs::read_to_string(place.path().join("sub/a")).unwrap(),
        "one\n"
    );
    // The journaled answer is the same in another process.
    assert_eq!(ask(&edits, &later(&asking, &edits)).await.unwrap(), answer);
}

#[tokio::test]
async fn a_worktree_with_a_commit_or_of_a_failed_run_is_kept() {
    let place = repository();
    let commits = "subprocess.run(['git', '-c', 'user.name=t', '-c', 'user.email=t@test', \
                   'commit', '-q', '--allow-empty', '-m', 'two'])\nsay('Done.')\nend(id)";
    let commits = within(&place, "", python(commits));
    let answer = ask(&commits, &attempt(&commits)).await.unwrap();
    let text = &answer.text;
    assert!(text.ends_with("is kept: 0 changed files."), "{answer:?}");

    let place = repository();
    let works = |prompt: &str| within(&place, "", python(prompt));
    let breaks = works("open('b', 'w').write('new')\nsys.exit(1)");
    let first = attempt(&breaks);
    let failed = ask(&breaks, &first).await.unwrap_err();
    let text = &failed.reason;
    assert!(text.contains("is kept: 1 changed file"), "{failed}");
    let doubt = ask(&breaks, &later(&first, &breaks)).await.unwrap_err();
    assert!(doubt.reason.contains("is kept: 1 changed file"), "{doubt}");
    // The answer of the next try reports the kept worktree.
    let again = Acp {
        contract: Contract::Idempotent,
        ..works("say('So.')\nend(id)")
    };
    let answer = ask(&again, &later(&first, &again)).await.unwrap();
    let text = &answer.text;
    assert!(text.starts_with("So.\n\nThe git worktree "), "{answer:?}");
    assert!(text.ends_with("is kept: 1 changed file."), "{answer:?}");
}

#[tokio::test]
async fn a_worktree_needs_a_repository_with_a_commit() {
    let place = tempfile::tempdir().unwrap();
    let acp = within(&place, "", python("end(id)"));
    for is_made in [false, true] {
        if is_made {
            run_git(place.path(), "git init -q .");
        }
        let failed = fails(&acp).await;
        assert_eq!(failed.cause, RunCause::BadInput);
        let why = "needs a git repository with a commit";
        assert!(failed.reason.contains(why), "{failed}");
    }
}

#[tokio::test]
async fn an_agent_with_a_dropped_run_is_asked_to_stop_and_killed() {
    let place = repository();
    let note = place.path().join("note");
    let prompt = format!(
        "update('tool_call', toolCallId='1', title='Work')\nopen({note:?}, 'a').write(read()['method'] + '\\n')\n\
         end(id, 'cancelled')\nread()"
    );
    let acp = within(&place, "", python(&prompt));
    let asking = Arc::new(attempt(&acp));
    let agent = AcpAgent::new(acp);
    let ctx = asking.ctx();
    let running = tokio::spawn(async move { agent.run(task(), ctx).await.is_ok() });
    let progress = || asking.session.progress();
    let works = || progress().iter().any(|text| text.contains("Work"));
    until("its work", works).await;
    running.abort();
    let _ = running.await;
    // Its report is recorded, although nothing waits for that.
    let reported = step(&asking, "acp.report.1").to_string();
    assert!(reported.contains("Work"), "{reported}");
    let worktrees = || std::fs::read_dir(place.path().join(".git/unisono")).unwrap();
    until("no worktree", || worktrees().count() == 0).await;
    assert_eq!(std::fs::read_to_string(note).unwrap(), "session/cancel\n");
}

fn usages(attempt: &Attempt) -> Vec<Usage> {
    let steps = attempt.session.steps();
    let spent = steps.iter().filter_map(|step| match &**step {
        Step::Spent(spent) => Some(spent.usage),
        _ => None,
    });
    spent.collect()
}

fn costing(cost: Option<u64>) -> Usage {
    Usage {
        cost: cost.map(Cost::from_micro_dollars),
        ..Usage::NONE
    }
}

/// An agent that reports these costs of its session, and its tokens.
fn reporting(amounts: &str, currency: &str) -> Acp {
    python(&format!(
        "for amount in ({amounts}):\n    update('usage_update', used=10, size=100, \
         cost=dict(amount=amount, currency='{currency}'))\nsay('Done.')\n\
         tokens = dict(totalTokens=12, inputTokens=10, outputTokens=2)\n\
         send(id=id, result=dict(stopReason='end_turn', usage=tokens))"
    ))
}

#[tokio::test]
async fn reported_costs_are_counted_during_the_prompt_and_the_rest_at_its_end() {
    let tokens = Usage::free(Tokens(10), Tokens(2));
    let acp = reporting("0.004, 0.25, 0.255", "USD");
    let mut asking = attempt(&acp);
    asking.bounded = true;
    asking.session.budget([Ok(None), Ok(None)]);
    ask(&acp, &asking).await.unwrap();
    let rest = Usage {
        cost: costing(Some(5_000)).cost,
        ..tokens
    };
    assert_eq!(usages(&asking), [costing(Some(250_000)), rest]);
    assert_eq!(asking.session.prepaid(), [Some(1), Some(2)]);
    let (asked, settled) = asking.session.calls();
    assert_eq!(asked.len(), 2);
    assert_eq!(settled, [(1, CallEnd::Unsent), (2, CallEnd::Unsent)]);
    // Another currency is in the report only.
    let acp = reporting("0.25,", "EUR");
    let asking = attempt(&acp);
    ask(&acp, &asking).await.unwrap();
    let unknown = Usage {
        cost: None,
        ..tokens
    };
    assert_eq!(usages(&asking), [unknown]);
    let reported = step(&asking, "acp.report.1");
    assert_eq!(reported["usage"]["cost"]["currency"], "EUR");
}

#[tokio::test]
async fn an_agent_ends_when_a_budget_is_used_up_and_does_not_begin_after_that() {
    let used_up = || Err(Failure::new(RunCause::Budget, "used up"));
    let acp = reporting("0.25, 0.5", "USD");
    let mut asking = attempt(&acp);
    asking.bounded = true;
    asking.session.budget([Ok(None), used_up()]);
    let failure = ask(&acp, &asking).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::Budget);
    assert_eq!(usages(&asking)[0], costing(Some(250_000)));
    let mut later = attempt(&acp);
    later.bounded = true;
    later.session.budget([used_up()]);
    let failure = ask(&acp, &later).await.unwrap_err();
    assert_eq!(failure.cause, RunCause::Budget);
    assert_eq!(names(&later), ["acp.place.1"]);
}
