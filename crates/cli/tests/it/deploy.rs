//! `deploy/`: what can be said of an image and a unit without building or starting them. What they
//! call is called here: the program with their arguments, settings and checks.

use std::fs::{self, Permissions};
use std::os::unix::fs::PermissionsExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use serde_norway::Value;
use unisono_test_postgres::Server;

use crate::support::{Done, Going, HasAll as _, Place, finish};

pub(crate) fn root() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

fn read(name: &str) -> String {
    let path = root().join(name);
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{}: {error}", path.display()))
}

/// The instructions of the Dockerfile, each on one line.
fn instructions() -> Vec<(String, String)> {
    let text = read("deploy/Dockerfile").replace("\\\n", " ");
    let lines = text.lines().map(str::trim);
    let lines = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    lines
        .map(|line| {
            let (word, rest) = line.split_once(' ').unwrap();
            (word.to_owned(), rest.trim().to_owned())
        })
        .collect()
}

fn all(name: &str) -> Vec<String> {
    let found = instructions().into_iter().filter(|(word, _)| word == name);
    found.map(|(_, rest)| rest).collect()
}

/// The only one, a list of words in JSON.
fn words(name: &str) -> Vec<String> {
    let text = all(name).pop().unwrap();
    let at = text.find('[').unwrap();
    serde_json::from_str(&text[at..]).unwrap()
}

/// Whether a path of the repository is left out of what an image is built from.
fn is_ignored(path: &str) -> bool {
    let mut ignored = false;
    for line in read(".dockerignore").lines().map(str::trim) {
        if line.is_empty() || line.starts_with('#') {
            continue;
        }
        let (keeps, pattern) = match line.strip_prefix('!') {
            Some(pattern) => (true, pattern),
            None => (false, line),
        };
        let parts: Vec<&str> = path.split('/').collect();
        let fits = |part: &str, pattern: &str| match pattern.strip_prefix('*') {
            Some(ending) => part.ends_with(ending),
            None => part == pattern,
        };
        let hit = match pattern.strip_prefix("**/") {
            Some(name) => parts.iter().any(|part| fits(part, name)),
            None => fits(parts[0], pattern) || path.starts_with(&format!("{pattern}/")),
        };
        if hit {
            ignored = !keeps;
        }
    }
    ignored
}

/// The whole numbers of a version.
fn version(text: &str) -> Vec<u32> {
    let parts = text.split('.').map_while(|part| part.parse().ok());
    parts.collect()
}

#[test]
fn all_that_the_image_is_made_of_is_there() {
    let manifest: toml::Table = read("Cargo.toml").parse().unwrap();
    let mut copied = 0;
    for copy in all("COPY") {
        let Some((from, _)) = copy.split_once(' ').filter(|_| !copy.starts_with("--")) else {
            continue;
        };
        assert!(root().join(from).exists(), "COPY {copy}");
        assert!(from == "." || !is_ignored(from), "COPY {copy}");
        copied += 1;
    }
    assert_eq!(copied, 2, "the sources, and the settings");
    // What the sources are built from is not left out; what only takes time to send is.
    let tracked = Command::new("git")
        .args(["ls-files"])
        .current_dir(root())
        .output();
    if let Ok(tracked) = tracked.map(|done| String::from_utf8_lossy(&done.stdout).into_owned()) {
        for file in tracked.lines().filter(|file| !file.starts_with('.')) {
            assert!(!is_ignored(file), "{file} is not sent to the builder");
        }
    }
    for out in rows! {
        "target/debug/unisono", ".git/config", "a/node_modules/b", "deploy/.env",
    } {
        assert!(is_ignored(out), "{out}");
    }

    let least = manifest["workspace"]["package"]["rust-version"]
        .as_str()
        .unwrap();
    let images = all("FROM");
    let image = images
        .iter()
        .find_map(|image| image.split_once("/rust:"))
        .unwrap()
        .1;
    let (has, wants) = (version(image.split('-').next().unwrap()), version(least));
    assert!(
        has >= wants,
        "the image has Rust {has:?}, and {wants:?} is needed"
    );

    let build = all("RUN")
        .into_iter()
        .find(|run| run.contains("cargo build"))
        .unwrap();
    assert!(build.contains("--package unisono-cli "), "{build}");
    let profile = build.split_once("--profile ").unwrap().1;
    let profile = profile.split_whitespace().next().unwrap();
    assert!(
        manifest["profile"].get(profile).is_some(),
        "profile {profile}"
    );
    let (_, put) = build
        .split_once(&format!("cp target/{profile}/unisono "))
        .unwrap();
    let taken = all("COPY")
        .into_iter()
        .find(|copy| copy.starts_with("--from=build"));
    let taken = taken.unwrap();
    let taken: Vec<&str> = taken.split_whitespace().collect();
    assert_eq!(taken[1], put.trim(), "what was built is what is taken");
    // It is found by the name that the entry point has.
    let entry = words("ENTRYPOINT");
    assert_eq!(taken[2], format!("/usr/local/bin/{}", entry[0]));
}

