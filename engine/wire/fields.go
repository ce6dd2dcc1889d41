package wire

import "github.com/prefillonly/prefillonly/engine"

func (m *Hello) encode(w *writer) {
	w.string("role", string(m.Role))
	w.string("name", m.Name)
	w.uint("epoch", m.Epoch)
	if m.Executor != nil {
		w.object("executor", m.Executor)
	}
	if m.State != nil {
		w.object("state", m.State)
	}
}

func (m *Hello) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "role":
		m.Role = Role(r.string())
	case "name":
		m.Name = r.string()
	case "epoch":
		m.Epoch = r.uint()
	case "executor":
		m.Executor = new(ExecutorInfo)
		r.object(m.Executor)
	case "state":
		m.State = new(ExecutorState)
		r.object(m.State)
	default:
		return false
	}
	return true
}

func (m *ExecutorInfo) encode(w *writer) {
	w.string("device", m.Device)
	w.string("model", m.Model)
	w.string("fingerprint", m.Fingerprint)
	w.int("vocab", int64(m.VocabSize))
	w.int("max_len", int64(m.MaxModelLen))
	w.int("block_tokens", int64(m.BlockTokens))
	w.int("blocks", int64(m.NumBlocks))
	w.int("pass_rows", int64(m.MaxPassRows))
	w.bool("pause", m.CanPause)
	w.bool("parts", m.CopiesParts)
	w.int("layers", int64(m.Layers))
	w.duration("cost_base", m.CostBase)
	w.duration("cost_token", m.CostToken)
	w.float64("cost_pair", m.CostPair)
	w.int("host_blocks", int64(m.HostBlocks))
	w.duration("cost_load", m.CostLoad)
}

func (m *ExecutorInfo) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "device":
		m.Device = r.string()
	case "model":
		m.Model = r.string()
	case "fingerprint":
		m.Fingerprint = r.string()
	case "vocab":
		m.VocabSize = r.count()
	case "max_len":
		m.MaxModelLen = r.count()
	case "block_tokens":
		m.BlockTokens = r.count()
	case "blocks":
		m.NumBlocks = r.count()
	case "pass_rows":
		m.MaxPassRows = r.count()
	case "pause":
		m.CanPause = r.bool()
	case "parts":
		m.CopiesParts = r.bool()
	case "layers":
		m.Layers = r.count()
	case "cost_base":
		m.CostBase = r.duration()
	case "cost_token":
		m.CostToken = r.duration()
	case "cost_pair":
		m.CostPair = r.float64()
	case "host_blocks":
		m.HostBlocks = r.count()
	case "cost_load":
		m.CostLoad = r.duration()
	default:
		return false
	}
	return true
}

func (m *Welcome) encode(w *writer) {
	w.uint("epoch", m.Epoch)
	writeItems(w, "executors", m.Executors)
	w.int("waiting", int64(m.Waiting))
	w.int("running", int64(m.Running))
	w.float64("cache_used", m.CacheUsed)
	if m.Stats != (Stats{}) {
		w.object("stats", &m.Stats)
	}
	w.counts("pass_tokens", m.PassTokens)
	writeItems(w, "states", m.States)
}

func (m *Welcome) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "epoch":
		m.Epoch = r.uint()
	case "executors":
		m.Executors = readItems[ExecutorInfo](r)
	case "waiting":
		m.Waiting = r.count()
	case "running":
		m.Running = r.count()
	case "cache_used":
		m.CacheUsed = r.float64()
	case "stats":
		r.object(&m.Stats)
	case "pass_tokens":
		m.PassTokens = r.counts()
	case "states":
		m.States = readItems[ExecutorState](r)
	default:
		return false
	}
	return true
}

// writeItems writes a list that is not empty as an array of maps.
func writeItems[T any, P interface {
	*T
	body
}](w *writer, key string, items []T) {
	if len(items) == 0 {
		return
	}
	w.array(key, len(items))
	for i := range items {
		w.item(P(&items[i]))
	}
}

