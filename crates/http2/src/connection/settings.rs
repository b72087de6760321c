//! SETTINGS frames of both directions and what follows from them; it does not know their form.

use super::{Connection, Event};
use crate::error::ConnectionError;
use crate::flood::Cost;
use crate::flow::DEFAULT_WINDOW;
use crate::frame::{self, FrameHeader, HEADER_BYTES, flag, kind};
use crate::settings::{self, OwnSettings, SETTING_BYTES};
use crate::stream::Waiting;

impl Connection {
    /// Sends the first SETTINGS frame and opens the connection's window.
    pub(super) fn send_first_settings(&mut self) {
        let own = OwnSettings {
            header_table_bytes: self.config.header_table_bytes,
            max_concurrent_streams: self.is_server.then_some(self.config.max_streams),
            initial_window_bytes: self.config.stream_window_bytes,
            max_header_list_bytes: u32::try_from(self.config.head.max_head_bytes).unwrap_or(u32::MAX),
            enable_connect_protocol: self.config.extended_connect,
            is_server: self.is_server,
        };
        let out = self.output.buffer();
        let start = out.len();
        frame::write_header(out, 0, kind::SETTINGS, 0, 0);
        own.write(out);
        let length = out.len() - start - HEADER_BYTES;
        // At most eight settings of six bytes: the lowest byte of the length holds it.
        out[start + 2] = length as u8;
        self.unacknowledged = 1;
        self.open_connection_window(DEFAULT_WINDOW, self.config.connection_window_bytes);
    }

    /// Changes the windows of received data: `stream_bytes` of each stream, new and existing,
    /// `connection_bytes` of all. A smaller window of a stream counts once the peer has acknowledged it; the
    /// connection's shrinks as bytes are consumed.
    pub fn set_window_limits(&mut self, stream_bytes: u32, connection_bytes: u32) {
        if self.failure.is_some() {
            return;
        }
        let before = self.config;
        self.config.stream_window_bytes = stream_bytes;
        self.config.connection_window_bytes = connection_bytes;
        self.config = self.config.within_bounds();
        let after = self.config;
        self.open_connection_window(before.connection_window_bytes, after.connection_window_bytes);
        if after.stream_window_bytes != before.stream_window_bytes {
            let out = self.output.buffer();
            frame::write_header(out, SETTING_BYTES, kind::SETTINGS, 0, 0);
            settings::write_initial_window(out, after.stream_window_bytes);
            self.unacknowledged += 1;
            // The peer may use a larger window from the moment that it has read the frame.
            self.enforce_initial_window(after.stream_window_bytes.max(self.receive_initial));
        }
    }

    pub(super) fn settings_frame(
        &mut self,
        header: FrameHeader,
        payload: &[u8],
    ) -> Result<(), ConnectionError> {
        if header.stream != 0 {
            return Err(ConnectionError::protocol("SETTINGS on a stream"));
        }
        self.flood.charge(Cost::Settings)?;
        if header.has(flag::ACK) {
            return self.settings_acknowledged(payload);
        }
        let before = self.peer;
        self.peer.apply(payload, !self.is_server)?;
        if self.peer.header_table_bytes != before.header_table_bytes {
            self.encoder.set_peer_limit(self.peer.header_table_bytes);
        }
        let change = i64::from(self.peer.initial_window_bytes) - i64::from(before.initial_window_bytes);
        if change != 0 {
            self.change_send_windows(change)?;
        }
        frame::write_header(self.output.control(HEADER_BYTES), 0, kind::SETTINGS, flag::ACK, 0);
        self.report(Event::SettingsChanged);
        Ok(())
    }

    fn settings_acknowledged(&mut self, payload: &[u8]) -> Result<(), ConnectionError> {
        if !payload.is_empty() {
            return Err(ConnectionError::frame_size("acknowledgement of SETTINGS with a payload"));
        }
        self.unacknowledged = self
            .unacknowledged
            .checked_sub(1)
            .ok_or(ConnectionError::protocol("acknowledgement of SETTINGS that were not sent"))?;
        if self.unacknowledged == 0 {
            self.enforce_initial_window(self.config.stream_window_bytes);
            self.decoder.set_limit(self.config.header_table_bytes as usize);
        }
        Ok(())
    }

    /// Changes the windows of all streams as RFC 9113 section 6.9.2 says; they may fall below zero.
    fn change_send_windows(&mut self, change: i64) -> Result<(), ConnectionError> {
        for place in 0..self.streams.len() {
            let Some(key) = self.streams.key_at(place) else { continue };
            let Some(stream) = self.streams.get_mut(key) else { continue };
            if !stream.send_window.change(change) {
                return Err(ConnectionError::flow_control("a stream's window exceeds 2^31-1"));
            }
            if stream.waiting == Waiting::Window && stream.send_window.available() > 0 {
                self.enqueue(key);
            }
        }
        Ok(())
    }

    /// Sets the window that the peer's streams have, for existing ones too.
    fn enforce_initial_window(&mut self, bytes: u32) {
        let change = i64::from(bytes) - i64::from(self.receive_initial);
        self.receive_initial = bytes;
        if change == 0 {
            return;
        }
        for place in 0..self.streams.len() {
            if let Some(stream) = self.streams.key_at(place).and_then(|key| self.streams.get_mut(key)) {
                stream.receive_window.change(change);
            }
        }
    }

    /// Changes the window of the connection.
    fn open_connection_window(&mut self, before: u32, after: u32) {
        if after < before {
            return self.receive_window.withhold(before - after);
        }
        let increment = self.receive_window.release(after - before);
        if increment > 0 {
            self.receive_window.change(i64::from(increment));
            frame::write_window_update(self.output.buffer(), 0, increment);
        }
    }
}
