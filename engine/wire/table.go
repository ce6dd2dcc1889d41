package wire

import (
	"github.com/prefillonly/prefillonly/engine"
)

// The fields of each message, and of its parts: their keys, and the order in which they are written.

func (m *Hello) fields(f *fields) {
	f.visitString("role", (*string)(&m.Role))
	f.visitString("name", &m.Name)
	visitUint(f, "epoch", &m.Epoch)
	visitUint(f, "models", &m.Models)
	visitPointer(f, "executor", &m.Executor)
	visitPointer(f, "state", &m.State)
}

func (m *ExecutorInfo) fields(f *fields) {
	f.visitString("device", &m.Device)
	visitUint(f, "memory", &m.Memory)
	f.visitFloat64("load_rate", &m.LoadRate)
	f.visitBool("pause", &m.CanPause)
	f.visitBool("nests", &m.Nests)
	f.visitBool("aside", &m.Aside)
	f.visitWeights("weights", &m.Weights)
	visitList(f, "models", &m.Models)
}

func (m *ModelInfo) fields(f *fields) {
	f.visitString("name", &m.Name)
	f.visitString("fingerprint", &m.Fingerprint)
	f.visitString("reason", &m.Reason)
	visitFrame(f, "weights", &m.Weights)
	visitUint(f, "work", &m.Work)
	upTo(f, "keep", &m.Keep, KeepAlways)
	f.visitDuration("idle", &m.Idle)
	f.visitDuration("step", &m.Step)
	f.visitObject("cost", &m.Cost)
	visitPointer(f, "tokens", &m.Tokens)
	visitPointer(f, "tensors", &m.Tensors)
}

func (m *Cost) fields(f *fields) {
	f.visitDuration("base", &m.Base)
	f.visitDuration("unit", &m.Unit)
	f.visitFloat64("pair", &m.Pair)
	f.visitDuration("load", &m.Load)
}

func (m *TokenLimits) fields(f *fields) {
	f.count("vocab", &m.VocabSize)
	f.count("max_len", &m.MaxModelLen)
	f.count("block_tokens", &m.BlockTokens)
	f.count("blocks", &m.NumBlocks)
	f.count("host_blocks", &m.HostBlocks)
	f.count("pass_rows", &m.MaxPassRows)
	f.visitBool("parts", &m.CopiesParts)
	f.count("hidden", &m.Hidden)
	f.count("labels", &m.Labels)
	f.visitBool("vectors_only", &m.VectorsOnly)
}

func (m *TensorLimits) fields(f *fields) {
	visitList(f, "inputs", &m.Inputs)
	visitList(f, "outputs", &m.Outputs)
	f.count("pass_items", &m.MaxPassItems)
	f.count("elements", &m.Elements)
	f.visitFloat64("growth", &m.Growth)
	f.visitFloat64("backward", &m.Backward)
}

func (m *TensorSpec) fields(f *fields) {
	f.visitString("name", &m.Name)
	visitUint(f, "type", &m.Type)
	f.visitShape("shape", &m.Shape)
}

func (m *Welcome) fields(f *fields) {
	visitUint(f, "epoch", &m.Epoch)
	visitUint(f, "models", &m.Models)
	visitList(f, "served", &m.Served)
	f.visitObject("pool", &m.Pool)
	visitList(f, "stats", &m.Stats)
	visitList(f, "states", &m.States)
}

func (m *Served) fields(f *fields) {
	f.visitString("name", &m.Name)
	upTo(f, "state", &m.State, ModelFailed)
	f.visitString("reason", &m.Reason)
	f.count("executors", &m.Executors)
	f.count("loaded", &m.Loaded)
	visitUint(f, "bytes", &m.Bytes)
	upTo(f, "keep", &m.Keep, KeepAlways)
	f.visitDuration("step", &m.Step)
	f.visitObject("cost", &m.Cost)
	visitPointer(f, "tokens", &m.Tokens)
	visitPointer(f, "tensors", &m.Tensors)
}

func (m *Stats) fields(f *fields) {
	visitUint(f, "preemptions", &m.Preemptions)
	visitUint(f, "retries", &m.Retries)
	visitUint(f, "executor_lost", &m.ExecutorLost)
	visitUint(f, "nested", &m.Nested)
	visitUint(f, "weight_bytes", &m.WeightBytes)
	visitUint(f, "weight_used", &m.WeightUsed)
	visitUint(f, "refused_jobs", &m.RefusedJobs)
	visitUint(f, "refused_tokens", &m.RefusedTokens)
	visitUint(f, "refused_time", &m.RefusedTime)
	visitUint(f, "refused_utilisation", &m.RefusedUtilisation)
}

