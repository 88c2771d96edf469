//! `unisono sessions search`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;

use serde_json::{Value, json};
use unisono_context::alteration::Form;
use unisono_context::view::Standing;
use unisono_context::{AgentId, Message, Role, SessionId, Timestamp};
use unisono_runtime::clock;
use unisono_search::{Bound, Excerpt, Found, Query, excerpt, instant, role};
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

/// Characters of an excerpt.
const EXCERPT_CHARS: usize = 240;

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

/// A message that was found, with what is told of it.
struct Hit<'s> {
    found: Found,
    state: &'s State,
    message: &'s Message,
    /// How it stands in the context of the branch; none: it is on another one.
    standing: Option<Standing>,
    branches: Vec<&'s str>,
    excerpt: Excerpt,
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
    let hits: Vec<Hit<'_>> = hits
        .filter_map(|found| Hit::new(found, &states, &args.branch, &stems))
        .collect();
    if app.out.json {
        let hits: Vec<Value> = hits.iter().map(Hit::json).collect();
        let (notes, complete) = (&query.notes, answer.complete);
        app.out
            .json(&json!({"notes": notes, "complete": complete, "hits": hits}));
    } else if hits.is_empty() {
        app.out.say("nothing found");
    } else {
        let hits: Vec<String> = hits.iter().map(|hit| hit.text(app.out.paint)).collect();
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

impl<'s> Hit<'s> {
    fn new(
        found: &Found,
        states: &'s HashMap<SessionId, State>,
        branch: &str,
        stems: &[String],
    ) -> Option<Hit<'s>> {
        let state = states.get(&found.session)?;
        let tree = state.tree();
        let message = &tree.get(found.message)?.message;
        let on = |head| {
            let node = tree.at(head, message.ordinal);
            node.is_some_and(|node| node.message.id == message.id)
        };
        let branches = tree.branches().filter(|(_, head)| on(*head));
        let branches: Vec<&str> = branches.map(|(name, _)| name).collect();
        let head = tree.head(branch).filter(|_| branches.contains(&branch));
        let view = head.and_then(|head| state.view(head, false));
        Some(Hit {
            found: *found,
            state,
            message,
            standing: view.and_then(|view| view.standing(message.ordinal)),
            branches,
            excerpt: excerpt(&message.countable_text(), stems, EXCERPT_CHARS),
        })
    }

    /// Whether the model sees it, if only a part of it.
    fn is_active(&self) -> bool {
        matches!(
            self.standing,
            Some(Standing::Verbatim | Standing::Shortened(_))
        )
    }

    fn standing(&self) -> &'static str {
        match &self.standing {
            None => "elsewhere",
            Some(Standing::Verbatim) => "verbatim",
            Some(Standing::Shortened(Form::Masked { .. })) => "masked",
            Some(Standing::Shortened(Form::Cut { .. } | Form::Truncated { .. })) => "cut",
            Some(Standing::Covered(_)) => "covered",
        }
    }

    fn json(&self) -> Value {
        let checkpoint = match &self.standing {
            Some(Standing::Covered(checkpoint)) => Some(checkpoint.number),
            _ => None,
        };
        let marks = self.excerpt.marks.iter();
        json!({
            "session": self.found.session.to_string(),
            "title": self.state.title(),
            "message": self.message.id.to_string(),
            "ordinal": self.message.ordinal.0,
            "role": self.message.role.name(),
            "author": self.message.author.as_ref().map(ToString::to_string),
            "at": show::instant(self.message.at),
            "score": self.found.score,
            "active": self.is_active(),
            "standing": self.standing(),
            "checkpoint": checkpoint,
            "branches": self.branches,
            "excerpt": self.excerpt.text,
            "marks": marks.map(|at| [at.start, at.end]).collect::<Vec<_>>(),
        })
    }

    fn text(&self, paint: Paint) -> String {
        let Message {
            ordinal, role, at, ..
        } = self.message;
        let author = self
            .message
            .author
            .as_ref()
            .map(|author| format!(" ({author})"));
        let author = author.unwrap_or_default();
        let standing = match &self.standing {
            None => match self.branches.first() {
                Some(branch) => format!("on branch {branch}"),
                None => "on no branch".to_owned(),
            },
            Some(Standing::Covered(checkpoint)) => {
                format!("not in the context: summary {} has it", checkpoint.number)
            }
            Some(Standing::Verbatim) => "in the context".to_owned(),
            Some(Standing::Shortened(_)) => format!("in the context, {}", self.standing()),
        };
        let session = sessions::short(self.found.session);
        let title = show::line(self.state.title(), 40);
        let head = paint.bold(format_args!("{session} {ordinal} {role}{author}"));
        let rest = paint.dim(format_args!("{}  {title}  [{standing}]", show::date(*at)));
        format!("{head}  {rest}\n  {}\n", self.marked(paint))
    }

    /// The excerpt with its words set off.
    fn marked(&self, paint: Paint) -> String {
        let Excerpt { text, marks } = &self.excerpt;
        let (mut out, mut from) = (String::new(), 0);
        for at in marks {
            out.push_str(&text[from..at.start]);
            out.push_str(&paint.yellow(&text[at.clone()]));
            from = at.end;
        }
        out + &text[from..]
    }
}
