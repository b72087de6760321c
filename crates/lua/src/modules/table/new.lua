-- table.new: a table; room for entries is not taken in advance.
return function()
    return {}
end
