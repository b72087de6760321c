-- resty.hmac: codes that authenticate data which comes in parts.
local _, native = ...
local concat, setmetatable, type = table.concat, setmetatable, type
local byte, char, rep = string.byte, string.char, string.rep

local Hmac = {
    _VERSION = "0.06",
    ALGOS = { MD5 = "md5", SHA1 = "sha1", SHA224 = "sha224", SHA256 = "sha256", SHA384 = "sha384", SHA512 = "sha512" },
}
local of_codes = { __index = Hmac, __metatable = false }
local known = {}
for _, name in pairs(Hmac.ALGOS) do
    known[name] = true
end

-- Bytes of a block of MD5.
local MD5_BLOCK = 64

local function padded(key, with)
    local bytes = {}
    for index = 1, MD5_BLOCK do
        bytes[index] = char(bit.bxor(byte(key, index) or 0, with))
    end
    return concat(bytes)
end

local function md5_code(key, data)
    if #key > MD5_BLOCK then
        key = ngx.md5_bin(key)
    end
    key = key .. rep("\0", MD5_BLOCK - #key)
    return ngx.md5_bin(padded(key, 0x5c) .. ngx.md5_bin(padded(key, 0x36) .. data))
end

function Hmac:new(key, algorithm)
    algorithm = algorithm or Hmac.ALGOS.MD5
    if type(key) ~= "string" or not known[algorithm] then
        return nil
    end
    return setmetatable({ key = key, algorithm = algorithm, parts = {} }, of_codes)
end

function Hmac:update(part)
    self.parts[#self.parts + 1] = part
    return true
end

function Hmac:final(part, is_hex)
    if part then
        self:update(part)
    end
    local data, code = concat(self.parts), nil
    if self.algorithm == "md5" then
        code = md5_code(self.key, data)
    else
        code = native.hmac(self.algorithm, self.key, data)
    end
    return is_hex and native.to_hex(code) or code
end

function Hmac:reset()
    self.parts = {}
    return true
end

return Hmac
