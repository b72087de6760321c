//! The bytes of requests and replies: whole frames out, and the fields of replies in. It opens no connection.

use std::collections::BTreeMap;

use bytes::{BufMut, Bytes, BytesMut};
use kafka_protocol::error::ParseResponseErrorCode;
use kafka_protocol::indexmap::IndexMap;
use kafka_protocol::messages::metadata_request::MetadataRequestTopic;
use kafka_protocol::messages::produce_request::{PartitionProduceData, TopicProduceData};
use kafka_protocol::messages::{
    ApiKey, MetadataRequest, ProduceRequest, RequestHeader, SaslAuthenticateRequest, SaslHandshakeRequest,
    TopicName,
};
use kafka_protocol::protocol::{Encodable, StrBytes};
use kafka_protocol::records::{
    Compression, NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Record, RecordBatchEncoder,
    RecordEncodeOptions, TimestampType,
};

/// A request that can be written.
pub(super) struct KafkaRequest {
    api: ApiKey,
    /// The version of the request and of its reply.
    version: i16,
    body: BytesMut,
}

/// The leaders of a topic.
#[derive(Debug, PartialEq, Eq)]
pub(super) struct KafkaMetadata {
    /// Host and port of each broker, by its number.
    pub(super) brokers: BTreeMap<i32, (String, u16)>,
    /// The number of the leader of each partition; none while there is none.
    pub(super) leaders: BTreeMap<i32, Option<i32>>,
}

/// Why a reply is of no use.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ReplyFault {
    /// It is malformed or ends too early.
    Malformed,
    /// The broker refuses.
    Refused(KafkaRefusal),
}

/// A refusal of a broker.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct KafkaRefusal {
    /// Its name and perhaps the broker's text.
    pub(super) text: String,
    /// Whether another attempt, with fresh metadata, may succeed.
    pub(super) may_pass: bool,
}

/// Bytes of a broker's text that messages repeat.
const TEXT_MAX_BYTES: usize = 200;

impl KafkaRefusal {
    fn of(code: i16, text: Option<&str>) -> Option<KafkaRefusal> {
        let error = code.err()?;
        let text: String = text.unwrap_or_default().chars().take(TEXT_MAX_BYTES).collect();
        let text = if text.is_empty() { format!("{error:?}") } else { format!("{error:?}: {text}") };
        Some(KafkaRefusal { text, may_pass: error.is_retriable() })
    }
}

impl KafkaRequest {
    fn new(api: ApiKey, version: i16, message: &impl Encodable) -> KafkaRequest {
        let mut body = BytesMut::new();
        // It fails only for fields that the version does not have, and for lengths beyond 2 GiB.
        message.encode(&mut body, version).expect("the version has these fields");
        KafkaRequest { api, version, body }
    }

    /// Asks which brokers lead the partitions of `topic`; a broker that makes topics on demand makes it.
    pub(super) fn metadata(topic: &str) -> KafkaRequest {
        let topic = MetadataRequestTopic::default().with_name(Some(topic_name(topic)));
        let message =
            MetadataRequest::default().with_topics(Some(vec![topic])).with_allow_auto_topic_creation(true);
        KafkaRequest::new(ApiKey::Metadata, 4, &message)
    }

    /// Writes messages to partitions.
    pub(super) fn produce(
        topic: &str,
        acks: i16,
        timeout_ms: u64,
        partitions: &[(i32, Vec<(usize, Bytes)>)],
        key: Option<&Bytes>,
        now_ms: i64,
    ) -> KafkaRequest {
        let data = partitions.iter().map(|(partition, values)| {
            PartitionProduceData::default()
                .with_index(*partition)
                .with_records(Some(record_batch(values, key, now_ms)))
        });
        let topic =
            TopicProduceData::default().with_name(topic_name(topic)).with_partition_data(data.collect());
        let message = ProduceRequest::default()
            .with_acks(acks)
            .with_timeout_ms(i32::try_from(timeout_ms).unwrap_or(i32::MAX))
            .with_topic_data(vec![topic]);
        KafkaRequest::new(ApiKey::Produce, 3, &message)
    }

