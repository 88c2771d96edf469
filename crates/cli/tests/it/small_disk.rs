//! A daemon and its verbs on a disk that becomes full: a small file system in memory, in a mount
//! namespace of its own. Where that cannot be had the tests say so and end.

use std::fs::File;
use std::io::Write;
use std::path::PathBuf;
use std::process::Command;

use serde_json::{Value, json};

use crate::http::Daemon;
use crate::support::{Done, Going, HasAll as _, Place, heard, tell, until};

/// Keeps the name space: programs are started in it.
struct SmallDisk {
    place: Place,
    keeper: Going,
}

impl SmallDisk {
    fn new(config: &str) -> Option<SmallDisk> {
        let place = Place::with_config(config);
        std::fs::create_dir_all(place.path("data")).unwrap();
        let mount = "mount -t tmpfs -o size=160m tmpfs data && echo mounted >&2 && exec sleep 600";
        let is_root = Command::new("id").arg("-u").output().unwrap().stdout == b"0\n";
        let mut unshare = place.command_of("unshare".as_ref(), &[]);
        unshare.arg(if is_root { "-m" } else { "-rm" });
        let can = unshare.args(["sh", "-c", "mount -t tmpfs tmpfs data"]);
        let can = can.output().is_ok_and(|done| done.status.success());
        if !is_root || !can {
            eprintln!("skipped: no file system can be mounted here");
            return None;
        }
        let keeper = place.command_of("unshare".as_ref(), &["-m", "sh", "-c", mount]);
        let mut keeper = Going::start(keeper);
        keeper.wait_for(&["mounted"]);
        Some(SmallDisk { place, keeper })
    }

    /// The program, in the name space.
    fn command(&self, args: &[&str]) -> Command {
        let keeper = self.keeper.id().to_string();
        let mut command = self.place.command_of("nsenter".as_ref(), &[]);
        command.args(["-t", &keeper, "-m", "sh", "-c", "cd \"$0\" && exec \"$@\""]);
        command
            .arg(self.place.path(""))
            .arg(env!("CARGO_BIN_EXE_unisono"));
        command.args(args);
        command
    }

    fn call(&self, args: &[&str]) -> Done {
        Going::start(self.command(args)).finish()
    }

    fn serve(&self) -> Daemon {
        Daemon::of(
            &self.place,
            self.command(&["serve", "--bind", "127.0.0.1:0"]),
        )
    }

    /// The disk, as whoever is outside sees it.
    fn ballast(&self) -> PathBuf {
        let data = self.place.path("data").display().to_string();
        format!("/proc/{}/root{data}/ballast", self.keeper.id()).into()
    }

    fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        for size in [1 << 20, 1 << 12, 1] {
            while file.write_all(&vec![7; size]).is_ok() {}
        }
    }

    /// Mounts it anew, `ro` or `rw`.
    fn mount(&self, how: &str) {
        let keeper = self.keeper.id().to_string();
        let data = self.place.path("data").display().to_string();
        let how = format!("remount,{how}");
        let mut mount = Command::new("nsenter");
        mount.args(["-t", &keeper, "-m", "mount", "-o", &how, &data]);
        assert!(mount.status().unwrap().success());
    }

    fn empty(&self) {
        std::fs::remove_file(self.ballast()).unwrap();
    }

    fn end(self) {
        self.keeper.signal("KILL");
        drop(self.keeper.finish());
    }
}

fn conversation(words: usize) -> Value {
    let text = "The orders database moves on Friday. ".repeat(words);
    json!({"title": "Move", "messages": [{"role": "user", "content": text}]})
}

/// Keeps conversations until one is refused, with what was said then.
fn write_until_full(daemon: &Daemon) -> (Vec<String>, Value) {
    let mut kept = Vec::new();
    for _ in 0..200 {
        let reply = daemon.post("/v1/sessions", &conversation(20_000));
        match reply.status {
            201 => kept.push(reply.json()["session"].as_str().unwrap().to_owned()),
            _ => return (kept, reply.expect(507).json()),
        }
    }
    panic!("the disk was never full");
}

