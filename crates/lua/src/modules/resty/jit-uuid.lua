-- resty.jit-uuid: universally unique identifiers.
local _, native = ...
local byte, char, format, sub = string.byte, string.char, string.format, string.sub
local setmetatable, type = setmetatable, type

local M = { _VERSION = "0.0.7" }

local function written(bytes, version)
    bytes = sub(bytes, 1, 6) .. char(byte(bytes, 7) % 16 + version * 16) .. sub(bytes, 8, 8)
        .. char(byte(bytes, 9) % 64 + 128) .. sub(bytes, 10, 16)
    local hex = native.to_hex(bytes)
    return format("%s-%s-%s-%s-%s", sub(hex, 1, 8), sub(hex, 9, 12), sub(hex, 13, 16), sub(hex, 17, 20), sub(hex, 21))
end

-- Random numbers come from the operating system, so that there is nothing to seed.
function M.seed() end

function M.generate_v4()
    return written(native.random(16), 4)
end

function M.is_valid(text)
    if type(text) ~= "string" or #text ~= 36 then
        return false
    end
    local hex = text:match("^%x%x%x%x%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%-%x%x%x%x%x%x%x%x%x%x%x%x$")
    return hex ~= nil
end

local function named(digest, version)
    return function(namespace, name)
        if not M.is_valid(namespace) then
            return nil, "namespace must be a valid UUID"
        elseif type(name) ~= "string" then
            return nil, "name must be a string"
        end
        return written(digest(native.from_hex((namespace:gsub("-", ""))) .. name), version)
    end
end

local function factory(generate)
    return function(namespace)
        if not M.is_valid(namespace) then
            return nil, "namespace must be a valid UUID"
        end
        return function(name)
            return generate(namespace, name)
        end
    end
end

M.generate_v3 = named(function(data) return ngx.md5_bin(data) end, 3)
M.generate_v5 = named(function(data) return native.digest("sha1", data) end, 5)
M.factory_v3, M.factory_v5 = factory(M.generate_v3), factory(M.generate_v5)

return setmetatable(M, { __call = M.generate_v4, __tostring = M.generate_v4 })
