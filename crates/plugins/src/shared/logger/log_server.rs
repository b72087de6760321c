//! A log server at a host and a port, over connections or in datagrams, and batches for it as lists of JSON.
//! It knows no plugin.

use exchange::plugin::batch::{BatchEntry, Delivery, DeliveryFailure, Sink};
use exchange::plugin::outbound::{DATAGRAM_MAX_BYTES, HttpClient};

use super::byte_stream::ByteStream;
use super::collector::json_list;
use super::datagrams::Datagrams;

/// How a log server is reached.
pub(crate) enum LogTransport {
    /// Over connections.
    Stream(ByteStream),
    /// In datagrams.
    Datagrams(Datagrams),
}

/// A log server that takes each batch as a list of JSON.
pub(crate) struct JsonListServer {
    /// How it is reached.
    pub(crate) transport: LogTransport,
    /// A batch is one entry, sent without a list around it.
    pub(crate) is_single: bool,
}

impl JsonListServer {
    async fn send(&self, data: &[u8]) -> Result<(), String> {
        match &self.transport {
            LogTransport::Stream(stream) => stream.send(data).await,
            LogTransport::Datagrams(datagrams) => datagrams.send(data).await,
        }
    }

    /// The most bytes that are sent at once.
    fn max_bytes(&self) -> usize {
        match &self.transport {
            LogTransport::Stream(_) => usize::MAX,
            LogTransport::Datagrams(_) => DATAGRAM_MAX_BYTES,
        }
    }
}

impl Sink for JsonListServer {
    fn deliver<'a>(&'a self, _client: &'a HttpClient, batch: &'a [BatchEntry]) -> Delivery<'a> {
        Box::pin(async move {
            if let ([entry], true) = (batch, self.is_single) {
                return Ok(self.send(entry).await?);
            }
            let (mut delivered, mut begin) = (0, 0);
            let mut too_long = None;
            for part in parts(batch, self.max_bytes()) {
                match self.send(&json_list(part)).await {
                    Ok(()) => delivered += part.len(),
                    // The others of the batch are sent all the same; this one never can be.
                    Err(reason) if list_bytes(part) > self.max_bytes() => too_long = Some(reason),
                    Err(reason) => {
                        let left = (begin..batch.len()).collect();
                        return Err(DeliveryFailure::with_left(delivered, left, reason));
                    }
                }
                begin += part.len();
            }
            match too_long {
                Some(reason) => Err(DeliveryFailure::last_after(delivered, reason)),
                None => Ok(()),
            }
        })
    }
}

/// The bytes of a list of these entries: brackets, and a comma between two.
fn list_bytes(part: &[BatchEntry]) -> usize {
    part.iter().map(|entry| entry.len() + 1).sum::<usize>() + 1
}

/// A batch in parts of at most `max_bytes` bytes; an entry that is too long stands alone.
fn parts(batch: &[BatchEntry], max_bytes: usize) -> Vec<&[BatchEntry]> {
    let mut parts = Vec::new();
    let mut left = batch;
    while !left.is_empty() {
        let mut bytes = 1;
        let count = left.iter().take_while(|entry| {
            bytes += entry.len() + 1;
            bytes <= max_bytes
        });
        let (part, rest) = left.split_at(count.count().max(1));
        parts.push(part);
        left = rest;
    }
    parts
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn entry_that_is_too_long_is_not_sent_again() {
        let services = exchange::testing::services();
        let datagrams = Datagrams::new(&services, "169.254.169.254", 514, 60_000).unwrap();
        let server = JsonListServer { transport: LogTransport::Datagrams(datagrams), is_single: false };
        // Nothing reaches this address, so that the first entry that fits fails.
        let batch = [70_000, 2, 2].map(|bytes| BatchEntry::from(vec![b'x'; bytes]));
        let client = HttpClient::default();
        let failure = net::env::block_on(server.deliver(&client, &batch)).unwrap().unwrap_err();
        assert_eq!((failure.delivered, failure.left), (0, Some(vec![1, 2])));
    }

    #[test]
    fn batch_is_parted_where_a_datagram_ends() {
        let entry = |bytes: usize| BatchEntry::from(vec![b'x'; bytes]);
        let check = |lengths: &[usize], expected: &[usize]| {
            let batch: Vec<BatchEntry> = lengths.iter().map(|bytes| entry(*bytes)).collect();
            let parts = parts(&batch, DATAGRAM_MAX_BYTES);
            assert_eq!(parts.iter().map(|part| part.len()).collect::<Vec<_>>(), expected, "{lengths:?}");
            for part in parts {
                assert_eq!(json_list(part).len(), list_bytes(part), "{lengths:?}");
            }
        };
        check(&[], &[]);
        check(&[2, 2], &[2]);
        check(&[65_505], &[1]);
        check(&[65_506], &[1]);
        check(&[65_502, 2], &[2]);
        check(&[65_503, 2], &[1, 1]);
        check(&[1, 70_000, 1], &[1, 1, 1]);
        assert_eq!(
            [65_505, 65_506].map(|bytes| list_bytes(&[entry(bytes)]) <= DATAGRAM_MAX_BYTES),
            [true, false]
        );
    }
}
