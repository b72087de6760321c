//! Tests of the page: the parts that it has, hostile documents, and its size.

use serde_json::{Value, json};

use super::{PAGE_BYTES_MAX, PAGE_POLICY, PAGE_SCRIPT, PAGE_STYLE, PageOptions, html_page};

const HOSTILE: [&str; 8] = [
    "<script>alert(1)</script>",
    "\"><img src=x onerror=alert(1)>",
    "' onmouseover='alert(1)",
    "</title></style></textarea></pre><svg onload=alert(1)>",
    "[click](javascript:alert(1))",
    "[click](https://a.example/\"onclick=\"alert(1))",
    "`</code><script>`**<b>**",
    "\u{202e}lmth\u{0}&lt;script&gt;",
];

fn options() -> PageOptions {
    PageOptions {
        base_path: "/api".to_owned(),
        document_path: Some("/docs/a.json".to_owned()),
        has_try_it: true,
    }
}

/// A document that has the text everywhere a document can have one.
fn document_of(text: &str) -> Value {
    let schema = json!({
        "type": text, "format": text, "description": text, "enum": [text], "pattern": text, "default": text,
        "properties": { text: { "type": "string", "description": text, "const": text }, "ref": { "$ref": text } },
        "required": [text],
    });
    let content = json!({ text: { "schema": schema, "example": text } });
    let operation = json!({
        "operationId": text, "summary": text, "description": text, "tags": [text], "security": [{ text: [] }],
        "parameters": [
            { "name": text, "in": text, "description": text, "schema": schema },
            { "name": text, "in": "query", "schema": { "$ref": format!("#/components/schemas/{text}") } },
        ],
        "requestBody": { "description": text, "content": content },
        "responses": { text: { "description": text, "headers": { text: { "schema": schema } }, "content": content } },
    });
    json!({
        "openapi": "3.0.3",
        "info": { "title": text, "version": text, "description": text,
            "license": { "name": text, "url": text }, "contact": { "url": "javascript:alert(1)" } },
        "tags": [{ "name": text, "description": text }],
        "paths": { text: { "get": operation, text: operation } },
        "components": {
            "schemas": { text: schema },
            "securitySchemes": { text: { "type": "apiKey", "in": "header", "name": text } },
        },
    })
}

/// The start tags of a page, without the script and the style sheet.
fn start_tags(page: &str) -> Vec<String> {
    let page = page.replace(PAGE_SCRIPT, "").replace(PAGE_STYLE, "");
    page.split('<')
        .skip(1)
        .filter(|part| !part.starts_with('/'))
        .map(|part| part.split('>').next().unwrap().to_owned())
        .collect()
}

#[test]
fn hostile_texts_are_escaped() {
    const ELEMENTS: &str = " !doctype html head meta title style body nav details summary input section h1 h2 h3 ul \
        li a b span p main header code div pre table thead tbody tr th td em strong form label small select option \
        textarea button script ";
    const ATTRIBUTES: &str = " lang charset name content class id open href rel type placeholder aria-label hidden \
        data-find data-method data-path data-in data-name data-repeat autocomplete required rows spellcheck role \
        title html ";
    let plain = start_tags(&html_page(&document_of("plain"), &options())).len();
    for text in HOSTILE {
        let page = html_page(&document_of(text), &options());
        let tags = start_tags(&page);
        assert!(tags.iter().filter(|tag| tag.starts_with("script")).count() == 1, "{text}");
        assert!(tags.len() < plain + 60, "{text} adds elements");
        for tag in tags {
            let (name, rest) = tag.split_once(' ').unwrap_or((&tag, ""));
            assert!(ELEMENTS.contains(&format!(" {name} ")), "{text}: <{tag}>");
            // Outside of the values, a tag has known names only.
            let outside: String = rest.split('"').step_by(2).collect();
            for attribute in outside.split([' ', '=']).filter(|part| !part.is_empty()) {
                assert!(ATTRIBUTES.contains(&format!(" {attribute} ")), "{text}: {attribute} in <{tag}>");
            }
            let is_link = tag.contains("href=\"");
            let safe = ["href=\"#", "href=\"https://a.example/", "href=\"/docs/"];
            assert!(!is_link || safe.iter().any(|start| tag.contains(start)), "{text}: <{tag}>");
        }
        assert!(!page.contains(['\u{202e}', '\u{0}']));
    }
}

