-- resty.core: what it adds to `ngx` is there already.
return { version = "0.1.29" }
