//! Whether the daemons on the database have the same agents.

use unisono_api::cluster::MemberState;
use unisono_client::Client;
use unisono_server::deployment::Check;
use unisono_store::Journal;

use crate::commands::cluster;
use crate::problem::Result;

/// Asks a daemon whether all live daemons have the same agents.
pub(super) async fn of_daemon(client: &Client) -> Result<Option<Check>> {
    let members = cluster::members(client).await?.into_iter();
    let others = members.filter(|member| !member.is_self && member.state != MemberState::Gone);
    let known = others.filter_map(|member| Some((member.name, member.same_agents?)));
    Ok(check("the daemon of this machine", known.collect()))
}

/// Reads from the database whether all live daemons have the same agents.
pub(super) async fn of_journal(journal: &Journal) -> Result<Option<Check>> {
    let Some(cluster) = journal.cluster() else {
        return Ok(None);
    };
    let members = cluster.members().await?.into_iter();
    let live = members.filter(|(member, _)| member.is_alive);
    let mut known = live.filter_map(|(member, _)| Some((member.name, member.announced.agents?)));
    let Some((first, agents)) = known.next() else {
        return Ok(None);
    };
    let others = known.map(|(name, theirs)| (name, theirs == agents));
    Ok(check(&first, others.collect()))
}

/// The check of one daemon and the others: the name of each other, and whether it has the agents of
/// `first`. None without others.
fn check(first: &str, others: Vec<(String, bool)>) -> Option<Check> {
    if others.is_empty() {
        return None;
    }
    let differing = others.into_iter().filter(|(_, are_same)| !are_same);
    let differing: Vec<String> = differing.map(|(name, _)| name).collect();
    Some(Check {
        name: "agents".to_owned(),
        result: match differing.is_empty() {
            true => Ok("the same at all daemons on the database".to_owned()),
            false => Err(format!(
                "the agents of {} differ from those of {first}: give all daemons the same agents",
                differing.join(", ")
            )),
        },
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn daemons_whose_agents_differ_are_named() {
        let other = |name: &str, are_same| (name.to_owned(), are_same);
        assert_eq!(check("a", Vec::new()), None);
        let same = check("a", vec![other("b", true)]).unwrap();
        assert!(same.result.is_ok());
        let others = vec![other("b", false), other("c", true), other("d", false)];
        let differ = check("a", others).unwrap().result.unwrap_err();
        assert!(
            differ.starts_with("the agents of b, d differ from those of a"),
            "{differ}"
        );
    }
}
