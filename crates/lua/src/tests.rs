//! Scripts in the sandbox: what they can do, what they cannot, and the limits that end them.

use exchange::Exchange;
use exchange::testing::{Scene, consumer, route};
use mlua::Value;

use super::*;

/// The result of a script as text, or its error.
fn run_in(exchange: &Exchange, source: &str) -> Result<String, String> {
    let script = LuaScript::compile("script", source.as_bytes().to_vec())?;
    Interpreter::call(exchange, |call| {
        let result: Value = call.load(&script)?.function.call(())?;
        Ok(match result {
            Value::Nil => "nil".to_owned(),
            value => String::from_utf8_lossy(&value.to_string()?.into_bytes()).into_owned(),
        })
    })
}

fn with_exchange<T>(test: impl FnOnce(&mut Exchange) -> T) -> T {
    let mut scene = Scene::new().with_route(route("r1"));
    let mut exchange = scene.exchange(
        b"POST /a?name=joe&n=2 HTTP/1.1\r\nHost: example.com\r\nX-One: 1\r\nX-Two: a\r\nX-Two: b\r\n\r\n",
    );
    test(&mut exchange)
}

#[test]
fn library_functions_work_as_in_lua() {
    let cases = [
        ("return 1 + 1", "2"),
        ("return tostring(0.1 + 0.2)", "0.3"),
        ("return ('x'):rep(3) .. #'ab'", "xxx2"),
        ("return (('hello world'):gsub('o', '0'))", "hell0 w0rld"),
        ("return (('hello'):gsub('', '-'))", "-h-e-l-l-o-"),
        ("return (('hello world'):gsub('(%w+) (%w+)', '%2 %1 %%'))", "world hello %"),
        ("return (('abc'):gsub('%w', {a = 1, b = false}))", "1bc"),
        ("return (('abc'):gsub('%w', function(c) return c .. c end, 2))", "aabbc"),
        ("return select(2, ('abab'):gsub('^ab', ''))", "1"),
        ("return ('key = value'):match('^(%w+)%s*=%s*(%w+)$')", "key"),
        ("return ('  x  '):match('^%s*(.-)%s*$')", "x"),
        ("return ('f(a(b)c)d'):match('%b()')", "(a(b)c)"),
        ("return ('THE (quick) fox'):find('%((%a+)%)')", "5"),
        ("return ('a.b'):find('.', 1, true)", "2"),
        ("return ('abcabc'):find('b', -3)", "5"),
        ("return ('THE fox'):gsub('%f[%a]%a+', 'w')", "w w"),
        ("return ('aa bb'):match('(%a)%1 (%a)%2')", "a"),
        ("return ('[x]-y'):gsub('[]%-[]', '')", "xy"),
        ("return ('x'):match('()')", "1"),
        (
            "local t = {} for k, v in ('a=1,b=2'):gmatch('(%w)=(%w)') do t[#t+1] = k .. v end return table.concat(t, ';')",
            "a1;b2",
        ),
        ("local t = {3, 1, 2} table.sort(t, function(a, b) return a > b end) return table.concat(t)", "321"),
        (
            "return string.format('%s %5.1f %q', setmetatable({}, {__tostring = function() return 'T' end}), 1.25, 'a')",
            "T   1.2 \"a\"",
        ),
        ("return tostring(pcall(error, 'x'))", "false"),
        ("return select(2, xpcall(function() error('x', 0) end, function(e) return e .. '!' end))", "x!"),
        ("return bit.band(12, 10) + math.floor(2.7)", "10"),
        ("return os.date('!%Y', 0)", "1970"),
        ("return require('cjson').encode({1, {a = true}, require('cjson').null})", "[1,{\"a\":true},null]"),
        (
            "return require('cjson').encode({}) .. require('cjson').encode(require('cjson').decode('[]'))",
            "{}[]",
        ),
        (
            "return require('cjson').encode({1.5, 1e20, 0.1, -3, 12345678901234567890, 1e-7, 2^53})",
            "[1.5,1e+20,0.1,-3,1.2345678901235e+19,1e-07,9.007199254741e+15]",
        ),
        ("return require('apisix.core').json.encode('a/\"\\n\\1')", "\"a\\/\\\"\\n\\u0001\""),
        ("return tostring(require('cjson.safe').decode('{'))", "nil"),
        (
            "return require('cjson.safe').decode('{\"a\": [1, {\"b\": null}]}').a[2].b == require('cjson').null",
            "true",
        ),
        (
            "return ngx.decode_base64(ngx.encode_base64('a b')) .. ngx.escape_uri('a b/') .. ngx.unescape_uri('%41+')",
            "a ba%20b%2FA ",
        ),
    ];
    with_exchange(|exchange| {
        for (source, expected) in cases {
            assert_eq!(run_in(exchange, source).as_deref(), Ok(expected), "{source}");
        }
    });
}

