//! A turn that is cancelled: every process and every connection of its agents goes with it.

use std::path::Path;
use std::time::{Duration, Instant};

use unisono_fake_provider::{Act, FakeProvider, Script};
use unisono_session::Input;
use unisono_session::agent::{AgentKind, Command, Definition, Http};
use unisono_session::event::Outcome;
use unisono_tests::scenario;
use unisono_tests::scenario::{definition, model_driven, until, wait};
use unisono_tests::wire::{CLAUDE, asking_claude, claude};

/// What is promised is a second; a machine that is busy with other tests is given more.
const SOON: Duration = Duration::from_secs(5);

/// A program that forks a child which does not listen, and waits for it.
fn forking(pids: &Path) -> Definition {
    let script = format!(
        "sh -c 'trap \"\" TERM; echo $$ >> {0}; while :; do sleep 1; done' & echo $$ >> {0}; wait",
        pids.display()
    );
    Definition {
        kind: AgentKind::Command(Command {
            program: "sh".into(),
            args: vec!["-c".into(), script.into()],
            env: Default::default(),
            cwd: None,
            env_pass: Vec::new(),
        }),
        ..definition("forking")
    }
}

fn asking(url: &str) -> Definition {
    Definition {
        kind: AgentKind::Http(Http {
            url: format!("{url}/v1/messages").into(),
            headers: Default::default(),
        }),
        ..definition("asking")
    }
}

fn pids(file: &Path) -> Vec<String> {
    let text = std::fs::read_to_string(file).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

/// Whether a process works; one that is only waited for by nobody does not.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit(") ").next().unwrap_or_default();
    !stat.is_empty() && !state.starts_with('Z')
}

#[tokio::test(flavor = "multi_thread")]
async fn a_cancelled_turn_lets_go_of_every_process_and_connection() {
    let provider = FakeProvider::play(Script::always(Act::silence())).await;
    let server = FakeProvider::play(Script::always(Act::silence())).await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("pids");
    let plan = scenario()
        .model(CLAUDE, claude(&provider.url()))
        .led_by(model_driven("lead", &[]))
        .asked(forking(&file))
        .asked(asking_claude("thinking"))
        .asked(asking(&server.url()));
    let (_store, world, handle, turn) = plan.ask("What is due when?").await;
    until(|| pids(&file).len() == 2).await;
    provider.wait_for(1).await;
    server.wait_for(1).await;
    let family = pids(&file);
    assert!(family.iter().all(|pid| lives(pid)), "{family:?}");

    let cancelled = Instant::now();
    handle.cancel(turn).await.expect("cancelled");
    assert_eq!(wait(&handle, turn).await.outcome, Outcome::Cancelled);
    until(|| !family.iter().any(|pid| lives(pid))).await;
    provider.wait_for_abandoned(1).await;
    server.wait_for_abandoned(1).await;
    let took = cancelled.elapsed();
    assert!(took < SOON, "{took:?}");
    drop(handle);
    world.stop().await;
}

#[tokio::test(flavor = "multi_thread")]
async fn one_cancelled_run_lets_go_of_its_own_only() {
    let server = FakeProvider::play(Script::always(Act::silence())).await;
    let directory = tempfile::tempdir().expect("a directory");
    let file = directory.path().join("pids");
    let plan = scenario()
        .led_by(model_driven("lead", &[]))
        .asked(forking(&file))
        .asked(asking(&server.url()));
    let (_store, world, handle, turn) = plan.ask("What is due when?").await;
    until(|| pids(&file).len() == 2).await;
    server.wait_for(1).await;
    let asking = Input::CancelRun {
        run: unisono_session::ids::run(turn, 1),
    };
    handle.request(asking).await.expect("cancelled");
    server.wait_for_abandoned(1).await;
    let family = pids(&file);
    assert!(family.iter().all(|pid| lives(pid)), "{family:?}");
    handle.cancel(turn).await.expect("cancelled");
    until(|| !family.iter().any(|pid| lives(pid))).await;
    drop(handle);
    world.stop().await;
}
