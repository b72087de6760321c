//! Plugins of users in Lua on stream routes through the real gateway: decisions, first bytes, calls to other
//! servers, the log, versions, datagrams, files of the settings, and functions that do harm.

use std::fs;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpListener, TcpStream, UdpSocket};
use std::thread;
use std::time::Duration;

use serde_json::{Value, json};
use testkit::{Client, Origin, Reply, Weir, wait_for, wait_until};

use crate::support::BINARY;

/// Longer than any step takes, shorter than a test may hang.
const PATIENCE: Duration = Duration::from_secs(20);

/// A gateway with listeners of layer 4, a node and the stream route `1`.
pub(crate) struct Stage {
    pub(crate) weir: Weir,
    node: SocketAddr,
}

impl Stage {
    pub(crate) fn start() -> Stage {
        Stage::with("")
    }

    /// With these settings besides.
    pub(crate) fn with(settings: &str) -> Stage {
        let settings =
            format!("stream_tcp: 127.0.0.1:0\nstream_access_log: sessions.log\nworkers: 1\n{settings}");
        Stage { weir: Weir::builder(BINARY).settings(&settings).start(), node: node("a") }
    }

    /// Uploads the plugin `name`, of which `body` has the functions.
    fn upload(&self, name: &str, body: &str) {
        let code = plugin(body);
        self.weir.put(&format!("extensions/{name}"), json!({"language": "lua", "content": code}));
    }

    pub(crate) fn route(&self, plugins: Value) {
        let (status, answer) = self.try_route(plugins);
        assert!(status < 300, "{answer}");
    }

    pub(crate) fn try_route(&self, plugins: Value) -> (u16, Value) {
        let upstream = json!({"nodes": {self.node.to_string(): 1}});
        self.weir.admin("PUT", "stream_routes/1", json!({"upstream": upstream, "plugins": plugins}))
    }

    /// The answer of the node to a session that sends `bytes`; none if the session is closed without one.
    pub(crate) fn say(&self, bytes: &[u8]) -> Option<String> {
        answer(self.open(bytes))
    }

    /// A session that has sent `bytes`.
    pub(crate) fn open(&self, bytes: &[u8]) -> TcpStream {
        let mut stream = TcpStream::connect(self.weir.address("stream-tcp")).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        // A session that is refused at once may be reset before.
        let _ = stream.write_all(bytes);
        stream
    }

    /// The value of a metric; 0 if there is no such line.
    pub(crate) fn metric(&self, line: &str) -> u64 {
        let text = Client::connect(self.weir.address("metrics")).get("/apisix/prometheus/metrics").text();
        let mut values = text.lines().filter_map(|found| found.strip_prefix(line)?.trim().parse().ok());
        values.next().unwrap_or(0)
    }

    /// The last line with `part` in the log of sessions, once there are `count`.
    pub(crate) fn logged(&self, part: &str, count: usize) -> String {
        wait_for("the session is logged", || {
            let text = fs::read_to_string(self.weir.directory().join("sessions.log")).unwrap_or_default();
            let lines: Vec<&str> = text.lines().filter(|line| line.contains(part)).collect();
            (lines.len() >= count).then(|| lines[count - 1].to_owned())
        })
    }
}

/// A plugin with these functions.
fn plugin(body: &str) -> String {
    format!(
        "local core = require('apisix.core')\n\
         local schema = {{ type = 'object', properties = {{ word = {{ type = 'string', default = 'open' }} }} }}\n\
         local _M = {{ version = 0.1, priority = 500, name = 'mine', schema = schema }}\n\
         function _M.check_schema(conf) return core.schema.check(schema, conf) end\n{body}\nreturn _M\n"
    )
}

/// Ends the client's side; the bytes that come back, none if there are no bytes.
pub(crate) fn answer(mut stream: TcpStream) -> Option<String> {
    let _ = stream.shutdown(Shutdown::Write);
    let mut back = Vec::new();
    let mut room = [0; 4_096];
    while let Ok(count @ 1..) = stream.read(&mut room) {
        back.extend_from_slice(&room[..count]);
    }
    (!back.is_empty()).then(|| String::from_utf8(back).unwrap())
}

/// A node that sends its name and what it has got once the client has ended its side.
fn node(name: &'static str) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    thread::spawn(move || {
        for mut stream in listener.incoming().flatten() {
            thread::spawn(move || {
                let mut text = String::new();
                let _ = stream.read_to_string(&mut text);
                let _ = stream.write_all(format!("{name}:{text}").as_bytes());
            });
        }
    });
    address
}