func (m *ModelStats) fields(f *fields) {
	f.visitString("model", &m.Model)
	f.count("waiting", &m.Waiting)
	f.count("running", &m.Running)
	f.count("lowest", &m.Lowest)
	f.visitFloat64("cache_used", &m.CacheUsed)
	visitUint(f, "passes", &m.Passes)
	visitUint(f, "computed", &m.ComputedUnits)
	f.visitDuration("pass_time", &m.PassTime)
	visitUint(f, "prefix_queries", &m.PrefixQueries)
	visitUint(f, "prefix_hits", &m.PrefixHits)
	visitUint(f, "host_queries", &m.HostQueries)
	visitUint(f, "host_hits", &m.HostHits)
	visitUint(f, "evictions", &m.Evictions)
	visitUint(f, "loads", &m.Loads)
	visitUint(f, "drops", &m.Drops)
	visitUint(f, "loaded_bytes", &m.LoadedBytes)
	f.visitDuration("load_time", &m.LoadTime)
	visitUint(f, "late", &m.Late)
	visitUint(f, "superseded", &m.Superseded)
	f.visitCounts("pass_units", &m.PassUnits)
}

func (m *ExecutorState) fields(f *fields) {
	f.visitString("name", &m.Name)
	visitUint(f, "loaded", &m.Loaded)
	visitUint(f, "to_load", &m.ToLoad)
	f.visitString("gpu", &m.GPU)
	f.visitString("uuid", &m.UUID)
	visitList(f, "readings", &m.Readings)
	f.visitString("device", &m.Device)
	visitList(f, "passes", &m.Passes)
}

func (m *PassState) fields(f *fields) {
	f.visitString("model", &m.Model)
	f.count("jobs", &m.Jobs)
	visitUint(f, "units", &m.Units)
	f.visitDuration("ran", &m.Ran)
	upTo(f, "place", &m.Place, PassLowest)
}

func (m *Reading) fields(f *fields) {
	f.visitString("name", &m.Name)
	f.visitFloat64("value", &m.Value)
}

func (m *Submit) fields(f *fields) {
	visitUint(f, "job", &m.ID)
	f.visitString("model", &m.Model)
	visitVariant(f, "tokens", &m.Work, func(t *engine.Tokens) body { return (*tokensBody)(t) })
	visitVariant(f, "tensors", &m.Work, func(t *engine.Tensors) body { return (*tensorsBody)(t) })
	f.visitString("user", &m.User)
	f.visitString("salt", &m.Salt)
	f.visitString("stream", &m.Stream)
	f.visitBool("promised", &m.Promised)
	visitUint(f, "request", &m.Request)
	f.visitInt("priority", &m.Priority)
	f.visitDuration("deadline", &m.Deadline)
	f.visitDuration("waited", &m.Waited)
}

func (m *Next) fields(f *fields) {
	visitUint(f, "job", &m.Job)
	f.count("generated", &m.Generated)
	visitFrame(f, "tokens", &m.Tokens)
	f.tokenSet("allowed", "allowed_bits", &m.Allowed)
	f.visitBool("open", &m.Open)
}

func (m *Cancel) fields(f *fields) { visitUint(f, "job", &m.Job) }

func (m *Result) fields(f *fields) {
	visitUint(f, "job", &m.Job)
	visitOutput(f, &m.Output)
	upTo(f, "finish", &m.Finish, engine.FinishLength)
	f.visitDuration("queued", &m.Timing.Queued)
	f.visitDuration("loading", &m.Timing.Loading)
	f.visitDuration("running", &m.Timing.Running)
	f.visitString("executor", &m.Timing.Executor)
	visitFailure(f, &m.Err)
}

func (m *Reset) fields(f *fields) { visitUint(f, "serial", &m.Serial) }

func (m *ResetDone) fields(f *fields) {
	visitUint(f, "serial", &m.Serial)
	f.count("dropped", &m.Dropped)
	f.count("held", &m.Held)
}

func (m *SetModel) fields(f *fields) {
	visitUint(f, "serial", &m.Serial)
	f.visitString("model", &m.Model)
	f.visitBool("unload", &m.Unload)
}

func (m *ModelSet) fields(f *fields) {
	visitUint(f, "serial", &m.Serial)
	visitFailure(f, &m.Err)
}

func (m *Refused) fields(f *fields) {
	visitUint(f, "version", &m.Version)
	f.visitString("release", &m.Release)
}

func (m *Run) fields(f *fields) {
	visitUint(f, "pass", &m.Pass)
	f.visitString("model", &m.Model)
	f.visitBool("nested", &m.Nested)
	f.visitBool("lowest", &m.Lowest)
	f.visitCopies("saves", &m.Saves)
	f.visitCopies("loads", &m.Loads)
	visitList(f, "items", &m.Items)
}

func (m *RunItem) fields(f *fields) {
	visitUint(f, "job", &m.Job)
	visitVariant(f, "tokens", &m.Work, func(t *TokenItem) body { return t })
	visitVariant(f, "tensors", &m.Work, func(t *TensorItem) body { return (*tensorsBody)(&t.Tensors) })
}

func (m *TokenItem) fields(f *fields) {
	f.count("from", &m.From)
	visitFrame(f, "tokens", &m.Tokens)
	f.count("cached", &m.Cached)
	visitFrame(f, "blocks", &m.Blocks)
	visitUint(f, "part_block", &m.Part.Block)
	f.count("part_tokens", &m.Part.Tokens)
	f.count("known", &m.Known)
	f.count("draw", &m.Draw)
	f.visitObject("ask", (*askBody)(&m.Ask))
}

