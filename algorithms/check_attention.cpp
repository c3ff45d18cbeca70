// The checker: tiles of the symbolic run; filled as soon as the build lists it.
