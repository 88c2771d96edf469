//! Skills of tool servers: listed for each turn, read by the tool `skill`.
//!
//! The name of a skill begins with its server: `docs/refunds`. It therefore never equals the name of a
//! skill in a folder or at another server.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError};
use std::time::Instant;

use tokio::task::JoinSet;
use unisono_config::setup::Setup;
use unisono_config::skills;
use unisono_runtime::mcp::{ServerSkill, ServerSkills as Listed, SkillFault, SkillReader};

/// The skills of tool servers, as they were listed last. Clones share one value.
#[derive(Clone, Debug, Default)]
pub(crate) struct ServerSkills(Arc<Inner>);

#[derive(Debug, Default)]
struct Inner {
    reader: OnceLock<SkillReader>,
    lists: Mutex<BTreeMap<Arc<str>, List>>,
}

#[derive(Clone, Debug)]
struct List {
    /// The instant at which the list expires.
    until: Instant,
    skills: Arc<[NamedSkill]>,
}

#[derive(Clone, Debug)]
struct NamedSkill {
    name: String,
    line: String,
    skill: ServerSkill,
}

impl ServerSkills {
    /// Sets the reader, which connects to the servers.
    pub(crate) fn connect(&self, reader: SkillReader) {
        // Set once.
        let _ = self.0.reader.set(reader);
    }

    /// The lines of all skills of the servers that may offer some. All servers are asked in
    /// parallel, unless their lists are fresh. A server that is unavailable has none.
    pub(crate) async fn list(&self, setup: &Setup) -> Vec<String> {
        let mut asked = JoinSet::new();
        for server in servers(setup) {
            let (all, server) = (self.clone(), server.clone());
            asked.spawn(async move {
                let list = all.of_server(&server, true).await;
                if let Err(reason) = &list {
                    tracing::warn!(reason, "the turn has no skills of this server");
                }
            });
        }
        // A listing does not panic.
        while asked.join_next().await.is_some() {}
        self.cached_lines(setup)
    }

    /// The lines of all skills that were listed last.
    pub(crate) fn cached_lines(&self, setup: &Setup) -> Vec<String> {
        let lists = self.lists();
        let known = servers(setup).filter_map(|server| lists.get(server));
        let skills = known.flat_map(|list| list.skills.iter());
        skills.map(|skill| skill.line.clone()).collect()
    }

    /// The instructions of a skill, or one of its files, below a line that names the server.
    ///
    /// # Errors
    /// The skill or the file does not exist, cannot be read, or has changed; in words for a model.
    pub(crate) async fn read(
        &self,
        setup: &Setup,
        name: &str,
        file: Option<&str>,
    ) -> Result<String, String> {
        let unknown = || format!("there is no skill {name:?}");
        let (server, _) = name.split_once('/').ok_or_else(unknown)?;
        let server = servers(setup).find(|known| ***known == *server);
        let server = server.ok_or_else(unknown)?;
        let list = self.of_server(server, false).await?;
        let skill = list.iter().find(|skill| skill.name == name);
        let skill = &skill.ok_or_else(unknown)?.skill;
        let reader = self.reader()?;
        let text = reader.read(skill, file).await.map_err(|fault| {
            if let SkillFault::Changed(_) = fault {
                self.lists().remove(server);
            }
            fault.to_string()
        })?;
        let from = format!("[of the tool server `{server}`]\n\n");
        if file.is_some() {
            return Ok(format!("{from}{text}"));
        }
        let body = skills::body_of(&text, &skill.front_matter())?;
        let files = skill.files();
        Ok(match files.is_empty() {
            true => format!("{from}{body}"),
            false => format!("{from}{body}\n\nFiles of this skill:\n{}", files.join("\n")),
        })
    }

    /// The skills of a server: the known list, or a new one if it is missing or, with `must_be_fresh`,
    /// expired.
    async fn of_server(
        &self,
        server: &Arc<str>,
        must_be_fresh: bool,
    ) -> Result<Arc<[NamedSkill]>, String> {
        let known = self.lists().get(server).cloned();
        if let Some(list) = known
            && (!must_be_fresh || Instant::now() < list.until)
        {
            return Ok(list.skills);
        }
        let listed = self.reader()?.list(server).await.map_err(|fault| {
            self.lists().remove(server);
            fault.to_string()
        })?;
        let until = Instant::now() + listed.fresh;
        let skills: Arc<[NamedSkill]> = named(server, listed).into();
        let list = List {
            until,
            skills: skills.clone(),
        };
        self.lists().insert(server.clone(), list);
        Ok(skills)
    }

    fn reader(&self) -> Result<&SkillReader, String> {
        let reader = self.0.reader.get();
        reader.ok_or_else(|| "this process only reads the store".to_owned())
    }

    fn lists(&self) -> MutexGuard<'_, BTreeMap<Arc<str>, List>> {
        self.0.lists.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The servers that may offer skills.
fn servers(setup: &Setup) -> impl Iterator<Item = &Arc<str>> {
    let is_on = setup.loaded.config.turn.skills_bytes > 0;
    let servers = setup.loaded.tools.servers.iter();
    let servers = servers.filter(move |server| is_on && server.skills);
    servers.map(|server| &server.name)
}

/// The skills with their names; those that break a rule are left out, with a warning.
fn named(server: &str, listed: Listed) -> Vec<NamedSkill> {
    let warn = |wrong: &str| tracing::warn!(server, wrong, "a skill of a tool server is left out");
    listed.left_out.iter().for_each(|wrong| warn(wrong));
    let (mut once, mut often) = (BTreeSet::new(), BTreeSet::new());
    for skill in &listed.skills {
        if !once.insert(skill.name().to_owned()) {
            often.insert(skill.name().to_owned());
        }
    }
    let mut all: Vec<NamedSkill> = Vec::new();
    for skill in listed.skills {
        // Skills with the same name are distinguished by their paths.
        let own = match often.contains(skill.name()) {
            true => skill.path(),
            false => skill.name(),
        };
        let name = format!("{server}/{own}");
        match skills::describe(skill.name(), skill.description()) {
            Ok(_) if all.iter().any(|known| known.name == name) => {
                warn(&format!("{name} is listed twice"));
            }
            Ok(description) => {
                let digest = skill.digest.short();
                let line = format!("\n- {name}: {description} [{digest}]");
                all.push(NamedSkill { name, line, skill });
            }
            Err(wrong) => warn(&wrong),
        }
    }
    all.sort_by(|a, b| a.name.cmp(&b.name));
    all
}
