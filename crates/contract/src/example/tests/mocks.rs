//! Tests of mocked responses.

use serde_json::{Value, json};

use crate::example::{MockChoice, MockFault, MockResponse, mock_response};

/// An operation with a success in two types, an error with examples, and a default response.
fn operation() -> Value {
    json!({ "deprecated": true, "responses": {
        "404": { "content": { "application/json": { "examples": {
            "gone": { "value": { "reason": "gone" } }, "lost": { "$ref": "#/components/examples/lost" },
        } } } },
        "201": { "content": { "text/plain": { "example": "later" } } },
        "200": { "$ref": "#/components/responses/Ok" },
        "5XX": { "content": { "application/problem+json": { "schema": { "type": "object" } } } },
        "default": { "content": { "application/json": { "schema": { "type": "integer" } } } },
    } })
}

fn mocked(operation: &Value, wanted: &MockChoice<'_>) -> Result<MockResponse, MockFault> {
    let document = json!({ "openapi": "3.0.3", "components": {
        "examples": { "lost": { "value": "lost" } },
        "responses": { "Ok": {
            "headers": {
                "X-Rate": { "schema": { "type": "integer", "example": 5 } },
                "X-List": { "schema": { "type": "array", "items": { "type": "string" } } },
                "X-Break": { "example": "a\r\nb" }, "Bad name": { "example": "a" },
                "Content-Type": { "example": "a/b" },
            },
            "content": {
                "application/xml": { "example": { "a": [1, "<"] } },
                "application/json": { "schema": { "type": "object", "properties": {
                    "name": { "type": "string" }, "secret": { "type": "string", "writeOnly": true } } } },
            },
        } },
    } });
    mock_response(&document, operation, wanted)
}

fn body_of(prefer: &str, accept: Option<&str>) -> (u16, String, String) {
    let wanted = MockChoice { accept, ..MockChoice::from_prefer(prefer).unwrap() };
    let response = mocked(&operation(), &wanted).unwrap();
    (response.status, response.media_type, String::from_utf8(response.body).unwrap())
}

#[test]
fn prefer_is_read() {
    let read = |text| MockChoice::from_prefer(text);
    let all = MockChoice { code: Some(404), example: Some("a b"), dynamic: true, accept: None };
    assert_eq!(read("code=404, example=\"a b\", dynamic=true"), Ok(all));
    assert_eq!(read(" Code=404 ; EXAMPLE=\"a b\";dynamic, code=500, wait=10"), Ok(all));
    assert_eq!(read("respond-async"), Ok(MockChoice::default()));
    assert_eq!(read("example=\"a,b\"").unwrap().example, Some("a,b"));
    for text in ["code=default", "code=20", "code=+20", "dynamic=yes"] {
        assert_eq!(read(text).unwrap_err().status(), 422, "{text}");
    }
}

#[test]
fn lowest_success_is_the_usual_response() {
    let json_type = "application/json".to_owned();
    assert_eq!(body_of("", None), (200, json_type.clone(), r#"{"name":"string"}"#.to_owned()));
    assert_eq!(body_of("code=204", None), (204, json_type.clone(), "0".to_owned()));
    assert_eq!(body_of("code=503", None), (503, "application/problem+json".to_owned(), "{}".to_owned()));
    assert_eq!(body_of("code=404", None), (404, json_type, r#"{"reason":"gone"}"#.to_owned()));
    let only = json!({ "responses": { "404": {} } });
    assert_eq!(mocked(&only, &MockChoice::default()).unwrap().status, 404);
    let range = json!({ "responses": { "4xx": {}, "2XX": {} } });
    assert_eq!(mocked(&range, &MockChoice::default()).unwrap().status, 200);
    assert_eq!(mocked(&json!({}), &MockChoice::default()), Err(MockFault::NoResponse));
}

#[test]
fn accept_chooses_the_media_type() {
    let type_of = |accept| body_of("", Some(accept)).1;
    assert_eq!(type_of("application/xml"), "application/xml");
    assert_eq!(type_of("text/html, application/xml;q=0.9, application/json;q=0.1"), "application/xml");
    assert_eq!(type_of("*/*"), "application/xml");
    assert_eq!(type_of("application/json;q=0, */*;q=0.1"), "application/xml");
    assert_eq!(type_of("application/json; version=2"), "application/json");
    assert_eq!(body_of("", Some("application/xml")).2, "<xml><a>1</a><a>&lt;</a></xml>");
    let wanted = MockChoice { accept: Some("image/png"), ..MockChoice::default() };
    let fault = mocked(&operation(), &wanted).unwrap_err();
    assert_eq!((fault.status(), fault.to_string().contains("application/xml")), (406, true));
}

#[test]
fn examples_are_chosen_by_name() {
    assert_eq!(body_of("code=404, example=lost", None).2, r#""lost""#);
    assert_eq!(body_of("code=201, example=default", None).2, "later");
    let wanted = MockChoice { code: Some(404), example: Some("none"), ..MockChoice::default() };
    let fault = mocked(&operation(), &wanted).unwrap_err();
    assert_eq!(fault.status(), 404);
    assert_eq!(fault.to_string(), "the response of type application/json has no example \"none\"");
    let without_default = json!({ "responses": { "200": {} } });
    let wanted = MockChoice { code: Some(404), ..MockChoice::default() };
    assert_eq!(mocked(&without_default, &wanted), Err(MockFault::UnknownCode(404)));
}

#[test]
fn headers_come_from_schemas() {
    let response = mocked(&operation(), &MockChoice::default()).unwrap();
    let headers = [("X-Rate", "5"), ("X-List", "string"), ("Deprecation", "true")];
    assert_eq!(response.headers, headers.map(|(name, value)| (name.to_owned(), value.to_owned())));
}

#[test]
fn dynamic_values_fit_the_schema() {
    let schema = json!({ "type": "integer", "minimum": 10, "maximum": 12, "example": 99 });
    let operation =
        json!({ "responses": { "200": { "content": { "application/json": { "schema": schema } } } } });
    let wanted = MockChoice { dynamic: true, ..MockChoice::default() };
    let mut seen = std::collections::BTreeSet::new();
    for _ in 0..100 {
        let body = mocked(&operation, &wanted).unwrap().body;
        seen.insert(String::from_utf8(body).unwrap().parse::<u32>().unwrap());
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), [10, 11, 12]);
    let plain = json!({ "responses": { "200": { "content": { "text/plain": { "example": "a" } } } } });
    assert_eq!(mocked(&plain, &wanted), Err(MockFault::NoSchema("text/plain".to_owned())));
}
