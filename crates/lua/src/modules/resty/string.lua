-- resty.string: hexadecimal texts.
local _, native = ...

return {
    _VERSION = "0.16",
    to_hex = native.to_hex,
    atoi = function(text) return tonumber(text:match("^%s*([+-]?%d+)")) or 0 end,
}
