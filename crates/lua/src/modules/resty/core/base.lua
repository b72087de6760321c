-- resty.core.base: numbers that functions of `ngx` return
return { version = "0.1.29", FFI_OK = 0, FFI_ERROR = -1, FFI_DONE = -4, FFI_DECLINED = -5, FFI_AGAIN = -2 }
