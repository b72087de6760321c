//! Security definitions as security schemes.

use serde_json::{Value, json};

use super::place::SwaggerPlace;
use super::{SwaggerObject, SwaggerTranslation};

/// The flows of Swagger 2.0: their names there and in OpenAPI 3, and their fields with a URL.
const FLOWS: [(&str, &str, &[&str]); 4] = [
    ("implicit", "implicit", &["authorizationUrl"]),
    ("password", "password", &["tokenUrl"]),
    ("application", "clientCredentials", &["tokenUrl"]),
    ("accessCode", "authorizationCode", &["authorizationUrl", "tokenUrl"]),
];

impl SwaggerTranslation<'_> {
    /// A security scheme.
    pub(super) fn scheme(&self, value: &Value, place: &SwaggerPlace<'_>) -> Result<Value, String> {
        let source = place.object(value)?;
        let mut written = SwaggerObject::new();
        match place.text(source, "type")? {
            "basic" => {
                written.insert("type".to_owned(), json!("http"));
                written.insert("scheme".to_owned(), json!("basic"));
            }
            "apiKey" => {
                written.insert("type".to_owned(), json!("apiKey"));
                written.insert("name".to_owned(), json!(place.text(source, "name")?));
                let side = place.text(source, "in")?;
                if !["query", "header"].contains(&side) {
                    return Err(place.field("in").fault("an API key is in `query` or in `header`"));
                }
                written.insert("in".to_owned(), json!(side));
            }
            "oauth2" => {
                written.insert("type".to_owned(), json!("oauth2"));
                written.insert("flows".to_owned(), self.flows(source, place)?);
            }
            _ => {
                let reason = "a security definition must be of type `basic`, `apiKey` or `oauth2`";
                return Err(place.field("type").fault(reason));
            }
        }
        self.copy_fields(&["description"], source, &mut written, place)?;
        self.copy_extensions(source, &mut written, place)?;
        Ok(Value::Object(written))
    }

    fn flows(&self, source: &SwaggerObject, place: &SwaggerPlace<'_>) -> Result<Value, String> {
        let name = place.text(source, "flow")?;
        let Some((_, renamed, urls)) = FLOWS.iter().find(|(known, ..)| *known == name) else {
            let reason = "`flow` must be one of `implicit`, `password`, `application`, `accessCode`";
            return Err(place.field("flow").fault(reason));
        };
        let mut flow = SwaggerObject::new();
        for url in *urls {
            flow.insert((*url).to_owned(), json!(place.text(source, url)?));
        }
        let scopes = match source.get("scopes") {
            Some(scopes) => {
                let place = place.field("scopes");
                place.object(scopes)?;
                self.copy(scopes, &place)?
            }
            None => json!({}),
        };
        flow.insert("scopes".to_owned(), scopes);
        let mut flows = SwaggerObject::new();
        flows.insert((*renamed).to_owned(), Value::Object(flow));
        Ok(Value::Object(flows))
    }
}
