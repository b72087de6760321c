//! Messages on their way into a topic: which partition, which broker leads it, and what happens to those that
//! a broker did not take.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicUsize, Ordering};

use bytes::Bytes;
use exchange::plugin::batch::DeliveryFailure;
use exchange::plugin::outbound::StreamDestinations;
use exchange::plugin::services::Services;
use kafka_protocol::records::IEEE;
use net::env;
use parking_lot::Mutex;

use super::connection::{BrokerFault, KafkaBroker};
use super::settings::{ClusterSettings, TopicSettings};
use super::wire::{self, KafkaMetadata, KafkaRequest};
use crate::shared::redis::settings::format_host_port;

/// How often messages that a broker did not take are sent again, with fresh metadata, before the batch has
/// failed.
const RETRIES_MAX: u32 = 3;
/// Milliseconds before that.
const RETRY_BACKOFF_MS: u64 = 100;

/// See the module.
pub(crate) struct Producer {
    topic: TopicSettings,
    key: Option<Bytes>,
    timeout_ms: u64,
    refresh_ms: u64,
    /// The brokers of the configuration, and the one that is asked first.
    seeds: Vec<Arc<KafkaBroker>>,
    next_seed: AtomicUsize,
    /// Messages without a key so far.
    turns: AtomicU32,
    destinations: StreamDestinations,
    leaders: Mutex<Option<Arc<Leaders>>>,
    /// A broker did not take messages, so that its leaders may be others now.
    is_stale: AtomicBool,
    /// When metadata could not be had for the last time, and why.
    last_failure: Mutex<Option<(u64, ProduceFailure)>>,
    /// Held while metadata is fetched, so that one task does it for all.
    refresh: tokio::sync::Mutex<()>,
}

/// The leaders of the topic as they were at a time.
struct Leaders {
    since_ms: u64,
    /// The broker that leads each partition, by the partition's number; none while there is none.
    partitions: Vec<Option<Arc<KafkaBroker>>>,
    /// All brokers by place, so that a refresh keeps their connections.
    nodes: BTreeMap<String, Arc<KafkaBroker>>,
}

/// A message with its index in the batch.
type IndexedMessage = (usize, Bytes);
/// Messages by the number of their partition.
type Partitions = BTreeMap<i32, Vec<IndexedMessage>>;

/// Why messages were not taken, and whether another attempt may help.
#[derive(Clone)]
struct ProduceFailure {
    reason: String,
    may_pass: bool,
}

impl From<BrokerFault> for ProduceFailure {
    fn from(fault: BrokerFault) -> ProduceFailure {
        match fault {
            BrokerFault::Lost(reason) => ProduceFailure { reason, may_pass: true },
            BrokerFault::Refused(refusal) => {
                ProduceFailure { reason: refusal.text, may_pass: refusal.may_pass }
            }
        }
    }
}

impl Producer {
    /// A producer for a topic. It connects with its first message.
    ///
    /// # Errors
    /// Why a broker cannot be reached, a sentence.
    pub(crate) fn new(
        services: &Services,
        cluster: &ClusterSettings,
        topic: TopicSettings,
    ) -> Result<Producer, String> {
        let destinations = services.stream_destinations(cluster.outbound_tls());
        let seed = |broker: &super::Broker| {
            let sasl = broker.sasl_config.clone().map(Arc::new);
            let destination = destinations.destination(&broker.place())?;
            Ok::<_, String>(Arc::new(KafkaBroker::new(broker.place(), destination, sasl, cluster.timeout_ms)))
        };
        Ok(Producer {
            key: topic.key.clone().map(|key| Bytes::from(key.into_bytes())),
            topic,
            timeout_ms: cluster.timeout_ms,
            refresh_ms: cluster.refresh_ms,
            seeds: cluster.brokers.iter().map(seed).collect::<Result<_, _>>()?,
            next_seed: AtomicUsize::new(0),
            turns: AtomicU32::new(0),
            destinations,
            leaders: Mutex::default(),
            is_stale: AtomicBool::new(false),
            last_failure: Mutex::default(),
            refresh: tokio::sync::Mutex::default(),
        })
    }

