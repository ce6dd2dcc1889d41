// Package residency decides which weights are on a device: what to load next, and what makes room for it.
//
// Weights are chunks: tensors, or several small ones together. A chunk may belong to many models, and it is chunks
// that come and go, so a model is loaded by what it lacks and is displaced by as much as is needed. One channel
// brings them in, one chunk after the other, while the device runs what is there.
//
// Lanes, models with something waiting, are ordered by one key in seconds, the least first (see Work). The same key
// says what runs, what is loaded and what makes room: the absent lane of least key is loaded, to its end, and
// displaces only chunks whose best user has a greater key than it. There is no minimum stay: what a lane would have
// to load is in its key, which is hysteresis enough.
//
// Six ways to stand still are excluded. A model that is partly loaded has no say in what is evicted, or two halves would
// hold each other for ever. The channel is to be asked before the device picks, or a lane that always has work is
// never displaced. A load that only a running pass holds up keeps its turn, or loads begin and none ends. Nothing is
// displaced by a lane of a greater key, or all do it in turn. A work area is held by a pass and not by its model, or the
// largest one is always missing. And a load leaves room for the pass of any better lane that is there, or that one
// is displaced before it has run.
//
// The package is pure: it knows no clock and sends nothing. Time is in seconds, memory in bytes.
package residency
