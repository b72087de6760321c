//! SETTINGS of both sides (RFC 9114 section 7.2.4, RFC 9204 section 5, RFC 9220, RFC 9297): values, ranges
//! and their form. It does not know what follows from them.

use crate::frame::{self, kind};
use crate::{Config, ConnectionError, ErrorCode, Limits, varint};

const QPACK_MAX_TABLE_CAPACITY: u64 = 0x1;
const MAX_FIELD_SECTION_SIZE: u64 = 0x6;
const QPACK_BLOCKED_STREAMS: u64 = 0x7;
const ENABLE_CONNECT_PROTOCOL: u64 = 0x8;
const H3_DATAGRAM: u64 = 0x33;

/// The settings of the peer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSettings {
    /// The largest field section that the peer accepts, counted with 32 bytes for each field besides its name
    /// and value; advice only.
    pub max_field_section_bytes: u64,
    /// Bytes of the table that the peer's decoder offers. This side never uses it.
    pub qpack_table_bytes: u64,
    /// Whether extended CONNECT is possible (RFC 9220).
    pub enable_connect_protocol: bool,
    /// Whether the peer takes datagrams (RFC 9297). This side sends none.
    pub h3_datagram: bool,
    /// Whether the peer's SETTINGS have arrived.
    pub has_arrived: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            max_field_section_bytes: varint::MAX,
            qpack_table_bytes: 0,
            enable_connect_protocol: false,
            h3_datagram: false,
            has_arrived: false,
        }
    }
}

impl PeerSettings {
    /// Reads the payload of the SETTINGS frame.
    ///
    /// # Errors
    /// The payload ends inside a setting, or a setting is faulty, doubled, or one of HTTP/2.
    pub(crate) fn read(payload: &[u8]) -> Result<Self, ConnectionError> {
        let mut settings = Self { has_arrived: true, ..Self::default() };
        let (mut seen, mut count, mut rest) = ([0; Limits::SETTINGS], 0, payload);
        while !rest.is_empty() {
            let setting = varint::read(&mut rest).zip(varint::read(&mut rest));
            let (name, value) = setting.ok_or(ConnectionError::frame("SETTINGS end inside a setting"))?;
            if seen[..count].contains(&name) {
                return Err(fault("a setting is repeated"));
            }
            *seen.get_mut(count).ok_or(ConnectionError::load("too many settings"))? = name;
            count += 1;
            settings.set(name, value)?;
        }
        Ok(settings)
    }

    fn set(&mut self, name: u64, value: u64) -> Result<(), ConnectionError> {
        let flag = |reason| match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(fault(reason)),
        };
        match name {
            QPACK_MAX_TABLE_CAPACITY => self.qpack_table_bytes = value,
            MAX_FIELD_SECTION_SIZE => self.max_field_section_bytes = value,
            ENABLE_CONNECT_PROTOCOL => {
                self.enable_connect_protocol = flag("ENABLE_CONNECT_PROTOCOL is neither 0 nor 1")?;
            }
            H3_DATAGRAM => self.h3_datagram = flag("H3_DATAGRAM is neither 0 nor 1")?,
            // RFC 9114 section 7.2.4.1 and 11.2.2.
            0x0 | 0x2..=0x5 => return Err(fault("a setting of HTTP/2")),
            // QPACK_BLOCKED_STREAMS limits what this side never does; unknown settings are ignored.
            _ => {}
        }
        Ok(())
    }
}

