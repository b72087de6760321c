//! `ngx.socket`: byte streams over TCP and TLS, and datagrams, to servers that the outbound policy allows. No
//! function blocks the worker.

use std::cell::RefCell;
use std::rc::Rc;

use exchange::plugin::outbound::{DatagramDestination, OutboundCause, OutboundError, OutboundTls};
use mlua::{Error, IntoLuaMulti, Lua, LuaString, UserData, UserDataRef, Value};

use super::Adder;
use super::socket_pool::SocketConnection;
use super::texts::text_of;
use crate::runtime::limits::RECEIVED_MAX_BYTES;
use crate::runtime::state::InterpreterState;

/// Milliseconds of one step unless the script says otherwise, as in nginx (`lua_socket_*_timeout` is 60 s).
const TIMEOUT_MS: u64 = 60_000;
/// Milliseconds that a kept connection waits at most, as in nginx (`lua_socket_keepalive_timeout`).
const IDLE_MS: u64 = 60_000;
/// Connections of one pool that wait, as in nginx (`lua_socket_pool_size`).
const POOL_SIZE: usize = 30;
/// Bytes asked for at once.
const READ_BYTES: usize = 16 * 1024;

/// A socket of a script.
#[derive(Default)]
struct ScriptSocket {
    link: Option<SocketConnection>,
    /// Bytes that have arrived and were not received.
    buffer: Vec<u8>,
    host: String,
    place: String,
    pool: String,
    has_sent: bool,
    connect_ms: Option<u64>,
    send_ms: Option<u64>,
    read_ms: Option<u64>,
}

/// The handle that a script holds.
#[derive(Clone, Default)]
struct Tcp(Rc<RefCell<ScriptSocket>>);

impl UserData for Tcp {}

struct Udp(DatagramDestination);

impl UserData for Udp {}

/// The part of what arrives that one call wants.
enum ReceivePattern {
    Line,
    All,
    Bytes(usize),
    Any(usize),
    Until { pattern: Vec<u8>, is_inclusive: bool },
}

impl ReceivePattern {
    /// The end of the wanted bytes in `buffer` and how many are to be dropped behind it, if they are there.
    /// `from` is where bytes were added last.
    fn found(&self, buffer: &[u8], from: usize) -> Option<(usize, usize)> {
        match self {
            ReceivePattern::Line => memchr::memchr(b'\n', &buffer[from..]).map(|at| (from + at, 1)),
            ReceivePattern::All => None,
            ReceivePattern::Bytes(count) => (buffer.len() >= *count).then_some((*count, 0)),
            ReceivePattern::Any(most) => (!buffer.is_empty()).then(|| (buffer.len().min(*most), 0)),
            ReceivePattern::Until { pattern, is_inclusive } => {
                let from = from.saturating_sub(pattern.len());
                let at = from + memchr::memmem::find(&buffer[from..], pattern)?;
                Some(if *is_inclusive { (at + pattern.len(), 0) } else { (at, pattern.len()) })
            }
        }
    }

    /// The bytes as the script gets them: a line has no carriage returns.
    fn cleaned(&self, mut bytes: Vec<u8>) -> Vec<u8> {
        if matches!(self, ReceivePattern::Line) {
            bytes.retain(|byte| *byte != b'\r');
        }
        bytes
    }
}

