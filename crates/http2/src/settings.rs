//! SETTINGS of both sides (RFC 9113 section 6.5, RFC 8441, RFC 9218): values, ranges and their form. It does
//! not know what follows from a change.

use crate::flow::DEFAULT_WINDOW;
use crate::frame::MAX_31_BITS;
use crate::{ConnectionError, Limits};

const HEADER_TABLE_SIZE: u16 = 0x1;
const ENABLE_PUSH: u16 = 0x2;
const MAX_CONCURRENT_STREAMS: u16 = 0x3;
const INITIAL_WINDOW_SIZE: u16 = 0x4;
const MAX_FRAME_SIZE: u16 = 0x5;
const MAX_HEADER_LIST_SIZE: u16 = 0x6;
const ENABLE_CONNECT_PROTOCOL: u16 = 0x8;
const NO_RFC7540_PRIORITIES: u16 = 0x9;

/// Bytes of one setting in a frame.
pub(crate) const SETTING_BYTES: usize = 6;

/// The settings of the peer that are in force.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct PeerSettings {
    /// Bytes of the table that the peer's decoder keeps.
    pub header_table_bytes: u32,
    /// Streams that this side may have open at the same time.
    pub max_concurrent_streams: u32,
    /// The window of a new stream.
    pub initial_window_bytes: u32,
    /// The largest payload of a frame.
    pub max_frame_bytes: u32,
    /// The largest list of fields that the peer accepts; advice only.
    pub max_header_list_bytes: u32,
    /// Whether extended CONNECT is possible (RFC 8441).
    pub enable_connect_protocol: bool,
    /// Whether the peer ignores the priorities of RFC 7540 (RFC 9218 section 2.1).
    pub no_rfc7540_priorities: bool,
    /// Whether the peer's SETTINGS have arrived.
    pub has_arrived: bool,
}

impl Default for PeerSettings {
    fn default() -> Self {
        Self {
            header_table_bytes: 4096,
            max_concurrent_streams: Limits::STREAMS_BEFORE_SETTINGS,
            initial_window_bytes: DEFAULT_WINDOW,
            max_frame_bytes: Limits::FRAME_BYTES,
            max_header_list_bytes: u32::MAX,
            enable_connect_protocol: false,
            no_rfc7540_priorities: false,
            has_arrived: false,
        }
    }
}

impl PeerSettings {
    /// Takes over the settings of a frame in order. `from_server` says which side sent it.
    ///
    /// # Errors
    /// The size of the frame or a value is out of range.
    pub(crate) fn apply(&mut self, payload: &[u8], from_server: bool) -> Result<(), ConnectionError> {
        let (settings, rest) = payload.as_chunks::<SETTING_BYTES>();
        if !rest.is_empty() {
            return Err(ConnectionError::frame_size("SETTINGS of a length that is no multiple of 6"));
        }
        if !self.has_arrived {
            // Without the setting there is no limit; the one before the first SETTINGS was a precaution.
            self.max_concurrent_streams = u32::MAX;
        }
        for &[high, low, a, b, c, d] in settings {
            self.set(u16::from_be_bytes([high, low]), u32::from_be_bytes([a, b, c, d]), from_server)?;
        }
        self.has_arrived = true;
        Ok(())
    }

    fn set(&mut self, setting: u16, value: u32, from_server: bool) -> Result<(), ConnectionError> {
        let flag = |reason| match value {
            0 => Ok(false),
            1 => Ok(true),
            _ => Err(ConnectionError::protocol(reason)),
        };
        match setting {
            HEADER_TABLE_SIZE => self.header_table_bytes = value,
            ENABLE_PUSH if flag("ENABLE_PUSH is neither 0 nor 1")? && from_server => {
                return Err(ConnectionError::protocol("a server enabled push"));
            }
            ENABLE_PUSH => {}
            MAX_CONCURRENT_STREAMS => self.max_concurrent_streams = value,
            INITIAL_WINDOW_SIZE if value > MAX_31_BITS => {
                return Err(ConnectionError::flow_control("INITIAL_WINDOW_SIZE above 2^31-1"));
            }
            INITIAL_WINDOW_SIZE => self.initial_window_bytes = value,
            MAX_FRAME_SIZE if !(Limits::FRAME_BYTES..1 << 24).contains(&value) => {
                return Err(ConnectionError::protocol("MAX_FRAME_SIZE out of range"));
            }
            MAX_FRAME_SIZE => self.max_frame_bytes = value,
            MAX_HEADER_LIST_SIZE => self.max_header_list_bytes = value,
            ENABLE_CONNECT_PROTOCOL => {
                let enabled = flag("ENABLE_CONNECT_PROTOCOL is neither 0 nor 1")?;
                if self.enable_connect_protocol && !enabled {
                    return Err(ConnectionError::protocol("ENABLE_CONNECT_PROTOCOL was taken back"));
                }
                self.enable_connect_protocol = enabled;
            }
            NO_RFC7540_PRIORITIES => {
                let enabled = flag("NO_RFC7540_PRIORITIES is neither 0 nor 1")?;
                if self.has_arrived && enabled != self.no_rfc7540_priorities {
                    return Err(ConnectionError::protocol("NO_RFC7540_PRIORITIES was changed"));
                }
                self.no_rfc7540_priorities = enabled;
            }
            // RFC 9113 section 6.5.2: unknown settings are ignored.
            _ => {}
        }
        Ok(())
    }
}

