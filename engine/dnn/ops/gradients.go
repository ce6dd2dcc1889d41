package ops

// gradients are by operation.
var gradients = map[string]gradient{}
