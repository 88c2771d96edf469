//! The calls, one for each route that a client of this kind uses.

use reqwest::{Method, StatusCode, header};

use crate::{Client, Error};
use unisono_api::Page;
use unisono_api::agent::{Agent, Reload, Whom};
use unisono_api::compaction::{CheckpointDetail, Estimate, NewCompaction};
use unisono_api::context::Context;
use unisono_api::journal::{EventBlock, Info};
use unisono_api::pin::Pins;
use unisono_api::session::Session;
use unisono_api::settings::{Changes, Setting};
use unisono_api::topic::{Seal, Topic};

/// What is in a file.
#[derive(Debug)]
pub enum Content {
    /// Bytes in memory.
    Bytes(Vec<u8>),
    /// A file, from where it stands; it is sent as it is read.
    File(std::fs::File),
}

impl Content {
    /// The same as a body, with its length.
    fn body(self) -> std::io::Result<(u64, reqwest::Body)> {
        Ok(match self {
            Content::Bytes(bytes) => (bytes.len() as u64, bytes.into()),
            Content::File(file) => (
                file.metadata()?.len(),
                tokio::fs::File::from_std(file).into(),
            ),
        })
    }
}

/// A conversation as it stands in a file.
#[derive(Debug)]
pub struct File<'f> {
    /// What it is called.
    pub name: &'f str,
    /// `unisono`, `openai` or `sharegpt`; none: that is recognised.
    pub format: Option<&'f str>,
    /// Whether bad lines are left out.
    pub skip_bad: bool,
    /// Whether it becomes another session where it says which one it is.
    pub copy: bool,
    /// What is in it.
    pub content: Content,
}

impl Client {
    /// Makes a session of a conversation as it stands in a file.
    ///
    /// # Errors
    /// The conversation is refused, the file cannot be read, or the daemon cannot be reached.
    pub async fn import(&self, file: File<'_>) -> Result<Session, Error> {
        let mut query = vec![
            ("name", file.name.to_owned()),
            ("skip_bad", file.skip_bad.to_string()),
            ("copy", file.copy.to_string()),
        ];
        query.extend(file.format.map(|format| ("format", format.to_owned())));
        let request = self.request(Method::POST, "/v1/imports").query(&query);
        let request = request.header(header::CONTENT_TYPE, "application/octet-stream");
        let (length, body) = file.content.body().map_err(|error| Error::Unreadable {
            name: file.name.to_owned(),
            reason: error.to_string(),
        })?;
        let request = request.header(header::CONTENT_LENGTH, length);
        self.json(request.body(body)).await
    }

    /// Whether it can work; otherwise, what it lacks.
    ///
    /// # Errors
    /// The daemon cannot be reached.
    pub async fn ready(&self) -> Result<Result<(), String>, Error> {
        match self.send(self.request(Method::GET, "/readyz")).await {
            Ok(_) => Ok(Ok(())),
            Err(Error::Problem(problem)) => Ok(Err(problem.detail)),
            Err(error) => Err(error),
        }
    }

    /// What a compaction would do.
    ///
    /// # Errors
    /// It is refused, or the daemon cannot be reached.
    pub async fn estimate(&self, session: &str, new: &NewCompaction) -> Result<Estimate, Error> {
        let path = format!("/v1/sessions/{session}/compactions/dry-run");
        self.json(self.post(&path, new)).await
    }

    /// What is seen of a branch, for a lead with its agents: those that are configured there where
    /// none are named. `exact`: the provider of the lead's model is asked as well how many tokens it
    /// has.
    ///
    /// # Errors
    /// As of any call.
    pub async fn context(
        &self,
        session: &str,
        branch: &str,
        whom: &Whom,
        exact: bool,
    ) -> Result<Context, Error> {
        let path = format!("/v1/sessions/{session}/context");
        let request = self.request(Method::GET, &path);
        let request = request.query(&[("branch", branch)]);
        let request = request.query(&whom.query());
        self.json(request.query(&[("exact", exact)])).await
    }

    /// All agents there, and the part each would take in what is asked of that lead with these:
    /// those that are configured there where none are named.
    ///
    /// # Errors
    /// One that is named is unknown there, or as of any call.
    pub async fn agents(&self, whom: &Whom) -> Result<Vec<Agent>, Error> {
        let request = self.request(Method::GET, "/v1/agents");
        let request = request.query(&[("session", whom.session.as_deref())]);
        self.json(request.query(&whom.query())).await
    }

