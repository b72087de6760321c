//! The commands of one session that wait for their replies, in their order: which reply ends which command,
//! the delays of commands, and what is counted and logged of each.

use std::borrow::Cow;
use std::collections::VecDeque;
use std::sync::Arc;

use exchange::plugin::stream::protocol::{ProtocolCall, ProtocolSession};
use net::env;

use super::faults::Faults;
use super::metrics::RouteCounts;
use super::replies::{RedisReply, ReplyReader};
use super::requests::{CommandReceiver, RequestReader};

/// Most commands of a session that wait for their replies. A pipeline of this length is longer than any
/// client makes; a client that turns replies off (`CLIENT REPLY OFF`) comes to this limit, too.
const PENDING_MAX: usize = 10_000;
/// Longest name of a command that is kept.
const NAME_MAX_BYTES: usize = 64;
/// How much of an argument stands in the text of a command, as in APISIX.
const VALUE_MAX_BYTES: usize = 128;
/// Longest text of one command.
const LINE_MAX_BYTES: usize = 4 * 1_024;
/// Most bytes of the texts of all commands that wait; those of further ones are empty.
const LINES_MAX_BYTES: usize = 256 * 1_024;

/// See the module.
pub(super) struct RedisSession {
    requests: RequestReader,
    replies: ReplyReader,
    commands: Commands,
}

/// The commands of a session.
struct Commands {
    faults: Arc<Faults>,
    counts: Option<RouteCounts>,
    is_logged: bool,
    /// The command that is being read.
    name: String,
    line: Vec<u8>,
    key_delay_ms: Option<u64>,
    /// The delay of the bytes that were read last.
    delay_ms: u64,
    pending: VecDeque<PendingCommand>,
    lines_bytes: usize,
    /// The client has subscribed to channels.
    is_subscribed: bool,
}

/// A command without a reply.
struct PendingCommand {
    name: Box<str>,
    line: Box<[u8]>,
    began_ns: u64,
}

impl RedisSession {
    pub(super) fn new(faults: Arc<Faults>, counts: Option<RouteCounts>, is_logged: bool) -> RedisSession {
        let commands = Commands {
            faults,
            counts,
            is_logged,
            name: String::new(),
            line: Vec::new(),
            key_delay_ms: None,
            delay_ms: 0,
            pending: VecDeque::new(),
            lines_bytes: 0,
            is_subscribed: false,
        };
        RedisSession { requests: RequestReader::default(), replies: ReplyReader::default(), commands }
    }
}

impl ProtocolSession for RedisSession {
    fn client_sent(&mut self, bytes: &[u8]) -> Result<u64, Cow<'static, str>> {
        self.requests.feed(bytes, &mut self.commands)?;
        if self.commands.pending.len() > PENDING_MAX {
            return Err(format!("more than {PENDING_MAX} commands wait for their replies").into());
        }
        Ok(std::mem::take(&mut self.commands.delay_ms))
    }

    fn node_sent(
        &mut self,
        bytes: &[u8],
        ended: &mut dyn FnMut(ProtocolCall),
    ) -> Result<(), Cow<'static, str>> {
        let commands = &mut self.commands;
        self.replies.feed(bytes, &mut |reply| commands.replied(reply, ended))
    }

    fn close(&mut self, ended: &mut dyn FnMut(ProtocolCall)) {
        let now_ns = env::monotonic_ns();
        while let Some(pending) = self.commands.pending.pop_front() {
            self.commands.end(pending, now_ns, ended);
        }
    }
}

impl CommandReceiver for Commands {
    fn argument(&mut self, index: usize, count: usize, kept: &[u8], length: usize) {
        if index == 0 {
            self.name.clear();
            let name = String::from_utf8_lossy(&kept[..kept.len().min(NAME_MAX_BYTES)]);
            self.name.push_str(&name.to_ascii_lowercase());
            self.line.clear();
            self.key_delay_ms = None;
        }
        let is_whole = kept.len() == length;
        if is_whole
            && index > 0
            && self.key_delay_ms.is_none()
            && let Some(faults) = self.faults.of(&self.name)
        {
            self.key_delay_ms = faults.of_argument(index, count, kept);
        }
        if self.is_logged && self.line.len() < LINE_MAX_BYTES {
            if index == 0 {
                return self.line.extend_from_slice(self.name.as_bytes());
            }
            self.line.push(b' ');
            if length > VALUE_MAX_BYTES {
                self.line.extend_from_slice(&kept[..VALUE_MAX_BYTES.min(kept.len())]);
                self.line.extend_from_slice(format!("...({length} bytes)").as_bytes());
            } else {
                self.line.extend_from_slice(kept);
            }
        }
    }

    fn complete(&mut self) {
        if let Some(faults) = self.faults.of(&self.name) {
            // Each command of one read waits for its own time; together they are held back for the sum.
            let delay_ms = self.key_delay_ms.unwrap_or_else(|| faults.otherwise());
            self.delay_ms = self.delay_ms.saturating_add(delay_ms);
        }
        if matches!(&*self.name, "subscribe" | "psubscribe" | "ssubscribe") {
            self.is_subscribed = true;
        }
        self.line.truncate(LINE_MAX_BYTES);
        let fits = self.lines_bytes + self.line.len() <= LINES_MAX_BYTES;
        let line: Box<[u8]> = if fits { self.line.as_slice().into() } else { Box::default() };
        self.lines_bytes += line.len();
        // The caller looks at the limit after each read, so that it is passed by one read at most.
        self.pending.push_back(PendingCommand {
            name: self.name.as_str().into(),
            line,
            began_ns: env::monotonic_ns(),
        });
    }
}

impl Commands {
    fn replied(&mut self, reply: RedisReply<'_>, ended: &mut dyn FnMut(ProtocolCall)) {
        if self.is_subscribed || reply.is_push {
            match reply.word {
                b"message" | b"pmessage" | b"smessage" => return,
                b"subscribe" | b"psubscribe" | b"ssubscribe" | b"unsubscribe" | b"punsubscribe"
                | b"sunsubscribe" => {
                    let is_end = reply.word.ends_with(b"unsubscribe") && reply.number == Some(0);
                    // A command has one of these for each of its channels: the first one ends it.
                    let is_next = self.pending.front().is_some_and(|next| next.name.as_bytes() == reply.word);
                    if is_next {
                        self.end_next(ended);
                    }
                    self.is_subscribed &= !is_end;
                    return;
                }
                _ if reply.is_push => return,
                _ => {}
            }
        }
        self.end_next(ended);
    }

    /// Ends the oldest command. A reply without one is a line of `MONITOR`, for example.
    fn end_next(&mut self, ended: &mut dyn FnMut(ProtocolCall)) {
        if let Some(pending) = self.pending.pop_front() {
            self.lines_bytes -= pending.line.len();
            self.end(pending, env::monotonic_ns(), ended);
        }
    }

    fn end(&mut self, pending: PendingCommand, now_ns: u64, ended: &mut dyn FnMut(ProtocolCall)) {
        let us = now_ns.saturating_sub(pending.began_ns) / 1_000;
        if let Some(counts) = &mut self.counts {
            counts.count(&pending.name, us);
        }
        if self.is_logged {
            let seconds = format!("{}.{:06}", us / 1_000_000, us % 1_000_000);
            let line = String::from_utf8_lossy(&pending.line).into_owned();
            ended(ProtocolCall {
                variables: vec![
                    ("rpc_time", seconds.into()),
                    ("redis_cmd", pending.name),
                    ("redis_cmd_line", line.into()),
                ],
            });
        }
    }
}
