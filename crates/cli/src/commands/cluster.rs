//! `unisono cluster`: the programs that use one database, and their sessions.

use clap::Subcommand;
use unisono::Service;
use unisono::service::sessions::is_meant;
use unisono_api::Code;
use unisono_api::cluster::ClusterMember;

use super::sessions::list::table;
use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::all_pages;
use crate::service::lookup::only_match;
use crate::show;

const LIST_HELP: &str = "\
A member is gone if it has sent no heartbeat for `cluster.takeover_after`: the others take its
open turns over. * marks the member that answers. If agents differ, a turn may use other
definitions than those of this member.

JSON: a list of {member, name, version, address (null: not a daemon), state (alive, draining, gone),
self, sessions, joined, last_seen_ms, same_agents (null: unknown)}.";

const DRAIN_HELP: &str = "\
The daemon takes no new sessions and forwards requests for them. Its open turns have
server.drain_seconds to end; then other daemons take them over, and it can be stopped. MEMBER is
the address, the id, or the start or end of the id. A daemon that has handed its sessions over has
a new id; its address stays.

JSON: as for `unisono cluster list`, of that program.";

const SESSIONS_HELP: &str = "\
The newest session comes first. A session on which no program works is in no list. MEMBER is the
address, the id, or the start or end of the id.

JSON: as for `unisono sessions list`.";

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists the members: daemons and programs on the database
    #[command(after_help = LIST_HELP)]
    List,
    /// Lists the sessions that a member owns
    #[command(after_help = SESSIONS_HELP)]
    Sessions(Sessions),
    /// Drains a daemon: it hands its sessions over and takes no new ones
    #[command(after_help = DRAIN_HELP)]
    Drain(Drain),
}

#[derive(Debug, clap::Args)]
pub(crate) struct Sessions {
    /// The program
    member: String,
}

#[derive(Debug, clap::Args)]
pub(crate) struct Drain {
    /// The program
    member: String,
    /// Ends the drain: it takes sessions again
    #[arg(long)]
    undo: bool,
}

pub(crate) async fn run(app: &App, command: Command) -> Result<()> {
    let service = app.reader().await?;
    let done = match command {
        Command::List => list(app, &*service).await,
        Command::Sessions(args) => sessions(app, &*service, &args.member).await,
        Command::Drain(args) => drain(app, &*service, args).await,
    };
    service.close().await;
    done
}

async fn list(app: &App, service: &dyn Service) -> Result<()> {
    let members = members(service).await?;
    let header = [
        "MEMBER", "STATE", "SESSIONS", "AGENTS", "ADDRESS", "PROGRAM",
    ];
    let none = "the store is a directory of this machine: one program uses it at a time";
    app.out.list(&members, none, (&header, &[2]), row);
    Ok(())
}

async fn sessions(app: &App, service: &dyn Service, member: &str) -> Result<()> {
    let member = named(service, member).await?;
    let (id, name) = (&member.member, &member.name);
    let listed = all_pages(async |page| service.member_sessions(id, &page).await).await?;
    if app.out.json {
        app.out.json(&listed);
    } else if listed.is_empty() {
        app.out.message(format_args!("{name} owns no session"));
    } else {
        app.out.data(table(&listed));
    }
    Ok(())
}

async fn drain(app: &App, service: &dyn Service, args: Drain) -> Result<()> {
    let member = named(service, &args.member).await?.member;
    let member = service.drain(&member, !args.undo).await?;
    let does = match args.undo {
        true => "takes sessions again",
        false => "hands its sessions over",
    };
    let message = format!("{} {does}", member.name);
    app.out.outcome(&member, message);
    Ok(())
}

/// The member with this address or id, or this part of an id.
async fn named(service: &dyn Service, name: &str) -> Result<ClusterMember> {
    let mut found = members(service).await?;
    found.retain(|one| names(name, one));
    if found.is_empty() {
        let problem = format!("no program of the cluster has the id or address {name}");
        let problem = Problem::usage(problem).code(Code::NotFound);
        return Err(problem.hint("`unisono cluster list` shows the members"));
    }
    only_match(name, "program", &found)
}

/// Whether a text is the address of a member, its id, or a part of the id.
fn names(text: &str, member: &ClusterMember) -> bool {
    member.address.as_deref() == Some(text) || is_meant(text, &member.member)
}

/// All members, also those that are gone.
pub(super) async fn members(service: &dyn Service) -> Result<Vec<ClusterMember>> {
    all_pages(async |page| service.members(&page).await).await
}

fn row(member: &ClusterMember) -> Vec<String> {
    let mark = if member.is_self { "*" } else { "" };
    vec![
        format!("{}{mark}", show::short_id(&member.member)),
        member.state.name().to_owned(),
        member.sessions.to_string(),
        match member.same_agents {
            Some(true) => "same",
            Some(false) => "differ",
            None => "-",
        }
        .to_owned(),
        member.address.clone().unwrap_or_else(|| "-".to_owned()),
        member.name.clone(),
    ]
}
