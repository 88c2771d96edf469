//! `unisono sessions search`.

use std::num::NonZeroUsize;

use unisono_api::Code;
use unisono_api::search::{self as api, SearchQuery};
use unisono_api::session::MAIN_BRANCH;
use unisono_context::{AgentId, Role, Timestamp};
use unisono_runtime::clock;
use unisono_search::{Bound, Filters, Query, instant, role};

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::{branch_length, session_if_named};
use crate::show;
use crate::terminal::Paint;

const HELP: &str = "\
Words match all their English forms, and single words the names of authors; messages with more or
rarer words come first. Common words such as \"the\" are left out if there are others. Within the query:
  \"rate limit\"                these words in this order
  +kestrel -draft             required, excluded
  role:user agent:risks       the role and the author: an agent or a person
  agent:\"Maria Kowalski\"      an author with spaces in the name; case is ignored
  since:2026-03-01 until:7d   when (UTC): a date, an instant, an age: 30m 12h 7d
  session:0192ab              the session
A day or month (2026-03-02, 2026-03, 2 March 2026, March 2026) also finds the messages of that time. A
date after until: includes that day. Among other words, days and periods in English or German (on 3 May,
last Friday, gestern, im Juli, from Monday to Wednesday) put the messages of that time, and
those that name it, at the top.
Without words, the newest matching messages are shown.

JSON: notes [ignored parts of the query, with the reason], complete, hits [{session, title, message,
ordinal, role, author, at, score, active (whether the model sees it on the branch), status
(verbatim, masked, cut, summarised or elsewhere), checkpoint (that covers it), branches (that have it),
excerpt, marks [[start, end] in bytes], before and after (the messages beside it on its branch)
{ordinal, role, author, excerpt}}].

Examples:
  unisono sessions search kestrel rollout
  unisono sessions search '\"rate limit\" role:tool' --since 7d --json";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// The query; may be absent beside a filter
    #[arg(required_unless_present_any = ["session", "role", "agent", "since", "until"])]
    query: Vec<String>,
    /// Only this session
    #[arg(long)]
    session: Option<String>,
    /// Only messages of this role; may be repeated
    #[arg(long, value_parser = role)]
    role: Vec<Role>,
    /// Only messages of this agent or person, in upper or lower case; may be repeated
    #[arg(long)]
    agent: Vec<String>,
    /// Only messages since then: a date, an instant, or an age
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only messages until then; a date includes that day
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// Maximum number of messages
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// The branch whose context decides what is active; another one than `main` requires a session
    #[arg(long, default_value = MAIN_BRANCH)]
    branch: String,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let query = query(&args, clock::now())?;
    let service = app.reader().await?;
    let only = session_if_named(&*service, query.session.as_deref()).await?;
    if let Some(id) = &only {
        // Reports the existing branches.
        branch_length(&*service, id, &args.branch).await?;
    }
    let asked = SearchQuery {
        q: words(&args, &query),
        branch: args.branch.clone(),
        cursor: None,
        limit: NonZeroUsize::new(usize::from(args.limit)),
    };
    let mut found = service.search(only.as_deref(), &asked).await?;
    // The requested number is reported.
    found.next = None;
    service.close().await;
    for note in &found.notes {
        app.out.warn(note);
    }
    if !found.complete {
        app.out
            .warn("the newest messages may be missing: they are not indexed yet");
    }
    if app.out.json {
        app.out.json(&found);
    } else if found.hits.is_empty() {
        app.out.message("nothing found");
    } else {
        let hits = found.hits.iter();
        let hits = hits.map(|hit| show::wrap(&text(hit, app.out.paint), 2));
        app.out.data(hits.collect::<Vec<_>>().join("\n"));
    }
    Ok(())
}

/// The query as one text: with the flags among the words.
fn words(args: &Args, query: &Query) -> String {
    let mut said = args.query.join(" ");
    // No flag belongs to a phrase without an end.
    if said.matches('"').count() % 2 == 1 {
        said.push('"');
    }
    let mut words = vec![said];
    words.extend(args.role.iter().map(|role| format!("role:{}", role.name())));
    // Names may have spaces; their quotation marks do not count.
    let agents = args.agent.iter().map(|agent| agent.replace('"', ""));
    words.extend(agents.map(|agent| format!("agent:\"{agent}\"")));
    let Filters { since, until, .. } = query.filters;
    let time = |name: &str, at: Timestamp| format!("{name}:{}", show::instant(at));
    let flags = [
        since
            .filter(|_| args.since.is_some())
            .map(|at| time("since", at)),
        until
            .filter(|_| args.until.is_some())
            .map(|at| time("until", at)),
    ];
    words.extend(flags.into_iter().flatten());
    words.join(" ")
}

