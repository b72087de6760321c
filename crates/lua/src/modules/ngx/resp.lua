-- ngx.resp: adds values to headers of the response.
return { version = "0.1.29", add_header = ngx.resp.add_header }
