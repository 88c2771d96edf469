//! Sessions.

use std::io::{self, Seek as _};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::stream;
use reqwest::{Body, Method, Response, header};
use serde::de::DeserializeOwned;
use unisono_api::Page;
use unisono_api::service::{FileParts, Result, Sessions};
use unisono_api::session::{
    Content, ConversationImport, ExportQuery, FileConversation, ImportFile, ImportResult,
    NewSession, Session, SessionListItem, SessionQuery,
};

use crate::{Client, Error, resource_path};

#[async_trait]
impl Sessions for Client {
    async fn sessions(&self, query: &SessionQuery) -> Result<Page<SessionListItem>> {
        self.get_with("/v1/sessions", query).await
    }

    async fn session(&self, session: &str) -> Result<Session> {
        self.get(&resource_path(["sessions", session])).await
    }

    async fn create_session(&self, new: NewSession) -> Result<Session> {
        self.json(self.post("/v1/sessions", &new)).await
    }

    async fn import_file(&self, file: ImportFile) -> Result<ImportResult> {
        let pick = file.pick.clone().map(|pick| ("pick", pick));
        let copy = ("copy", file.copy.to_string());
        self.send_file("/v1/imports", file, pick.into_iter().chain([copy]))
            .await
    }

    async fn conversations(&self, file: ImportFile) -> Result<Vec<FileConversation>> {
        let all: Page<FileConversation> = self.send_file("/v1/imports/dry-run", file, []).await?;
        Ok(all.items)
    }

    async fn import_conversations(
        &self,
        file: ImportFile,
        picks: &[String],
    ) -> Result<Vec<ConversationImport>> {
        let picks = ("picks", picks.join(","));
        let copy = ("copy", file.copy.to_string());
        let all: Page<ConversationImport> = self
            .send_file("/v1/imports/conversations", file, [picks, copy])
            .await?;
        Ok(all.items)
    }

    async fn export(&self, session: &str, query: &ExportQuery) -> Result<FileParts> {
        let path = resource_path(["sessions", session, "export"]);
        let request = self.request(Method::GET, &path).query(query);
        let response = self.send(request).await?;
        Ok(Box::pin(stream::try_unfold((self.clone(), response), part)))
    }

    async fn delete_session(&self, session: &str, purge: bool) -> Result<()> {
        let request = self.request(Method::DELETE, &resource_path(["sessions", session]));
        self.send(request.query(&[("purge", purge)])).await?;
        Ok(())
    }
}

/// The next part of a response, and the rest; none at its end.
async fn part(
    (client, mut response): (Client, Response),
) -> Result<Option<(Bytes, (Client, Response))>> {
    let part = response.chunk().await;
    let part = part.map_err(|error| client.broken(&error))?;
    Ok(part.map(|part| (part, (client, response))))
}

impl Client {
    /// Sends a file, with these parameters beside its name and format.
    async fn send_file<T: DeserializeOwned>(
        &self,
        path: &str,
        file: ImportFile,
        parameters: impl IntoIterator<Item = (&'static str, String)>,
    ) -> Result<T> {
        let mut query = vec![
            ("name", file.name.clone()),
            ("skip_bad", file.skip_bad.to_string()),
        ];
        query.extend(file.format.map(|format| ("format", format)));
        query.extend(parameters);
        let request = self.request(Method::POST, path).query(&query);
        let request = request.header(header::CONTENT_TYPE, "application/octet-stream");
        let (length, body) = body(file.content).map_err(|error| Error::Unreadable {
            name: file.name,
            reason: error.to_string(),
        })?;
        let request = request.header(header::CONTENT_LENGTH, length);
        self.json(request.body(body)).await
    }
}

/// The content of a file as a body, with its length.
fn body(content: Content) -> io::Result<(u64, Body)> {
    Ok(match content {
        Content::Bytes(bytes) => (bytes.len() as u64, bytes.into()),
        Content::File(mut file) => {
            file.rewind()?;
            let length = file.metadata()?.len();
            (length, tokio::fs::File::from_std(file).into())
        }
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_sent_from_its_start() {
        let path = std::env::temp_dir().join(format!("unisono-client-{}", std::process::id()));
        std::fs::write(&path, "user: Hello.").unwrap();
        let file = std::fs::File::open(&path).unwrap();
        let mut same = file.try_clone().unwrap();
        same.seek(io::SeekFrom::End(0)).unwrap();
        let (length, _) = body(Content::File(file)).unwrap();
        assert_eq!((length, same.stream_position().unwrap()), (12, 0));
        std::fs::remove_file(&path).unwrap();
    }
}