#[test]
fn a_daemon_on_a_full_disk_reads_on_and_goes_on_when_there_is_room() {
    let config = |started: &str, release: &str| {
        let script = format!("echo $$ > '{started}'; read word < '{release}'; echo all is done");
        format!(
            "[agents.waits]\ndescription = \"Test\"\nkind = \"command\"\ncommand = \"sh\"\n\
             args = [\"-c\", {script:?}]\n"
        )
    };
    let disk = needs!(SmallDisk::new(""));
    let (started, release) = (disk.place.fifo("started"), disk.place.fifo("release"));
    let config = config(
        &started.display().to_string(),
        &release.display().to_string(),
    );
    disk.place.set_config(config);

    let daemon = disk.serve();
    let first = daemon.post("/v1/sessions", &conversation(1)).expect(201);
    let first = first.json()["session"].as_str().unwrap().to_owned();
    daemon.stop();
    // It is not in memory from here on.
    let daemon = disk.serve();
    let working = daemon.post("/v1/sessions", &conversation(1)).expect(201);
    let working = working.json()["session"].as_str().unwrap().to_owned();
    let task = json!({"task": "Wait.", "lead": "waits", "wait": false});
    let at = format!("/v1/sessions/{working}");
    let turn = daemon.post(&format!("{at}/turns"), &task);
    let turn = turn.json()["turn"].as_str().unwrap().to_owned();
    heard(&started);
    let found = daemon.get("/v1/search?q=Friday").expect(200).json();
    assert_eq!(found["complete"], true, "{found}");

    disk.fill();
    let (kept, problem) = write_until_full(&daemon);
    assert_eq!(problem["code"], "disk_full", "{problem}");
    let detail = problem["detail"].as_str().unwrap();
    assert!(detail.contains("free some space"), "{detail}");
    daemon.get("/readyz").expect(503);
    daemon.get("/healthz").expect(200);
    // The store can be moved: the archive is kept elsewhere.
    let archive = daemon.get("/v1/archive").expect(200);
    let sessions: usize = archive
        .header("unisono-archive-sessions")
        .unwrap()
        .parse()
        .unwrap();
    // The refused one may be there without an event, if there was room to claim it.
    assert!((2..=3).contains(&(sessions - kept.len())), "{sessions}");
    // What its agent comes back with cannot be written down.
    tell(&release, "go");
    for session in kept.iter().chain([&first, &working]) {
        let shown = daemon.get(&format!("/v1/sessions/{session}")).expect(200);
        assert_eq!(shown.json()["title"], "Move");
        let messages = daemon.json(&format!("/v1/sessions/{session}/messages"));
        assert!(!messages["items"].as_array().unwrap().is_empty());
        daemon.get(&format!("/sessions/{session}")).expect(200);
    }
    let refused = daemon.post("/v1/sessions", &conversation(1));
    assert_eq!(refused.expect(507).json()["code"], "disk_full");
    let exported = disk.call(&["export", &first]).expect(0);
    assert!(exported.stdout.contains("moves on Friday"));
    // What was committed is found, again and again; the words of the newest are not in it.
    for _ in 0..3 {
        let found = daemon.get("/v1/search?q=Friday").expect(200).json();
        assert!(found.to_string().contains(&first), "{found}");
        assert!(kept.is_empty() || found["complete"] == false, "{found}");
    }
    let found = disk.call(&["sessions", "search", "Friday"]).expect(0);
    let is_warned = found.stderr.contains("the newest messages may be missing");
    assert!(kept.is_empty() || is_warned, "{found:#?}");
    let settings = json!({"changes": {"compaction.preset": "retention"}});
    for (method, path, body) in [
        ("POST", "/v1/vacuum", None),
        ("PATCH", "/v1/settings", Some(&settings)),
    ] {
        let refused = daemon.request(method, path, body).expect(507).json();
        assert_eq!(refused["code"], "disk_full", "{path}: {refused}");
        let detail = refused["detail"].as_str().unwrap();
        assert!(detail.contains("free some space"), "{path}: {detail}");
        assert!(
            !detail.contains("the session is deleted"),
            "{path}: {detail}"
        );
    }
    // A person has the form again, with what was written in it.
    let page = format!("http://{}/settings", daemon.address);
    let headers = [
        ("Content-Type", "application/x-www-form-urlencoded"),
        ("Referer", page.as_str()),
    ];
    let form = b"key=compaction.preset&value=retention&confirmed=true";
    let refused = daemon.send_as(&daemon.token, "POST", "/settings", &headers, form);
    let refused = refused.expect(507).text();
    refused.has_all(&["What you wrote is not lost", "value=\"retention\""]);

    disk.empty();
    daemon.post("/v1/sessions", &conversation(1)).expect(201);
    // The index is written again within seconds, and takes in what it has missed: little is left.
    for session in &kept {
        let deleted = daemon.delete(&format!("/v1/sessions/{session}"));
        deleted.expect(204);
    }
    until("the index stays behind", || {
        daemon.get("/v1/search?q=Friday").expect(200).json()["complete"] != false
    });
    daemon.get("/readyz").expect(200);
    // The turn goes on by itself: its agent is asked again.
    heard(&started);
    tell(&release, "go");
    let events = daemon.get(&format!("{at}/events?after=0")).expect(200);
    let ended = events.events().find(|event| event.name == "turn_ended");
    assert!(ended.is_some());
    let ended = daemon.get(&format!("{at}/turns/{turn}")).expect(200).json();
    assert_eq!(ended["state"], "answered", "{ended}");
    daemon.stop();
    disk.end();
}

