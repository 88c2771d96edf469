//! Attachments of clients: checks them, and reads them from the store by digest.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unisono_api::Code;
use unisono_api::blob::Blob;
use unisono_api::message::Part as ApiPart;
use unisono_api::turn::NewAttachment;
use unisono_context::attachment::Files;
use unisono_context::{Digest, Part};
use unisono_model::client::Download;
use unisono_model::media::{self, Kind};
use unisono_runtime::attachments as storing;
use unisono_runtime::{AttachmentLimits, Handle};

use crate::Local;
use crate::ask::Ask;
use crate::error::Error;
use crate::values;

/// The name of an attachment without one.
const UNNAMED: &str = "attachment";
/// Maximum number of characters in a name.
const NAME_CHARS: usize = 255;
/// Maximum number of addresses that are read for one request.
pub const MAX_ADDRESSES: usize = 16;

/// Why an attachment is refused.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AttachmentError {
    /// It has content in more than one way.
    #[error(
        "attachment {0:?} has more than one of `data`, `digest` and `url`: send only one of them"
    )]
    Several(String),
    /// It has no content.
    #[error("attachment {0:?} has no content: it needs `data`, `digest` or `url`")]
    Nothing(String),
    /// Its address is refused, or returned no file.
    #[error("attachment {name:?}: its address {why}")]
    Address {
        /// Its name.
        name: String,
        /// The reason.
        why: String,
    },
    /// A request has too many addresses.
    #[error("a request has at most {MAX_ADDRESSES} attachments with an address")]
    Addresses,
    /// Its data are not base64.
    #[error("the data of attachment {0:?} are not base64")]
    Base64(String),
    /// Its bytes are not a valid file.
    #[error("attachment {name:?}: {error}")]
    File {
        /// Its name.
        name: String,
        /// The reason.
        error: media::Error,
    },
    /// The store has no content with its digest.
    #[error("the store has no attachment with the digest {0:?}: upload it first (POST /v1/blobs)")]
    Missing(String),
    /// Its name is too long or has control characters.
    #[error(
        "the name of an attachment is not valid: use 1 to {NAME_CHARS} characters without control \
         characters"
    )]
    Name,
}

impl From<AttachmentError> for Error {
    fn from(error: AttachmentError) -> Error {
        let code = match &error {
            AttachmentError::File {
                error: media::Error::TooLarge { .. },
                ..
            } => Code::TooLarge,
            AttachmentError::Missing(_) => Code::NotFound,
            _ => Code::InvalidRequest,
        };
        Error::new(code, error.to_string())
    }
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct NewContent<'g> {
    pub(crate) filename: &'g str,
    pub(crate) mime: &'g str,
    pub(crate) data: Option<&'g str>,
    pub(crate) digest: Option<&'g str>,
    pub(crate) url: Option<&'g str>,
}

