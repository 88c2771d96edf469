//! `unisono sessions search`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Value, json};
use unisono_context::view::Standing;
use unisono_context::{AgentId, Message, Role, SessionId, Timestamp};
use unisono_daemon::hits::Hit;
use unisono_runtime::clock;
use unisono_search::{Bound, Excerpt, Found, Query, instant, role};
use unisono_session::State;
use unisono_session::state::MAIN;

use crate::app::App;
use crate::output::Paint;
use crate::problem::{Problem, Result};
use crate::sessions::{self, Sessions};
use crate::show;

const HELP: &str = "\
Words are found in all their English forms; messages that have more of them, or rarer ones, come
first. Within the query:
  \"rate limit\"                these words in this order
  +kestrel -draft             required, excluded
  role:user agent:risks       who said it
  since:2026-03-01 until:7d   when (UTC); a date, an instant, or how long ago: 30m 12h 7d 2w
  session:0192ab              in which conversation
Without words, the newest messages that pass the filters are shown.

JSON: notes [what of the query was left out, and why], complete, hits [{session, title, message,
ordinal, role, author, at, score, active (whether the model sees it on the branch), standing
(verbatim, masked, cut, covered or elsewhere), checkpoint (that covers it), branches (that have it),
excerpt, marks [[start, end] in bytes]}].

Examples:
  unisono sessions search kestrel rollout
  unisono sessions search '\"rate limit\" role:tool' --since 7d --json";

#[derive(Debug, clap::Args)]
#[command(after_help = HELP)]
pub(crate) struct Args {
    /// What to search for
    #[arg(required = true)]
    query: Vec<String>,
    /// Only this session
    #[arg(long)]
    session: Option<String>,
    /// Only what this role said; may be repeated
    #[arg(long, value_parser = role)]
    role: Vec<Role>,
    /// Only what this agent wrote; may be repeated
    #[arg(long)]
    agent: Vec<String>,
    /// Only what was said then or later: a date, an instant, or how long ago
    #[arg(long, value_name = "TIME")]
    since: Option<String>,
    /// Only what was said before that
    #[arg(long, value_name = "TIME")]
    until: Option<String>,
    /// How many messages at most
    #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=1_000))]
    limit: u16,
    /// The branch whose context tells what is active
    #[arg(long, default_value = MAIN)]
    branch: String,
}

pub(crate) async fn run(app: &App, args: Args) -> Result<()> {
    let query = query(&args, clock::now())?;
    let setup = app.setup(Vec::new())?;
    let (sessions, search) = app.search(&setup).await?;
    for note in &query.notes {
        app.out.warn(note);
    }
    let mut only = Vec::new();
    for name in query.session.iter() {
        only.push(sessions.find(name).await?);
    }
    // A person waits for all of it, also where the index has to be made first.
    let settled = search.settle(None).await;
    let answer = match settled {
        Ok(()) => search.find(&query, &only, usize::from(args.limit)).await,
        Err(error) => Err(error),
    };
    search.close().await;
    let answer = answer?;
    let states = states(&sessions, &answer.found).await?;
    sessions.close().await?;
    let stems = query.stems();
    let hits = answer.found.iter();
    let hits: Vec<Hit> = hits
        .filter_map(|found| {
            let state = states.get(&found.session)?;
            Hit::of(found, state, &args.branch, &stems)
        })
        .collect();
    if app.out.json {
        let hits: Vec<Value> = hits.iter().map(json).collect();
        let (notes, complete) = (&query.notes, answer.complete);
        app.out
            .json(&json!({"notes": notes, "complete": complete, "hits": hits}));
    } else if hits.is_empty() {
        app.out.say("nothing found");
    } else {
        let hits: Vec<String> = hits.iter().map(|hit| text(hit, app.out.paint)).collect();
        app.out.data(hits.join("\n"));
    }
    Ok(())
}

/// The query with the filters of the flags.
fn query(args: &Args, now: Timestamp) -> Result<Query> {
    let mut query = Query::parse(&args.query.join(" "), now);
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
        return Err(Problem::usage(problem).hint("the earlier time goes to --since"));
    }
    if query.is_empty() && query.session.is_none() {
        let mut problem = "there is nothing to search for".to_owned();
        for note in &query.notes {
            problem = format!("{problem}: {note}");
        }
        return Err(Problem::usage(problem).hint("write a word, as in `sessions search kestrel`"));
    }
    Ok(query)
}

/// The sessions of what was found.
async fn states(sessions: &Sessions, found: &[Found]) -> Result<HashMap<SessionId, State>> {
    let mut states = HashMap::new();
    for found in found {
        if let Entry::Vacant(place) = states.entry(found.session) {
            place.insert(sessions.state(found.session).await?);
        }
    }
    Ok(states)
}

fn json(hit: &Hit) -> Value {
    let marks = hit.excerpt.marks.iter();
    json!({
        "session": hit.session.to_string(),
        "title": hit.title,
        "message": hit.message.id.to_string(),
        "ordinal": hit.message.ordinal.0,
        "role": hit.message.role.name(),
        "author": hit.message.author.as_ref().map(ToString::to_string),
        "at": show::instant(hit.message.at),
        "score": hit.score,
        "active": hit.is_active(),
        "standing": hit.stands(),
        "checkpoint": hit.checkpoint(),
        "branches": hit.branches,
        "excerpt": hit.excerpt.text,
        "marks": marks.map(|at| [at.start, at.end]).collect::<Vec<_>>(),
    })
}

fn text(hit: &Hit, paint: Paint) -> String {
    let Message {
        ordinal, role, at, ..
    } = &*hit.message;
    let author = hit
        .message
        .author
        .as_ref()
        .map(|author| format!(" ({author})"));
    let author = author.unwrap_or_default();
    let standing = match &hit.standing {
        None => match hit.branches.first() {
            Some(branch) => format!("on branch {branch}"),
            None => "on no branch".to_owned(),
        },
        Some(Standing::Covered(checkpoint)) => {
            format!("not in the context: summary {} has it", checkpoint.number)
        }
        Some(Standing::Verbatim) => "in the context".to_owned(),
        Some(Standing::Shortened(_)) => format!("in the context, {}", hit.stands()),
    };
    let session = sessions::short(hit.session);
    let title = show::line(&hit.title, 40);
    let head = paint.bold(format_args!("{session} {ordinal} {role}{author}"));
    let rest = paint.dim(format_args!("{}  {title}  [{standing}]", show::date(*at)));
    format!("{head}  {rest}\n  {}\n", marked(&hit.excerpt, paint))
}

/// The excerpt with its words set off.
fn marked(excerpt: &Excerpt, paint: Paint) -> String {
    let Excerpt { text, marks } = excerpt;
    let (mut out, mut from) = (String::new(), 0);
    for at in marks {
        out.push_str(&text[from..at.start]);
        out.push_str(&paint.yellow(&text[at.clone()]));
        from = at.end;
    }
    out + &text[from..]
}
