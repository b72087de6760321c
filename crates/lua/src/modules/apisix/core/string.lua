-- apisix.core.string: the functions of `string`, and comparisons without patterns.
local byte, find, sub = string.byte, string.find, string.sub
local error, type = error, type

local M = setmetatable({ version = 0.1 }, { __index = string })

function M.find(text, part, from)
    return find(text, part, from or 1, true)
end

local function expect_texts(text, part, name)
    if type(text) ~= "string" or type(part) ~= "string" then
        error("unexpected type: s:" .. type(text) .. ", " .. name .. ":" .. type(part), 3)
    end
end

function M.has_prefix(text, prefix)
    expect_texts(text, prefix, "prefix")
    return sub(text, 1, #prefix) == prefix
end

function M.has_suffix(text, suffix)
    expect_texts(text, suffix, "suffix")
    return suffix == "" or (#text >= #suffix and sub(text, -#suffix) == suffix)
end

-- The place of the last `char` up to `from`, or nothing.
function M.rfind_char(text, char, from)
    local wanted = byte(char)
    for index = from or #text, 1, -1 do
        if byte(text, index) == wanted then
            return index
        end
    end
    return nil
end

-- A script for Redis without indentation.
function M.compress_script(text)
    text = ngx.re.gsub(text, [[^\s+]], "", "mjo")
    return (ngx.re.gsub(text, [[,\s+]], ",", "mjo"))
end

function M.decode_args(text)
    return ngx.decode_args(text, 0)
end

function M.encode_args(args)
    return ngx.encode_args(args)
end

return M
