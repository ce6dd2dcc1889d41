package residency

// Work orders demands. Its key is in seconds of the device, for one frame or one job; the least goes first. Waiting makes it
// smaller, so that none starves. Load is the seconds of loading still to be paid for, and back those that it takes
// to load again what other demands would lose by it.
//
// Two kinds of work share the order. A frame that waits dies, so waiting is counted by demand and what is fair is an equal
// share of frames (Frames). A request that waits lives, so waiting is counted by job (Requests).
type Work interface {
	Key(load, back float64) float64
}
