//! What carries a request to a provider and brings its reply back.

use std::future::Future;
use std::sync::Arc;

use unisono_context::Tokens;
use unisono_context::call::Reply;

use crate::client::{Call, Client};
use crate::dialect::Dialect;
use crate::language::Error;

/// The way to a provider. [`Client`] is the one over HTTP.
pub trait Transport: Send + Sync + 'static {
    /// The wire format of the bodies it takes.
    fn dialect(&self) -> Dialect;

    /// Asks for a reply.
    fn reply(&self, call: Call) -> impl Future<Output = Result<Reply, Error>> + Send;

    /// Asks how many tokens a request has.
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
