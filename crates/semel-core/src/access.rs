//! Who may do what: tokens, roles and permissions. Deny by default: a role has the permissions that
//! are listed here and no others.
//!
//! A token is `semel_NAMESPACE.ID.SECRET`. It names its namespace and its card; only a digest of
//! the whole is stored, so that whoever reads the store cannot use it. Role and namespace are fixed
//! in the record: no request can widen them.

use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use subtle::ConstantTimeEq;

use crate::key::Namespace;
use crate::time::Wall;

/// The kind of the cards that tokens are.
pub const CARD: &str = "token";

/// What every token starts with, so that scanners of sources and logs find one that leaked.
pub const PREFIX: &str = "semel_";

/// What a token's holder is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
#[cfg_attr(feature = "schema", derive(schemars::JsonSchema))]
pub enum Role {
    Admin,
    Operator,
    Approver,
    Trigger,
    Worker,
    Viewer,
}

/// What a route needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Permission {
    /// Ask how far a run is that one has started.
    Follow,
    /// Look at runs, effects, proofs, schedules, releases and decisions.
    Read,
    /// Start runs and send them signals.
    Start,
    /// Begin and settle effects.
    Perform,
    /// Take runs and commit what became of them.
    Work,
    /// Answer questions that hold effects.
    Approve,
    /// Decide about runs and effects; change schedules and releases.
    Operate,
    /// Make and revoke tokens, change triggers.
    Manage,
}

impl Role {
    pub const ALL: [Role; 6] =
        [Role::Admin, Role::Operator, Role::Approver, Role::Trigger, Role::Worker, Role::Viewer];

    /// The role's name, as it is written everywhere.
    pub fn as_str(self) -> &'static str {
        match self {
            Role::Admin => "admin",
            Role::Operator => "operator",
            Role::Approver => "approver",
            Role::Trigger => "trigger",
            Role::Worker => "worker",
            Role::Viewer => "viewer",
        }
    }

    /// Reads a name back.
    pub fn parse(name: &str) -> Option<Role> {
        Role::ALL.into_iter().find(|role| role.as_str() == name)
    }

    /// The whole table of rights.
    pub fn may(self, permission: Permission) -> bool {
        use Permission::{Approve, Follow, Operate, Perform, Read, Start, Work};
        match self {
            Role::Admin => true,
            Role::Operator => matches!(permission, Follow | Read | Start | Work | Operate),
            Role::Approver => matches!(permission, Follow | Read | Approve),
            Role::Trigger => matches!(permission, Follow | Start),
            Role::Worker => matches!(permission, Follow | Read | Start | Perform | Work),
            Role::Viewer => matches!(permission, Follow | Read),
        }
    }
}

impl Permission {
    pub const ALL: [Permission; 8] = [
        Permission::Follow,
        Permission::Read,
        Permission::Start,
        Permission::Perform,
        Permission::Work,
        Permission::Approve,
        Permission::Operate,
        Permission::Manage,
    ];

    /// The permission's name, as documents have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Permission::Follow => "follow",
            Permission::Read => "read",
            Permission::Start => "start",
            Permission::Perform => "perform",
            Permission::Work => "work",
            Permission::Approve => "approve",
            Permission::Operate => "operate",
            Permission::Manage => "manage",
        }
    }
}

/// After how long a token ends that somebody makes whose own ends at `own`: nobody gives away more
/// than they have.
pub fn expiry(asked_ms: Option<u64>, own: Option<Wall>, now: Wall) -> Option<u64> {
    let left_ms = own.map(|own| u64::try_from(own.0.saturating_sub(now.0)).unwrap_or(0));
    match (asked_ms, left_ms) {
        (Some(asked_ms), Some(left_ms)) => Some(asked_ms.min(left_ms)),
        (asked_ms, left_ms) => asked_ms.or(left_ms),
    }
}

/// A token as its card keeps it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Token {
    pub id: String,
    /// Whose it is: the actor of what is decided with it.
    pub label: String,
    pub role: Role,
    /// SHA-256 of the whole token, in hex.
    pub digest: String,
    pub created: Wall,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub expires: Option<Wall>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub revoked: Option<Wall>,
}

/// Where a presented token is to be looked up. Nothing of it is believed yet.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Presented {
    pub namespace: Namespace,
    pub id: String,
    digest: String,
}

