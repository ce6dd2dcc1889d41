// Package executors is the executors that there are, with an instance of each model that one serves: which executor a job goes
// to, which of the jobs that wait there share its next pass, which passes make way for others, and which weights are called
// for.
//
// Fleet registers what executors tell of themselves, keeps a Pool of the instances of each model, and routes jobs to
// instances. Executor decides what runs next on one device: it takes the best job of its instances (pick.go), fills the
// pass with others where their company pays (Packing), pauses or nests passes for those that overtake, and calls for weights by
// residency's order. Instance is a model on an executor, with the jobs that wait there: its queues, the frames of streams
// (FrameQueue) and its PrefixCache. ScoreCache, shared by all, keeps the log-probabilities of prompts' positions.
//
// It is one package because a job, the instance where it waits, the pass that it shares and the executor that runs it decide
// together: divided, they pass the same values round in circles.
//
// The package is pure: it knows no clock, and what it sends is left in Shared.Out.
package executors
