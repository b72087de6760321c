-- cjson.safe: JSON; values that cannot be read or written give nothing and a reason.
local _, native = ...
local strict = require("cjson")
local type = type

local M = {}
for name, value in pairs(strict) do
    M[name] = value
end
M._NAME = "cjson.safe"
M.encode = native.json_encode

function M.decode(text)
    if type(text) ~= "string" then
        return nil, "bad argument #1 to 'decode' (string expected, got " .. type(text) .. ")"
    end
    return native.json_decode(text)
end

function M.new()
    return require("cjson.safe")
end
native.returns_shared[M.new] = true

return native.complete("cjson.safe", M)
