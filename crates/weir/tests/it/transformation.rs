//! Bodies and local replies that plugins transform, through the real gateway: `body-transformer`,
//! `exit-transformer` and `error-page`.

use serde_json::{Value, json};
use testkit::{Origin, Reply, Weir};

use crate::support::{BINARY, gateway, route, upstream};

/// A gateway with one route for every path with these plugins in front of `origin`.
fn with_plugins(origin: &Origin, plugins: &Value) -> Weir {
    gateway(&route(&format!("uri: /*, plugins: {plugins}"), &upstream(&[origin.address()], "")))
}

/// The configuration in the guide's page, with the node at `origin`.
fn guide_route(origin: &Origin) -> Value {
    let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/guide/transformation.md");
    let page = std::fs::read_to_string(path).unwrap();
    let example =
        page.split("```json country.json object\n").nth(1).and_then(|rest| rest.split("```").next()).unwrap();
    let mut route: Value = serde_json::from_str(example).unwrap();
    route["upstream"]["nodes"] = json!({origin.address().to_string(): 1});
    route
}

/// A SOAP service that knows one country.
fn soap_service() -> Origin {
    Origin::start(|request| {
        let (text, envelope) = (request.text(), "http://schemas.xmlsoap.org/soap/envelope/");
        let body = if text.contains("<name>Spain</name>") {
            "<ns2:getCountryResponse xmlns:ns2=\"urn:c\"><ns2:country><ns2:name>Spain</ns2:name>\
             <ns2:population>46704314</ns2:population><ns2:capital>Madrid</ns2:capital></ns2:country>\
             </ns2:getCountryResponse>"
        } else {
            "<S:Fault><faultcode>S:Server</faultcode><faultstring>no \"such\" country</faultstring></S:Fault>"
        };
        let text = format!(
            "<S:Envelope xmlns:S=\"{envelope}\"><S:Header/>\n <S:Body>{body}</S:Body></S:Envelope>\n"
        );
        Reply::with(200, &[("Content-Type", "text/xml"), ("ETag", "\"1\"")], text.as_bytes())
    })
}

#[test]
fn soap_service_answers_json_as_in_the_guide() {
    let origin = soap_service();
    let weir = Weir::start(BINARY);
    weir.put("routes/country", guide_route(&origin));
    let mut client = weir.client();
    let json_type = [("Content-Type", "application/json")];
    let response = client.request("POST", "/countries", &json_type, b"{\"name\": \"Spain\"}");
    assert_eq!(response.text(), "{\"name\": \"Spain\", \"capital\": \"Madrid\", \"population\": 46704314}");
    assert_eq!(response.header("content-type"), Some("application/json"));
    assert_eq!(response.header("etag"), None);
    let request = origin.last_request();
    assert_eq!((&*request.target, request.header("content-type")), ("/ws", Some("text/xml")));
    assert_eq!(request.header("content-length"), Some(&*request.text().len().to_string()));
    let injected = client.request("POST", "/countries", &json_type, b"{\"name\": \"</name><x>&\"}");
    assert_eq!(injected.text(), "{\"error\": \"no \\\"such\\\" country\"}");
    assert!(origin.last_request().text().contains("<name>&lt;/name&gt;&lt;x&gt;&amp;</name>"));
    let refused = client.request("POST", "/countries", &json_type, b"name=Spain");
    // The refusal is JSON, which the template for XML cannot read, so that it stays as it is.
    assert_eq!(refused.status, 400, "{}", refused.text());
    assert!(refused.text().contains("request body decode"), "{}", refused.text());
    assert!(client.surplus().is_empty());
}