    /// Names the mechanism of the login that follows.
    pub(super) fn sasl_handshake(mechanism: &'static str) -> KafkaRequest {
        let message = SaslHandshakeRequest::default().with_mechanism(StrBytes::from_static_str(mechanism));
        KafkaRequest::new(ApiKey::SaslHandshake, 1, &message)
    }

    /// A message of a login.
    pub(super) fn sasl_authenticate(token: Vec<u8>) -> KafkaRequest {
        let message = SaslAuthenticateRequest::default().with_auth_bytes(token.into());
        KafkaRequest::new(ApiKey::SaslAuthenticate, 0, &message)
    }

    /// The frame, with its length in front.
    pub(super) fn frame(&self, correlation: i32) -> Vec<u8> {
        let header = RequestHeader::default()
            .with_request_api_key(self.api as i16)
            .with_request_api_version(self.version)
            .with_correlation_id(correlation)
            .with_client_id(Some(StrBytes::from_static_str(CLIENT_ID)));
        let mut head = BytesMut::new();
        header.encode(&mut head, 1).expect("the version has these fields");
        let length = head.len() + self.body.len();
        let mut frame = Vec::with_capacity(4 + length);
        frame.put_i32(i32::try_from(length).expect("batches are bounded far below 2 GiB"));
        frame.extend_from_slice(&head);
        frame.extend_from_slice(&self.body);
        frame
    }
}

fn topic_name(topic: &str) -> TopicName {
    TopicName(StrBytes::from_string(topic.to_owned()))
}

fn record_batch(values: &[(usize, Bytes)], key: Option<&Bytes>, now_ms: i64) -> Bytes {
    let records: Vec<Record> = (0_i32..)
        .zip(values)
        .map(|(index, (_, value))| Record {
            transactional: false,
            control: false,
            delete_horizon: false,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            timestamp_type: TimestampType::Creation,
            offset: index.into(),
            // Records stand in one batch as long as this follows the offset; that of the batch is then -1,
            // none.
            sequence: index - 1,
            timestamp: now_ms,
            key: key.cloned(),
            value: Some(value.clone()),
            headers: IndexMap::new(),
        })
        .collect();
    let options = RecordEncodeOptions { version: 2, compression: Compression::None };
    let mut batch = BytesMut::new();
    RecordBatchEncoder::encode(&mut batch, &records, &options).expect("batches are bounded far below 2 GiB");
    batch.freeze()
}

/// The reply to [`KafkaRequest::metadata`].
pub(super) fn read_metadata(reply: &[u8], topic: &str) -> Result<KafkaMetadata, ReplyFault> {
    let mut fields = KafkaReplyReader(reply);
    fields.i32()?;
    let mut brokers = BTreeMap::new();
    for _ in 0..fields.count()? {
        let number = fields.i32()?;
        let host = fields.text()?.unwrap_or_default().to_owned();
        let port = u16::try_from(fields.i32()?).map_err(|_| ReplyFault::Malformed)?;
        fields.text()?;
        brokers.insert(number, (host, port));
    }
    fields.text()?;
    fields.i32()?;
    for _ in 0..fields.count()? {
        let code = fields.i16()?;
        let is_asked = fields.text()? == Some(topic);
        fields.take(1)?;
        let leaders = leaders(&mut fields)?;
        if !is_asked {
            continue;
        }
        return match KafkaRefusal::of(code, None) {
            Some(refusal) => Err(ReplyFault::Refused(refusal)),
            None => Ok(KafkaMetadata { brokers, leaders }),
        };
    }
    Err(ReplyFault::Malformed)
}