// readItems reads an array of maps. It grows with what is read, not with the claimed length.
func readItems[T any, P interface {
	*T
	body
}](r *reader) []T {
	n := r.arrayLen()
	var items []T
	for range n {
		var item T
		if r.object(P(&item)); r.err != nil {
			return nil
		}
		items = append(items, item)
	}
	return items
}

func (m *Stats) encode(w *writer) {
	w.uint("passes", m.Passes)
	w.uint("preemptions", m.Preemptions)
	w.uint("retries", m.Retries)
	w.uint("prefix_queries", m.PrefixQueries)
	w.uint("prefix_hits", m.PrefixHits)
	w.uint("evictions", m.Evictions)
	w.uint("refused_jobs", m.RefusedJobs)
	w.uint("refused_tokens", m.RefusedTokens)
	w.uint("refused_time", m.RefusedTime)
	w.uint("computed", m.ComputedTokens)
	w.uint("executor_lost", m.ExecutorLost)
	w.uint("host_queries", m.HostQueries)
	w.uint("host_hits", m.HostHits)
}

func (m *Stats) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "passes":
		m.Passes = r.uint()
	case "preemptions":
		m.Preemptions = r.uint()
	case "retries":
		m.Retries = r.uint()
	case "prefix_queries":
		m.PrefixQueries = r.uint()
	case "prefix_hits":
		m.PrefixHits = r.uint()
	case "evictions":
		m.Evictions = r.uint()
	case "refused_jobs":
		m.RefusedJobs = r.uint()
	case "refused_tokens":
		m.RefusedTokens = r.uint()
	case "refused_time":
		m.RefusedTime = r.uint()
	case "computed":
		m.ComputedTokens = r.uint()
	case "executor_lost":
		m.ExecutorLost = r.uint()
	case "host_queries":
		m.HostQueries = r.uint()
	case "host_hits":
		m.HostHits = r.uint()
	default:
		return false
	}
	return true
}

func (m *Submit) encode(w *writer) {
	w.uint("job", uint64(m.Job))
	w.string("model", m.Model)
	frame(w, "tokens", m.Tokens)
	w.int("max_tokens", int64(m.MaxTokens))
	w.words("stop", m.StopTokens)
	w.object("ask", (*askBody)(&m.Ask))
	w.string("user", m.User)
	w.string("salt", m.Salt)
	w.int("priority", int64(m.Priority))
	w.duration("deadline", m.Deadline)
	w.duration("waited", m.Waited)
}

func (m *Submit) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "job":
		m.Job = engine.JobID(r.uint())
	case "model":
		m.Model = r.string()
	case "tokens":
		m.Tokens = readFrame[engine.TokenID](r)
	case "max_tokens":
		m.MaxTokens = r.count()
	case "stop":
		m.StopTokens = r.words()
	case "ask":
		r.object((*askBody)(&m.Ask))
	case "user":
		m.User = r.string()
	case "salt":
		m.Salt = r.string()
	case "priority":
		m.Priority = r.int()
	case "deadline":
		m.Deadline = r.duration()
	case "waited":
		m.Waited = r.duration()
	default:
		return false
	}
	return true
}

func (m *Cancel) encode(w *writer) { w.uint("job", uint64(m.Job)) }

func (m *Cancel) decode(r *reader, key []byte) bool {
	if string(key) != "job" {
		return false
	}
	m.Job = engine.JobID(r.uint())
	return true
}

func (m *Reset) encode(w *writer) { w.uint("serial", m.Serial) }

func (m *Reset) decode(r *reader, key []byte) bool {
	if string(key) != "serial" {
		return false
	}
	m.Serial = r.uint()
	return true
}

func (m *ResetDone) encode(w *writer) {
	w.uint("serial", m.Serial)
	w.int("dropped", int64(m.Dropped))
	w.int("held", int64(m.Held))
}

