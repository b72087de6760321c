//! # ldap-auth
//!
//! Authenticates requests with a user name and a password that an LDAP server checks, and names the consumer
//! to the upstream.
//!
//! On a route, service, plugin config, consumer group or global rule:
//!
//! ```json
//! {
//!     "ldap_uri": "ldap.example.com:636",
//!     "use_tls": true,
//!     "tls_verify": true,
//!     "base_dn": "ou=users,dc=example,dc=org",
//!     "uid": "cn",
//!     "hide_credentials": true
//! }
//! ```
//!
//! On a consumer or, better, on a credential of its own:
//!
//! ```json
//! {
//!     "user_dn": "cn=user01,ou=users,dc=example,dc=org"
//! }
//! ```
//!
//! **Check.** The client sends name and password in `Authorization` by the scheme `Basic`. The gateway makes
//! the distinguished name `UID=NAME,BASE_DN`, with `uid` as the attribute, and binds to the server with it
//! and the password. If the server accepts them, the request passes as the consumer with that name as its
//! `user_dn`. In the name the characters `,` `+` `=` `<` `>` `;` `"` `\`, `#` at the beginning and a space at
//! either end are escaped by a backslash (RFC 4514), and `user_dn` has to be written so: the user `doe,john`
//! is `cn=doe\,john,ou=users,dc=example,dc=org`. An empty password is refused without asking the server,
//! because LDAP takes a bind without password for an anonymous one that succeeds. If the server refuses a
//! name or password with white space, such as a line end, the gateway asks once more without it, because
//! APISIX leaves white space out.
//!
//! **Server.** `ldap_uri` is `HOST`, `HOST:PORT`, or one of these behind `ldap://` or `ldaps://`; the port is
//! 389 without one, or 636 behind `ldaps://`. `ldaps://` and `use_tls` encrypt the connection with TLS from
//! its beginning; StartTLS is not spoken, as in APISIX. Without TLS, passwords cross the network in clear
//! text. `tls_verify` verifies the server's certificate, which has to be valid for the host and signed by an
//! authority that the setting `trusted_certificates` names; it is off by default, as in APISIX. Each worker
//! keeps up to 32 connections, each for 60 s without use.
//!
//! **Refusals.** A request without good credentials is answered with 401, a `WWW-Authenticate` field that
//! names `realm`, and the reason as `{"message": "…"}`; so is one that the server does not decide within 10
//! s. The error log names the server's fault at most once a second for each instance. A request with two
//! `Authorization` fields is refused, because two readers could each use a different one.
//!
//! For a request that passes, the upstream receives `X-Consumer-Username`, `X-Credential-Identifier` and
//! `X-Consumer-Custom-ID` as with `key-auth`. With `hide_credentials` it does not receive `Authorization`,
//! which holds a password that is usually good elsewhere too.

mod credentials;
mod directory;
mod message;

use std::sync::Arc;

use exchange::Exchange;
use exchange::exchange::Consumer;
use exchange::plugin::{BufferedReply, Build, Flow, PhaseDecision, Plugin, PluginKind, PluginPhase};
use serde_json::{Value, json};

use crate::shared::attributes::{Attribute, attributes};
use crate::shared::authentication::AuthenticationRefusal;
use crate::shared::authentication::places::{self, Doubled};
use crate::shared::config;
use crate::shared::consumer::set_consumer_headers;
use crate::shared::outages::Outages;
use credentials::{Credentials, distinguished_name};
use directory::{Directory, LdapServerAddress};

/// The declaration of this plugin.
pub(crate) const KIND: PluginKind =
    PluginKind::new(NAME, 2540, &[PluginPhase::Rewrite], LdapAuthConfig::schema, build)
        .checked(check)
        .authenticates(consumer_schema, &["user_dn"])
        .documented(include_str!("ldap_auth.rs"));

attributes! {
    struct LdapAuthConfig {
        /// The distinguished name below which the users are.
        base_dn: Box<str>;
        /// The server: HOST or HOST:PORT.
        ldap_uri: String;
        /// Encrypts the connection with TLS from its beginning (LDAPS).
        use_tls: bool = false;
        /// Whether the server's certificate is verified.
        tls_verify: bool = false;
        /// The attribute that holds the user's name.
        uid: Box<str> = "cn".into();
        /// Whether the upstream is kept from seeing the credentials.
        hide_credentials: bool = false;
        /// The realm that WWW-Authenticate names.
        realm: String = "ldap".into(), {"pattern": REALM_PATTERN, "minLength": 1, "maxLength": 128};
    }
    {"title": "Let in users that an LDAP server knows"}
}

