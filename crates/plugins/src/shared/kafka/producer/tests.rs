//! A producer against a broker that does as it is told. Tests of the binary use a real one.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::AtomicI16;
use std::thread;

use bytes::BytesMut;
use kafka_protocol::messages::metadata_response::{
    MetadataResponse, MetadataResponseBroker, MetadataResponsePartition, MetadataResponseTopic,
};
use kafka_protocol::messages::produce_response::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use kafka_protocol::messages::{BrokerId, ProduceRequest, RequestHeader};
use kafka_protocol::protocol::{Decodable, Encodable, StrBytes};
use kafka_protocol::records::RecordBatchDecoder;

use super::*;
use crate::shared::kafka::settings::Broker;

/// A broker that leads all three partitions of every topic.
struct FakeBroker {
    address: SocketAddr,
    state: Arc<State>,
}

#[derive(Default)]
struct State {
    /// The partition and the value of each message that was taken.
    taken: Mutex<Vec<(i32, String)>>,
    /// The errors that the next requests to produce are answered with.
    codes: Mutex<Vec<i16>>,
    /// The partition that refuses what other partitions take, and its error.
    refusing: Mutex<Option<(i32, i16)>>,
    metadata_requests: AtomicU32,
    produce_requests: AtomicU32,
    acks: AtomicI16,
    /// Every answer is these bytes.
    garbage: Mutex<Option<Vec<u8>>>,
}

impl FakeBroker {
    fn start() -> FakeBroker {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let state = Arc::new(State::default());
        let shared = state.clone();
        thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let state = shared.clone();
                // It ends with the connection.
                thread::spawn(move || state.serve(stream, address));
            }
        });
        FakeBroker { address, state }
    }

    fn producer(&self, services: &Services, key: Option<&str>, required_acks: i16) -> Producer {
        let broker = Broker { host: "127.0.0.1".to_owned(), port: self.address.port(), sasl_config: None };
        let cluster =
            ClusterSettings { brokers: vec![broker], tls: None, timeout_ms: 10_000, refresh_ms: 60_000 };
        let topic = TopicSettings {
            topic: "logs".to_owned(),
            key: key.map(str::to_owned),
            required_acks,
            request_max_bytes: 10,
        };
        Producer::new(services, &cluster, topic).unwrap()
    }

    fn taken(&self) -> Vec<(i32, String)> {
        self.state.taken.lock().clone()
    }

    fn counts(&self) -> (u32, u32) {
        let State { metadata_requests, produce_requests, .. } = &*self.state;
        (metadata_requests.load(Ordering::SeqCst), produce_requests.load(Ordering::SeqCst))
    }
}

impl State {
    fn serve(&self, mut stream: TcpStream, address: SocketAddr) {
        loop {
            let mut length = [0; 4];
            if stream.read_exact(&mut length).is_err() {
                return;
            }
            let mut request = vec![0; u32::from_be_bytes(length) as usize];
            stream.read_exact(&mut request).unwrap();
            let mut request = Bytes::from(request);
            let header = RequestHeader::decode(&mut request, 1).unwrap();
            let mut reply = BytesMut::new();
            if header.request_api_key == 3 {
                self.metadata_requests.fetch_add(1, Ordering::SeqCst);
                metadata(address).encode(&mut reply, header.request_api_version).unwrap();
            } else {
                let produce = ProduceRequest::decode(&mut request, header.request_api_version).unwrap();
                self.acks.store(produce.acks, Ordering::SeqCst);
                self.produced(&produce).encode(&mut reply, header.request_api_version).unwrap();
                if produce.acks == 0 {
                    continue;
                }
            }
            let mut frame = (4 + reply.len() as u32).to_be_bytes().to_vec();
            frame.extend(header.correlation_id.to_be_bytes());
            frame.extend(&reply);
            let frame = self.garbage.lock().clone().unwrap_or(frame);
            stream.write_all(&frame).unwrap();
        }
    }

