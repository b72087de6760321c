-- resty.sha256: the digest SHA-256 of parts.
local _, native = ...

return require("weir.digest")(function(data) return native.digest("sha256", data) end)
