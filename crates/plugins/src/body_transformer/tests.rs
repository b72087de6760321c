//! Templates, formats and failures, without a socket.

use exchange::testing::{Scene, configuration_check, consumer, decide, finish, respond};

use super::template::BodyTemplate;
use super::*;

/// The request body that the upstream gets, or the status and the body of the reply.
fn request(config: &Value, head: &str, body: &[u8]) -> Result<String, (u16, String)> {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, config);
    let bytes = [format!("{head}\r\nHost: a\r\n\r\n").as_bytes(), body].concat();
    let mut exchange = scene.exchange(&bytes);
    if body.is_empty() {
        exchange.body.keep_whole(Vec::new(), None);
    }
    exchange.authenticate(Arc::new(consumer("jack")));
    assert!(decide(plugin.rewrite(&mut exchange)).is_none());
    match decide(plugin.access(&mut exchange)) {
        Some(reply) => Err((reply.status, String::from_utf8_lossy(&reply.body).into_owned())),
        None => Ok(String::from_utf8_lossy(exchange.request_body().unwrap()).into_owned()),
    }
}

fn on_request(format: &str, template: &str) -> Value {
    let mut config = json!({"request": {"template": template}});
    if !format.is_empty() {
        config["request"]["input_format"] = format.into();
    }
    config
}

/// The status, the fields and the body of a response of an upstream behind the plugin.
fn response(
    config: &Value,
    fields: &[(&str, &str)],
    body: &[u8],
    is_local: bool,
) -> (u16, Vec<String>, String) {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, config);
    let mut exchange = scene.exchange(b"GET /a?x=1 HTTP/1.1\r\nHost: a\r\n\r\n");
    respond(&mut exchange, 200, fields);
    exchange.stats.answered_locally = is_local;
    finish(plugin.response_head(&mut exchange));
    let mut body = body.to_vec();
    match plugin.wants_response_body(&exchange) {
        BodyNeed::None => {}
        need => {
            assert_eq!(need, BodyNeed::Buffer { limit_bytes: 64 * 1024 * 1024 });
            finish(plugin.response_body(&mut exchange, &mut body, Portion::Last));
        }
    }
    let lines = exchange::testing::lines(&exchange.response.headers);
    (exchange.response.status, lines, String::from_utf8_lossy(&body).into_owned())
}

#[test]
fn configurations() {
    let check = configuration_check(&KIND);
    check(json!({"request": {"template": "some-template"}}), None);
    check(json!({"response": {"template": "$env://TEMPLATE", "input_format": "xml"}}), None);
    check(json!({}), Some("request"));
    check(json!({"request": {}}), Some("template"));
    check(json!({"request": {"template": "a", "input_format": "yaml"}}), Some("input_format"));
    check(json!({"request": {"template": "a"}, "max_req_body_size": 0}), Some("max_req_body_size"));
    let line = "request.template: template:2: unexpected symbol near '+'";
    check(json!({"request": {"template": "a\n{{ + }}"}}), Some(line));
    check(
        json!({"response": {"template": "{% if x then %}"}}),
        Some("response.template: template:1: 'end' expected"),
    );
    check(
        json!({"request": {"template": "\n\n{(file.html)}"}}),
        Some("template:3: a template cannot include others"),
    );
    check(json!({"request": {"template": "{[name]}"}}), Some("cannot include"));
    check(json!({"request": {"template": "{-menu-}a{-menu-}"}}), Some("blocks need a layout"));
    let faulty = data_encoding::BASE64.encode(b"x\n{% = %}");
    check(
        json!({"request": {"template": faulty, "template_is_base64": true}}),
        Some("template:2: unexpected"),
    );
    check(json!({"request": {"template": faulty, "input_format": "json"}}), Some("template:2: unexpected"));
}