/// Started on a disk that is full: read at once, written to when there is room.
#[test]
fn a_daemon_that_starts_on_a_full_disk_reads_and_takes_writes_when_there_is_room() {
    let disk = needs!(SmallDisk::new(""));
    disk.place.talk();
    disk.call(&["import", "talk.json"]).expect(0);
    disk.fill();
    let daemon = disk.serve();
    let session = check_degraded(&daemon, 507, "disk_full", "free some space");

    disk.empty();
    let made = daemon.post("/v1/sessions", &conversation(1)).expect(201);
    let made = made.json()["session"].as_str().unwrap().to_owned();
    daemon.get("/readyz").expect(200);
    let task = json!({"task": "When?", "agents": []});
    let turn = daemon.post(&format!("/v1/sessions/{session}/turns"), &task);
    assert_eq!(turn.json()["state"], "answered");
    daemon.stop();
    let listed = disk.call(&["sessions", "list", "--json"]).expect(0).json();
    let ids: Vec<&str> = listed
        .as_array()
        .unwrap()
        .iter()
        .map(|s| s["session"].as_str().unwrap())
        .collect();
    assert!(
        ids.contains(&session.as_str()) && ids.contains(&made.as_str()),
        "{ids:?}"
    );
    disk.end();
}

/// Started on a disk that is mounted read-only, and later is not.
#[test]
fn a_daemon_that_starts_on_a_read_only_disk_reads_and_takes_writes_later() {
    let config = "[budget.daemon]\nmax_cost_usd = 5.0\n";
    let disk = needs!(SmallDisk::new(config));
    disk.place.talk();
    disk.call(&["import", "talk.json"]).expect(0);
    disk.mount("ro");
    let daemon = disk.serve();
    check_degraded(&daemon, 503, "unavailable", "read-only");
    // Other processes read it as well, and it can be moved.
    for _ in 0..2 {
        let listed = disk.call(&["sessions", "list"]).expect(0);
        assert!(listed.stdout.contains("talk"), "{listed:?}");
    }
    let archive = daemon.get("/v1/archive").expect(200);
    assert_eq!(archive.header("unisono-archive-sessions"), Some("1"));
    disk.mount("rw");
    daemon.post("/v1/sessions", &conversation(1)).expect(201);
    daemon.get("/readyz").expect(200);
    daemon.stop();
    disk.end();
}