/// The query with the filters of the flags.
fn query(args: &Args, now: Timestamp) -> Result<Query> {
    let mut query = Query::parse(&args.query.join(" "), now)
        .map_err(|error| Problem::usage(error).code(Code::Refused))?;
    query.filters.roles.extend(&args.role);
    let agents = args.agent.iter().map(|agent| AgentId::from(&**agent));
    query.filters.agents.extend(agents);
    let time = |flag: &str, text: &Option<String>, bound| match text {
        None => Ok(None),
        Some(text) => instant(text, now, bound)
            .map(Some)
            .map_err(|why| Problem::usage(format!("--{flag} {text}: {why}"))),
    };
    let since = time("since", &args.since, Bound::Since)?;
    let until = time("until", &args.until, Bound::Until)?;
    query.filters.since = since.or(query.filters.since);
    query.filters.until = until.or(query.filters.until);
    if args.session.is_some() {
        query.session.clone_from(&args.session);
    }
    let (since, until) = (query.filters.since, query.filters.until);
    if let (Some(since), Some(until)) = (since, until)
        && until <= since
    {
        let (since, until) = (show::instant(since), show::instant(until));
        let problem = format!("nothing is both since {since} and before {until}");
        return Err(Problem::usage(problem).hint("--since takes the earlier time"));
    }
    if query.is_empty() && query.session.is_none() {
        let mut problem = "there is nothing to search for".to_owned();
        for note in &query.notes {
            problem = format!("{problem}: {note}");
        }
        let problem = Problem::usage(problem).code(Code::Refused);
        return Err(problem.hint("write a word, as in `sessions search kestrel`"));
    }
    Ok(query)
}

fn text(hit: &api::Hit, paint: Paint) -> String {
    let author = hit.author.as_ref().map(|author| format!(" ({author})"));
    let author = author.unwrap_or_default();
    let status = match (&*hit.status, hit.checkpoint) {
        ("elsewhere", _) => match hit.branches.first() {
            Some(branch) => format!("on branch {branch}"),
            None => "on no branch".to_owned(),
        },
        ("summarised", Some(number)) => format!("not in the context: summary {number} has it"),
        ("verbatim", _) => "in the context".to_owned(),
        (shortened, _) => format!("in the context, {shortened}"),
    };
    let session = show::short_id(&hit.session);
    let title = show::line(&hit.title, 40);
    let head = paint.bold(format_args!(
        "{session} #{} {}{author}",
        hit.ordinal, hit.role
    ));
    let at = hit.at.as_deref().map(show::minute);
    let at = at.map(|at| format!("{at}  ")).unwrap_or_default();
    let rest = paint.dim(format_args!("{at}{title}  [{status}]"));
    let beside = |which, message: &Option<api::Neighbour>| {
        let line = message.as_ref().map(|message| {
            let author = message.author.as_ref().map(|author| format!(" ({author})"));
            let author = author.unwrap_or_default();
            let (n, role) = (message.ordinal, &message.role);
            let line = paint.dim(format_args!(
                "{which} #{n} {role}{author}: {}",
                message.excerpt
            ));
            format!("  {line}\n")
        });
        line.unwrap_or_default()
    };
    let (before, after) = (beside("before", &hit.before), beside("after", &hit.after));
    format!(
        "{head}  {rest}\n  {}\n{before}{after}",
        highlighted(hit, paint)
    )
}

/// The excerpt with its words set off.
fn highlighted(hit: &api::Hit, paint: Paint) -> String {
    let (mut out, mut from) = (String::new(), 0);
    for [start, end] in &hit.marks {
        let place = |at: &u64| usize::try_from(*at).unwrap_or(usize::MAX);
        let (start, end) = (place(start), place(end));
        out += hit.excerpt.get(from..start).unwrap_or_default();
        out += &paint.yellow(hit.excerpt.get(start..end).unwrap_or_default());
        from = end;
    }
    out + hit.excerpt.get(from..).unwrap_or_default()
}