    /// A checkpoint with all that is known of it, as it stands on a branch.
    ///
    /// # Errors
    /// There is none of that number, or the daemon cannot be reached.
    pub async fn checkpoint(
        &self,
        session: &str,
        number: u32,
        branch: &str,
    ) -> Result<CheckpointDetail, Error> {
        let path = format!("/v1/sessions/{session}/checkpoints/{number}");
        let request = self.request(Method::GET, &path);
        self.json(request.query(&[("branch", branch)])).await
    }

    /// Changes settings for turns that begin later, and says which there are now.
    ///
    /// # Errors
    /// One cannot be changed, a value is wrong, or the daemon cannot be reached.
    pub async fn change_settings(&self, changes: &Changes) -> Result<Vec<Setting>, Error> {
        let text = serde_json::to_string(changes).unwrap_or_default();
        let request = self.request(Method::PATCH, "/v1/settings");
        let request = request.header(header::CONTENT_TYPE, "application/json");
        self.json(request.body(text)).await
    }

    /// Every setting as it counts for a session.
    ///
    /// # Errors
    /// There is no such session, or the daemon cannot be reached.
    pub async fn own_settings(&self, session: &str) -> Result<Vec<Setting>, Error> {
        let path = format!("/v1/sessions/{session}/settings");
        self.json(self.request(Method::GET, &path)).await
    }

    /// Changes settings of a session, for turns that begin after it.
    ///
    /// # Errors
    /// One cannot be changed, a value is wrong, or the daemon cannot be reached.
    pub async fn change_own_settings(
        &self,
        session: &str,
        changes: &Changes,
    ) -> Result<Vec<Setting>, Error> {
        let text = serde_json::to_string(changes).unwrap_or_default();
        let request = self.request(Method::PATCH, &format!("/v1/sessions/{session}/settings"));
        let request = request.header(header::CONTENT_TYPE, "application/json");
        self.json(request.body(text)).await
    }

    /// Has the definitions of all agents read again.
    ///
    /// # Errors
    /// One is wrong: all stay as they were; or the daemon cannot be reached.
    pub async fn reload_agents(&self) -> Result<Reload, Error> {
        self.json(self.request(Method::POST, "/v1/agents/reload"))
            .await
    }

    /// Lets the current topic of a branch end, and says which one that was.
    ///
    /// # Errors
    /// There is none to end, or the daemon cannot be reached.
    pub async fn seal(&self, session: &str, branch: &str) -> Result<Topic, Error> {
        let path = format!("/v1/sessions/{session}/topics/seal");
        let branch = branch.to_owned();
        self.json(self.post(&path, &Seal { branch })).await
    }

    /// Pins a message of a branch, or takes its pin away.
    ///
    /// # Errors
    /// It is not on the branch, or the daemon cannot be reached.
    pub async fn pin(
        &self,
        session: &str,
        branch: &str,
        message: &str,
        pinned: bool,
    ) -> Result<Pins, Error> {
        let method = if pinned { Method::PUT } else { Method::DELETE };
        let request = self.request(method, &format!("/v1/sessions/{session}/pins/{message}"));
        self.json(request.query(&[("branch", branch)])).await
    }

    /// What the store knows of its sessions, those after one of them.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
    pub async fn journal_sessions(
        &self,
        after: Option<&str>,
        limit: usize,
    ) -> Result<Page<Info>, Error> {
        let mut query = vec![("limit", limit.to_string())];
        query.extend(after.map(|after| ("cursor", after.to_owned())));
        self.json(self.request(Method::GET, "/v1/journal").query(&query))
            .await
    }

    /// What the store knows of a session; none: there is none of that id.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
    pub async fn journal_session(&self, session: &str) -> Result<Option<Info>, Error> {
        let request = self.request(Method::GET, &format!("/v1/journal/{session}"));
        match self.json(request).await {
            Ok(info) => Ok(Some(info)),
            Err(Error::Problem(problem)) if problem.status == StatusCode::NOT_FOUND.as_u16() => {
                Ok(None)
            }
            Err(error) => Err(error),
        }
    }

    /// The events of a session as they are on disk.
    ///
    /// # Errors
    /// The daemon cannot be reached, or refuses.
    pub async fn journal_events(
        &self,
        session: &str,
        from: u64,
        limit: usize,
    ) -> Result<EventBlock, Error> {
        let request = self.request(Method::GET, &format!("/v1/journal/{session}/events"));
        let request = request.query(&[("from", from), ("limit", limit as u64)]);
        let bytes = self
            .send(request)
            .await?
            .bytes()
            .await
            .map_err(|error| self.broken(&error))?;
        EventBlock::read(&bytes).ok_or_else(|| Error::Answer {
            url: self.url.clone(),
            reason: "events that are cut off".to_owned(),
        })
    }
}
