//! Changes of operations, parameters, media types, headers and security.

use super::FragmentPlace::{Document, Operation};
use super::{ChangeRow, check_rows};

#[test]
fn parameters_are_compared() {
    const ROWS: &[ChangeRow] = &[
        (
            Operation,
            r#"{}"#,
            r#"{"parameters":[{"name":"q","in":"query","required":true}]}"#,
            &["E new-required-request-parameter"],
        ),
        (
            Operation,
            r#"{}"#,
            r#"{"parameters":[{"name":"q","in":"query"}]}"#,
            &["I new-optional-request-parameter"],
        ),
        (
            Operation,
            r#"{"parameters":[{"name":"q","in":"query"}]}"#,
            r#"{"parameters":[{"name":"q","in":"query","required":true}]}"#,
            &["E request-parameter-became-required"],
        ),
        (
            Operation,
            r#"{"parameters":[{"name":"q","in":"query"}]}"#,
            r#"{}"#,
            &["W request-parameter-removed"],
        ),
        (
            Operation,
            r#"{"parameters":[{"name":"q","in":"query","deprecated":true}]}"#,
            r#"{}"#,
            &["I request-parameter-removed-with-deprecation"],
        ),
        (
            Operation,
            r#"{"parameters":[{"name":"X-Id","in":"header"}]}"#,
            r#"{"parameters":[{"name":"x-id","in":"header"}]}"#,
            &[],
        ),
        (
            Operation,
            r#"{"parameters":[{"name":"q","in":"query","explode":true}]}"#,
            r#"{"parameters":[{"name":"q","in":"query","explode":false}]}"#,
            &["W request-parameter-serialization-changed"],
        ),
        (
            Document,
            r#"{"paths":{"/a/{x}":{"get":{"parameters":[{"name":"x","in":"path"}]}}}}"#,
            r#"{"paths":{"/a/{y}":{"get":{"parameters":[{"name":"y","in":"path"}]}}}}"#,
            &[],
        ),
        (
            Document,
            r#"{"paths":{"/a":{"get":{}}}}"#,
            r#"{"paths":{"/a":{"parameters":[{"name":"q","in":"query","required":true}],"get":{}}}}"#,
            &["E new-required-request-default-parameter-to-existing-path"],
        ),
    ];
    check_rows(ROWS);
}

