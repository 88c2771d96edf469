//! `/metrics`: numbers for Prometheus, in its text format (version 0.0.4).

use std::fmt::{Display, Write};
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use axum::extract::State;
use axum::http::{HeaderName, StatusCode, header};
use unisono_runtime::Gauge;
use unisono_store::{AppendHistogram, Health};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::Shared;
use unisono::metrics::{Consumer, Counts, Used};

/// The outcomes of summaries that are written ahead.
const PREPARED: [&str; 9] = [
    "written",
    "used",
    "range",
    "settings",
    "room",
    "replaced",
    "busy",
    "interrupted",
    "failed",
];

const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8";

pub(super) fn routes() -> OpenApiRouter<Arc<Shared>> {
    OpenApiRouter::new().routes(routes!(show))
}

/// Answers by the first digit of their status: 1xx to 5xx.
#[derive(Debug, Default)]
pub(super) struct Answers([AtomicU64; 5]);

impl Answers {
    pub(super) fn count(&self, status: StatusCode) {
        let class = usize::from(status.as_u16() / 100).saturating_sub(1);
        if let Some(count) = self.0.get(class) {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

/// Metrics for Prometheus.
#[utoipa::path(
    get, path = "/metrics", tag = "about",
    responses((status = 200, description = "The metrics", body = String, content_type = "text/plain"))
)]
async fn show(State(shared): State<Arc<Shared>>) -> ([(HeaderName, &'static str); 1], String) {
    ([(header::CONTENT_TYPE, CONTENT_TYPE)], text(&shared))
}

fn text(shared: &Shared) -> String {
    let mut page = Page::default();
    let version = env!("CARGO_PKG_VERSION");
    page.family(
        "unisono_build_info",
        "gauge",
        "The version of the program; always 1.",
    )
    .sample(&[("version", version)], 1);
    let metrics = shared.local.metrics();
    metrics.read(|counts| counted(&mut page, counts));
    gauge(
        &mut page,
        "unisono_attempts",
        "Attempts of runs that work or wait for a place.",
        &metrics.load.attempts,
    );
    gauge(
        &mut page,
        "unisono_compaction_steps",
        "Compaction steps that work or wait for a place.",
        &metrics.load.compactions,
    );
    let writable = u64::from(shared.local.journal().health() == Health::Ok);
    page.family(
        "unisono_store_writable",
        "gauge",
        "1 while the store takes writes, 0 while it refuses them.",
    )
    .sample(&[], writable);
    page.histogram(
        "unisono_store_append_seconds",
        "Time until a write of a session is on disk.",
        &shared.local.journal().append_times().histogram(),
    );
    page.family(
        "unisono_store_losses",
        "gauge",
        "Ranges of events that repairs of the store have lost and nobody has acknowledged.",
    )
    .sample(&[], shared.local.losses().len());
    cluster(&mut page, shared);
    http(&mut page, shared);
    process(&mut page);
    page.text
}

/// The daemons of a cluster, if the store is a database.
fn cluster(page: &mut Page, shared: &Shared) {
    let Some(beats) = shared.local.beats() else {
        return;
    };
    let beat = beats.borrow().clone();
    page.family(
        "unisono_cluster_members",
        "gauge",
        "Live programs on the database, this one included.",
    )
    .sample(&[], beat.alive);
    page.family(
        "unisono_cluster_members_with_other_agents",
        "gauge",
        "Live daemons on the database with other agent definitions.",
    )
    .sample(&[], beat.differing.len());
    page.family(
        "unisono_cluster_draining",
        "gauge",
        "1 while this daemon takes no new sessions.",
    )
    .sample(&[], u64::from(beat.is_draining));
    page.family(
        "unisono_cluster_owned_sessions",
        "gauge",
        "Sessions that this daemon has claimed and no other one since.",
    )
    .sample(&[], beat.owned);
    page.counter(
        "unisono_cluster_lapses_total",
        "Times that this daemon wrongly counted as lost.",
        beat.lapses,
    );
    page.counter(
        "unisono_cluster_takeovers_total",
        "Sessions of lost programs that this daemon took over.",
        shared.taken_over.load(Ordering::Relaxed),
    );
    page.counter(
        "unisono_cluster_fenced_writes_total",
        "Writes of this daemon that were refused because another one had claimed the session.",
        beat.fenced,
    );
}

/// The numbers since the start of the daemon.
fn counted(page: &mut Page, counts: &Counts) {
    turns(page, counts);
    runs(page, counts);
    used(page, counts);
    compactions(page, counts);
    appends(page, counts);
}

fn turns(page: &mut Page, counts: &Counts) {
    page.counter(
        "unisono_sessions_created_total",
        "Sessions that were made.",
        counts.sessions,
    );
    page.counter(
        "unisono_turns_accepted_total",
        "Turns that were accepted.",
        counts.turns_accepted,
    );
    let mut ended = page.family(
        "unisono_turns_ended_total",
        "counter",
        "Turns that ended, by outcome.",
    );
    for outcome in ["answered", "compacted", "reverted", "failed", "cancelled"] {
        let n = counts.turns_ended.get(outcome).copied().unwrap_or(0);
        ended.sample(&[("outcome", outcome)], n);
    }
}

fn runs(page: &mut Page, counts: &Counts) {
    page.counter(
        "unisono_runs_opened_total",
        "Runs that were opened.",
        counts.runs_opened,
    );
    page.counter(
        "unisono_runs_retried_total",
        "Attempts of runs after their first.",
        counts.runs_retried,
    );
    let mut ended = page.family(
        "unisono_runs_ended_total",
        "counter",
        "Runs that ended, by state, and by cause where they failed.",
    );
    for ((state, cause), n) in &counts.runs_ended {
        ended.sample(&[("state", state), ("cause", cause)], *n);
    }
    page.seconds(
        "unisono_run_seconds_total",
        "Time that finished and failed runs took, all attempts included, in seconds.",
        counts.run_ms,
    );
}

fn compactions(page: &mut Page, counts: &Counts) {
    page.counter(
        "unisono_compactions_total",
        "Summaries and notes that took the place of messages.",
        counts.compactions,
    );
    page.counter(
        "unisono_compactions_failed_total",
        "Compaction steps that failed.",
        counts.compactions_failed,
    );
    prepared(page, counts);
    page.seconds(
        "unisono_compaction_seconds_total",
        "Time that compactions took, in seconds.",
        counts.compaction_ms,
    );
    page.counter(
        "unisono_compacted_tokens_total",
        "Tokens replaced by summaries and notes.",
        counts.tokens_summarised,
    );
    page.counter(
        "unisono_messages_shortened_total",
        "Messages that were masked or cut.",
        counts.messages_shortened,
    );
}

fn appends(page: &mut Page, counts: &Counts) {
    page.counter(
        "unisono_store_appends_total",
        "Appends of events that are on disk.",
        counts.appends,
    );
    page.counter(
        "unisono_store_events_total",
        "Events that are on disk.",
        counts.events,
    );
}

fn prepared(page: &mut Page, counts: &Counts) {
    let mut prepared = page.family(
        "unisono_prepared_summaries_total",
        "counter",
        "Summaries that were written ahead, by outcome: written, used, or the reason of their drop.",
    );
    for outcome in PREPARED {
        let n = counts.prepared.get(outcome).copied().unwrap_or(0);
        prepared.sample(&[("outcome", outcome)], n);
    }
}

fn used(page: &mut Page, counts: &Counts) {
    let of = |by: Consumer| counts.used.get(&by).copied().unwrap_or_default();
    let both = [Consumer::Agents, Consumer::Summaries];
    let mut calls = page.family(
        "unisono_model_calls_total",
        "counter",
        "Replies of models, by caller.",
    );
    for by in both {
        calls.sample(&[("by", by.name())], of(by).calls);
    }
    let mut tokens = page.family(
        "unisono_tokens_total",
        "counter",
        "Tokens of model calls, by caller and kind; cached tokens are part of input.",
    );
    type Amount = (&'static str, fn(&Used) -> u64);
    let kinds: [Amount; 4] = [
        ("input", |used| used.input),
        ("output", |used| used.output),
        ("cache_read", |used| used.cache_read),
        ("cache_write", |used| used.cache_write),
    ];
    for by in both {
        for (kind, amount) in kinds {
            tokens.sample(&[("by", by.name()), ("kind", kind)], amount(&of(by)));
        }
    }
    let mut cost = page.family(
        "unisono_cost_usd_total",
        "counter",
        "Cost of model calls of known price, in US dollars.",
    );
    for by in both {
        cost.sample(&[("by", by.name())], of(by).cost.0 as f64 / 1e12);
    }
    let mut unpriced = page.family(
        "unisono_unpriced_calls_total",
        "counter",
        "Replies of models with an unknown price.",
    );
    for by in both {
        unpriced.sample(&[("by", by.name())], of(by).unpriced);
    }
}

fn gauge(page: &mut Page, name: &str, help: &str, gauge: &Gauge) {
    page.family(name, "gauge", help)
        .sample(&[("state", "working")], gauge.working())
        .sample(&[("state", "waiting")], gauge.waiting());
}

fn http(page: &mut Page, shared: &Shared) {
    let mut answers = page.family(
        "unisono_http_responses_total",
        "counter",
        "Responses over HTTP, by the class of their status.",
    );
    for (class, count) in ["1xx", "2xx", "3xx", "4xx", "5xx"]
        .iter()
        .zip(&shared.answers.0)
    {
        answers.sample(&[("class", class)], count.load(Ordering::Relaxed));
    }
    let setup = shared.local.setup();
    let settings = &setup.loaded.config.server;
    let taken = |all: u32, free: usize| (all as usize).saturating_sub(free);
    let requests = taken(settings.requests, shared.requests.available_permits());
    page.family(
        "unisono_http_requests",
        "gauge",
        "Requests that are being answered.",
    )
    .sample(&[], requests);
    let streams = taken(settings.streams, shared.streams.available_permits());
    page.family(
        "unisono_http_streams",
        "gauge",
        "Streams of events that are open.",
    )
    .sample(&[], streams);
}

/// The process itself, if the system provides its numbers.
fn process(page: &mut Page) {
    let Some(pages) = std::fs::read_to_string("/proc/self/statm")
        .ok()
        .and_then(|text| text.split_whitespace().nth(1)?.parse::<u64>().ok())
    else {
        return;
    };
    page.family(
        "process_resident_memory_bytes",
        "gauge",
        "Resident memory size in bytes.",
    )
    .sample(&[], pages * rustix::param::page_size() as u64);
}

/// The text under construction.
#[derive(Debug, Default)]
struct Page {
    text: String,
}

/// A metric with its samples.
struct Family<'p> {
    page: &'p mut Page,
    name: String,
}

impl Page {
    fn family(&mut self, name: &str, kind: &str, help: &str) -> Family<'_> {
        // Writing into a text does not fail.
        let _ = writeln!(self.text, "# HELP {name} {help}\n# TYPE {name} {kind}");
        Family {
            page: self,
            name: name.to_owned(),
        }
    }

    fn counter(&mut self, name: &str, help: &str, n: u64) {
        self.family(name, "counter", help).sample(&[], n);
    }

    fn histogram(&mut self, name: &str, help: &str, of: &AppendHistogram) {
        let mut family = self.family(name, "histogram", help);
        for (bound, count) in &of.buckets {
            let bound = bound.to_string();
            family.part("_bucket", &[("le", &bound)], count);
        }
        family.part("_bucket", &[("le", "+Inf")], of.count);
        family.part("_sum", &[], of.seconds);
        family.part("_count", &[], of.count);
    }

    fn seconds(&mut self, name: &str, help: &str, ms: u64) {
        self.family(name, "counter", help)
            .sample(&[], ms as f64 / 1e3);
    }
}

impl Family<'_> {
    /// Adds a sample. Label values are constants of this program and need no escaping.
    fn sample(&mut self, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        self.part("", labels, value)
    }

    /// The same, of one part of a histogram.
    fn part(&mut self, end: &str, labels: &[(&str, &str)], value: impl Display) -> &mut Self {
        let labels: Vec<String> = labels
            .iter()
            .map(|(name, value)| format!("{name}=\"{value}\""))
            .collect();
        let labels = match labels.is_empty() {
            true => String::new(),
            false => format!("{{{}}}", labels.join(",")),
        };
        let _ = writeln!(self.page.text, "{}{end}{labels} {value}", self.name);
        self
    }
}
