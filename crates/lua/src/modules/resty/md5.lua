-- resty.md5: the digest MD5 of parts.
return require("weir.digest")(ngx.md5_bin)
