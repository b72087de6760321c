-- resty.jwt: JSON Web Tokens with HS256, HS384, HS512, RS256, RS384, RS512, ES256 and ES384.
local _, native = ...
local match, type = string.match, type

local M = { _VERSION = "0.2.3" }

-- The longest token, in bytes.
local TOKEN_BYTES_MAX = 16384
local CODES = { HS256 = "sha256", HS384 = "sha384", HS512 = "sha512" }

local function part_of(text)
    local bytes = native.base64url_decode(text)
    local value = bytes and native.json_decode(bytes)
    return type(value) == "table" and value or nil
end

-- The parts of a token; `valid` says whether it has the form of one.
function M:load_jwt(token)
    local object = { valid = false, verified = false, raw_token = token }
    if type(token) ~= "string" or #token > TOKEN_BYTES_MAX then
        object.reason = "invalid jwt string"
        return object
    end
    object.raw_header, object.raw_payload, object.raw_signature = match(token, "^([^.]+)%.([^.]+)%.([^.]*)$")
    if not object.raw_header then
        object.reason = "invalid jwt string"
        return object
    end
    object.header, object.payload = part_of(object.raw_header), part_of(object.raw_payload)
    object.signature = native.base64url_decode(object.raw_signature)
    if not object.header then
        object.reason = "invalid header: " .. object.raw_header
    elseif not object.payload then
        object.reason = "invalid payload: " .. object.raw_payload
    elseif not object.signature then
        object.reason = "invalid signature"
    else
        object.valid = true
        object.reason = nil
    end
    return object
end

local function signature_of(secret, algorithm, data)
    if CODES[algorithm] then
        return native.hmac(CODES[algorithm], secret, data)
    end
    return native.sign(algorithm, secret, data)
end

-- The token of `object.header` and `object.payload`; an error where the key or the algorithm does not fit.
function M:sign(secret, object)
    local header = { typ = object.header.typ or "JWT", alg = object.header.alg or "HS256" }
    for name, value in pairs(object.header) do
        header[name] = value
    end
    local data = native.base64url_encode(native.json_encode(header)) .. "."
        .. native.base64url_encode(native.json_encode(object.payload))
    local signature, reason = signature_of(secret, header.alg, data)
    if not signature then
        error({ reason = reason }, 2)
    end
    return data .. "." .. native.base64url_encode(signature)
end

local function is_signed(secret, object)
    local algorithm, data = object.header.alg, object.raw_header .. "." .. object.raw_payload
    if CODES[algorithm] then
        return native.equal(native.hmac(CODES[algorithm], secret, data), object.signature)
    end
    -- A public key is no secret: a token with a code must not be checked against it, nor one with a signature against a secret.
    return native.verify(tostring(algorithm), secret, data, object.signature)
end

-- Seconds by which the clocks of the issuer and of this machine may differ.
local leeway = 0

function M:set_leeway(seconds)
    leeway = seconds
end

-- Checks the signature and the times of a loaded token.
function M:verify_jwt_obj(secret, object)
    if not object.valid then
        return object
    end
    if type(secret) == "function" then
        secret = secret(object.header.kid)
    end
    if type(secret) ~= "string" or (CODES[object.header.alg] and secret:find("-----BEGIN ", 1, true)) then
        object.reason = "the key does not fit the algorithm"
        return object
    end
    local ok, reason = is_signed(secret, object)
    if not ok then
        object.reason = reason or ("signature mismatch: " .. object.raw_signature)
        return object
    end
    local now, expires, begins = ngx.time(), object.payload.exp, object.payload.nbf
    if expires ~= nil and (type(expires) ~= "number" or now > expires + leeway) then
        object.reason = "'exp' claim expired at " .. tostring(type(expires) == "number" and ngx.http_time(expires) or expires)
        return object
    elseif begins ~= nil and (type(begins) ~= "number" or now < begins - leeway) then
        object.reason = "'nbf' claim not valid until " .. tostring(type(begins) == "number" and ngx.http_time(begins) or begins)
        return object
    end
    object.verified, object.reason = true, "verified"
    return object
end

function M:verify(secret, token)
    return self:verify_jwt_obj(secret, self:load_jwt(token))
end

return native.complete("resty.jwt", M)