impl<'g> NewContent<'g> {
    /// The attachment of a message part, if it has content.
    pub(crate) fn of_part(part: &'g ApiPart) -> Option<NewContent<'g>> {
        match part {
            ApiPart::Attachment {
                filename,
                mime,
                data,
                digest,
                url,
                ..
            } if data.is_some() || digest.is_some() || url.is_some() => Some(NewContent {
                filename,
                mime,
                data: data.as_deref(),
                digest: digest.as_deref(),
                url: url.as_deref(),
            }),
            _ => None,
        }
    }

    pub(crate) fn of_task(new: &'g NewAttachment) -> NewContent<'g> {
        NewContent {
            filename: &new.filename,
            mime: &new.mime,
            data: new.data.as_deref(),
            digest: new.digest.as_deref(),
            url: new.url.as_deref(),
        }
    }

    fn check_ways(&self) -> Result<(), AttachmentError> {
        let ways = [self.data, self.digest, self.url];
        match ways.iter().flatten().count() {
            0 => Err(AttachmentError::Nothing(self.filename.to_owned())),
            1 => Ok(()),
            _ => Err(AttachmentError::Several(self.filename.to_owned())),
        }
    }

    /// Makes the message part. `files` has the contents for its digest. `max_bytes` limits its size.
    ///
    /// # Errors
    /// Why it is refused.
    pub(crate) fn part(&self, files: &Files, max_bytes: u64) -> Result<Part, AttachmentError> {
        let name = || self.filename.to_owned();
        let bytes: Arc<[u8]> = match self.data {
            Some(data) => {
                let decoded = media::decode_base64(data);
                decoded
                    .ok_or_else(|| AttachmentError::Base64(name()))?
                    .into()
            }
            None => {
                let digest = self.digest.unwrap_or_default();
                let parsed = digest.parse::<Digest>().ok();
                let known = parsed.and_then(|digest| files.get(&digest));
                known
                    .ok_or_else(|| AttachmentError::Missing(digest.to_owned()))?
                    .clone()
            }
        };
        part(self.filename, Some(self.mime), bytes, max_bytes)
    }
}

/// Checks bytes and makes a message part of them.
///
/// # Errors
/// Why they are refused.
pub fn part(
    filename: &str,
    mime: Option<&str>,
    bytes: Arc<[u8]>,
    max_bytes: u64,
) -> Result<Part, AttachmentError> {
    let max_bytes = usize::try_from(max_bytes).unwrap_or(usize::MAX);
    let filename = match filename.trim() {
        "" => UNNAMED,
        name => name.rsplit(['/', '\\']).next().unwrap_or(UNNAMED),
    };
    if filename.chars().count() > NAME_CHARS || filename.contains(char::is_control) {
        return Err(AttachmentError::Name);
    }
    let size_bytes = bytes.len() as u64;
    let checked = media::check(bytes, mime, max_bytes);
    let (kind, content) = checked.map_err(|error| AttachmentError::File {
        name: filename.to_owned(),
        error,
    })?;
    Ok(Part::Attachment {
        filename: filename.into(),
        mime: kind.mime().into(),
        size_bytes,
        content: Some(content),
    })
}

/// An attachment in memory as a part of a request; `None` for any other part.
pub fn in_request(part: &Part) -> Option<ApiPart> {
    let Part::Attachment {
        filename,
        mime,
        size_bytes,
        content: Some(content),
    } = part
    else {
        return None;
    };
    let bytes = content.loaded.0.as_ref()?;
    Some(ApiPart::Attachment {
        filename: filename.to_string(),
        mime: mime.to_string(),
        size_bytes: *size_bytes,
        digest: None,
        url: None,
        data: Some(STANDARD.encode(bytes)),
        extent: values::extent(content.extent),
    })
}

/// An attachment in memory as an attachment of a requested task; `None` for any other part.
pub fn in_task(part: &Part) -> Option<NewAttachment> {
    let (filename, mime, content) = part.file()?;
    let bytes = content.loaded.0.as_ref()?;
    Some(NewAttachment {
        filename: filename.to_string(),
        mime: mime.to_string(),
        data: Some(STANDARD.encode(bytes)),
        ..NewAttachment::default()
    })
}

impl Local {
    pub(crate) fn attachment_limits(&self) -> AttachmentLimits {
        self.setup().loaded.config.attachments.limits()
    }

    /// Makes the message parts of attachments, with the contents for their digests.
    ///
    /// # Errors
    /// One is refused, or the store fails.
    pub(crate) async fn attachment_parts(
        &self,
        contents: Vec<NewContent<'_>>,
    ) -> Result<Vec<Part>, Error> {
        let limits = self.attachment_limits();
        let (mut parts, mut bytes) = (Vec::new(), 0_u64);
        if contents.iter().filter(|new| new.url.is_some()).count() > MAX_ADDRESSES {
            return Err(AttachmentError::Addresses.into());
        }
        for contents in contents {
            contents.check_ways()?;
            if let Some(url) = contents.url {
                parts.push(self.read_address(contents.filename, url).await?);
                continue;
            }
            let mut files = Files::default();
            let digest = contents
                .digest
                .and_then(|digest| digest.parse::<Digest>().ok());
            if let Some(digest) = digest
                && let Some(bytes) = self.journal().blob(digest).await?
            {
                files.insert(digest, bytes);
            }
            let part = contents.part(&files, limits.each)?;
            // A small request can name a large file very often, and the digest of each is computed.
            bytes = bytes.saturating_add(part.kept_bytes());
            if bytes > limits.session {
                let (what, most) = ("the session with its attachments", limits.session);
                let too_much = storing::Error::TooMuch { what, bytes, most };
                return Err(unisono_runtime::Error::from(too_much).into());
            }
            parts.push(part);
        }
        Ok(parts)
    }

    /// Adds attachments to a task for a session. A repeated request gets none: its turn has them, and
    /// an address may have no content any more.
    ///
    /// # Errors
    /// One is refused, the key was used with another request, or the store fails.
    pub async fn with_attachments(
        &self,
        session: &Handle,
        ask: Ask,
        new: &[NewAttachment],
    ) -> Result<Ask, Error> {
        if new.is_empty() {
            return Ok(ask);
        }
        if let Some(key) = ask.key()
            && session.turn_by_key(key).await?.is_some()
        {
            return Ok(ask);
        }
        let contents = new.iter().map(NewContent::of_task).collect();
        Ok(ask.with_attachments(self.attachment_parts(contents).await?))
    }

    /// Downloads an attachment. Its content decides its type.
    ///
    /// # Errors
    /// The address is refused, or it returns no valid file.
    pub async fn read_address(&self, filename: &str, url: &str) -> Result<Part, AttachmentError> {
        let setup = self.setup();
        let settings = &setup.loaded.config.attachments;
        let wrong = |name: &str, why: String| AttachmentError::Address {
            name: name.to_owned(),
            why,
        };
        let download = Download::new(url, &settings.allowed_hosts);
        let download = download.map_err(|why| wrong(filename, why))?;
        let filename = match filename.trim() {
            "" => download.filename().unwrap_or(UNNAMED),
            name => name,
        };
        let most = settings.max_bytes;
        let read = download
            .read(usize::try_from(most).unwrap_or(usize::MAX))
            .await;
        let bytes = read.map_err(|error| wrong(filename, format!("gave no file: {error}")))?;
        part(filename, None, bytes.into(), most)
    }

    /// Whether a request may name this address instead of sending the content.
    pub fn may_read_address(&self, url: &str) -> bool {
        let setup = self.setup();
        Download::new(url, &setup.loaded.config.attachments.allowed_hosts).is_ok()
    }

    /// Stores a file. It is deleted after an hour without a reference by a message.
    ///
    /// # Errors
    /// It is refused, or the store fails.
    pub(crate) async fn upload(&self, bytes: Vec<u8>, mime: Option<&str>) -> Result<Blob, Error> {
        let limits = self.attachment_limits();
        let bytes: Arc<[u8]> = bytes.into();
        let part = part(UNNAMED, mime, bytes.clone(), limits.each)?;
        let stored = self.journal().stored_blobs().await?.bytes;
        let is_full = stored.saturating_add(bytes.len() as u64) > limits.store;
        let known = self.journal().blob(Digest::of_bytes(&bytes));
        // A file that the store has takes no more room.
        if is_full && known.await?.is_none() {
            let detail = "the attachments in the store have reached their limit; delete sessions, or raise \
                          `attachments.store_bytes`";
            return Err(Error::new(Code::TooLarge, detail));
        }
        let digest = self.journal().put_blob(&bytes, None).await?;
        let Some((_, mime, content)) = part.file() else {
            return Err(Error::new(Code::Failed, "the file has no content"));
        };
        Ok(Blob {
            digest: digest.to_string(),
            mime: mime.to_string(),
            size_bytes: bytes.len() as u64,
            extent: values::extent(content.extent),
        })
    }

    /// Reads a content with its type.
    ///
    /// # Errors
    /// It does not exist or is damaged, or the store fails.
    pub(crate) async fn content(&self, digest: &str) -> Result<(Kind, Arc<[u8]>), Error> {
        let missing = || Error::not_found("attachment", digest);
        let parsed = digest.parse::<Digest>().map_err(|_| missing())?;
        let bytes = self.journal().blob(parsed).await?.ok_or_else(missing)?;
        let kind = Kind::of_bytes(&bytes).ok_or_else(missing)?;
        Ok((kind, bytes))
    }
}

#[cfg(test)]
mod tests {
    use unisono_api::service::Messages as _;

    use super::*;
    use crate::fixture;

    /// An image of one pixel.
    const GIF: &[u8] = b"GIF89a\x01\0\x01\0\0\0\0\x2c\0\0\0\0\x01\0\x01\0\0\x02\0\x3b";

    #[tokio::test]
    async fn all_readers_of_a_content_share_its_bytes() {
        let local = fixture::local([]).await;
        let content: Arc<[u8]> = GIF.into();
        let digest = local.journal().put_blob(&content, None).await;
        let digest = digest.unwrap().to_string();
        drop(content);
        let (one, other) = (local.blob(&digest).await, local.blob(&digest).await);
        let (one, other) = (one.unwrap().bytes, other.unwrap().bytes);
        assert_eq!((&*one, one.as_ptr()), (GIF, other.as_ptr()));
        local.shutdown().await;
    }

    #[tokio::test]
    async fn a_request_names_no_more_bytes_than_a_session_may_have() {
        let local = fixture::local([("attachments.session_bytes", "4096")]).await;
        let content: Arc<[u8]> = GIF.into();
        let digest = local.journal().put_blob(&content, None).await;
        let digest = digest.unwrap().to_string();
        let named = |digest| NewContent {
            filename: "a.gif",
            mime: "",
            data: None,
            digest: Some(digest),
            url: None,
        };
        let few = vec![named(&*digest); 2];
        assert_eq!(local.attachment_parts(few).await.unwrap().len(), 2);
        // The rest of them is not read.
        let mut many = vec![named(&*digest); 200];
        many.push(named("of no content"));
        let error = local.attachment_parts(many).await.unwrap_err();
        assert_eq!(error.code(), Code::TooLarge);
        local.shutdown().await;
    }
}
