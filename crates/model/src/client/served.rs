//! Queries a server for the properties of a model: all queries in parallel and with a short
//! timeout.

use std::time::Duration;

use reqwest::{RequestBuilder, Url};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Client;
use crate::served::{Documents, Served};

/// How long the answers are waited for.
const PATIENCE: Duration = Duration::from_secs(2);
/// The longest answer that is read, in bytes.
const LONGEST: usize = 1 << 20;

impl Client {
    /// What the server says of the model of that name, within two seconds; nothing where it does
    /// not say. Takes no part in limits and breakers, and is not tried again.
    pub async fn served(&self, model: &str) -> Served {
        let address = &self.settings.address;
        let get = |url: Url| document(self.http.get(url));
        let show = self.http.post(address.beside("/api/show"));
        let show = show.body(json!({"model": model}).to_string());
        let (models, props, show, loaded) = tokio::join!(
            get(address.url(model, "/v1/models")),
            get(address.beside("/props")),
            document(show),
            get(address.beside("/api/ps")),
        );
        let documents = Documents {
            models,
            props,
            show,
            loaded,
        };
        documents.read(model)
    }
}

/// The document that answers a request, if one does in time.
async fn document(request: RequestBuilder) -> Option<Value> {
    let read = async {
        let mut response = request.send().await.ok()?.error_for_status().ok()?;
        let mut body = Vec::new();
        while let Some(piece) = response.chunk().await.ok()? {
            body.extend_from_slice(&piece);
            if body.len() > LONGEST {
                return None;
            }
        }
        serde_json::from_slice(&body).ok()
    };
    timeout(PATIENCE, read).await.ok()?
}
