-- apisix.core.schema: checks values against JSON Schemas and fills defaults in.
local _, native = ...
local definitions = require("apisix.schema_def")
local deepcopy = require("apisix.core.table").deepcopy
local error, ipairs, pairs, setmetatable, type = error, ipairs, pairs, setmetatable, type

-- Schemas inside each other of which defaults are filled in.
local DEPTH_MAX = 64

local M = { version = 0.3, TYPE_CONSUMER = 1, TYPE_METADATA = 2 }

-- Compiled schemas; an entry goes with its schema.
local compiled = setmetatable({}, { __mode = "k" })

local function checker(schema)
    local known = compiled[schema]
    if known then
        return known
    end
    local check, reason = native.compile_schema(schema)
    if not check then
        return nil, reason
    end
    compiled[schema] = check
    return check
end

local fill

local function fill_fields(schema, value, depth)
    for name, inner in pairs(schema.properties or {}) do
        if type(inner) == "table" then
            if value[name] == nil and inner.default ~= nil then
                value[name] = deepcopy(inner.default)
            end
            if type(value[name]) == "table" then
                fill(inner, value[name], depth + 1)
            end
        end
    end
    local others = schema.additionalProperties
    if type(others) == "table" then
        for name, item in pairs(value) do
            if type(item) == "table" and not (schema.properties and schema.properties[name]) then
                fill(others, item, depth + 1)
            end
        end
    end
    if type(schema.items) == "table" then
        for _, item in ipairs(value) do
            if type(item) == "table" then
                fill(schema.items, item, depth + 1)
            end
        end
    end
end

local function accepts(schema, value)
    local check = type(schema) == "table" and checker(schema)
    return check and check(value)
end

-- Puts the defaults of `schema` into the table `value`: those of its fields, of all of `allOf`, of the branch of `if` that
-- holds, and of the first alternative that accepts the value.
function fill(schema, value, depth)
    if depth > DEPTH_MAX then
        error("schemas are nested too deeply", 0)
    end
    fill_fields(schema, value, depth)
    for _, inner in ipairs(schema.allOf or {}) do
        fill(inner, value, depth + 1)
    end
    for _, keyword in ipairs({ "oneOf", "anyOf" }) do
        for _, inner in ipairs(schema[keyword] or {}) do
            if accepts(inner, value) then
                fill(inner, value, depth + 1)
                break
            end
        end
    end
    if type(schema["if"]) == "table" then
        local branch = schema[accepts(schema["if"], value) and "then" or "else"]
        if type(branch) == "table" then
            fill(branch, value, depth + 1)
        end
    end
    local dependencies = schema.dependencies
    if type(dependencies) == "table" then
        for name, inner in pairs(dependencies) do
            if value[name] ~= nil and type(inner) == "table" and #inner == 0 then
                fill(inner, value, depth + 1)
            end
        end
    end
end

-- True, or false and the first fault. Defaults are put into `value`.
function M.check(schema, value)
    local check, reason = checker(schema)
    if not check then
        return false, reason
    end
    if type(value) == "table" then
        fill(schema, value, 1)
    end
    return check(value)
end

function M.valid(schema)
    local check, reason = checker(schema)
    if not check then
        return nil, reason
    end
    return function(value)
        return M.check(schema, value)
    end
end

return setmetatable(M, {
    __index = definitions,
    __newindex = function() error("no modification allowed", 2) end,
})