#[test]
fn page_has_all_parts() {
    let document = json!({
        "openapi": "3.0.3", "info": { "title": "Pets", "version": "1.2" }, "security": [{ "key": [] }],
        "paths": { "/pets/{id}": {
            "parameters": [{ "name": "id", "in": "path", "required": true, "schema": { "type": "integer", "minimum": 1 } }],
            "get": { "operationId": "getPet", "deprecated": true, "responses": { "200": { "description": "One `pet`.",
                "content": { "application/json": { "schema": { "$ref": "#/components/schemas/Pet" } } } } } },
        } },
        "components": {
            "schemas": { "Pet": { "type": "object", "required": ["name"], "properties": {
                "name": { "type": "string", "maxLength": 9 }, "friend": { "$ref": "#/components/schemas/Pet" } } } },
            "securitySchemes": { "key": { "type": "apiKey", "in": "header", "name": "X-Key" } },
        },
    });
    let page = html_page(&document, &options());
    for part in [
        "<h1>Pets <span class=\"version\">1.2</span></h1>",
        "<code>/api</code>",
        "id=\"getPet\"",
        "href=\"#getPet\"",
        "<span class=\"mark old\">deprecated</span>",
        "<code>key</code> (apiKey)",
        "≥ 1",
        "max length 9",
        "One <code>pet</code>.",
        "data-path=\"/api/pets/{id}\"",
        "data-name=\"X-Key\"",
        "id=\"schema-Pet\"",
        "&quot;name&quot;: &quot;string&quot;",
        "<a href=\"/docs/a.json\">OpenAPI document</a>",
    ] {
        assert!(page.contains(part), "{part}");
    }
    let without = html_page(&document, &PageOptions::default());
    assert!(!without.contains("<form") && !without.contains("OpenAPI document"));
    let foreign = PageOptions { document_path: Some("//a.example/x".to_owned()), ..PageOptions::default() };
    assert!(!html_page(&document, &foreign).contains("a.example"));
}

#[test]
fn descriptions_are_a_part_of_markdown() {
    let page = |text: &str| html_page(&json!({ "info": { "description": text } }), &PageOptions::default());
    let cases = [
        ("a\n\nb *c* **d**", "<p>a</p>\n<p>b <em>c</em> <strong>d</strong></p>"),
        ("- x\n- `y`", "<ul><li>x</li><li><code>y</code></li></ul>"),
        ("# T\n```\n<a> *b*\n```", "<p class=\"heading\">T</p><pre><code>&lt;a&gt; *b*\n</code></pre>"),
        ("[a](http://b/c)", "<a rel=\"noopener noreferrer nofollow\" href=\"http://b/c\">a</a>"),
        ("[a](ftp://b)", "<p>a (ftp://b)</p>"),
        ("2 * 3 * 4 [x] `", "<p>2 * 3 * 4 [x] &#96;</p>"),
    ];
    for (text, expected) in cases {
        assert!(page(text).contains(expected), "{text}: {}", page(text));
    }
}

#[test]
fn large_documents_are_cut() {
    let text = "x".repeat(30_000);
    let paths: Value = (0..1000)
        .map(|number| (format!("/p{number}"), json!({ "get": { "description": text, "responses": {} } })))
        .collect();
    let page = html_page(&json!({ "paths": paths, "components": { "schemas": { "A": {} } } }), &options());
    assert!(page.len() < PAGE_BYTES_MAX + 1_000_000, "{}", page.len());
    assert!(page.contains("operations are left out") && page.contains("1 schemas are left out"));
    assert!(page.ends_with("</html>\n"));
}

#[test]
fn references_in_circles_end() {
    let reference = |name: &str| json!({ "$ref": format!("#/components/schemas/{name}") });
    let mut wide = json!({ "A": reference("B"), "B": reference("A") });
    for level in 0..8 {
        let properties: Value =
            (0..40).map(|number| (format!("p{number}"), reference(&format!("S{}", level + 1)))).collect();
        wide[format!("S{level}")] =
            json!({ "properties": properties, "allOf": [reference("A"), reference("S0")] });
    }
    let page = html_page(&json!({ "components": { "schemas": wide } }), &options());
    assert!(page.len() < 3_000_000, "{}", page.len());
    assert!(page.contains("left out here"));
}