fn consumer_schema() -> Value {
    json!({
        "type": "object",
        "title": "The user of a consumer",
        "properties": {
            "user_dn": {
                "type": "string",
                "minLength": 1,
                "description": "The distinguished name of the user. No two consumers may have the same."
            }
        },
        "required": ["user_dn"]
    })
}

struct LdapAuth {
    directory: Directory,
    base_dn: Box<str>,
    uid: Box<str>,
    hide_credentials: bool,
    /// The value of `WWW-Authenticate`.
    challenge: Box<str>,
    outages: Outages,
}

fn check(config: &Value) -> Result<(), String> {
    let config: LdapAuthConfig = config::parse_config(config)?;
    match config::is_reference(&config.ldap_uri) {
        true => Ok(()),
        false => LdapServerAddress::read(&config.ldap_uri, config.use_tls).map(drop),
    }
}

fn build(build: &Build<'_>, config: &Value) -> Result<Arc<dyn Plugin>, String> {
    let config: LdapAuthConfig = config::parse_config(config)?;
    let server = LdapServerAddress::read(&config.ldap_uri, config.use_tls)?;
    Ok(Arc::new(LdapAuth {
        directory: Directory::new(build.services, &server, config.tls_verify)?,
        base_dn: config.base_dn,
        uid: config.uid,
        hide_credentials: config.hide_credentials,
        challenge: format!("Basic realm=\"{}\"", config.realm).into(),
        outages: Outages::new(build, NAME),
    }))
}

impl Plugin for LdapAuth {
    fn rewrite<'a>(&'a self, exchange: &'a mut Exchange) -> Flow<'a> {
        match presented(exchange) {
            Ok(credentials) => Flow::Wait(Box::pin(self.authenticate(exchange, credentials))),
            Err(refusal) => {
                let reply = self.refusal(refusal.message());
                Flow::reply(if refusal.is_final() { reply.into_final() } else { reply })
            }
        }
    }
}

const MISSING: AuthenticationRefusal = AuthenticationRefusal::new("Missing authorization in request");
const INVALID: AuthenticationRefusal = AuthenticationRefusal::new("Invalid authorization in request");
const DOUBLED: AuthenticationRefusal = AuthenticationRefusal::doubled("Invalid authorization in request");

/// The credentials of a request, or its refusal.
fn presented(exchange: &Exchange) -> Result<Credentials, AuthenticationRefusal> {
    let field =
        places::read_single_field(exchange, "authorization").map_err(|Doubled| DOUBLED)?.ok_or(MISSING)?;
    Credentials::read(field).ok_or(INVALID)
}

impl LdapAuth {
    async fn authenticate(&self, exchange: &mut Exchange, credentials: Credentials) -> PhaseDecision {
        let mut found = self.consumer(exchange, &credentials).await;
        if let (Ok(None), Some(compact)) = (&found, credentials.compact()) {
            found = self.consumer(exchange, &compact).await;
        }
        match found.ok().flatten() {
            Some(consumer) => {
                if self.hide_credentials {
                    exchange.remove_request_field("authorization");
                }
                set_consumer_headers(exchange, &consumer);
                exchange.authenticate(consumer);
                PhaseDecision::Continue
            }
            None => PhaseDecision::Reply(Box::new(self.refusal("Invalid user authorization"))),
        }
    }

    /// The consumer of these credentials, if the server accepts them.
    ///
    /// # Errors
    /// The server does not say; the log has the reason.
    async fn consumer(
        &self,
        exchange: &Exchange,
        credentials: &Credentials,
    ) -> Result<Option<Arc<Consumer>>, ()> {
        let worker = exchange.local();
        let user_dn = distinguished_name(&self.uid, &credentials.user, &self.base_dn);
        match self.directory.bind(worker, &user_dn, &credentials.password).await {
            Ok(true) => Ok(exchange.find_consumer(NAME, &user_dn)),
            Ok(false) => Ok(None),
            Err(fault) => {
                if let Some(requests) = self.outages.add(worker.now_ms()) {
                    tracing::warn!(fault, requests, "ldap-auth got no decision");
                }
                Err(())
            }
        }
    }

    fn refusal(&self, message: &str) -> BufferedReply {
        BufferedReply::message(401, message).with_header("WWW-Authenticate", &*self.challenge)
    }
}

const NAME: &str = "ldap-auth";
/// Printable ASCII that needs no escape in a quoted string (RFC 9110 section 5.6.4).
const REALM_PATTERN: &str = r"^[\x20-\x21\x23-\x5B\]-\x7E]+$";
#[cfg(test)]
mod tests;