#[test]
fn script_reads_request_route_and_consumer() {
    let cases = [
        ("return ngx.var.arg_name .. ngx.req.get_method()", "joePOST"),
        ("return ngx.var.arg_missing", "nil"),
        ("local h = require('apisix.core').request.headers() return h['X-One'] .. h.x_two[2]", "1b"),
        ("return require('apisix.core').request.header(nil, 'Host')", "example.com"),
    ];
    with_exchange(|exchange| {
        exchange.authenticate(std::sync::Arc::new(consumer("jack")));
        for (source, expected) in cases {
            assert_eq!(run_in(exchange, source).as_deref(), Ok(expected), "{source}");
        }
        let fields = Interpreter::call(exchange, |call| {
            let script = LuaScript::compile("t", b"local c = ... return c.var.host .. c.consumer.username .. c.consumer_name .. c.route_id .. c.headers.host .. tostring(c.nothing)".to_vec());
            call.load(&script.map_err(mlua::Error::runtime)?)?.function.call::<String>(call.context()?)
        });
        assert_eq!(fields.as_deref(), Ok("example.comjackjackr1example.comnil"));
    });
}

#[test]
fn script_reaches_nothing_outside() {
    let names = [
        "io",
        "debug",
        "package",
        "ffi",
        "jit",
        "load",
        "loadstring",
        "loadfile",
        "dofile",
        "module",
        "getfenv",
        "setfenv",
        "newproxy",
        "collectgarbage",
        "coroutine",
        "print",
        "gcinfo",
        "os.execute",
        "os.getenv",
        "os.exit",
        "os.remove",
        "os.rename",
        "os.tmpname",
        "os.setlocale",
        "string.dump",
    ];
    with_exchange(|exchange| {
        for name in names {
            assert_eq!(run_in(exchange, &format!("return {name}")).as_deref(), Ok("nil"), "{name}");
        }
        let refused = [
            ("return require('io')", "module 'io' is not available in Weir"),
            ("return ngx.timer", "not available in Weir: ngx.timer"),
            ("return require('apisix.core').config", "not available in Weir: apisix.core.config"),
            ("return require('ffi')", "module 'ffi' is not available"),
            ("getmetatable('').__index = nil", "attempt to index"),
            ("return setmetatable('', {})", "bad argument"),
            ("require('cjson').array_mt.__index = {}", "cannot be changed"),
            ("rawset(require('cjson').array_mt, '__index', {})", "cannot be changed"),
            ("getmetatable(ngx.req.get_headers()).__index = nil", "attempt to index"),
        ];
        for (source, expected) in refused {
            let reason = run_in(exchange, source).unwrap_err();
            assert!(reason.contains(expected), "{source}: {reason}");
        }
    });
}

#[test]
fn scripts_do_not_change_each_other() {
    with_exchange(|exchange| {
        let spoiled = "string.format = nil table.concat = nil x = 1 ngx.null = 2 return x";
        assert_eq!(run_in(exchange, spoiled).as_deref(), Ok("1"));
        let other = "return string.format('%d', 1) .. table.concat({2}) .. tostring(x) .. ('a'):format()";
        assert_eq!(run_in(exchange, other).as_deref(), Ok("12nila"));
    });
}

#[test]
fn limits_end_a_script_and_not_the_worker() {
    let endless = [
        "while true do end",
        "while true do pcall(function() while true do end end) end",
        "local function f() return pcall(f) end while true do f() end",
        "while true do xpcall(function() while true do end end, function() while true do end end) end",
        "local s = ('a'):rep(100000) return s:find(('.-'):rep(20) .. 'b')",
        "return (('a'):rep(1000000)):gsub('a*a*a*b', '')",
        "local t = {} for i = 1, 1e9 do table.insert(t, 1, i) end",
        "return tostring(setmetatable({}, {__index = function(t, k) while true do end end}).x)",
        "table.sort({3, 2, 1, 5, 4}, function(a, b) while true do end end)",
    ];
    with_exchange(|exchange| {
        for source in endless {
            let reason = run_in(exchange, source).unwrap_err();
            assert!(reason.contains("the script was stopped after"), "{source}: {reason}");
            assert_eq!(run_in(exchange, "return 7").as_deref(), Ok("7"), "behind {source}");
        }
        let greedy = [
            "local s = 'x' while true do s = s .. s end",
            "return ('x'):rep(2e9)",
            "local t = {} for i = 1, 1e9 do t[i] = {i} end",
            "local t = {} for i = 1, 4000 do t[i] = ('x'):rep(1e6) end return table.concat(t)",
            "return string.format(('%s'):rep(200), unpack((function() local t = {} for i = 1, 200 do t[i] = ('x'):rep(1e6) end return t end)()))",
        ];
        for source in greedy {
            let reason = run_in(exchange, source).unwrap_err();
            let is_limit =
                reason.contains("not enough memory") || reason.contains("the script was stopped after");
            assert!(is_limit, "{source}: {reason}");
            assert_eq!(run_in(exchange, "return 7").as_deref(), Ok("7"), "behind {source}");
        }
    });
}

