//! A request outside the resources.

use reqwest::Method;

use crate::{Client, Error};

impl Client {
    /// Whether the daemon is ready; otherwise the reason.
    ///
    /// # Errors
    /// The daemon cannot be reached.
    pub async fn ready(&self) -> Result<Result<(), String>, Error> {
        match self.send(self.request(Method::GET, "/readyz")).await {
            Ok(_) => Ok(Ok(())),
            Err(Error::Problem(problem)) => Ok(Err(problem.detail)),
            Err(error) => Err(error),
        }
    }
}
