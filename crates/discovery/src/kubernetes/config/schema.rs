//! The JSON Schema of the block of Kubernetes: one cluster, or a list of clusters.

use serde_json::{Value, json};

use super::MAX_TOKEN_BYTES;

/// The JSON Schema of the block.
pub(in crate::kubernetes) fn build_kubernetes_schema() -> Value {
    let pattern = json!({"type": "array", "minItems": 1, "maxItems": 64, "items": {"type": "string", "maxLength": 256}});
    let file = |description: &str| json!({"description": description, "type": "string", "minLength": 1, "maxLength": 500});
    let namespace =
        json!({"type": "string", "pattern": "^[a-z0-9]([-a-z0-9_.]*[a-z0-9])?$", "maxLength": 253});
    let cluster = |required: Value, with_id: bool| {
        let mut schema = json!({
            "type": "object",
            "properties": {
                "service": {
                    "description": "The API server.",
                    "type": "object",
                    "properties": {
                        "schema": {"type": "string", "enum": ["http", "https"], "default": "https"},
                        "host": {
                            "description": "A name, an address or `${NAME}`; the default is `${KUBERNETES_SERVICE_HOST}`.",
                            "type": "string", "pattern": "^(\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}|[A-Za-z0-9:.-]+)$",
                            "maxLength": 253
                        },
                        "port": {
                            "description": "A port or `${NAME}`; the default is `${KUBERNETES_SERVICE_PORT}`.",
                            "type": "string", "pattern": "^(\\$\\{[A-Za-z_][A-Za-z0-9_]*\\}|[1-9][0-9]{0,4})$"
                        },
                        "ssl_verify": {
                            "description": "Whether the server's certificate is verified.",
                            "type": "boolean", "default": true
                        },
                        "ca": {
                            "description": "Certificates that may sign the server's, PEM; in a pod that of its cluster.",
                            "type": "string", "minLength": 1
                        }
                    },
                    "additionalProperties": false
                },
                "client": {
                    "type": "object",
                    "properties": {
                        "token": {
                            "description": "The bearer token, or `${NAME}`.",
                            "type": "string", "minLength": 1, "maxLength": MAX_TOKEN_BYTES
                        },
                        "token_file": {
                            "description": "The file of the token, read again for each request; the default is a pod's.",
                            "type": "string", "minLength": 1, "maxLength": 500
                        },
                        "cert_file": file("The certificate (PEM) that the gateway presents, in place of a token."),
                        "key_file": file("The private key (PEM) of that certificate."),
                        "ssl_verify": {
                            "description": "As `service.ssl_verify`, which has the same meaning.",
                            "type": "boolean", "default": true
                        }
                    },
                    "dependencies": {"cert_file": ["key_file"], "key_file": ["cert_file"]},
                    "additionalProperties": false
                },
                "namespace_selector": {
                    "description": "At most one condition on the namespaces of services.",
                    "type": "object",
                    "properties": {
                        "equal": namespace, "not_equal": namespace, "match": pattern, "not_match": pattern
                    },
                    "maxProperties": 1,
                    "additionalProperties": false
                },
                "label_selector": {
                    "description": "Labels of the objects, in the syntax of Kubernetes.",
                    "type": "string", "maxLength": 4096
                },
                "default_weight": {
                    "description": "The weight of each instance.",
                    "type": "integer", "minimum": 0, "maximum": 1_000_000, "default": 50
                },
                "shared_size": {"description": "Has no effect: memory is not reserved.", "type": "string"},
                "watch_endpoint_slices": {
                    "description": "Whether EndpointSlices are watched; otherwise Endpoints, which Kubernetes deprecates.",
                    "type": "boolean", "default": true
                }
            },
            "required": required,
            "additionalProperties": false
        });
        if with_id {
            schema["properties"]["id"] = json!({
                "description": "The first part of the names of this cluster's services.",
                "type": "string", "pattern": "^[a-z0-9]{1,64}$"
            });
        }
        schema
    };
    // The keywords of objects do not apply to lists, and the other way round.
    let mut schema = cluster(json!([]), false);
    schema["type"] = json!(["object", "array"]);
    schema["minItems"] = json!(1);
    schema["maxItems"] = json!(64);
    schema["items"] = cluster(json!(["id", "service", "client"]), true);
    schema
}
