package cuda

// Trial is trial, for the tests that need a device which this package's own cannot import.
var Trial = trial
