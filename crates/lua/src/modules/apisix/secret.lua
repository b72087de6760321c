-- apisix.secret: references to secrets. The gateway resolves those of configurations before a plugin sees them.
local _, native = ...
local core = require("apisix.core")
local pairs, type = pairs, type
local sub, upper = string.sub, string.upper

local PREFIX, ENV_PREFIX = "$secret://", "$ENV://"
local M = {}

function M.is_secret_ref(value, schema)
    if type(value) ~= "string" or sub(value, 1, 1) ~= "$" then
        return false
    end
    if schema and schema.type and schema.type ~= "string" then
        return false
    end
    return sub(value, 1, #PREFIX) == PREFIX or upper(sub(value, 1, #ENV_PREFIX)) == ENV_PREFIX
end

local function each_reference(value, met, call)
    if met[value] then
        return
    end
    met[value] = true
    for key, item in pairs(value) do
        if type(item) == "table" then
            each_reference(item, met, call)
        elseif M.is_secret_ref(item) then
            call(key, item)
        end
    end
end

function M.has_secret_ref(conf)
    local found = false
    if type(conf) == "table" then
        each_reference(conf, {}, function() found = true end)
    end
    return found
end

-- A copy of `refs`. A reference that is still there had no value when the configuration was compiled; it is logged and kept.
function M.fetch_secrets(refs)
    if type(refs) ~= "table" then
        return nil
    end
    each_reference(refs, {}, function(field, reference)
        core.log.error("failed to resolve secret reference: ", reference, ", field: ", field)
    end)
    return core.table.deepcopy(refs)
end

function M.fetch_by_uri()
    return nil, "not available in Weir: apisix.secret.fetch_by_uri; a reference in a configuration is resolved"
end

return native.complete("apisix.secret", M)