#[test]
fn form_and_query_become_json_for_the_upstream() {
    let origin = Origin::answering("ok");
    let template = "{\"foo\":\"{{name .. \" world\"}}\",\"bar\":{{age+10}}}";
    let plugins = json!({"body-transformer": {"request": {"template": template}}});
    let weir = with_plugins(&origin, &plugins);
    let mut client = weir.client();
    let form = [("Content-Type", "application/x-www-form-urlencoded")];
    let sent = [
        ("POST", "/", &form[..], &b"name=hello&age=20"[..]),
        ("GET", "/?name=hello&age=20", &[][..], &b""[..]),
    ];
    for (method, path, fields, body) in sent {
        assert_eq!(client.request(method, path, fields, body).status, 200);
        let request = origin.last_request();
        assert_eq!(request.text(), "{\"foo\":\"hello world\",\"bar\":30}", "{method}");
    }
    assert!(client.surplus().is_empty());
}

#[test]
fn limits_and_hostile_bodies_end_one_request_only() {
    let origin = Origin::answering("ok");
    let config = json!({
        "request": {"input_format": "xml", "template": "{% while a == 'loop' do end %}{{a}}"},
        "max_req_body_size": 1_000,
    });
    let weir = with_plugins(&origin, &json!({"body-transformer": config}));
    let bomb = b"<!DOCTYPE a [<!ENTITY x \"xxxx\">]><a>&x;</a>";
    let deep = "<a>".repeat(300);
    let long = format!("<a>{}</a>", "x".repeat(1_000));
    let cases: [(&[u8], u16, &str); 5] = [
        (b"<a>loop</a>", 503, "request template rendering"),
        (bomb, 400, "a document type is not accepted"),
        (deep.as_bytes(), 400, "more than 128 elements"),
        (b"\xff\x00\xfe", 400, "Error Parsing XML"),
        (long.as_bytes(), 413, ""),
    ];
    for (body, status, expected) in cases {
        let response = weir.client().request("POST", "/", &[], body);
        let text = response.text();
        assert!(response.status == status && text.contains(expected), "{}: {text}", response.status);
        assert!(!text.contains("while"), "a client learns nothing of the template: {text}");
    }
    assert_eq!(origin.requests().len(), 0);
    assert_eq!(weir.client().request("POST", "/", &[], b"<a>on</a>").status, 200);
    assert_eq!(origin.last_request().text(), "on");
}

#[test]
fn response_that_cannot_be_transformed_is_hidden() {
    let origin = Origin::start(|request| match request.path() {
        "/gzip" => Reply::with(200, &[("Content-Encoding", "gzip")], b"secret"),
        "/long" => Reply::ok(&format!("{{\"a\": \"{}\"}}", "x".repeat(200))),
        "/empty" => Reply::with(201, &[("Content-Type", "application/json")], b""),
        "/none" => Reply::raw(b"HTTP/1.1 204 No Content\r\n\r\n"),
        "/faulty" => Reply::ok("secret"),
        _ => Reply::chunked(&["{\"a\": ", "1}"], &[]),
    });
    let config = json!({
        "response": {"input_format": "json", "template": "<{{a}}>{% if a == 2 then error('x') end %}"},
        "max_resp_body_size": 100,
    });
    let weir = with_plugins(&origin, &json!({"body-transformer": config}));
    let mut client = weir.client();
    for (path, status, expected) in [
        ("/good", 200, "<1>"),
        ("/gzip", 500, "{\"message\":\"the response could not be transformed\"}\n"),
        ("/faulty", 500, "{\"message\":\"the response could not be transformed\"}\n"),
        ("/empty", 201, ""),
        ("/none", 204, ""),
        ("/good", 200, "<1>"),
    ] {
        let response = client.get(path);
        assert_eq!((response.status, &*response.text()), (status, expected), "{path}");
        assert_eq!(response.header("content-encoding"), None, "{path}");
    }
    assert!(client.surplus().is_empty());
    assert_eq!(weir.get("/long").status, 502);
    assert_eq!(weir.client().request("HEAD", "/good", &[], b"").status, 200);
}

