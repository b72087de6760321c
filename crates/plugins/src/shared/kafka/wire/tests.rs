//! Replies as the crate `kafka-protocol` writes them, and batches as it reads them.

use kafka_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{BrokerId, SaslAuthenticateResponse};
use kafka_protocol::records::RecordBatchDecoder;

use super::*;

fn encoded(message: &impl Encodable, version: i16) -> Vec<u8> {
    let mut bytes = BytesMut::new();
    message.encode(&mut bytes, version).unwrap();
    bytes.to_vec()
}

fn metadata(code: i16) -> Vec<u8> {
    let partition = |index: i32, leader: i32| {
        MetadataResponsePartition::default()
            .with_partition_index(index)
            .with_leader_id(BrokerId(leader))
            .with_replica_nodes(vec![BrokerId(1), BrokerId(2)])
            .with_isr_nodes(vec![BrokerId(1)])
    };
    let topic = |name: &str, code: i16| {
        MetadataResponseTopic::default()
            .with_name(Some(topic_name(name)))
            .with_error_code(code)
            .with_partitions(vec![partition(0, 2), partition(1, -1)])
    };
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(2))
        .with_host(StrBytes::from_static_str("kafka.example"))
        .with_port(9_092);
    let message = MetadataResponse::default()
        .with_brokers(vec![broker])
        .with_topics(vec![topic("other", 0), topic("logs", code)]);
    encoded(&message, 4)
}

#[test]
fn metadata_gives_leaders_or_the_refusal() {
    let expected = KafkaMetadata {
        brokers: BTreeMap::from([(2, ("kafka.example".to_owned(), 9_092))]),
        leaders: BTreeMap::from([(0, Some(2)), (1, None)]),
    };
    assert_eq!(read_metadata(&metadata(0), "logs"), Ok(expected));
    let refusal = |code| match read_metadata(&metadata(code), "logs") {
        Err(ReplyFault::Refused(refusal)) => refusal,
        other => panic!("{other:?}"),
    };
    let absent = KafkaRefusal { text: "UnknownTopicOrPartition".into(), may_pass: true };
    assert_eq!(refusal(3), absent);
    assert!(!refusal(29).may_pass, "an authorization that is missing is missing again");
    assert_eq!(read_metadata(&metadata(0), "absent"), Err(ReplyFault::Malformed));
}

#[test]
fn replies_that_are_cut_or_lie_are_malformed() {
    let whole = metadata(0);
    for length in 0..whole.len() {
        assert_eq!(read_metadata(&whole[..length], "logs"), Err(ReplyFault::Malformed), "{length}");
    }
    // A list that claims 2^31 - 1 items.
    let lie = [&[0; 4][..], &[0x7f, 0xff, 0xff, 0xff]].concat();
    assert_eq!(read_metadata(&lie, "logs"), Err(ReplyFault::Malformed));
    assert_eq!(read_produced(&lie[4..]), Err(ReplyFault::Malformed));
    assert_eq!(
        read_sasl_authenticate(&[0, 0, 0xff, 0xff, 0xff, 0xff, 0xff, 0xff]),
        Err(ReplyFault::Malformed)
    );
}

#[test]
fn partitions_that_refuse_are_reported() {
    let partition = |index, code| PartitionProduceResponse::default().with_index(index).with_error_code(code);
    let topic = TopicProduceResponse::default()
        .with_name(topic_name("logs"))
        .with_partition_responses(vec![partition(0, 0), partition(1, 6)]);
    let reply = encoded(&ProduceResponse::default().with_responses(vec![topic]), 3);
    let refusal = KafkaRefusal { text: "NotLeaderOrFollower".into(), may_pass: true };
    assert_eq!(read_produced(&reply), Ok(BTreeMap::from([(1, refusal)])));
}

#[test]
fn refused_login_repeats_text_of_the_broker() {
    let refused = SaslAuthenticateResponse::default()
        .with_error_code(58)
        .with_error_message(Some(StrBytes::from_static_str("no such user")));
    let expected =
        KafkaRefusal { text: "SaslAuthenticationFailed: no such user".to_owned(), may_pass: false };
    assert_eq!(read_sasl_authenticate(&encoded(&refused, 0)), Err(ReplyFault::Refused(expected)));
    let accepted = SaslAuthenticateResponse::default().with_auth_bytes(Bytes::from_static(b"v=1"));
    assert_eq!(read_sasl_authenticate(&encoded(&accepted, 0)), Ok(b"v=1".to_vec()));
}

#[test]
fn values_of_a_partition_are_one_batch() {
    let values = ["a", "b", "c"].map(|value| Bytes::from_static(value.as_bytes()));
    let key = Bytes::from_static(b"k");
    let messages: Vec<_> = values.iter().cloned().enumerate().collect();
    let mut batch = record_batch(&messages, Some(&key), 1_700_000_000_000);
    let read = RecordBatchDecoder::decode(&mut batch).unwrap();
    assert!(batch.is_empty(), "nothing stands behind the batch");
    let found: Vec<_> = read.records.iter().map(|record| record.value.clone().unwrap()).collect();
    assert_eq!(found, values);
    let first = &read.records[0];
    assert_eq!((first.key.as_ref(), first.timestamp, first.sequence), (Some(&key), 1_700_000_000_000, -1));
}
