//! Attachments of clients: checked, and read from the store where a client names one by its digest.

use std::sync::Arc;

use base64::Engine as _;
use base64::engine::general_purpose::STANDARD;
use unisono_api::Code;
use unisono_api::blob::{Blob, Extent as ApiExtent};
use unisono_api::message::Part as ApiPart;
use unisono_api::turn::NewAttachment;
use unisono_context::attachment::{Extent, Files};
use unisono_context::{Digest, Part};
use unisono_model::client::Download;
use unisono_model::media::{self, Kind};
use unisono_runtime::AttachmentLimits;

use crate::Local;
use crate::ask::Ask;
use crate::error::Error;

/// The name of an attachment that has none.
const UNNAMED: &str = "attachment";
/// Characters of a name, at most.
const NAME_CHARS: usize = 255;
/// Addresses that are read for one request, at most.
pub const MOST_ADDRESSES: usize = 16;

/// Why an attachment is not taken.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Wrong {
    /// It has content in more than one way.
    #[error("attachment {0:?} has one of `data`, `digest` and `url`")]
    Several(String),
    /// Its address may not be read, or gave no file.
    #[error("attachment {name:?}: its address {why}")]
    Address {
        /// Its name.
        name: String,
        /// Why not.
        why: String,
    },
    /// A request has too many addresses.
    #[error("a request has at most {MOST_ADDRESSES} attachments with an address")]
    Addresses,
    /// It is not base64.
    #[error("the data of attachment {0:?} are not base64")]
    Base64(String),
    /// Its bytes are not taken.
    #[error("attachment {name:?}: {error}")]
    File {
        /// Its name.
        name: String,
        /// Why not.
        error: media::Error,
    },
    /// It names a content that is not there.
    #[error("there is no attachment with the digest {0:?}: upload it first (POST /v1/blobs)")]
    Missing(String),
    /// Its name is no name of a file.
    #[error(
        "the name of an attachment has 1 to {NAME_CHARS} characters, none of which is a control"
    )]
    Name,
}

impl From<Wrong> for Error {
    fn from(wrong: Wrong) -> Error {
        let code = match &wrong {
            Wrong::File {
                error: media::Error::TooLarge { .. },
                ..
            } => Code::TooLarge,
            Wrong::Missing(_) => Code::NotFound,
            _ => Code::InvalidRequest,
        };
        Error::new(code, wrong.to_string())
    }
}

/// An attachment as a client gives it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Given<'g> {
    pub(crate) filename: &'g str,
    pub(crate) mime: &'g str,
    pub(crate) data: Option<&'g str>,
    pub(crate) digest: Option<&'g str>,
    pub(crate) url: Option<&'g str>,
}

