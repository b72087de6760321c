//! The TLS side of a client's connection, as variables and the check of client certificates see it. It holds
//! the agreed parameters; it decides nothing.

use std::rc::Rc;
use std::sync::Arc;

use net::tls::certificate::Certificate;
use net::tls::facts::{ClientVerdict, TlsFacts};
use net::tls::server::site::Site;
use router::vars::{BuiltinVariable as Builtin, Value};

/// See the module.
#[derive(Debug)]
pub struct TlsContext {
    /// The agreed parameters, and the verdict over the client.
    pub facts: TlsFacts,
    /// The site that the handshake was made with.
    pub site: Arc<Site>,
    /// The value of Alt-Svc for its responses, where the listener serves HTTP/3 as well.
    pub alt_svc: Option<Rc<str>>,
}

impl TlsContext {
    /// The value of a variable `$ssl_…`, as nginx names and writes them; unset where the connection has none.
    pub(crate) fn variable(&self, builtin: Builtin) -> Option<Value<'_>> {
        let facts = &self.facts;
        match builtin {
            Builtin::SslProtocol => Some(Value::from(facts.version)),
            Builtin::SslCipher => Some(Value::from(facts.cipher)),
            Builtin::SslCurve => Some(Value::from(facts.curve)).filter(|_| !facts.curve.is_empty()),
            Builtin::SslServerName => {
                facts.server_name.as_deref().map(|name| Value::borrowed(name.as_bytes()))
            }
            Builtin::SslSessionReused => Some(Value::from(if facts.is_resumed { "r" } else { "." })),
            Builtin::SslAlpnProtocol => facts.alpn.as_deref().map(|name| Value::borrowed(name.as_bytes())),
            Builtin::SslJa4 => facts.ja4.as_deref().map(|text| Value::borrowed(text.as_bytes())),
            Builtin::SslClientVerify => Some(match &facts.client {
                ClientVerdict::None => Value::from("NONE"),
                ClientVerdict::Verified => Value::from("SUCCESS"),
                ClientVerdict::Failed(reason) => Value::owned(format!("FAILED:{reason}").into_bytes()),
            }),
            _ => self.certificate_variable(builtin),
        }
    }

    fn certificate_variable(&self, builtin: Builtin) -> Option<Value<'_>> {
        let shown = Certificate::parse(self.facts.peer.first()?)?;
        let text = match builtin {
            Builtin::SslClientSDn => shown.subject(),
            Builtin::SslClientIDn => shown.issuer(),
            Builtin::SslClientSerial => shown.serial(),
            Builtin::SslClientFingerprint => shown.fingerprint(),
            Builtin::SslClientVStart => shown.valid_from(),
            Builtin::SslClientVEnd => shown.valid_until(),
            Builtin::SslClientVRemain => {
                let now_s = i64::try_from(net::env::wall_clock().as_secs()).unwrap_or(i64::MAX);
                shown.valid_days(now_s).to_string()
            }
            Builtin::SslClientRawCert => shown.pem().trim_end().to_owned(),
            Builtin::SslClientCert => shown.pem().trim_end().replace('\n', "\n\t"),
            Builtin::SslClientEscapedCert => escaped(&shown.pem()),
            _ => return None,
        };
        Some(Value::owned(text.into_bytes()))
    }
}

/// Percent-encodes what may not stand in a part of a URI (RFC 3986 section 2.3), so that a certificate fits
/// into a field.
fn escaped(text: &str) -> String {
    let mut out = String::with_capacity(text.len() * 5 / 4);
    for byte in text.bytes() {
        if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.' | b'_' | b'~') {
            out.push(char::from(byte));
        } else {
            const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
            out.push('%');
            out.push(char::from(DIGITS[usize::from(byte >> 4)]));
            out.push(char::from(DIGITS[usize::from(byte & 15)]));
        }
    }
    out
}
