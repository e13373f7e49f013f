//! The address of a server: `http://host:port`, `https://host/below`, with a token before an `@` or
//! without one.

use hyper::Uri;

use crate::StoreError;

/// Where a server is, and by which token it knows us.
#[derive(Clone)]
pub(super) struct ServerAddress {
    pub(super) host: String,
    pub(super) port: u16,
    pub(super) is_tls: bool,
    /// What stands before `/v1`, for a server below a path.
    pub(super) path: String,
    pub(super) token: Option<String>,
}

impl ServerAddress {
    /// Reads an address. What is wrong with it is said without repeating it: it may hold a token.
    pub(super) fn parse(url: &str, token: Option<&str>) -> Result<ServerAddress, StoreError> {
        let invalid = |why: &str| {
            StoreError::UrlInvalid(format!("the address of the server is not valid: {why}"))
        };
        let uri: Uri = url.parse().map_err(|_| invalid("it is no URL"))?;
        let is_tls = match uri.scheme_str() {
            Some("https") => true,
            Some("http") => false,
            _ => return Err(invalid("it begins neither with http:// nor with https://")),
        };
        let authority = uri.authority().ok_or_else(|| invalid("it names no host"))?;
        let host = authority.host();
        if host.is_empty() || uri.query().is_some() {
            return Err(invalid("it is http://HOST:PORT and nothing behind"));
        }
        let user = authority.as_str().rsplit_once('@').map(|(user, _)| user);
        // `user:` and `:token` are how some programs write it.
        let user = user.map(|user| user.trim_matches(':')).filter(|user| !user.is_empty());
        let token = token.map(str::trim).filter(|token| !token.is_empty()).or(user);
        if token.is_some_and(|token| !token.chars().all(|c| c.is_ascii_graphic())) {
            return Err(invalid("the token has characters that no token has"));
        }
        Ok(ServerAddress {
            host: host.trim_matches(['[', ']']).to_owned(),
            port: authority.port_u16().unwrap_or(if is_tls { 443 } else { 80 }),
            is_tls,
            path: uri.path().trim_end_matches('/').to_owned(),
            token: token.map(str::to_owned),
        })
    }

    /// As the header `Host` has it.
    pub(super) fn host_header(&self) -> String {
        match self.host.contains(':') {
            true => format!("[{}]:{}", self.host, self.port),
            false => format!("{}:{}", self.host, self.port),
        }
    }

    /// For people: never with the token.
    pub(super) fn shown(&self) -> String {
        let scheme = if self.is_tls { "https" } else { "http" };
        format!("{scheme}://{}{}", self.host_header(), self.path)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_address_is_read_and_shown_without_its_token() {
        for (url, given, shown, token) in [
            ("http://127.0.0.1:8420", None, "http://127.0.0.1:8420", None),
            ("http://localhost", None, "http://localhost:80", None),
            ("https://semel.example/below/", None, "https://semel.example:443/below", None),
            ("http://sk_1@host:1/", None, "http://host:1", Some("sk_1")),
            ("http://:sk_1@host:1", None, "http://host:1", Some("sk_1")),
            ("http://sk_1@host:1", Some("sk_2"), "http://host:1", Some("sk_2")),
            ("http://host:1", Some(" sk_2\n"), "http://host:1", Some("sk_2")),
            ("http://host:1", Some(""), "http://host:1", None),
            ("http://[::1]:7", None, "http://[::1]:7", None),
        ] {
            let read = ServerAddress::parse(url, given).expect(url);
            assert_eq!((read.shown().as_str(), read.token.as_deref()), (shown, token), "{url}");
        }
    }

    #[test]
    fn what_is_no_address_is_refused_without_repeating_it() {
        for url in ["http://", "ftp://sk_1@h", "http://sk_1@h?x=1", "http://sk 1@h", "sk_1@h:1"] {
            let Err(StoreError::UrlInvalid(text)) = ServerAddress::parse(url, None) else {
                panic!("{url} is no address")
            };
            assert!(!text.contains("sk"), "{text}");
        }
        assert!(ServerAddress::parse("http://h", Some("two words")).is_err());
    }
}
