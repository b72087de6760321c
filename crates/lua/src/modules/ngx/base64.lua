-- ngx.base64: the URL-safe alphabet without padding.
local _, native = ...

return {
    version = "0.1.29",
    encode_base64url = function(text)
        if type(text) ~= "string" then
            return nil, "must provide a string"
        end
        return native.base64url_encode(text)
    end,
    decode_base64url = function(text)
        if type(text) ~= "string" then
            return nil, "must provide a string"
        end
        local bytes = native.base64url_decode(text)
        if not bytes then
            return nil, "invalid input"
        end
        return bytes
    end,
}
