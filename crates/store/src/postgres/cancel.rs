//! Ends a statement that has no answer.
//!
//! The client keeps a connection until the server has answered all of its statements. One that waits for the
//! lock of another transaction would stay there, and each further try would wait beside it, until the server
//! has no connection left.

use tokio::time::timeout;
use tokio_postgres::config::SslMode;
use tokio_postgres::{CancelToken, Client, NoTls};
use tokio_postgres_rustls::MakeRustlsConnect;

use super::error_kind::failed;
use super::{Options, tls};
use crate::error::Result;

/// Asks the server to end what a connection waits for, in the background. What is committed stays.
pub(super) fn cancel(client: &Client, options: &Options) {
    let (token, options) = (client.cancel_token(), options.clone());
    tokio::spawn(async move {
        let asked = timeout(options.patience, ask(&token, &options)).await;
        if let Ok(Err(error)) = asked {
            tracing::debug!(%error, "a statement without an answer is not cancelled");
        }
    });
}

async fn ask(token: &CancelToken, options: &Options) -> Result<()> {
    let asked = match options.config.get_ssl_mode() {
        SslMode::Disable => token.cancel_query(NoTls).await,
        _ => {
            let tls = MakeRustlsConnect::new(tls::config(options.is_verified)?);
            token.cancel_query(tls).await
        }
    };
    asked.map_err(failed("cancel a statement"))
}
