//! The three daemons, their database, and what happens to them.

use std::fs::{self, Permissions};
use std::io::{BufRead as _, BufReader};
use std::net::TcpListener;
use std::os::unix::fs::PermissionsExt as _;
use std::process::Child;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use serde_json::Value;
use unisono_client::Client;
use unisono_fake_provider::FakeProvider;
use unisono_fake_provider::tools::{LOG, PACE};
use unisono_test_postgres::Server;

use crate::PATIENCE;
use crate::client::{People, script};
use crate::clocks;
use crate::proxy::Proxy;
use crate::support::{Place, send_signal};

/// After so long without a beat a daemon is gone.
const LEASE: Duration = Duration::from_secs(1);
const TOKEN: &str = "0123456789abcdef0123456789abcdef0123456789abcdef0123456789abcdef";
const NODES: usize = 3;
/// How wrong clocks are, in seconds: by more than any lease.
const SKEWS: [i64; 4] = [-86_400, -3_600, 3_600, 86_400];

/// What happens in a round.
#[derive(Clone, Debug)]
pub(crate) enum Fault {
    Nothing,
    /// SIGKILL after a while; it is started again at once or once others have taken over.
    Kill {
        node: usize,
        after: Duration,
        late: bool,
    },
    /// SIGSTOP for longer than the lease, then SIGCONT.
    Sleep {
        node: usize,
        after: Duration,
    },
    /// SIGTERM; it is started again when it has ended.
    Stop {
        node: usize,
        after: Duration,
    },
    /// Drained, then let in again.
    Drain {
        node: usize,
        after: Duration,
    },
    /// The database crashes and is started again.
    Crash {
        after: Duration,
    },
    /// Connections to the database are cut, one after the other.
    Cut {
        node: usize,
        times: u64,
        every: u64,
    },
    /// SIGKILL; it is started again on a machine whose clock is wrong by so much, and goes on with that.
    Skew {
        node: usize,
        after: Duration,
        seconds: i64,
    },
}

impl Fault {
    /// The fault of a round: all kinds in turn, the rest by the seed.
    pub(crate) fn of(seed: u64) -> Fault {
        let mut random = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) ^ 0xD1B5_4A32_D192_ED03);
        let node = (random.next() % NODES as u64) as usize;
        let after = Duration::from_millis(random.next() % 400);
        match seed % 9 {
            0 => Fault::Nothing,
            1 => Fault::Kill {
                node,
                after,
                late: false,
            },
            2 => Fault::Kill {
                node,
                after,
                late: true,
            },
            3 => Fault::Sleep { node, after },
            4 => Fault::Stop { node, after },
            5 => Fault::Drain { node, after },
            6 => Fault::Crash { after },
            7 => Fault::Skew {
                node,
                after,
                seconds: SKEWS[(random.next() % SKEWS.len() as u64) as usize],
            },
            _ => Fault::Cut {
                node,
                times: 1 + random.next() % 5,
                every: random.next() % 12,
            },
        }
    }
}

/// SplitMix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut z = self.0;
        z = (z ^ (z >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        z ^ (z >> 31)
    }
}

struct Node {
    place: Place,
    proxy: Proxy,
    url: String,
    child: Option<Child>,
    client: Client,
    /// How wrong its clock is, in seconds.
    skew: i64,
}

pub(crate) struct Cluster {
    pub(crate) server: Arc<Server>,
    pub(crate) provider: Arc<FakeProvider>,
    nodes: Vec<Node>,
    decides: Arc<AtomicBool>,
}

impl Cluster {
    pub(crate) fn start(server: Server) -> Result<Cluster, String> {
        let provider = FakeProvider::play_on_thread(script());
        let mut cluster = Cluster {
            nodes: (0..NODES).map(|_| node(&server, &provider)).collect(),
            server: Arc::new(server),
            provider: Arc::new(provider),
            decides: Arc::default(),
        };
        for node in &mut cluster.nodes {
            node.start()?;
        }
        Ok(cluster)
    }

    /// Those who ask the daemons, in a round that begins.
    pub(crate) fn people(&self) -> People {
        self.decides.store(false, Ordering::SeqCst);
        People {
            clients: self.nodes.iter().map(|node| node.client.clone()).collect(),
            decides: self.decides.clone(),
            provider: self.provider.clone(),
            logs: self
                .nodes
                .iter()
                .map(|node| node.place.path("calls"))
                .collect(),
        }
    }

