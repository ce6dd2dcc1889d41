package wire

import (
	"github.com/prefillonly/prefillonly/engine"
)

// The fields of each message, and of its parts: their keys, and the order in which they are written.

func (m *Hello) fields(f *fields) {
	f.string("role", (*string)(&m.Role))
	f.string("name", &m.Name)
	number(f, "epoch", &m.Epoch)
	number(f, "models", &m.Models)
	pointer(f, "executor", &m.Executor)
	pointer(f, "state", &m.State)
}

func (m *ExecutorInfo) fields(f *fields) {
	f.string("device", &m.Device)
	number(f, "memory", &m.Memory)
	f.float64("load_rate", &m.LoadRate)
	f.bool("pause", &m.CanPause)
	f.bool("nests", &m.Nests)
	f.bool("aside", &m.Aside)
	f.weights("weights", &m.Weights)
	list(f, "models", &m.Models)
}

func (m *ModelInfo) fields(f *fields) {
	f.string("name", &m.Name)
	f.string("fingerprint", &m.Fingerprint)
	f.string("reason", &m.Reason)
	frame(f, "weights", &m.Weights)
	number(f, "work", &m.Work)
	upTo(f, "keep", &m.Keep, KeepAlways)
	f.duration("idle", &m.Idle)
	f.duration("step", &m.Step)
	f.object("cost", &m.Cost)
	pointer(f, "tokens", &m.Tokens)
	pointer(f, "tensors", &m.Tensors)
}

func (m *Cost) fields(f *fields) {
	f.duration("base", &m.Base)
	f.duration("unit", &m.Unit)
	f.float64("pair", &m.Pair)
	f.duration("load", &m.Load)
}

func (m *TokenLimits) fields(f *fields) {
	f.count("vocab", &m.VocabSize)
	f.count("max_len", &m.MaxModelLen)
	f.count("block_tokens", &m.BlockTokens)
	f.count("blocks", &m.NumBlocks)
	f.count("host_blocks", &m.HostBlocks)
	f.count("pass_rows", &m.MaxPassRows)
	f.bool("parts", &m.CopiesParts)
	f.count("hidden", &m.Hidden)
	f.count("labels", &m.Labels)
	f.bool("vectors_only", &m.VectorsOnly)
}

func (m *TensorLimits) fields(f *fields) {
	list(f, "inputs", &m.Inputs)
	list(f, "outputs", &m.Outputs)
	f.count("pass_items", &m.MaxPassItems)
	f.count("elements", &m.Elements)
	f.float64("growth", &m.Growth)
	f.float64("backward", &m.Backward)
}

func (m *TensorSpec) fields(f *fields) {
	f.string("name", &m.Name)
	number(f, "type", &m.Type)
	f.shape("shape", &m.Shape)
}

func (m *Welcome) fields(f *fields) {
	number(f, "epoch", &m.Epoch)
	number(f, "models", &m.Models)
	list(f, "served", &m.Served)
	f.object("pool", &m.Pool)
	list(f, "stats", &m.Stats)
	list(f, "states", &m.States)
}

func (m *Served) fields(f *fields) {
	f.string("name", &m.Name)
	upTo(f, "state", &m.State, ModelFailed)
	f.string("reason", &m.Reason)
	f.count("executors", &m.Executors)
	f.count("loaded", &m.Loaded)
	number(f, "bytes", &m.Bytes)
	upTo(f, "keep", &m.Keep, KeepAlways)
	f.duration("step", &m.Step)
	f.object("cost", &m.Cost)
	pointer(f, "tokens", &m.Tokens)
	pointer(f, "tensors", &m.Tensors)
}

func (m *Stats) fields(f *fields) {
	number(f, "preemptions", &m.Preemptions)
	number(f, "retries", &m.Retries)
	number(f, "executor_lost", &m.ExecutorLost)
	number(f, "nested", &m.Nested)
	number(f, "weight_bytes", &m.WeightBytes)
	number(f, "weight_used", &m.WeightUsed)
	number(f, "refused_jobs", &m.RefusedJobs)
	number(f, "refused_tokens", &m.RefusedTokens)
	number(f, "refused_time", &m.RefusedTime)
	number(f, "refused_utilisation", &m.RefusedUtilisation)
}

func (m *ModelStats) fields(f *fields) {
	f.string("model", &m.Model)
	f.count("waiting", &m.Waiting)
	f.count("running", &m.Running)
	f.count("lowest", &m.Lowest)
	f.float64("cache_used", &m.CacheUsed)
	number(f, "passes", &m.Passes)
	number(f, "computed", &m.ComputedUnits)
	f.duration("pass_time", &m.PassTime)
	number(f, "prefix_queries", &m.PrefixQueries)
	number(f, "prefix_hits", &m.PrefixHits)
	number(f, "host_queries", &m.HostQueries)
	number(f, "host_hits", &m.HostHits)
	number(f, "evictions", &m.Evictions)
	number(f, "loads", &m.Loads)
	number(f, "drops", &m.Drops)
	number(f, "loaded_bytes", &m.LoadedBytes)
	f.duration("load_time", &m.LoadTime)
	number(f, "late", &m.Late)
	number(f, "superseded", &m.Superseded)
	f.counts("pass_units", &m.PassUnits)
}

