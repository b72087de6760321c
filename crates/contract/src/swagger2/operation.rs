//! Paths and operations.

use serde_json::{Value, json};

use super::parameter::{ParameterPlace, parameter_key};
use super::place::SwaggerPlace;
use super::reference::shared_name;
use super::{SwaggerObject, SwaggerTranslation, media_types, server};

/// The methods of Swagger 2.0.
const METHODS: [&str; 7] = ["get", "put", "post", "delete", "options", "head", "patch"];

/// Parameters of an operation or a path, in their order.
#[derive(Default)]
struct ParameterList<'v> {
    /// Those that stay parameters.
    plain: Vec<Value>,
    /// The body: as written, the parameter, and its index in the list at the place of the parameters.
    body: Option<(&'v Value, &'v SwaggerObject, SideIndex)>,
    /// The fields of a form.
    form: Vec<(&'v SwaggerObject, SideIndex)>,
}

/// The list that has a parameter, and its index there.
#[derive(Clone, Copy)]
struct SideIndex {
    is_of_path: bool,
    index: usize,
}

impl<'d> SwaggerTranslation<'d> {
    pub(super) fn paths(&self, place: &SwaggerPlace<'_>) -> Result<SwaggerObject, String> {
        let value = self.root.get("paths").ok_or_else(|| place.fault("the field `paths` is missing"))?;
        let place = place.field("paths");
        let mut written = SwaggerObject::new();
        for (path, item) in place.object(value)? {
            let place = place.field(path);
            let item = match path.starts_with("x-") {
                true => self.copy(item, &place)?,
                false => self.path_item(item, &place)?,
            };
            written.insert(path.clone(), item);
        }
        Ok(written)
    }

    fn path_item(&self, value: &'d Value, place: &SwaggerPlace<'_>) -> Result<Value, String> {
        let source = place.object(self.follow(value, place)?)?;
        let (mut written, mut shared) = (SwaggerObject::new(), ParameterList::default());
        self.read_parameters(source, true, &mut shared, place)?;
        for (field, value) in source {
            let place_of_field = place.field(field);
            let value = match &**field {
                "parameters" if shared.plain.is_empty() => continue,
                "parameters" => Value::Array(shared.plain.clone()),
                method if METHODS.contains(&method) => self.operation(value, &shared, place, method)?,
                extension if extension.starts_with("x-") => self.copy(value, &place_of_field)?,
                _ => continue,
            };
            written.insert(field.clone(), value);
        }
        Ok(Value::Object(written))
    }

    fn operation(
        &self,
        value: &'d Value,
        shared: &ParameterList<'d>,
        path_place: &SwaggerPlace<'_>,
        method: &str,
    ) -> Result<Value, String> {
        let place = path_place.field(method);
        let source = place.object(value)?;
        let own_consumes = media_types(source, "consumes", &place)?;
        let own_produces = media_types(source, "produces", &place)?;
        let mut list = ParameterList::default();
        self.read_parameters(source, false, &mut list, &place)?;
        inherit(&mut list, shared);
        let mut body = self.request_body(&list, own_consumes.as_deref(), path_place, &place)?;
        let mut written = SwaggerObject::new();
        for (field, value) in source {
            let place = place.field(field);
            let value = match &**field {
                "consumes" | "produces" | "schemes" => continue,
                "parameters" => {
                    if !list.plain.is_empty() {
                        written.insert(field.clone(), Value::Array(std::mem::take(&mut list.plain)));
                    }
                    if let Some(body) = body.take() {
                        written.insert("requestBody".to_owned(), body);
                    }
                    continue;
                }
                "responses" => self.responses(value, own_produces.as_deref(), &place)?,
                _ => self.copy(value, &place)?,
            };
            written.insert(field.clone(), value);
        }
        if let Some(body) = body {
            written.insert("requestBody".to_owned(), body);
        }
        if let Some(servers) = server::of_operation(self.root, source, &place)? {
            written.insert("servers".to_owned(), servers);
        }
        Ok(Value::Object(written))
    }

