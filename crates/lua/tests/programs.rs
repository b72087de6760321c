//! Programs in the interpreter of code of users, without a request: library, coroutines, limits.
#![allow(clippy::unwrap_used)]

use lua::testing::Engine;

#[test]
fn programs_run_with_library_and_ngx() {
    let engine = Engine::open().unwrap();
    let check =
        |source: &str, expected: &str| assert_eq!(engine.run(source).as_deref(), Ok(expected), "{source}");
    check("return ngx.re.match('a-12', [[(\\w)-(\\d+)]], 'jo')[2]", "12");
    check("return (ngx.re.gsub('hello', 'l', '[$0]'))", "he[l][l]o");
    check("return (ngx.re.sub('a=1', '(?<k>a)=(1)', '${2}=$1'))", "1=a");
    check("local a, b = ngx.re.find('xxab', 'a(b)', '', nil, 1) return a .. ',' .. b", "4,4");
    check("local n = 0 for m in ngx.re.gmatch('a1b2', '[a-z](\\\\d)') do n = n + m[1] end return n", "3");
    check(
        "return ngx.encode_base64(ngx.md5_bin('')) .. ngx.md5('abc')",
        "1B2M2Y8AsgTpgAmY7PhCfg==900150983cd24fb0d6963f7d28e17f72",
    );
    check("return ngx.encode_args({a = 'b c'}) .. ngx.decode_args('x=1&y').x", "a=b%20c1");
    check("return tostring(ngx.decode_args('y').y)", "true");
    check("return ngx.crc32_long('123456789')", "3421780262");
    check("return ngx.http_time(0)", "Thu, 01 Jan 1970 00:00:00 GMT");
    check("return ngx.parse_http_time('Thu, 01 Jan 1970 00:00:10 GMT')", "10");
    check("return type(ngx.null) .. ngx.HTTP_FORBIDDEN .. ngx.ERR", "userdata4034");
    check("return ngx.get_phase()", "access");
    check("return select('#', pcall(ngx.sleep, 0.001))", "1");
    check("local d = ngx.shared.t1 d:set('a', 1) d:incr('a', 2) return d:get('a')", "3");
    check(
        "local d = ngx.shared.t2 d:rpush('l', 'x') d:lpush('l', 'y') return d:lpop('l') .. d:llen('l')",
        "y1",
    );
    check("local d = ngx.shared.t3 return tostring(d:add('k', 1)) .. tostring(d:add('k', 1))", "truefalse");
    check("require('table.new') return type(package.loaded['table.new'])", "function");
    check("a_global = 1 return a_global", "1");
    check("return load('return 1 + 1')()", "2");
}

#[test]
fn threads_and_coroutines_wait_without_blocking() {
    let engine = Engine::open().unwrap();
    let check =
        |source: &str, expected: &str| assert_eq!(engine.run(source).as_deref(), Ok(expected), "{source}");
    check(
        "local t = {} for i = 1, 3 do t[i] = ngx.thread.spawn(function(n) ngx.sleep(0.01) return n * 2 end, i) end
        local sum = 0 for i = 1, 3 do local ok, v = ngx.thread.wait(t[i]) sum = sum + v end return sum",
        "12",
    );
    check(
        "local co = coroutine.wrap(function() ngx.sleep(0.001) coroutine.yield(1) ngx.sleep(0.001) return 2 end)
        return co() + co()",
        "3",
    );
    check(
        "local ok, v = pcall(function() ngx.sleep(0.001) error('x', 0) end) return tostring(ok) .. v",
        "falsex",
    );
    check(
        "local t = ngx.thread.spawn(function() ngx.sleep(100) end) return tostring(ngx.thread.kill(t))",
        "true",
    );
    check(
        "local ok, e = ngx.thread.wait(ngx.thread.spawn(function() error('bad', 0) end)) return tostring(ok) .. e",
        "falsebad",
    );
}