#[test]
fn template_tags_print_as_in_lua_resty_template() {
    let body = br#"{"name": "a<b>/'\"&", "list": [1, 2.5], "no": false, "none": null, "o": {"k": "v"}}"#;
    let cases = [
        ("plain { text } {", "plain { text } {"),
        ("{{name}}", "a&lt;b&gt;&#47;&#39;&quot;&amp;"),
        ("{*name*}", "a<b>/'\"&"),
        ("[{{missing}}{{none}}{{no}}]", "[]"),
        ("{{list[1] + 1}},{{list[2]}},{{#list}}", "2,2.5,2"),
        ("{{function() return 'f' end}}", "f"),
        ("{% for i, v in ipairs(list) do %}<{{v}}>{% end %}", "<1><2.5>"),
        ("a\n  {% local x = 1 %}\nb{{x}}", "a\nb1"),
        ("{% -- a comment %}x", "x"),
        ("a{# {{name}} #}\nb", "ab"),
        ("{-raw-}{{name}}{% x %}{-raw-}!", "{{name}}{% x %}!"),
        ("\\{{name}} \\\\{{o.k}}", "{{name}} \\v"),
        ("{{ name", "{{ name"),
        ("{% echo(1, o.k) %}", "1v"),
        ("{% context.name = 'new' y = 2 %}{{name}}{{y}}", "new2"),
        ("{*_escape_json(o)*}", "{\"k\":\"v\"}"),
        ("{*_escape_xml(name)*}", "a&lt;b&gt;/&apos;&quot;&amp;"),
        ("{{_ctx.var.arg_q}}{{_ctx.headers.host}}{{_ctx.consumer.username}}", "1ajack"),
        ("{{#_body}}", "83"),
        ("{{string.upper(o.k)}}{{('x'):rep(2)}}{{tostring(1)}}", "Vxx1"),
        ("quote\" back\\slash\ttab\r\nend", "quote\" back\\slash\ttab\r\nend"),
        ("]] ]=] é", "]] ]=] é"),
    ];
    for (template, expected) in cases {
        let got = request(&on_request("json", template), "POST /?q=1 HTTP/1.1", body);
        assert_eq!(got.as_deref(), Ok(expected), "{template}");
    }
}

