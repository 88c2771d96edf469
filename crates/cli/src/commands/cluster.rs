//! `unisono cluster`: the programs that use one database.

use clap::Subcommand;
use unisono::Service;
use unisono::service::sessions::is_meant;
use unisono_api::Code;
use unisono_api::PageQuery;
use unisono_api::cluster::ClusterMember;

use crate::app::App;
use crate::problem::{Problem, Result};
use crate::service::lookup::session_id;
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

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Lists the members: daemons and programs on the database
    #[command(after_help = LIST_HELP)]
    List,
    /// Drains a daemon: it hands its sessions over and takes no new ones
    #[command(after_help = DRAIN_HELP)]
    Drain(Drain),
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
    let setup = app.setup(Vec::new())?;
    let service = app.reader(&setup).await?;
    let done = match command {
        Command::List => list(app, &*service).await,
        Command::Drain(args) => drain(app, &*service, args).await,
    };
    service.close().await;
    done
}

async fn list(app: &App, service: &dyn Service) -> Result<()> {
    let members = members(service).await?;
    if app.out.json {
        app.out.json(&members);
    } else if members.is_empty() {
        app.out
            .message("the store is a directory of this machine: one program uses it at a time");
    } else {
        let header = [
            "MEMBER", "STATE", "SESSIONS", "AGENTS", "ADDRESS", "PROGRAM",
        ];
        let rows = members.iter().map(row).collect();
        app.out.data(show::table(&header, &[2], rows));
    }
    Ok(())
}

async fn drain(app: &App, service: &dyn Service, args: Drain) -> Result<()> {
    let members = members(service).await?;
    let meant = members.iter().filter(|one| names(&args.member, one));
    let found: Vec<&str> = meant.map(|one| one.member.as_str()).collect();
    if found.is_empty() {
        let problem = format!(
            "no program of the cluster has the id or address {}",
            args.member
        );
        let problem = Problem::usage(problem).code(Code::NotFound);
        return Err(problem.hint("`unisono cluster list` shows the members"));
    }
    let member = session_id(&args.member, "program", &found)?;
    let member = service.drain(member, !args.undo).await?;
    if app.out.json {
        app.out.json(&member);
    } else if args.undo {
        app.out
            .message(format_args!("{} takes sessions again", member.name));
    } else {
        app.out
            .message(format_args!("{} hands its sessions over", member.name));
    }
    Ok(())
}

/// Whether a text is the address of a member, its id, or a part of the id.
fn names(text: &str, member: &ClusterMember) -> bool {
    member.address.as_deref() == Some(text) || is_meant(text, &member.member)
}

async fn members(service: &dyn Service) -> Result<Vec<ClusterMember>> {
    let (mut all, mut query) = (Vec::new(), PageQuery::default());
    loop {
        let page = service.members(&query).await?;
        all.extend(page.items);
        if page.next.is_none() {
            return Ok(all);
        }
        query.cursor = page.next;
    }
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
