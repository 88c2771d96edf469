//! Stored files: contents of attachments.

use std::fmt;

use bytes::Bytes;
use serde::{Deserialize, Serialize};

/// How large a content is to a model.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Extent {
    /// Width of an image in pixels.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub width: Option<u32>,
    /// Its height.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub height: Option<u32>,
    /// Pages of a document, estimated if they cannot be counted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pages: Option<u32>,
}

/// What stands behind a size: `, 640 x 480 pixels`, `, 3 pages`, or nothing.
impl fmt::Display for Extent {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match (self.width, self.height, self.pages) {
            (Some(width), Some(height), _) => write!(f, ", {width} x {height} pixels"),
            (_, _, Some(1)) => f.write_str(", 1 page"),
            (_, _, Some(pages)) => write!(f, ", {pages} pages"),
            _ => Ok(()),
        }
    }
}

/// A stored file. Messages name it by its digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(feature = "description", derive(utoipa::ToSchema))]
pub struct Blob {
    /// BLAKE3 of its content in hexadecimal digits.
    pub digest: String,
    /// Its type, as its content says.
    pub mime: String,
    /// Its size.
    pub size_bytes: u64,
    /// How large it is to a model.
    #[serde(flatten)]
    pub extent: Extent,
}

/// The content of a stored file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BlobContent {
    /// Its type, as its content says.
    pub mime: String,
    /// Its bytes. Readers share them.
    pub bytes: Bytes,
}