pub(super) fn install_sockets(add: &Adder<'_>) -> mlua::Result<()> {
    add.add("tcp_new", |_, lua, ()| lua.create_userdata(Tcp::default()))?;
    add.add("tcp_timeouts", |_, _, values: (UserDataRef<Tcp>, Option<u64>, Option<u64>, Option<u64>)| {
        let (socket, connect_ms, send_ms, read_ms) = values;
        let mut socket = socket.0.borrow_mut();
        (socket.connect_ms, socket.send_ms, socket.read_ms) = (connect_ms, send_ms, read_ms);
        Ok(())
    })?;
    add.add_shared(
        "start_connect",
        |state, lua, values: (UserDataRef<Tcp>, String, Value, Option<String>)| {
            let (socket, host, port, pool) = values;
            connect(state, lua, &socket, host, &port, pool)
        },
    )?;
    add.add_shared("start_handshake", |state, lua, values: (UserDataRef<Tcp>, Option<String>, bool)| {
        let (socket, name, verifies) = values;
        handshake(state, lua, &socket, name, verifies)
    })?;
    add.add_shared("start_send", |state, lua, (socket, data): (UserDataRef<Tcp>, Value)| {
        let data = bytes_of(&data, 0)?;
        let (socket, weak) = (socket.clone(), lua.weak());
        state.wait(async move {
            let (link, timeout_ms) = {
                let mut socket = socket.0.borrow_mut();
                socket.has_sent = true;
                (socket.link.take(), socket.send_ms.unwrap_or(TIMEOUT_MS))
            };
            let lua = upgrade(&weak)?;
            let Some(mut link) = link else { return (Value::Nil, "closed").into_lua_multi(&lua) };
            let length = data.len() as f64;
            match link.stream.write_all(&data, timeout_ms).await {
                Ok(()) => {
                    socket.0.borrow_mut().link = Some(link);
                    length.into_lua_multi(&lua)
                }
                Err(error) => (Value::Nil, io_reason(&error)).into_lua_multi(&lua),
            }
        })
    })?;
    add.add_shared("start_receive", |state, lua, values: (UserDataRef<Tcp>, Value)| {
        let (socket, pattern) = values;
        let wanted = match &pattern {
            Value::Nil => ReceivePattern::Line,
            value => match text_of(value).as_deref() {
                Some(b"*l" | b"l") => ReceivePattern::Line,
                Some(b"*a" | b"a") => ReceivePattern::All,
                Some(text) => match str::from_utf8(text).ok().and_then(|text| text.parse::<f64>().ok()) {
                    Some(count) if (0.0..=RECEIVED_MAX_BYTES as f64).contains(&count) => {
                        ReceivePattern::Bytes(count as usize)
                    }
                    _ => return Err(Error::runtime("bad argument #1 to 'receive' (bad pattern or size)")),
                },
                None => return Err(Error::runtime("bad argument #1 to 'receive' (bad pattern argument)")),
            },
        };
        receive(state, lua, &socket, wanted)
    })?;
    add.add_shared("start_receive_any", |state, lua, (socket, most): (UserDataRef<Tcp>, usize)| {
        receive(state, lua, &socket, ReceivePattern::Any(most.clamp(1, RECEIVED_MAX_BYTES)))
    })?;
    add.add_shared("start_receive_until", |state, lua, values: (UserDataRef<Tcp>, LuaString, bool)| {
        let (socket, pattern, is_inclusive) = values;
        let pattern = pattern.as_bytes().to_vec();
        if pattern.is_empty() {
            return Err(Error::runtime("pattern is empty"));
        }
        receive(state, lua, &socket, ReceivePattern::Until { pattern, is_inclusive })
    })?;
    add.add("tcp_keep", |state, lua, values: (UserDataRef<Tcp>, Option<u64>, Option<usize>)| {
        let (socket, idle_ms, size) = values;
        let mut socket = socket.0.borrow_mut();
        let Some(link) = socket.link.take() else { return (Value::Nil, "closed").into_lua_multi(lua) };
        if !std::mem::take(&mut socket.buffer).is_empty() {
            return (Value::Nil, "unread data in buffer").into_lua_multi(lua);
        }
        let idle_ms = idle_ms.filter(|idle_ms| *idle_ms > 0).unwrap_or(IDLE_MS);
        state.sockets.checkin(&socket.pool, link, idle_ms, size.unwrap_or(POOL_SIZE).max(1));
        1.into_lua_multi(lua)
    })?;
    add.add("tcp_reused", |_, lua, socket: UserDataRef<Tcp>| match &socket.0.borrow().link {
        Some(link) => f64::from(link.reused).into_lua_multi(lua),
        None => (Value::Nil, "closed").into_lua_multi(lua),
    })?;
    add.add("tcp_close", |_, lua, socket: UserDataRef<Tcp>| {
        let mut socket = socket.0.borrow_mut();
        socket.buffer = Vec::new();
        match socket.link.take() {
            Some(_) => 1.into_lua_multi(lua),
            None => (Value::Nil, "closed").into_lua_multi(lua),
        }
    })?;
    add.add("udp_open", |state, lua, (host, port): (String, Value)| {
        let place = match place(&host, &port) {
            Ok(place) => place,
            Err(reason) => return (Value::Nil, reason).into_lua_multi(lua),
        };
        match state.call()?.instance.program.outside.destinations.datagrams(&place) {
            Ok(destination) => lua.create_userdata(Udp(destination))?.into_lua_multi(lua),
            Err(reason) => (Value::Nil, reason).into_lua_multi(lua),
        }
    })?;
    add.add("udp_send", |_, lua, (socket, data): (UserDataRef<Udp>, Value)| {
        match socket.0.send(&bytes_of(&data, 0)?) {
            Ok(()) => 1.into_lua_multi(lua),
            Err(error) => (Value::Nil, error.to_string()).into_lua_multi(lua),
        }
    })
}