    /// Sends messages; each has arrived as `required_acks` says, or the error tells why one has not. A
    /// message of which the reply was lost is sent again, so that it may arrive twice.
    ///
    /// # Errors
    /// The reason of the last attempt, a sentence, and the indices of the messages that have not arrived.
    pub(crate) async fn send(&self, messages: Vec<Bytes>) -> Result<(), DeliveryFailure> {
        let count = messages.len();
        let mut groups = groups(messages, self.topic.request_max_bytes).into_iter();
        while let Some(mut group) = groups.next() {
            let mut retries = 0;
            while let Err(failed) = self.try_send(&mut group).await {
                if !failed.may_pass || retries >= RETRIES_MAX {
                    let left = group.into_iter().chain(groups.flatten());
                    let mut left: Vec<usize> = left.map(|(index, _)| index).collect();
                    // Those of a group are in the order of their partitions.
                    left.sort_unstable();
                    let reason = self.failure(&failed.reason);
                    return Err(DeliveryFailure::with_left(count - left.len(), left, reason));
                }
                retries += 1;
                self.is_stale.store(true, Ordering::Relaxed);
                env::sleep_ms(RETRY_BACKOFF_MS).await;
            }
        }
        Ok(())
    }

    fn failure(&self, reason: &str) -> String {
        let brokers: Vec<&str> = self.seeds.iter().map(|seed| seed.place()).collect();
        format!("failed to send data to Kafka topic: {reason}, brokers: {}", brokers.join(", "))
    }

    /// Sends `messages` and leaves those that were not taken.
    async fn try_send(&self, messages: &mut Vec<IndexedMessage>) -> Result<(), ProduceFailure> {
        let leaders = self.leaders().await?;
        let mut outcome = Ok(());
        let mut by_leader: BTreeMap<&str, (&Arc<KafkaBroker>, Partitions)> = BTreeMap::new();
        let mut left = Vec::new();
        for message in std::mem::take(messages) {
            let partition = self.partition(leaders.partitions.len());
            match &leaders.partitions[partition] {
                Some(node) => {
                    let (_, partitions) = by_leader.entry(node.place()).or_insert((node, BTreeMap::new()));
                    // Numbers of partitions were read as such.
                    partitions.entry(partition as i32).or_default().push(message);
                }
                None => {
                    let reason = format!("partition {partition} has no leader");
                    outcome = Err(ProduceFailure { reason, may_pass: true });
                    left.push(message);
                }
            }
        }
        for (node, partitions) in by_leader.into_values() {
            let (refused, failed) = self.produce(node, partitions).await;
            left.extend(refused);
            if let Some(failed) = failed {
                outcome = Err(failed);
            }
        }
        *messages = left;
        outcome
    }

    /// Sends to the partitions of one broker; gives the messages that it did not take.
    async fn produce(
        &self,
        node: &KafkaBroker,
        partitions: Partitions,
    ) -> (Vec<IndexedMessage>, Option<ProduceFailure>) {
        let TopicSettings { topic, required_acks, .. } = &self.topic;
        let partitions: Vec<_> = partitions.into_iter().collect();
        let now_ms = i64::try_from(env::wall_clock().as_millis()).unwrap_or_default();
        let request = KafkaRequest::produce(
            topic,
            *required_acks,
            self.timeout_ms,
            &partitions,
            self.key.as_ref(),
            now_ms,
        );
        let read =
            |reply: &[u8]| if *required_acks == 0 { Ok(BTreeMap::new()) } else { wire::read_produced(reply) };
        let mut refused = match node.call(&request, *required_acks != 0, read).await {
            Ok(refused) => refused,
            Err(fault) => {
                let all = partitions.into_iter().flat_map(|(_, messages)| messages).collect();
                return (all, Some(fault.into()));
            }
        };
        let mut failed: Option<ProduceFailure> = None;
        let mut left = Vec::new();
        for (partition, messages) in partitions {
            if let Some(refusal) = refused.remove(&partition) {
                left.extend(messages);
                let may_pass = refusal.may_pass && failed.as_ref().is_none_or(|before| before.may_pass);
                failed = Some(ProduceFailure {
                    reason: format!("partition {partition}: {}", refusal.text),
                    may_pass,
                });
            }
        }
        (left, failed)
    }

    /// The partition of the next message, as the contract's client chooses it: by the CRC-32 of the key, or
    /// by turns.
    fn partition(&self, count: usize) -> usize {
        let number = match &self.key {
            Some(key) => IEEE.checksum(key),
            None => self.turns.fetch_add(1, Ordering::Relaxed),
        };
        number as usize % count
    }