#[test]
fn removals_follow_deprecation() {
    const ROWS: &[ChangeRow] = &[
        (Document, r#"{"paths":{"/a":{"get":{}}}}"#, r#"{}"#, &["E api-path-removed-without-deprecation"]),
        (
            Document,
            r#"{"paths":{"/a":{"get":{},"put":{}}}}"#,
            r#"{"paths":{"/a":{"get":{}}}}"#,
            &["E api-removed-without-deprecation"],
        ),
        (
            Document,
            r#"{"paths":{"/a":{"get":{"deprecated":true}}}}"#,
            r#"{}"#,
            &["I api-path-removed-with-deprecation"],
        ),
        (
            Document,
            r#"{"paths":{"/a":{"get":{"deprecated":true,"x-sunset":"2026-12-31"}}}}"#,
            r#"{}"#,
            &["E api-path-removed-before-sunset"],
        ),
        (Document, r#"{"paths":{"/a":{"get":{"deprecated":true,"x-sunset":"2026-11-30"}}}}"#, r#"{}"#, &[]),
        (
            Document,
            r#"{"paths":{"/a":{"get":{"deprecated":true,"x-sunset":"soon"}}}}"#,
            r#"{}"#,
            &["E api-path-sunset-parse"],
        ),
        (Document, r#"{"paths":{"/a":{"get":{"x-stability-level":"alpha"}}}}"#, r#"{}"#, &[]),
        (Operation, r#"{}"#, r#"{"deprecated":true}"#, &["I endpoint-deprecated"]),
        (
            Operation,
            r#"{}"#,
            r#"{"deprecated":true,"x-sunset":"2027-01-01"}"#,
            &["I endpoint-deprecated-with-sunset"],
        ),
        (
            Operation,
            r#"{}"#,
            r#"{"deprecated":true,"x-sunset":"2026-01-01"}"#,
            &["E api-sunset-date-too-small"],
        ),
        (
            Operation,
            r#"{"deprecated":true,"x-sunset":"2027-05-01"}"#,
            r#"{"deprecated":true,"x-sunset":"2027-01-01"}"#,
            &["E api-sunset-date-changed-earlier"],
        ),
        (Operation, r#"{}"#, r#"{"x-stability-level":"beta"}"#, &["E api-stability-decreased"]),
        (
            Operation,
            r#"{"tags":["a"],"operationId":"x"}"#,
            r#"{}"#,
            &["I api-operation-id-removed", "I api-tag-removed"],
        ),
        (
            Document,
            r#"{"webhooks":{"w":{}}}"#,
            r#"{"webhooks":{"v":{}}}"#,
            &["E webhook-removed", "I webhook-added"],
        ),
        (Document, r#"{}"#, r#"{"paths":{"/a":{"get":{}}}}"#, &["I endpoint-added"]),
    ];
    check_rows(ROWS);
}

#[test]
fn bodies_and_responses_are_compared() {
    const ROWS: &[ChangeRow] = &[
        (Operation, r#"{}"#, r#"{"requestBody":{"required":true}}"#, &["E request-body-added-required"]),
        (Operation, r#"{"requestBody":{}}"#, r#"{}"#, &["E request-body-removed"]),
        (
            Operation,
            r#"{"requestBody":{}}"#,
            r#"{"requestBody":{"required":true}}"#,
            &["E request-body-became-required"],
        ),
        (
            Operation,
            r#"{"requestBody":{"content":{"text/csv":{},"application/json":{}}}}"#,
            r#"{"requestBody":{"content":{"application/json":{},"text/html":{}}}}"#,
            &["E request-body-media-type-removed", "I request-body-media-type-added"],
        ),
        (
            Operation,
            r#"{"responses":{"200":{"content":{"text/csv":{}}}}}"#,
            r#"{"responses":{"200":{}}}"#,
            &["E response-media-type-removed"],
        ),
        (
            Operation,
            r#"{"responses":{"200":{"content":{"application/json":{}}}}}"#,
            r#"{"responses":{"200":{"content":{"application/problem+json":{}}}}}"#,
            &["I response-media-type-name-specialized"],
        ),
        (
            Operation,
            r#"{"responses":{"200":{"content":{"application/json":{"schema":{"type":"string"}}}}}}"#,
            r#"{"responses":{"200":{"content":{"application/json":{}}}}}"#,
            &["E response-body-media-type-schema-removed"],
        ),
        (
            Operation,
            r#"{"responses":{"200":{},"404":{}}}"#,
            r#"{"responses":{"201":{}}}"#,
            &[
                "E response-success-status-removed",
                "I response-non-success-status-removed",
                "I response-success-status-added",
            ],
        ),
        (
            Operation,
            r#"{"responses":{"200":{"headers":{"A":{"required":true},"B":{}}}}}"#,
            r#"{"responses":{"200":{}}}"#,
            &["E required-response-header-removed", "I optional-response-header-removed"],
        ),
        (
            Operation,
            r#"{"responses":{"200":{"headers":{"A":{"required":true}}}}}"#,
            r#"{"responses":{"200":{"headers":{"a":{}}}}}"#,
            &["E response-header-became-optional"],
        ),
    ];
    check_rows(ROWS);
}

#[test]
fn security_is_compared() {
    const ROWS: &[ChangeRow] = &[
        (Operation, r#"{}"#, r#"{"security":[{"k":[]}]}"#, &["E api-security-anonymous-access-removed"]),
        (
            Operation,
            r#"{"security":[{"k":[]}]}"#,
            r#"{"security":[]}"#,
            &["I api-security-anonymous-access-added"],
        ),
        (
            Operation,
            r#"{"security":[{"k":[]},{"o":["r"]}]}"#,
            r#"{"security":[{"o":["r","w"]}]}"#,
            &["E api-security-removed", "E api-security-scope-added"],
        ),
        (
            Operation,
            r#"{"security":[{"k":[]}]}"#,
            r#"{"security":[{"k":[]},{"o":[]}]}"#,
            &["I api-security-added"],
        ),
        (
            Document,
            r#"{"paths":{"/a":{"get":{}}}}"#,
            r#"{"security":[{"k":[]}],"paths":{"/a":{"get":{}}}}"#,
            &["E api-security-anonymous-access-removed"],
        ),
        (Document, r#"{}"#, r#"{"security":[{"k":[]}]}"#, &["I api-global-security-added"]),
        (
            Document,
            r#"{"components":{"securitySchemes":{"k":{"type":"apiKey","in":"query","name":"a"}}}}"#,
            r#"{"components":{"securitySchemes":{"k":{"type":"apiKey","in":"query","name":"b"}}}}"#,
            &["E api-security-component-api-key-name-changed"],
        ),
        (
            Document,
            r#"{"components":{"securitySchemes":{"k":{"type":"apiKey"}}}}"#,
            r#"{"components":{"securitySchemes":{"k":{"type":"http"}}}}"#,
            &["E api-security-component-type-changed"],
        ),
    ];
    check_rows(ROWS);
}
