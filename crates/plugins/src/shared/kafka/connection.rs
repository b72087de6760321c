//! A connection to one broker: opened, logged in, and one request at a time.

use std::io;
use std::sync::Arc;

use exchange::plugin::outbound::{OutboundCause, OutboundError, OutboundStream, StreamDestination};
use net::env;
use tokio::sync::Mutex;

use super::sasl::{self, ScramLogin};
use super::settings::{Mechanism, SaslConfig};
use super::wire::{self, KafkaRefusal, KafkaRequest, ReplyFault};
use crate::shared::side_thread;

/// The longest reply that is read: the metadata of a topic with tens of thousands of partitions.
const REPLY_MAX_BYTES: usize = 4 * 1024 * 1024;
/// How often the address of a broker with a new name is looked for, in milliseconds.
const LOOKUP_POLL_MS: u64 = 20;

/// Why a request to a broker failed.
#[derive(Debug)]
pub(super) enum BrokerFault {
    /// No connection, no reply in time, or a reply that makes no sense: a sentence with the place.
    Lost(String),
    /// The broker refuses.
    Refused(KafkaRefusal),
}

/// A broker, with its connection while there is one.
pub(super) struct KafkaBroker {
    destination: StreamDestination,
    pub(super) sasl: Option<Arc<SaslConfig>>,
    place: String,
    timeout_ms: u64,
    connection: Mutex<Option<KafkaConnection>>,
}

struct KafkaConnection {
    stream: OutboundStream,
    correlation: i32,
}

impl KafkaBroker {
    pub(super) fn new(
        place: String,
        destination: StreamDestination,
        sasl: Option<Arc<SaslConfig>>,
        timeout_ms: u64,
    ) -> KafkaBroker {
        KafkaBroker { destination, sasl, place, timeout_ms, connection: Mutex::new(None) }
    }

    /// `HOST:PORT`.
    pub(super) fn place(&self) -> &str {
        &self.place
    }

    /// The reply to `request`, as `read` understands it; an empty one where the broker sends none. Requests
    /// of several tasks take turns.
    pub(super) async fn call<T>(
        &self,
        request: &KafkaRequest,
        has_reply: bool,
        read: impl FnOnce(&[u8]) -> Result<T, ReplyFault>,
    ) -> Result<T, BrokerFault> {
        let mut kept = self.connection.lock().await;
        // Taken out: a call that fails, or is given up in the middle, leaves no connection behind.
        let usable = kept.take().and_then(|mut kept| kept.stream.is_quiet().then_some(kept));
        let mut connection = match usable {
            Some(connection) => connection,
            None => self.open().await?,
        };
        let reply = self.ask(&mut connection, request, has_reply).await?;
        let outcome = self.read(read(&reply));
        if !matches!(outcome, Err(BrokerFault::Lost(_))) {
            *kept = Some(connection);
        }
        outcome
    }

    async fn open(&self) -> Result<KafkaConnection, BrokerFault> {
        let stream = self.connect().await.map_err(|error| BrokerFault::Lost(error.to_string()))?;
        let mut connection = KafkaConnection { stream, correlation: 0 };
        if let Some(sasl) = &self.sasl {
            self.log_in(&mut connection, sasl).await?;
        }
        Ok(connection)
    }

    /// A name that metadata has just named is not looked up yet, so that its address is waited for.
    async fn connect(&self) -> Result<OutboundStream, OutboundError> {
        let mut waited_ms = 0;
        loop {
            match self.destination.connect(self.timeout_ms).await {
                Err(error) if error.cause == OutboundCause::NoAddress && waited_ms < self.timeout_ms => {
                    env::sleep_ms(LOOKUP_POLL_MS).await;
                    waited_ms += LOOKUP_POLL_MS;
                }
                outcome => return outcome,
            }
        }
    }