impl Presented {
    /// Takes a presented token apart. `None`: it is none of ours.
    pub fn read(text: &str) -> Option<Presented> {
        let rest = text.strip_prefix(PREFIX)?;
        let mut parts = rest.rsplitn(3, '.');
        let (secret, id, namespace) = (parts.next()?, parts.next()?, parts.next()?);
        if secret.is_empty() || id.is_empty() || text.len() > 512 {
            return None;
        }
        let namespace = Namespace::new(namespace).ok()?;
        Some(Presented { namespace, id: id.to_owned(), digest: digest(text) })
    }

    /// Whether the stored record is that of this token, and good now.
    pub fn is(&self, token: &Token, now: Wall) -> bool {
        let equal = self.digest.as_bytes().ct_eq(token.digest.as_bytes());
        let live = token.revoked.is_none() && token.expires.is_none_or(|end| now < end);
        bool::from(equal) && live
    }
}

/// A new token and its record. The secret has 32 random bytes, given from outside.
pub fn mint(
    namespace: &Namespace,
    (label, role): (&str, Role),
    (id, secret): ([u8; 6], [u8; 32]),
    created: Wall,
    expires: Option<Wall>,
) -> (String, Token) {
    let id = hex(&id);
    let text = format!("{PREFIX}{}.{id}.{}", namespace.live(), hex(&secret));
    let digest = digest(&text);
    let label = label.to_owned();
    (text, Token { id, label, role, digest, created, expires, revoked: None })
}

/// The same token, from now on good for nothing.
pub fn revoke(token: &Token, now: Wall) -> Token {
    Token { revoked: Some(token.revoked.unwrap_or(now)), ..token.clone() }
}

fn digest(text: &str) -> String {
    hex(&Sha256::digest(text.as_bytes()))
}

fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|byte| format!("{byte:02x}")).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn minted() -> (String, Token) {
        let namespace = Namespace::new("acme.eu").unwrap();
        mint(&namespace, ("ci", Role::Worker), ([1; 6], [7; 32]), Wall(10), Some(Wall(100)))
    }

    #[test]
    fn sec_9_a_token_is_found_by_its_prefix_and_only_its_digest_is_stored() {
        let (text, token) = minted();
        assert!(text.starts_with("semel_acme.eu.010101010101."));
        let secret = text.rsplit('.').next().unwrap();
        assert_eq!(secret.len(), 64, "256 random bits");
        assert!(!serde_json::to_string(&token).unwrap().contains(secret));
        let presented = Presented::read(&text).unwrap();
        assert_eq!((presented.namespace.as_str(), &*presented.id), ("acme.eu", "010101010101"));
        assert!(presented.is(&token, Wall(99)));
    }

    #[test]
    fn sec_11_a_token_ends_by_time_and_by_revocation() {
        let (text, token) = minted();
        let presented = Presented::read(&text).unwrap();
        assert!(!presented.is(&token, Wall(100)));
        assert!(!presented.is(&revoke(&token, Wall(20)), Wall(20)));
        assert_eq!(revoke(&revoke(&token, Wall(20)), Wall(30)).revoked, Some(Wall(20)));
    }

    #[test]
    fn sec_12_one_changed_character_is_another_token() {
        let (text, token) = minted();
        for place in 0..text.len() {
            let mut other = text.clone().into_bytes();
            other[place] = if other[place] == b'0' { b'1' } else { b'0' };
            let other = String::from_utf8(other).unwrap();
            let good = Presented::read(&other).is_some_and(|read| read.is(&token, Wall(20)));
            assert!(!good, "{other}");
        }
    }

    #[test]
    fn sec_6_rights_are_a_table_and_every_role_lacks_something_but_admin() {
        let table: Vec<String> = Role::ALL
            .iter()
            .map(|role| {
                let has = Permission::ALL.iter().filter(|one| role.may(**one));
                let names: Vec<_> = has.map(|one| one.as_str()).collect();
                format!("{}: {}", role.as_str(), names.join(" "))
            })
            .collect();
        assert_eq!(
            table,
            [
                "admin: follow read start perform work approve operate manage",
                "operator: follow read start work operate",
                "approver: follow read approve",
                "trigger: follow start",
                "worker: follow read start perform work",
                "viewer: follow read",
            ]
        );
    }
}