#[test]
fn preread_decides_about_sessions() {
    let stage = Stage::start();
    stage.upload(
        "mine",
        "function _M.preread(conf, ctx)
            if conf.word == 'exit' then core.response.exit(403, {message = 'no'}) end
            if conf.word ~= 'open' then return 403, ctx.var.remote_addr .. ' ' .. ctx.route_id end
        end",
    );
    stage.route(json!({"mine": {}}));
    assert_eq!(stage.say(b"hello").as_deref(), Some("a:hello"));
    for (count, word) in [(1, "shut"), (2, "exit")] {
        stage.route(json!({"mine": {"word": word}}));
        assert_eq!(stage.say(b"hello"), None);
        let line = stage.logged(" rejected ", count);
        assert!(
            line.contains(" 403 ") && line.contains("the plugin mine exits with status code 403"),
            "{line}"
        );
    }
    stage.route(json!({"mine": {"word": "shut", "_meta": {"filter": [["remote_addr", "==", "10.1.1.1"]]}}}));
    assert_eq!(stage.say(b"hello").as_deref(), Some("a:hello"), "it runs where its filter holds");
}

#[test]
fn admin_api_knows_plugins_of_sessions() {
    let stage = Stage::start();
    stage.upload("mine", "function _M.preread() end function _M.log() end");
    stage.upload("web", "function _M.access() return 403 end function _M.log() end");
    stage.upload("both", "function _M.access() end function _M.preread() end");
    let listed = |subsystem: &str| {
        let path = format!("plugins?all=true&subsystem={subsystem}");
        let (status, answer) = stage.weir.admin("GET", &path, Value::Null);
        assert_eq!(status, 200, "{answer}");
        ["mine", "web", "both"].map(|name| answer.get(name).is_some())
    };
    assert_eq!(listed("stream"), [true, false, true]);
    assert_eq!(listed("http"), [false, true, true]);
    let (status, answer) = stage.try_route(json!({"mine": {"word": 1}}));
    assert_eq!(status, 400);
    assert!(answer.to_string().contains("failed to check the configuration of plugin mine"), "{answer}");
    let (status, answer) = stage.try_route(json!({"web": {}}));
    assert_eq!(status, 400);
    assert!(answer.to_string().contains("unknown plugin [web]: it serves HTTP only"), "{answer}");
    let route = json!({"uri": "/", "upstream": {"nodes": {"127.0.0.1:1": 1}}, "plugins": {"mine": {}}});
    let (status, answer) = stage.weir.admin("PUT", "routes/1", route);
    assert_eq!(status, 400);
    assert!(answer.to_string().contains("it serves layer 4 only"), "{answer}");
    stage.route(json!({"mine": {}, "both": {}}));
    let web = json!({"language": "lua", "content": plugin("function _M.access() end")});
    let (status, answer) = stage.weir.admin("PUT", "extensions/mine", web);
    assert_eq!(status, 400, "a version that serves no session would take its check away: {answer}");
    assert!(answer.to_string().contains("serve sessions of layer 4"), "{answer}");
}

#[test]
fn first_bytes_choose_the_upstream() {
    let stage = Stage::start();
    stage.weir.put("upstreams/9", json!({"nodes": {node("b").to_string(): 1}}));
    stage.upload(
        "mine",
        "function _M.preread(conf, ctx)
            local socket = ngx.req.socket()
            if socket:peek(2) ~= 'GO' then return 400 end
            local size = string.byte(socket:peek(3), 3) - 48
            local name = string.sub(socket:peek(3 + size), 4)
            if name == 'other' then ctx.upstream_id = 9 end
            if name == 'none' then ctx.upstream_id = 8 end
        end",
    );
    stage.route(json!({"mine": {}}));
    assert_eq!(stage.say(b"GO4here!").as_deref(), Some("a:GO4here!"));
    assert_eq!(stage.say(b"GO5other!").as_deref(), Some("b:GO5other!"));
    assert_eq!(stage.say(b"NO5other!"), None);
    assert_eq!(stage.say(b"GO4none"), None, "there is no such upstream");
    // The function is put aside until the next bytes come, and goes on with them.
    let mut slow = stage.open(b"G");
    for part in [&b"O5"[..], b"oth", b"er"] {
        slow.write_all(part).unwrap();
    }
    assert_eq!(answer(slow).as_deref(), Some("b:GO5other"));
    assert_eq!(stage.say(b"GO9short"), None, "the client has closed before");
    stage.logged(" preread_closed ", 1);
}

