//! Skills that a tool server serves: listed with a manifest of their files, read as resources.
//!
//! Extension: <https://modelcontextprotocol.io/extensions/skills/overview>. A file is returned only
//! if it is in the manifest and has the size and the digest that the manifest says.

use std::sync::Arc;
use std::time::Duration;

use rmcp::ServiceError;
use rmcp::model::{
    PaginatedRequestParams, ReadResourceRequestParams, ResourceContents, SKILL_MD, Skill,
    SkillResource, SkillResources,
};
use serde_json::Value;
use unisono_context::Digest;
use unisono_context::digest::Hasher;
use unisono_model::media::decode_base64;

use super::connection::Connection;
use super::{Handle, NO_ANSWER, ServerFault, Servers, within};

/// The maximum number of skills of one server; further ones are omitted.
const SKILLS_MAX: usize = 256;
/// The maximum number of pages of a list.
const PAGES_MAX: usize = 64;
/// The limits of the extension: files of a skill, and their bytes together.
const FILES_MAX: usize = 512;
const BYTES_MAX: u64 = 16 << 20;
/// The maximum size of a file that is read, in bytes.
const FILE_BYTES: u64 = 1 << 20;

/// A skill of a tool server, as the server listed it.
#[derive(Clone, Debug, PartialEq)]
pub struct ServerSkill {
    /// The server.
    pub server: Arc<str>,
    /// The digest of its address, its front matter and the manifest of its files.
    pub digest: Digest,
    entry: Skill,
}

/// The skills of a server.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct ServerSkills {
    /// The valid skills, in the server's order.
    pub skills: Vec<ServerSkill>,
    /// The reasons why other skills are omitted.
    pub left_out: Vec<String>,
    /// The time for which the list is valid.
    pub fresh: Duration,
}

/// The reason why a file of a skill cannot be read.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum SkillFault {
    /// The server is unavailable, or does not give the file.
    #[error("{0}")]
    Unread(String),
    /// The file is not the one that the server listed.
    #[error("{0}")]
    Changed(String),
}

/// Reads the skills of the configured servers. Clones share the connections.
#[derive(Clone, Debug)]
pub struct SkillReader(pub(crate) Servers);

impl ServerSkill {
    /// Its name, which is not unique at the server.
    pub fn name(&self) -> &str {
        &self.entry.frontmatter.name
    }

    /// Its description, as the server sends it.
    pub fn description(&self) -> &str {
        &self.entry.frontmatter.description
    }

    /// Its front matter, as the server sends it.
    pub fn front_matter(&self) -> Value {
        serde_json::to_value(&self.entry.frontmatter).unwrap_or_default()
    }

    /// Its place at the server: its address without the scheme and without its file.
    pub fn path(&self) -> &str {
        let place = self.root().trim_end_matches('/');
        place.split_once("://").map_or(place, |(_, path)| path)
    }

    /// Its files except `SKILL.md`, by path. Empty if the server lists none.
    pub fn files(&self) -> Vec<&str> {
        let SkillResources::Files(files) = &self.entry.resources else {
            return Vec::new();
        };
        let files = files.iter().filter(|file| file.uri != self.entry.uri);
        let mut paths: Vec<&str> = files
            .filter_map(|file| file.uri.strip_prefix(self.root()))
            .collect();
        paths.sort_unstable();
        paths
    }

    /// The address of its folder, with a slash at its end.
    fn root(&self) -> &str {
        self.entry.uri.strip_suffix(SKILL_MD).unwrap_or_default()
    }

    /// The address of a file, with its size and digest if the server lists them. None: it is not in
    /// the folder.
    fn address(&self, path: &str) -> Option<(String, Option<&SkillResource>)> {
        let uri = format!("{}{path}", self.root());
        match &self.entry.resources {
            SkillResources::Files(files) => {
                let listed = files.iter().find(|file| file.uri == uri)?;
                Some((uri, Some(listed)))
            }
            _ => {
                let plain = |c: char| !matches!(c, '?' | '#' | '%' | '\\') && !c.is_control();
                let mut parts = path.split('/');
                let inside = parts.all(|part| !matches!(part, "" | "." | ".."));
                (inside && path.chars().all(plain)).then_some((uri, None))
            }
        }
    }
}