    /// The database's address, for who looks at it afterwards.
    pub(crate) fn database(&self) -> String {
        self.server.url("public")
    }

    /// Has a fault happen, and waits until it is over.
    pub(crate) async fn suffer(&mut self, fault: &Fault) -> Result<(), String> {
        match *fault {
            Fault::Nothing => {}
            Fault::Kill { node, after, late } => {
                tokio::time::sleep(after).await;
                self.nodes[node].end("KILL")?;
                if late {
                    tokio::time::sleep(2 * LEASE).await;
                }
                self.nodes[node].start()?;
            }
            Fault::Skew {
                node,
                after,
                seconds,
            } => {
                tokio::time::sleep(after).await;
                self.nodes[node].end("KILL")?;
                self.nodes[node].skew = seconds;
                self.nodes[node].start()?;
            }
            Fault::Sleep { node, after } => {
                tokio::time::sleep(after).await;
                let before = self.nodes[node].lapses().await?;
                self.nodes[node].signal("STOP");
                tokio::time::sleep(2 * LEASE).await;
                self.nodes[node].signal("CONT");
                // Till it has noticed, it may still be about to do something.
                let until = Instant::now() + PATIENCE;
                while self.nodes[node].lapses().await? == before {
                    check(until, "a daemon does not notice that it slept")?;
                }
            }
            Fault::Stop { node, after } => {
                tokio::time::sleep(after).await;
                self.nodes[node].signal("TERM");
                self.nodes[node].ended()?;
                self.nodes[node].start()?;
            }
            Fault::Drain { node, after } => {
                tokio::time::sleep(after).await;
                self.drain(node).await?;
            }
            Fault::Crash { after } => {
                tokio::time::sleep(after).await;
                let server = self.server.clone();
                let crashed = tokio::task::spawn_blocking(move || {
                    server.crash();
                    server.up();
                });
                crashed.await.map_err(|error| error.to_string())?;
            }
            Fault::Cut { node, times, every } => {
                for _ in 0..times {
                    let proxy = &self.nodes[node].proxy;
                    proxy.cut(every);
                    let until = Instant::now() + PATIENCE;
                    while !proxy.has_cut() {
                        check(until, "no connection was cut")?;
                        tokio::time::sleep(Duration::from_millis(1)).await;
                    }
                }
            }
        }
        Ok(())
    }

    /// Drains a daemon until it owns nothing, and lets it in again.
    async fn drain(&self, node: usize) -> Result<(), String> {
        let url = &self.nodes[node].url;
        let other = &self.nodes[(node + 1) % NODES].client;
        let mut is_asked = false;
        let until = Instant::now() + PATIENCE;
        loop {
            check(until, "a daemon is not drained")?;
            tokio::time::sleep(Duration::from_millis(20)).await;
            let Ok(members) = members(other).await else {
                continue;
            };
            let own = members
                .iter()
                .find(|one| one["address"] == url.as_str() && one["state"] != "gone");
            let Some(own) = own else { continue };
            let id = own["member"].as_str().unwrap_or_default();
            let is_draining = own["state"] == "draining";
            if !is_asked {
                is_asked = drain(other, id, true).await;
            } else if is_draining && own["sessions"] == 0 {
                while !drain(other, id, false).await {
                    check(until, "a daemon is not let in again")?;
                }
                return Ok(());
            }
        }
    }

    /// Stops all daemons, as a service manager does.
    pub(crate) fn stop(&mut self) -> Result<(), String> {
        for node in &mut self.nodes {
            node.signal("TERM");
            node.ended()?;
        }
        Ok(())
    }
}

fn check(until: Instant, wrong: &str) -> Result<(), String> {
    match Instant::now() < until {
        true => Ok(()),
        false => Err(wrong.to_owned()),
    }
}

async fn members(client: &Client) -> Result<Vec<Value>, String> {
    use unisono_api::service::Cluster as _;

    let page = client.members(&unisono_api::PageQuery::default()).await;
    let page = page.map_err(|error| error.to_string())?;
    let items = page.items.iter().map(serde_json::to_value);
    items
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())
}

async fn drain(client: &Client, id: &str, drains: bool) -> bool {
    use unisono_api::service::Cluster as _;

    client.drain(id, drains).await.is_ok()
}