/// What can be read is, and each write is refused with what to do; gives the session that is there.
#[track_caller]
fn check_degraded(daemon: &Daemon, status: u16, code: &str, why: &str) -> String {
    daemon.get("/healthz").expect(200);
    let ready = daemon.get("/readyz").expect(503).json();
    assert!(ready["detail"].as_str().unwrap().contains(why), "{ready}");
    let listed = daemon.get("/v1/sessions").expect(200).json();
    let session = listed["items"][0]["session"].as_str().unwrap().to_owned();
    let at = format!("/v1/sessions/{session}");
    daemon.get(&at).expect(200);
    daemon.get(&format!("/sessions/{session}")).expect(200);
    let messages = daemon.get(&format!("{at}/messages")).expect(200).json();
    assert_eq!(messages["items"].as_array().unwrap().len(), 2);
    let found = daemon.get("/v1/search?q=Friday").expect(200).json();
    assert!(found.to_string().contains("Friday"), "{found}");
    let message = json!({"role": "user", "text": "More."});
    let turn = json!({"task": "When?"});
    for (path, body) in [
        ("/v1/sessions", conversation(1)),
        (&*format!("{at}/messages"), message),
        (&*format!("{at}/turns"), turn),
    ] {
        let refused = daemon.post(path, &body).expect(status).json();
        assert_eq!(refused["code"], code, "{path}: {refused}");
        let detail = refused["detail"].as_str().unwrap();
        assert!(
            detail.contains(why) && detail.contains("by themselves"),
            "{path}: {detail}"
        );
    }
    let deleted = daemon.delete(&at).expect(status).json();
    assert_eq!(deleted["code"], code);
    session
}

#[test]
fn a_store_on_a_full_disk_is_looked_at() {
    let disk = needs!(SmallDisk::new(""));
    disk.place.talk();
    disk.call(&["import", "talk.json"]).expect(0);
    disk.fill();
    let looked = ["open for reading only", "free some space"];
    let listed = disk.call(&["sessions", "list"]).expect(0).says(&looked);
    assert!(listed.stdout.contains("talk"), "{listed:?}");
    let exported = disk.call(&["export", "latest"]).expect(0).says(&looked);
    assert!(exported.stdout.contains("We ship on Friday"));
    disk.call(&["sessions", "show", "latest"]).expect(0);
    disk.call(&["context", "latest"]).expect(0);
    disk.call(&["export", "--all", "all.unisono"]).expect(0);
    disk.call(&["doctor"]).expect(1).says(&looked);
    for verb in [
        &["import", "talk.json"][..],
        &["sessions", "delete", "latest", "--yes"],
        &["run", "talk.json"],
        &["config", "set", "compaction.preset", "retention"],
        &["append", "latest", "More."],
    ] {
        disk.call(verb).expect(1).says(&["free some space"]);
    }
    disk.empty();
    disk.call(&["import", "talk.json"]).expect(0);
    disk.call(&["sessions", "delete", "latest", "--yes"])
        .expect(0);
    disk.end();
}

/// What makes syncs below `SHIM_ROOT` fail, to be loaded before the program.
fn shim(place: &Place) -> PathBuf {
    let shim = place.path("shim.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/../store/tests/it/shim.c");
    let mut cc = Command::new(std::env::var_os("CC").unwrap_or_else(|| "cc".into()));
    cc.args(["-shared", "-fPIC", "-o"]).arg(&shim).arg(source);
    assert!(cc.args(["-ldl", "-lpthread"]).status().unwrap().success());
    shim
}

/// What was acknowledged is read after a sync failed, also what was not in memory then; nothing is
/// written any more.
#[test]
fn a_daemon_whose_disk_fails_to_sync_reads_on_and_refuses_writes() {
    let place = Place::new();
    place.talk();
    place.call(&["import", "talk.json"]).expect(0);
    let mut command = place.command(&["serve", "--bind", "127.0.0.1:0"]);
    command.env("LD_PRELOAD", shim(&place));
    command.env("SHIM_ROOT", place.path("data"));
    command.env("SHIM_FAIL_SYNC", "40");
    let daemon = Daemon::of(&place, command);
    let listed = daemon.get("/v1/sessions").expect(200).json();
    let unread = listed["items"][0]["session"].as_str().unwrap().to_owned();
    let mut kept = Vec::new();
    let refused = loop {
        let reply = daemon.post("/v1/sessions", &conversation(1));
        if reply.status != 201 {
            break reply.expect(503).json();
        }
        kept.push(reply.json()["session"].as_str().unwrap().to_owned());
        assert!(kept.len() < 100, "no sync has failed");
    };
    assert!(!kept.is_empty());
    assert_eq!(refused["code"], "unavailable", "{refused}");
    daemon.get("/healthz").expect(200);
    daemon.get("/readyz").expect(503);
    for session in kept.iter().chain([&unread]) {
        let at = format!("/v1/sessions/{session}");
        daemon.get(&at).expect(200);
        let messages = daemon.get(&format!("{at}/messages")).expect(200).json();
        assert!(!messages["items"].as_array().unwrap().is_empty());
        daemon.get(&format!("{at}/context")).expect(200);
        daemon.get(&format!("/sessions/{session}")).expect(200);
        for (path, body) in [
            ("messages", json!({"role": "user", "text": "More."})),
            ("turns", json!({"task": "When?", "agents": []})),
        ] {
            let refused = daemon.post(&format!("{at}/{path}"), &body).expect(503);
            assert_eq!(refused.json()["code"], "unavailable", "{path}");
        }
    }
    daemon.going.signal("KILL");
    drop(daemon.going.finish());
    // With a disk that syncs again, all that was acknowledged is there.
    let daemon = Daemon::start(&place);
    for session in kept.iter().chain([&unread]) {
        daemon.get(&format!("/v1/sessions/{session}")).expect(200);
    }
    daemon.post("/v1/sessions", &conversation(1)).expect(201);
    daemon.stop();
}