func (m *ExecutorState) fields(f *fields) {
	f.string("name", &m.Name)
	number(f, "loaded", &m.Loaded)
	number(f, "to_load", &m.ToLoad)
	f.string("gpu", &m.GPU)
	f.string("uuid", &m.UUID)
	list(f, "readings", &m.Readings)
	f.string("device", &m.Device)
	list(f, "passes", &m.Passes)
}

func (m *PassState) fields(f *fields) {
	f.string("model", &m.Model)
	f.count("jobs", &m.Jobs)
	number(f, "units", &m.Units)
	f.duration("ran", &m.Ran)
	upTo(f, "place", &m.Place, PassLowest)
}

func (m *Reading) fields(f *fields) {
	f.string("name", &m.Name)
	f.float64("value", &m.Value)
}

func (m *Submit) fields(f *fields) {
	number(f, "job", &m.ID)
	f.string("model", &m.Model)
	variant(f, "tokens", &m.Work, func(t *engine.Tokens) body { return (*tokensBody)(t) })
	variant(f, "tensors", &m.Work, func(t *engine.Tensors) body { return (*tensorsBody)(t) })
	f.string("user", &m.User)
	f.string("salt", &m.Salt)
	f.string("stream", &m.Stream)
	f.bool("promised", &m.Promised)
	number(f, "request", &m.Request)
	f.signed("priority", &m.Priority)
	f.duration("deadline", &m.Deadline)
	f.duration("waited", &m.Waited)
}

func (m *Next) fields(f *fields) {
	number(f, "job", &m.Job)
	f.count("generated", &m.Generated)
	frame(f, "tokens", &m.Tokens)
	f.tokenSet("allowed", "allowed_bits", &m.Allowed)
	f.bool("open", &m.Open)
}

func (m *Cancel) fields(f *fields) { number(f, "job", &m.Job) }

func (m *Result) fields(f *fields) {
	number(f, "job", &m.Job)
	outputs(f, &m.Output)
	upTo(f, "finish", &m.Finish, engine.FinishLength)
	f.duration("queued", &m.Timing.Queued)
	f.duration("loading", &m.Timing.Loading)
	f.duration("running", &m.Timing.Running)
	f.string("executor", &m.Timing.Executor)
	failure(f, &m.Err)
}

func (m *Reset) fields(f *fields) { number(f, "serial", &m.Serial) }

func (m *ResetDone) fields(f *fields) {
	number(f, "serial", &m.Serial)
	f.count("dropped", &m.Dropped)
	f.count("held", &m.Held)
}

func (m *SetModel) fields(f *fields) {
	number(f, "serial", &m.Serial)
	f.string("model", &m.Model)
	f.bool("unload", &m.Unload)
}

func (m *ModelSet) fields(f *fields) {
	number(f, "serial", &m.Serial)
	failure(f, &m.Err)
}

func (m *Refused) fields(f *fields) {
	number(f, "version", &m.Version)
	f.string("release", &m.Release)
}

func (m *Run) fields(f *fields) {
	number(f, "pass", &m.Pass)
	f.string("model", &m.Model)
	f.bool("nested", &m.Nested)
	f.bool("lowest", &m.Lowest)
	f.copies("saves", &m.Saves)
	f.copies("loads", &m.Loads)
	list(f, "items", &m.Items)
}

func (m *RunItem) fields(f *fields) {
	number(f, "job", &m.Job)
	variant(f, "tokens", &m.Work, func(t *TokenItem) body { return t })
	variant(f, "tensors", &m.Work, func(t *TensorItem) body { return (*tensorsBody)(&t.Tensors) })
}

func (m *TokenItem) fields(f *fields) {
	f.count("from", &m.From)
	frame(f, "tokens", &m.Tokens)
	f.count("cached", &m.Cached)
	frame(f, "blocks", &m.Blocks)
	number(f, "part_block", &m.Part.Block)
	f.count("part_tokens", &m.Part.Tokens)
	f.count("known", &m.Known)
	f.count("draw", &m.Draw)
	f.object("ask", (*askBody)(&m.Ask))
}

func (m *Pause) fields(f *fields)  { number(f, "pass", &m.Pass) }
func (m *Resume) fields(f *fields) { number(f, "pass", &m.Pass) }
func (m *Abort) fields(f *fields)  { number(f, "pass", &m.Pass) }

func (m *Paused) fields(f *fields) {
	number(f, "pass", &m.Pass)
	f.float64("share", &m.Share)
	f.bool("prepares", &m.Prepares)
}

