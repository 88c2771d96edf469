//! The database, whether it takes writes, and whether this machine reaches the daemons on it.

use unisono_api::PageQuery;
use unisono_api::cluster::MemberState;
use unisono_api::service::Cluster as _;
use unisono_client::Client;
use unisono_server::deployment::{self, Check};
use unisono_store::Journal;

use crate::problem::Result;

/// A daemon: its name and its address.
type Daemon = (String, String);

/// The live daemons, from another daemon.
pub(super) async fn of_daemon(client: &Client) -> Result<Vec<Daemon>> {
    let mut daemons = Vec::new();
    let mut query = PageQuery::default();
    loop {
        let part = client.members(&query).await?;
        let live = part.items.into_iter();
        let live = live.filter(|member| member.state != MemberState::Gone);
        daemons.extend(live.filter_map(|member| Some((member.name, member.address?))));
        if part.next.is_none() {
            return Ok(daemons);
        }
        query.cursor = part.next;
    }
}

/// The live daemons, from the database.
pub(super) async fn of_journal(journal: &Journal) -> Result<Vec<Daemon>> {
    let Some(cluster) = journal.cluster() else {
        return Ok(Vec::new());
    };
    let members = cluster.members().await?.into_iter();
    let live = members.filter(|(member, _)| member.is_alive);
    let daemons = live.filter_map(|(member, _)| Some((member.name, member.announced.address?)));
    Ok(daemons.collect())
}

/// Whether the database takes writes.
pub(super) async fn writes(journal: &Journal) -> Check {
    let probed = journal.engine().check_writes().await;
    Check {
        name: "database".to_owned(),
        result: match probed {
            Ok(()) => Ok("it takes writes".to_owned()),
            Err(error) => Err(error.to_string()),
        },
    }
}

pub(super) async fn reach(daemons: Vec<Daemon>) -> Result<Vec<Check>> {
    Ok(deployment::reach(daemons).await)
}
