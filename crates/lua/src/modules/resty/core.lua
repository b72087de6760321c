-- resty.core: its additions to `ngx` are there already.
return { version = "0.1.29" }