/// The settings that this side sends.
#[derive(Debug, Clone, Copy)]
pub(crate) struct OwnSettings {
    pub(crate) header_table_bytes: u32,
    /// A server's limit of streams; none from a client, which takes no streams.
    pub(crate) max_concurrent_streams: Option<u32>,
    pub(crate) initial_window_bytes: u32,
    pub(crate) max_header_list_bytes: u32,
    pub(crate) enable_connect_protocol: bool,
    pub(crate) is_server: bool,
}

impl OwnSettings {
    /// Appends the payload of the first SETTINGS frame: values that differ from the defaults.
    pub(crate) fn write(&self, out: &mut Vec<u8>) {
        if self.header_table_bytes != Limits::HEADER_TABLE_BYTES {
            setting(out, HEADER_TABLE_SIZE, self.header_table_bytes);
        }
        if let Some(streams) = self.max_concurrent_streams {
            setting(out, MAX_CONCURRENT_STREAMS, streams);
        }
        if !self.is_server {
            setting(out, ENABLE_PUSH, 0);
        }
        if self.initial_window_bytes != DEFAULT_WINDOW {
            setting(out, INITIAL_WINDOW_SIZE, self.initial_window_bytes);
        }
        setting(out, MAX_HEADER_LIST_SIZE, self.max_header_list_bytes);
        if self.enable_connect_protocol && self.is_server {
            setting(out, ENABLE_CONNECT_PROTOCOL, 1);
        }
        setting(out, NO_RFC7540_PRIORITIES, 1);
    }
}

/// Appends the setting that changes the window of new streams.
pub(crate) fn write_initial_window(out: &mut Vec<u8>, bytes: u32) {
    setting(out, INITIAL_WINDOW_SIZE, bytes);
}

fn setting(out: &mut Vec<u8>, name: u16, value: u32) {
    out.extend_from_slice(&name.to_be_bytes());
    out.extend_from_slice(&value.to_be_bytes());
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ErrorCode;

    fn apply(settings: &[(u16, u32)], from_server: bool) -> Result<PeerSettings, ErrorCode> {
        let mut payload = Vec::new();
        settings.iter().for_each(|(name, value)| setting(&mut payload, *name, *value));
        let mut peer = PeerSettings::default();
        peer.apply(&payload, from_server).map(|()| peer).map_err(|error| error.code)
    }

    #[test]
    fn ranges_of_values() {
        let protocol = Err(ErrorCode::PROTOCOL_ERROR);
        for (name, value, expected) in [
            (ENABLE_PUSH, 2, protocol),
            (INITIAL_WINDOW_SIZE, MAX_31_BITS + 1, Err(ErrorCode::FLOW_CONTROL_ERROR)),
            (INITIAL_WINDOW_SIZE, MAX_31_BITS, Ok(())),
            (MAX_FRAME_SIZE, 16_383, protocol),
            (MAX_FRAME_SIZE, 16_384, Ok(())),
            (MAX_FRAME_SIZE, (1 << 24) - 1, Ok(())),
            (MAX_FRAME_SIZE, 1 << 24, protocol),
            (ENABLE_CONNECT_PROTOCOL, 2, protocol),
            (NO_RFC7540_PRIORITIES, 2, protocol),
            (HEADER_TABLE_SIZE, u32::MAX, Ok(())),
            (0x7, u32::MAX, Ok(())),
        ] {
            assert_eq!(apply(&[(name, value)], false).map(|_| ()), expected, "{name} {value}");
        }
        assert!(apply(&[(ENABLE_PUSH, 1)], false).is_ok());
        assert_eq!(apply(&[(ENABLE_PUSH, 1)], true).map(|_| ()), protocol);
        assert_eq!(
            apply(&[(ENABLE_CONNECT_PROTOCOL, 1), (ENABLE_CONNECT_PROTOCOL, 0)], true).map(|_| ()),
            protocol
        );
        let odd = PeerSettings::default().apply(&[0; 7], false).unwrap_err();
        assert_eq!(odd.code, ErrorCode::FRAME_SIZE_ERROR);
    }

    #[test]
    fn first_settings_lift_the_precaution() {
        let mut peer = PeerSettings::default();
        assert_eq!(peer.max_concurrent_streams, Limits::STREAMS_BEFORE_SETTINGS);
        peer.apply(&[], true).unwrap();
        assert_eq!((peer.max_concurrent_streams, peer.has_arrived), (u32::MAX, true));
        let changed = [0, NO_RFC7540_PRIORITIES as u8, 0, 0, 0, 1];
        assert_eq!(peer.apply(&changed, true).unwrap_err().code, ErrorCode::PROTOCOL_ERROR);
    }

    #[test]
    fn own_settings_are_read_as_they_were_written() {
        let own = OwnSettings {
            header_table_bytes: 0,
            max_concurrent_streams: Some(7),
            initial_window_bytes: 1,
            max_header_list_bytes: 2,
            enable_connect_protocol: true,
            is_server: true,
        };
        let mut payload = Vec::new();
        own.write(&mut payload);
        let mut peer = PeerSettings::default();
        peer.apply(&payload, true).unwrap();
        assert_eq!((peer.header_table_bytes, peer.max_concurrent_streams), (0, 7));
        assert_eq!((peer.initial_window_bytes, peer.max_header_list_bytes), (1, 2));
        assert!(peer.enable_connect_protocol && peer.no_rfc7540_priorities);
    }
}
