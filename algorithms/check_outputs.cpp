// The checker: what must stand at the end of the symbolic run; filled as soon as the build lists it.