#[test]
fn policy_has_the_hashes() {
    for (name, content, hash) in [
        ("page.css", PAGE_STYLE, include_str!("style.sha256")),
        ("page.js", PAGE_SCRIPT, include_str!("script.sha256")),
    ] {
        let expected = base64(&sha256(content.as_bytes()));
        assert_eq!(hash, expected, "write the new hash of {name} into the file beside it");
        assert!(PAGE_POLICY.contains(&format!("'sha256-{expected}'")));
    }
    assert_eq!(base64(&sha256(b"abc")), "ungWv48Bz+pBQUDeXa4iI7ADYaOWF3qctBD/YfIAFa0=");
}

/// The fraction of the root of a prime as 32 bits, of which SHA-256 takes its constants.
fn root_bits(prime: u32, root: impl Fn(f64) -> f64) -> u32 {
    (root(f64::from(prime)).fract() * 4_294_967_296.0) as u32
}

/// SHA-256 (FIPS 180-4), because the crate depends on no library of ciphers.
fn sha256(bytes: &[u8]) -> [u8; 32] {
    let primes: Vec<u32> =
        (2..320).filter(|number| (2..*number).all(|divisor| number % divisor != 0)).collect();
    let constants: Vec<u32> = primes.iter().take(64).map(|prime| root_bits(*prime, f64::cbrt)).collect();
    let mut state: Vec<u32> = primes.iter().take(8).map(|prime| root_bits(*prime, f64::sqrt)).collect();
    let mut padded = bytes.to_vec();
    padded.push(0x80);
    padded.resize(padded.len().next_multiple_of(64) + if padded.len() % 64 > 56 { 64 } else { 0 }, 0);
    let end = padded.len();
    padded[end - 8..].copy_from_slice(&(bytes.len() as u64 * 8).to_be_bytes());
    for block in padded.chunks(64) {
        let mut words: Vec<u32> =
            block.chunks(4).map(|word| u32::from_be_bytes(word.try_into().unwrap())).collect();
        for index in 16..64 {
            let (early, late) = (words[index - 15], words[index - 2]);
            let small = early.rotate_right(7) ^ early.rotate_right(18) ^ (early >> 3);
            let large = late.rotate_right(17) ^ late.rotate_right(19) ^ (late >> 10);
            words.push(
                words[index - 16].wrapping_add(small).wrapping_add(words[index - 7]).wrapping_add(large),
            );
        }
        let mut now = state.clone();
        for index in 0..64 {
            let (a, e) = (now[0], now[4]);
            let large = e.rotate_right(6) ^ e.rotate_right(11) ^ e.rotate_right(25);
            let chosen = (e & now[5]) ^ (!e & now[6]);
            let first = [large, chosen, constants[index], words[index]]
                .iter()
                .fold(now[7], |sum, part| sum.wrapping_add(*part));
            let small = a.rotate_right(2) ^ a.rotate_right(13) ^ a.rotate_right(22);
            let second = small.wrapping_add((a & now[1]) ^ (a & now[2]) ^ (now[1] & now[2]));
            now.rotate_right(1);
            now[4] = now[4].wrapping_add(first);
            now[0] = first.wrapping_add(second);
        }
        state.iter_mut().zip(now).for_each(|(state, now)| *state = state.wrapping_add(now));
    }
    state.iter().flat_map(|word| word.to_be_bytes()).collect::<Vec<u8>>().try_into().unwrap()
}

fn base64(bytes: &[u8]) -> String {
    const LETTERS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::new();
    for group in bytes.chunks(3) {
        let bits =
            group.iter().fold(0_u32, |bits, byte| bits << 8 | u32::from(*byte)) << (8 * (3 - group.len()));
        for position in 0..4 {
            let letter = LETTERS[(bits >> (18 - 6 * position)) as usize & 63] as char;
            text.push(if position <= group.len() { letter } else { '=' });
        }
    }
    text
}
