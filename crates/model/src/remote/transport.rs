//! The transport of a request to a provider and of its reply.

use std::future::Future;
use std::sync::Arc;

use unisono_context::Tokens;
use unisono_context::call::Reply;

use crate::client::{Call, Client};
use crate::dialect::Dialect;
use crate::language::{Class, Error};

/// Sends requests to a provider. [`Client`] does it over HTTP.
pub trait Transport: Send + Sync + 'static {
    /// The wire format of the bodies.
    fn dialect(&self) -> Dialect;

    /// Requests a reply.
    fn reply(&self, call: Call) -> impl Future<Output = Result<Reply, Error>> + Send;

    /// Requests the number of tokens of a request.
    fn count(&self, call: Call) -> impl Future<Output = Result<Tokens, Error>> + Send;
}

impl Transport for Client {
    fn dialect(&self) -> Dialect {
        self.settings().dialect
    }

    fn reply(&self, call: Call) -> impl Future<Output = Result<Reply, Error>> + Send {
        Client::reply(self, call)
    }

    fn count(&self, call: Call) -> impl Future<Output = Result<Tokens, Error>> + Send {
        Client::count(self, call)
    }
}

/// Several models of one provider share its client.
impl<T: Transport> Transport for Arc<T> {
    fn dialect(&self) -> Dialect {
        T::dialect(self)
    }

    fn reply(&self, call: Call) -> impl Future<Output = Result<Reply, Error>> + Send {
        T::reply(self, call)
    }

    fn count(&self, call: Call) -> impl Future<Output = Result<Tokens, Error>> + Send {
        T::count(self, call)
    }
}

/// A transport that sends nothing, for rebuilding requests. It has nothing that could reach a
/// provider.
#[derive(Clone, Copy, Debug)]
pub struct NoTransport(pub Dialect);

impl NoTransport {
    fn refusal() -> Error {
        Error::new("", Class::Internal, "no transport is configured")
    }
}

impl Transport for NoTransport {
    fn dialect(&self) -> Dialect {
        self.0
    }

    async fn reply(&self, _: Call) -> Result<Reply, Error> {
        Err(NoTransport::refusal())
    }

    async fn count(&self, _: Call) -> Result<Tokens, Error> {
        Err(NoTransport::refusal())
    }
}