    fn produced(&self, request: &ProduceRequest) -> ProduceResponse {
        self.produce_requests.fetch_add(1, Ordering::SeqCst);
        let code = self.codes.lock().pop().unwrap_or_default();
        let topic = &request.topic_data[0];
        let mut answers = Vec::new();
        let refusing = *self.refusing.lock();
        for data in &topic.partition_data {
            let code =
                refusing.filter(|(partition, _)| *partition == data.index).map_or(code, |(_, code)| code);
            answers.push(PartitionProduceResponse::default().with_index(data.index).with_error_code(code));
            if code == 0 {
                let records = RecordBatchDecoder::decode(&mut data.records.clone().unwrap()).unwrap().records;
                let values = records.into_iter().map(|record| record.value.unwrap());
                let texts = values.map(|value| (data.index, String::from_utf8(value.to_vec()).unwrap()));
                self.taken.lock().extend(texts);
            }
        }
        let topic =
            TopicProduceResponse::default().with_name(topic.name.clone()).with_partition_responses(answers);
        ProduceResponse::default().with_responses(vec![topic])
    }
}

fn metadata(address: SocketAddr) -> MetadataResponse {
    let partition =
        |index| MetadataResponsePartition::default().with_partition_index(index).with_leader_id(BrokerId(7));
    let broker = MetadataResponseBroker::default()
        .with_node_id(BrokerId(7))
        .with_host(StrBytes::from_string(address.ip().to_string()))
        .with_port(address.port().into());
    let topic = MetadataResponseTopic::default()
        .with_name(Some(StrBytes::from_static_str("logs").into()))
        .with_partitions((0..3).map(partition).collect());
    MetadataResponse::default().with_brokers(vec![broker]).with_topics(vec![topic])
}

fn send(producer: &Producer, messages: &[&str]) -> Result<(), String> {
    let messages = messages.iter().map(|message| Bytes::copy_from_slice(message.as_bytes())).collect();
    env::block_on(producer.send(messages)).unwrap().map_err(|failure| failure.reason)
}

#[test]
fn partitions_take_turns_or_follow_the_key() {
    let services = exchange::testing::services();
    let broker = FakeBroker::start();
    let producer = broker.producer(&services, None, 1);
    send(&producer, &["a", "b", "c", "d", "e", "f"]).unwrap();
    let mut taken = broker.taken();
    taken.sort();
    let expected = [(0, "a"), (0, "d"), (1, "b"), (1, "e"), (2, "c"), (2, "f")];
    assert_eq!(taken, expected.map(|(partition, text)| (partition, text.to_owned())));
    assert_eq!(broker.counts(), (1, 1), "metadata is asked for once, and messages of one group go together");

    let broker = FakeBroker::start();
    send(&broker.producer(&services, Some("key"), -1), &["a", "b"]).unwrap();
    // The CRC-32 of `key` is 0x8af76b2b... modulo 3, as zlib computes it.
    let partition = (IEEE.checksum(b"key") % 3) as i32;
    assert_eq!(broker.taken(), [(partition, "a".to_owned()), (partition, "b".to_owned())]);
    assert_eq!(broker.state.acks.load(Ordering::SeqCst), -1);
}

#[test]
fn crc_of_a_key_is_that_of_zlib() {
    assert_eq!(IEEE.checksum(b"123456789"), 0xcbf4_3926);
}

#[test]
fn moved_leader_is_asked_for_and_sent_to() {
    let services = exchange::testing::services();
    let broker = FakeBroker::start();
    broker.state.codes.lock().push(6);
    let producer = broker.producer(&services, None, 1);
    send(&producer, &["a", "b"]).unwrap();
    assert_eq!((broker.taken().len(), broker.counts()), (2, (2, 2)));
}

