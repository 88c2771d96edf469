//! A request outside the resources.

use reqwest::Method;

use crate::{ANSWER_WITHIN, Client, Error};

impl Client {
    /// Whether the daemon is ready; otherwise the reason.
    ///
    /// # Errors
    /// The daemon cannot be reached, or does not answer within 5 seconds.
    pub async fn ready(&self) -> Result<Result<(), String>, Error> {
        let request = self.request(Method::GET, "/readyz");
        match self.send(request.timeout(ANSWER_WITHIN)).await {
            Ok(_) => Ok(Ok(())),
            Err(Error::Problem(problem)) => Ok(Err(problem.detail)),
            Err(error) => Err(error),
        }
    }
}

#[cfg(test)]
mod tests {
    use unisono_api::Code;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_daemon_that_stands_still_is_not_waited_for() {
        let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
        let url = format!("http://{}", listener.local_addr().unwrap());
        let client = Client::new(url, "token").unwrap();
        let error = client.ready().await.unwrap_err();
        assert_eq!(error.code(), Code::Unavailable, "{error}");
    }
}