#[test]
fn recursion_is_bounded_without_native_stack() {
    let deep = [
        "local function f() return 1 + f() end return f()",
        "local function f(s) return (s:gsub('a', f)) .. '' end return f('a')",
        "local t = setmetatable({}, {}) getmetatable(t).__tostring = function() return tostring(t) .. '' end return tostring(t)",
        "local t = setmetatable({}, {}) getmetatable(t).__tostring = function() return string.format('%s', t) .. '' end return tostring(t)",
        "local function f() table.sort({2, 1}, function() f() return true end) end f()",
        "local t = {} t.t = t return require('cjson').encode(t)",
        "local core = require('apisix.core') local t = {} t.t = t return core.table.deepcopy(t)",
        "return require('cjson').decode(('['):rep(100000))",
        "return ('x'):match(('('):rep(40))",
        "return (('x'):rep(300000)):match(('x?'):rep(100000))",
    ];
    with_exchange(|exchange| {
        for source in deep {
            assert!(run_in(exchange, source).is_err(), "{source}");
            assert_eq!(run_in(exchange, "return 7").as_deref(), Ok("7"), "behind {source}");
        }
    });
}

#[test]
fn faulty_source_is_refused_with_its_line() {
    let refused = |source: &[u8]| LuaScript::compile("function", source.to_vec()).unwrap_err();
    let reason = refused(b"local a = 1\nif a == then return end");
    assert_eq!(reason, "function:2: unexpected symbol near 'then'");
    assert!(refused(b"\x1bLJ\x02").contains("bytecode") || !refused(b"\x1bLJ\x02").is_empty());
    assert!(refused(&vec![b' '; script::SOURCE_MAX_BYTES + 1]).contains("longer than"));
}

#[test]
fn binary_texts_keep_their_bytes() {
    with_exchange(|exchange| {
        let bytes = Interpreter::call(exchange, |call| {
            let script = LuaScript::compile("t", b"local s = ... return (s:gsub('\\0', '\\255'))".to_vec());
            let text = call.lua().create_string(b"\xff\x00\xfe")?;
            let result: mlua::LuaString =
                call.load(&script.map_err(mlua::Error::runtime)?)?.function.call(text)?;
            Ok(result.as_bytes().to_vec())
        });
        assert_eq!(bytes.as_deref(), Ok(&b"\xff\xff\xfe"[..]));
    });
}

#[test]
fn full_interpreter_is_replaced() {
    // Equal strings would be stored once.
    let fill = |letter: char, megabytes: u32| {
        format!("kept = {{}} for i = 1, {megabytes} do kept[i] = ('{letter}'):rep(1e6 - i) end return #kept")
    };
    with_exchange(|exchange| {
        let script = LuaScript::compile("script", b"seen = (seen or 0) + 1 return seen".to_vec()).unwrap();
        let seen = || Interpreter::call(exchange, |call| call.load(&script)?.function.call::<u32>(()));
        assert_eq!((seen(), seen()), (Ok(1), Ok(2)));
        assert_eq!(run_in(exchange, &fill('a', 20)).as_deref(), Ok("20"));
        assert_eq!(seen(), Ok(3), "values that leave memory to others stay");
        // The strings stay reachable: their script is loaded as long as it is held.
        let holder = LuaScript::compile("script", fill('b', 100).into_bytes()).unwrap();
        let held = Interpreter::call(exchange, |call| call.load(&holder)?.function.call::<u32>(()));
        assert_eq!(held, Ok(100));
        assert_eq!(seen(), Ok(1), "more than half of the memory was kept");
        let holder = LuaScript::compile("script", fill('c', 50).into_bytes()).unwrap();
        let held = Interpreter::call(exchange, |call| call.load(&holder)?.function.call::<u32>(()));
        assert_eq!((held, seen()), (Ok(50), Ok(2)));
        let reason = run_in(exchange, &fill('d', 100)).unwrap_err();
        assert!(reason.contains("not enough memory"), "{reason}");
        assert_eq!(seen(), Ok(1), "a call lacked memory");
    });
}
