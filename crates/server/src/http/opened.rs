//! What a server opens before it responds.

use std::net::SocketAddr;

use tokio::net::TcpListener;
use unisono::Local;

use super::people::People;
use super::token::Token;
use super::{Error, cluster};

/// The parts of a server that may be missing or refused.
pub(super) struct Opened {
    pub(super) token: Token,
    pub(super) address: SocketAddr,
    pub(super) listener: TcpListener,
    /// The address at which other daemons reach this one.
    pub(super) reached: String,
    pub(super) people: People,
}

impl Opened {
    /// # Errors
    /// The address is in use or open to other machines, the token cannot be read or created, the
    /// daemon cannot join the cluster, or a setting is not a valid header name.
    pub(super) async fn new(local: &Local) -> Result<Opened, Error> {
        let setup = local.setup();
        let config = &setup.loaded.config;
        let settings = &config.server;
        if !settings.bind.ip().is_loopback() && !settings.allow_remote {
            return Err(Error::Remote(settings.bind));
        }
        let token = Token::open(&settings.token_file)?;
        let (address, listener) = listen(settings.bind).await?;
        let reached = cluster::address(config.cluster.address.as_deref(), address);
        cluster::join(local, &reached, &token).await?;
        let people = People::open(local, settings).await?;
        Ok(Opened {
            token,
            address,
            listener,
            reached,
            people,
        })
    }
}

async fn listen(address: SocketAddr) -> Result<(SocketAddr, TcpListener), Error> {
    let listening = TcpListener::bind(address).await;
    let bound = listening.and_then(|listener| Ok((listener.local_addr()?, listener)));
    bound.map_err(|error| Error::Listen { address, error })
}
