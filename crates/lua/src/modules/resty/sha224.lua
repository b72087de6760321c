-- resty.sha224: the digest SHA-224 of parts.
local _, native = ...

return require("weir.digest")(function(data) return native.digest("sha224", data) end)
