-- resty.sha384: the digest SHA-384 of parts.
local _, native = ...

return require("weir.digest")(function(data) return native.digest("sha384", data) end)