func (m *Pause) fields(f *fields)  { visitUint(f, "pass", &m.Pass) }
func (m *Resume) fields(f *fields) { visitUint(f, "pass", &m.Pass) }
func (m *Abort) fields(f *fields)  { visitUint(f, "pass", &m.Pass) }

func (m *Paused) fields(f *fields) {
	visitUint(f, "pass", &m.Pass)
	f.visitFloat64("share", &m.Share)
	f.visitBool("prepares", &m.Prepares)
}

func (m *Done) fields(f *fields) {
	visitUint(f, "pass", &m.Pass)
	visitList(f, "items", &m.Items)
	f.visitDuration("took", &m.Took)
	visitFailure(f, &m.Err)
}

func (m *ItemResult) fields(f *fields) {
	visitUint(f, "job", &m.Job)
	visitOutput(f, &m.Output)
	visitFailure(f, &m.Err)
}

func (m *Load) fields(f *fields) {
	visitUint(f, "serial", &m.Serial)
	f.visitString("model", &m.Model)
	visitFrame(f, "weights", &m.Weights)
}

func (m *Drop) fields(f *fields) { visitFrame(f, "weights", &m.Weights) }

func (m *Loaded) fields(f *fields) {
	visitUint(f, "serial", &m.Serial)
	f.count("count", &m.Count)
	f.visitDuration("took", &m.Took)
	visitFailure(f, &m.Err)
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
	visitFrame(f, "ids", &m.IDs)
	f.count("generated", &m.Generated)
	f.count("max", &m.Max)
	f.visitBool("open", &m.Open)
	f.visitWords("stop", &m.Stop)
	f.visitObject("ask", (*askBody)(&m.Ask))
}

func (m *tensorsBody) fields(f *fields) {
	visitTensorRefs(f, "inputs", &m.Inputs)
	f.visitStrings("outputs", &m.Outputs)
	partOf(f, "grad", &m.Grad, func(g *engine.Grad) body { return (*gradBody)(g) })
	f.visitFloat64("frames", &m.Frames)
}

func (m *gradBody) fields(f *fields) {
	visitTensorRefs(f, "seeds", &m.Seeds)
	f.visitStrings("inputs", &m.Inputs)
}

// visitTensorRefs is a list of references to tensors.
func visitTensorRefs(f *fields, key string, v *[]engine.Ref) {
	visitField(f, key, v,
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
	f.visitString("name", &m.Name)
	visitUint(f, "type", &m.Type)
	f.visitShape("shape", &m.Shape)
	f.visitString("blob", &m.Blob)
}

// visitOutput is what was found for a job.
func visitOutput(f *fields, v *engine.Output) {
	visitVariant(f, "token", v, func(o *engine.TokenOutput) body { return (*tokenOutputBody)(o) })
	visitVariant(f, "tensors", v, func(o *engine.TensorOutput) body { return (*tensorOutputBody)(o) })
}

func (m *tensorOutputBody) fields(f *fields) { visitTensorRefs(f, "outputs", &m.Outputs) }

func (m *tokenOutputBody) fields(f *fields) {
	f.count("index", &m.Index)
	partOf(f, "answer", &m.Answer, func(a *engine.Answer) body { return (*answerBody)(a) })
	f.promptScores("prompt", &m.Prompt)
	visitFrame(f, "vector", &m.Vector)
	f.count("cached", &m.Cached)
}

func (m *askBody) fields(f *fields) {
	f.count("top", &m.Top)
	f.visitWords("labels", &m.Labels)
	f.tokenSet("allowed", "allowed_bits", &m.Allowed)
	f.visitTokenBiases("bias", &m.Bias)
	f.visitBans("bans", &m.Bans)
	f.visitFloat32("temperature", &m.Temperature)
	f.visitFloat32("top_p", &m.TopP)
	f.count("top_k", &m.TopK)
	f.visitFloat32("min_p", &m.MinP)
	visitUint(f, "seed", &m.Seed)
	f.visitBool("prompt", &m.PromptLogprobs)
	f.count("prompt_top", &m.PromptTop)
	f.count("prompt_from", &m.PromptFrom)
	upTo(f, "pool", &m.Pool, engine.PoolAll)
	f.visitBool("head", &m.Head)
	f.count("second", &m.Second)
	f.visitString("adapter", &m.Adapter)
}

func (m *answerBody) fields(f *fields) {
	visitUint(f, "token", &m.Token)
	f.visitFloat32("logprob", &m.Logprob)
	f.visitTokenLogprobs("top", &m.Top)
	f.visitTokenLogprobs("labels", &m.Labels)
}

// visitFailure is why something failed, if it did.
func visitFailure(f *fields, v **engine.Error) {
	partOf(f, "err", v, func(e *engine.Error) body { return (*errorBody)(e) })
}

func (m *errorBody) fields(f *fields) {
	visitUint(f, "code", &m.Code)
	f.visitString("message", &m.Message)
	f.visitDuration("retry_after", &m.RetryAfter)
}
