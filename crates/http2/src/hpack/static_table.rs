//! The static table of RFC 7541 appendix A, with the numbers of the names; it does not know the dynamic
//! table.

use message::FieldId::{self, Other};

/// An entry: name, value (empty for none), and the number of the name.
pub(super) type StaticEntry = (&'static str, &'static str, FieldId);

/// Number of entries; dynamic entries have the indices behind them.
pub(super) const LENGTH: usize = 61;

/// The entry of an index from 1 to [`LENGTH`].
#[inline]
pub(super) fn get(index: usize) -> Option<&'static StaticEntry> {
    TABLE.get(index.wrapping_sub(1))
}

/// The index of the first entry of a known name, zero when there is none.
#[inline]
pub(super) fn index_of(id: FieldId) -> usize {
    usize::from(BY_ID[id as usize & 0x7F])
}

pub(super) const AUTHORITY: usize = 1;
pub(super) const METHOD: usize = 2;
pub(super) const PATH: usize = 4;
pub(super) const SCHEME: usize = 6;
pub(super) const STATUS: usize = 8;
/// `accept-encoding: gzip, deflate`, the only regular field with a value.
pub(super) const ACCEPT_ENCODING_GZIP_DEFLATE: usize = 16;

static BY_ID: [u8; 128] = by_id();

const fn by_id() -> [u8; 128] {
    let mut table = [0; 128];
    let mut index = LENGTH;
    while index > 0 {
        let id = TABLE_VALUES[index - 1].2;
        if !matches!(id, Other) {
            table[id as usize] = index as u8;
        }
        index -= 1;
    }
    table
}

static TABLE: [StaticEntry; LENGTH] = TABLE_VALUES;
const TABLE_VALUES: [StaticEntry; LENGTH] = [
    (":authority", "", Other),
    (":method", "GET", Other),
    (":method", "POST", Other),
    (":path", "/", Other),
    (":path", "/index.html", Other),
    (":scheme", "http", Other),
    (":scheme", "https", Other),
    (":status", "200", Other),
    (":status", "204", Other),
    (":status", "206", Other),
    (":status", "304", Other),
    (":status", "400", Other),
    (":status", "404", Other),
    (":status", "500", Other),
    ("accept-charset", "", Other),
    ("accept-encoding", "gzip, deflate", FieldId::AcceptEncoding),
    ("accept-language", "", FieldId::AcceptLanguage),
    ("accept-ranges", "", Other),
    ("accept", "", FieldId::Accept),
    ("access-control-allow-origin", "", FieldId::AccessControlAllowOrigin),
    ("age", "", FieldId::Age),
    ("allow", "", FieldId::Allow),
    ("authorization", "", FieldId::Authorization),
    ("cache-control", "", FieldId::CacheControl),
    ("content-disposition", "", Other),
    ("content-encoding", "", FieldId::ContentEncoding),
    ("content-language", "", Other),
    ("content-length", "", FieldId::ContentLength),
    ("content-location", "", Other),
    ("content-range", "", FieldId::ContentRange),
    ("content-type", "", FieldId::ContentType),
    ("cookie", "", FieldId::Cookie),
    ("date", "", FieldId::Date),
    ("etag", "", FieldId::Etag),
    ("expect", "", FieldId::Expect),
    ("expires", "", FieldId::Expires),
    ("from", "", Other),
    ("host", "", FieldId::Host),
    ("if-match", "", FieldId::IfMatch),
    ("if-modified-since", "", FieldId::IfModifiedSince),
    ("if-none-match", "", FieldId::IfNoneMatch),
    ("if-range", "", Other),
    ("if-unmodified-since", "", Other),
    ("last-modified", "", FieldId::LastModified),
    ("link", "", Other),
    ("location", "", FieldId::Location),
    ("max-forwards", "", Other),
    ("proxy-authenticate", "", FieldId::ProxyAuthenticate),
    ("proxy-authorization", "", FieldId::ProxyAuthorization),
    ("range", "", FieldId::Range),
    ("referer", "", FieldId::Referer),
    ("refresh", "", Other),
    ("retry-after", "", FieldId::RetryAfter),
    ("server", "", FieldId::Server),
    ("set-cookie", "", FieldId::SetCookie),
    ("strict-transport-security", "", FieldId::StrictTransportSecurity),
    ("transfer-encoding", "", FieldId::TransferEncoding),
    ("user-agent", "", FieldId::UserAgent),
    ("vary", "", FieldId::Vary),
    ("via", "", FieldId::Via),
    ("www-authenticate", "", FieldId::WwwAuthenticate),
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_of_names_agree_with_message() {
        for (at, (name, _, id)) in TABLE.iter().enumerate() {
            assert_eq!(FieldId::of(name.as_bytes()), *id, "{name}");
            if *id != Other {
                let index = index_of(*id);
                assert_eq!(get(index).unwrap().0, *name);
                assert!(index <= at + 1);
            }
        }
        assert_eq!(index_of(Other), 0);
        assert_eq!(index_of(FieldId::XRealIp), 0);
        assert!(get(0).is_none() && get(LENGTH + 1).is_none());
        let named = [AUTHORITY, METHOD, PATH, SCHEME, STATUS, ACCEPT_ENCODING_GZIP_DEFLATE];
        let names = [":authority", ":method", ":path", ":scheme", ":status", "accept-encoding"];
        assert_eq!(named.map(|index| get(index).unwrap().0), names);
    }
}
