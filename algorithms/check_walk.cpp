// The checker: the checker lets a plan happen; filled as soon as the build lists it.