/// The container's settings, with the place in place of the container's directories.
fn settings(place: &Place) -> String {
    let text = read("deploy/container.toml");
    assert!(text.contains("0.0.0.0:7007") && text.contains("/var/lib/unisono/"));
    let own = place.path("lib");
    text.replace("/var/lib/unisono", &own.display().to_string())
}

#[test]
fn the_program_takes_what_the_image_calls_it_with_and_the_check_finds_it_well() {
    let place = Place::new();
    place.set_config(settings(&place));
    let serve = words("CMD");
    let args: Vec<&str> = serve.iter().map(String::as_str).collect();
    place.call(&[&args[..], &["--help"]].concat()).expect(0);
    place.call(&["config", "check"]).expect(0);
    let args = [&args[..], &["--bind", "127.0.0.1:0"]].concat();
    let mut daemon = Going::start(place.command(&args));
    let line = daemon.wait_for(&["listening"]);
    let (_, port) = line.split_once("http://127.0.0.1:").unwrap();
    let port = port.split(|c: char| !c.is_ascii_digit()).next().unwrap();
    let check = words("HEALTHCHECK");
    let call = |port: &str| {
        let words = check
            .iter()
            .map(|word| word.replace("/7007", &format!("/{port}")));
        let words: Vec<String> = words.collect();
        Command::new(&words[0]).args(&words[1..]).output().unwrap()
    };
    let well = call(port);
    assert!(well.status.success(), "{well:?}");
    assert!(place.path("lib/token").exists() && place.path("lib/store").exists());
    daemon.signal("TERM");
    daemon.finish().expect(0);
    assert!(!call(port).status.success(), "nobody listens any more");

    let exposed = all("EXPOSE").pop().unwrap();
    assert!(read("deploy/container.toml").contains(&format!(":{exposed}\"")));
    assert!(
        check
            .iter()
            .any(|word| word.contains(&format!("/{exposed};")))
    );
}

/// Seconds of `30s` or `30`.
fn seconds(text: &str) -> u64 {
    text.trim().trim_end_matches('s').parse().unwrap()
}

/// How long the daemon finishes what it answers, where nobody says otherwise.
fn drain() -> u64 {
    let place = Place::new();
    let shown = place.json(&["config", "show"]);
    let mut shown = shown.as_array().unwrap().iter();
    let found = shown.find(|one| one["key"] == "server.drain_seconds");
    found.unwrap()["value"].as_str().unwrap().parse().unwrap()
}

#[test]
fn the_compose_file_fits_the_image() {
    let compose: Value = serde_norway::from_str(&read("deploy/compose.yaml")).unwrap();
    let service = &compose["services"]["unisono"];
    let built = &service["build"];
    let context = root()
        .join("deploy")
        .join(built["context"].as_str().unwrap());
    assert!(context.join(built["dockerfile"].as_str().unwrap()).exists());

    let exposed = all("EXPOSE").pop().unwrap();
    let ports = service["ports"].as_sequence().unwrap();
    for port in ports.iter().map(|port| port.as_str().unwrap()) {
        assert_eq!(port, format!("127.0.0.1:{exposed}:{exposed}"));
    }
    let kept = all("VOLUME").pop().unwrap();
    let mounted: Vec<&str> = service["volumes"]
        .as_sequence()
        .unwrap()
        .iter()
        .map(|v| v.as_str().unwrap())
        .collect();
    let (name, at) = mounted[0].split_once(':').unwrap();
    assert_eq!(at, kept);
    let volumes = compose["volumes"].as_mapping().unwrap();
    assert!(volumes.contains_key(Value::from(name)), "{volumes:?}");
    assert!(read("deploy/container.toml").contains(&format!("path = \"{kept}/store\"")));
    assert!(seconds(service["stop_grace_period"].as_str().unwrap()) > drain());
    // Clients in the same network ask the service by its name.
    let hosts = read("deploy/container.toml");
    assert!(hosts.contains("hosts = [\"unisono\"]"));

    let given = service["environment"].as_mapping().unwrap();
    let listed = Place::new().call(&["models", "--json"]).expect(0).stdout;
    for name in given.keys().map(|name| name.as_str().unwrap()) {
        match name.strip_prefix("UNISONO__") {
            Some(_) => is_known(name, "1").unwrap(),
            None => assert!(listed.contains(name), "no provider has its key in {name}"),
        }
    }
}

