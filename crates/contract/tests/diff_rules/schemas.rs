//! Changes of schemas in requests and responses.

use super::FragmentPlace::{Header, Parameter, Request, Response};
use super::{ChangeRow, check_rows};

#[test]
fn types_and_formats_follow_direction() {
    const ROWS: &[ChangeRow] = &[
        (Request, r#"{"type":"integer"}"#, r#"{"type":"number"}"#, &["I request-body-type-generalized"]),
        (Request, r#"{"type":"number"}"#, r#"{"type":"integer"}"#, &["E request-body-type-changed"]),
        (Response, r#"{"type":"integer"}"#, r#"{"type":"number"}"#, &["E response-body-type-generalized"]),
        (Response, r#"{"type":"number"}"#, r#"{"type":"integer"}"#, &["I response-body-type-specialized"]),
        (Response, r#"{"type":"string"}"#, r#"{"type":"integer"}"#, &["E response-body-type-changed"]),
        (Request, r#"{"type":"string"}"#, r#"{}"#, &["I request-body-type-generalized"]),
        (Response, r#"{"type":"string"}"#, r#"{}"#, &["E response-body-type-changed"]),
        (Request, r#"{}"#, r#"{"type":"string"}"#, &["E request-body-type-changed"]),
        (
            Parameter,
            r#"{"type":"integer"}"#,
            r#"{"type":"string"}"#,
            &["I request-parameter-type-generalized"],
        ),
        (Parameter, r#"{"type":"string"}"#, r#"{"type":"integer"}"#, &["E request-parameter-type-changed"]),
        (
            Parameter,
            r#"{"type":"string"}"#,
            r#"{"type":"array","items":{"type":"string"}}"#,
            &["I request-parameter-type-generalized"],
        ),
        (Header, r#"{"type":"string"}"#, r#"{"type":"integer"}"#, &["I response-header-type-compatible"]),
        (
            Request,
            r#"{"type":"integer","format":"int32"}"#,
            r#"{"type":"integer","format":"int64"}"#,
            &["I request-body-type-generalized"],
        ),
        (
            Response,
            r#"{"type":"integer","format":"int32"}"#,
            r#"{"type":"integer","format":"int64"}"#,
            &["E response-body-type-changed"],
        ),
        (
            Request,
            r#"{"type":"string","format":"date"}"#,
            r#"{"type":"string"}"#,
            &["I request-body-type-generalized"],
        ),
    ];
    check_rows(ROWS);
}

#[test]
fn null_follows_direction_in_both_forms() {
    const ROWS: &[ChangeRow] = &[
        (
            Request,
            r#"{"type":"string","nullable":true}"#,
            r#"{"type":"string"}"#,
            &["E request-body-became-not-nullable"],
        ),
        (
            Request,
            r#"{"type":["string","null"]}"#,
            r#"{"type":"string"}"#,
            &["E request-body-became-not-nullable"],
        ),
        (
            Response,
            r#"{"type":"string"}"#,
            r#"{"type":["string","null"]}"#,
            &["E response-body-became-nullable"],
        ),
        (
            Response,
            r#"{"type":"string"}"#,
            r#"{"type":"string","nullable":true}"#,
            &["E response-body-became-nullable"],
        ),
        (Request, r#"{"type":"string","nullable":true}"#, r#"{"type":["string","null"]}"#, &[]),
        (
            Response,
            r##"{"$ref":"#/components/schemas/Pet"}"##,
            r##"{"oneOf":[{"$ref":"#/components/schemas/Pet"},{"type":"null"}]}"##,
            &["E response-body-became-nullable"],
        ),
        (
            Request,
            r##"{"anyOf":[{"$ref":"#/components/schemas/Pet"},{"type":"null"}]}"##,
            r##"{"$ref":"#/components/schemas/Pet"}"##,
            &["E request-body-became-not-nullable"],
        ),
        (
            Parameter,
            r#"{"type":["string","null"]}"#,
            r#"{"type":"string"}"#,
            &["E request-parameter-became-not-nullable"],
        ),
    ];
    check_rows(ROWS);
}

#[test]
fn enumerations_follow_direction() {
    const ROWS: &[ChangeRow] = &[
        (
            Parameter,
            r#"{"enum":["a","b"]}"#,
            r#"{"enum":["a"]}"#,
            &["E request-parameter-enum-value-removed"],
        ),
        (Parameter, r#"{"enum":["a"]}"#, r#"{"enum":["b","a"]}"#, &["I request-parameter-enum-value-added"]),
        (Parameter, r#"{}"#, r#"{"enum":["a"]}"#, &["E request-parameter-became-enum"]),
        (
            Request,
            r#"{"properties":{"a":{"enum":[1,2]}}}"#,
            r#"{"properties":{"a":{"enum":[1.0]}}}"#,
            &["E request-property-enum-value-removed"],
        ),
        (
            Response,
            r#"{"properties":{"a":{"enum":[1]}}}"#,
            r#"{"properties":{"a":{"enum":[1,2]}}}"#,
            &["E response-property-enum-value-added"],
        ),
        (Response, r#"{"enum":[1]}"#, r#"{"enum":[1,2]}"#, &["E response-mediatype-enum-value-added"]),
        (
            Response,
            r#"{"properties":{"a":{"enum":[1]}}}"#,
            r#"{"properties":{"a":{}}}"#,
            &["E response-property-became-not-enum"],
        ),
        (
            Response,
            r#"{"properties":{"a":{"enum":[1]}}}"#,
            r#"{"properties":{"a":{"enum":[1,2],"writeOnly":true}}}"#,
            &[
                "I response-optional-property-became-write-only",
                "I response-write-only-property-enum-value-added",
            ],
        ),
        (Request, r#"{"const":1}"#, r#"{"const":2}"#, &["E request-body-const-changed"]),
        (Request, r#"{"const":1}"#, r#"{"const":1.0}"#, &[]),
    ];
    check_rows(ROWS);
}

#[test]
fn bounds_follow_direction() {
    const ROWS: &[ChangeRow] = &[
        (Request, r#"{"maxLength":9}"#, r#"{"maxLength":5}"#, &["E request-body-max-length-decreased"]),
        (Request, r#"{"maxLength":5}"#, r#"{"maxLength":9}"#, &["I request-body-max-length-increased"]),
        (Response, r#"{"maxLength":5}"#, r#"{"maxLength":9}"#, &["E response-body-max-length-increased"]),
        (Response, r#"{"minItems":2}"#, r#"{}"#, &["E response-body-min-items-unset"]),
        (Request, r#"{}"#, r#"{"minItems":0}"#, &[]),
        (Parameter, r#"{"maximum":9}"#, r#"{"maximum":8}"#, &["E request-parameter-max-decreased"]),
        (
            Parameter,
            r#"{"maximum":9}"#,
            r#"{"exclusiveMaximum":9}"#,
            &["E request-parameter-exclusive-max-set"],
        ),
        (Parameter, r#"{"maximum":9,"exclusiveMaximum":true}"#, r#"{"exclusiveMaximum":9}"#, &[]),
        (Response, r#"{"exclusiveMinimum":1}"#, r#"{"minimum":1}"#, &["E response-body-exclusive-min-unset"]),
        (Header, r#"{"minimum":1}"#, r#"{"minimum":0}"#, &["E response-header-min-decreased"]),
        (Request, r#"{"multipleOf":10}"#, r#"{"multipleOf":5}"#, &["I request-body-multiple-of-generalized"]),
        (Response, r#"{"multipleOf":10}"#, r#"{"multipleOf":5}"#, &["E response-body-multiple-of-changed"]),
        (Request, r#"{}"#, r#"{"uniqueItems":true}"#, &["E request-body-unique-items-set"]),
        (Parameter, r#"{"pattern":"^a$"}"#, r#"{"pattern":"^b$"}"#, &["W request-parameter-pattern-changed"]),
        (Parameter, r#"{}"#, r#"{"pattern":"^b$"}"#, &["E request-parameter-pattern-added"]),
        (Parameter, r#"{"default":1}"#, r#"{"default":2}"#, &["I request-parameter-default-value-changed"]),
    ];
    check_rows(ROWS);
}

#[test]
fn properties_follow_direction() {
    const ROWS: &[ChangeRow] = &[
        (
            Request,
            r#"{"properties":{}}"#,
            r#"{"properties":{"a":{}},"required":["a"]}"#,
            &["E new-required-request-property"],
        ),
        (Request, r#"{"properties":{}}"#, r#"{"properties":{"a":{}}}"#, &["I new-optional-request-property"]),
        (
            Request,
            r#"{"properties":{"a":{}}}"#,
            r#"{"properties":{"a":{}},"required":["a"]}"#,
            &["E request-property-became-required"],
        ),
        (
            Request,
            r#"{"properties":{"a":{"readOnly":true}}}"#,
            r#"{"properties":{"a":{"readOnly":true}},"required":["a"]}"#,
            &[],
        ),
        (Request, r#"{"properties":{"a":{}}}"#, r#"{"properties":{}}"#, &["W request-property-removed"]),
        (
            Response,
            r#"{"properties":{"a":{}},"required":["a"]}"#,
            r#"{"properties":{}}"#,
            &["E response-required-property-removed"],
        ),
        (
            Response,
            r#"{"properties":{"a":{}}}"#,
            r#"{"properties":{}}"#,
            &["I response-optional-property-removed"],
        ),
        (
            Response,
            r#"{"properties":{"a":{}},"required":["a"]}"#,
            r#"{"properties":{"a":{}}}"#,
            &["E response-property-became-optional"],
        ),
        (
            Response,
            r#"{"properties":{"a":{}},"required":["a"]}"#,
            r#"{"properties":{"a":{"writeOnly":true}},"required":["a"]}"#,
            &["E response-required-property-became-write-only"],
        ),
        (
            Request,
            r#"{"properties":{"a":{"maxLength":9}}}"#,
            r#"{"properties":{"a":{"maxLength":5,"readOnly":true}}}"#,
            &[
                "W request-optional-property-became-read-only",
                "I request-read-only-property-max-length-decreased",
            ],
        ),
        (
            Request,
            r#"{"properties":{"a":{}}}"#,
            r#"{"properties":{"a":{}},"additionalProperties":false}"#,
            &["W request-body-additional-properties-disallowed"],
        ),
        (
            Response,
            r#"{"properties":{"a":{"items":{"type":"string"}}}}"#,
            r#"{"properties":{"a":{"items":{"type":"boolean"}}}}"#,
            &["E response-property-type-changed"],
        ),
    ];
    check_rows(ROWS);
}

#[test]
fn branches_follow_direction() {
    const ROWS: &[ChangeRow] = &[
        (
            Request,
            r##"{"oneOf":[{"$ref":"#/components/schemas/Pet"},{"$ref":"#/components/schemas/Cat"}]}"##,
            r##"{"oneOf":[{"$ref":"#/components/schemas/Pet"}]}"##,
            &["E request-body-one-of-removed"],
        ),
        (
            Response,
            r##"{"anyOf":[{"$ref":"#/components/schemas/Pet"}]}"##,
            r##"{"anyOf":[{"$ref":"#/components/schemas/Cat"},{"$ref":"#/components/schemas/Pet"}]}"##,
            &["E response-body-any-of-added"],
        ),
        (
            Request,
            r##"{"allOf":[{"$ref":"#/components/schemas/Pet"}]}"##,
            r##"{"allOf":[{"$ref":"#/components/schemas/Pet"},{"maxProperties":3}]}"##,
            &["E request-body-all-of-added"],
        ),
        (
            Response,
            r##"{"allOf":[{"$ref":"#/components/schemas/Pet"},{"maxProperties":3}]}"##,
            r##"{"allOf":[{"$ref":"#/components/schemas/Pet"}]}"##,
            &["W response-body-all-of-removed"],
        ),
        (
            Request,
            r#"{"allOf":[{"type":"object","maxProperties":3}]}"#,
            r#"{"allOf":[{"type":"object","maxProperties":2}]}"#,
            &["W request-property-max-properties-decreased"],
        ),
        (
            Response,
            r#"{"type":"string"}"#,
            r#"{"oneOf":[{"type":"string"},{"type":"integer"}]}"#,
            &["E response-body-list-of-types-widened"],
        ),
        (
            Request,
            r#"{"type":"object","properties":{"a":{}}}"#,
            r#"{"oneOf":[{"type":"object","properties":{"a":{}}},{"type":"object","properties":{"b":{}}}]}"#,
            &["W request-body-wrapped-in-one-of-original-preserved"],
        ),
        (
            Request,
            r#"{"type":"object","properties":{"a":{}}}"#,
            r#"{"oneOf":[{"type":"object","properties":{"a":{},"c":{}}},{"type":"boolean"}]}"#,
            &["E request-body-wrapped-in-one-of"],
        ),
        (
            Request,
            r##"{"oneOf":[{"$ref":"#/components/schemas/Cat"}]}"##,
            r#"{"oneOf":[{"type":"object","minProperties":1,"title":"Cat"}]}"#,
            &[],
        ),
        (
            Response,
            r#"{"oneOf":[],"discriminator":{"propertyName":"a"}}"#,
            r#"{"oneOf":[],"discriminator":{"propertyName":"b","mapping":{"x":"y"}}}"#,
            &[
                "I response-body-discriminator-property-name-changed",
                "I response-body-discriminator-mapping-added",
            ],
        ),
        (Request, r#"{}"#, r#"{"if":{"type":"object"}}"#, &["E request-body-if-added"]),
        (Request, r#"true"#, r#"false"#, &["E request-body-schema-became-false"]),
    ];
    check_rows(ROWS);
}
