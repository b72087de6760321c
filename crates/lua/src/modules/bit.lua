-- bit: operations on bits.
return bit