#[test]
fn the_daemons_of_the_cluster_start_as_the_compose_file_says_and_find_each_other() {
    let compose: Value = serde_norway::from_str(&read("deploy/compose.cluster.yaml")).unwrap();
    let daemon = &compose["x-daemon"];
    let given = daemon["environment"].as_mapping().unwrap();
    for name in given.keys().map(|name| name.as_str().unwrap()) {
        let value = match name.rsplit("__").next() {
            Some("URL") => "postgres://unisono@127.0.0.1/unisono",
            Some("PUBLIC_URL") => "https://unisono.example.com",
            _ => "unisono.example.com",
        };
        if name.starts_with("UNISONO__") {
            is_known(name, value).unwrap();
        }
    }
    assert!(seconds(daemon["stop_grace_period"].as_str().unwrap()) > drain());
    let services = compose["services"].as_mapping().unwrap();
    let ours: Vec<&str> = services
        .iter()
        .filter(|(_, service)| service.get("hostname").is_some())
        .map(|(name, service)| {
            assert_eq!(service["hostname"], *name);
            name.as_str().unwrap()
        })
        .collect();
    assert_eq!(ours, ["one", "two", "three"]);
    let exposed = all("EXPOSE").pop().unwrap();
    let asked = ours.iter().map(|name| format!(" {name}:{exposed}"));
    let asked = format!("reverse_proxy{} {{", asked.collect::<String>());
    assert!(read("deploy/Caddyfile").contains(&asked), "{asked}");
    // The name that the proxy answers to is one that the daemons accept.
    let proxy = &services[&Value::from("proxy")];
    let host = proxy["environment"]["UNISONO_HOST"].as_str().unwrap();
    let hosts = daemon["environment"]["UNISONO__SERVER__HOSTS"].as_str();
    assert!(host.starts_with("${UNISONO_HOST:-") && hosts.unwrap().starts_with("${UNISONO_HOST:-"));
    let public_url = daemon["environment"]["UNISONO__SERVER__PUBLIC_URL"].as_str();
    assert_eq!(public_url, Some("${UNISONO_HOST:+https://${UNISONO_HOST}}"));
    let mounted = &proxy["volumes"][0];
    assert_eq!(
        mounted.as_str(),
        Some("./Caddyfile:/etc/caddy/Caddyfile:ro")
    );

    let server = needs!(Server::database());
    let entry = daemon["entrypoint"].as_sequence().unwrap();
    let entry: Vec<&str> = entry.iter().map(|word| word.as_str().unwrap()).collect();
    let program = Path::new(env!("CARGO_BIN_EXE_unisono")).parent().unwrap();
    let paths = format!("{}:{}", program.display(), std::env::var("PATH").unwrap());
    let places: Vec<Place> = ours.iter().map(|_| Place::new()).collect();
    let mut going = Vec::new();
    for place in &places {
        place.set_config(settings(place));
        fs::create_dir_all(place.path("lib")).unwrap();
        let own = place.path("lib").display().to_string();
        let script = entry[2]
            .replace("$$", "$")
            .replace("/var/lib/unisono", &own);
        let mut command = place.command_of(Path::new(entry[0]), &[entry[1], &script]);
        command
            .env("PATH", &paths)
            .env("UNISONO_TOKEN", "0123456789abcdef".repeat(4))
            .env("UNISONO__STORE__URL", server.url("public"))
            .env("UNISONO__SERVER__BIND", "127.0.0.1:0");
        let mut one = Going::start(command);
        one.wait_for(&["listening"]);
        going.push(one);
    }
    let list = ["cluster", "list", "--json"];
    let mut command = places[0].command(&list);
    command.env("UNISONO__STORE__URL", server.url("public"));
    let listed = finish(command.spawn().unwrap(), &list).expect(0).json();
    let named = |one: &serde_json::Value| one["address"].as_str().unwrap().to_owned();
    let addresses: Vec<String> = listed.as_array().unwrap().iter().map(named).collect();
    assert_eq!(addresses.len(), 3, "{listed}");
    assert!(
        addresses
            .iter()
            .all(|address| address.ends_with(&format!(":{exposed}")))
    );
    for one in going {
        one.signal("TERM");
        one.finish().expect(0);
    }
}

/// Whether a variable sets something that there is.
fn is_known(name: &str, value: &str) -> Result<(), String> {
    let place = Place::new();
    let done = place
        .command(&["config", "check"])
        .env(name, value)
        .output();
    let done = done.unwrap();
    match done.status.success() {
        true => Ok(()),
        false => Err(String::from_utf8_lossy(&done.stderr).into_owned()),
    }
}