#[test]
fn lasting_refusal_is_reported_without_another_try() {
    let services = exchange::testing::services();
    let broker = FakeBroker::start();
    broker.state.codes.lock().push(29);
    let message = send(&broker.producer(&services, None, 1), &["a"]).unwrap_err();
    let place = broker.address;
    let expected = format!(
        "failed to send data to Kafka topic: partition 0: TopicAuthorizationFailed, brokers: {place}"
    );
    assert_eq!(message, expected);
    assert_eq!((broker.taken().len(), broker.counts()), (0, (1, 1)));
    // Of two groups the first one arrives.
    let broker = FakeBroker::start();
    broker.state.codes.lock().extend([29, 0]);
    let messages = ["aaaaaaaaaa", "bbbbbbbbbb"].map(|text| Bytes::from_static(text.as_bytes()));
    let failure =
        env::block_on(broker.producer(&services, None, 1).send(messages.to_vec())).unwrap().unwrap_err();
    assert_eq!((failure.delivered, broker.taken().len()), (1, 1));
    let broker = FakeBroker::start();
    broker.state.codes.lock().extend([6; 4]);
    assert!(send(&broker.producer(&services, None, 1), &["a"]).unwrap_err().contains("NotLeader"));
    assert_eq!(broker.counts().1, 1 + RETRIES_MAX);
}

#[test]
fn only_refused_messages_are_left() {
    let services = exchange::testing::services();
    let broker = FakeBroker::start();
    *broker.state.refusing.lock() = Some((0, 29));
    let messages = ["aaa", "bbb", "ccc", "dddd"].map(|text| Bytes::from_static(text.as_bytes()));
    let producer = broker.producer(&services, None, 1);
    let failure = env::block_on(producer.send(messages.to_vec())).unwrap().unwrap_err();
    // The last one is a group of its own, which is not sent after a failure.
    assert_eq!((failure.delivered, failure.left), (2, Some(vec![0, 3])));
    assert_eq!(broker.taken(), [(1, "bbb".to_owned()), (2, "ccc".to_owned())]);
}

#[test]
fn broker_that_answers_garbage_is_an_error() {
    let services = exchange::testing::services();
    let broker = FakeBroker::start();
    let check = |garbage: &[u8], reason: &str| {
        *broker.state.garbage.lock() = Some(garbage.to_vec());
        let message = send(&broker.producer(&services, None, 1), &["a"]).unwrap_err();
        assert!(message.contains(reason), "{message}");
    };
    check(b"HTTP/1.1 400 Bad Request\r\n\r\n", "too long");
    check(&[0, 0, 0, 4, 0, 0, 0, 9], "another request");
    check(&[0, 0, 0, 5, 0, 0, 0, 1, 0], "malformed");
    check(&[0, 0, 0, 1, 0], "malformed");
}

#[test]
fn messages_without_acknowledgement_need_no_reply() {
    let services = exchange::testing::services();
    let broker = FakeBroker::start();
    let producer = broker.producer(&services, None, 0);
    send(&producer, &["a"]).unwrap();
    send(&producer, &["b"]).unwrap();
    // The metadata of the second producer comes after both on the same connection or not at all, so that it
    // is waited for.
    while broker.taken().len() < 2 {
        thread::yield_now();
    }
    assert_eq!(broker.counts(), (1, 2));
}

#[test]
fn brokers_that_are_gone_are_named_by_address() {
    let services = exchange::testing::services();
    let place = testkit::Origin::nowhere();
    let broker = FakeBroker { address: place, state: Arc::default() };
    let message = send(&broker.producer(&services, None, 1), &["a"]).unwrap_err();
    assert!(
        message.starts_with("failed to send data to Kafka topic: ") && message.contains("cannot connect"),
        "{message}"
    );
    assert!(message.contains(&place.to_string()), "{message}");
}

#[test]
fn groups_have_at_most_so_many_bytes() {
    let messages =
        ["aaaa", "bbbb", "cccc", "dddddddddddd", "e"].map(|text| Bytes::from_static(text.as_bytes()));
    let sizes: Vec<usize> = groups(messages.to_vec(), 10).iter().map(Vec::len).collect();
    assert_eq!(sizes, [2, 1, 1, 1]);
}
