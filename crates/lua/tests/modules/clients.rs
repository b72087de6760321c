//! Tests of `resty.http` and `resty.redis` against scripted servers.

use std::io::{Read, Write};
use std::net::TcpListener;
use std::thread;

use lua::testing::Engine;

/// A server that waits for the end of each request and sends its answer, one for each connection where
/// `closes`, otherwise one behind another on the first.
fn serve(answers: &'static [(&'static str, &'static str)], closes: bool) -> u16 {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let port = listener.local_addr().unwrap().port();
    thread::spawn(move || {
        let mut stream = None;
        for (request_end, answer) in answers {
            if closes || stream.is_none() {
                stream = Some(listener.accept().unwrap().0);
            }
            let stream = stream.as_mut().unwrap();
            let mut seen = Vec::new();
            while !seen.ends_with(request_end.as_bytes()) {
                let mut byte = [0];
                match stream.read(&mut byte) {
                    Ok(1) => seen.push(byte[0]),
                    _ => return,
                }
            }
            let request = String::from_utf8(seen).unwrap();
            let line = request.lines().next().unwrap_or_default().to_owned();
            stream.write_all(answer.replace("LINE", &line).as_bytes()).unwrap();
        }
    });
    port
}

fn check(port: u16, code: &str, expected: &str) {
    let engine = Engine::open().unwrap();
    let code = code.replace("PORT", &port.to_string());
    assert_eq!(engine.run(&code).as_deref(), Ok(expected), "{code}");
}

const HTTP: &str = "local h = require('resty.http').new() local r, e = ";

#[test]
fn http_reads_bodies_of_each_kind() {
    let port = serve(
        &[
            ("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: 19\r\nX-A: 1\r\nX-A: 2\r\n\r\nLINE"),
            (
                "\r\n\r\n",
                "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\n3\r\nabc\r\n2;x=y\r\nde\r\n0\r\nX-T: end\r\n\r\n",
            ),
            ("body", "HTTP/1.1 100 Continue\r\n\r\nHTTP/1.1 204 No Content\r\nConnection: close\r\n\r\n"),
        ],
        false,
    );
    let code = format!(
        "{HTTP} h:request_uri('http://127.0.0.1:PORT/a', {{query = {{b = 1}}}}) if not r then return e end
        local all = r.status .. r.body .. r.headers['x-a'][2] .. r.headers.content_length
        r, e = h:request_uri('http://127.0.0.1:PORT/') if not r then return e end
        all = all .. r.body .. r.headers['X-T']
        r, e = h:request_uri('http://127.0.0.1:PORT/', {{method = 'POST', body = 'body'}}) if not r then return e end
        return all .. r.status .. #r.body"
    );
    check(port, &code, "200GET /a?b=1 HTTP/1.1219abcdeend2040");
}

#[test]
fn http_refuses_hostile_answers() {
    let heads: &'static [(&'static str, &'static str)] = &[
        ("\r\n\r\n", "SSH-2.0\r\n\r\n"),
        ("\r\n\r\n", "HTTP/1.1 200 OK\r\nContent-Length: -1\r\n\r\n"),
        ("\r\n\r\n", "HTTP/1.1 200 OK\r\nTransfer-Encoding: chunked\r\n\r\nzz\r\n"),
        ("\r\n\r\n", "HTTP/1.1 200 OK\r\nno colon\r\n\r\n"),
    ];
    let port = serve(heads, true);
    let code = format!(
        "local all = '' for i = 1, 4 do {HTTP} h:request_uri('http://127.0.0.1:PORT/', {{keepalive = false}}) \
         all = all .. tostring(r) .. ':' .. e:sub(1, 20) .. ';' end return all"
    );
    check(
        port,
        &code,
        "nil:couldn't parse HTTP ;nil:invalid Content-Leng;nil:unable to read chunk;nil:malformed header lin;",
    );
}

#[test]
fn http_sends_no_line_breaks_of_others() {
    check(
        0,
        &format!("{HTTP} h:request_uri('http://127.0.0.1:1', {{path = '/\\r\\nx'}}) return tostring(r)"),
        "nil",
    );
    check(0, "local h = require('resty.http') return h.new():parse_uri('http://a:1/p?q')[4]", "/p?q");
    check(
        0,
        "local h = require('resty.http') return table.concat(h.new():parse_uri('https://[::1]/p?q', false), ',')",
        "https,[::1],443,/p,q",
    );
    check(
        0,
        "local h = require('resty.http') return select(2, h.new():parse_uri('ftp://x'))",
        "bad uri: ftp://x",
    );
}

#[test]
fn redis_replies_become_values() {
    let port = serve(
        &[
            ("$1\r\nk\r\n", "$1\r\nv\r\n"),
            ("$1\r\nn\r\n", "$-1\r\n"),
            ("$4\r\nINCR\r\n$1\r\nk\r\n", "-ERR no number\r\n"),
        ],
        false,
    );
    let code = "local r = require('resty.redis'):new() r:set_timeout(2000)
        local ok, e = r:connect('127.0.0.1', PORT) if not ok then return e end
        local all = r:get('k') .. tostring(r:get('n') == ngx.null)
        local v, m = r:incr('k') return all .. tostring(v) .. m";
    check(port, code, "vtruefalseERR no number");
    let port = serve(&[("$1\r\nb\r\n", "+OK\r\n*2\r\n:1\r\n$1\r\nx\r\n")], false);
    let code = "local r = require('resty.redis'):new() r:connect('127.0.0.1', PORT) r:init_pipeline()
        r:set('a', 1) r:mget('a', 'b') local l, e = r:commit_pipeline() if not l then return e end
        return l[1] .. l[2][1] .. l[2][2] .. r:array_to_hash({'k', 'v'}).k";
    check(port, code, "OK1xv");
}