/// The storage engine panics where it cannot sync while it closes: a person is told of the disk, in
/// one line, and of nothing else.
#[test]
fn a_disk_that_fails_at_the_start_is_told_in_one_line() {
    let place = Place::new();
    place.talk();
    place.call(&["import", "talk.json"]).expect(0);
    let shim = shim(&place);
    let data = place.path("data/unisono/data").display().to_string();
    for verb in [
        &["sessions", "list"][..],
        &["serve", "--bind", "127.0.0.1:0"],
    ] {
        let mut command = place.command(verb);
        command.env("LD_PRELOAD", &shim);
        command.env("SHIM_ROOT", place.path("data"));
        command.env("SHIM_FAIL_ALL", "1");
        let done = Going::start(command).finish().expect(1);
        let said = format!("error: cannot open {data}: Input/output error (os error 5)");
        assert_eq!(done.stderr, said, "{verb:?}");
    }
    let listed = place.call(&["sessions", "list"]).expect(0);
    assert!(listed.stdout.contains("talk"), "{listed:?}");
}

/// Whatever the umask is, nothing that a conversation is in can be read by others.
#[test]
fn what_is_written_is_its_owners_alone() {
    use std::os::unix::fs::PermissionsExt;
    fn open_to_others(path: &std::path::Path, found: &mut Vec<String>) {
        for entry in std::fs::read_dir(path).unwrap().flatten() {
            let (meta, path) = (entry.metadata().unwrap(), entry.path());
            if meta.permissions().mode() & 0o077 != 0 {
                found.push(format!(
                    "{} {:o}",
                    path.display(),
                    meta.permissions().mode()
                ));
            }
            if meta.is_dir() {
                open_to_others(&path, found);
            }
        }
    }
    let place = Place::new();
    place.talk();
    place
        .call(&["run", "talk.json", "--task", "When?"])
        .expect(0);
    place.call(&["sessions", "search", "Friday"]).expect(0);
    let daemon = Daemon::start(&place);
    place
        .call(&["config", "set", "compaction.preset", "checkpoint"])
        .expect(0);
    daemon.post("/v1/sessions", &conversation(1)).expect(201);
    daemon.stop();
    let (one, all) = (place.path("data/one.jsonl"), place.path("data/all.unisono"));
    let (one, all) = (one.display().to_string(), all.display().to_string());
    place.call(&["export", "latest", "-o", &one]).expect(0);
    place.call(&["export", "--all", &all]).expect(0);
    let mut found = Vec::new();
    open_to_others(&place.path("data"), &mut found);
    open_to_others(&place.path("settings"), &mut found);
    assert_eq!(found, [""; 0]);
    // A store as an earlier version left it.
    for (path, mode) in [("", 0o755), ("/data", 0o755), ("/data/db", 0o644)] {
        let path = place.path(&format!("data/unisono{path}"));
        std::fs::set_permissions(path, std::fs::Permissions::from_mode(mode)).unwrap();
    }
    let output = place.call(&["doctor"]);
    output.stdout.has_all(&["only its owner can access it"]);
    let output = output
        .expect(0)
        .says(&["other users of this machine had rights"]);
    drop(output);
    let again = place.json(&["doctor"]);
    assert_eq!(again["narrowed"], 0);
}
