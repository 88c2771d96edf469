//! Queries a server for the properties of a model: all queries in parallel and with a short
//! timeout.

use std::time::Duration;

use reqwest::{RequestBuilder, Url};
use serde_json::{Value, json};
use tokio::time::timeout;

use super::Client;
use crate::served::{ServedModel, ServerDocuments};

/// The timeout of the queries.
const PATIENCE: Duration = Duration::from_secs(2);
/// The maximum length of a response, in bytes.
const LONGEST: usize = 1 << 20;

impl Client {
    /// The server's properties of a model, queried within two seconds; empty if it does not report
    /// them. Limits and breakers do not apply, and nothing is retried.
    pub async fn query_model(&self, model: &str) -> ServedModel {
        let address = &self.settings.address;
        let access = self.access.get();
        let get = |url: Url| document(access.http.get(url));
        let show = access.http.post(address.sibling_url("/api/show"));
        let show = show.body(json!({"model": model}).to_string());
        let (models, props, show, loaded) = tokio::join!(
            get(address.url(model, "/v1/models")),
            get(address.sibling_url("/props")),
            document(show),
            get(address.sibling_url("/api/ps")),
        );
        let documents = ServerDocuments {
            models,
            props,
            show,
            loaded,
        };
        documents.read(model)
    }
}

/// The document in the response, if it arrives in time.
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
