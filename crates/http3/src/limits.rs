//! The sizes, counts and rates beyond which a peer is refused, each with its reason. It does not know where
//! they are configured and how they are counted.

/// The named limits of this crate. Rates are per [`Limits::RATE_INTERVAL_MS`].
pub struct Limits;

impl Limits {
    /// Requests that a client may have open, for the transport's limit of bidirectional streams: as in
    /// HTTP/2. A client's transport allows none, because servers open none.
    pub const STREAMS: u32 = 128;
    /// Unidirectional streams that a peer may have open, for the transport's limit: control, both of QPACK,
    /// and a few of unknown types, which browsers open to keep servers tolerant. They are stopped at once.
    pub const UNI_STREAMS: u32 = 8;
    /// Payload of a HEADERS frame. One that is decoded to more than the limit of heads, or is larger than
    /// this or that limit before it is decoded, is answered 431.
    pub const HEAD_BLOCK_BYTES: usize = 64 * 1024;
    /// Payload of a frame of the control stream: the longest are SETTINGS, of which ordinary peers send ten
    /// at most.
    pub const CONTROL_FRAME_BYTES: u64 = 4096;
    /// Settings in a SETTINGS frame: a dozen are registered, and browsers add one to keep servers tolerant.
    pub const SETTINGS: usize = 64;
    /// Payload of a frame of unknown type, which is dropped: browsers send a few bytes. A longer one would be
    /// a body that no limit of bodies sees.
    pub const UNKNOWN_FRAME_BYTES: u64 = 16 * 1024;
    /// Interim (1xx) heads before a response: a server commonly sends none or one of them.
    pub const INTERIM_HEADS: u32 = 100;
    /// PRIORITY_UPDATE frames kept for streams that do not exist yet (RFC 9218 section 7.2 asks for a bound).
    pub const EARLY_PRIORITIES: usize = 16;
    /// Time until SETTINGS of the peer arrive: both sides send them at once (RFC 9114 section 6.2.1), and the
    /// transport repeats them when they are lost.
    pub const SETTINGS_TIMEOUT_MS: u64 = 10_000;

    /// The interval of all rates: long enough for bursts of real clients, short enough to forgive them.
    pub const RATE_INTERVAL_MS: u64 = 10_000;
    /// Streams that the peer resets or stops before they are complete: a closed browser tab cancels up to
    /// 100; one more for each completed stream. Not counted by clients. Rapid reset (CVE-2023-44487) sends
    /// thousands.
    pub const RATE_PEER_RESETS: u32 = 200;
    /// Resets that faults of the peer made this side send: a client without faults causes none.
    pub const RATE_LOCAL_RESETS: u32 = 200;
    /// GOAWAY and MAX_PUSH_ID frames: ordinary peers send one or two in the life of a connection.
    pub const RATE_CONTROL: u32 = 50;
    /// PRIORITY_UPDATE frames: browsers send a few for each stream, so that streams earn more.
    pub const RATE_PRIORITIES: u32 = 500;
    /// DATA frames without data (CVE-2019-9518 of HTTP/2), of all streams: more than [`Limits::EMPTY_DATA`]
    /// of several streams together. DATA with data and completed requests earn more.
    pub const RATE_EMPTY_DATA: u32 = 2_000;
    /// The same in a row on one stream; one more ends that stream. DATA with data begins the row anew.
    pub const EMPTY_DATA: u32 = 200;
    /// Frames of unknown types: browsers send a few to keep servers tolerant (RFC 9114 section 7.2.8).
    pub const RATE_UNKNOWN_FRAMES: u32 = 200;
    /// Unidirectional streams of unknown types: each costs a stream of the transport, and browsers open one
    /// or two.
    pub const RATE_UNKNOWN_STREAMS: u32 = 50;
    /// Instructions of QPACK that have no effect: stream cancellations, of which peers send one for each
    /// reset stream.
    pub const RATE_INSTRUCTIONS: u32 = 500;
}
