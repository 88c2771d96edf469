//! The calls, one for each route that a client of this kind uses.

use reqwest::{Method, StatusCode, header};

use crate::{Client, Error};
use unisono_api::Page;
use unisono_api::journal::{EventBlock, Info};
use unisono_api::session::Session;

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