func (m *ResetDone) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "serial":
		m.Serial = r.uint()
	case "dropped":
		m.Dropped = r.count()
	case "held":
		m.Held = r.count()
	default:
		return false
	}
	return true
}

func (m *Result) encode(w *writer) {
	w.uint("job", uint64(m.Job))
	w.int("index", int64(m.Index))
	if m.Answer != nil {
		w.object("answer", (*answerBody)(m.Answer))
	}
	w.promptScores("prompt", m.Prompt)
	w.int("cached", int64(m.Cached))
	w.uint("finish", uint64(m.Finish))
	w.duration("queued", m.Timing.Queued)
	w.duration("running", m.Timing.Running)
	if m.Err != nil {
		w.object("err", (*errorBody)(m.Err))
	}
}

func (m *Result) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "job":
		m.Job = engine.JobID(r.uint())
	case "index":
		m.Index = r.count()
	case "answer":
		m.Answer = new(engine.Answer)
		r.object((*answerBody)(m.Answer))
	case "prompt":
		m.Prompt = r.promptScores()
	case "cached":
		m.Cached = r.count()
	case "finish":
		m.Finish = engine.Finish(r.small(uint64(engine.FinishLength)))
	case "queued":
		m.Timing.Queued = r.duration()
	case "running":
		m.Timing.Running = r.duration()
	case "err":
		m.Err = new(engine.Error)
		r.object((*errorBody)(m.Err))
	default:
		return false
	}
	return true
}

func (m *Pause) encode(w *writer)                   { w.uint("pass", uint64(m.Pass)) }
func (m *Pause) decode(r *reader, key []byte) bool  { return decodePass(r, key, &m.Pass) }
func (m *Resume) encode(w *writer)                  { w.uint("pass", uint64(m.Pass)) }
func (m *Resume) decode(r *reader, key []byte) bool { return decodePass(r, key, &m.Pass) }
func (m *Abort) encode(w *writer)                   { w.uint("pass", uint64(m.Pass)) }
func (m *Abort) decode(r *reader, key []byte) bool  { return decodePass(r, key, &m.Pass) }

func decodePass(r *reader, key []byte, pass *PassID) bool {
	if string(key) != "pass" {
		return false
	}
	*pass = PassID(r.uint())
	return true
}

func (m *Paused) encode(w *writer) {
	w.uint("pass", uint64(m.Pass))
	w.int("layer", int64(m.Layer))
}

func (m *Paused) decode(r *reader, key []byte) bool {
	if string(key) == "layer" {
		m.Layer = r.count()
		return true
	}
	return decodePass(r, key, &m.Pass)
}

func (m *Done) encode(w *writer) {
	w.uint("pass", uint64(m.Pass))
	writeItems(w, "items", m.Items)
	w.duration("took", m.Took)
	if m.Err != nil {
		w.object("err", (*errorBody)(m.Err))
	}
}

func (m *Done) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "items":
		m.Items = readItems[ItemResult](r)
	case "took":
		m.Took = r.duration()
	case "err":
		m.Err = new(engine.Error)
		r.object((*errorBody)(m.Err))
	default:
		return decodePass(r, key, &m.Pass)
	}
	return true
}

func (m *ItemResult) encode(w *writer) {
	w.uint("job", uint64(m.Job))
	if m.Answer != nil {
		w.object("answer", (*answerBody)(m.Answer))
	}
	w.promptScores("prompt", m.Prompt)
	if m.Err != nil {
		w.object("err", (*errorBody)(m.Err))
	}
}

func (m *ItemResult) decode(r *reader, key []byte) bool {
	switch string(key) {
	case "job":
		m.Job = engine.JobID(r.uint())
	case "answer":
		m.Answer = new(engine.Answer)
		r.object((*answerBody)(m.Answer))
	case "prompt":
		m.Prompt = r.promptScores()
	case "err":
		m.Err = new(engine.Error)
		r.object((*errorBody)(m.Err))
	default:
		return false
	}
	return true
}
