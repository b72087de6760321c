//! The sizes, counts and rates beyond which a peer is refused, each with its reason. It does not know where
//! they are configured and how they are counted.

/// The named limits of this crate. Rates are per [`Limits::RATE_INTERVAL_MS`].
pub struct Limits;

impl Limits {
    /// Payload of a frame, the default and minimum of the protocol: larger frames would delay other streams
    /// and need larger buffers.
    pub const FRAME_BYTES: u32 = 16 * 1024;
    /// Streams that a client may have open by default: a browser opens about 100, and each costs an exchange.
    pub const STREAMS: u32 = 128;
    /// Streams that a server is assumed to allow before its SETTINGS arrive: the least that RFC 9113
    /// recommends.
    pub const STREAMS_BEFORE_SETTINGS: u32 = 100;
    /// Received bytes of one stream that wait for the gateway: at 20 ms of distance about 6 MB/s for one
    /// upload.
    pub const STREAM_WINDOW_BYTES: u32 = 128 * 1024;
    /// Received bytes of all streams of a connection that wait for the gateway: the memory that one client
    /// can hold.
    pub const CONNECTION_WINDOW_BYTES: u32 = 1024 * 1024;
    /// The decoder's table, the default of the protocol.
    pub const HEADER_TABLE_BYTES: u32 = 4096;
    /// A compressed header block. One that is decoded to more than the limit of heads is answered 431; one
    /// that is larger than this before it is decoded ends the connection, because its end would have to be
    /// awaited.
    pub const HEAD_BLOCK_BYTES: usize = 64 * 1024;
    /// CONTINUATION frames of one head: four of the largest size fill [`Limits::HEAD_BLOCK_BYTES`]; many
    /// small ones only cost time (CVE-2024-27316 and its relatives).
    pub const CONTINUATION_FRAMES: u32 = 64;
    /// The same from a server, because other requests share its connection: one block may cost more before
    /// it ends them all.
    pub const SERVER_CONTINUATION_FRAMES: u32 = 1_024;
    /// A compressed header block from a server: up to this size one that is too large ends its stream only,
    /// because it is decoded, so that the table of the connection follows.
    pub const SERVER_HEAD_BLOCK_BYTES: usize = 1024 * 1024;
    /// Interim (1xx) heads before a response: a server commonly sends none or one of them.
    pub const INTERIM_HEADS: u32 = 100;
    /// Interim heads that wait for the gateway behind the first one; further ones are dropped. A server sends
    /// a few of them in one write at most, and a dropped one changes no response.
    pub const WAITING_INTERIM_HEADS: usize = 8;
    /// Bytes that wait in the output before streams have to wait: two writes of a socket with usual buffers.
    pub const OUTPUT_BYTES: usize = 64 * 1024;
    /// Payload that a stream may write before another stream of the same priority has its turn.
    pub const QUANTUM_BYTES: usize = 16 * 1024;
    /// Acknowledgements, resets and window updates that wait in the output: a peer that sends and does not
    /// read would make them grow (CVE-2019-9512, CVE-2019-9515).
    pub const CONTROL_OUTPUT_BYTES: usize = 32 * 1024;
    /// The same of a server, because other requests share its connection: the answers to all that is read at
    /// once, 256 KiB of PING frames, fit twice.
    pub const SERVER_CONTROL_OUTPUT_BYTES: usize = 512 * 1024;
    /// PRIORITY_UPDATE frames kept for streams that do not exist yet (RFC 9218 section 7.1 asks for a bound).
    pub const EARLY_PRIORITIES: usize = 16;
    /// Identifiers of streams that were reset, kept to tell late frames from faults.
    pub const RESET_RECORDS: usize = 128;
    /// Malformed requests that wait for the driver's log; further ones are dropped. As many
    /// as end a connection.
    pub const REFUSED_REQUESTS: usize = 200;
    /// Slots for streams, times the limit of open ones: streams that are complete and not released, for
    /// instance while they are logged, have a slot as well.
    pub const SLOTS_PER_STREAM: usize = 2;

    /// The interval of all rates: long enough for bursts of real clients, short enough to forgive them.
    pub const RATE_INTERVAL_MS: u64 = 10_000;
    /// RST_STREAM frames from the peer for streams that were not complete: a closed browser tab cancels up to
    /// 100; one more for each completed stream. Not counted by clients. Rapid reset (CVE-2023-44487) sends
    /// thousands.
    pub const RATE_PEER_RESETS: u32 = 200;
    /// Resets that faults of the peer made this side send (MadeYouReset, CVE-2025-8671): a client without
    /// faults causes none, except refusals of streams before it knows their limit.
    pub const RATE_LOCAL_RESETS: u32 = 200;
    /// PING frames: gRPC measures its bandwidth with one per round trip, so that frames with data earn more.
    pub const RATE_PINGS: u32 = 500;
    /// SETTINGS frames: ordinary peers send one or two in the life of a connection.
    pub const RATE_SETTINGS: u32 = 50;
    /// PRIORITY and PRIORITY_UPDATE frames: browsers send a few for each stream, so that streams earn more.
    pub const RATE_PRIORITIES: u32 = 500;
    /// WINDOW_UPDATE frames: receivers send up to two for each DATA frame, so that sent DATA earns more.
    pub const RATE_WINDOW_UPDATES: u32 = 2_000;
    /// DATA frames without data, padded ones included, and without END_STREAM (CVE-2019-9518), of all streams
    /// of a client: more than [`Limits::EMPTY_DATA`] of several streams together. DATA with data and
    /// completed streams earn more.
    pub const RATE_EMPTY_DATA: u32 = 2_000;
    /// The same in a row on one stream of a client; one more ends that stream. DATA with data begins the row
    /// anew.
    pub const EMPTY_DATA: u32 = 200;
    /// The same from a server: one with an application that flushes without data sends a few in a row.
    pub const SERVER_EMPTY_DATA: u32 = 1_000;
    /// Frames of unknown types: browsers send a few to keep servers tolerant (RFC 8701).
    pub const RATE_UNKNOWN: u32 = 200;
    /// Frames that are ignored because their stream is closed: bodies on their way when a stream was reset.
    pub const RATE_LATE_FRAMES: u32 = 2_000;
    /// The budget of a server, in budgets of a client: a server was configured, and requests of many clients
    /// share its connection.
    pub const SERVER_RATE: u32 = 10;
    /// Budgets that a server uses up before its connection fails. Beyond the first one the connection takes
    /// no further request, so that those on it can end.
    pub const SERVER_BUDGETS: u64 = 10;
}