    /// Sorts the parameters of a path or an operation by their place in the request.
    fn read_parameters(
        &self,
        source: &'d SwaggerObject,
        is_of_path: bool,
        list: &mut ParameterList<'d>,
        place: &SwaggerPlace<'_>,
    ) -> Result<(), String> {
        let Some(parameters) = source.get("parameters") else { return Ok(()) };
        let place = place.field("parameters");
        for (index, written) in place.array(parameters)?.iter().enumerate() {
            let place = place.item(index);
            let parameter = place.object(self.follow(written, &place)?)?;
            let at = SideIndex { is_of_path, index };
            match self.parameter_place(parameter, &place)? {
                ParameterPlace::Plain => list.plain.push(self.parameter(written, parameter, &place)?),
                ParameterPlace::Form => list.form.push((parameter, at)),
                ParameterPlace::Body if list.body.is_some() => {
                    return Err(place.fault("a request has one body; two parameters are in `body`"));
                }
                ParameterPlace::Body => list.body = Some((written, parameter, at)),
            }
            if list.body.is_some() && !list.form.is_empty() {
                return Err(
                    place.fault("a request cannot have a parameter in `body` and another in `formData`")
                );
            }
        }
        Ok(())
    }

    fn request_body(
        &self,
        list: &ParameterList<'_>,
        own_consumes: Option<&[&str]>,
        path_place: &SwaggerPlace<'_>,
        place: &SwaggerPlace<'_>,
    ) -> Result<Option<Value>, String> {
        let (of_path, of_operation) = (path_place.field("parameters"), place.field("parameters"));
        let place_of = |at: SideIndex| match at.is_of_path {
            true => of_path.item(at.index),
            false => of_operation.item(at.index),
        };
        let consumes = own_consumes.unwrap_or(&self.consumes);
        if let Some((written, parameter, at)) = list.body {
            // A shared body has the media types of the root.
            if let (Some(name), None) = (shared_name(written, "parameters"), own_consumes) {
                return Ok(Some(json!({ "$ref": format!("#/components/requestBodies/{name}") })));
            }
            return self.body(parameter, consumes, &place_of(at)).map(Some);
        }
        if list.form.is_empty() {
            return Ok(None);
        }
        let fields: Vec<_> = list.form.iter().map(|(field, at)| (*field, place_of(*at))).collect();
        self.form(&fields, consumes).map(Some)
    }

    fn responses(
        &self,
        value: &Value,
        own_produces: Option<&[&str]>,
        place: &SwaggerPlace<'_>,
    ) -> Result<Value, String> {
        let mut written = SwaggerObject::new();
        for (code, response) in place.object(value)? {
            let place = place.field(code);
            let response = match shared_name(response, "responses") {
                _ if code.starts_with("x-") => self.copy(response, &place)?,
                // A shared response has the media types of the root.
                Some(name) if own_produces.is_none() => {
                    self.charge(2, &place)?;
                    json!({ "$ref": format!("#/components/responses/{name}") })
                }
                _ => self.response(response, own_produces.unwrap_or(&self.produces), &place)?,
            };
            written.insert(code.clone(), response);
        }
        Ok(Value::Object(written))
    }
}

/// Adds the body or the fields of the form that the path has for all of its operations. Other parameters stay
/// at the path, because OpenAPI 3 has them there as well.
fn inherit<'v>(list: &mut ParameterList<'v>, shared: &ParameterList<'v>) {
    if list.body.is_some() {
        return;
    }
    let own: Vec<_> = list.form.iter().map(|(field, _)| parameter_key(field)).collect();
    let inherited: Vec<_> =
        shared.form.iter().filter(|(field, _)| !own.contains(&parameter_key(field))).copied().collect();
    if own.is_empty() {
        list.body = shared.body;
    }
    list.form.splice(0..0, inherited);
}