fn leaders(fields: &mut KafkaReplyReader<'_>) -> Result<BTreeMap<i32, Option<i32>>, ReplyFault> {
    let mut leaders = BTreeMap::new();
    for _ in 0..fields.count()? {
        fields.i16()?;
        let partition = fields.i32()?;
        let leader = fields.i32()?;
        for _ in 0..2 {
            let replicas = fields.count()?;
            fields.take(replicas.checked_mul(4).ok_or(ReplyFault::Malformed)?)?;
        }
        leaders.insert(partition, (leader >= 0).then_some(leader));
    }
    Ok(leaders)
}

/// The reply to [`KafkaRequest::produce`]: the partitions that refused, with why.
pub(super) fn read_produced(reply: &[u8]) -> Result<BTreeMap<i32, KafkaRefusal>, ReplyFault> {
    let mut fields = KafkaReplyReader(reply);
    let mut refused = BTreeMap::new();
    for _ in 0..fields.count()? {
        fields.text()?;
        for _ in 0..fields.count()? {
            let partition = fields.i32()?;
            let code = fields.i16()?;
            fields.take(16)?;
            if let Some(refusal) = KafkaRefusal::of(code, None) {
                refused.insert(partition, refusal);
            }
        }
    }
    Ok(refused)
}

/// The reply to [`KafkaRequest::sasl_handshake`].
pub(super) fn read_sasl_handshake(reply: &[u8]) -> Result<(), ReplyFault> {
    match KafkaRefusal::of(KafkaReplyReader(reply).i16()?, None) {
        Some(refusal) => Err(ReplyFault::Refused(refusal)),
        None => Ok(()),
    }
}

/// The reply to [`KafkaRequest::sasl_authenticate`]: the server's message.
pub(super) fn read_sasl_authenticate(reply: &[u8]) -> Result<Vec<u8>, ReplyFault> {
    let mut fields = KafkaReplyReader(reply);
    let code = fields.i16()?;
    let text = fields.text()?;
    if let Some(refusal) = KafkaRefusal::of(code, text) {
        return Err(ReplyFault::Refused(refusal));
    }
    let length = fields.count()?;
    fields.take(length).map(<[u8]>::to_vec)
}

/// The number that the reply repeats, and the rest.
pub(super) fn read_correlation(reply: &[u8]) -> Result<(i32, &[u8]), ReplyFault> {
    let mut fields = KafkaReplyReader(reply);
    Ok((fields.i32()?, fields.0))
}

/// The fields of a reply that are not read yet.
struct KafkaReplyReader<'a>(&'a [u8]);

impl<'a> KafkaReplyReader<'a> {
    fn take(&mut self, count: usize) -> Result<&'a [u8], ReplyFault> {
        let (taken, rest) = self.0.split_at_checked(count).ok_or(ReplyFault::Malformed)?;
        self.0 = rest;
        Ok(taken)
    }

    fn array<const N: usize>(&mut self) -> Result<[u8; N], ReplyFault> {
        Ok(self.take(N)?.try_into().expect("so many were taken"))
    }

    fn i16(&mut self) -> Result<i16, ReplyFault> {
        self.array().map(i16::from_be_bytes)
    }

    fn i32(&mut self) -> Result<i32, ReplyFault> {
        self.array().map(i32::from_be_bytes)
    }

    /// The number of items of a list. A claimed number is only counted up to: each item takes bytes.
    fn count(&mut self) -> Result<usize, ReplyFault> {
        usize::try_from(self.i32()?).map_err(|_| ReplyFault::Malformed)
    }

    fn text(&mut self) -> Result<Option<&'a str>, ReplyFault> {
        let Ok(length) = usize::try_from(self.i16()?) else { return Ok(None) };
        std::str::from_utf8(self.take(length)?).map(Some).map_err(|_| ReplyFault::Malformed)
    }
}

/// The name that brokers show for these connections.
const CLIENT_ID: &str = "weir";

#[cfg(test)]
mod tests;
