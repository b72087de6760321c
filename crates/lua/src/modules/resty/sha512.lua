-- resty.sha512: the digest SHA-512 of parts.
local _, native = ...

return require("weir.digest")(function(data) return native.digest("sha512", data) end)