func (m *Done) fields(f *fields) {
	number(f, "pass", &m.Pass)
	list(f, "items", &m.Items)
	f.duration("took", &m.Took)
	failure(f, &m.Err)
}

func (m *ItemResult) fields(f *fields) {
	number(f, "job", &m.Job)
	outputs(f, &m.Output)
	failure(f, &m.Err)
}

func (m *Load) fields(f *fields) {
	number(f, "serial", &m.Serial)
	f.string("model", &m.Model)
	frame(f, "weights", &m.Weights)
}

func (m *Drop) fields(f *fields) { frame(f, "weights", &m.Weights) }

func (m *Loaded) fields(f *fields) {
	number(f, "serial", &m.Serial)
	f.count("count", &m.Count)
	f.duration("took", &m.Took)
	failure(f, &m.Err)
}

// These are the parts that are structs of package engine, which knows nothing of the wire.
type (
	tokensBody       engine.Tokens
	tensorsBody      engine.Tensors
	gradBody         engine.Grad
	refBody          engine.Ref
	tokenOutputBody  engine.TokenOutput
	askBody          engine.Ask
	tensorOutputBody engine.TensorOutput
	answerBody       engine.Answer
	errorBody        engine.Error
)

func (m *tokensBody) fields(f *fields) {
	frame(f, "ids", &m.IDs)
	f.count("generated", &m.Generated)
	f.count("max", &m.Max)
	f.bool("open", &m.Open)
	f.words("stop", &m.Stop)
	f.object("ask", (*askBody)(&m.Ask))
}

func (m *tensorsBody) fields(f *fields) {
	tensors(f, "inputs", &m.Inputs)
	f.strings("outputs", &m.Outputs)
	partOf(f, "grad", &m.Grad, func(g *engine.Grad) body { return (*gradBody)(g) })
	f.float64("frames", &m.Frames)
}

func (m *gradBody) fields(f *fields) {
	tensors(f, "seeds", &m.Seeds)
	f.strings("inputs", &m.Inputs)
}

// tensors is a list of references to tensors.
func tensors(f *fields, key string, v *[]engine.Ref) {
	field(f, key, v,
		func(w *writer, key string, refs []engine.Ref) {
			bodies := make([]refBody, len(refs))
			for i, ref := range refs {
				bodies[i] = refBody(ref)
			}
			writeItems(w, key, bodies)
		},
		func(r *reader) (refs []engine.Ref) {
			for _, b := range readItems[refBody](r) {
				refs = append(refs, engine.Ref(b))
			}
			return refs
		})
}

func (m *refBody) fields(f *fields) {
	f.string("name", &m.Name)
	number(f, "type", &m.Type)
	f.shape("shape", &m.Shape)
	f.string("blob", &m.Blob)
}

// outputs is what was found for a job.
func outputs(f *fields, v *engine.Output) {
	variant(f, "token", v, func(o *engine.TokenOutput) body { return (*tokenOutputBody)(o) })
	variant(f, "tensors", v, func(o *engine.TensorOutput) body { return (*tensorOutputBody)(o) })
}

func (m *tensorOutputBody) fields(f *fields) { tensors(f, "outputs", &m.Outputs) }

func (m *tokenOutputBody) fields(f *fields) {
	f.count("index", &m.Index)
	partOf(f, "answer", &m.Answer, func(a *engine.Answer) body { return (*answerBody)(a) })
	f.promptScores("prompt", &m.Prompt)
	frame(f, "vector", &m.Vector)
	f.count("cached", &m.Cached)
}

func (m *askBody) fields(f *fields) {
	f.count("top", &m.Top)
	f.words("labels", &m.Labels)
	f.tokenSet("allowed", "allowed_bits", &m.Allowed)
	f.biases("bias", &m.Bias)
	f.bans("bans", &m.Bans)
	f.float32("temperature", &m.Temperature)
	f.float32("top_p", &m.TopP)
	f.count("top_k", &m.TopK)
	f.float32("min_p", &m.MinP)
	number(f, "seed", &m.Seed)
	f.bool("prompt", &m.PromptLogprobs)
	f.count("prompt_top", &m.PromptTop)
	f.count("prompt_from", &m.PromptFrom)
	upTo(f, "pool", &m.Pool, engine.PoolAll)
	f.bool("head", &m.Head)
	f.count("second", &m.Second)
}

func (m *answerBody) fields(f *fields) {
	number(f, "token", &m.Token)
	f.float32("logprob", &m.Logprob)
	f.logprobs("top", &m.Top)
	f.logprobs("labels", &m.Labels)
}

// failure is why something failed, if it did.
func failure(f *fields, v **engine.Error) {
	partOf(f, "err", v, func(e *engine.Error) body { return (*errorBody)(e) })
}

func (m *errorBody) fields(f *fields) {
	number(f, "code", &m.Code)
	f.string("message", &m.Message)
	f.duration("retry_after", &m.RetryAfter)
}
