//! A server that no kubeconfig names, reached with the credentials of one: a component's own port,
//! which asks the API server who its clients are.

use http::Uri;
use kube::config::Config;

use super::connect::{self, ConnectError, Source};
use super::{Client, Options};
use crate::connection::Trust;

/// With which credentials a server is asked.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Credentials {
    /// Those of a kubeconfig's user, or of a pod.
    Of(Source),
    /// A token.
    Token(String),
}

impl Client {
    /// A client of the server at `url`, which must begin with `https://`: credentials are not sent
    /// for everybody to read. No request is sent.
    ///
    /// # Errors
    /// When the credentials cannot be found, or the URL or the authority cannot be used.
    pub async fn connect_to(
        url: &str,
        credentials: &Credentials,
        trust: &Trust,
        options: &Options,
    ) -> Result<Self, ConnectError> {
        let unusable = |reason: String| ConnectError::Elsewhere { url: url.to_owned(), reason };
        let server: Uri = url.parse().map_err(|_| unusable("it is not a URL".to_owned()))?;
        if server.scheme_str() != Some("https") || server.authority().is_none() {
            return Err(unusable("it does not begin with https://".to_owned()));
        }
        let mut config = match credentials {
            Credentials::Of(source) => connect::configuration(source).await?.0,
            Credentials::Token(token) => {
                let mut config = Config::new(server.clone());
                config.auth_info.token = Some(token.as_str().into());
                config
            }
        };
        config.cluster_url = server;
        config.tls_server_name = None;
        trust.apply(&mut config).map_err(|error| unusable(error.to_string()))?;
        let transport = connect::build(&config).map_err(unusable)?;
        Ok(Self::wrap(transport, url.to_owned(), config.default_namespace, options))
    }
}

#[cfg(test)]
mod tests {
    use std::net::SocketAddr;
    use std::path::PathBuf;

    use http::Method;
    use rcgen::{CertificateParams, KeyPair};
    use tokio_util::sync::CancellationToken;

    use super::super::Call;
    use super::*;
    use crate::connection::Pem;
    use crate::fake::Script;
    use crate::serve::{Guard, GuardOptions, Health, Metrics, Server, Site, Tls};

    /// A port over TLS in front of pages that everybody may see, and its certificate.
    async fn port(folder: &std::path::Path) -> (String, PathBuf, CancellationToken) {
        let key = KeyPair::generate().unwrap();
        let params = CertificateParams::new(vec!["127.0.0.1".to_owned()]).unwrap();
        let certificate = params.self_signed(&key).unwrap();
        let (chain, secret) = (folder.join("chain.pem"), folder.join("key.pem"));
        std::fs::write(&chain, certificate.pem()).unwrap();
        std::fs::write(&secret, key.serialize_pem()).unwrap();
        let server = Server::bind(SocketAddr::from(([127, 0, 0, 1], 0))).await.unwrap();
        let (url, stop) = (format!("https://{}", server.address()), CancellationToken::new());
        let site = Site::new(&Metrics::new(), &Health::new());
        let guard =
            Guard::new(&Script::new([]).client(&Options::new("test")), GuardOptions::default());
        let tls = Tls::from_files(&chain, &secret).unwrap();
        tokio::spawn(server.run_guarded(site, tls, guard, stop.clone()));
        (url, chain, stop)
    }

    #[tokio::test]
    async fn a_certificate_is_checked_unless_that_is_not_wanted() {
        let folder = tempfile::tempdir().unwrap();
        let (url, authority, stop) = port(folder.path()).await;
        let got = async |trust: Trust| {
            let (token, options) = (Credentials::Token("t".to_owned()), Options::new("test"));
            let client = Client::connect_to(&url, &token, &trust, &options).await.unwrap();
            match client.call_bytes(Call::new(Method::GET, "/livez")).await {
                Ok(body) => String::from_utf8(body.to_vec()).unwrap(),
                Err(error) => error.to_string(),
            }
        };
        assert_eq!(got(Trust::Authorities(Pem::File(authority))).await, "ok");
        assert_eq!(got(Trust::Anyone).await, "ok");
        let error = got(Trust::System).await;
        assert!(error.contains("invalid peer certificate"), "{error}");
        stop.cancel();
    }

    #[tokio::test]
    async fn a_token_that_no_header_can_have_is_refused_and_not_repeated() {
        for token in ["a\nb", "a\rb", "\0", "t\n"] {
            let (token, options) = (Credentials::Token(token.to_owned()), Options::new("test"));
            let made = Client::connect_to("https://h", &token, &Trust::Anyone, &options).await;
            let error = made.err().unwrap().to_string();
            let told = "cannot talk to https://h: the token has a line break or another character \
                that no header may have; write it on one line, without anything around it";
            assert_eq!(error, told);
        }
    }

    #[tokio::test]
    async fn what_cannot_be_reached_is_told() {
        let check = async |url: &str, trust: Trust, expected: &str| {
            let (token, options) = (Credentials::Token("t".to_owned()), Options::new("test"));
            let error = Client::connect_to(url, &token, &trust, &options).await.err().unwrap();
            assert_eq!(error.to_string(), expected);
        };
        let plain = "cannot talk to http://h: it does not begin with https://";
        check("http://h", Trust::System, plain).await;
        check("h", Trust::System, "cannot talk to h: it does not begin with https://").await;
        let missing = "cannot talk to https://h: cannot read /no/such/ca: No such file or directory (os error 2)";
        check("https://h", Trust::Authorities(Pem::File("/no/such/ca".into())), missing).await;
        let empty =
            "cannot talk to https://h: the authorities cannot be used: there is no certificate";
        check("https://h", Trust::Authorities(Pem::Inline(Vec::new())), empty).await;
    }
}
