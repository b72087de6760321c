-- ngx.req: adds values to headers of the request.
return { version = "0.1.29", add_header = ngx.req.add_header }
