//! What to do about a connection that could not be made, where its error tells.

/// An error with what to do about it.
pub(super) fn hinted(error: &str) -> String {
    let hint = match error {
        // What rustls calls the default of `openssl req -x509`.
        error if error.contains("CaUsedAsEndEntity") => {
            "the server shows the certificate of an authority (CA:TRUE): make one with \
             `openssl req -x509 … -addext basicConstraints=critical,CA:FALSE`"
        }
        // The latter where the trusted one has the same name: it was made anew.
        error if error.contains("UnknownIssuer") || error.contains("BadSignature") => {
            "this system does not trust the server's certificate: name it or its authority by \
             SSL_CERT_FILE"
        }
        error if error.contains("NotValidForName") => {
            "the server's certificate is for another name: use that name in the address"
        }
        error if error.contains("InvalidContentType") || error.contains("corrupt message") => {
            "the port seems to speak plain HTTP: write http:// in the address"
        }
        error if error.contains("invalid HTTP version") => {
            "the port seems to speak HTTPS: write https:// in the address"
        }
        _ => return error.to_owned(),
    };
    format!("{error}; {hint}")
}