/// Lists inside each other that are sent.
const NESTED_MAX: usize = 16;

/// The bytes of a text, a number or a list of them.
fn bytes_of(value: &Value, depth: usize) -> mlua::Result<Vec<u8>> {
    match value {
        Value::Table(list) if depth < NESTED_MAX => {
            let mut bytes = Vec::new();
            for item in list.sequence_values::<Value>() {
                bytes.extend(bytes_of(&item?, depth + 1)?);
            }
            Ok(bytes)
        }
        value => text_of(value).ok_or_else(|| {
            Error::runtime(format!("string, number or array table expected, got {}", crate::type_name(value)))
        }),
    }
}

fn place(host: &str, port: &Value) -> Result<String, String> {
    if host.starts_with("unix:") {
        return Err("not available in Weir: sockets of Unix".to_owned());
    }
    let port = text_of(port).map(|port| String::from_utf8_lossy(&port).into_owned());
    let port = port.ok_or("a port expected")?;
    let is_bare_ipv6 = host.contains(':') && !host.starts_with('[');
    Ok(if is_bare_ipv6 { format!("[{host}]:{port}") } else { format!("{host}:{port}") })
}

fn connect(
    state: &Rc<InterpreterState>,
    lua: &Lua,
    socket: &Tcp,
    host: String,
    port: &Value,
    pool: Option<String>,
) -> mlua::Result<()> {
    let weak = lua.weak();
    let answer = |reason: String| {
        let weak = weak.clone();
        state.wait(async move { (Value::Nil, reason).into_lua_multi(&upgrade(&weak)?) })
    };
    let place = match place(&host, port) {
        Ok(place) => place,
        Err(reason) => return answer(reason),
    };
    let call = state.call()?;
    let destination = state.sockets.destination(&call.instance.program.outside.destinations, &place, None);
    let destination = match destination {
        Ok(destination) => destination,
        Err(reason) => return answer(reason),
    };
    let pool = pool.unwrap_or_else(|| place.clone());
    let kept = state.sockets.checkout(&pool);
    let timeout_ms = {
        let mut socket = socket.0.borrow_mut();
        (socket.host, socket.place, socket.pool) = (host, place, pool);
        (socket.link, socket.has_sent) = (None, false);
        socket.buffer.clear();
        socket.connect_ms.unwrap_or(TIMEOUT_MS)
    };
    let (socket, sockets, weak) = (socket.clone(), state.sockets.clone(), lua.weak());
    state.wait(async move {
        if let Some(link) = kept {
            socket.0.borrow_mut().link = Some(link);
            return 1.into_lua_multi(&upgrade(&weak)?);
        }
        let Some(held) = sockets.place() else {
            return (Value::Nil, "too many open sockets").into_lua_multi(&upgrade(&weak)?);
        };
        let waited_ms = destination.looked_up(timeout_ms).await;
        let opened = destination.connect(timeout_ms.saturating_sub(waited_ms).max(1)).await;
        let lua = upgrade(&weak)?;
        match opened {
            Ok(stream) => {
                socket.0.borrow_mut().link = Some(SocketConnection::new(stream, held));
                1.into_lua_multi(&lua)
            }
            Err(error) => (Value::Nil, outbound_reason(&error)).into_lua_multi(&lua),
        }
    })
}