impl SkillReader {
    /// The skills that a server lists. Starts the server if necessary.
    ///
    /// # Errors
    /// The server is unavailable, or serves no skills.
    pub async fn list(&self, server: &str) -> Result<ServerSkills, ServerFault> {
        let handle = self.0.get(server)?;
        let connection = handle.connect().await?;
        let listing = list(handle, &connection);
        let limit = handle.server.start_timeout;
        let listed = within(limit, "did not list its skills", listing).await;
        listed.map_err(|reason| handle.server.fault(reason))
    }

    /// The text of a file of a skill; without `path`, of its `SKILL.md`.
    ///
    /// # Errors
    /// The file is not in the folder, is too long or no text, or is not the one that was listed.
    pub async fn read(
        &self,
        skill: &ServerSkill,
        path: Option<&str>,
    ) -> Result<String, SkillFault> {
        let unread = |fault: ServerFault| SkillFault::Unread(fault.to_string());
        let path = path.unwrap_or(SKILL_MD);
        let Some((uri, listed)) = skill.address(path) else {
            let (name, server) = (skill.name(), &skill.server);
            let wrong =
                format!("{path:?} is not a file of skill {name:?} of tool server `{server}`");
            return Err(SkillFault::Unread(wrong));
        };
        let too_long = || SkillFault::Unread(format!("{path} is longer than {FILE_BYTES} bytes"));
        if listed.is_some_and(|file| file.size > FILE_BYTES) {
            return Err(too_long());
        }
        let handle = self.0.get(&skill.server).map_err(unread)?;
        let connection = handle.connect().await.map_err(unread)?;
        let reading = bytes(&connection, &uri);
        let bytes = within(handle.server.timeout, NO_ANSWER, reading).await;
        let bytes = bytes.map_err(|reason| unread(handle.server.fault(reason)))?;
        if bytes.len() as u64 > FILE_BYTES {
            return Err(too_long());
        }
        if let Some(file) = listed
            && let Err(wrong) = file.verify(&bytes)
        {
            let reason = format!("gives another file than it listed: {wrong}");
            return Err(SkillFault::Changed(handle.server.fault(reason).to_string()));
        }
        let no_text = |_| SkillFault::Unread(format!("{path} is not a text"));
        String::from_utf8(bytes).map_err(no_text)
    }
}

async fn list(handle: &Handle, connection: &Connection) -> Result<ServerSkills, String> {
    let mut info = connection.peer.peer_info().into_iter();
    if !info.any(|info| info.capabilities.supports_skills()) {
        return Err("serves no skills".to_owned());
    }
    let (mut all, mut cursor) = (ServerSkills::default(), None);
    for _ in 0..PAGES_MAX {
        let page = PaginatedRequestParams::default().with_cursor(cursor);
        let listed = connection.peer.list_skills(Some(page)).await;
        let listed = listed
            .map_err(|error| connection.describe_failure("did not list its skills", &error))?;
        all.fresh = Duration::from_millis(listed.ttl_ms.unwrap_or_default());
        for entry in listed.skills {
            if all.skills.len() == SKILLS_MAX {
                let wrong = format!("{SKILLS_MAX} skills are read, the others are left out");
                all.left_out.push(wrong);
                return Ok(all);
            }
            match check(&entry) {
                Ok(()) if all.skills.iter().any(|known| known.entry.uri == entry.uri) => {}
                Ok(()) => all.skills.push(ServerSkill {
                    server: handle.server.name.clone(),
                    digest: digest(&entry),
                    entry,
                }),
                // Texts of a server may be long.
                Err(wrong) => all.left_out.push(wrong.chars().take(300).collect()),
            }
        }
        cursor = listed.next_cursor;
        if cursor.is_none() {
            break;
        }
    }
    all.left_out.truncate(SKILLS_MAX);
    Ok(all)
}

/// Checks the rules of the extension.
fn check(entry: &Skill) -> Result<(), String> {
    entry.validate().map_err(|wrong| wrong.to_string())?;
    if let SkillResources::Files(files) = &entry.resources {
        let bytes = files
            .iter()
            .fold(0_u64, |sum, file| sum.saturating_add(file.size));
        if files.len() > FILES_MAX || bytes > BYTES_MAX {
            let uri = &entry.uri;
            return Err(format!(
                "skill {uri} has more than {FILES_MAX} files or {BYTES_MAX} bytes"
            ));
        }
    }
    Ok(())
}

