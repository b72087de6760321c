-- The functions that compiled templates call. It gets the functions of Rust and the library.
local native, library = ...

local error, rawget, select, setfenv, setmetatable, type = error, rawget, select, setfenv, setmetatable, type
local concat, copy = table.concat, library.copy
local gsub, tostring, null = library.strings.gsub, library.basics.tostring, native.null

local ENTITIES = {
    ["&"] = "&amp;", ["<"] = "&lt;", [">"] = "&gt;", ['"'] = "&quot;", ["'"] = "&#39;", ["/"] = "&#47;",
    ["{"] = "&#123;", ["}"] = "&#125;",
}

-- The functions that compiled templates call.
local template = {}

function template.output(value)
    if value == nil or value == null then
        return ""
    end
    if type(value) == "function" then
        return template.output(value())
    end
    return tostring(value)
end

function template.escape(value, escapes_braces)
    if type(value) ~= "string" then
        return template.output(value)
    end
    return (gsub(value, escapes_braces and "[}{\">/<'&]" or "[\">/<'&]", ENTITIES))
end

-- The function `echo` of a template that collects its texts in `parts`.
local function echo_into(parts)
    return function(...)
        for index = 1, select("#", ...) do
            parts[#parts + 1] = tostring((select(index, ...)))
        end
    end
end

-- Renders a compiled template. Names are looked up in the context, among the functions of templates, and in the globals of
-- the script; what the template assigns is gone afterwards.
local function render(chunk, own_globals, fields)
    local functions = copy(template)
    local scope = setmetatable({ context = fields, template = functions }, {
        __index = function(_, name)
            return fields[name] or functions[name] or own_globals[name]
        end,
    })
    setfenv(chunk, scope)
    local text = chunk(fields, template.escape, template.output, concat, echo_into)
    if rawget(scope, "layout") ~= nil then
        error("a template cannot have a layout", 0)
    end
    return text
end

return { render = render }