/// Opens the connection again, over TLS: nothing was sent on it yet. A connection that was used before is
/// left as it is, because its pool has connections over TLS alone.
fn handshake(
    state: &Rc<InterpreterState>,
    lua: &Lua,
    socket: &Tcp,
    name: Option<String>,
    verifies: bool,
) -> mlua::Result<()> {
    let call = state.call()?;
    let (link, place, timeout_ms, host, has_sent) = {
        let mut socket = socket.0.borrow_mut();
        let timeout_ms = socket.connect_ms.unwrap_or(TIMEOUT_MS);
        (socket.link.take(), socket.place.clone(), timeout_ms, socket.host.clone(), socket.has_sent)
    };
    let tls =
        OutboundTls { verifies, server_name: Some(name.unwrap_or(host).into()), ..OutboundTls::default() };
    let destination =
        state.sockets.destination(&call.instance.program.outside.destinations, &place, Some(&tls));
    let (socket, sockets, weak) = (socket.clone(), state.sockets.clone(), lua.weak());
    state.wait(async move {
        let is_open = link.is_some();
        if let Some(link) = link.filter(|link| link.reused > 0) {
            socket.0.borrow_mut().link = Some(link);
            return true.into_lua_multi(&upgrade(&weak)?);
        }
        if !is_open || has_sent {
            let reason = if is_open { "TLS begins before anything is sent" } else { "closed" };
            return (Value::Nil, reason).into_lua_multi(&upgrade(&weak)?);
        }
        let (Ok(destination), Some(held)) = (destination, sockets.place()) else {
            return (Value::Nil, "the TLS settings or the number of sockets")
                .into_lua_multi(&upgrade(&weak)?);
        };
        let waited_ms = destination.looked_up(timeout_ms).await;
        let opened = destination.connect(timeout_ms.saturating_sub(waited_ms).max(1)).await;
        let lua = upgrade(&weak)?;
        match opened {
            Ok(stream) => {
                socket.0.borrow_mut().link = Some(SocketConnection::new(stream, held));
                true.into_lua_multi(&lua)
            }
            Err(error) => (Value::Nil, outbound_reason(&error)).into_lua_multi(&lua),
        }
    })
}

fn receive(
    state: &Rc<InterpreterState>,
    lua: &Lua,
    socket: &Tcp,
    wanted: ReceivePattern,
) -> mlua::Result<()> {
    let (socket, weak) = (socket.clone(), lua.weak());
    state.wait(async move {
        let (mut link, mut buffer, timeout_ms) = {
            let mut socket = socket.0.borrow_mut();
            (socket.link.take(), std::mem::take(&mut socket.buffer), socket.read_ms.unwrap_or(TIMEOUT_MS))
        };
        let mut from = 0;
        let failed = loop {
            if let Some((end, dropped)) = wanted.found(&buffer, from) {
                let mut rest = buffer.split_off(end);
                rest.drain(..dropped);
                let mut socket = socket.0.borrow_mut();
                (socket.link, socket.buffer) = (link, rest);
                let lua = upgrade(&weak)?;
                return lua.create_string(wanted.cleaned(buffer))?.into_lua_multi(&lua);
            }
            let Some(open) = &mut link else { break "closed".to_owned() };
            from = buffer.len();
            if from >= RECEIVED_MAX_BYTES {
                link = None;
                break format!("more than {RECEIVED_MAX_BYTES} bytes");
            }
            buffer.resize(from + READ_BYTES, 0);
            let read = open.stream.read(&mut buffer[from..], timeout_ms).await;
            buffer.truncate(from + *read.as_ref().unwrap_or(&0));
            match read {
                Ok(0) => {
                    link = None;
                    if matches!(wanted, ReceivePattern::All) {
                        let lua = upgrade(&weak)?;
                        return lua.create_string(buffer)?.into_lua_multi(&lua);
                    }
                    break "closed".to_owned();
                }
                Ok(_) => {}
                Err(error) => {
                    // A socket that has timed out can be read again.
                    if error.kind() != std::io::ErrorKind::TimedOut {
                        link = None;
                    }
                    break io_reason(&error);
                }
            }
        };
        socket.0.borrow_mut().link = link;
        let lua = upgrade(&weak)?;
        (Value::Nil, failed, lua.create_string(buffer)?).into_lua_multi(&lua)
    })
}

fn upgrade(weak: &mlua::WeakLua) -> mlua::Result<Lua> {
    weak.try_upgrade().ok_or_else(|| Error::runtime("the interpreter is gone"))
}

/// The reason in the words of nginx.
fn io_reason(error: &std::io::Error) -> String {
    match error.kind() {
        std::io::ErrorKind::TimedOut => "timeout".to_owned(),
        std::io::ErrorKind::ConnectionReset => "connection reset by peer".to_owned(),
        std::io::ErrorKind::UnexpectedEof | std::io::ErrorKind::BrokenPipe => "closed".to_owned(),
        _ => error.to_string(),
    }
}

fn outbound_reason(error: &OutboundError) -> String {
    let text = error.to_string();
    match error.cause {
        OutboundCause::ConnectTimeout | OutboundCause::Timeout => "timeout".to_owned(),
        OutboundCause::Connect if text.contains("refused") => "connection refused".to_owned(),
        _ => text,
    }
}