fn digest(entry: &Skill) -> Digest {
    let mut hasher = Hasher::new("unisono/server-skill", 1);
    let front_matter = serde_json::to_string(&entry.frontmatter).unwrap_or_default();
    hasher.str(&entry.uri).str(&front_matter);
    if let SkillResources::Files(files) = &entry.resources {
        let mut files: Vec<&SkillResource> = files.iter().collect();
        files.sort_unstable_by(|a, b| a.uri.cmp(&b.uri));
        for file in files {
            hasher.str(&file.uri).str(&file.digest).u64(file.size);
        }
    }
    hasher.finish()
}

async fn bytes(connection: &Connection, uri: &str) -> Result<Vec<u8>, String> {
    let params = ReadResourceRequestParams::new(uri);
    let contents = match connection.peer.read_resource(params).await {
        Ok(read) => read.contents,
        Err(ServiceError::McpError(error)) => {
            return Err(format!("does not give {uri}: {}", error.message));
        }
        Err(error) => return Err(connection.describe_failure("did not answer", &error)),
    };
    let of_file = |content: &ResourceContents| match content {
        ResourceContents::TextResourceContents { uri: own, .. }
        | ResourceContents::BlobResourceContents { uri: own, .. } => own == uri,
        _ => false,
    };
    match contents.into_iter().find(of_file) {
        Some(ResourceContents::TextResourceContents { text, .. }) => Ok(text.into_bytes()),
        Some(ResourceContents::BlobResourceContents { blob, .. }) => {
            let wrong = || format!("returns {uri} in invalid base64");
            decode_base64(&blob).ok_or_else(wrong)
        }
        _ => Err(format!("gives no content for {uri}")),
    }
}

#[cfg(test)]
mod tests {
    //! Addresses inside a skill's folder, and entries that are left out.

    use serde_json::json;

    use super::*;

    fn skill(resources: Value) -> ServerSkill {
        let entry = json!({"uri": "skill://a/b/refunds/SKILL.md", "resources": resources,
            "frontmatter": {"name": "refunds", "description": "Pays back."}});
        let entry: Skill = serde_json::from_value(entry).unwrap();
        ServerSkill {
            server: "docs".into(),
            digest: digest(&entry),
            entry,
        }
    }

    fn file(path: &str, size: u64) -> Value {
        let digest = format!("sha256:{}", "0".repeat(64));
        json!({"uri": format!("skill://a/b/refunds/{path}"), "digest": digest, "size": size})
    }

    #[test]
    fn a_file_is_one_of_the_manifest_or_below_the_folder() {
        let listed = skill(json!([file("SKILL.md", 1), file("notes/a.md", 1)]));
        assert_eq!(listed.path(), "a/b/refunds");
        assert_eq!(listed.files(), ["notes/a.md"]);
        let dynamic = skill(json!("dynamic"));
        for (path, of_manifest, below) in [
            ("SKILL.md", true, true),
            ("notes/a.md", true, true),
            ("notes/b.md", false, true),
            ("../other/SKILL.md", false, false),
            ("notes/../../x", false, false),
            ("/etc/passwd", false, false),
            ("notes/%2e%2e/x", false, false),
            ("a?b", false, false),
            ("", false, false),
        ] {
            assert_eq!(listed.address(path).is_some(), of_manifest, "{path}");
            assert_eq!(dynamic.address(path).is_some(), below, "{path}");
        }
    }

    #[test]
    fn an_entry_that_breaks_a_rule_is_left_out() {
        let whole = || file("SKILL.md", 1);
        let mut many = vec![whole()];
        many.extend((0..FILES_MAX).map(|n| file(&format!("{n}.md"), 1)));
        for (resources, says) in rows! {
            (json!([]), "SKILL.md"),
            (json!([whole(), whole()]), "twice"),
            (json!([whole(), file("../x.md", 1)]), "within"),
            (json!([whole(), file("big.md", BYTES_MAX)]), "16777216 bytes"),
            (json!(many), "512 files"),
        } {
            let wrong = check(&skill(resources).entry).unwrap_err();
            assert!(wrong.contains(says), "{wrong}");
        }
        assert_eq!(check(&skill(json!([whole()])).entry), Ok(()));
        assert_eq!(check(&skill(json!("dynamic")).entry), Ok(()));
    }

    #[test]
    fn the_digest_follows_every_file() {
        let one = skill(json!([file("SKILL.md", 1), file("a.md", 1)])).digest;
        let turned = skill(json!([file("a.md", 1), file("SKILL.md", 1)])).digest;
        let other = skill(json!([file("SKILL.md", 1), file("a.md", 2)])).digest;
        assert_eq!(one, turned);
        assert_ne!(one, other);
        assert_ne!(one, skill(json!("dynamic")).digest);
    }
}
