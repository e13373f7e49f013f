//! How a sender signs: fixed by the trigger, never by a request.

use super::template::Signed;

/// How the deliveries of one trigger are signed and told apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Scheme {
    /// `webhook-id`, `webhook-timestamp`, `webhook-signature`, or the same with `svix-`.
    Standard,
    Stripe,
    GitHub,
    Slack,
    Hmac(Hmac),
    /// A secret as it is, in `authorization: Bearer …` or alone in another header.
    Bearer {
        header: String,
    },
    /// The event says who it is; that it is genuine is said by the scheme inside, which is `Hmac`
    /// or `Bearer`.
    CloudEvents(Box<Scheme>),
}

/// A signature that the trigger's author describes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Hmac {
    /// The header with the signature.
    pub header: String,
    pub algorithm: Algorithm,
    pub encoding: Encoding,
    /// What stands before the signature, such as `sha256=`.
    pub prefix: String,
    /// The header with the time in seconds, where one is signed.
    pub timestamp_header: Option<String>,
    /// What is signed: `{body}`, or `{timestamp}.{body}`.
    pub(super) signed: Signed,
}

/// The hash of a signature.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Algorithm {
    Sha256,
    Sha512,
}

/// How a signature is written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Encoding {
    /// In lower case.
    Hex,
    Base64,
}

impl Scheme {
    /// Whether a 4xx would only make the sender deliver the same again for days: a service of
    /// somebody else. Whoever signs by our own description, or has a token, is told.
    pub fn is_of_a_provider(&self) -> bool {
        match self {
            Scheme::Standard | Scheme::Stripe | Scheme::GitHub | Scheme::Slack => true,
            Scheme::CloudEvents(_) => true,
            Scheme::Hmac(_) | Scheme::Bearer { .. } => false,
        }
    }

    /// Whether each delivery names itself, so that a key need not be declared.
    pub fn has_an_identity(&self) -> bool {
        self.is_of_a_provider()
    }
}