    async fn leaders(&self) -> Result<Arc<Leaders>, ProduceFailure> {
        let asked_ms = now_ms();
        let _refresh = self.refresh.lock().await;
        if let Some((failed_ms, failed)) = &*self.last_failure.lock()
            && *failed_ms > asked_ms
        {
            // Another task has tried meanwhile. Otherwise, with all brokers down, each would wait for the
            // timeouts of all.
            return Err(failed.clone());
        }
        let known = self.leaders.lock().clone();
        let now_ms = now_ms();
        let is_old = |known: &Leaders| now_ms.saturating_sub(known.since_ms) >= self.refresh_ms;
        let is_stale = self.is_stale.swap(false, Ordering::Relaxed);
        if let Some(known) = known.filter(|known| !is_stale && !is_old(known)) {
            return Ok(known);
        }
        let fetched =
            self.metadata().await.and_then(|(seed, metadata)| self.follow(&seed, &metadata, now_ms));
        match fetched {
            Ok(fresh) => {
                let fresh = Arc::new(fresh);
                *self.leaders.lock() = Some(fresh.clone());
                Ok(fresh)
            }
            Err(failed) => {
                self.is_stale.store(true, Ordering::Relaxed);
                *self.last_failure.lock() = Some((self::now_ms(), failed.clone()));
                Err(failed)
            }
        }
    }

    /// Metadata from the first broker of the configuration that gives it.
    async fn metadata(&self) -> Result<(Arc<KafkaBroker>, KafkaMetadata), ProduceFailure> {
        let request = KafkaRequest::metadata(&self.topic.topic);
        let first = self.next_seed.load(Ordering::Relaxed);
        let mut failed = None;
        for turn in 0..self.seeds.len() {
            let index = first.wrapping_add(turn) % self.seeds.len();
            let seed = &self.seeds[index];
            match seed.call(&request, true, |reply| wire::read_metadata(reply, &self.topic.topic)).await {
                Ok(metadata) => {
                    self.next_seed.store(index, Ordering::Relaxed);
                    return Ok((seed.clone(), metadata));
                }
                Err(fault) => failed = Some(fault.into()),
            }
        }
        Err(failed.expect("the schema asks for a broker"))
    }

    /// The leaders that metadata names; brokers that are known keep their connections.
    fn follow(
        &self,
        seed: &KafkaBroker,
        metadata: &KafkaMetadata,
        now_ms: u64,
    ) -> Result<Leaders, ProduceFailure> {
        let known = self.known_nodes();
        let mut nodes = BTreeMap::new();
        let mut by_number = BTreeMap::new();
        for (number, (host, port)) in &metadata.brokers {
            let place = format_host_port(host, *port);
            let node = match known.get(&place) {
                Some(node) => node.clone(),
                None => {
                    let destination = self.destinations.destination(&place);
                    let destination =
                        destination.map_err(|reason| ProduceFailure { reason, may_pass: false })?;
                    Arc::new(KafkaBroker::new(place.clone(), destination, seed.sasl.clone(), self.timeout_ms))
                }
            };
            by_number.insert(*number, node.clone());
            nodes.insert(place, node);
        }
        // Partitions are numbered from 0 without a gap.
        let leaders = metadata.leaders.values();
        let partitions: Vec<_> = leaders.map(|leader| by_number.get(&(*leader)?).cloned()).collect();
        if partitions.is_empty() {
            return Err(ProduceFailure {
                reason: format!("topic {} has no partition", self.topic.topic),
                may_pass: true,
            });
        }
        Ok(Leaders { since_ms: now_ms, partitions, nodes })
    }

    /// Brokers with connections, by place.
    fn known_nodes(&self) -> BTreeMap<String, Arc<KafkaBroker>> {
        let mut known: BTreeMap<_, _> =
            self.seeds.iter().map(|seed| (seed.place().to_owned(), seed.clone())).collect();
        if let Some(leaders) = &*self.leaders.lock() {
            known.extend(leaders.nodes.iter().map(|(place, node)| (place.clone(), node.clone())));
        }
        known
    }
}

fn now_ms() -> u64 {
    env::monotonic_ns() / 1_000_000
}

/// Messages in groups of at most `max_bytes`; a longer one stands alone.
fn groups(messages: Vec<Bytes>, max_bytes: usize) -> Vec<Vec<IndexedMessage>> {
    let mut groups: Vec<Vec<IndexedMessage>> = Vec::new();
    let mut bytes = 0;
    for message in messages.into_iter().enumerate() {
        let length = message.1.len();
        match groups.last_mut() {
            Some(group) if bytes + length <= max_bytes => {
                bytes += length;
                group.push(message);
            }
            _ => {
                bytes = length;
                groups.push(vec![message]);
            }
        }
    }
    groups
}

#[cfg(test)]
mod tests;