/// Appends the SETTINGS frame of this side, with a setting and a frame that receivers ignore if the
/// configuration asks for it.
pub(crate) fn write_settings(out: &mut Vec<u8>, config: &Config, is_server: bool) {
    let mut payload = Vec::with_capacity(32);
    let mut set = |name: u64, value: u64| {
        varint::write_varint(&mut payload, name);
        varint::write_varint(&mut payload, value);
    };
    set(MAX_FIELD_SECTION_SIZE, config.head.max_head_bytes as u64);
    set(QPACK_MAX_TABLE_CAPACITY, 0);
    set(QPACK_BLOCKED_STREAMS, 0);
    if is_server && config.extended_connect {
        set(ENABLE_CONNECT_PROTOCOL, 1);
    }
    if let Some(random) = config.grease {
        set(frame::reserved(random), random >> 40);
    }
    varint::write_varint(out, kind::SETTINGS);
    varint::write_varint(out, payload.len() as u64);
    out.extend_from_slice(&payload);
    if let Some(random) = config.grease {
        varint::write_varint(out, frame::reserved(random.rotate_left(32)));
        varint::write_varint(out, 0);
    }
}

const fn fault(reason: &'static str) -> ConnectionError {
    ConnectionError::new(ErrorCode::SETTINGS_ERROR, reason)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn payload(settings: &[(u64, u64)]) -> Vec<u8> {
        let mut payload = Vec::new();
        for &(name, value) in settings {
            varint::write_varint(&mut payload, name);
            varint::write_varint(&mut payload, value);
        }
        payload
    }

    #[test]
    fn settings_are_read() {
        let good = payload(&[(6, 9000), (1, 4096), (7, 16), (8, 1), (0x33, 1), (0x21, 7), (0xf00, 1)]);
        let expected = PeerSettings {
            max_field_section_bytes: 9000,
            qpack_table_bytes: 4096,
            enable_connect_protocol: true,
            h3_datagram: true,
            has_arrived: true,
        };
        assert_eq!(PeerSettings::read(&good), Ok(expected));
        assert_eq!(PeerSettings::read(&[]).map(|settings| settings.has_arrived), Ok(true));
    }

    #[test]
    fn faulty_settings_are_refused() {
        let code = |payload: &[u8]| PeerSettings::read(payload).unwrap_err().code;
        for settings in [&[(0, 0)][..], &[(2, 0)], &[(3, 1)], &[(4, 1)], &[(5, 1)], &[(8, 2)], &[(0x33, 2)]] {
            assert_eq!(code(&payload(settings)), ErrorCode::SETTINGS_ERROR, "{settings:?}");
        }
        assert_eq!(code(&payload(&[(6, 1), (0x21, 0), (6, 1)])), ErrorCode::SETTINGS_ERROR);
        assert_eq!(code(&payload(&[(0x21, 1), (0x21, 1)])), ErrorCode::SETTINGS_ERROR);
        assert_eq!(code(&[6]), ErrorCode::FRAME_ERROR);
        assert_eq!(code(&[6, 0x40]), ErrorCode::FRAME_ERROR);
        let many: Vec<_> = (0..=Limits::SETTINGS as u64).map(|at| (0x100 + at, 0)).collect();
        assert!(PeerSettings::read(&payload(&many[1..])).is_ok());
        assert_eq!(code(&payload(&many)), ErrorCode::EXCESSIVE_LOAD);
    }

    #[test]
    fn written_settings_are_read() {
        for grease in [None, Some(0), Some(u64::MAX)] {
            let config = Config { grease, ..Config::default() };
            let mut out = Vec::new();
            write_settings(&mut out, &config, true);
            let mut rest = &out[..];
            let header = frame::read_header(&mut rest).unwrap();
            assert_eq!(header.kind, kind::SETTINGS);
            let (payload, mut rest) = rest.split_at(header.length as usize);
            let settings = PeerSettings::read(payload).unwrap();
            assert_eq!(settings.max_field_section_bytes, config.head.max_head_bytes as u64);
            assert_eq!((settings.qpack_table_bytes, settings.enable_connect_protocol), (0, true));
            assert!(!settings.h3_datagram);
            if grease.is_some() {
                let unknown = frame::read_header(&mut rest).unwrap();
                assert_eq!(((unknown.kind - 0x21) % 0x1f, unknown.length), (0, 0));
            }
            assert!(rest.is_empty());
        }
    }
}