#[test]
fn request_formats_become_fields() {
    let sum = r#"{"foo":"{{name .. " world"}}","bar":{{age+10}}}"#;
    let expected = Ok(r#"{"foo":"hello world","bar":30}"#);
    let json = br#"{"name":"hello","age":20}"#;
    let parts = b"--AaB03x\r\nContent-Disposition: form-data; name=\"name\"\r\n\r\nhello\r\n--AaB03x\r\nContent-Disposition: form-data; name=\"age\"\r\n\r\n20\r\n--AaB03x--";
    let cases: [(&str, &str, &[u8]); 8] = [
        ("", "POST / HTTP/1.1\r\nContent-Type: application/json; charset=utf-8", json),
        ("json", "POST / HTTP/1.1", json),
        ("", "POST / HTTP/1.1\r\nContent-Type: text/xml", b"<name>hello</name><age>20</age>"),
        ("", "PUT / HTTP/1.1\r\nContent-Type: Application/X-WWW-Form-Urlencoded", b"name=hello&age=20"),
        ("", "GET /?name=hello&age=20 HTTP/1.1", b""),
        ("xml", "GET /?name=hello&age=20 HTTP/1.1", b"<x/>"),
        ("args", "POST /?name=hello&age=20 HTTP/1.1", b"ignored"),
        ("", "POST / HTTP/1.1\r\nContent-Type: multipart/related; boundary=AaB03x", parts),
    ];
    for (format, head, body) in cases {
        assert_eq!(request(&on_request(format, sum), head, body).as_deref(), expected, "{format} {head}");
    }
    let plain = "{\"message\": \"{* string.gsub(_body, 'not ', '') *}\"}";
    let got = request(&on_request("plain", plain), "POST / HTTP/1.1", b"not actually json");
    assert_eq!(got.as_deref(), Ok("{\"message\": \"actually json\"}"));
    let unknown =
        request(&on_request("", "{{name}}{*_body*}"), "POST / HTTP/1.1\r\nContent-Type: text/yaml", b"a: 1");
    assert_eq!(unknown.as_deref(), Ok("a: 1"));
    let empty = request(&on_request("json", "{{name}}{{_body}}!"), "POST / HTTP/1.1", b"");
    assert_eq!(empty.as_deref(), Ok("!"));
    let form = request(
        &on_request("encoded", "{*_escape_json(a)*}{{b}}{{c}}"),
        "POST / HTTP/1.1",
        b"a=1&a=2+%2B&b&=x&c=",
    );
    assert_eq!(form.as_deref(), Ok("[\"1\",\"2 +\"]true"));
}

#[test]
fn base64_templates_are_decoded_as_in_apisix() {
    let encoded = data_encoding::BASE64.encode(b"<{{a}}>");
    let mut config = on_request("json", &encoded);
    assert_eq!(request(&config, "POST / HTTP/1.1", b"{\"a\":1}").as_deref(), Ok("<1>"));
    // Of a form a template is decoded only where the configuration says so.
    config = on_request("encoded", &encoded);
    assert_eq!(request(&config, "POST / HTTP/1.1", b"a=1").as_deref(), Ok(&*encoded));
    config["request"]["template_is_base64"] = true.into();
    assert_eq!(request(&config, "POST / HTTP/1.1", b"a=1").as_deref(), Ok("<1>"));
}

#[test]
fn xml_has_the_shape_of_xml2lua() {
    let cases = [
        ("<a/>", "{{a == ''}}", "true"),
        ("<a></a>", "{{a == ''}}", "true"),
        ("<a> x y </a>", "[{{a}}]", "[x y]"),
        ("<a><b>1</b><b>2</b><b/></a>", "{{a.b[1]}}{{a.b[2]}}[{{a.b[3]}}]{{#a.b}}", "12[]3"),
        (
            "<s:a xmlns:s=\"u\"><s:b s:k='v&amp;'>t</s:b></s:a>",
            "{{a._attr.s}}{{a.b[1]}}{*a.b._attr.k*}",
            "utv&",
        ),
        ("<a><![CDATA[ <x> ]]></a>", "{*a*}", " <x> "),
        ("<a>1 &lt; 2 &#65;&#x20AC;</a>", "{*a*}", "1 < 2 A€"),
        ("<?xml version='1.0'?><!-- c --><a><?pi x?>t</a>", "{{a}}", "t"),
        ("<a k='&nbsp;'>&nbsp;1 &lt;</a>", "{*a._attr.k*}{*a[1]*}", "&nbsp;&nbsp;1 <"),
        ("<a k='1'/>", "{{a._attr.k}}{{a[1]}}", "1"),
        ("<a>x<b/>y</a>", "{{a[1]}}{{a[2]}}", "xy"),
        ("  \n ", "{{a}}!", "!"),
    ];
    for (body, template, expected) in cases {
        let got = request(&on_request("xml", template), "POST / HTTP/1.1", body.as_bytes());
        assert_eq!(got.as_deref(), Ok(expected), "{body}");
    }
    let latin = request(&on_request("xml", "{{#a}}"), "POST / HTTP/1.1", b"<a>\xe9\xff</a>");
    assert_eq!(latin.as_deref(), Ok("2"), "bytes of another encoding stay bytes");
    let latin = request(
        &on_request("json", "{{#a}}{{a == '\\233\\255'}}"),
        "POST / HTTP/1.1",
        b"{\"a\":\"\xe9\xff\"}",
    );
    assert_eq!(latin.as_deref(), Ok("2true"), "in JSON too");
}

#[test]
fn hostile_bodies_are_refused() {
    let bomb = b"<!DOCTYPE a [<!ENTITY x \"xxxx\"><!ENTITY y \"&x;&x;\">]><a>&y;</a>";
    let deep_xml = "<a>".repeat(10_000);
    let deep_json = "[".repeat(100_000);
    let long_json = format!("[{}1]", "1,".repeat(1_000_000));
    let many = "--x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n".repeat(2_000);
    let cases: [(&str, &str, &[u8], &str); 10] = [
        ("xml", "", b"{\"name\":\"hello\"}", "request body decode: Error Parsing XML"),
        ("xml", "", b"<a><b></a>", "Error Parsing XML"),
        ("xml", "", b"<a>", "Incomplete XML Document"),
        ("xml", "", bomb, "a document type is not accepted"),
        ("xml", "", deep_xml.as_bytes(), "more than 128 elements"),
        ("json", "", b"{\"a\":", "request body decode: EOF"),
        ("json", "", b"\"text\"", "neither an object nor an array"),
        ("json", "", long_json.as_bytes(), "more than 1000000 values or takes longer than 500 ms"),
        ("json", "", deep_json.as_bytes(), "recursion limit"),
        (
            "multipart",
            "\r\nContent-Type: multipart/form-data; boundary=x",
            many.as_bytes(),
            "more than 1000 parts",
        ),
    ];
    for (format, fields, body, expected) in cases {
        let head = format!("POST / HTTP/1.1{fields}");
        let (status, text) = request(&on_request(format, "{{a}}"), &head, body).unwrap_err();
        assert!(status == 400 && text.contains(expected), "{format}: {status} {text}");
    }
    let malformed = b"this is not a valid multipart body";
    let head = "POST / HTTP/1.1\r\nContent-Type: multipart/form-data; boundary=----Wrong";
    let got = request(&on_request("multipart", "{\"foo\":\"{{foo}}\"}"), head, malformed);
    assert_eq!(got.as_deref(), Ok("{\"foo\":\"\"}"));
}

#[test]
fn failing_template_is_answered_with_503() {
    for template in
        ["{{name() .. ' world'}}", "{% while true do end %}", "{% error({}) %}", "{{_escape_xml(nil)}}"]
    {
        let (status, text) =
            request(&on_request("json", template), "POST / HTTP/1.1", b"{\"name\":\"x\"}").unwrap_err();
        let expected = "{\"message\":\"request template rendering: the template has failed\"}\n";
        assert_eq!((status, &*text), (503, expected), "{template}");
    }
    let template = BodyTemplate::compile(b"a\nb {{ x }}\n{% local y = nil\nlocal z = y.a %}").unwrap();
    assert_eq!(template.relocate("template:5: attempt"), "template:3: attempt");
    assert_eq!(template.relocate("template:6: attempt"), "template:4: attempt");
}

#[test]
fn new_body_counts_as_held_memory() {
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &on_request("json", "{{('x'):rep(n)}}"));
    let mut status = |body: &[u8]| {
        let head = b"POST / HTTP/1.1\r\nHost: a\r\n\r\n";
        let mut exchange = scene.exchange(&[head, body].concat());
        // 90 percent of the limit may be held: 600 bytes are left.
        exchange.local().shared.memory.update(3_000, 4_000);
        assert!(decide(plugin.rewrite(&mut exchange)).is_none());
        decide(plugin.access(&mut exchange)).map(|reply| reply.status)
    };
    assert_eq!(status(b"{\"n\":500}"), None);
    assert_eq!(status(b"{\"n\":700}"), Some(503));
}