#[test]
fn hostile_programs_end_with_a_reason() {
    let engine = Engine::open().unwrap();
    let check = |source: &str, expected: &str| {
        let reason = engine.run(source).unwrap_err();
        assert!(reason.contains(expected), "{source}: {reason}");
    };
    let stopped = "the script was stopped after";
    check("while true do end", stopped);
    check("while true do pcall(function() while true do end end) end", stopped);
    check("local co = coroutine.wrap(function() while true do end end) pcall(co) while true do end", stopped);
    check(
        "local co = coroutine.create(function() while true do end end) coroutine.resume(co) return 1",
        stopped,
    );
    check("return xpcall(function() while true do end end, function(e) while true do end end)", stopped);
    check("local function f() return f() + 1 end return f()", "stack overflow");
    check("return ('x'):rep(1e9)", "");
    check("local t = {} for i = 1, 1e7 do t[i] = ('x'):rep(1000) .. i end", "");
    check("local s = 'x' while true do s = s .. s end", "not enough memory");
    check("return ('a'):rep(30):find(('a?'):rep(30) .. ('a'):rep(30))", "");
    check(
        "local function nest(n) return coroutine.wrap(function() return nest(n + 1) end)() end return nest(1)",
        "coroutines inside each other",
    );
    check("coroutine.yield(1)", "attempt to yield outside a coroutine");
    check("table.sort({3, 2, 1}, function() ngx.sleep(0.001) return true end)", "");
    for (source, name) in [
        ("os.execute('true')", "os.execute"),
        ("io.open('/etc/passwd')", "io.open"),
        ("loadfile('/etc/passwd')", "loadfile"),
        ("require('ffi')", "ffi"),
        ("debug.getinfo(1)", "debug.getinfo"),
        ("ngx.location.capture('/')", "ngx.location"),
        ("ngx.req.socket()", "ngx.req.socket"),
        ("os.getenv('HOME')", "os.getenv"),
    ] {
        check(source, &format!("not available in Weir: {name}"));
    }
    assert_eq!(engine.run("return 1").as_deref(), Ok("1"), "the interpreter goes on");
    let catastrophic = "local m, e = ngx.re.match(('a'):rep(3000), [[(?<!q)(a+)+$x]]) return e or 'miss'";
    assert!(engine.run(catastrophic).is_ok());
}

/// A server that answers each connection with `answer` once it has read a line, as often as it is asked.
fn server(answer: &'static str, connections: usize) -> std::net::SocketAddr {
    use std::io::{BufRead, BufReader, Write};
    let listener = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    std::thread::spawn(move || {
        for _ in 0..connections {
            let (stream, _) = listener.accept().unwrap();
            let mut lines = BufReader::new(stream.try_clone().unwrap()).lines();
            while let Some(Ok(_)) = lines.next() {
                (&stream).write_all(answer.as_bytes()).unwrap();
            }
        }
    });
    address
}

#[test]
fn sockets_receive_by_pattern_and_are_used_again() {
    let engine = Engine::open().unwrap();
    let port = server("first\r\nsecond--end12345rest", 1).port();
    let connect =
        format!("local s = ngx.socket.tcp() s:settimeout(2000) assert(s:connect('127.0.0.1', {port}))");
    // The server accepts one connection.
    let source = format!(
        "local parts do {connect} assert(s:send({{'a', 'b\\n'}}) == 3) local line = s:receive() local part = s:receiveuntil('--')()
        local end_ = s:receive(3) local number = s:receive('5') local any = s:receiveany(10)
        assert(s:setkeepalive(1000, 2)) parts = {{line, part, end_, number, any}} end
        {connect} parts[6] = s:getreusedtimes() s:close() return table.concat(parts, ',')"
    );
    assert_eq!(engine.run(&source).as_deref(), Ok("first,second,end,12345,rest,1"));
}

#[test]
fn failures_of_sockets_have_the_words_of_nginx() {
    let engine = Engine::open().unwrap();
    let closed = testkit::Origin::nowhere().port();
    let silent = std::net::TcpListener::bind("127.0.0.1:0").unwrap();
    let silent_port = silent.local_addr().unwrap().port();
    let check =
        |source: &str, expected: &str| assert_eq!(engine.run(source).as_deref(), Ok(expected), "{source}");
    let connect = |port: u16| {
        format!("local s = ngx.socket.tcp() s:settimeout(50) local ok, e = s:connect('127.0.0.1', {port})")
    };
    check(&format!("{} return e", connect(closed)), "connection refused");
    check(&format!("{} local d, e = s:receive() return e", connect(silent_port)), "timeout");
    check(
        "local ok, e = ngx.socket.tcp():connect('unix:/tmp/s') return e",
        "not available in Weir: sockets of Unix",
    );
    check("local ok, e = ngx.socket.tcp():send('x') return e", "closed");
    let answering = server("x", 1).port();
    let partial = format!(
        "{} s:settimeout(2000) s:send('a\\n') s:receive(1) local d, e, p = s:receive(10) return tostring(d) .. e",
        connect(answering)
    );
    assert!(engine.run(&partial).is_ok());
}

#[test]
fn waits_are_refused_where_native_code_calls() {
    let engine = Engine::open().unwrap();
    let source =
        "local ok, e = pcall(table.sort, {3, 2, 1}, function() ngx.sleep(0.001) return true end) return e";
    assert!(engine.run(source).unwrap().contains("attempt to yield across C-call boundary"));
    // A wait that was begun there is not taken for a later one.
    assert_eq!(engine.run("ngx.sleep(0.001) return 1").as_deref(), Ok("1"));
}