impl Node {
    fn start(&mut self) -> Result<(), String> {
        let bind = self.url.trim_start_matches("http://").to_owned();
        let mut command = self.place.command(&["serve", "--bind", &bind, "--json"]);
        command.env("TEST_KEY", "sk-test-77d0c1e2a9b4");
        if self.skew != 0
            && let Some(library) = clocks::library()
        {
            clocks::skew(&mut command, library, self.skew);
        }
        let log = fs::OpenOptions::new()
            .create(true)
            .append(true)
            .open(self.place.path("log"));
        command.stderr(log.map_err(|error| error.to_string())?);
        let mut child = command.spawn().map_err(|error| error.to_string())?;
        let mut said = BufReader::new(child.stdout.take().ok_or("it says nothing")?);
        let mut line = String::new();
        said.read_line(&mut line)
            .map_err(|error| error.to_string())?;
        if !line.contains(&bind) {
            let log = fs::read_to_string(self.place.path("log")).unwrap_or_default();
            return Err(format!("a daemon does not start: {line}{log}"));
        }
        // What it says more is of no account, and must not block it.
        std::thread::spawn(move || for _ in said.lines().map_while(Result::ok) {});
        self.child = Some(child);
        Ok(())
    }

    fn signal(&self, signal: &str) {
        if let Some(child) = &self.child {
            send_signal(signal, &child.id().to_string());
        }
    }

    fn end(&mut self, signal: &str) -> Result<(), String> {
        self.signal(signal);
        if let Some(mut child) = self.child.take() {
            child.wait().map_err(|error| error.to_string())?;
        }
        Ok(())
    }

    /// Waits for its end, which has to be a good one.
    fn ended(&mut self) -> Result<(), String> {
        let Some(mut child) = self.child.take() else {
            return Ok(());
        };
        let until = Instant::now() + PATIENCE;
        loop {
            match child.try_wait().map_err(|error| error.to_string())? {
                Some(status) if status.success() => return Ok(()),
                Some(status) => return Err(format!("a daemon ended with {status}")),
                None => check(until, "a daemon does not end")?,
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// How often it was taken to be gone.
    async fn lapses(&self) -> Result<u64, String> {
        let place = self.url.trim_start_matches("http://").to_owned();
        let asked = tokio::task::spawn_blocking(move || crate::client::metrics(&place));
        let text = asked.await.map_err(|error| error.to_string())?;
        let line = text
            .lines()
            .find(|line| line.starts_with("unisono_cluster_lapses_total"));
        let number = line.and_then(|line| line.rsplit_once(' ')?.1.parse().ok());
        Ok(number.unwrap_or_default())
    }
}

impl Drop for Node {
    fn drop(&mut self) {
        if let Some(mut child) = self.child.take() {
            send_signal("KILL", &child.id().to_string());
            let _ = child.wait();
        }
    }
}

fn node(server: &Server, provider: &FakeProvider) -> Node {
    let proxy = Proxy::start(server.port());
    let direct = format!("127.0.0.1:{}", server.port());
    let database = server
        .url("public")
        .replace(&direct, &proxy.address.to_string());
    let place = Place::new();
    let program = std::env::current_exe().expect("this program has a path");
    let calls = place.path("calls");
    let lease = LEASE.as_millis();
    let config = format!(
        "[store]\nurl = {database:?}\n[cluster]\ntakeover_after = \"{lease}ms\"\n\
         [server]\ndrain_seconds = 1\n\
         [models]\ndefault = \"openai/gpt-4o\"\n\
         [providers.openai]\nbase_url = \"{}/v1\"\napi_key_env = \"TEST_KEY\"\nattempts = 1\n\
         [agent_defaults]\nretries = 0\n\
         [budget.daemon]\nmax_tokens = 1_000_000_000\n\
         [agents.scout]\ndescription = \"Looks\"\ninstructions = \"Be short.\"\ntools = []\n\
         [agents.boss]\ndescription = \"Sends\"\ninstructions = \"Be short.\"\ntools = []\n\
         mcp_servers = [\"office\"]\n\
         [mcp.office]\ncommand = {program:?}\n\
         [mcp.office.env]\n{LOG} = {calls:?}\n{PACE} = \"30\"\n",
        provider.url(),
    );
    place.write("config/unisono.toml", config);
    place.write("settings/unisono/token", TOKEN);
    let token = place.path("settings/unisono/token");
    fs::set_permissions(token, Permissions::from_mode(0o600)).unwrap();
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}", listener.local_addr().unwrap());
    Node {
        place,
        proxy,
        client: Client::new(url.clone(), TOKEN).unwrap(),
        url,
        child: None,
        skew: 0,
    }
}

pub(crate) fn token() -> &'static str {
    TOKEN
}
