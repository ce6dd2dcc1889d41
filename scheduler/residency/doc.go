// Package residency decides which weights are on a device: what to load next, and what makes room for it.
//
// Weights are chunks: tensors, or several small ones together. A chunk may belong to many models, and it is chunks
// that come and go, so a model is loaded by what it lacks and is displaced by as much as is needed. One channel
// brings them in, one chunk after the other, while the device runs what is there.
//
// Demands, models with something waiting, are ordered by one key in seconds, the least first (see Work). The same key
// says what runs, what is loaded and what makes room: the absent demand of least key is loaded, to its end, and
// displaces only chunks whose best user has a greater key than it. There is no minimum stay: what a demand would have
// to load is in its key, which is hysteresis enough.
//
// Six ways to stand still are excluded. A model that is partly loaded has no say in what is evicted, or two halves would
// hold each other for ever. The channel is to be asked before the device picks, or a demand that always has work is
// never displaced. A load that only a running pass holds up keeps its turn, or loads begin and none ends. Nothing is
// displaced by a demand of a greater key, or all do it in turn. A work area is held by a pass and not by its model, or the
// largest one is always missing. And a load leaves room for the pass of any better demand that is there, or that one
// is displaced before it has run.
//
// Memory is that rule. Loader carries it out for an executor: which models are there, are kept there or have failed to
// come, and what the executor is told to load and to drop. Reservations are the streams whose deadlines are promised on a
// device, by a test of utilisation for frames that run in the order of their deadlines, beside other work whose steps they
// wait for. What they need is there before all else.
//
// The package is pure: it knows no clock and sends nothing. Time is in seconds, memory in bytes.
package residency
