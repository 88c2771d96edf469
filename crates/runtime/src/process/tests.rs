//! Child processes and their groups.

use std::path::Path;
use std::time::Instant;

use super::*;
use crate::agent::fixture::sh;

/// Much longer than any program takes; a wait of this time is a failure.
const PATIENCE: Duration = Duration::from_secs(20);

async fn ended(command: &Command, input: [Bytes; 2]) -> Result<ProcessOutput, Error> {
    let job = Job {
        command,
        input,
        max_output: 64 * 1024,
    };
    timeout(PATIENCE, run(job)).await.expect("it ends")
}

fn input() -> [Bytes; 2] {
    [Bytes::from_static(b"prefix "), Bytes::from_static(b"tail")]
}

fn large() -> [Bytes; 2] {
    [
        Bytes::from(vec![b'x'; 2 << 20]),
        Bytes::from_static(b"tail"),
    ]
}

/// Whether a process exists and is not a zombie.
fn lives(pid: &str) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(')')
        .and_then(|(_, rest)| rest.trim_start().chars().next());
    state.is_some_and(|state| state != 'Z')
}

async fn eventually(what: &str, condition: impl Fn() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < PATIENCE, "{what} did not come");
        tokio::time::sleep(Duration::from_millis(2)).await;
    }
}

/// The process ids that a script wrote, once both are there.
async fn pids(file: &Path) -> Vec<String> {
    let read = || std::fs::read_to_string(file).unwrap_or_default();
    eventually("the process ids", || read().ends_with("end\n")).await;
    read()
        .split_whitespace()
        .filter(|word| *word != "end")
        .map(str::to_owned)
        .collect()
}

/// Writes the ids of the shell and of a sleeping child, then runs `then`.
fn family(file: &Path, then: &str) -> Command {
    let file = file.display();
    sh(&format!(
        "sleep 1000 & echo $$ $! > '{file}'; echo end >> '{file}'; {then}"
    ))
}

#[tokio::test]
async fn a_line_has_neither_its_end_nor_a_byte_order_mark() {
    let script = r"printf '\357\273\277{}\r\n []\n'";
    let (mut lines, _stdin) = lines::Lines::start(&sh(script)).unwrap();
    assert_eq!(lines.next().await.unwrap(), b"{}");
    assert_eq!(lines.next().await.unwrap(), b"[]");
}

#[tokio::test]
async fn both_chunks_are_read_in_order() {
    let finished = ended(&sh("cat; echo; echo noise >&2"), input())
        .await
        .unwrap();
    assert!(finished.status.success());
    assert_eq!(finished.stdout, b"prefix tail\n");
    assert_eq!(finished.stderr, "noise");
}

#[tokio::test]
async fn output_and_input_larger_than_a_pipe_do_not_block_each_other() {
    let command = sh("cat");
    let job = Job {
        command: &command,
        input: large(),
        max_output: 4 << 20,
    };
    let finished = timeout(PATIENCE, run(job)).await.unwrap().unwrap();
    assert_eq!(finished.stdout.len(), (2 << 20) + 4);
}

#[tokio::test]
async fn a_program_need_not_read_its_input() {
    for script in [
        "echo answer",
        "exec 0<&-; echo answer",
        "head -c 10 >/dev/null; echo answer",
    ] {
        let finished = ended(&sh(script), large()).await.unwrap();
        assert!(finished.status.success(), "{script}");
        assert_eq!(finished.stdout, b"answer\n", "{script}");
    }
}

#[tokio::test]
async fn a_dropped_future_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    for (name, then) in [
        ("waits", "wait"),
        ("deaf", "trap '' TERM; sleep 1000; sleep 1000"),
    ] {
        let file = dir.path().join(name);
        let command = family(&file, then);
        let running = tokio::spawn(async move { ended(&command, input()).await });
        let family = pids(&file).await;
        assert!(
            family.len() == 2 && family.iter().all(|pid| lives(pid)),
            "{family:?}"
        );
        running.abort();
        for pid in &family {
            eventually(name, || !lives(pid)).await;
        }
    }
}