    async fn log_in(&self, connection: &mut KafkaConnection, sasl: &SaslConfig) -> Result<(), BrokerFault> {
        let handshake = KafkaRequest::sasl_handshake(sasl.mechanism.word());
        let reply = self.ask(connection, &handshake, true).await?;
        self.read(wire::read_sasl_handshake(&reply))?;
        if sasl.mechanism == Mechanism::Plain {
            return self.authenticate(connection, sasl::encode_sasl_plain(sasl)).await.map(drop);
        }
        let login = ScramLogin::begin(sasl).expect("every mechanism but PLAIN is SCRAM");
        let server_first = self.authenticate(connection, login.first()).await?;
        let proof = side_thread::run_on_side_thread(move || login.prove(&server_first)).await;
        let proof = proof.map_err(str::to_owned).flatten().map_err(|reason| self.lost(&reason))?;
        let server_final = self.authenticate(connection, proof.message.clone()).await?;
        proof.confirm(&server_final).map_err(|reason| self.lost(&reason))
    }

    async fn authenticate(
        &self,
        connection: &mut KafkaConnection,
        token: Vec<u8>,
    ) -> Result<Vec<u8>, BrokerFault> {
        let reply = self.ask(connection, &KafkaRequest::sasl_authenticate(token), true).await?;
        self.read(wire::read_sasl_authenticate(&reply))
    }

    async fn ask(
        &self,
        connection: &mut KafkaConnection,
        request: &KafkaRequest,
        has_reply: bool,
    ) -> Result<Vec<u8>, BrokerFault> {
        connection.correlation = connection.correlation.wrapping_add(1);
        let frame = request.frame(connection.correlation);
        let exchange = async {
            connection.stream.write_all(&frame, self.timeout_ms).await?;
            if has_reply { read_reply(&mut connection.stream, self.timeout_ms).await } else { Ok(Vec::new()) }
        };
        // A peer that sends a byte at a time stays within the limit of each read, so that the whole has one
        // too.
        let reply = tokio::select! {
            biased;
            reply = exchange => reply,
            () = env::sleep_ms(self.timeout_ms.saturating_mul(2)) => Err(io::ErrorKind::TimedOut.into()),
        };
        let reply = reply.map_err(|error| BrokerFault::Lost(self.destination.broken(&error).to_string()))?;
        if !has_reply {
            return Ok(reply);
        }
        let (correlation, body) = self.read(wire::read_correlation(&reply))?;
        if correlation != connection.correlation {
            return Err(self.lost("a reply to another request"));
        }
        Ok(body.to_vec())
    }

    /// A reply as it was read, or the fault with its place.
    fn read<T>(&self, read: Result<T, ReplyFault>) -> Result<T, BrokerFault> {
        read.map_err(|fault| match fault {
            ReplyFault::Malformed => self.lost("a malformed reply"),
            ReplyFault::Refused(refusal) => BrokerFault::Refused(refusal),
        })
    }

    fn lost(&self, reason: &str) -> BrokerFault {
        BrokerFault::Lost(format!("{}: {reason}", self.place))
    }
}

async fn read_reply(stream: &mut OutboundStream, timeout_ms: u64) -> io::Result<Vec<u8>> {
    let mut length = [0; 4];
    read_exact(stream, &mut length, timeout_ms).await?;
    let length = usize::try_from(i32::from_be_bytes(length)).unwrap_or(usize::MAX);
    if length > REPLY_MAX_BYTES {
        return Err(io::Error::new(io::ErrorKind::InvalidData, "a reply that is too long"));
    }
    let mut reply = vec![0; length];
    read_exact(stream, &mut reply, timeout_ms).await?;
    Ok(reply)
}

async fn read_exact(stream: &mut OutboundStream, mut room: &mut [u8], timeout_ms: u64) -> io::Result<()> {
    while !room.is_empty() {
        let count = stream.read(room, timeout_ms).await?;
        if count == 0 {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        room = &mut room[count..];
    }
    Ok(())
}
