// Tests of the checker: in preparation.