#[test]
fn the_end_of_the_runtime_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let command = family(&file, "trap '' TERM; wait");
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let family = runtime.block_on(async {
        tokio::spawn(async move { ended(&command, input()).await });
        pids(&file).await
    });
    runtime.shutdown_timeout(PATIENCE);
    let watch = tokio::runtime::Runtime::new().unwrap();
    for pid in &family {
        watch.block_on(eventually("the end", || !lives(pid)));
    }
}

#[tokio::test]
async fn a_program_that_exits_leaves_no_process() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    // The sleeping child keeps the output open; the answer does not wait for it.
    let command = family(&file, "echo answer; exit 0");
    let finished = ended(&command, large()).await.unwrap();
    assert_eq!(finished.stdout, b"answer\n");
    for pid in pids(&file).await {
        eventually("the end", || !lives(&pid)).await;
    }
}

#[tokio::test]
async fn a_process_that_leaves_the_group_does_not_delay_the_answer() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pid");
    let escaped = format!(
        "setsid sh -c 'echo $$ end > {0}; exec sleep 1000' &",
        file.display()
    );
    let script = format!(
        "{escaped} until [ -s {} ]; do :; done; echo answer",
        file.display()
    );
    let finished = ended(&sh(&script), input()).await.unwrap();
    assert_eq!(finished.stdout, b"answer\n");
    let pid = std::fs::read_to_string(&file).unwrap();
    let pid = pid.split_whitespace().next().unwrap().parse().unwrap();
    rustix::process::kill_process(Pid::from_raw(pid).unwrap(), Signal::KILL).unwrap();
}

#[tokio::test]
async fn excessive_output_is_stopped_at_the_cap() {
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("pids");
    let error = ended(&family(&file, "yes"), input()).await.unwrap_err();
    let said = "`sh` wrote more than 65536 bytes to its standard output and was killed: \
                make its answer shorter";
    assert_eq!(error.to_string(), said);
    for pid in pids(&file).await {
        eventually("the end", || !lives(&pid)).await;
    }
}

#[tokio::test]
async fn output_of_exactly_the_cap_is_accepted() {
    let finished = ended(&sh("head -c 65536 /dev/zero"), input())
        .await
        .unwrap();
    assert_eq!(finished.stdout.len(), 65_536);
}

#[tokio::test]
async fn the_end_of_standard_error_is_kept() {
    let script = "head -c 300000 /dev/zero | tr '\\0' x >&2; echo; echo the end >&2; exit 3";
    let finished = ended(&sh(script), input()).await.unwrap();
    assert_eq!(finished.status.code(), Some(3));
    assert!(finished.stderr.ends_with("xxx\nthe end") || finished.stderr.ends_with("xthe end"));
    assert!(finished.stderr.len() <= STDERR_TAIL);
}

#[tokio::test]
async fn a_program_that_cannot_be_started_is_named_with_its_directory() {
    let mut command = sh("");
    command.program = "/no/such/program".into();
    let error = ended(&command, input()).await.unwrap_err().to_string();
    assert!(
        error.starts_with("could not start `/no/such/program`: No such file"),
        "{error}"
    );
    assert!(
        error.ends_with(": install it, or write its path into `command`"),
        "{error}"
    );
    command.program = "/etc/passwd".into();
    let error = ended(&command, input()).await.unwrap_err().to_string();
    assert!(
        error.ends_with(": make it executable with `chmod +x`"),
        "{error}"
    );
    command.program = "/no/such/program".into();
    command.cwd = Some("/".into());
    let error = ended(&command, input()).await.unwrap_err().to_string();
    assert!(
        error.starts_with("could not start `/no/such/program` in `/`: "),
        "{error}"
    );
    command.program = "sh".into();
    command.cwd = Some("/no/such/place".into());
    let error = ended(&command, input()).await.unwrap_err().to_string();
    assert!(
        error.contains("in `/no/such/place`, which is not a directory: "),
        "{error}"
    );
    assert!(!error.contains("install"), "{error}");
}

#[tokio::test]
async fn environment_and_directory_are_set() {
    let mut command = sh("echo $GREETING; pwd");
    command.env.insert("GREETING".into(), "ciao".into());
    command.cwd = Some("/".into());
    let finished = ended(&command, input()).await.unwrap();
    assert_eq!(finished.stdout, b"ciao\n/\n");
}