#[test]
fn functions_wait_for_other_servers() {
    let stage = Stage::start();
    let origin = Origin::start(|request| match request.target.as_str() {
        "/sessions?from=127.0.0.1&word=yes" => Reply::with(200, &[], b"pass"),
        _ => Reply::with(200, &[], b"stop"),
    });
    stage.upload(
        "mine",
        &format!(
            "function _M.preread(conf, ctx)
                ngx.sleep(0.001)
                local word = ngx.req.socket():peek(3)
                local client = require('resty.http').new()
                local uri = 'http://{}/sessions?from=' .. ctx.var.remote_addr .. '&word=' .. word
                local response, reason = client:request_uri(uri)
                if not response then error(reason) end
                if response.body ~= 'pass' then return 403 end
                -- More bytes are asked for behind a wait too.
                ngx.req.socket():peek(4)
            end",
            origin.address()
        ),
    );
    stage.route(json!({"mine": {}}));
    assert_eq!(stage.say(b"yes!").as_deref(), Some("a:yes!"));
    assert_eq!(stage.say(b"no!!"), None);
}

#[test]
fn log_sees_the_end_of_each_session() {
    let stage = Stage::start();
    let body = "function _M.preread(conf, ctx)
            ctx.word = ngx.req.socket():peek(2)
            if ctx.word == 'no' then return 405 end
        end
        function _M.log(conf, ctx)
            local v = ctx.var
            ngx.shared.seen:rpush('lines', table.concat({ctx.word, tostring(ctx.stream_rejected_code), v.status, v.weir_cause,
                v.bytes_received, v.bytes_sent, v.protocol, tostring(tonumber(v.session_time) ~= nil), ngx.get_phase()}, ' '))
            if ctx.word == 'no' then error('in log') end
        end";
    stage.upload("mine", body);
    stage.route(json!({"mine": {}}));
    let read = "return function() return 200, ngx.shared.seen:lpop('lines') or '-' end";
    let plugins = json!({"serverless-pre-function": {"phase": "access", "functions": [read]}});
    let nodes = json!({"127.0.0.1:1": 1});
    stage.weir.put("routes/1", json!({"uri": "/", "upstream": {"nodes": nodes}, "plugins": plugins}));
    let next = || {
        wait_for("the session is logged", || {
            let text = stage.weir.get("/").text();
            (text != "-").then_some(text)
        })
    };
    assert_eq!(stage.say(b"hello").as_deref(), Some("a:hello"));
    assert_eq!(next(), "he nil 200 closed 5 7 TCP true log");
    assert_eq!(stage.say(b"no"), None);
    assert_eq!(next(), "no 405 403 rejected 0 0 TCP true log");
    let errors = "weir_plugin_events_total{plugin=\"mine\",event=\"lua_error\"}";
    wait_until("the error is counted", || stage.metric(errors) == 1);
    assert_eq!(stage.say(b"again").as_deref(), Some("a:again"));
}

#[test]
fn failing_functions_close_their_sessions_alone() {
    let stage = Stage::start();
    let hostile = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local t = {} for i = 1, 1e9 do t[i] = ('x'):rep(1e5) .. i end",
        "local function f() return 1 + f() end f()",
        "error({})",
        "return ngx.req.get_headers()",
        "ngx.header.a = 1",
        "ngx.req.socket():receive(1)",
        "ngx.req.socket():peek(40000)",
        "ngx.sleep(0.001) local a = nil return a.b",
    ];
    let errors = "weir_plugin_events_total{plugin=\"mine\",event=\"lua_error\"}";
    for (index, text) in hostile.iter().enumerate() {
        stage.upload("mine", &format!("function _M.preread(conf, ctx) {text} end"));
        stage.route(json!({"mine": {}}));
        assert_eq!(stage.say(b"hello"), None, "{text}");
        stage.logged(" plugin_failed ", index + 1);
        assert_eq!(stage.metric(errors), index as u64 + 1, "{text}");
    }
    stage.upload("mine", "function _M.preread(conf, ctx) end");
    assert_eq!(stage.say(b"hello").as_deref(), Some("a:hello"));
}

