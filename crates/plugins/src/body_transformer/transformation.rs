//! One direction of the plugin: the configuration compiled, and a body transformed.

use std::sync::{Arc, LazyLock};

use exchange::Exchange;
use mlua::Value;

use super::format::{DecodedBody, EncodedBody, Format};
use super::template::BodyTemplate;
use lua::base64;
use lua::{Interpreter, LuaScript, RESULT_MAX_BYTES};

/// Adds to a decoded body the names that every template has.
static FIELDS: LazyLock<Result<Arc<LuaScript>, String>> =
    LazyLock::new(|| LuaScript::compile("fields", include_bytes!("fields.lua").to_vec()));

/// See the module.
pub(super) struct Transformation {
    /// `request` or `response`.
    side: &'static str,
    pub(super) format: Option<Format>,
    is_base64: bool,
    as_written: Result<BodyTemplate, String>,
    /// None if the template is no Base64.
    decoded: Option<Result<BodyTemplate, String>>,
}

/// Why a body could not be transformed. The reasons are for the log; `text` is for the client.
#[derive(Debug)]
pub(super) struct TransformationFault {
    pub(super) status: u16,
    pub(super) text: String,
    pub(super) reason: String,
}

impl Transformation {
    /// Compiles a template.
    ///
    /// # Errors
    /// The template does not compile, in the form in which it will be used.
    pub(super) fn compile(
        side: &'static str,
        format: Option<Format>,
        template: &str,
        is_base64: bool,
    ) -> Result<Transformation, String> {
        let decoded = base64::decode_leniently(template.as_bytes());
        let transformation = Transformation {
            side,
            format,
            is_base64,
            as_written: BodyTemplate::compile(template.as_bytes()),
            decoded: decoded.map(|decoded| BodyTemplate::compile(&decoded)),
        };
        // Where the format is unknown yet, the text counts as it is written; if it is Base64, it is one
        // literal then.
        match transformation.template(format) {
            Ok(_) => Ok(transformation),
            Err(reason) => Err(format!("{side}.template: {reason}")),
        }
    }

    /// The template for a body of `format`.
    fn template(&self, format: Option<Format>) -> &Result<BodyTemplate, String> {
        match &self.decoded {
            Some(decoded) if self.is_base64 || format.is_some_and(Format::tries_base64) => decoded,
            _ => &self.as_written,
        }
    }

    /// The new body.
    ///
    /// # Errors
    /// The status and the reasons, as APISIX has them.
    pub(super) fn apply(
        &self,
        exchange: &Exchange,
        input: &EncodedBody<'_>,
    ) -> Result<Vec<u8>, TransformationFault> {
        let side = self.side;
        let template = self.template(input.format).as_ref().map_err(|reason| TransformationFault {
            status: 503,
            text: format!("{side} template compile: the template is faulty"),
            reason: format!("{side} template compile: {reason}"),
        })?;
        let mut undecoded = None;
        let rendered = Interpreter::call(exchange, |call| {
            let decoded = match input.decode(call.lua(), call.json()) {
                Ok(decoded) => decoded,
                Err(reason) => {
                    // The interpreter looks for a lack of memory in it.
                    return Err(mlua::Error::runtime(undecoded.insert(reason)));
                }
            };
            // A large body must not leave less to the template.
            call.restart_budget();
            let DecodedBody { fields, multipart } = decoded;
            let multipart = match multipart {
                Some(parts) => Value::UserData(call.lua().create_userdata(parts)?),
                None => Value::Nil,
            };
            let body = input.body.map(|body| call.lua().create_string(body)).transpose()?;
            let add = FIELDS.as_ref().map_err(mlua::Error::runtime)?;
            let fields = call.load(add)?.function.call((fields, call.context()?, body, multipart))?;
            match call.render(&call.load(&template.script)?, &fields)? {
                Value::String(text) if text.as_bytes().len() > RESULT_MAX_BYTES => {
                    Err(mlua::Error::runtime(format!("the new body is longer than {RESULT_MAX_BYTES} bytes")))
                }
                Value::String(text) => Ok(text.as_bytes().to_vec()),
                other => Err(mlua::Error::runtime(format!("the template returns a {}", other.type_name()))),
            }
        });
        match (undecoded, rendered) {
            (Some(reason), _) => {
                let text = format!("{side} body decode: {reason}");
                Err(TransformationFault { status: 400, reason: text.clone(), text })
            }
            (None, Ok(body)) => match exchange.local().shared.check_room(body.len()) {
                Ok(()) => Ok(body),
                Err(failure) => {
                    let text = format!("{side} body: memory is short");
                    Err(TransformationFault { status: 503, reason: failure.detail.to_string(), text })
                }
            },
            (None, Err(reason)) => Err(TransformationFault {
                status: 503,
                text: format!("{side} template rendering: the template has failed"),
                reason: format!("{side} template rendering: {}", template.relocate(&reason)),
            }),
        }
    }
}