#[test]
fn body_cannot_replace_helpers_or_tags() {
    let body =
        br#"{"name": "safe", "_ctx": "evil", "_body": "evil", "_escape_xml": "evil", "_escape_json": "evil",
        "_multipart": "evil", "template": "evil", "table": "evil", "echo": "evil", "context": "evil"}"#;
    let template = "{\"foobar\":{*_escape_json(name)*}}{{name}}{% echo(_ctx.var.host) %}";
    let got = request(&on_request("json", template), "POST / HTTP/1.1", body);
    assert_eq!(got.as_deref(), Ok("{\"foobar\":\"safe\"}safea"));
    // A name that one request assigns is unset for the next one.
    let config = on_request("json", "{% seen = (seen or 0) + 1 %}{{seen}}");
    let mut scene = Scene::new();
    let plugin = scene.build(&KIND, &config);
    for _ in 0..2 {
        let mut exchange = scene.exchange(b"POST / HTTP/1.1\r\nHost: a\r\n\r\n{}");
        assert!(decide(plugin.rewrite(&mut exchange)).is_none());
        assert!(decide(plugin.access(&mut exchange)).is_none());
        assert_eq!(exchange.request_body(), Some(&b"1"[..]));
    }
}

#[test]
fn template_edits_parts_of_a_multipart_body() {
    let template = "{%\n local core = require 'apisix.core'\n local cjson = require 'cjson'\n \
        if tonumber(context.age) > 18 then context._multipart:set_simple('status', 'major') \
        else context._multipart:set_simple('status', 'minor') end\n \
        context._multipart:delete('secret')\n local body = context._multipart:tostring()\n%}{* body *}";
    let body = b"--AaB03x\nContent-Disposition: form-data; name=\"age\"\n\n19\n--AaB03x\nContent-Disposition: form-data; name=\"secret\"\n\nx\n--AaB03x--";
    let head = "POST / HTTP/1.1\r\nContent-Type: multipart/related; boundary=AaB03x";
    let got = request(&on_request("multipart", template), head, body).unwrap();
    let expected = "--AaB03x\r\nContent-Disposition: form-data; name=\"age\"\r\n\r\n19\r\n--AaB03x\r\n\
        Content-Disposition: form-data; name=\"status\"\r\n\r\nmajor\r\n--AaB03x--\r\n";
    assert_eq!(got, expected);
    let injected = "{% _multipart:set_simple('a\"\\r\\nX: y', 'v', 'f\"') %}{*_multipart:tostring()*}";
    let got = request(&on_request("multipart", injected), head, b"").unwrap_err();
    assert_eq!(got.0, 503, "there are no parts without a body");
    let got = request(&on_request("multipart", injected), head, body).unwrap();
    assert!(got.contains("name=\"a%22%0D%0AX: y\"; filename=\"f%22\"\r\n\r\nv"), "{got}");
    let values = "{*_escape_json(_multipart:get_all_with_arrays())*}{{_multipart:get('a').value}}";
    let twice = b"--AaB03x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n1\r\n--AaB03x\r\nContent-Disposition: form-data; name=\"a\"\r\n\r\n\r\n2\r\n\r\n--AaB03x--\r\n";
    let got = request(&on_request("multipart", values), head, twice).unwrap();
    assert_eq!(got, "{\"a\":[\"1\",\"\\r\\n2\\r\\n\"]}\r\n2\r\n");
}