#[test]
fn session_keeps_the_version_it_began_with() {
    let stage = Stage::start();
    let version = |mark: &str| {
        format!(
            "function _M.preread(conf, ctx)
                ctx.mark = '{mark}'
                if ngx.req.socket():peek(1) ~= 'x' then return 403 end
            end
            function _M.log(conf, ctx) ngx.log(ngx.WARN, 'session of ', ctx.mark, ' is logged by {mark}') end"
        )
    };
    stage.upload("mine", &version("one"));
    stage.route(json!({"mine": {}}));
    let waiting = stage.open(b"");
    let mut open = stage.open(b"x");
    let body = json!({"language": "lua", "content": plugin(&version("two"))});
    let (status, answer_of) = stage.weir.admin("POST", "extensions/mine/versions?activate=true", body);
    assert!(status < 300, "{answer_of}");
    let said = |text: &str| stage.weir.stderr().iter().any(|line| line.contains(text));
    assert_eq!(stage.say(b"x").as_deref(), Some("a:x"));
    wait_until("the new version serves", || said("session of two is logged by two"));
    open.write_all(b"y").unwrap();
    assert_eq!(answer(open).as_deref(), Some("a:xy"));
    wait_until("the old version has logged", || said("session of one is logged by one"));
    drop(waiting);
}

#[test]
fn share_of_sessions_goes_to_the_canary() {
    let stage = Stage::start();
    stage.upload("mine", "function _M.preread(conf, ctx) end");
    stage.route(json!({"mine": {}}));
    let body = json!({"language": "lua", "content": plugin("function _M.preread(conf, ctx) return 403 end")});
    let (status, pushed) = stage.weir.admin("POST", "extensions/mine/versions?canary=100", body);
    assert!(status < 300, "{pushed}");
    assert_eq!(stage.say(b"x"), None);
    let (_, list) = stage.weir.admin("GET", "extensions/mine/versions", Value::Null);
    let set = |vars: Value| {
        let canary = json!({"version": list["list"][0]["version"], "vars": vars});
        let (status, answer) = stage.weir.admin("PUT", "extensions/mine/canary", canary);
        assert!(status < 300, "{answer}");
    };
    set(json!([["remote_addr", "==", "127.0.0.1"]]));
    assert_eq!(stage.say(b"x"), None);
    set(json!([["remote_addr", "==", "127.0.0.2"]]));
    assert_eq!(stage.say(b"x").as_deref(), Some("a:x"));
}

#[test]
fn datagrams_pass_a_plugin() {
    let settings = "stream_udp: 127.0.0.1:0\nworkers: 1\n";
    let weir = Weir::builder(BINARY).settings(settings).start();
    let body = "function _M.preread(conf, ctx)
            if ctx.var.protocol ~= 'UDP' or ngx.req.socket():peek(2) ~= 'ok' then return 403 end
            ngx.sleep(0.001)
        end";
    weir.put("extensions/mine", json!({"language": "lua", "content": plugin(body)}));
    let node = UdpSocket::bind("127.0.0.1:0").unwrap();
    node.set_read_timeout(Some(PATIENCE)).unwrap();
    let nodes = json!({node.local_addr().unwrap().to_string(): 1});
    let route = json!({"upstream": {"scheme": "udp", "nodes": nodes}, "plugins": {"mine": {}}});
    weir.put("stream_routes/1", route);
    // Those that are refused would come first.
    for text in ["no", "o", "ok 1"] {
        let client = UdpSocket::bind("127.0.0.1:0").unwrap();
        client.send_to(text.as_bytes(), weir.address("stream-udp")).unwrap();
    }
    let mut room = [0; 100];
    let count = node.recv(&mut room).unwrap();
    assert_eq!(&room[..count], b"ok 1");
}

#[test]
fn settings_load_plugins_of_sessions() {
    let home = tempfile::tempdir().unwrap();
    let folder = home.path().join("apisix/stream/plugins");
    fs::create_dir_all(&folder).unwrap();
    let code = plugin("function _M.preread(conf, ctx) if conf.word ~= 'open' then return 503 end end");
    fs::write(folder.join("own.lua"), code).unwrap();
    let stage = Stage::with(&format!("lua_path: {}\nlua_plugins: [own]\n", home.path().display()));
    stage.route(json!({"own": {}}));
    assert_eq!(stage.say(b"hello").as_deref(), Some("a:hello"));
    stage.route(json!({"own": {"word": "shut"}}));
    assert_eq!(stage.say(b"hello"), None);
}