impl<'g> Given<'g> {
    /// The attachment of a message's part, if its content is to be kept.
    pub(crate) fn of_part(part: &'g ApiPart) -> Option<Given<'g>> {
        match part {
            ApiPart::Attachment {
                filename,
                mime,
                data,
                digest,
                url,
                ..
            } if data.is_some() || digest.is_some() || url.is_some() => Some(Given {
                filename,
                mime,
                data: data.as_deref(),
                digest: digest.as_deref(),
                url: url.as_deref(),
            }),
            _ => None,
        }
    }

    /// One of a task.
    pub(crate) fn of_task(new: &'g NewAttachment) -> Given<'g> {
        Given {
            filename: &new.filename,
            mime: &new.mime,
            data: new.data.as_deref(),
            digest: new.digest.as_deref(),
            url: new.url.as_deref(),
        }
    }

    /// Checks that it has its content in one way.
    fn check_ways(&self) -> Result<(), Wrong> {
        let ways = [self.data, self.digest, self.url];
        match ways.iter().flatten().count() {
            0 | 1 => Ok(()),
            _ => Err(Wrong::Several(self.filename.to_owned())),
        }
    }

    /// The part of a message. `files` has the contents that are named, up to `most` bytes are taken.
    ///
    /// # Errors
    /// Why it is not taken.
    pub(crate) fn part(&self, files: &Files, most: u64) -> Result<Part, Wrong> {
        let name = || self.filename.to_owned();
        let bytes: Arc<[u8]> = match self.data {
            Some(data) => {
                let decoded = STANDARD.decode(data.trim());
                decoded.map_err(|_| Wrong::Base64(name()))?.into()
            }
            None => {
                let digest = self.digest.unwrap_or_default();
                let parsed = digest.parse::<Digest>().ok();
                let known = parsed.and_then(|digest| files.get(&digest));
                known
                    .ok_or_else(|| Wrong::Missing(digest.to_owned()))?
                    .clone()
            }
        };
        part(self.filename, Some(self.mime), bytes, most)
    }
}

/// Checks bytes, and makes the part of a message of them.
///
/// # Errors
/// Why they are not taken.
pub fn part(
    filename: &str,
    mime: Option<&str>,
    bytes: Arc<[u8]>,
    most: u64,
) -> Result<Part, Wrong> {
    let most = usize::try_from(most).unwrap_or(usize::MAX);
    let filename = match filename.trim() {
        "" => UNNAMED,
        name => name.rsplit(['/', '\\']).next().unwrap_or(UNNAMED),
    };
    if filename.chars().count() > NAME_CHARS || filename.contains(char::is_control) {
        return Err(Wrong::Name);
    }
    let size_bytes = bytes.len() as u64;
    let checked = media::check(bytes, mime, most);
    let (kind, content) = checked.map_err(|error| Wrong::File {
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

/// An attachment whose bytes are here, as a part of a request; none for any other part.
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
    let bytes = content.held.0.as_ref()?;
    Some(ApiPart::Attachment {
        filename: filename.to_string(),
        mime: mime.to_string(),
        size_bytes: *size_bytes,
        digest: None,
        url: None,
        data: Some(STANDARD.encode(bytes)),
        extent: extent(content.extent),
    })
}

/// How large a content is to a model, for programs.
pub(crate) fn extent(extent: Extent) -> ApiExtent {
    match extent {
        Extent::Pixels { width, height } => ApiExtent {
            width: Some(width),
            height: Some(height),
            pages: None,
        },
        Extent::Pages(pages) => ApiExtent {
            width: None,
            height: None,
            pages: Some(pages),
        },
    }
}

impl Local {
    /// How much may be attached, by the settings.
    pub(crate) fn attachment_limits(&self) -> AttachmentLimits {
        self.setup().loaded.config.attachments.limits()
    }

    /// The parts of messages that these are, with the contents that they name.
    ///
    /// # Errors
    /// One is not taken, or the store failed.
    pub(crate) async fn attached(&self, given: Vec<Given<'_>>) -> Result<Vec<Part>, Error> {
        let most = self.attachment_limits().each;
        let mut parts = Vec::new();
        if given.iter().filter(|given| given.url.is_some()).count() > MOST_ADDRESSES {
            return Err(Wrong::Addresses.into());
        }
        for given in given {
            given.check_ways()?;
            if let Some(url) = given.url {
                parts.push(self.read_address(given.filename, url).await?);
                continue;
            }
            let mut files = Files::default();
            let digest = given
                .digest
                .and_then(|digest| digest.parse::<Digest>().ok());
            if let Some(digest) = digest
                && let Some(bytes) = self.journal().blob(digest).await?
            {
                files.insert(digest, bytes);
            }
            parts.push(given.part(&files, most)?);
        }
        Ok(parts)
    }

    /// The task with its attachments.
    ///
    /// # Errors
    /// One is not taken, or the store failed.
    pub async fn attaching(&self, ask: Ask, new: &[NewAttachment]) -> Result<Ask, Error> {
        if new.is_empty() {
            return Ok(ask);
        }
        let given = new.iter().map(Given::of_task).collect();
        Ok(ask.attaching(self.attached(given).await?))
    }

    /// Reads an attachment from an address. Its type is what its content says.
    ///
    /// # Errors
    /// The address may not be read, or it gives no file that is taken.
    pub async fn read_address(&self, filename: &str, url: &str) -> Result<Part, Wrong> {
        let setup = self.setup();
        let settings = &setup.loaded.config.attachments;
        let wrong = |name: &str, why: String| Wrong::Address {
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

    /// Whether a request may have that address in place of a content.
    pub fn may_read_address(&self, url: &str) -> bool {
        let setup = self.setup();
        Download::new(url, &setup.loaded.config.attachments.allowed_hosts).is_ok()
    }

    /// Stores a file that messages can name for an hour.
    ///
    /// # Errors
    /// It is not taken, or the store failed.
    pub(crate) async fn upload(&self, bytes: Vec<u8>, mime: Option<&str>) -> Result<Blob, Error> {
        let limits = self.attachment_limits();
        let bytes: Arc<[u8]> = bytes.into();
        let part = part(UNNAMED, mime, bytes.clone(), limits.each)?;
        let stored = self.journal().stored_blobs().await?.bytes;
        if stored.saturating_add(bytes.len() as u64) > limits.store {
            let detail = "the store has no room for more attachments (`attachments.store_bytes`)";
            return Err(Error::new(Code::TooLarge, detail));
        }
        let digest = self.journal().put_blob(&bytes, None).await?;
        let Part::Attachment {
            mime,
            size_bytes,
            content: Some(content),
            ..
        } = part
        else {
            return Err(Error::new(Code::Failed, "the file has no content"));
        };
        Ok(Blob {
            digest: digest.to_string(),
            mime: mime.to_string(),
            size_bytes,
            extent: extent(content.extent),
        })
    }

    /// A content with its type.
    ///
    /// # Errors
    /// There is none, it is damaged, or the store failed.
    pub(crate) async fn content(&self, digest: &str) -> Result<(Kind, Arc<[u8]>), Error> {
        let missing = || Error::not_found("attachment", digest);
        let parsed = digest.parse::<Digest>().map_err(|_| missing())?;
        let bytes = self.journal().blob(parsed).await?.ok_or_else(missing)?;
        let kind = Kind::of_bytes(&bytes).ok_or_else(missing)?;
        Ok((kind, bytes))
    }
}