#[test]
fn exit_functions_change_local_replies_only() {
    let origin = Origin::start(|_| Reply::status(404, "of the upstream"));
    let weir = Weir::start(BINARY);
    let function = |code: &str| {
        format!("return (function(code, body, header) do {code} end return code, body, header end)(...)")
    };
    let functions = [
        function("if code == 404 then return 410, 'Gone.', header end"),
        function("if code == 401 then header['X-Error'] = code return 402, {why = body.message}, header end"),
        function("if code == 502 or code == 504 then return 418 end"),
    ];
    weir.put("global_rules/1", json!({"plugins": {"exit-transformer": {"functions": functions}}}));
    let nodes = json!({origin.address().to_string(): 1});
    weir.put("routes/1", json!({"uri": "/up", "upstream": {"nodes": nodes}}));
    weir.put("routes/2", json!({"uri": "/key", "plugins": {"key-auth": {}}, "upstream": {"nodes": nodes}}));
    weir.put("routes/3", json!({"uri": "/down", "upstream": {"nodes": {Origin::nowhere().to_string(): 1}}}));
    let failing = [function("return code()")];
    weir.put(
        "routes/4",
        json!({"uri": "/fails", "plugins": {"key-auth": {}, "exit-transformer": {"functions": failing}}}),
    );
    let mut client = weir.client();
    let mut check = |path: &str, status: u16, body: &str| {
        let response = client.get(path);
        assert_eq!((response.status, &*response.text()), (status, body), "{path}");
        response
    };
    check("/nothing", 410, "Gone.");
    check("/up", 404, "of the upstream");
    let refused = check("/key", 402, "{\"why\":\"Missing API key in request\"}\n");
    assert_eq!(refused.header("x-error"), Some("401"));
    assert_eq!(refused.header("content-type"), Some("application/json"));
    check("/fails", 402, "{\"why\":\"Missing API key in request\"}\n");
    let broken = weir.get("/down");
    assert_eq!(broken.status, 502, "{}", broken.text());
    let (status, text) = weir.admin(
        "PUT",
        "routes/5",
        json!({"uri": "/x", "plugins": {"exit-transformer": {"functions": [function("if code == then")]}}}),
    );
    assert!(
        status == 400 && text.to_string().contains("functions[0]: function:1: unexpected symbol"),
        "{text}"
    );
}

#[test]
fn error_pages_replace_errors_of_the_gateway() {
    let origin = Origin::start(|_| Reply::status(500, "of the upstream"));
    let weir = Weir::start(BINARY);
    weir.put("global_rules/1", json!({"plugins": {"error-page": {}}}));
    weir.put("routes/1", json!({"uri": "/up", "upstream": {"nodes": {origin.address().to_string(): 1}}}));
    weir.put("routes/2", json!({"uri": "/down", "upstream": {"nodes": {Origin::nowhere().to_string(): 1}}}));
    let usual = weir.get("/nothing").text();
    assert!(usual.contains("404 Route Not Found"), "{usual}");
    let pages = json!({
        "enable": true,
        "error_404": {"body": "{\"code\": 404}", "content_type": "application/json"},
        "error_500": {"body": "mine"},
        "error_502": {},
    });
    weir.put("plugin_metadata/error-page", pages);
    let mut client = weir.client();
    let missing = client.get("/nothing");
    assert_eq!((missing.status, &*missing.text()), (404, "{\"code\": 404}"));
    assert_eq!(missing.header("content-type"), Some("application/json"));
    assert_eq!(client.get("/up").text(), "of the upstream");
    let broken = client.get("/down");
    assert_eq!((broken.status, broken.header("content-type")), (502, Some("text/html")));
    assert!(broken.text().contains("<h1>502 Bad Gateway</h1>"), "{}", broken.text());
    let head = client.request("HEAD", "/nothing", &[], b"");
    assert_eq!((head.status, head.header("content-length")), (404, Some("13")));
    assert!(client.surplus().is_empty());
    weir.delete("plugin_metadata/error-page");
    assert_eq!(weir.get("/nothing").text(), usual);
}
