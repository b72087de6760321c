//! Runs of the load generator over TCP and UDP: their rules, the bytes that are sent, and the shares of
//! threads.

use std::sync::atomic::AtomicBool;
use std::time::Instant;

use anyhow::bail;

use super::race::{Raced, race};
use super::tally::Tally;
use super::{
    LARGEST_BODY_BYTES, LoadMode, LoadPlan, LoadTransport, Talk, byte_streams, datagrams, pattern, tls,
};
use crate::echo::BUFFER_BYTES;
use crate::echo::language::{self, REQUEST_BYTES};
use datagrams::NUMBER_BYTES;

/// Checks the rules of bytes and datagrams; `None` if the plan is about HTTP.
pub(super) fn check_layer4_plan(plan: &LoadPlan) -> Option<anyhow::Result<()>> {
    match (plan.manner, plan.target.transport) {
        (LoadMode::Tcp(_), LoadTransport::Tcp) | (LoadMode::Udp { .. }, LoadTransport::Udp) => {
            Some(plan.check_layer4())
        }
        (LoadMode::Tcp(_) | LoadMode::Udp { .. }, _) | (_, LoadTransport::Tcp | LoadTransport::Udp) => {
            Some(Err(anyhow::anyhow!("bytes need a URL with tcp://, datagrams one with udp://")))
        }
        _ => None,
    }
}

/// Sends all messages; returns the tallies of the threads.
pub(super) fn send_layer4_messages(
    plan: &LoadPlan,
    stop: &AtomicBool,
    during: impl FnOnce(Instant),
) -> anyhow::Result<Raced> {
    let threads = usize::from(plan.threads);
    let tally = || Tally::new(plan.seconds.unwrap_or(0.0));
    Ok(match plan.manner {
        LoadMode::Tcp(talk) => {
            let message = plan.message(talk)?;
            let shares = (0..threads).map(|thread| plan.bytes_share(thread, talk, &message)).collect();
            race(
                shares,
                |share, barrier| byte_streams::run_byte_streams(share, tally(), stop, barrier),
                during,
            )
        }
        LoadMode::Udp { at_once } => {
            let shares = (0..threads).map(|thread| plan.datagrams_share(thread, at_once)).collect();
            race(shares, |share, barrier| datagrams::run_datagrams(share, tally(), stop, barrier), during)
        }
        _ => bail!("bytes and datagrams only"),
    })
}

impl LoadPlan {
    fn check_layer4(&self) -> anyhow::Result<()> {
        let closes = self.per_connection.is_some();
        let length = match self.manner {
            LoadMode::Tcp(Talk::Messages) if closes => REQUEST_BYTES as u64..=BUFFER_BYTES as u64,
            LoadMode::Tcp(Talk::Messages) => 1..=LARGEST_BODY_BYTES,
            LoadMode::Udp { .. } => NUMBER_BYTES as u64..=LONGEST_DATAGRAM_BYTES,
            _ => 0..=0,
        };
        if self.rate.is_some() || !self.ramp_up.is_zero() {
            bail!("over TCP and UDP a message follows the one before: leave out rate and ramp");
        }
        if self.per_connection.is_some_and(|requests| requests != 1) {
            bail!("a connection of TCP is kept, or ends after one message");
        }
        if !length.contains(&self.body_bytes) {
            bail!("a message has from {} to {} bytes here", length.start(), length.end());
        }
        match self.manner {
            LoadMode::Tcp(Talk::Bulk) if closes => {
                bail!("a bulk transfer has one connection: leave out what ends it")
            }
            LoadMode::Udp { .. } if closes => bail!("UDP has no connections that end"),
            LoadMode::Udp { at_once } if at_once == 0 || at_once > self.connections => {
                bail!("datagrams in flight are at least 1, and no more than the sources, which have one each")
            }
            _ => Ok(()),
        }
    }

    /// The bytes that are sent on every connection of TCP.
    fn message(&self, talk: Talk) -> anyhow::Result<Vec<u8>> {
        Ok(match talk {
            Talk::Messages if self.per_connection.is_some() => language::once(self.body_bytes as usize),
            Talk::Messages => pattern(self.body_bytes),
            Talk::Bulk => language::request().to_vec(),
            Talk::Hello => tls::client_hello(&self.target.host)?,
        })
    }

    fn bytes_share<'a>(
        &'a self,
        thread: usize,
        talk: Talk,
        message: &'a [u8],
    ) -> byte_streams::ByteStreamShare<'a> {
        byte_streams::ByteStreamShare {
            target: &self.target,
            talk,
            message,
            closes: self.per_connection.is_some() || talk == Talk::Hello,
            connections: self.share(u64::from(self.connections), thread) as usize,
            requests: self.requests.map_or(u64::MAX, |requests| self.share(requests, thread)),
            end_ns: self.end_ns(),
            timeout_ns: self.timeout.as_nanos() as u64,
        }
    }

    fn datagrams_share(&self, thread: usize, at_once: u32) -> datagrams::DatagramShare<'_> {
        datagrams::DatagramShare {
            target: &self.target,
            sources: self.share(u64::from(self.connections), thread) as usize,
            at_once: self.share(u64::from(at_once), thread).max(1) as usize,
            bytes: self.body_bytes as usize,
            requests: self.requests.map_or(u64::MAX, |requests| self.share(requests, thread)),
            end_ns: self.end_ns(),
            timeout_ns: (self.timeout.as_nanos() as u64).min(LONGEST_DATAGRAM_NS),
        }
    }
}

/// The longest datagram that UDP over IPv4 carries.
const LONGEST_DATAGRAM_BYTES: u64 = 65_507;
/// A datagram that is away longer is lost, whatever the limit of other messages.
const LONGEST_DATAGRAM_NS: u64 = 1_000_000_000;