#[test]
fn responses_are_transformed_or_fail_closed() {
    let config = json!({"response": {"input_format": "xml", "template": "{\"k\": \"{{a.k}}\", \"status\": {{_ctx.var.status}}}"}});
    let fields = [("Content-Type", "text/plain"), ("ETag", "\"1\""), ("Last-Modified", "x"), ("X-Own", "1")];
    let (status, lines, body) = response(&config, &fields, b"<a><k>v</k></a>", false);
    assert_eq!((status, &*body), (200, "{\"k\": \"v\", \"status\": 200}"));
    assert_eq!(lines, ["Content-Type: text/plain", "X-Own: 1"]);
    let failed = "{\"message\":\"the response could not be transformed\"}\n";
    let (status, _, body) = response(&config, &[], b"secret", false);
    assert_eq!((status, &*body), (500, failed));
    let gzip = [("Content-Encoding", "gzip")];
    assert_eq!(response(&config, &gzip, b"<a/>", false).2, failed, "compressed");
    assert_eq!(response(&config, &[], b"{\"message\":\"no\"}", true).2, "{\"message\":\"no\"}", "local");
    let coded = [("Content-Encoding", "gzip"), ("Content-Length", "4"), ("ETag", "\"1\"")];
    let (status, lines, body) = response(&config, &coded, b"gzip", true);
    assert_eq!((status, &*body), (200, "gzip"), "compressed and local");
    assert_eq!(lines, ["Content-Encoding: gzip", "Content-Length: 4", "ETag: \"1\""]);
    // Two fields are one list.
    let two = [("Content-Encoding", "identity"), ("Content-Encoding", "gzip")];
    assert_eq!(response(&config, &two, b"<a/>", false).2, failed, "compressed");
    // A stream has no end at which it could be transformed.
    let stream = [("Content-Type", "text/event-stream"), ("ETag", "\"1\"")];
    let (status, lines, body) = response(&config, &stream, b"data: a", false);
    assert_eq!((status, lines.len(), &*body), (200, 2, "data: a"));
    let json = json!({"response": {"template": "{{a}}"}});
    let typed = [("Content-Type", "application/json")];
    // An empty body is empty in any coding.
    let empty = [typed[0], gzip[0]];
    assert_eq!(
        response(&json, &empty, b"", false),
        (200, vec!["Content-Type: application/json".to_owned()], String::new())
    );
    assert_eq!(response(&json, &typed, b"{\"a\":1}", false).2, "1");
    assert_eq!(
        response(&json, &typed, b"", false),
        (200, vec!["Content-Type: application/json".to_owned()], String::new())
    );
    assert_eq!(response(&json, &[], b"x", false).2, "");
    let args = json!({"response": {"input_format": "args", "template": "{{x}}"}});
    assert_eq!(response(&args, &[], b"old", false).2, "1");
}