#[test]
fn caddy_takes_the_settings_of_the_proxy() {
    let Ok(version) = Command::new("caddy").arg("version").output() else {
        return;
    };
    let text = read("deploy/Caddyfile");
    text.has_all(&["lb_try_duration", "fail_duration", "health_uri /readyz"]);
    // Before version 2.7 this setting had another name.
    let text = match String::from_utf8_lossy(&version.stdout).contains("2.6.") {
        true => text.replace("request_buffers 1MiB", "buffer_requests"),
        false => text,
    };
    let place = Place::new();
    for (text, is_valid) in [
        (text.clone(), true),
        (text.replace("lb_policy", "policy"), false),
    ] {
        place.write("Caddyfile", text);
        let path = place.path("Caddyfile").display().to_string();
        let args = ["validate", "--adapter", "caddyfile", "--config", &path];
        let done = place.command_of(Path::new("caddy"), &args).output();
        assert_eq!(done.unwrap().status.success(), is_valid);
    }
}

fn unit(file: &str, key: &str) -> Vec<String> {
    let text = read(file);
    let lines = text.lines().filter_map(|line| line.split_once('='));
    let found = lines.filter(|(name, _)| *name == key);
    found.map(|(_, value)| value.to_owned()).collect()
}

#[test]
fn the_unit_calls_the_program_as_it_is_called() {
    for (file, settings) in [
        ("deploy/unisono.service", 3),
        ("deploy/unisono@.service", 4),
    ] {
        called_as_it_is(file, settings);
    }
    assert!(
        is_known("UNISONO__STORE__PTAH", "/x").is_err(),
        "it is checked"
    );
}

fn called_as_it_is(file: &str, settings: usize) {
    let place = Place::new();
    let start = unit(file, "ExecStart").pop().unwrap();
    let mut words = start.split_whitespace();
    assert_eq!(words.next(), Some("/usr/local/bin/unisono"));
    let args: Vec<&str> = words.collect();
    place.call(&[&args[..], &["--help"]].concat()).expect(0);
    let wrong = place.call(&[&args[..], &["--nowhere"]].concat());
    let _: Done = wrong.expect(2);

    let mut known = 0;
    for pair in unit(file, "Environment") {
        let (name, value) = pair.split_once('=').unwrap();
        let value = &value.replace("%i", "1").replace("%d", "/run/credentials");
        if name.starts_with("UNISONO__") {
            is_known(name, value).unwrap();
            known += 1;
        }
    }
    assert_eq!(known, settings);
    assert!(seconds(&unit(file, "TimeoutStopSec")[0]) > drain());
    // It is ready when its store is open, and a repair takes as long as the store is large.
    assert_eq!(unit(file, "TimeoutStartSec"), ["infinity"]);
}

#[test]
fn a_credential_as_systemd_makes_it_is_the_token() {
    let place = Place::new();
    place.write("credentials/token", "0123456789abcdef".repeat(4));
    let token = place.path("credentials/token");
    // As `LoadCredential` does with `DynamicUser`.
    fs::set_permissions(&token, Permissions::from_mode(0o440)).unwrap();
    let mut command = place.command(&["serve", "--bind", "127.0.0.1:0"]);
    command
        .env("UNISONO__SERVER__TOKEN_FILE", &token)
        .env("CREDENTIALS_DIRECTORY", place.path("credentials"));
    let mut daemon = Going::start(command);
    daemon.wait_for(&["listening"]);
    daemon.signal("TERM");
    daemon.finish().expect(0);
}

#[test]
fn systemd_takes_the_unit() {
    let has = Command::new("systemd-analyze").arg("--version").output();
    if has.is_err() {
        return;
    }
    let place = Place::new();
    let program = env!("CARGO_BIN_EXE_unisono");
    let verify = |name: &str, text: &str| {
        place.write(name, text);
        let done = Command::new("systemd-analyze")
            .arg("verify")
            .arg(place.path(name))
            .output()
            .unwrap();
        let said = String::from_utf8_lossy(&done.stderr).into_owned();
        let of_it = said.lines().filter(|line| line.contains(name));
        of_it.map(str::to_owned).collect::<Vec<_>>()
    };
    let ours = |name: &str| read(name).replace("/usr/local/bin/unisono", program);
    let text = ours("deploy/unisono.service");
    assert_eq!(verify("unisono.service", &text), Vec::<String>::new());
    let several = ours("deploy/unisono@.service");
    assert_eq!(verify("unisono@1.service", &several), Vec::<String>::new());
    let wrong = text.replace("ProtectHome=", "ProtectHouse=");
    assert!(
        !verify("unisono.service", &wrong).is_empty(),
        "it is checked"
    );
}
