-- cjson: JSON; numbers are doubles; values that cannot be read or written are errors.
local _, native = ...
local error, setmetatable = error, setmetatable

local function strict(call)
    return function(value)
        local result, reason = call(value)
        if result == nil then
            error(reason, 2)
        end
        return result
    end
end

local function ignore() end

local M = native.complete("cjson", {
    _NAME = "cjson", _VERSION = "2.1.0",
    null = native.null, array_mt = native.array_mt, empty_array_mt = native.array_mt,
    empty_array = setmetatable({}, native.array_mt),
    decode = strict(native.json_decode), encode = strict(native.json_encode),
    -- Settings are those of APISIX for all scripts.
    decode_array_with_array_mt = ignore, encode_escape_forward_slash = ignore, encode_empty_table_as_object = ignore,
    encode_number_precision = ignore, encode_sparse_array = ignore, encode_max_depth = ignore,
    decode_max_depth = ignore, encode_invalid_numbers = ignore, decode_invalid_numbers = ignore,
    new = function() return require("cjson") end,
})
native.returns_shared[M.new] = true

return M
